"""A small writer of Iceberg delete files: commits them to a table that pyiceberg made, as a new metadata file."""

from __future__ import annotations

import io
import json
import time
import uuid
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pyroaring

POSITIONS, EQUALITY = 1, 2


@dataclass(frozen=True)
class DeleteFile:
    """An entry of a delete manifest, or, with content 0, of a data manifest."""

    content: int
    path: str
    file_format: str
    record_count: int
    size: int
    partition: dict[str, Any] = field(default_factory=dict)
    spec_id: int = 0
    equality_ids: list[int] | None = None
    referenced_data_file: str | None = None
    content_offset: int | None = None
    content_size: int | None = None
    bounds: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    nulls: dict[int, int] = field(default_factory=dict)
    sequence_number: int | None = None  # of a file that an earlier commit added


def local(location: str) -> Path:
    """The local path of a file location."""
    return Path(location.removeprefix("file://"))


def write_position_deletes(path: str, positions: list[tuple[str, int]], **entry: Any) -> DeleteFile:
    """A Parquet position delete file of (data file, position) pairs, sorted as the specification asks."""
    ordered = sorted(positions)
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
        ]
    )
    local(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table([[p for p, _ in ordered], [n for _, n in ordered]], schema=schema), local(path))
    return DeleteFile(POSITIONS, path, "PARQUET", len(ordered), local(path).stat().st_size, **entry)


def write_equality_deletes(path: str, rows: pa.Table, ids: dict[str, int], **entry: Any) -> DeleteFile:
    """A Parquet equality delete file: rows with these columns' values are deleted."""
    schema = pa.schema([f.with_metadata({"PARQUET:field_id": str(ids[f.name])}) for f in rows.schema])
    local(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows.cast(schema), local(path))
    size = local(path).stat().st_size
    return DeleteFile(EQUALITY, path, "PARQUET", rows.num_rows, size, equality_ids=list(ids.values()), **entry)


def vector_blob(positions: list[int]) -> bytes:
    """A `deletion-vector-v1` blob: length, magic number, 64-bit roaring bitmap, CRC-32."""
    body = (1681511377).to_bytes(4, "little") + pyroaring.BitMap64(positions).serialize()
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def write_deletion_vectors(path: str, vectors: dict[str, list[int]], **entry: Any) -> list[DeleteFile]:
    """A Puffin file with a deletion vector for each data file."""
    out, blobs, places = io.BytesIO(b""), [], []
    out.write(b"PFA1")
    for data_file, positions in vectors.items():
        offset, blob = out.tell(), vector_blob(positions)
        out.write(blob)
        places.append((data_file, offset, len(blob), len(positions)))
        properties = {"referenced-data-file": data_file, "cardinality": str(len(positions))}
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [2147483645],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": offset,
                "length": len(blob),
                "properties": properties,
            }
        )
    payload = json.dumps({"blobs": blobs, "properties": {}}).encode()
    out.write(b"PFA1" + payload + len(payload).to_bytes(4, "little") + bytes(4) + b"PFA1")
    local(path).parent.mkdir(parents=True, exist_ok=True)
    local(path).write_bytes(out.getvalue())
    size = len(out.getvalue())
    return [
        DeleteFile(
            POSITIONS,
            path,
            "PUFFIN",
            count,
            size,
            referenced_data_file=data_file,
            content_offset=offset,
            content_size=length,
            **entry,
        )
        for data_file, offset, length, count in places
    ]


