"""Registration of Delta tables in Glue, as Spark, Athena and Databricks register them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import local
from typing import Any

from lakescan.catalogs.hive_metastore import PROVIDER, MetastoreEntry
from lakescan.errors import NoSuchNamespace, NoSuchTable, TableExists

_DELTA = {PROVIDER: "delta", "table_type": "DELTA", "EXTERNAL": "TRUE"}
# The fields of an entry that a client sets. Glue sets all others.
_GIVEN = (
    "Description",
    "Owner",
    "LastAccessTime",
    "LastAnalyzedTime",
    "Retention",
    "StorageDescriptor",
    "PartitionKeys",
    "ViewOriginalText",
    "ViewExpandedText",
    "TableType",
    "Parameters",
    "TargetTable",
)


def is_glue(catalog: Any) -> bool:
    """Return whether a pyiceberg catalog is its `GlueCatalog` (AWS Glue), or a subclass."""
    return "GlueCatalog" in {each.__name__ for each in type(catalog).__mro__}


def keep_fields(catalog: Any) -> None:
    """Make a Glue catalog's commits to Iceberg tables keep the entries' other fields, such as owner and description.

    pyiceberg itself replaces the entry by a new one, made of the table's metadata only.
    """
    known = local()

    def get_glue_table(database_name: str, table_name: str) -> Any:
        found = type(catalog)._get_glue_table(catalog, database_name, table_name)
        known.entry = (database_name, table_name, found)
        return found

    def update_glue_table(database_name: str, table_name: str, table_input: Any, version_id: str) -> None:
        entry = getattr(known, "entry", None)
        if entry is not None and entry[:2] == (database_name, table_name):
            kept = {name: entry[2][name] for name in _GIVEN if name in entry[2] and name != "StorageDescriptor"}
            table_input = {**kept, **table_input}
        type(catalog)._update_glue_table(catalog, database_name, table_name, table_input, version_id)

    catalog._get_glue_table, catalog._update_glue_table = get_glue_table, update_glue_table


@dataclass(frozen=True)
class GlueDeltaNames:
    """The Delta tables registered in pyiceberg's Glue catalog, by names (database, table).

    lakescan registers them without columns, which are only in the tables' logs.
    """

    catalog: Any

    def location(self, name: tuple[str, ...]) -> str | None:
        """Return the location of a Delta table, or None if Glue has no Delta table of that name."""
        found = self._delta_table(name)
        return None if found is None else _entry_of(found).location

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """Return the names of the Delta tables of a database, sorted; empty if it does not exist."""
        return sorted(str(table["Name"]) for table in self._tables(namespace) if _entry_of(table).is_delta)

    def other(self, name: tuple[str, ...]) -> str | None:
        """Describe the entry of a name, such as "a Glue view"; None if it is missing, or an Iceberg or Delta table."""
        found = self._table(name)
        return None if found is None else _entry_of(found).other("Glue")

    def add(self, name: tuple[str, ...], location: str) -> None:
        """Register the Delta table at `location`; raises `TableExists` and `NoSuchNamespace`."""
        serde = {"SerializationLibrary": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"}
        storage = {"Columns": [], "Location": location, "SerdeInfo": {**serde, "Parameters": {"path": location}}}
        self._create(name, {"TableType": "EXTERNAL_TABLE", "Parameters": _DELTA, "StorageDescriptor": storage})

    def remove(self, name: tuple[str, ...]) -> None:
        """Unregister a table if it is registered as a Delta table. Its files are kept."""
        if self._delta_table(name) is not None:
            self._client.delete_table(DatabaseName=name[0], Name=name[-1])

    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Register a table under the name `new` with all its fields, then unregister the old name.

        Raises `TableExists`, `NoSuchNamespace` and `NoSuchTable`.
        """
        found = self._delta_table(name)
        if found is None:
            raise NoSuchTable(f"catalog {self.catalog.name!r} has no Delta table {'.'.join(name)!r}")
        self._create(new, {key: found[key] for key in _GIVEN if key in found})
        self.remove(name)

    @property
    def _client(self) -> Any:
        return self.catalog.glue

    def _create(self, name: tuple[str, ...], given: Mapping[str, Any]) -> None:
        try:
            self._client.create_table(DatabaseName=name[0], TableInput={**given, "Name": name[-1]})
        except self._client.exceptions.AlreadyExistsException as error:
            raise TableExists(f"{'.'.join(name)} already exists in catalog {self.catalog.name!r}") from error
        except self._client.exceptions.EntityNotFoundException as error:
            raise NoSuchNamespace(f"catalog {self.catalog.name!r} has no namespace {name[0]!r}") from error

    def _delta_table(self, name: tuple[str, ...]) -> Mapping[str, Any] | None:
        """Return Glue's entry of a Delta table; None if the name is missing or is not a Delta table."""
        table = self._table(name)
        return table if table is not None and _entry_of(table).is_delta else None

    def _table(self, name: tuple[str, ...]) -> Mapping[str, Any] | None:
        if len(name) != 2:  # names are (database, table)
            return None
        try:
            table: Mapping[str, Any] = self._client.get_table(DatabaseName=name[0], Name=name[1])["Table"]
        except self._client.exceptions.EntityNotFoundException:
            return None
        return table

    def _tables(self, namespace: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        if len(namespace) == 1:
            try:
                for page in self._client.get_paginator("get_tables").paginate(DatabaseName=namespace[0]):
                    yield from page["TableList"]
            except self._client.exceptions.EntityNotFoundException:
                return


def _entry_of(table: Mapping[str, Any]) -> MetastoreEntry:
    storage = table.get("StorageDescriptor") or {}
    path = ((storage.get("SerdeInfo") or {}).get("Parameters") or {}).get("path")
    return MetastoreEntry(
        table.get("Parameters") or {}, str(table.get("TableType") or ""), storage.get("Location") or None, path or None
    )
