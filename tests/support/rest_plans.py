"""Scans that the test REST server plans, using lakescan: file scan tasks in the specification's form."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakescan.expressions.json_codec import from_json
from lakescan.formats.metadata_table import as_table
from lakescan.formats.table_format import SnapshotSelector
from lakescan.iceberg.table import IcebergTable
from lakescan.storage import Storage
from lakescan.tables.scan_spec import ScanSpec

BOUNDS = ("lower-bounds", "upper-bounds")
COUNTS = ("value-counts", "null-value-counts", "nan-value-counts")


def scan_tasks(
    metadata_location: str, request: Mapping[str, Any], properties: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the tasks of a plan, each with its delete files (not references to them)."""
    storage = Storage(io_properties=properties)
    table = IcebergTable.open(metadata_location, storage)
    asked = request["snapshot-id"]
    is_current = not request["use-snapshot-schema"] and asked == table.metadata.current_snapshot_id
    selector = SnapshotSelector() if is_current else SnapshotSelector(version=asked)  # else the snapshot's columns
    spec = ScanSpec(table, storage, metadata_location, selector=selector)
    listed = {
        (each["file_path"], each.get("content_offset")): each
        for each in as_table(spec.metadata_table("files")).to_pylist()
    }
    if "filter" in request:
        spec = spec.where(from_json(json.dumps(request["filter"])))
    stats = {spec.snapshot.schema.field(name).id for name in request.get("stats-fields", ())}
    planned = spec.file_table()
    deletes = planned.deletes.to_pylist()
    of_file: dict[int, list[Any]] = {}
    for file, number in zip(*(each.tolist() for each in planned.references.expand()), strict=True):
        of_file.setdefault(file, []).append(deletes[number])
    found = []
    for number, path in enumerate(planned.files["path"].to_pylist()):
        named = of_file.get(number, [])
        wanted = [(each["path"], each["offset"]) for each in named]
        found.append(
            {
                "data-file": content_file(table, listed[path, None], stats),
                "deletes": [content_file(table, listed[each], ()) for each in wanted],
            }
        )
    return found


def as_answer(tasks: list[dict[str, Any]]) -> dict[str, Any]:
    """Convert tasks to an answer whose tasks reference shared delete files."""
    deletes: list[Any] = []
    found = []
    for each in tasks:
        for delete in each["deletes"]:
            if delete not in deletes:
                deletes.append(delete)
        references = [deletes.index(delete) for delete in each["deletes"]]
        task = {"data-file": each["data-file"]}
        found.append(task | ({"delete-file-references": references} if references else {}))
    return {"file-scan-tasks": found, **({"delete-files": deletes} if deletes else {})}


def content_file(table: IcebergTable, row: Mapping[str, Any], stats: Collection[int]) -> dict[str, Any]:
    """Convert a row of the metadata table `files` to a content file in JSON, with statistics of some fields."""
    spec = table.metadata.specs[row["spec_id"]]
    partition = row.get("partition") or {}
    found = {
        "content": ("data", "position-deletes", "equality-deletes")[row["content"]],
        "file-path": row["file_path"],
        "file-format": row["file_format"].lower(),
        "spec-id": row["spec_id"],
        "partition": [single_value(partition.get(field.name)) for field in spec.fields],
        "record-count": row["record_count"],
        "file-size-in-bytes": row["file_size_in_bytes"],
        "split-offsets": row["split_offsets"],
        "equality-ids": row["equality_ids"],
        "content-offset": row.get("content_offset"),
        "content-size-in-bytes": row.get("content_size_in_bytes"),
        "referenced-data-file": row.get("referenced_data_file"),
        "first-row-id": row.get("first_row_id"),
    }
    for name in (*COUNTS, *BOUNDS):
        pairs = {key: value for key, value in dict(row[name.replace("-", "_")] or ()).items() if key in stats}
        if pairs:
            values = [value.hex().upper() if isinstance(value, bytes) else value for value in pairs.values()]
            found[name] = {"keys": list(pairs), "values": values}
    return {name: value for name, value in found.items() if value is not None}


def single_value(value: Any) -> Any:
    """Convert a value to the specification's JSON form."""
    match value:
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return value.hex().upper()
    return value


def in_pages(tasks: list[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    """Yield the tasks in pages."""
    for start in range(0, len(tasks), size):
        yield tasks[start : start + size]
