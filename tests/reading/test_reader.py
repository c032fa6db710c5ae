"""Reading the splits of a file one by one gives each row once, with deletes applied, for every split size."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples.delta_deletes import commit_vectors, inline_vector, stored_vector

import lakescan
from lakescan.common.cache import CACHE
from lakescan.local.reader import read_batches

ROWS = 1_000


@pytest.fixture(scope="module")
def deleted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, set[int]]:
    """Make a Delta table of one file with twenty row groups and a deletion vector; return the remaining numbers."""
    from deltalake import WriterProperties, write_deltalake

    folder = tmp_path_factory.mktemp("splits") / "table"
    write_deltalake(
        str(folder),
        pa.table({"n": np.arange(ROWS), "text": [f"row {i}" for i in range(ROWS)]}),
        writer_properties=WriterProperties(max_row_group_size=50),
    )
    (data,) = folder.glob("*.parquet")
    assert pq.ParquetFile(data).num_row_groups > 5
    gone = sorted({*range(0, ROWS, 7), *range(300, 420)})
    commit_vectors(folder, {data.name: stored_vector(folder, gone, prefix="ab")})
    return str(folder), set(range(ROWS)) - set(gone)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(split_size=st.integers(100, 20_000), batch_size=st.integers(1, 300), readers=st.integers(1, 3))
def test_each_row_is_read_once_whatever_the_splits(deleted, split_size: int, batch_size: int, readers: int) -> None:
    location, expected = deleted
    scan = lakescan.table(location).scan().options(split_size=split_size, batch_size=batch_size, file_open_cost=1)
    plan = scan.plan()
    batches = read_batches([(plan, scan.spec.read_context(plan))], readers=readers)
    found = [n for batch in batches for n in batch["n"].to_pylist()]
    assert len(found) == len(expected)
    assert set(found) == expected


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(low=st.integers(-10, 1010), width=st.integers(0, 400))
def test_a_filter_gives_the_rows_of_a_full_scan_and_then_the_filter(deleted, low: int, width: int) -> None:
    location, expected = deleted
    found = lakescan.table(location).scan().where(f"n >= {low} and n < {low + width}").select("text").to_arrow()
    assert sorted(found["text"].to_pylist()) == sorted(f"row {n}" for n in expected if low <= n < low + width)


def test_a_vector_with_the_wrong_number_of_rows_is_refused(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), pa.table({"n": [1, 2, 3]}))
    (data,) = tmp_path.glob("*.parquet")
    vector = {**inline_vector([0, 2]), "cardinality": 3}
    commit_vectors(tmp_path, {data.name: vector})
    with pytest.raises(lakescan.CorruptMetadata, match="2 rows, but the metadata records 3"):
        lakescan.table(tmp_path).scan().to_arrow()


def test_a_missing_vector_file_is_an_error(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), pa.table({"n": [1, 2, 3]}))
    (data,) = tmp_path.glob("*.parquet")
    commit_vectors(tmp_path, {data.name: stored_vector(tmp_path, [1])})
    assert lakescan.table(tmp_path).scan().to_arrow()["n"].to_pylist() == [1, 3]
    next(tmp_path.glob("deletion_vector_*.bin")).unlink()
    CACHE.clear()  # as in a process that has not read it
    with pytest.raises(lakescan.MissingFile, match="deletion_vector"):
        lakescan.table(tmp_path).scan().to_arrow()


def test_a_data_file_that_is_not_parquet_is_an_error_that_names_it(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), pa.table({"n": [1, 2, 3]}))
    (data,) = tmp_path.glob("*.parquet")
    data.write_bytes(b"not parquet at all")
    with pytest.raises(lakescan.CorruptMetadata, match=data.name):
        lakescan.table(tmp_path).scan().to_arrow()


def test_closing_the_batches_stops_the_readers(deleted) -> None:
    location, _ = deleted
    before = threading.active_count()
    scan = lakescan.table(location).scan().options(batch_size=1, split_size=100, file_open_cost=1)
    plan = scan.plan()
    batches = read_batches([(plan, scan.spec.read_context(plan))], readers=3)
    assert next(batches).num_rows == 1
    batches.close()
    for _ in range(100):
        if threading.active_count() <= before:
            return
        time.sleep(0.05)
    raise AssertionError("readers are still running")
