"""The tables of the benchmark of object stores, in one folder that a store serves as its bucket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from samples.iceberg_deletes import DeleteFile, manifest_entry, write_manifest, write_manifest_list
from samples.iceberg_table import SNAPSHOT, one_snapshot, table_metadata

from benchmarks.data import FOLDER, write_delta_log
from benchmarks.planning_table import write_planning_table

BUCKET = "lake"
SMALL_FILES, ROWS = 1_000, 100  # rows per small file


def bucket() -> Path:
    """Return the bucket's folder, with `manifests`, `commits`, `checkpoint`, `small_iceberg`, `small_delta` in it."""
    folder = FOLDER / BUCKET
    write_planning_table(folder / "manifests", f"s3://{BUCKET}/manifests", 10_000, 1_000)
    write_delta_log(folder / "commits", 5_000, 4, 1)
    write_delta_log(folder / "checkpoint", 5_000, 4, 1, checkpoint=4_900)
    if not (folder / "small_delta" / "done").exists():
        _small_files(folder)
    return folder


def _small_files(folder: Path) -> None:
    """Write the same small Parquet files as a Delta table and as an Iceberg table."""
    data, metadata = folder / "small_delta", folder / "small_iceberg" / "metadata"
    (data / "_delta_log").mkdir(parents=True, exist_ok=True)
    metadata.mkdir(parents=True, exist_ok=True)
    names = ("id", "user", "amount")
    kinds = ("long", "long", "double")
    schema = pa.schema(
        [
            pa.field(name, pa.float64() if kind == "double" else pa.int64(), metadata={"PARQUET:field_id": str(i)})
            for i, (name, kind) in enumerate(zip(names, kinds, strict=True), 1)
        ]
    )
    adds, entries = [], []
    for number in range(SMALL_FILES):
        ids = range(number * ROWS, (number + 1) * ROWS)
        rows = pa.table([list(ids), [n % 97 for n in ids], [n / 7 for n in ids]], schema=schema)
        path = f"part-{number:05d}.parquet"
        pq.write_table(rows, data / path)
        size = (data / path).stat().st_size
        # statistics without bounds: counts come from metadata, nothing is pruned
        add = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
        adds.append({"add": add | {"stats": json.dumps({"numRecords": ROWS})}})
        entries.append(DeleteFile(0, f"s3://{BUCKET}/small_delta/{path}", "PARQUET", ROWS, size))
    _delta(data, dict(zip(names, kinds, strict=True)), adds)
    _iceberg(
        metadata,
        [
            {"id": i, "name": n, "required": False, "type": k}
            for i, (n, k) in enumerate(zip(names, kinds, strict=True), 1)
        ],
        entries,
    )
    (data / "done").touch()


def _delta(folder: Path, kinds: dict[str, str], adds: list[dict[str, Any]]) -> None:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    table = {"id": "small", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    table |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}}
    actions = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": table}, *adds]
    (folder / "_delta_log" / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


def _iceberg(metadata: Path, fields: list[dict[str, Any]], entries: list[DeleteFile]) -> None:
    location = f"s3://{BUCKET}/small_iceberg"
    table = table_metadata(location, fields, None, 2)
    length = write_manifest(str(metadata / "m0.avro"), table, 0, entries, SNAPSHOT)
    listed = manifest_entry(f"{location}/metadata/m0.avro", length, 0, 1, SNAPSHOT, entries)
    write_manifest_list(str(metadata / "snap.avro"), [listed])
    table |= one_snapshot({"manifest-list": f"{location}/metadata/snap.avro"})
    (metadata / "v1.metadata.json").write_text(json.dumps(table))
    (metadata / "version-hint.text").write_text("1")
