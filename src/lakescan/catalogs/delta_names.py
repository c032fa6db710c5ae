"""Registration of Delta tables in pyiceberg's catalogs, which themselves register only Iceberg tables."""

from __future__ import annotations

import getpass
import os
import time
from dataclasses import dataclass
from typing import Any, Protocol

from lakescan.catalogs.glue_catalog import GlueDeltaNames
from lakescan.catalogs.hive_metastore import PROVIDER, HiveClient, MetastoreEntry, is_hive
from lakescan.catalogs.lost_answers import commit_change
from lakescan.catalogs.registry import location_limits
from lakescan.catalogs.sql_catalog import SqlDeltaNames
from lakescan.common.identifiers import dotted_name
from lakescan.errors import NoSuchTable, StorageError, UnsupportedFeature
from lakescan.storage import Storage
from lakescan.storage.locations import normal, split_location
from lakescan.storage.put_if_absent import NotCreated
from lakescan.storage.settings.catalog_properties import storage_properties


class _Names(Protocol):
    def location(self, name: tuple[str, ...]) -> str | None: ...
    def names(self, namespace: tuple[str, ...]) -> list[str]: ...
    def other(self, name: tuple[str, ...]) -> str | None: ...
    def add(self, name: tuple[str, ...], location: str) -> None: ...
    def remove(self, name: tuple[str, ...]) -> None: ...
    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None: ...


def _no_table(catalog: str, name: tuple[str, ...]) -> NoSuchTable:
    return NoSuchTable(f"catalog {catalog!r} has no Delta table {dotted_name(name)!r}")


