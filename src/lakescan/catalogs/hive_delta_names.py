"""Names of Delta tables in a Hive metastore, as Spark registers them there."""

from __future__ import annotations

import getpass
import os
import time
from dataclasses import dataclass
from typing import Any

from lakescan.catalogs.hive_client import HiveClient
from lakescan.catalogs.metastore_entry import PROVIDER, MetastoreEntry
from lakescan.catalogs.registry import location_limits
from lakescan.common.identifiers import dotted_name
from lakescan.errors import NoSuchTable, StorageError, UnsupportedFeature
from lakescan.storage import Storage
from lakescan.storage.issued import storage_properties
from lakescan.storage.locations import split_location
from lakescan.storage.put_if_absent import NotCreated

# What Spark says of tables that Hive cannot read: the columns are in the table's log.
_COLUMN = ("col", "array<string>", "from deserializer")
_FORMATS = {
    "inputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "outputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
}
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


@dataclass(frozen=True)
class HiveDeltaNames:
    """The Delta tables of pyiceberg's Hive catalog; their columns stay in their logs."""

    catalog: Any

    def location(self, name: tuple[str, ...]) -> str | None:
        """The table's location, or None if there is no Delta table of that name."""
        found = self._entry(name)
        return found.location if found is not None and found.is_delta else None

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """The names of a database's Delta tables, sorted."""
        found = self._client.tables(namespace[0]) if len(namespace) == 1 else []
        return sorted(str(each.tableName) for each in found if _entry_of(each).is_delta)

    def other(self, name: tuple[str, ...]) -> str | None:
        """What has the name, if it is neither an Iceberg nor a Delta table; else None."""
        found = self._entry(name)
        return None if found is None else found.other("Hive")

    def add(self, name: tuple[str, ...], location: str) -> None:
        """Register a table; raises `TableExists` and `NoSuchNamespace`.

        Its folder is made first. Of two writers that register a table at the same time, the metastore, which would make
        the folder itself, would remove that of the winner, with all that is in it by then, as it refuses the other one.
        """
        from hive_metastore.ttypes import FieldSchema, SerDeInfo, StorageDescriptor, Table

        place = absolute_location(location)
        try:
            allowed = location_limits(self.catalog.name)
            Storage(io_properties=storage_properties(self.catalog.properties), allowed=allowed).make_folder(place)
        except StorageError as error:
            raise NotCreated(str(error)) from error
        serde = SerDeInfo(serializationLib=_SERDE, parameters={"path": place, "serialization.format": "1"})
        now = int(time.time())
        table = Table(
            dbName=name[0],
            tableName=name[1],
            owner=getpass.getuser(),
            createTime=now,
            lastAccessTime=now,
            sd=StorageDescriptor(cols=[FieldSchema(*_COLUMN)], location=place, serdeInfo=serde, **_FORMATS),
            partitionKeys=[],
            parameters={PROVIDER: "delta", "EXTERNAL": "TRUE"},
            tableType="EXTERNAL_TABLE",
        )
        self._client.create(table)

    def remove(self, name: tuple[str, ...]) -> None:
        """Unregister a table, if it is registered as a Delta table; its files stay."""
        if self.location(name) is not None:
            self._client.drop(name)

    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Give a table another name, and keep all else that is registered of it.

        Raises `TableExists`, `NoSuchTable`, and `UnsupportedFeature` for a table whose files would be moved.
        """
        table = self._client.table(name)
        if table is None or not (entry := _entry_of(table)).is_delta:
            raise NoSuchTable(f"catalog {self.catalog.name!r} has no Delta table {dotted_name(name)!r}")
        if entry.is_managed:
            raise UnsupportedFeature(
                f"renaming {dotted_name((self.catalog.name, *name))}, a managed table of its Hive metastore",
                "The metastore would move its files away from those who read and write them. Rename it in Spark, while "
                "nobody does.",
            )
        table.dbName, table.tableName = new
        self._client.alter(name, table)

    @property
    def _client(self) -> HiveClient:
        return HiveClient(self.catalog)

    def _entry(self, name: tuple[str, ...]) -> MetastoreEntry | None:
        found = self._client.table(name) if len(name) == 2 else None  # a metastore has databases, and tables in them
        return None if found is None else _entry_of(found)


def absolute_location(location: str) -> str:
    """A location that means the same to every process: a local path is one of this machine, not of the metastore's."""
    scheme, _, path = split_location(location)
    return f"file://{os.path.abspath(path)}" if scheme == "file" else location


def _entry_of(table: Any) -> MetastoreEntry:
    storage = table.sd
    serde = None if storage is None else storage.serdeInfo
    path = None if serde is None else (serde.parameters or {}).get("path")
    stored = None if storage is None else storage.location
    return MetastoreEntry(table.parameters or {}, str(table.tableType or ""), stored or None, path or None)
