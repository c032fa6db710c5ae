"""Packing is Iceberg's: first bin with room among the last `lookback`, the fullest closed first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan.planning.bin_packing import pack, pack_in_order, weights
from lakescan.planning.file_table import DELETES, FILES, FileTable
from lakescan.planning.split import split_files


def groups(weight: list[int], target: int, lookback: int) -> list[list[int]]:
    numbers = pack(np.array(weight), target, lookback)
    return [[w for w, n in zip(weight, numbers, strict=True) if n == g] for g in range(numbers.max() + 1)]


@pytest.mark.parametrize(
    ("weight", "target", "lookback", "expected"),
    [
        ([1, 2, 3, 4, 5], 3, 99, [[1, 2], [3], [4], [5]]),
        ([1, 2, 3, 4, 5], 6, 99, [[1, 2, 3], [4], [5]]),
        ([1, 2, 3, 4, 5], 9, 99, [[1, 2, 3], [4, 5]]),
        ([1, 2, 3, 4, 5], 10, 99, [[1, 2, 3, 4], [5]]),
        ([5, 1, 5, 1, 5, 1], 8, 99, [[5, 1, 1, 1], [5], [5]]),
        ([36, 36, 36, 36, 65, 65, 128], 128, 2, [[36, 36, 36], [128], [36, 65], [65]]),
        ([64, 64, 128, 32, 32, 32, 32], 128, 1, [[64, 64], [128], [32, 32, 32, 32]]),
    ],
)
def test_the_bins_equal_those_of_icebergs_packing(
    weight: list[int], target: int, lookback: int, expected: list[list[int]]
) -> None:
    # Recorded from apache/iceberg's BinPacking with the largest bin closed first, as its scan planning uses it.
    assert groups(weight, target, lookback) == expected


def test_a_split_goes_to_the_first_open_bin_with_room() -> None:
    assert groups([1, 2, 3, 4, 5], 3, 10) == [[1, 2], [3], [4], [5]]
    assert groups([5, 1, 4, 1, 1], 5, 10) == [[5], [1, 4], [1, 1]]


def test_with_a_lookback_of_one_bins_are_filled_in_order() -> None:
    assert groups([4, 3, 1, 2], 5, 1) == [[4], [3, 1], [2]]


def test_past_the_lookback_the_fullest_bin_is_closed_first() -> None:
    assert groups([2, 4, 3, 1], 4, 2) == [[4], [2, 1], [3]]


@given(st.lists(st.integers(0, 200), min_size=1, max_size=60), st.integers(1, 100), st.integers(1, 12))
def test_every_split_is_in_one_group_and_only_single_splits_exceed_the_target(
    weight: list[int], target: int, lookback: int
) -> None:
    found = groups(weight, target, lookback)
    assert sorted(w for g in found for w in g) == sorted(weight)
    assert all(g and (sum(g) <= target or len([w for w in g if w]) == 1) for g in found)


def packed_simply(weight: list[int], target: int, lookback: int) -> list[int]:
    """Pack as Iceberg's code does: compare each split with each open bin."""
    room: list[int] = []
    open_bins: list[int] = []
    closed: list[int] = []
    found = []
    for each in weight:
        fitting = [number for number in open_bins if room[number] >= each]
        if fitting:
            number = fitting[0]
        else:
            number = len(room)
            room.append(target)
            open_bins.append(number)
        room[number] -= each
        if len(open_bins) > lookback:
            fullest = min(open_bins, key=room.__getitem__)
            open_bins.remove(fullest)
            closed.append(fullest)
        found.append(number)
    order = {number: place for place, number in enumerate([*closed, *open_bins])}
    return [order[number] for number in found]


@settings(max_examples=300)
@given(
    st.lists(st.integers(0, 200) | st.integers(0, 5) | st.sampled_from([7, 50, 51, 100]), min_size=1, max_size=200),
    st.integers(1, 300),
    st.integers(1, 12),
)
def test_the_groups_are_those_of_comparing_each_split_with_each_open_bin(
    weight: list[int], target: int, lookback: int
) -> None:
    assert pack(np.array(weight), target, lookback).tolist() == packed_simply(weight, target, lookback)


def test_a_split_weighs_its_bytes_and_its_deletes_and_at_least_what_opening_costs() -> None:
    deletes = pa.Table.from_pylist([{"kind": "position-deletes", "size": 50}], schema=DELETES)
    rows = [{"size": 100, "deletes": [0]}, {"size": 100, "deletes": []}, {"size": 3, "deletes": [0]}]
    table = FileTable(
        pa.Table.from_pylist([{"path": "f", "file_format": "parquet", **r} for r in rows], schema=FILES), deletes
    )
    assert weights(split_files(table, 1000), table, open_cost=30).tolist() == [150, 100, 60]


@given(st.lists(st.integers(0, 200), min_size=1, max_size=60), st.integers(1, 100))
def test_splits_whose_order_matters_are_packed_in_order(weight: list[int], target: int) -> None:
    numbers = pack_in_order(np.array(weight), target)
    assert numbers[0] == 0
    assert set(np.diff(numbers)) <= {0, 1}
    sums = np.bincount(numbers, weights=weight)
    counts = np.bincount(numbers[np.array(weight) > 0], minlength=len(sums))
    assert all((sums <= target) | (counts == 1))
    starts = np.flatnonzero(np.diff(numbers)) + 1
    assert all(sums[numbers[at] - 1] + weight[at] > target for at in starts)
