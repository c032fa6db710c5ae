"""Task groups of one partition: writing each group makes as few files as the size allows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakescan.planning.plan import assign_groups, partition_numbers

PIECES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1000)), max_size=60)


@given(PIECES, st.integers(1, 3000))
def test_each_group_has_neighbouring_files_of_one_partition(pieces: list[tuple[int, int]], size: int) -> None:
    partition = np.array([number for number, _ in pieces], dtype=np.int64)
    lengths = np.array([length for _, length in pieces], dtype=np.int64)
    group = assign_groups(partition, lengths, size)
    assert sorted(set(group.tolist())) == list(range(len(set(group.tolist()))))
    for number in set(partition.tolist()):
        mine = group[partition == number]
        assert (np.diff(mine) >= 0).all()
        assert set(mine.tolist()).isdisjoint(group[partition != number].tolist())
        assert len(set(mine.tolist())) <= max(1, round(lengths[partition == number].sum() / size))


def test_a_partition_is_divided_evenly() -> None:
    group = assign_groups(np.zeros(12, dtype=np.int64), np.full(12, 100), 500)
    assert np.bincount(group).tolist() == [6, 6]
    assert assign_groups(np.array([1, 0, 1, 0]), np.array([1, 1, 1, 1]), 500).tolist() == [1, 0, 1, 0]


def test_partitions_are_equal_by_all_values_and_their_spec() -> None:
    kind = pa.struct([("a", pa.string()), ("b", pa.int32())])
    values = [("x", 1), ("x", None), (None, 1), ("x", 1), ("x", 1), ("x", None)]
    partition = pa.chunked_array([pa.array([{"a": a, "b": b} for a, b in values], kind)])
    files = pa.table({"spec_id": pa.array([0, 0, 0, 0, 1, 0], pa.int32()), "partition": partition})
    numbers = partition_numbers(files).tolist()
    assert numbers[0] == numbers[3]
    assert numbers[1] == numbers[5]
    assert len(set(numbers)) == 4


def test_files_of_unpartitioned_tables_share_one_partition() -> None:
    files = pa.table({"spec_id": pa.array([0, 0], pa.int32()), "partition": pa.array([{}, {}], pa.struct([]))})
    assert partition_numbers(files).tolist() == [0, 0]
