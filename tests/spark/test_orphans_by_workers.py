"""Orphans that Spark's workers find and remove."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakescan
from lakescan.spark import SparkExecutor
from tests.transaction.aged import age, folder_of, stray
from tests.transaction.support import rows


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_workers_list_compare_and_remove(spark: Any, tmp_path: Path, format: str) -> None:
    catalog = lakescan.catalog(f"orphans_{format}", warehouse=tmp_path / "lake")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id BIGINT, part STRING", format=format, partition_by=["part"])
    table.append(rows((1, "a"), (2, "b")))
    folder = folder_of(table.folder)
    stray(folder / "data" / "part=a" / "stray.parquet", folder / "data" / "other.parquet")
    age(folder)
    expected = sorted(table.remove_orphans(dry_run=True))
    assert len(expected) == 2
    assert list(table.remove_orphans(executor=SparkExecutor(spark))) == expected
    assert table.refresh().count() == 2
    assert not list(folder.rglob("stray.parquet"))
