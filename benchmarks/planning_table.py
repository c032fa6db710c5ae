"""An Iceberg table for planning: many files with statistics of twenty columns, a manifest a day; no data files."""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
from samples.iceberg_deletes import write_manifest_list

from benchmarks.data import FOLDER

_COLUMNS, _SNAPSHOT, _FIRST_DAY = 20, 7_000_000_001, 20_000
_KINDS = ("long", "string", "double", "timestamp")
_REGIONS = ("eu", "us", "ap", "sa")


def planning_table(files: int, manifests: int) -> str:
    """The table's folder. Partitioned by day, one a manifest, and by region."""
    folder = FOLDER / f"planning_{files}"
    if not (folder / "done").exists():
        (folder / "metadata").mkdir(parents=True, exist_ok=True)
        location = f"file://{folder}"
        listed = [_manifest(location, folder, n, files // manifests) for n in range(manifests)]
        write_manifest_list(f"{location}/metadata/snap.avro", listed)
        (folder / "metadata" / "v1.metadata.json").write_text(json.dumps(_metadata(location)))
        (folder / "metadata" / "version-hint.text").write_text("1")
        (folder / "done").touch()
    return str(folder)


def _fields() -> list[dict[str, Any]]:
    kinds = [*(_KINDS[i % 4] for i in range(_COLUMNS)), "date", "string"]
    names = [*(f"c{i}" for i in range(_COLUMNS)), "day", "region"]
    pairs = zip(names, kinds, strict=True)
    return [{"id": i, "name": n, "required": False, "type": kind} for i, (n, kind) in enumerate(pairs, 1)]


_SPEC = [
    {"name": "day", "transform": "identity", "source-id": _COLUMNS + 1, "field-id": 1000},
    {"name": "region", "transform": "identity", "source-id": _COLUMNS + 2, "field-id": 1001},
]


def _metadata(location: str) -> dict[str, Any]:
    at = 1_767_225_600_000
    snapshot = {"snapshot-id": _SNAPSHOT, "sequence-number": 1, "timestamp-ms": at, "schema-id": 0}
    snapshot |= {"manifest-list": f"{location}/metadata/snap.avro", "summary": {"operation": "append"}}
    return {
        "format-version": 2,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": 1,
        "last-updated-ms": at,
        "last-column-id": _COLUMNS + 2,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": _fields()}],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": _SPEC}],
        "default-spec-id": 0,
        "last-partition-id": 1001,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "snapshots": [snapshot],
        "current-snapshot-id": _SNAPSHOT,
        "snapshot-log": [{"snapshot-id": _SNAPSHOT, "timestamp-ms": at}],
        "refs": {"main": {"snapshot-id": _SNAPSHOT, "type": "branch"}},
    }


