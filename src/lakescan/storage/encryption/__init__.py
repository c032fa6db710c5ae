"""Keys of encrypted tables, and their files' AES GCM streams (Iceberg specification, "Encryption Keys").

A key manager has the table's key, which wraps key encryption keys. These encrypt the key metadata of manifest lists.
Each file then contains the keys of the files that it lists: manifest lists of manifests, manifests of data and delete
files.
"""

from lakescan.storage.encryption.key_manager import FileKey, KeyManager, StandardKeyManager, named_key_manager

__all__ = ["FileKey", "KeyManager", "StandardKeyManager", "named_key_manager"]
