"""The code that the pages on moving to lakescan suggest runs, and returns the same as the code it replaces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support import moving


@pytest.mark.spark
def test_the_new_lines_of_a_spark_job_run(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = moving.run("spark", tmp_path)
    lakescan = names["lakescan"]
    assert sorted(lakescan.table("lake.shop.sales").to_arrow()["id"].to_pylist()) == [2, 2, 3, 3]
    assert lakescan.table("lake.shop.customers").partitioning == "country"
    assert lakescan.table(f"{tmp_path}/events").partitioning == "country"
    assert lakescan.table("lake.shop.copy").count() > 0


@pytest.mark.parametrize("page", ["pyiceberg", "deltalake", "polars"])
def test_both_sides_of_a_page_return_the_same_rows(page: str, tmp_path: Path) -> None:
    found = []
    for side in ("before", "after"):
        folder = tmp_path / side
        folder.mkdir()
        found.append(moving.run(page, folder, side))
    before, after = found
    both = [name for name in after if name in before and (rows := _rows(after[name])) is not None and rows]
    assert len(both) >= 5, "the sides compare too little"
    for name in both:
        assert _rows(before[name]) == _rows(after[name]), name


def _rows(value: Any) -> list[str] | None:
    """Return the rows of a frame of at most three columns, sorted; None for any other value."""
    if type(value).__module__.startswith("polars"):
        value = value.to_arrow() if hasattr(value, "to_arrow") else None
    if type(value).__module__.startswith("pandas"):
        value = pa.Table.from_pandas(value, preserve_index=False)
    if type(value).__module__.startswith("arro3"):
        value = pa.table(value)
    if not isinstance(value, pa.Table) or not {"id", "country"} & set(value.column_names):
        return None
    return sorted(str(sorted(row.items())) for row in value.to_pylist())


def test_the_replacements_of_duckdbs_extensions_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = moving.run("duckdb", tmp_path)
    assert sorted(names["lakescan"].table("lake.shop.orders").to_arrow()["id"].to_pylist()) == [2, 3, 4]
    assert names["lakescan"].table(f"{tmp_path}/events").count() == 4
