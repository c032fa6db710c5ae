"""DESCRIBE DETAIL for Iceberg tables: one row with the column names of Delta's."""

from __future__ import annotations

import pyarrow as pa

from lakescan.formats.metadata_table import as_table
from lakescan.tables.scan_spec import ScanSpec

_TIME = pa.timestamp("us", "UTC")
_DETAIL = pa.schema(
    [
        ("format", pa.string()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("location", pa.string()),
        ("createdAt", _TIME),
        ("lastModified", _TIME),
        ("partitioning", pa.string()),
        ("sortOrder", pa.string()),
        ("primaryKey", pa.list_(pa.string())),
        ("numFiles", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("formatVersion", pa.string()),
    ]
)


def iceberg_detail(spec: ScanSpec, name: str | None) -> pa.Table:
    """Return a table with the one row of DESCRIBE DETAIL for an Iceberg table.

    File counts come from the current snapshot's summary; `createdAt` is the oldest snapshot's time. `name` is the
    table's name, None without one.
    """
    table, current = spec.table, spec.snapshot
    snapshots = as_table(spec.metadata_table("snapshots"))
    times = sorted(each for each in snapshots["committed_at"].to_pylist() if each is not None)
    rows = zip(snapshots["snapshot_id"].to_pylist(), snapshots["summary"].to_pylist(), strict=True)
    summary = next((dict(pairs or ()) for each, pairs in rows if each == current.id), {})
    row = {
        "format": "iceberg",
        "id": table.identity,
        "name": name,
        "description": table.comment,
        "location": table.location,
        "createdAt": times[0] if times else None,
        "lastModified": current.timestamp,
        "partitioning": table.partitioning,
        "sortOrder": table.sort_order,
        "primaryKey": list(current.schema.identifier_names),
        "numFiles": _number(summary.get("total-data-files")) if current.id is not None else 0,
        "sizeInBytes": _number(summary.get("total-files-size")) if current.id is not None else 0,
        "properties": list(current.properties.items()),
        "formatVersion": table.format_version,
    }
    return pa.Table.from_pylist([row], _DETAIL)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
