"""Iceberg's metadata tables, with the columns of Iceberg's Java implementation.

`files`, `entries`, `manifests`, `partitions` and the like show the selected snapshot; the others show the whole table.
The `all_...` tables cover the manifests of every snapshot in the metadata.
"""

from __future__ import annotations

from collections.abc import Callable

from lakescan.formats.metadata_table import MetadataTable, no_such_table
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.metadata_tables.entries import EntriesTable
from lakescan.iceberg.metadata_tables.manifests import AllManifestsTable, ManifestsTable
from lakescan.iceberg.metadata_tables.partitions import IcebergPartitionsTable
from lakescan.iceberg.metadata_tables.position_deletes import PositionDeletesTable
from lakescan.iceberg.metadata_tables.snapshots import (
    history_table,
    metadata_log_table,
    refs_table,
    snapshots_table,
)
from lakescan.storage import Storage

Builder = Callable[[TableMetadata, Storage, IcebergSnapshot | None], MetadataTable]


def _entries(*, data: bool = True, deletes: bool = True, every: bool = False, as_files: bool = False) -> Builder:
    def build(metadata: TableMetadata, storage: Storage, snapshot: IcebergSnapshot | None) -> MetadataTable:
        snapshots = list(metadata.snapshots.values()) if every else [s for s in [snapshot] if s is not None]
        return EntriesTable(metadata, storage, tuple(snapshots), data=data, deletes=deletes, as_files=as_files)

    return build


METADATA_TABLES: dict[str, Builder] = {
    "entries": _entries(),
    "files": _entries(as_files=True),
    "data_files": _entries(as_files=True, deletes=False),
    "delete_files": _entries(as_files=True, data=False),
    "history": lambda metadata, *_: history_table(metadata),
    "metadata_log_entries": lambda metadata, *_: metadata_log_table(metadata),
    "snapshots": lambda metadata, *_: snapshots_table(metadata),
    "refs": lambda metadata, *_: refs_table(metadata),
    "manifests": ManifestsTable,
    "partitions": IcebergPartitionsTable,
    "all_data_files": _entries(as_files=True, deletes=False, every=True),
    "all_delete_files": _entries(as_files=True, data=False, every=True),
    "all_files": _entries(as_files=True, every=True),
    "all_manifests": lambda metadata, storage, _: AllManifestsTable(metadata, storage),
    "all_entries": _entries(every=True),
    "position_deletes": PositionDeletesTable,
}
# The tables that show the selected snapshot.
OF_SNAPSHOT = frozenset(
    ("entries", "files", "data_files", "delete_files", "manifests", "partitions", "position_deletes")
)


def metadata_table(
    name: str, metadata: TableMetadata, storage: Storage, snapshot: IcebergSnapshot | None
) -> MetadataTable:
    """Return the metadata table `name`; raises `InvalidOption`, with the nearest valid name, for an unknown one."""
    if name not in METADATA_TABLES:
        raise no_such_table(name, METADATA_TABLES)
    return METADATA_TABLES[name](metadata, storage, snapshot)
