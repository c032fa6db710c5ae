"""References of data files to deletes, stored as numbers and ranges, expand to the original pairs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakescan.planning.delete_files import DeleteReferences, no_references
from lakescan.planning.file_table import DELETES, FILES, FileTable
from lakescan.planning.task_groups import TaskGroups

POSITIONS, KEYS = 4, 9  # rows of the delete table: deletes by position, then equality deletes

Own = tuple[set[int], list[tuple[int, int]]]


@st.composite
def owns(draw: Any) -> Own:
    """Draw the deletes of a file: numbers, and disjoint ranges."""
    cuts = sorted(draw(st.sets(st.integers(POSITIONS, POSITIONS + KEYS), max_size=4)))
    return draw(st.sets(st.integers(0, POSITIONS - 1))), list(zip(cuts[::2], cuts[1::2], strict=False))


FILES_OF = st.lists(owns(), max_size=7)


def references(files: list[Own]) -> DeleteReferences:
    pairs = [(n, number) for n, (numbers, _) in enumerate(files) for number in numbers]
    ranges = [(n, *each) for n, (_, some) in enumerate(files) for each in some]
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T, np.array(ranges, dtype=np.int64).reshape(-1, 3).T
    return DeleteReferences.build(len(files), tuple(columns[0]), tuple(columns[1]))


def pairs_of(found: DeleteReferences) -> list[tuple[int, int]]:
    return list(zip(*(each.tolist() for each in found.expand()), strict=True))


def model(files: list[Own]) -> list[tuple[int, int]]:
    return sorted(
        (n, number)
        for n, (numbers, ranges) in enumerate(files)
        for number in {*numbers, *(row for low, high in ranges for row in range(low, high))}
    )


@given(files=FILES_OF, values=st.lists(st.integers(0, 99), min_size=POSITIONS + KEYS, max_size=POSITIONS + KEYS))
def test_sums_and_uses_equal_those_of_the_pairs(files: list[Own], values: list[int]) -> None:
    found, expected = references(files), model(files)
    mine = [[number for n, number in expected if n == file] for file in range(len(files))]
    assert pairs_of(found) == expected
    assert found.counts.tolist() == [len(each) for each in mine]
    assert found.sums(np.array(values)).tolist() == [sum(values[number] for number in each) for each in mine]
    assert set(np.flatnonzero(found.reference_mask(POSITIONS + KEYS)).tolist()) == {number for _, number in expected}
    assert found.has_equality.tolist() == [any(number >= POSITIONS for number in each) for each in mine]


@given(files=FILES_OF, others=FILES_OF)
def test_columns_keep_references_and_joining_adds_them(files: list[Own], others: list[Own]) -> None:
    found = references(files)
    again = DeleteReferences.read_columns(pa.table(found.columns()))
    assert pairs_of(again) == model(files)
    others = [*others, *[(set(), [])] * len(files)][: len(files)]
    shifted = references(others).shift(POSITIONS + KEYS)
    assert pairs_of(found.merge(shifted)) == sorted(
        [*model(files), *((n, number + POSITIONS + KEYS) for n, number in model(others))]
    )


def table(files: list[Own]) -> FileTable:
    rows = [{"path": f"f{n}", "file_format": "parquet", "size": 10, "spec_id": 0} for n in range(len(files))]
    listed = pa.Table.from_pylist([{**row, "deletes": [], "equality_deletes": []} for row in rows], schema=FILES)
    nothing = pa.array([{}] * len(rows), pa.struct([]))
    listed = listed.append_column("partition", nothing).append_column("constants", nothing)
    deletes = [{"kind": "deletion-vector", "path": f"d{n}", "size": n} for n in range(POSITIONS)]
    keys = [
        {"kind": "equality-deletes", "path": f"d{n}", "size": n, "scope": "", "equality_ids": [1]}
        for n in range(POSITIONS, POSITIONS + KEYS)
    ]
    whole = FileTable(listed, pa.Table.from_pylist([*deletes, *keys], schema=DELETES), constant_fields={0: ()})
    return whole.with_deletes(references(files), whole.deletes)


@given(files=FILES_OF)
def test_unused_deletes_are_dropped_and_the_others_stay_with_their_files(files: list[Own]) -> None:
    found = table(files).drop_unused_deletes()
    assert found.state() == table(files).state()
    assert len(found.deletes) == len({number for _, number in model(files)})


@given(files=FILES_OF, data=st.data())
def test_a_task_group_has_just_the_deletes_of_its_files(files: list[Own], data: Any) -> None:
    whole = table(files)
    numbers = data.draw(st.lists(st.integers(0, 3), min_size=len(files), max_size=len(files)))
    group = np.unique(np.array(numbers, dtype=np.int64), return_inverse=True)[1].reshape(-1)
    zeros = np.zeros(len(files), dtype=np.int64)
    splits = {"file": pa.array(np.arange(len(files)), pa.int32()), "start": zeros, "stop": zeros, "length": zeros}
    groups = TaskGroups(whole, pa.table({**splits, "residual": pa.array(zeros, pa.int32())}), group)
    expected = {f"f{n}": {f"d{d}" for m, d in model(files) if m == n} for n in range(len(files))}
    for each in map(pickle.loads, map(pickle.dumps, groups)):
        tasks = list(each.tasks())
        assert {task.path: {delete.path for delete in task.deletes} for task in tasks} == {
            task.path: expected[task.path] for task in tasks
        }
        assert set(each.deletes["path"].to_pylist()) == set().union(*(expected[task.path] for task in tasks))
        assert each.deletes.num_rows == len(set(each.deletes["path"].to_pylist()))
    sizes = [
        sum({int(d[1:]) for f in np.flatnonzero(group == n) for d in expected[f"f{f}"]}) for n in range(len(groups))
    ]
    assert groups.sizes["delete_bytes"].to_pylist() == sizes
    shared = groups.merge_groups(1)
    assert [t.path for g in shared for t in g.tasks()] == [t.path for g in groups for t in g.tasks()]


def test_files_without_deletes_refer_to_none() -> None:
    assert pairs_of(DeleteReferences.read_columns(pa.table(no_references(3)))) == []
