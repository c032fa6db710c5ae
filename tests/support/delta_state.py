"""The state of a Delta table for comparisons, and logs reduced to a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lakescan.delta.log.reader import LogReader
from lakescan.delta.log.segment import list_log
from lakescan.planning.scan_report import ScanMetrics
from lakescan.storage import Storage

_OF_THE_LOG = ("version", "line", "is_add", "stats_parsed")


def state(table: Path, version: int | None = None) -> tuple[Any, ...]:
    """Return the protocol, metadata and live files with all data that scans use; statistics are parsed."""
    storage = Storage()
    reader = LogReader(str(table), storage)
    described = reader.version(list_log(str(table), storage).segment(version))
    partition = tuple(f.physical_name for f in described.partition_fields(described.schema()))
    files = reader.live_files(described.segment, partition, ScanMetrics()).sort_by("path")
    rows = files.select([name for name in files.column_names if name not in _OF_THE_LOG]).to_pylist()
    for row in rows:
        row["stats"] = row["stats"] and json.loads(row["stats"])
    return described.protocol, described.metadata, rows


def newest_version(table: Path) -> int:
    """Return the newest version in the log."""
    return list_log(str(table), Storage()).latest


def leave_only(table: Path, checkpoint: str) -> None:
    """Remove the log except for one checkpoint and its sidecars; also remove the pointer to the last checkpoint."""
    for file in (table / "_delta_log").iterdir():
        if file.is_file() and file.name not in (Path(checkpoint).name, "_last_checkpoint"):
            file.unlink()


def commit(table: Path, *actions: Mapping[str, Any], version: int | None = None) -> int:
    """Append a commit of these actions and return its version."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    number = len(list(log.glob("*.json"))) if version is None else version
    (log / f"{number:020d}.json").write_text("\n".join(json.dumps(each) for each in actions) + "\n")
    return number


def first_actions(
    columns: Mapping[str, Any],
    partition: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    features: Iterable[str] = (),
) -> list[dict[str, Any]]:
    """Return the first actions of a table: its protocol and metadata. `columns` are Delta types by name."""
    fields = [{"name": n, "type": kind, "nullable": True, "metadata": {}} for n, kind in columns.items()]
    listed = sorted(features)
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if listed:
        protocol = {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": [name for name in listed if name in ("deletionVectors", "v2Checkpoint", "columnMapping")],
            "writerFeatures": listed,
        }
    metadata = {
        "id": "2b41d28b-f82e-4fc6-a52a-e635b9ad1e02",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partition),
        "configuration": dict(properties or {}),
        "createdTime": 1,
    }
    return [{"protocol": protocol}, {"metaData": metadata}]


def added(path: str, partition: Mapping[str, str | None] | None = None, **members: Any) -> dict[str, Any]:
    """Return an add action."""
    file = {"path": path, "partitionValues": dict(partition or {}), "size": 10, "modificationTime": 1}
    return {"add": {**file, "dataChange": True, **members}}


def removed(path: str, at: int, **members: Any) -> dict[str, Any]:
    """Return a remove action; `at` in milliseconds since 1970."""
    return {"remove": {"path": path, "deletionTimestamp": at, "dataChange": True, **members}}