def _manifest(location: str, folder: Path, number: int, files: int) -> dict[str, Any]:
    """Write one manifest; its entry in the manifest list."""
    day = _FIRST_DAY + number
    entries = [_entry(location, number * files + i, day) for i in range(files)]
    out = io.BytesIO()
    header = {
        "schema": json.dumps({"type": "struct", "schema-id": 0, "fields": _fields()}),
        "partition-spec": json.dumps(_SPEC),
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    fastavro.writer(out, _ENTRY, entries, codec="deflate", metadata=header)
    path = folder / "metadata" / f"m{number:05d}.avro"
    path.write_bytes(out.getvalue())
    bounds = [(struct.pack("<i", day),) * 2, (b"ap", b"us")]
    return {
        "manifest_path": f"{location}/metadata/{path.name}",
        "manifest_length": path.stat().st_size,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": 1,
        "min_sequence_number": 1,
        "added_snapshot_id": _SNAPSHOT,
        "added_files_count": files,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": files * 10_000,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
        "partitions": [
            {"contains_null": False, "contains_nan": False, "lower_bound": low, "upper_bound": high}
            for low, high in bounds
        ],
        "key_metadata": None,
    }


def _entry(location: str, n: int, day: int) -> dict[str, Any]:
    lower = [struct.pack("<q", n * 100), f"v{n:08d}a".encode(), struct.pack("<d", n), struct.pack("<q", n * 10**9)]
    upper = [struct.pack("<q", n * 100 + 99), f"v{n:08d}z".encode(), struct.pack("<d", n + 1)]
    upper.append(struct.pack("<q", (n + 1) * 10**9 - 1))
    region = _REGIONS[n % 4]
    name = uuid.uuid5(uuid.NAMESPACE_URL, str(n))
    return {
        "status": 1,
        "snapshot_id": _SNAPSHOT,
        "sequence_number": None,
        "file_sequence_number": None,
        "data_file": {
            "content": 0,
            "file_path": f"{location}/data/day={day}/region={region}/{name}.parquet",
            "file_format": "PARQUET",
            "partition": {"day": day, "region": region},
            "record_count": 10_000,
            "file_size_in_bytes": 10_000_000 + n % 1000,
            "column_sizes": _each(lambda c: 100_000 + c),
            "value_counts": _each(lambda c: 10_000),
            "null_value_counts": _each(lambda c: c % 3),
            "nan_value_counts": [{"key": c + 1, "value": 0} for c in range(2, _COLUMNS, 4)],
            "lower_bounds": _each(lambda c: lower[c % 4]),
            "upper_bounds": _each(lambda c: upper[c % 4]),
            "key_metadata": None,
            "split_offsets": [4],
            "equality_ids": None,
            "sort_order_id": 0,
        },
    }


def _each(value: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [{"key": c + 1, "value": value(c)} for c in range(_COLUMNS)]


def _field(name: str, kind: Any, field_id: int, *, optional: bool = True) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind] if optional else kind, "field-id": field_id}


def _pairs(name: str, field_id: int, key: int, kind: str) -> dict[str, Any]:
    members = [_field("key", "int", key, optional=False), _field("value", kind, key + 1, optional=False)]
    record = {"type": "record", "name": f"k{key}_v{key + 1}", "fields": members}
    return _field(name, {"type": "array", "logicalType": "map", "items": record}, field_id)


def _list(name: str, field_id: int, element: int, kind: str) -> dict[str, Any]:
    return _field(name, {"type": "array", "items": kind, "element-id": element}, field_id)


_PARTITION = {
    "type": "record",
    "name": "r102",
    "fields": [_field("day", {"type": "int", "logicalType": "date"}, 1000), _field("region", "string", 1001)],
}
_DATA_FILE = {
    "type": "record",
    "name": "r2",
    "fields": [
        _field("content", "int", 134, optional=False),
        _field("file_path", "string", 100, optional=False),
        _field("file_format", "string", 101, optional=False),
        _field("partition", _PARTITION, 102, optional=False),
        _field("record_count", "long", 103, optional=False),
        _field("file_size_in_bytes", "long", 104, optional=False),
        _pairs("column_sizes", 108, 117, "long"),
        _pairs("value_counts", 109, 119, "long"),
        _pairs("null_value_counts", 110, 121, "long"),
        _pairs("nan_value_counts", 137, 138, "long"),
        _pairs("lower_bounds", 125, 126, "bytes"),
        _pairs("upper_bounds", 128, 129, "bytes"),
        _field("key_metadata", "bytes", 131),
        _list("split_offsets", 132, 133, "long"),
        _list("equality_ids", 135, 136, "int"),
        _field("sort_order_id", "int", 140),
    ],
}
_ENTRY = fastavro.parse_schema(
    {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _field("status", "int", 0, optional=False),
            _field("snapshot_id", "long", 1),
            _field("sequence_number", "long", 3),
            _field("file_sequence_number", "long", 4),
            _field("data_file", _DATA_FILE, 2, optional=False),
        ],
    }
)
