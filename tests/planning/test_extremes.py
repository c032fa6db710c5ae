"""`min` and `max` are those of all rows, from metadata or by reading; only a few files are read."""

from __future__ import annotations

import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.delta_deletes import commit_vectors, stored_vector

import lakescan
from lakescan.planning.metrics_reporters import InMemoryReporter
from tests.support.catalog import local_catalog

_ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-5, 5),
        st.none() | st.sampled_from([-1.5, 0.0, -0.0, 2.0, math.nan]),
        st.none() | st.text("abé", max_size=20),
        st.none() | st.dates(date(1969, 12, 30), date(1970, 1, 3)),
    ),
    max_size=4,
)
_SCHEMA = pa.schema({"i": pa.int64(), "f": pa.float64(), "s": pa.string(), "d": pa.date32()})


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(_SCHEMA.names, row, strict=True)) for row in rows], _SCHEMA)


def expected(values: list[Any], largest: bool) -> Any:
    """Compute the extreme as SQL does: nulls do not count, NaN is greatest."""
    known = [v for v in values if v is not None]
    key = (lambda v: (1, 0.0) if isinstance(v, float) and math.isnan(v) else (0, v)) if known else None
    return None if not known else (max if largest else min)(known, key=key)


@pytest.mark.slow
@settings(max_examples=25)
@given(files=st.lists(_ROWS, max_size=3), condition=st.sampled_from(["true", "i > 0", "i is null or i < 2"]))
@pytest.mark.parametrize("name", ["iceberg", "delta"])
def test_extremes_equal_those_of_a_full_scan(
    name: str, files: list[Any], condition: str, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.mktemp("t")
    if name == "iceberg":
        made = local_catalog(folder).create_table("n.t", _SCHEMA)
        for rows in files:
            made.append(arrow(rows))
        location = made.metadata_location
    else:
        location = str(folder / "t")
        write_deltalake(location, arrow([]))
        for rows in files:
            write_deltalake(location, arrow(rows), mode="append")
    scan = lakescan.table(location).scan()
    scan = scan if condition == "true" else scan.where(condition)
    rows = scan.to_arrow()
    for column in _SCHEMA.names:
        values = rows[column].to_pylist()
        assert same(scan.min(column), expected(values, largest=False)), column
        assert same(scan.max(column), expected(values, largest=True)), column


def same(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


@pytest.fixture
def numbers(tmp_path: Path) -> str:
    for start in (0, 100, 200):
        write_deltalake(tmp_path / "t", pa.table({"n": range(start, start + 100)}), mode="append")
    return str(tmp_path / "t")


def test_bounds_answer_without_a_file_being_read(numbers: str) -> None:
    for data in Path(numbers).glob("*.parquet"):
        data.unlink()
    scan = lakescan.table(numbers).scan()
    assert (scan.min("n"), scan.max("n"), scan.count()) == (0, 299, 300)


def test_only_files_that_may_have_a_better_value_are_read(numbers: str) -> None:
    """The file with the greatest values has a deleted row, so it is read. The middle file need not be read."""
    first, middle, last = (
        lakescan.table(numbers).scan().where(f"n = {n}").plan().files["path"][0].as_py() for n in (0, 150, 250)
    )
    commit_vectors(Path(numbers), {Path(last).name: stored_vector(Path(numbers), [99])})
    Path(first).unlink()
    Path(middle).unlink()
    scan = lakescan.table(numbers).scan()
    assert scan.max("n") == 298
    assert scan.min("n") == 0


def test_a_limit_and_a_column_without_order_are_refused(numbers: str, tmp_path: Path) -> None:
    with pytest.raises(lakescan.InvalidOption, match="remove the limit"):
        lakescan.table(numbers).scan().limit(3).min("n")
    write_deltalake(tmp_path / "nested", pa.table({"l": [[1], [2]]}))
    with pytest.raises(lakescan.InvalidOption, match="no order"):
        lakescan.table(tmp_path / "nested").scan().max("l")


def test_a_partition_column_is_answered_by_its_values(tmp_path: Path) -> None:
    """Texts in statistics may be cut; partition values are whole."""
    names = ["a" * 50, "b" * 50]
    write_deltalake(tmp_path / "t", pa.table({"p": names, "n": [1, 2]}), partition_by=["p"])
    for data in (tmp_path / "t").glob("*/*.parquet"):
        data.unlink()
    scan = lakescan.table(tmp_path / "t").scan()
    assert (scan.min("p"), scan.max("p")) == tuple(names)


def test_times_are_exact_although_statistics_are_truncated(tmp_path: Path) -> None:
    """Delta's statistics hold milliseconds."""
    moment = datetime(2026, 1, 1, 0, 0, 0, 123_456)
    write_deltalake(tmp_path / "t", pa.table({"t": pa.array([moment], pa.timestamp("us"))}))
    assert lakescan.table(tmp_path / "t").scan().max("t") == moment


def test_reporters_receive_the_plan(numbers: str) -> None:
    reports = InMemoryReporter()
    lakescan.table(numbers).scan().report_to(reports).min("n")
    assert [r.metrics.result_data_files for r in reports.reports] == [3]
