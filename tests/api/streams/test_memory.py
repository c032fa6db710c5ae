"""The memory of a long-running stream stays flat."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import lakescan
from lakescan.api.stream import TableStream
from tests.api.streams.support import SCHEMA

_COMMITS, _BATCHES = 3_000, 300
_MIB = 2**20


def commit(path: Path, first: int, stop: int) -> None:
    """Write commits of one file each; the files exist only in the log, because only planning reads them."""
    for version in range(first, stop):
        stats = json.dumps({"numRecords": 10, "minValues": {"id": version}, "maxValues": {"id": version}})
        add = {
            "path": f"{version}.parquet",
            "partitionValues": {"part": "1"},
            "size": 1000,
            "modificationTime": 1_700_000_000_000 + version,
            "dataChange": True,
            "stats": stats,
        }
        (path / "_delta_log" / f"{version:020d}.json").write_text(json.dumps({"add": add}) + "\n")


def held() -> int:
    """Return the bytes held by Python objects and Arrow arrays."""
    return tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes()


@pytest.mark.slow
def test_memory_stays_flat_over_thousands_of_commits_in_hundreds_of_batches(tmp_path: Path) -> None:
    """Only the names of ten commits in the listing are kept, so memory is bounded by one batch."""
    path = tmp_path / "t"
    DeltaTable.create(path, SCHEMA, partition_by=["part"])
    stream = TableStream(lakescan.table(path).scan().options(startingVersion=0).spec)
    at, files, early = stream.initial_offset(), 0, 0
    tracemalloc.start()
    try:
        for batch in range(_BATCHES):
            some = _COMMITS // _BATCHES
            commit(path, 1 + batch * some, 1 + (batch + 1) * some)
            end = stream.latest_offset(at)
            files += sum(len(group.splits) for group in stream.between(at, end).plan().groups)
            stream.backlog(end)
            at = end
            if batch == _BATCHES // 10:
                early = held()
        now = held()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert files == _COMMITS
    assert now - early < 10 * _MIB
    assert peak - early < 20 * _MIB
