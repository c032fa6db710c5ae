"""Orphans that Spark's workers find and remove."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakescan
from lakescan.spark import SparkExecutor
from tests.tables.aged import folder_of, make_old, write_stray_files
from tests.tables.support import rows


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_workers_list_compare_and_remove(spark: Any, tmp_path: Path, format: str) -> None:
    catalog = lakescan.catalog(f"orphans_{format}", warehouse=tmp_path / "lake")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id BIGINT, part STRING", format=format, partition_by=["part"])
    table.append(rows((1, "a"), (2, "b")))
    folder = folder_of(table.folder)
    write_stray_files(folder / "data" / "part=a" / "stray.parquet", folder / "data" / "other.parquet")
    make_old(folder)
    expected = sorted(table.remove_orphans(dry_run=True))
    assert len(expected) == 2
    assert list(table.remove_orphans(executor=SparkExecutor(spark))) == expected
    assert table.refresh().count() == 2
    assert not list(folder.rglob("stray.parquet"))


def test_statements_list_compare_and_remove_on_workers(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = lakescan.catalog("statements", warehouse=tmp_path / "lake")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id BIGINT, part STRING")
    table.append(rows((1, "a")))
    catalog.load_table("db.t").overwrite(rows((2, "b")))
    lakescan.save(rows((1, "a")), str(tmp_path / "delta"), format="delta")
    folders = folder_of(table.folder), tmp_path / "delta"
    write_stray_files(folders[0] / "data" / "stray.parquet", folders[1] / "stray.parquet")
    for each in folders:
        make_old(each)
    exchanges, exchange = list[int](), SparkExecutor.exchange

    def counted(self: SparkExecutor, *arguments: Any) -> Any:
        exchanges.append(1)
        return exchange(self, *arguments)

    monkeypatch.setattr(SparkExecutor, "exchange", counted)
    removed = lakescan.spark.sql(spark, "CALL statements.system.remove_orphan_files(table => 'db.t')").collect()
    assert [Path(row[0]).name for row in removed] == ["stray.parquet"]
    assert exchanges
    exchanges.clear()
    text = "CALL statements.system.expire_snapshots(table => 'db.t', older_than => TIMESTAMP '2100-01-01 00:00:00')"
    assert lakescan.spark.sql(spark, text).collect()[0]["deleted_data_files_count"] == 1
    assert exchanges
    exchanges.clear()
    lakescan.spark.sql(spark, f"VACUUM delta.`{tmp_path / 'delta'}`").collect()
    assert exchanges
    assert not [each for folder in folders for each in folder.rglob("stray.parquet")]
    assert (lakescan.table(str(tmp_path / "delta")).count(), catalog.load_table("db.t").count()) == (1, 1)
