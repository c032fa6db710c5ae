"""DELETE, UPDATE, MERGE and upserts run by Spark's workers: the same results as in process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import DataFrame, SparkSession

import lakescan
from lakescan.errors import AmbiguousMerge, QueryFailed, SchemaMismatch
from lakescan.spark.statements import dml
from lakescan.statements.syntax.dml import Assignment, Delete, Update
from lakescan.statements.syntax.text import Sql, TableName
from tests.statements.rows import test_laws as laws
from tests.statements.rows.test_metadata_names import PROPERTIES, change_rows, created
from tests.tables.support import maker, now, pairs, rows

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
MODES = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
KINDS = {
    "iceberg": {},
    "iceberg, merge-on-read": MODES,
    "iceberg version 3, merge-on-read": MODES,
    "iceberg version 3, merge-on-read in two stages": MODES,
    "delta": {},
    "delta, vectors and feed": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
    "delta, vectors in two stages": {"delta.enableDeletionVectors": "true"},
}
T = TableName(("t",))


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch) -> lakescan.Table:
    """Rows 1 to 4 of three partitions, in several files, of each format, version and mode in turn.

    Workers write the deletes of larger tables, in a second stage.
    """
    if "two stages" in request.param:
        monkeypatch.setattr("lakescan.spark.statements.dml._FEW_ROWS", 0)
    maker(request.param.split(",")[0], local)(properties=KINDS[request.param])
    now().append(rows((1, "a"), (2, "a"), (3, "b"), (4, None)))
    return now()


def change(spark: SparkSession, statement: Any) -> Any:
    """Run a statement on the table as Spark SQL does."""
    return now().changed_by({}, lambda target: dml.change(spark, target, statement, {}))


def frame(spark: SparkSession, *found: tuple[int | None, str | None]) -> DataFrame:
    return spark.createDataFrame(list(found), "id long, part string")


def test_values_may_name_the_file_of_a_row(spark: SparkSession, table: lakescan.Table) -> None:
    [path] = table.scan().where("id = 3").select("_file").to_arrow()["_file"].to_pylist()
    assert change(spark, Update(T, (Assignment(("part",), Sql("t._file")),), Sql("id = 3"))).updated == 1
    assert pairs() == [(1, "a"), (2, "a"), (3, path), (4, None)]


def test_delete_by_a_filter_and_by_any_condition(spark: SparkSession, table: lakescan.Table) -> None:
    assert change(spark, Delete(T, Sql("t.id >= 2 AND part = 'a'"))).deleted == 1
    assert pairs() == [(1, "a"), (3, "b"), (4, None)]
    assert change(spark, Delete(T, Sql("sqrt(id) = 2 -- four"))).deleted == 1
    assert change(spark, Delete(T)).deleted == 2
    assert pairs() == []


def test_update_computes_values_of_the_old_row(spark: SparkSession, table: lakescan.Table) -> None:
    values = Assignment(("part",), Sql("concat(part, id)")), Assignment(("t", "id"), Sql("id + 10"))
    assert change(spark, Update(T, values, Sql("id < 4"))).updated == 3
    assert pairs() == [(4, None), (11, "a1"), (12, "a2"), (13, "b3")]


def test_a_frame_is_merged(spark: SparkSession, table: lakescan.Table) -> None:
    result = (
        table.merge(frame(spark, (1, "drop"), (2, "x"), (8, "n"), (None, "null")), on="t.id = s.id")
        .when_matched_delete("s.part = 'drop'")
        .when_matched_update_all()
        .when_not_matched_insert_all("s.id IS NOT NULL")
        .when_not_matched_by_source_update({"part": "'left'"}, "t.part IS NULL")
        .execute()
    )
    assert (result.inserted, result.updated, result.deleted) == (1, 2, 1)
    assert pairs() == [(2, "x"), (3, "b"), (4, "left"), (8, "n")]


def test_a_frame_is_upserted(spark: SparkSession, table: lakescan.Table) -> None:
    result = table.upsert(frame(spark, (1, "z"), (9, "n")), keys="id")
    assert (result.inserted, result.updated) == (1, 1)
    assert pairs() == [(1, "z"), (2, "a"), (3, "b"), (4, None), (9, "n")]
    with pytest.raises(AmbiguousMerge, match="2 of the new rows have id = 5"):
        table.upsert(frame(spark, (5, "z"), (5, "n")), keys="id")


@pytest.mark.parametrize("join", ["t.id = s.id", "t.id BETWEEN s.id AND s.id"], ids=["hash", "loop"])
def test_a_row_with_several_matches_is_an_error_and_leaves_no_files(
    spark: SparkSession, table: lakescan.Table, tmp_path: Path, join: str
) -> None:
    before = sorted(tmp_path.rglob("*.parquet"))
    source = frame(spark, *((2, str(n)) for n in range(40)), (3, "x")).repartition(8)
    with pytest.raises(AmbiguousMerge, match="the row with id = 2"):
        table.merge(source, on=join).when_matched_update_all().execute()
    assert sorted(tmp_path.rglob("*.parquet")) == before
    assert table.merge(source, on=join).when_matched_delete().execute().deleted == 2


def test_the_source_is_read_once(spark: SparkSession, table: lakescan.Table) -> None:
    read = spark.sparkContext.accumulator(0)

    def counted(batches: Any) -> Any:
        for batch in batches:
            read.add(batch.num_rows)
            yield batch

    source = frame(spark, (1, "x"), (9, "y")).mapInArrow(counted, "id long, part string")
    table.merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert read.value == 2
    assert pairs()[0] == (1, "x")


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_that_do_not_fit_fail_the_statement(spark: SparkSession, local: lakescan.Catalog, ansi: str) -> None:
    table = local.create_table("db.t", "id INT, part STRING")
    table.append(pa.table({"id": pa.array([2_000_000_000], pa.int32()), "part": ["a"]}))
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for value in ("CAST(id AS BIGINT) * 2", "'12x'"):
            with pytest.raises(
                QueryFailed, match=r"(?i)^UPDATE of .*(overflow|does not fit|CAST_INVALID_INPUT)"
            ) as found:
                change(spark, Update(T, (Assignment(("id",), Sql(value)),)))
            assert "__lakescan" not in str(found.value)
        with pytest.raises(SchemaMismatch, match="store assignment"):
            change(spark, Update(T, (Assignment(("id",), Sql("current_date()")),)))
        change(spark, Update(T, (Assignment(("id",), Sql("'12'")),)))
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    assert pairs() == [(12, "a")]


def test_refusals_of_workers_are_lakescan_errors(spark: SparkSession, local: lakescan.Catalog) -> None:
    table = local.create_table("db.t", "id BIGINT NOT NULL, part STRING")
    table.append(rows((1, "a")))
    with pytest.raises(SchemaMismatch, match="'id'"):
        change(spark, Update(T, (Assignment(("id",), Sql("nullif(id, 1)")),)))
    with pytest.raises(SchemaMismatch, match="'id'"):
        table.append(frame(spark, (None, "b")))
    assert pairs() == [(1, "a")]


def test_changes_are_recorded_in_the_feed(spark: SparkSession, local: lakescan.Catalog) -> None:
    maker("delta", local)(properties=KINDS["delta, vectors and feed"])
    now().append(rows((1, "a"), (2, "a"), (3, "b")))
    version = now().version
    source = frame(spark, (1, "x"), (7, "n"))
    now().merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    found = now().changes(version).to_arrow().select(["id", "part", "_change_type"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        (1, "a", "update_preimage"),
        (1, "x", "update_postimage"),
        (7, "n", "insert"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iceberg version 3", "iceberg, merge-on-read", "delta, vectors and row tracking"])
def test_a_table_has_the_rows_of_a_list_model(spark: SparkSession, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law of in-process statements, with Spark frames as sources."""
    plain: Callable[[Any], pa.Table] = laws.table_of
    monkeypatch.setattr(laws, "source_of", lambda found: spark.createDataFrame(plain(found)))

    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    @given(laws.STEPS.map(laws._valid))
    def check(steps: list[tuple[Any, ...]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            laws.new_table(kind, ("part",), folder)
            laws.follow(steps)

    check()


def test_times_are_in_the_sessions_zone(spark: SparkSession, local: lakescan.Catalog) -> None:
    """A DELETE by a constant time that metadata could prove in UTC."""
    table = local.create_table("db.t", "id BIGINT, at TIMESTAMP")
    at = pa.array([1_767_225_600_000_000, 1_767_240_000_000_000], pa.timestamp("us", "UTC"))  # 0:00 and 4:00 UTC
    table.append(pa.table({"id": [1, 2], "at": at}))
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert change(spark, Delete(T, Sql("at < '2025-12-31 22:00:00'"))).deleted == 1  # 3:00 UTC
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert now().to_arrow()["id"].to_pylist() == [2]


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_rows_that_are_only_deleted_need_no_partition(
    spark: SparkSession, local: lakescan.Catalog, format: str
) -> None:
    """New rows are shuffled by a required column. Deleted rows have no value in it."""
    maker(format, local)("id BIGINT NOT NULL, part STRING NOT NULL")
    now().append(rows((1, "a"), (2, "b"), (3, "c")))
    source = frame(spark, (1, None), (2, "x"), (9, "new"))
    merged = now().merge(source, on="t.id = s.id").when_matched_delete("s.part IS NULL")
    merged = merged.when_matched_update({"part": "s.part"}).when_not_matched_insert_all()
    result = merged.execute()
    assert (result.inserted, result.updated, result.deleted) == (1, 1, 1)
    assert pairs() == [(2, "x"), (3, "c"), (9, "new")]


@pytest.mark.parametrize(("mode", "files"), [("hash", 3), ("none", 12)])
def test_new_rows_are_shuffled_by_partition(
    spark: SparkSession, local: lakescan.Catalog, mode: str, files: int
) -> None:
    """Four tasks join keys of three partitions. Their small files would be joined, so they count as large."""
    large = {"write.target-file-size-bytes": "1"}
    maker("iceberg version 3", local)(properties={**MODES, **large, "write.distribution-mode": mode})
    now().append(rows(*((n, "abc"[n % 3]) for n in range(3))))
    before = {
        name: spark.conf.get(name)
        for name in ("spark.sql.shuffle.partitions", "spark.sql.adaptive.coalescePartitions.enabled")
    }
    spark.conf.set("spark.sql.shuffle.partitions", "4")
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    try:
        source = spark.range(0, 600, 1, 4).selectExpr("id", "substr('bca', id % 3 + 1, 1) AS part")
        merged = now().merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all()
        result = merged.execute()
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
    assert (result.inserted, result.updated) == (597, 3)
    assert result.files == files
    assert pairs() == [(n, "bca"[n % 3]) for n in range(600)]


@pytest.mark.parametrize("column", ["_file", "_pos", "_row_id"])
@pytest.mark.parametrize(("format_name", "properties"), PROPERTIES)
def test_rows_change_in_tables_with_columns_named_as_metadata(
    spark: Any, tmp_path: Path, column: str, format_name: str, properties: str
) -> None:
    name = created(tmp_path, column, format_name, properties)
    change_rows(name, column, lambda text: lakescan.spark.sql(spark, text))
    found = lakescan.table(name).to_arrow().to_pylist()
    assert sorted((row[column], row["k"]) for row in found) == [("cz", 2), ("n", 9)]


@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
def test_structs_with_other_members_are_refused_or_evolve(spark: Any, tmp_path: Path, format_name: str) -> None:
    lakescan.catalog("named", warehouse=str(tmp_path)).create_namespace("db")
    lakescan.sql(f"CREATE TABLE named.db.t (id INT, v STRUCT<a: INT, b: INT>) USING {format_name}")
    lakescan.sql("INSERT INTO named.db.t VALUES (1, named_struct('a', 1, 'b', 2))")
    source = "(SELECT 1 AS id, named_struct({}) AS v)"
    merge = (
        "MERGE {} INTO named.db.t t USING {} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    for text in (
        merge.format("", source.format("'a', 9")),
        "UPDATE named.db.t SET v = named_struct('a', 9)",
        "INSERT INTO named.db.t BY NAME SELECT 2 AS id, named_struct('b', 9) AS v",
        "INSERT INTO named.db.t SELECT 2, named_struct('a', 1, 'b', 2, 'c', 3)",
    ):
        with pytest.raises(SchemaMismatch, match="has the members a, b"):
            lakescan.spark.sql(spark, text)
    lakescan.spark.sql(spark, merge.format("WITH SCHEMA EVOLUTION", source.format("'c', 3, 'b', 8, 'a', 9")))
    assert lakescan.table("named.db.t").to_arrow()["v"].to_pylist() == [{"a": 9, "b": 8, "c": 3}]
    evolving = merge.format("WITH SCHEMA EVOLUTION", source.format("'a', 10"))
    if format_name == "delta":
        lakescan.spark.sql(spark, evolving)
        assert lakescan.table("named.db.t").to_arrow()["v"].to_pylist() == [{"a": 10, "b": 8, "c": 3}]
    frame = spark.sql("SELECT 2 AS id, named_struct('a', 1, 'b', 2, 'c', 3, 'd', 4) AS v")
    lakescan.table("named.db.t").append(frame, merge_schema=True)
    assert lakescan.table("named.db.t").to_arrow().sort_by("id")["v"].to_pylist()[1] == {"a": 1, "b": 2, "c": 3, "d": 4}


@pytest.mark.parametrize("condition", ["id = 1", "id % 100 = 1"], ids=["filter", "expression"])
def test_a_missing_data_file_fails_the_statement(spark: SparkSession, table: lakescan.Table, condition: str) -> None:
    [path] = table.scan().where("id = 1").select("_file").to_arrow()["_file"].to_pylist()
    Path(path.removeprefix("file://")).unlink()
    with pytest.raises(lakescan.MissingFile, match=Path(path).name):
        change(spark, Delete(T, Sql(condition)))


@pytest.mark.parametrize("condition", ["id = 1", "id % 100 = 1"], ids=["filter", "expression"])
def test_a_delete_from_few_rows_runs_no_python_worker(
    spark: SparkSession, local: lakescan.Catalog, condition: str
) -> None:
    maker("iceberg", local)(properties={"format-version": "3", **MODES})
    now().append(rows((1, "a"), (2, "a"), (3, "b")))
    with pytest.MonkeyPatch.context() as without_workers:
        without_workers.setattr(type(spark.range(1)), "mapInArrow", None)
        assert change(spark, Delete(T, Sql(condition))).deleted == 1
    assert pairs() == [(2, "a"), (3, "b")]
