"""Names of Delta tables in Glue, as Spark, Athena and Databricks register them there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakescan.errors import TableExists

_DELTA = {"spark.sql.sources.provider": "delta", "table_type": "DELTA", "EXTERNAL": "TRUE"}
_SAID_BY = ("spark.sql.sources.provider", "table_type")  # the parameters that name the format
_NO_LOCATION = "__PLACEHOLDER__"  # Spark's, for tables whose location is in the parameters of the SerDe alone


@dataclass(frozen=True)
class GlueDeltaNames:
    """The Delta tables of pyiceberg's Glue catalog; their columns stay in their logs."""

    catalog: Any

    def location(self, name: tuple[str, ...]) -> str | None:
        """The table's location, or None if there is no Delta table of that name."""
        found = self._found(name)
        return None if found is None else _location(found)

    def names(self, namespace: tuple[str, ...]) -> list[str]:
        """The names of a database's Delta tables, sorted."""
        return sorted(str(table["Name"]) for table in self._tables(namespace) if _is_delta(table))

    def add(self, name: tuple[str, ...], location: str) -> None:
        """Register a table; raises `TableExists`."""
        serde = {"SerializationLibrary": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"}
        storage = {"Columns": [], "Location": location, "SerdeInfo": {**serde, "Parameters": {"path": location}}}
        table = {"Name": name[-1], "TableType": "EXTERNAL_TABLE", "Parameters": _DELTA, "StorageDescriptor": storage}
        try:
            self._client.create_table(DatabaseName=name[0], TableInput=table)
        except self._client.exceptions.AlreadyExistsException as error:
            raise TableExists(f"{'.'.join(name)} already exists in catalog {self.catalog.name!r}") from error

    def remove(self, name: tuple[str, ...]) -> None:
        """Unregister a table, if it is registered as a Delta table."""
        if self._found(name) is not None:
            self._client.delete_table(DatabaseName=name[0], Name=name[-1])

    def rename(self, name: tuple[str, ...], new: tuple[str, ...]) -> None:
        """Register a table by another name, then unregister it by the old one; raises `TableExists`."""
        location = self.location(name)
        assert location is not None
        self.add(new, location)
        self.remove(name)

    @property
    def _client(self) -> Any:
        return self.catalog.glue

    def _found(self, name: tuple[str, ...]) -> Mapping[str, Any] | None:
        if len(name) != 2:  # Glue has databases, and tables in them
            return None
        try:
            table: Mapping[str, Any] = self._client.get_table(DatabaseName=name[0], Name=name[1])["Table"]
        except self._client.exceptions.EntityNotFoundException:
            return None
        return table if _is_delta(table) else None

    def _tables(self, namespace: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
        if len(namespace) == 1:
            try:
                for page in self._client.get_paginator("get_tables").paginate(DatabaseName=namespace[0]):
                    yield from page["TableList"]
            except self._client.exceptions.EntityNotFoundException:
                return


def _is_delta(table: Mapping[str, Any]) -> bool:
    said = table.get("Parameters") or {}
    return any(str(said.get(name, "")).lower() == "delta" for name in _SAID_BY) and _location(table) is not None


def _location(table: Mapping[str, Any]) -> str | None:
    storage = table.get("StorageDescriptor") or {}
    path = ((storage.get("SerdeInfo") or {}).get("Parameters") or {}).get("path")
    location = path or storage.get("Location")
    return None if not location or str(location).endswith(_NO_LOCATION) else str(location)
