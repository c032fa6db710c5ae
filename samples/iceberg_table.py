"""A small writer of whole Iceberg tables, for what pyiceberg does not write: any schema JSON, files of any format."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from samples.iceberg_deletes import (
    DeleteFile,
    avro_field,
    local,
    manifest_entry,
    write_manifest,
    write_manifest_list,
)

SNAPSHOT = 7_000_000_001
_COMMITTED = 1_767_225_600_000  # 2026-01-01, in milliseconds


def write_table(
    folder: Path,
    fields: list[dict[str, Any]],
    files: list[pa.Table],
    *,
    version: int = 3,
    properties: dict[str, str] | None = None,
    inline_manifests: bool = False,
    spec: list[dict[str, Any]] | None = None,
    partitions: list[dict[str, Any]] | None = None,
    file_format: str = "parquet",
    writing: dict[str, Any] | None = None,
) -> str:
    """A table of the fields (specification, appendix C) with one data file a table; returns its metadata file.

    Files of the format `avro` have longs, ints, doubles, texts and timestamps. `writing` are options of pyarrow's
    writer of the format, or of fastavro's.

    `spec` and `partitions` are the fields of partition spec 1 and each file's values. With `inline_manifests` (version
    1), the metadata names the manifests itself.
    """
    location = f"file://{folder}"
    (folder / "data").mkdir(parents=True)
    (folder / "metadata").mkdir()
    spec_id = 0 if spec is None else 1
    metadata = table_metadata(location, fields, spec, version, properties)
    entries = []
    for number, table in enumerate(files):
        path = f"{location}/data/{number}.{file_format}"
        _WRITERS[file_format](table, local(path), **(writing or {}))
        values = {} if partitions is None else partitions[number]
        size = local(path).stat().st_size
        entries.append(
            DeleteFile(0, path, file_format.upper(), table.num_rows, size, partition=values, spec_id=spec_id)
        )
    if entries:
        manifest = f"{location}/metadata/m0.avro"
        length = write_manifest(manifest, metadata, spec_id, entries, SNAPSHOT)
        if inline_manifests:
            metadata |= one_snapshot({"manifests": [manifest]})
        else:
            listed = manifest_entry(manifest, length, spec_id, 1, SNAPSHOT, entries)
            write_manifest_list(f"{location}/metadata/snap.avro", [listed])
            metadata |= one_snapshot({"manifest-list": f"{location}/metadata/snap.avro"})
    target = f"{location}/metadata/v1.metadata.json"
    local(target).write_text(json.dumps(metadata))
    return target


def one_snapshot(files: dict[str, Any]) -> dict[str, Any]:
    """What metadata says of its only snapshot; `files` are its manifest list, or its manifests."""
    snapshot = {"snapshot-id": SNAPSHOT, "sequence-number": 1, "timestamp-ms": _COMMITTED, "schema-id": 0}
    return {
        "snapshots": [{**snapshot, "summary": {"operation": "append"}, **files}],
        "current-snapshot-id": SNAPSHOT,
        "snapshot-log": [{"snapshot-id": SNAPSHOT, "timestamp-ms": _COMMITTED}],
    }


def table_metadata(
    location: str,
    fields: list[dict[str, Any]],
    spec: list[dict[str, Any]] | None,
    version: int,
    properties: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Metadata of a table without a snapshot; `spec` are the fields of partition spec 1, if it has one."""
    specs = [{"spec-id": 0, "fields": []}] + ([] if spec is None else [{"spec-id": 1, "fields": spec}])
    return {
        "format-version": version,
        "table-uuid": str(uuid.uuid4()),
        "location": location,
        "last-sequence-number": 1,
        "last-updated-ms": _COMMITTED,
        "last-column-id": max(f["id"] for f in fields),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": specs,
        "default-spec-id": specs[-1]["spec-id"],
        "last-partition-id": 1000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": properties or {},
        "refs": {},
        "snapshot-log": [],
        **({"next-row-id": 0} if version == 3 else {}),
    }


def _orc(table: pa.Table, path: Path, **options: Any) -> None:
    fields = [field.with_metadata({"iceberg.id": field.metadata[b"PARQUET:field_id"]}) for field in table.schema]
    orc.write_table(table.cast(pa.schema(fields)), path, **options)


def _avro(table: pa.Table, path: Path, **options: Any) -> None:
    fields = [
        avro_field(field.name, _avro_type(field.type), int(field.metadata[b"PARQUET:field_id"]))
        for field in table.schema
    ]
    stored = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    rows = table.cast(pa.schema(list(zip(table.column_names, stored, strict=True))))
    records = (row for batch in rows.to_batches(max_chunksize=10_000) for row in batch.to_pylist())
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    with path.open("wb") as out:
        fastavro.writer(out, schema, records, **options)


def _avro_type(kind: pa.DataType) -> Any:
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": kind.tz is not None}
    return {pa.int64(): "long", pa.int32(): "int", pa.float64(): "double", pa.string(): "string"}[kind]


_WRITERS: dict[str, Callable[..., None]] = {"parquet": pq.write_table, "orc": _orc, "avro": _avro}
