"""An Iceberg table for planning: many files with statistics of twenty columns, one manifest per day; no data files."""

from __future__ import annotations

import json
import shutil
import struct
import uuid
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import fastavro
from samples.iceberg_deletes import (
    DeleteFile,
    avro_field,
    key_values,
    manifest_entry,
    manifest_record,
    write_avro,
    write_manifest_list,
)
from samples.iceberg_table import SNAPSHOT, one_snapshot, table_metadata

from benchmarks.data import FOLDER

_COLUMNS, _FIRST_DAY, _ROWS = 20, 20_000, 10_000
_KINDS = ("long", "string", "double", "timestamp")
_REGIONS = ("eu", "us", "ap", "sa")


def planning_table(files: int, manifests: int) -> str:
    """Make the table once and return its folder. It is partitioned by day (one per manifest) and by region."""
    folder = FOLDER / f"planning_{files}"
    write_planning_table(folder, f"file://{folder}", files, manifests)
    return str(folder)


def write_planning_table(folder: Path, location: str, files: int, manifests: int) -> None:
    """Write the table to a folder, once, with paths below `location` in its metadata."""
    if not (folder / "done").exists():
        (folder / "metadata").mkdir(parents=True, exist_ok=True)
        write = partial(day_manifest, folder, location, files=files // manifests)
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            listed = list(pool.map(write, range(manifests)))
        write_manifest_list(f"{folder}/metadata/snap.avro", listed)
        metadata = table_metadata(location, _fields(), _SPEC, version=2)
        metadata |= one_snapshot({"manifest-list": f"{location}/metadata/snap.avro"})
        (folder / "metadata" / "v1.metadata.json").write_text(json.dumps(metadata))
        (folder / "metadata" / "version-hint.text").write_text("1")
        (folder / "done").touch()


def copied_table(files: int, copies: int) -> str:
    """Make a table of `copies` copies of each manifest of `planning_table(files, ...)`; return its folder."""
    source, folder = Path(planning_table(files, files // 1000)), FOLDER / f"planning_{files}_{copies}_times"
    if not (folder / "done").exists():
        (folder / "metadata").mkdir(parents=True, exist_ok=True)
        with (source / "metadata" / "snap.avro").open("rb") as file:
            reader = fastavro.reader(file)
            schema, listed = reader.writer_schema, list(reader)
        entries = []
        for copy in range(copies):
            for entry in listed:
                name = entry["manifest_path"].rsplit("/", 1)[1]
                shutil.copy(source / "metadata" / name, folder / "metadata" / f"{copy:04d}-{name}")
                entries.append(entry | {"manifest_path": f"file://{folder}/metadata/{copy:04d}-{name}"})
        with (folder / "metadata" / "snap.avro").open("wb") as file:
            fastavro.writer(file, schema, entries, codec="deflate")
        metadata = (source / "metadata" / "v1.metadata.json").read_text().replace(str(source), str(folder))
        (folder / "metadata" / "v1.metadata.json").write_text(metadata)
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


def day_manifest(folder: Path, location: str, number: int, files: int) -> dict[str, Any]:
    """Write the manifest of day `number` with `files` files; return its entry in the manifest list."""
    day = _FIRST_DAY + number
    entries = [_entry(location, number * files + i, day) for i in range(files)]
    header = {
        "schema": json.dumps({"type": "struct", "schema-id": 0, "fields": _fields()}),
        "partition-spec": json.dumps(_SPEC),
        "partition-spec-id": "1",
        "format-version": "2",
        "content": "data",
    }
    path = f"{location}/metadata/m{number:05d}.avro"
    length = write_avro(f"{folder}/metadata/m{number:05d}.avro", _ENTRY, entries, header)
    bounds = [(struct.pack("<i", day),) * 2, (b"ap", b"us")]
    summaries = [
        {"contains_null": False, "contains_nan": False, "lower_bound": low, "upper_bound": high} for low, high in bounds
    ]
    alike = [DeleteFile(0, path, "PARQUET", _ROWS, 0)] * files
    return manifest_entry(path, length, 1, 1, SNAPSHOT, alike) | {"partitions": summaries}


def _entry(location: str, n: int, day: int) -> dict[str, Any]:
    lower = [struct.pack("<q", n * 100), f"v{n:08d}a".encode(), struct.pack("<d", n), struct.pack("<q", n * 10**9)]
    upper = [struct.pack("<q", n * 100 + 99), f"v{n:08d}z".encode(), struct.pack("<d", n + 1)]
    upper.append(struct.pack("<q", (n + 1) * 10**9 - 1))
    region = _REGIONS[n % 4]
    name = uuid.uuid5(uuid.NAMESPACE_URL, str(n))
    return {
        "status": 1,
        "snapshot_id": SNAPSHOT,
        "sequence_number": None,
        "file_sequence_number": None,
        "data_file": {
            "content": 0,
            "file_path": f"{location}/data/day={day}/region={region}/{name}.parquet",
            "file_format": "PARQUET",
            "partition": {"day": day, "region": region},
            "record_count": _ROWS,
            "file_size_in_bytes": 10_000_000 + n % 1000,
            "column_sizes": _each(lambda c: 100_000 + c),
            "value_counts": _each(lambda c: _ROWS),
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


def _list(name: str, field_id: int, element: int, kind: str) -> dict[str, Any]:
    return avro_field(name, {"type": "array", "items": kind, "element-id": element}, field_id)


_PARTITION = {
    "type": "record",
    "name": "r102",
    "fields": [avro_field("day", {"type": "int", "logicalType": "date"}, 1000), avro_field("region", "string", 1001)],
}
_ENTRY = manifest_record(
    [
        avro_field("content", "int", 134, optional=False),
        avro_field("file_path", "string", 100, optional=False),
        avro_field("file_format", "string", 101, optional=False),
        avro_field("partition", _PARTITION, 102, optional=False),
        avro_field("record_count", "long", 103, optional=False),
        avro_field("file_size_in_bytes", "long", 104, optional=False),
        key_values("column_sizes", 108, 117, "long"),
        key_values("value_counts", 109, 119, "long"),
        key_values("null_value_counts", 110, 121, "long"),
        key_values("nan_value_counts", 137, 138, "long"),
        key_values("lower_bounds", 125, 126, "bytes"),
        key_values("upper_bounds", 128, 129, "bytes"),
        avro_field("key_metadata", "bytes", 131),
        _list("split_offsets", 132, 133, "long"),
        _list("equality_ids", 135, 136, "int"),
        avro_field("sort_order_id", "int", 140),
    ]
)