def commit_deletes(metadata_path: str, deletes: list[DeleteFile], *, format_version: int | None = None) -> str:
    """Commit delete files as a new snapshot; returns the new metadata file. May raise the table's format version."""
    metadata = json.loads(local(metadata_path).read_text())
    metadata["format-version"] = format_version or metadata["format-version"]
    current = next(s for s in metadata["snapshots"] if s["snapshot-id"] == metadata["current-snapshot-id"])
    sequence, snapshot_id = metadata["last-sequence-number"] + 1, uuid.uuid4().int >> 65
    folder = metadata_path.rsplit("/", 1)[0]
    manifests = list(fastavro.reader(io.BytesIO(local(current["manifest-list"]).read_bytes())))
    for spec_id in sorted({d.spec_id for d in deletes}):
        of_spec = [d for d in deletes if d.spec_id == spec_id]
        path = f"{folder}/{uuid.uuid4()}-deletes-m{spec_id}.avro"
        length = write_manifest(path, metadata, spec_id, of_spec, snapshot_id)
        manifests.append(manifest_entry(path, length, spec_id, sequence, snapshot_id, of_spec))
    manifest_list = f"{folder}/snap-{snapshot_id}-1-{uuid.uuid4()}.avro"
    write_manifest_list(manifest_list, manifests)

    now = max(int(time.time() * 1000), metadata["last-updated-ms"] + 1)
    snapshot = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": current["snapshot-id"],
        "sequence-number": sequence,
        "timestamp-ms": now,
        "manifest-list": manifest_list,
        "summary": {"operation": "delete", "added-delete-files": str(len(deletes))},
        "schema-id": metadata["current-schema-id"],
    }
    if metadata["format-version"] == 3:
        metadata.setdefault("next-row-id", 0)
        snapshot |= {"first-row-id": metadata["next-row-id"], "added-rows": 0}
    metadata["snapshots"].append(snapshot)
    metadata["snapshot-log"].append({"snapshot-id": snapshot_id, "timestamp-ms": now})
    metadata["refs"]["main"] = {"snapshot-id": snapshot_id, "type": "branch"}
    metadata |= {"current-snapshot-id": snapshot_id, "last-sequence-number": sequence, "last-updated-ms": now}
    version = int(metadata_path.rsplit("/", 1)[1].split("-")[0]) + 1
    target = f"{folder}/{version:05d}-{uuid.uuid4()}.metadata.json"
    local(target).write_text(json.dumps(metadata))
    return target


def write_manifest(
    path: str, metadata: dict[str, Any], spec_id: int, deletes: list[DeleteFile], snapshot_id: int
) -> int:
    """A manifest of added files, all of one spec; returns its length."""
    spec = next(s for s in metadata["partition-specs"] if s["spec-id"] == spec_id)
    schema = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    entries = [
        {
            "status": 1 if d.sequence_number is None else 0,
            "snapshot_id": snapshot_id,
            "sequence_number": d.sequence_number,
            "file_sequence_number": d.sequence_number,
            "data_file": {
                "content": d.content,
                "file_path": d.path,
                "file_format": d.file_format,
                "partition": d.partition,
                "record_count": d.record_count,
                "file_size_in_bytes": d.size,
                "value_counts": [{"key": k, "value": d.record_count} for k in d.nulls] or None,
                "null_value_counts": [{"key": k, "value": n} for k, n in d.nulls.items()] or None,
                "lower_bounds": [{"key": k, "value": low} for k, (low, _) in d.bounds.items()] or None,
                "upper_bounds": [{"key": k, "value": high} for k, (_, high) in d.bounds.items()] or None,
                "equality_ids": d.equality_ids,
                "referenced_data_file": d.referenced_data_file,
                "content_offset": d.content_offset,
                "content_size_in_bytes": d.content_size,
            },
        }
        for d in deletes
    ]
    header = {
        "schema": json.dumps(schema),
        "partition-spec": json.dumps(spec["fields"]),
        "partition-spec-id": str(spec_id),
        "format-version": str(max(2, metadata["format-version"])),
        "content": "deletes" if deletes[0].content else "data",
    }
    return write_avro(path, _manifest_schema(spec["fields"], schema), entries, header)


def write_manifest_list(path: str, manifests: list[dict[str, Any]]) -> None:
    """A manifest list of such entries as `manifest_entry` makes."""
    write_avro(path, _MANIFEST_LIST, manifests, {"format-version": "2"})


