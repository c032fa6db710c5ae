"""A small table to alter, and functions that read its current metadata."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

import lakescan
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.options.write import WriteOptions

NAME = "local.db.t"
COLUMNS = (
    "id BIGINT NOT NULL, part STRING, at TIMESTAMP, n INT, day DATE, address STRUCT<city: STRING, zip: INT>, "
    "lines ARRAY<STRUCT<sku: STRING, pieces: INT>>, tags MAP<STRING, INT>"
)
ROWS = pa.Table.from_pylist(
    [
        {"id": 1, "part": "a", "n": 10, "address": {"city": "Oslo", "zip": 1}, "lines": [{"sku": "x", "pieces": 2}]},
        {"id": 2, "part": "b", "n": None, "address": None, "lines": None},
    ],
    pa.schema(
        [
            ("id", pa.int64()),
            ("part", pa.string()),
            ("n", pa.int32()),
            ("address", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
            ("lines", pa.list_(pa.struct([("sku", pa.string()), ("pieces", pa.int32())]))),
        ]
    ),
)


def make(local: lakescan.Catalog, version: int = 2, columns: str = COLUMNS, **more: Any) -> lakescan.Table:
    """Make the empty table."""
    properties = {"format-version": str(version), **more.pop("properties", {})}
    return local.create_table("db.t", columns, format="iceberg", properties=properties, **more)


def now() -> lakescan.Table:
    return lakescan.table(NAME)


def metadata() -> TableMetadata:
    """Return the table's current metadata."""
    return now()._target(WriteOptions()).opened.metadata  # type: ignore[attr-defined]


def columns() -> dict[str, str]:
    """Return the types of the columns and their nested fields, by path."""
    schema = metadata().schema
    return {path: str(schema.by_id[field_id].type) for field_id, path in schema.path_of.items()}


def names() -> list[str]:
    return metadata().schema.names


def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = now().scan().to_arrow().to_pylist()
    return sorted(found, key=str)


def spec() -> list[str]:
    """Return the partition fields for new files, such as `1000 at_day: day(at)`."""
    base = metadata()
    fields = base.specs[base.default_spec_id].fields
    return [f"{each.id} {each.name}: {each.transform} of {base.schema.path_of.get(each.source_id)}" for each in fields]