@dataclass(frozen=True)
class DeltaNames:
    """The Delta tables that a pyiceberg catalog of type sql, glue or hive registers. Other types have no Delta tables.

    Names are tuples of the namespace's levels and the table, without the catalog.
    """

    catalog: Any

    def location(self, name: tuple[str, ...]) -> str | None:
        """Return the location of a Delta table, or None if the catalog has no Delta table of that name."""
        return None if (kept := self._store) is None else kept.location(name)

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """Return the names of the Delta tables of a namespace, sorted; empty if it does not exist."""
        return [] if (kept := self._store) is None else kept.names(namespace)

    def other(self, name: tuple[str, ...]) -> str | None:
        """Describe an entry that is neither an Iceberg nor a Delta table, such as "a Hive view".

        None if the name is free, or is an Iceberg or Delta table.
        """
        return None if (kept := self._store) is None else kept.other(name)

    def check(self) -> None:
        """Raise `UnsupportedFeature` for a catalog that cannot register Delta tables."""
        if self._store is None:
            raise UnsupportedFeature(
                f"Delta tables in catalog {self.catalog.name!r}",
                "Only catalogs of the types sql, glue, hive and unity can register them; use the table's location.",
            )

    def add(self, name: tuple[str, ...], location: str) -> bool:
        """Register the Delta table at `location` under a name, and return whether this call did it.

        Returns False if the response was lost and the name has this location: another writer may have registered it.

        Raises `TableExists`, `CommitStateUnknown`, and `UnsupportedFeature` for a catalog that cannot register Delta
        tables.
        """
        self.check()
        kept = self._store
        assert kept is not None

        def is_made() -> bool | None:
            found = kept.location(name)
            return None if found is None else normal(absolute_location(found)) == normal(absolute_location(location))

        def add() -> bool:
            kept.add(name, location)
            return True

        return commit_change(self._doing("registering", name), add, is_made) or False

    def remove(self, name: tuple[str, ...]) -> None:
        """Unregister a Delta table, and keep its files. Does nothing if the name is not that of a Delta table.

        Raises `CommitStateUnknown`.
        """
        if (kept := self._store) is not None:
            is_made = lambda: True if kept.location(name) is None else None  # noqa: E731
            commit_change(self._doing("dropping", name), lambda: kept.remove(name), is_made)

    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Rename a registered Delta table, in a catalog that can register them (see `check`).

        Raises `NoSuchTable`, `TableExists` and `CommitStateUnknown`.
        """
        kept = self._store
        assert kept is not None
        if (location := kept.location(name)) is None:
            raise _no_table(self.catalog.name, name)

        def is_made() -> bool | None:
            return True if kept.location(new) == location and kept.location(name) is None else None

        commit_change(self._doing("renaming", name), lambda: kept.rename(name, new), is_made)

    def _doing(self, what: str, name: tuple[str, ...]) -> str:
        return f"{what} {'.'.join((self.catalog.name, *name))}"

    @property
    def _store(self) -> _Names | None:
        if (own := getattr(self.catalog, "delta_names", None)) is not None:  # Spark's own catalog
            found: _Names = own
            return found
        if hasattr(self.catalog, "engine"):
            return SqlDeltaNames(self.catalog)
        if is_hive(self.catalog):
            return HiveDeltaNames(self.catalog)
        return GlueDeltaNames(self.catalog) if hasattr(self.catalog, "glue") else None


# Spark's placeholder for tables that Hive cannot read: the columns are in the table's log.
_COLUMN = ("col", "array<string>", "from deserializer")
_FORMATS = {
    "inputFormat": "org.apache.hadoop.mapred.SequenceFileInputFormat",
    "outputFormat": "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat",
}
_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


@dataclass(frozen=True)
class HiveDeltaNames:
    """The Delta tables registered in pyiceberg's Hive catalog, by names (database, table).

    lakescan registers a placeholder instead of their columns, which are only in the tables' logs.
    """

    catalog: Any

    def location(self, name: tuple[str, ...]) -> str | None:
        """Return the location of a Delta table, or None if the metastore has no Delta table of that name."""
        found = self._entry(name)
        return found.location if found is not None and found.is_delta else None

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """Return the names of the Delta tables of a database, sorted; empty if it does not exist."""
        found = self._client.tables(namespace[0]) if len(namespace) == 1 else []
        return sorted(str(each.tableName) for each in found if _entry_of(each).is_delta)

    def other(self, name: tuple[str, ...]) -> str | None:
        """Describe the entry of a name, such as "a Hive view"; None if it is missing, or an Iceberg or Delta table."""
        found = self._entry(name)
        return None if found is None else found.other("Hive")

    def add(self, name: tuple[str, ...], location: str) -> None:
        """Register the Delta table at `location`; raises `TableExists`, `NoSuchNamespace`, and `NotCreated`.

        Creates the table's folder first; `NotCreated` means that this failed. Otherwise the metastore creates the
        folder, and when two writers register the same table, the metastore deletes the winner's folder with all its
        files while it refuses the other writer.
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
        """Unregister a table if it is registered as a Delta table. Its files are kept."""
        if self.location(name) is not None:
            self._client.drop(name)

    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Rename a Delta table in the metastore, and keep its other registered properties.

        Raises `TableExists`, `NoSuchTable`, and `UnsupportedFeature` for a managed table, whose files would be moved.
        """
        table = self._client.table(name)
        if table is None or not (entry := _entry_of(table)).is_delta:
            raise _no_table(self.catalog.name, name)
        if entry.is_managed:
            raise UnsupportedFeature(
                f"renaming {dotted_name((self.catalog.name, *name))}, a managed table of its Hive metastore",
                "The metastore would move its files while others may read or write them. Rename it in Spark while "
                "nobody uses it.",
            )
        table.dbName, table.tableName = new
        self._client.alter(name, table)

    @property
    def _client(self) -> HiveClient:
        return HiveClient(self.catalog)

    def _entry(self, name: tuple[str, ...]) -> MetastoreEntry | None:
        found = self._client.table(name) if len(name) == 2 else None  # names are (database, table)
        return None if found is None else _entry_of(found)


def absolute_location(location: str) -> str:
    """Return a local path as an absolute `file://` URI, the same for all processes; other locations unchanged."""
    scheme, _, path = split_location(location)
    return f"file://{os.path.abspath(path)}" if scheme == "file" else location


def _entry_of(table: Any) -> MetastoreEntry:
    storage = table.sd
    serde = None if storage is None else storage.serdeInfo
    path = None if serde is None else (serde.parameters or {}).get("path")
    stored = None if storage is None else storage.location
    return MetastoreEntry(table.parameters or {}, str(table.tableType or ""), stored or None, path or None)
