"""A small writer of whole Iceberg tables, for what pyiceberg does not write: any schema JSON over any Parquet files."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from samples.iceberg_deletes import DeleteFile, local, manifest_entry, write_manifest, write_manifest_list

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
) -> str:
    """A table of the fields (specification, appendix C) with one data file a table; returns its metadata file.

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
        path = f"{location}/data/{number}.parquet"
        pq.write_table(table, local(path))
        values = {} if partitions is None else partitions[number]
        size = local(path).stat().st_size
        entries.append(DeleteFile(0, path, "PARQUET", table.num_rows, size, partition=values, spec_id=spec_id))
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
