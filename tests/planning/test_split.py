"""Splits partition a file: every byte is in exactly one split, whatever size the metadata records."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakescan import limits
from lakescan.planning.file_table import FILES, FileTable
from lakescan.planning.split import NO_END, adaptive_size, split_files

MB = 2**20


def files(*rows: dict) -> FileTable:
    plain = {"path": "f", "file_format": "parquet", "deletes": []}
    return FileTable(pa.Table.from_pylist([{**plain, **r} for r in rows], schema=FILES))


def ranges(table: FileTable, size: int) -> list[tuple[int, int, int]]:
    splits = split_files(table, size)
    return list(zip(*(splits[n].to_pylist() for n in ("file", "start", "stop")), strict=True))


def test_a_file_is_cut_at_its_row_groups() -> None:
    table = files({"size": 300, "split_offsets": [4, 100, 200]})
    assert ranges(table, 1000) == [(0, 0, 100), (0, 100, 200), (0, 200, NO_END)]


def test_a_file_without_offsets_is_cut_by_size() -> None:
    assert ranges(files({"size": 250}), 100) == [(0, 0, 100), (0, 100, 200), (0, 200, NO_END)]


def test_offsets_that_do_not_ascend_within_the_file_are_ignored() -> None:
    for offsets in ([4, 4], [200, 100], [4, 999], []):
        assert ranges(files({"size": 300, "split_offsets": offsets}), 1000) == [(0, 0, NO_END)]


def test_an_impossible_size_makes_no_more_splits_than_the_file_can_fill() -> None:
    for size in (2**48, 2**60, 2**63 - 1):
        assert len(ranges(files({"size": size, "record_count": 5}), 100)) == 64
        assert len(ranges(files({"size": size, "record_count": 2**60}), 100)) == limits.SPLITS
        assert len(ranges(files({"size": size, "record_count": -1}), 100)) == limits.SPLITS
        found = ranges(files({"size": size}, {"size": 30}), 100)
        assert len(found) == limits.SPLITS + 1
        assert [stop for _, _, stop in found if stop == NO_END] == [NO_END, NO_END]
        assert split_files(files({"size": size}), 100)["length"].to_numpy().min() > 0


def test_orc_and_avro_files_are_cut_as_parquet_files_are_and_others_stay_whole() -> None:
    for file_format in ("orc", "avro"):
        table = files({"size": 999, "file_format": file_format, "split_offsets": [3, 500]})
        assert ranges(table, 100) == [(0, 0, 500), (0, 500, NO_END)]
        assert len(ranges(files({"size": 999, "file_format": file_format}), 500)) == 2
    assert ranges(files({"size": 999, "file_format": "lance", "split_offsets": [3, 500]}), 100) == [(0, 0, NO_END)]


def test_lengths_add_up_to_the_recorded_size() -> None:
    splits = split_files(files({"size": 250}, {"size": 30, "split_offsets": [4, 20]}), 100)
    assert splits["length"].to_pylist() == [100, 100, 50, 20, 10]


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "size": st.none() | st.integers(0, 500),
                "split_offsets": st.none() | st.lists(st.integers(0, 600), max_size=5),
            }
        ),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 300),
)
def test_every_byte_of_a_file_is_in_exactly_one_split(rows: list[dict], size: int) -> None:
    found = ranges(files(*rows), size)
    for number in range(len(rows)):
        mine = [(start, stop) for file, start, stop in found if file == number]
        assert mine[0][0] == 0
        assert mine[-1][1] == NO_END
        assert all(a[1] == b[0] for a, b in itertools.pairwise(mine))
        assert np.all(np.diff([start for start, _ in mine]) > 0)


def test_the_split_size_adapts_to_the_cores_but_not_below_16_mb() -> None:
    assert adaptive_size(10_000 * MB, 4, 128 * MB) == 128 * MB
    assert adaptive_size(200 * MB, 4, 128 * MB) == 50 * MB
    assert adaptive_size(20 * MB, 4, 128 * MB) == 16 * MB
    assert adaptive_size(20 * MB, 4, 8 * MB) == 8 * MB
