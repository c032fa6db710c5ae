"""The keys of a MERGE's source prune its target if reading them is cheap and useful."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakescan
from lakescan.spark.statements.merge_keys import SourceKeys
from lakescan.statements.syntax.dml import Clause, Merge, MergeAction, When
from lakescan.statements.syntax.text import Sql, TableName
from tests.tables.support import maker, now, rows

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
EACH = (Clause(When.MATCHED, MergeAction.UPDATE, None, None), Clause(When.NOT_MATCHED, MergeAction.INSERT, None, None))


def held(spark: SparkSession, ids: list[int | None], part: str = "new") -> DataFrame:
    """Return rows that are part of Spark's plan."""
    return spark.createDataFrame(pa.table({"id": pa.array(ids, pa.int64()), "part": [part] * len(ids)}))


def keys(spark: SparkSession, source: DataFrame, on: str = "t.id = s.id", **more: Any) -> SourceKeys | None:
    statement = Merge(TableName(("db", "t"), "t"), Sql("s"), "s", Sql(on), more.get("clauses", EACH))
    return SourceKeys.read_keys(statement, now().scan().spec.snapshot.schema, source)


@pytest.fixture(params=["iceberg", "iceberg version 3", "delta"])
def table(request: pytest.FixtureRequest, local: lakescan.Catalog, spark: SparkSession) -> lakescan.Table:
    """Three files with the ids 0 to 9, 10 to 19 and 20 to 29."""
    maker(request.param, local)(partition_by=())
    for start in (0, 10, 20):
        now().append(rows(*((n, "old") for n in range(start, start + 10))))
    return now()


@pytest.fixture
def small(local: lakescan.Catalog, spark: SparkSession) -> lakescan.Table:
    maker("iceberg", local)(partition_by=())
    now().append(rows((1, "a")))
    return now()


@pytest.mark.parametrize("count", [3, 6_000], ids=["listed", "range"])
def test_files_without_keys_are_not_read(
    spark: SparkSession, table: lakescan.Table, tmp_path: Path, count: int
) -> None:
    """The file that need not be read does not exist."""
    files = table.scan().where("id >= 20").plan().files["path"].to_pylist()
    lost = Path(files[0].removeprefix("file:"))
    content = lost.read_bytes()
    lost.unlink()
    source = held(spark, [*range(3, 3 - count, -1), None])
    result = table.merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert (result.updated, result.inserted) == (min(count, 4), max(count - 4, 0) + 1)
    lost.write_bytes(content)
    found = now().to_arrow()
    assert found.num_rows == 30 + result.inserted
    assert sorted(found.filter(pa.compute.equal(found["part"], "old"))["id"].to_pylist()) == [
        n for n in range(30) if n > 3 or n <= 3 - count
    ]


@pytest.mark.parametrize("threshold", ["10MB", "-1"])
def test_rows_are_the_same_with_and_without_late_materialization(
    spark: SparkSession, table: lakescan.Table, threshold: str
) -> None:
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", threshold)
    try:
        source = held(spark, [5, 25, 99, None])
        table.merge(source, on="(t.id = s.id)").when_matched_delete().when_not_matched_insert_all().execute()
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)
    ids = sorted(now().to_arrow()["id"].to_pylist(), key=lambda n: (n is None, n))
    assert ids == [*(n for n in range(30) if n not in (5, 25)), 99, None]


def test_an_empty_source_changes_nothing(spark: SparkSession, table: lakescan.Table) -> None:
    result = table.merge(held(spark, []), on="t.id = s.id").when_matched_delete().execute()
    assert result.deleted == 0
    assert now().to_arrow().num_rows == 30


def test_not_matched_by_source_reads_all_rows(spark: SparkSession, table: lakescan.Table) -> None:
    result = (
        table.merge(held(spark, [5]), on="t.id = s.id")
        .when_matched_update_all()
        .when_not_matched_by_source_delete()
        .execute()
    )
    assert (result.updated, result.deleted) == (1, 29)


SOURCES: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "rows of the plan": lambda spark, folder: held(spark, [1]),
    "filtered": lambda spark, folder: held(spark, [1]).where("id > 0").selectExpr("id", "upper(part) AS part"),
    "held": lambda spark, folder: held(spark, [1]).repartition(3).persist(),
    "files": lambda spark, folder: _written(held(spark, [1]), folder),
}
OTHERS: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "made by Python": lambda spark, folder: held(spark, [1]).mapInArrow(lambda some: some, "id long, part string"),
    "others each time": lambda spark, folder: _written(held(spark, [1]), folder).withColumn("part", _text("uuid()")),
    "grouped": lambda spark, folder: held(spark, [1]).groupBy("id").agg(_text("max(part) AS part")),
    "of another type": lambda spark, folder: held(spark, [1]).withColumn("id", _text("int(id)")),
}


def _text(text: str) -> Any:
    from pyspark.sql import functions as F

    return F.expr(text)


def _written(frame: DataFrame, folder: Path) -> DataFrame:
    frame.write.parquet(str(folder / "source"))
    return frame.sparkSession.read.parquet(str(folder / "source"))


@pytest.mark.parametrize("name", SOURCES)
def test_keys_of_cheap_sources_are_read(spark: SparkSession, small: lakescan.Table, tmp_path: Path, name: str) -> None:
    source = SOURCES[name](spark, tmp_path)
    try:
        found = keys(spark, source)
        assert found is not None
        assert (found.columns, found.count, str(found.pruning)) == (("id",), 1, "id in (1)")
    finally:
        source.unpersist()


@pytest.mark.parametrize("name", OTHERS)
def test_keys_of_expensive_sources_are_not_read(
    spark: SparkSession, small: lakescan.Table, tmp_path: Path, name: str
) -> None:
    assert keys(spark, OTHERS[name](spark, tmp_path)) is None


@pytest.mark.parametrize(
    "on", ["t.id = s.id + 0", "t.id <=> s.id", "t.id = s.id OR t.part = s.part", "t.id > s.id", "t.id = 1"]
)
def test_conditions_without_source_values_read_no_keys(spark: SparkSession, small: lakescan.Table, on: str) -> None:
    assert keys(spark, held(spark, [1]), on) is None


def test_only_conditions_with_source_values_prune(spark: SparkSession, small: lakescan.Table) -> None:
    found = keys(spark, held(spark, [1, 2]), "s.ID = T.id AND (t.part = s.part) AND t.id < 5")
    assert found is not None
    assert found.columns == ("id", "part")
    assert found.bytes == 2 * (8 + len("new"))