def write_avro(path: str, schema: dict[str, Any], records: list[dict[str, Any]], header: dict[str, str]) -> int:
    """An Avro file of these records; returns its length."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), records, codec="deflate", metadata=header)
    local(path).write_bytes(out.getvalue())
    return len(out.getvalue())


def avro_field(name: str, kind: Any, field_id: int, *, optional: bool = True) -> dict[str, Any]:
    """A field of an Avro record, with its id."""
    if optional:
        return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}
    return {"name": name, "type": kind, "field-id": field_id}


def key_values(name: str, field_id: int, key_id: int, kind: str = "bytes") -> dict[str, Any]:
    """A map from column ids as a manifest has it: an array of pairs; the value's id follows the key's."""
    pair = [avro_field("key", "int", key_id, optional=False), avro_field("value", kind, key_id + 1, optional=False)]
    record = {"type": "record", "name": f"k{key_id}_v{key_id + 1}", "fields": pair}
    return avro_field(name, {"type": "array", "items": record, "logicalType": "map"}, field_id)


_AVRO_TYPES = {"date": {"type": "int", "logicalType": "date"}, "string": "string", "int": "int", "long": "long"}


def _manifest_schema(spec_fields: list[dict[str, Any]], schema: dict[str, Any]) -> dict[str, Any]:
    types = {f["id"]: f["type"] for f in schema["fields"]}
    partition = [
        avro_field(
            f["name"],
            _AVRO_TYPES[
                "date" if f["transform"] == "day" else types[f["source-id"]] if f["transform"] == "identity" else "int"
            ],
            f["field-id"],
        )
        for f in spec_fields
    ]
    return manifest_record(
        [
            avro_field("content", "int", 134, optional=False),
            avro_field("file_path", "string", 100, optional=False),
            avro_field("file_format", "string", 101, optional=False),
            avro_field("partition", {"type": "record", "name": "r102", "fields": partition}, 102, optional=False),
            avro_field("record_count", "long", 103, optional=False),
            avro_field("file_size_in_bytes", "long", 104, optional=False),
            key_values("value_counts", 109, 119, "long"),
            key_values("null_value_counts", 110, 121, "long"),
            key_values("lower_bounds", 125, 126),
            key_values("upper_bounds", 128, 129),
            avro_field("equality_ids", {"type": "array", "items": "int", "element-id": 136}, 135),
            avro_field("referenced_data_file", "string", 143),
            avro_field("content_offset", "long", 144),
            avro_field("content_size_in_bytes", "long", 145),
        ]
    )


def manifest_record(data_file: list[dict[str, Any]]) -> dict[str, Any]:
    """The record of a manifest's entries, whose files have these fields."""
    file = {"type": "record", "name": "r2", "fields": data_file}
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            avro_field("status", "int", 0, optional=False),
            avro_field("snapshot_id", "long", 1),
            avro_field("sequence_number", "long", 3),
            avro_field("file_sequence_number", "long", 4),
            avro_field("data_file", file, 2, optional=False),
        ],
    }


_MANIFEST_LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        avro_field("manifest_path", "string", 500, optional=False),
        avro_field("manifest_length", "long", 501, optional=False),
        avro_field("partition_spec_id", "int", 502, optional=False),
        avro_field("content", "int", 517, optional=False),
        avro_field("sequence_number", "long", 515, optional=False),
        avro_field("min_sequence_number", "long", 516, optional=False),
        avro_field("added_snapshot_id", "long", 503, optional=False),
        avro_field("added_files_count", "int", 504, optional=False),
        avro_field("existing_files_count", "int", 505, optional=False),
        avro_field("deleted_files_count", "int", 506, optional=False),
        avro_field("added_rows_count", "long", 512, optional=False),
        avro_field("existing_rows_count", "long", 513, optional=False),
        avro_field("deleted_rows_count", "long", 514, optional=False),
        avro_field(
            "partitions",
            {
                "type": "array",
                "element-id": 508,
                "items": {
                    "type": "record",
                    "name": "r508",
                    "fields": [
                        avro_field("contains_null", "boolean", 509, optional=False),
                        avro_field("contains_nan", "boolean", 518),
                        avro_field("lower_bound", "bytes", 510),
                        avro_field("upper_bound", "bytes", 511),
                    ],
                },
            },
            507,
        ),
        avro_field("key_metadata", "bytes", 519),
    ],
}


def manifest_entry(
    path: str, length: int, spec_id: int, sequence: int, snapshot_id: int, deletes: list[DeleteFile]
) -> dict[str, Any]:
    """The entry in a manifest list of a manifest of added files."""
    rows = sum(d.record_count for d in deletes)
    counts = {"added_files_count": len(deletes), "existing_files_count": 0, "deleted_files_count": 0}
    return {
        "manifest_path": path,
        "manifest_length": length,
        "partition_spec_id": spec_id,
        "content": 1 if deletes[0].content else 0,
        "sequence_number": sequence,
        "min_sequence_number": sequence,
        "added_snapshot_id": snapshot_id,
        **counts,
        "added_rows_count": rows,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
        "partitions": None,
        "key_metadata": None,
    }
