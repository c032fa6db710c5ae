"""Deleted rows as bitmaps: cached for the next task, bounded, and checked against the metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64
from samples.iceberg_deletes import commit_deletes, local, write_equality_deletes, write_position_deletes

import lakescan
from lakescan.errors import CorruptData
from lakescan.planning.delete_files import delete_files
from lakescan.reading.deletes import position_deletes as deletes
from lakescan.reading.deletes.deletion_vectors import bitmap_of, check_vector_rows, positions_in_range, words_of
from lakescan.reading.deletes.position_deletes import RowSelection
from tests.support.catalog import local_catalog

POSITIONS = st.lists(st.integers(0, 300) | st.integers(2**33, 2**33 + 300), unique=True)


@given(POSITIONS, st.integers(0, 300), st.integers(1, 200))
def test_the_mask_of_a_batch_is_false_where_rows_are_deleted(positions: list[int], first: int, rows: int) -> None:
    mask = RowSelection(bitmap_of(np.array(positions, dtype=np.int64))).live_rows(first, rows)
    expected = [n not in positions for n in range(first, first + rows)]
    assert (mask is None and all(expected)) or mask.to_pylist() == expected


@given(POSITIONS, st.integers(0, 2**33), st.integers(1, 2**33))
def test_a_range_of_a_bitmap_has_its_positions(positions: list[int], first: int, rows: int) -> None:
    expected = sorted(n - first for n in positions if first <= n < first + rows)
    assert positions_in_range(BitMap64(positions), first, rows).tolist() == expected


@given(st.lists(st.integers(0, 10_000_000), unique=True, max_size=20))
def test_words_hold_one_bit_per_position(positions: list[int]) -> None:
    words = np.concatenate([np.zeros(0, dtype=np.int64), *words_of(BitMap64(positions))])
    bits = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
    assert bits.tolist() == sorted(positions)
    assert len(words) == (max(positions) // 64 + 1 if positions else 0)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    """Make two files of ten numbers and a position delete file naming both, with a wrong row count in the metadata."""
    made = local_catalog(tmp_path).create_table("n.t", pa.schema({"n": pa.int64()}))
    for start in (0, 10):
        made.append(pa.table({"n": range(start, start + 10)}))
    return made


def paths(table: Any) -> list[str]:
    return sorted(f["file_path"] for f in table.inspect.files().to_pylist())


def test_a_delete_file_is_decoded_once_for_all_groups(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{table.location()}/data/p.parquet"
    deletes_of = [write_position_deletes(path, [(data, 3) for data in paths(table)])]
    scan = lakescan.table(commit_deletes(table.metadata_location, deletes_of)).scan()
    opened: list[str] = []
    original = deletes.open_data_file
    monkeypatch.setattr(
        deletes, "open_data_file", lambda s, p, *rest, **more: opened.append(p) or original(s, p, *rest, **more)
    )
    assert scan.options(split_size=1, file_open_cost=1).to_arrow().num_rows == 18
    assert scan.options(split_size=1, file_open_cost=1).to_arrow().num_rows == 18
    assert opened == [path]


@pytest.mark.parametrize("kind", ["positions", "keys"])
def test_a_delete_file_with_fewer_rows_than_recorded_is_noticed(table: Any, kind: str) -> None:
    path = f"{table.location()}/data/d.parquet"
    if kind == "positions":
        made = write_position_deletes(path, [(data, 3) for data in paths(table)])
        location = commit_deletes(table.metadata_location, [made])
        write_position_deletes(path, [(paths(table)[0], 3)])
    else:
        location = commit_deletes(
            table.metadata_location, [write_equality_deletes(path, pa.table({"n": [1, 2]}), {"n": 1})]
        )
        write_equality_deletes(path, pa.table({"n": [1]}), {"n": 1})
    assert local(path).exists()
    with pytest.raises(lakescan.CorruptMetadata, match="1 deletes, but the metadata records 2"):
        lakescan.table(location).scan().to_arrow()


@pytest.mark.parametrize("kind", ["positions", "keys"])
def test_all_deletes_of_a_file_with_more_than_recorded_apply(
    table: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Impala's test table `iceberg_v2_delete_equality_nulls` has such a file, and Impala applies all of its rows."""
    path = f"{table.location()}/data/d.parquet"
    if kind == "positions":
        deleted = [(paths(table)[0], 3), (paths(table)[0], 4)]
        location = commit_deletes(table.metadata_location, [write_position_deletes(path, deleted[:1])])
        write_position_deletes(path, deleted)
    else:
        made = write_equality_deletes(path, pa.table({"n": [1]}), {"n": 1})
        location = commit_deletes(table.metadata_location, [made])
        write_equality_deletes(path, pa.table({"n": [1, 2]}), {"n": 1})
    scan, every = lakescan.table(location).scan(), table.scan().to_arrow().num_rows
    assert (scan.to_arrow().num_rows, scan.count()) == (every - 2, every - 2)
    assert "has 2 deletes, but the metadata records 1: all are applied" in caplog.text


def test_a_vector_of_rows_that_the_file_lacks_is_refused() -> None:
    vector = BitMap64([1, 9])
    assert check_vector_rows(vector, "f", 10) == vector
    assert check_vector_rows(vector, "f", None) == vector
    for rows in (0, 2, 9):
        with pytest.raises(CorruptData, match=r"f has .* rows, but its deletion vector deletes row 9"):
            check_vector_rows(vector, "f", rows)
    with pytest.raises(CorruptData, match="at most"):
        check_vector_rows(BitMap64([2**62]), "f", None)


def test_position_deletes_of_rows_that_the_file_lacks_delete_nothing(table: Any) -> None:
    data = paths(table)[0]
    made = write_position_deletes(f"{table.location()}/data/p.parquet", [(data, 3), (data, 10), (data, 2**62)])
    scan = lakescan.table(commit_deletes(table.metadata_location, [made])).scan()
    assert scan.to_arrow().num_rows == scan.count() == 19
    loader = deletes.DeleteLoader(scan.spec.storage, paths(table))
    by_position = delete_files(scan.plan().deletes)
    assert loader.selection(data, by_position, rows=10).deleted == BitMap64([3])
    assert loader.selection(data, by_position).deleted.max() == 2**62


def test_a_delete_file_without_the_column_that_it_deletes_by_is_refused(table: Any) -> None:
    path = f"{table.location()}/data/p.parquet"
    made = write_position_deletes(path, [(data, 3) for data in paths(table)])
    location = commit_deletes(table.metadata_location, [made])
    for name in ("file_path", "pos"):
        found = pq.read_table(local(path))
        pq.write_table(found.rename_columns([n + "_x" if n == name else n for n in found.schema.names]), local(path))
        with pytest.raises(CorruptData, match=f"p.parquet lacks the column '{name}'"):
            lakescan.table(location).scan().to_arrow()
        write_position_deletes(path, [(data, 3) for data in paths(table)])
