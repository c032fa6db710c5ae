"""Files by location: in local folders, object stores and HDFS, relocated if the table moved.

`Storage` opens, lists and removes them. `clients` says which client each kind of store has, `settings` how clients are
configured.
"""

from lakescan.storage.files import FileEntry, Storage, join

__all__ = ["FileEntry", "Storage", "join"]
