"""Column names with dots in frames that workers write: PySpark reads such names as struct members."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakescan
import lakescan.spark

NAME = "spardots.db.t"


@pytest.fixture(params=["iceberg", "delta"])
def table(request: pytest.FixtureRequest, spark: Any, tmp_path: Path) -> lakescan.Table:
    """The rows (1, 'a') and (2, 'b') of the columns `id` and `na.me`, saved from a frame."""
    lakescan.catalog("spardots", warehouse=str(tmp_path / "lake")).create_namespace("db")
    feed = {"delta.enableChangeDataFeed": "true"} if request.param == "delta" else {}
    lakescan.save(frame(spark, (1, "a"), (2, "b")), NAME, format=request.param, properties=feed)
    return lakescan.table(NAME)


def frame(spark: Any, *rows: tuple[int, str]) -> Any:
    return spark.createDataFrame(list(rows), "id int, `na.me` string")


def rows() -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in lakescan.table(NAME).to_arrow().to_pylist())


def test_frames_are_appended_and_upserted(spark: Any, table: lakescan.Table) -> None:
    table.append(frame(spark, (3, "c")))
    table.upsert(frame(spark, (2, "x"), (4, "d")), keys="id")
    table.overwrite(frame(spark, (33, "c")), where="`na.me` = 'c'")
    assert rows() == [(1, "a"), (2, "x"), (4, "d"), (33, "c")]


def test_statements_write_columns_with_dots(spark: Any, table: lakescan.Table) -> None:
    for text in (
        f"INSERT INTO {NAME} VALUES (3, 'c')",
        f"INSERT INTO {NAME} (`na.me`, id) VALUES ('d', 4)",
        f"UPDATE {NAME} SET `na.me` = concat(`na.me`, '!') WHERE `na.me` = 'c'",
        f"MERGE INTO {NAME} t USING (SELECT 1 AS id, 'z' AS `na.me`) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        f"DELETE FROM {NAME} WHERE `na.me` = 'b'",
    ):
        lakescan.spark.sql(spark, text)
    assert rows() == [(1, "z"), (3, "c!"), (4, "d")]
    lakescan.spark.sql(spark, f"INSERT OVERWRITE {NAME} SELECT id, `na.me` FROM {NAME} WHERE id = 4")
    assert rows() == [(4, "d")]


def test_stream_batches_upsert_columns_with_dots(spark: Any, table: lakescan.Table) -> None:
    modes = [{}, {"upsert-mode": "equality"}] if table.format == "iceberg" else [{}]
    for n, mode in enumerate(modes):
        lakescan.spark.upsert_sink(NAME, "`na.me`", query=f"q{n}", **mode)(frame(spark, (10 + n, "a")), 0)
    assert rows() == [(2, "b"), (9 + len(modes), "a")]


def test_net_changes_have_columns_with_dots(spark: Any, table: lakescan.Table) -> None:
    first = lakescan.table(NAME).history().to_pylist()[-1]
    table.upsert(frame(spark, (2, "x")), keys="id")
    changes = lakescan.table(NAME).changes(first.get("version") if table.format == "delta" else first["snapshot_id"])
    found = changes.to_spark(spark).select("id", "`na.me`").collect()
    assert sorted(tuple(row) for row in found if row[1] != "b")[-1] == (2, "x")
    assert len(found) == changes.to_arrow().num_rows
