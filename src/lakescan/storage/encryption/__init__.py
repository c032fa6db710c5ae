"""Keys of encrypted tables, and the AES GCM streams that their files are (Iceberg specification, "Encryption Keys").

A key manager holds the table's key. That key wraps key encryption keys, these encrypt the key metadata of manifest
lists, and from there on each file says the keys of those below it: manifest list, manifest, data and delete file.
"""

from lakescan.storage.encryption.key_manager import FileKey, KeyManager, StandardKeyManager, named_key_manager

__all__ = ["FileKey", "KeyManager", "StandardKeyManager", "named_key_manager"]
