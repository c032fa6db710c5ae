"""Task groups survive the conversion to rows of plain types and back."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lakescan.planning.delete_files import DeleteReferences
from lakescan.planning.file_table import DELETES, FILES, FileTable
from lakescan.planning.task_group_rows import PLACE, GroupRows, decode_plain, encode_plain
from lakescan.planning.task_groups import TaskGroups

VALUES = [
    pa.array([True, None]),
    pa.array([1, None], pa.int8()),
    pa.array([1.5, None], pa.float32()),
    pa.array(["a", None]),
    pa.array(["a", None], pa.large_string()),
    pa.array([b"\xff", None]),
    pa.array([b"\xff\x00", None], pa.binary(2)),
    pa.array([Decimal("-1.10"), None], pa.decimal128(38, 2)),
    pa.array([dt.date(1, 1, 1), None]),
    pa.array([dt.time(1, 2, 3, 4), None], pa.time64("us")),
    pa.array([dt.datetime(9999, 1, 1), None], pa.timestamp("us")),
    pa.array([1, None], pa.timestamp("ns", "UTC")),
    pa.nulls(2),
    pa.array(["a", "a"]).dictionary_encode(),
    pa.array([{}, {}], pa.struct([])),
    pa.array([{"a": {"b": dt.date(2020, 1, 1)}}, None], pa.struct([("a", pa.struct([("b", pa.date32())]))])),
    pa.array([["x", None], None, []], pa.list_(pa.string())),
    pa.array([[dt.date(2020, 1, 1)], None], pa.list_(pa.date32())),
]


@pytest.mark.parametrize("values", VALUES, ids=lambda each: str(each.type))
def test_values_survive_as_plain_ones(values: pa.Array) -> None:
    assert decode_plain(encode_plain(values), values.type).equals(values)
    assert decode_plain(encode_plain(values.slice(1)), values.type).equals(values.slice(1))


def test_groups_are_unchanged_after_being_sent() -> None:
    rows = [
        {"path": f"f{n}", "file_format": "parquet", "size": 9, "spec_id": 0, "same_place": ["x"] if n else None}
        for n in range(5)
    ]
    files = pa.Table.from_pylist([{**row, "deletes": [], "equality_deletes": []} for row in rows], schema=FILES)
    days = pa.StructArray.from_arrays([pa.array([dt.date(2020, 1, n + 1) for n in range(5)])], names=["1"])
    files = files.append_column("partition", days).append_column("constants", days)
    deletes = [{"kind": "deletion-vector", "path": f"d{n}"} for n in range(2)]
    keys = [{"kind": "equality-deletes", "path": f"e{n}", "scope": "", "equality_ids": [1]} for n in range(3)]
    table = FileTable(files, pa.Table.from_pylist([*deletes, *keys], schema=DELETES), constant_fields={0: (1,)})
    pairs = (np.array([0, 1, 3]), np.array([0, 1, 0]))
    ranges = (np.array([0, 2]), np.array([2, 3]), np.array([5, 5]))
    table = table.with_deletes(DeleteReferences.build(5, pairs, ranges), table.deletes)
    zeros = np.zeros(5, dtype=np.int64)
    splits = {"file": pa.array(np.arange(5), pa.int32()), "start": zeros, "stop": zeros, "length": zeros}
    groups = TaskGroups(table, pa.table({**splits, "residual": zeros}), np.array([1, 0, 1, 2, 2]))
    sent, rows_of = GroupRows.encode_groups(groups, pa.array(["f4", "f3", "f2", "f1", "f0"]))
    found = [group for batch in sent.to_batches(2) for group in rows_of.groups(batch)]
    assert [group.index for group in found] == [0, 1, 2]
    for mine, theirs in zip(found, groups, strict=True):
        assert mine.splits.drop_columns([PLACE]).equals(theirs.splits)
        assert mine.deletes.equals(theirs.deletes)
        assert mine.splits[PLACE].to_pylist() == [4 - int(path[1:]) for path in theirs.splits["path"].to_pylist()]
        assert [task.deletes for task in mine.tasks()] == [task.deletes for task in theirs.tasks()]
