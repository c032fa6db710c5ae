"""Splits and task groups are those of Java's `planTasks()` on the same metadata."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from samples.iceberg_deletes import DeleteFile, local, manifest_entry, write_manifest, write_manifest_list
from samples.iceberg_table import SNAPSHOT, write_table

import lakescan

MB = 2**20


def sized_table(folder: Path, sizes: list[int], file_format: str) -> str:
    """Make a table whose metadata lists files of these sizes and this format; the files do not exist."""
    ids = {"PARQUET:field_id": "1"}
    empty = pa.table([pa.array([], pa.int64())], schema=pa.schema([pa.field("id", pa.int64(), metadata=ids)]))
    fields = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    location = write_table(folder, fields, [empty], version=2)
    base = f"file://{folder}/metadata"
    metadata: dict[str, Any] = json.loads(local(location).read_text())
    entries = [
        DeleteFile(0, f"file://{folder}/data/{n:04d}.{file_format}", file_format.upper(), 1, size)
        for n, size in enumerate(sizes)
    ]
    length = write_manifest(f"{base}/m0.avro", metadata, 0, entries, SNAPSHOT)
    write_manifest_list(f"{base}/snap.avro", [manifest_entry(f"{base}/m0.avro", length, 0, 1, SNAPSHOT, entries)])
    return location


def of_java(jvm: Any, location: str, options: dict[str, int]) -> list[dict[str, int]]:
    """Return the bytes by file of each task group in Java's plan."""
    iceberg = jvm._jvm.org.apache.iceberg
    operations = iceberg.StaticTableOperations(location, iceberg.hadoop.HadoopFileIO(jvm._jsc.hadoopConfiguration()))
    scan = iceberg.BaseTable(operations, "t").newScan()
    for name, value in {
        "split-size": "read.split.target-size",
        "lookback": "read.split.planning-lookback",
        "file-open-cost": "read.split.open-file-cost",
    }.items():
        if name in options:
            scan = scan.option(value, str(options[name]))
    groups = []
    collected = iceberg.relocated.com.google.common.collect.Lists.newArrayList(scan.planTasks())
    for group in collected:
        found: dict[str, int] = {}
        for task in group.files():
            path = task.file().location()
            found[path] = found.get(path, 0) + task.length()
        groups.append(found)
    return groups


def of_lakescan(location: str, options: dict[str, int]) -> list[dict[str, int]]:
    scan = lakescan.table(location).scan().options(**{"split-size": 128 * MB} | options)
    groups = []
    for group in scan.plan().groups:
        found: dict[str, int] = {}
        for path, length in zip(group.splits["path"].to_pylist(), group.splits["length"].to_pylist(), strict=True):
            found[path] = found.get(path, 0) + length
        groups.append(found)
    return groups


@pytest.mark.parametrize(
    "options", [{}, {"split-size": 16 * MB}, {"lookback": 1}, {"lookback": 50, "file-open-cost": MB}]
)
@pytest.mark.parametrize("kind", ["tiny", "mixed", "large", "whole splits"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_task_groups_equal_those_of_java(
    jvm, tmp_path: Path, file_format: str, kind: str, options: dict[str, int]
) -> None:
    chance = random.Random(kind)
    most = {"tiny": 2 * MB, "mixed": 200 * MB, "large": 900 * MB}
    sizes = [
        chance.randint(1, 5) * 16 * MB if kind == "whole splits" else chance.randint(1, most[kind]) for _ in range(150)
    ]
    location = sized_table(tmp_path / "t", sizes, file_format)
    assert of_lakescan(location, options) == of_java(jvm, location, options)
