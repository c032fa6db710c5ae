"""Access to files by location: in local folders, object stores and HDFS, relocated if the table was moved.

`Storage` opens, lists and deletes files. `clients` maps each kind of store to its client, and `settings` configures the
clients.
"""

from lakescan.storage.files import FileEntry, Storage, join

__all__ = ["FileEntry", "Storage", "join"]
