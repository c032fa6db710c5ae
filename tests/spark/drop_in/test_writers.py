"""`df.write`, `df.writeTo`, `df.mergeInto` and `insertInto` of lakescan's tables in enabled sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, SparkRuntimeException
from pyspark.sql import functions as F
from pyspark.sql.functions import partitioning

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(enabled: Any) -> Any:
    """Two rows, with the columns `id` and `d`."""
    enabled.sql("CREATE NAMESPACE IF NOT EXISTS lake.w")
    return enabled.createDataFrame([(1, "a"), (2, "b")], "id long, d string").cache()


@pytest.fixture(scope="module")
def more(enabled: Any) -> Any:
    """One more row."""
    return enabled.createDataFrame([(3, "c")], "id long, d string").cache()


def _rows(frame: Any) -> list[list[Any]]:
    return sorted((list(each) for each in frame.collect()), key=str)


def _operations(enabled: Any, table: str) -> list[str]:
    frame = enabled.sql(f"SELECT operation FROM {table}.snapshots ORDER BY committed_at")
    return [each[0] for each in frame.collect()]


def _history(enabled: Any, path: Path) -> list[tuple[str, str | None]]:
    frame = enabled.sql(f"DESCRIBE HISTORY delta.`{path}`").orderBy("version")
    return [(each.operation, each.operationParameters.get("mode")) for each in frame.collect()]


def test_the_default_save_mode_is_an_error_if_the_table_exists(enabled: Any, rows: Any) -> None:
    rows.write.saveAsTable("lake.w.modes")
    for writer in (rows.write, rows.write.mode("default"), rows.write.mode("ERROR")):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
            writer.saveAsTable("lake.w.modes")
    rows.write.mode("IGNORE").saveAsTable("lake.w.modes")
    assert enabled.table("lake.w.modes").count() == 2


def test_overwriting_an_iceberg_table_by_save_as_table_replaces_columns_and_partitions(enabled: Any, rows: Any) -> None:
    rows.write.partitionBy("d").saveAsTable("lake.w.replaced")
    rows.selectExpr("id x").write.mode("overwrite").saveAsTable("lake.w.replaced")
    assert enabled.table("lake.w.replaced").columns == ["x"]
    assert _operations(enabled, "lake.w.replaced") == ["append", "overwrite"]


def test_save_as_table_appends_by_name_and_fills_missing_columns_with_null(enabled: Any, rows: Any) -> None:
    rows.write.saveAsTable("lake.w.by_name")
    enabled.sql("SELECT 'z' D, 9L ID").write.mode("append").saveAsTable("lake.w.by_name")
    enabled.sql("SELECT 10 id").write.mode("append").saveAsTable("lake.w.by_name")
    assert _rows(enabled.table("lake.w.by_name")) == [[1, "a"], [10, None], [2, "b"], [9, "z"]]


def test_bucket_by_partitions_an_iceberg_table_as_in_the_jar(enabled: Any, rows: Any) -> None:
    rows.write.bucketBy(4, "id").saveAsTable("lake.w.buckets")
    found = [each[1] for each in enabled.sql("DESCRIBE TABLE lake.w.buckets").collect()]
    assert "bucket(4, id)" in found
    with pytest.raises(AnalysisException, match="sortBy"):
        rows.write.sortBy("id").saveAsTable("lake.w.sorted")
    with pytest.raises(AnalysisException, match="bucketBy"):
        rows.write.bucketBy(4, "id").insertInto("lake.w.buckets")


def test_save_of_format_iceberg_takes_a_name(enabled: Any, rows: Any, more: Any) -> None:
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        rows.write.format("iceberg").mode("append").save("lake.w.saved")
    rows.write.format("iceberg").save("lake.w.saved")
    more.write.format("iceberg").mode("append").option("snapshot-property.job", "x7").save("lake.w.saved")
    more.write.format("iceberg").mode("overwrite").option("check-ordering", "false").save("lake.w.saved")
    assert _rows(enabled.table("lake.w.saved")) == [[3, "c"]]
    summaries = enabled.sql("SELECT summary['job'] FROM lake.w.saved.snapshots ORDER BY committed_at").collect()
    assert [each[0] for each in summaries] == [None, "x7", None]


def test_insert_into_matches_columns_by_position(enabled: Any, rows: Any) -> None:
    enabled.sql("CREATE TABLE lake.w.places (id BIGINT, d STRING) PARTITIONED BY (d)")
    rows.toDF("x", "y").write.insertInto("lake.w.places")
    one = enabled.sql("SELECT 5L, 'a'")
    one.write.option("overwrite-mode", "dynamic").insertInto("lake.w.places", overwrite=True)
    assert _rows(enabled.table("lake.w.places")) == [[2, "b"], [5, "a"]]
    rows.write.mode("overwrite").insertInto("lake.w.places", False)
    assert enabled.table("lake.w.places").count() == 4
    one.write.mode("overwrite").insertInto("lake.w.places")
    assert _rows(enabled.table("lake.w.places")) == [[5, "a"]]
    with pytest.raises(AnalysisException, match="partitionBy"):
        rows.write.partitionBy("d").insertInto("lake.w.places")


def test_write_to_takes_transforms_as_columns(enabled: Any, rows: Any) -> None:
    frame = rows.withColumn("ts", F.lit("2026-01-01").cast("timestamp"))
    by = (partitioning.years("ts"), partitioning.bucket(8, "id"), F.col("d"))
    frame.writeTo("lake.w.made").using("parquet").tableProperty("k", "v").partitionedBy(*by).create()
    found = {each[0]: each[1] for each in enabled.sql("DESCRIBE TABLE lake.w.made").collect()}
    assert (found["Part 0"], found["Part 1"], found["Part 2"]) == ("years(ts)", "bucket(8, id)", "d")
    assert all(each.nullable for each in enabled.table("lake.w.made").schema)
    with pytest.raises(AnalysisException, match="Invalid partition transformation"):
        rows.writeTo("lake.w.bad").partitionedBy(F.upper("d"))


def test_create_or_replace_of_a_new_name_is_an_overwrite(enabled: Any, rows: Any) -> None:
    rows.writeTo("lake.w.replacing").createOrReplace()
    assert _operations(enabled, "lake.w.replacing") == ["overwrite"]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        rows.writeTo("lake.w.replacing").create()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        rows.writeTo("lake.w.nothing").replace()


def test_write_to_appends_whatever_was_said_about_new_tables(enabled: Any, rows: Any) -> None:
    rows.writeTo("lake.w.appended").create()
    rows.writeTo("lake.w.appended").using("iceberg").tableProperty("a", "b").append()
    assert enabled.table("lake.w.appended").count() == 4


def test_overwrite_takes_a_column_and_does_not_check_the_rows_of_an_iceberg_table(
    enabled: Any, rows: Any, more: Any
) -> None:
    rows.writeTo("lake.w.conditions").create()
    more.writeTo("lake.w.conditions").overwrite((F.col("d") == "b") | F.col("d").isNull())
    assert _rows(enabled.table("lake.w.conditions")) == [[1, "a"], [3, "c"]]
    more.writeTo("lake.w.conditions").overwrite(F.col("d").isin("a", "c") & ~(F.col("id") > 7))
    assert _rows(enabled.table("lake.w.conditions")) == [[3, "c"]]
    rows.writeTo("lake.w.conditions").overwrite(F.lit(True))
    assert _rows(enabled.table("lake.w.conditions")) == [[1, "a"], [2, "b"]]
    with pytest.raises(AnalysisException):
        rows.writeTo("lake.w.conditions").overwrite(F.col("nope") == 1)


def test_overwrite_partitions_keeps_the_others(enabled: Any, rows: Any) -> None:
    rows.writeTo("lake.w.parts").partitionedBy("d").create()
    enabled.sql("SELECT 7L id, 'a' d").writeTo("lake.w.parts").overwritePartitions()
    assert _rows(enabled.table("lake.w.parts")) == [[2, "b"], [7, "a"]]


def test_a_write_reads_its_own_table_as_it_was(enabled: Any, rows: Any) -> None:
    rows.writeTo("lake.w.own").create()
    enabled.table("lake.w.own").where("id = 1").write.mode("overwrite").saveAsTable("lake.w.own")
    assert _rows(enabled.table("lake.w.own")) == [[1, "a"]]


def test_a_failed_job_leaves_no_table(enabled: Any, rows: Any, tmp_path: Path) -> None:
    failing = rows.selectExpr("CAST(raise_error('boom') AS BIGINT) id")
    with pytest.raises(Exception, match="boom"):
        failing.writeTo("lake.w.failed").create()
    assert not enabled.catalog.tableExists("lake.w.failed")
    with pytest.raises(Exception, match="boom"):
        failing.write.format("delta").save(str(tmp_path / "t"))
    with pytest.raises(AnalysisException):
        enabled.read.format("delta").load(str(tmp_path / "t"))


def test_merge_into_runs_its_clauses_in_one_commit(enabled: Any, rows: Any) -> None:
    rows.writeTo("lake.w.merged").create()
    source = enabled.createDataFrame([(2, "B"), (4, "D")], "id long, d string").alias("s")
    merge = source.mergeInto("lake.w.merged", F.expr("lake.w.merged.id = s.id"))
    merge.whenMatched().update({"d": F.expr("concat(merged.d, s.d)")}).whenNotMatched().insertAll().merge()
    assert _rows(enabled.table("lake.w.merged")) == [[1, "a"], [2, "bB"], [4, "D"]]
    merge = source.mergeInto("lake.w.merged", F.col("merged.id") == F.col("s.id"))
    merge = merge.whenMatched(F.col("s.d") == "D").delete().whenNotMatchedBySource().update({"d": F.lit("old")})
    merge.merge()
    assert _rows(enabled.table("lake.w.merged")) == [[1, "old"], [2, "bB"]]


def test_merge_into_takes_columns_of_the_source_and_adds_new_ones(enabled: Any, rows: Any) -> None:
    rows.writeTo("lake.w.grown").create()
    source = enabled.createDataFrame([(2, "B", 7)], "id long, d string, extra int")
    merge = source.mergeInto("lake.w.grown", source.id == F.col("grown.id"))
    merge.whenMatched().updateAll().whenNotMatched().insertAll().withSchemaEvolution().merge()
    assert _rows(enabled.table("lake.w.grown")) == [[1, "a", None], [2, "B", 7]]


def test_merge_into_without_a_clause_or_with_two_matches_is_an_error(enabled: Any, rows: Any) -> None:
    rows.writeTo("lake.w.twice").create()
    merge = rows.union(rows).alias("s").mergeInto("lake.w.twice", F.expr("twice.id = s.id"))
    with pytest.raises(SparkRuntimeException) as raised:
        merge.merge()
    assert raised.value.getCondition() == "NO_MERGE_ACTION_SPECIFIED"
    with pytest.raises(SparkRuntimeException) as raised:
        merge.whenMatched().updateAll().merge()
    assert raised.value.getCondition() == "MERGE_CARDINALITY_VIOLATION"


def test_save_records_its_mode_in_the_history_of_a_delta_table(
    enabled: Any, rows: Any, more: Any, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    rows.write.format("delta").save(str(path))
    more.write.format("delta").mode("Append").save(str(path))
    more.write.format("delta").mode("overwrite").option("userMetadata", "why").save(str(path))
    assert _history(enabled, path) == [("WRITE", "ErrorIfExists"), ("WRITE", "Append"), ("WRITE", "Overwrite")]
    assert _rows(enabled.read.format("delta").load(str(path))) == [[3, "c"]]


def test_delta_takes_properties_and_unknown_options(enabled: Any, rows: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    writer = rows.write.format("delta").option("delta.appendOnly", "true").option("no.such.option", "1")
    writer.option("compression", "gzip").save(str(path))
    properties = {each[0]: each[1] for each in enabled.sql(f"SHOW TBLPROPERTIES delta.`{path}`").collect()}
    assert properties["delta.appendOnly"] == "true"


def test_the_session_decides_whether_a_delta_overwrite_is_dynamic(enabled: Any, rows: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows.write.format("delta").partitionBy("d").save(path)
    one = enabled.sql("SELECT 9L id, 'a' d")
    enabled.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        one.write.format("delta").mode("overwrite").save(path)
        assert _rows(enabled.read.format("delta").load(path)) == [[2, "b"], [9, "a"]]
        one.write.format("delta").mode("overwrite").option("partitionOverwriteMode", "static").save(path)
        assert _rows(enabled.read.format("delta").load(path)) == [[9, "a"]]
    finally:
        enabled.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_relative_paths_and_the_default_source(enabled: Any, rows: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    enabled.conf.set("spark.sql.sources.default", "delta")
    try:
        rows.write.save("here")
        assert enabled.read.load("here").count() == 2
    finally:
        enabled.conf.unset("spark.sql.sources.default")
    assert (tmp_path / "here" / "_delta_log").is_dir()


def test_write_to_replaces_a_delta_table_by_its_path(enabled: Any, rows: Any, more: Any, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path / 't'}`"
    rows.writeTo(name).using("delta").create()
    rows.writeTo(name).append()
    with pytest.raises(AnalysisException, match="DELTA_REPLACE_WHERE_MISMATCH"):
        more.writeTo(name).overwrite(F.col("id") == 1)
    rows.where("id = 1").writeTo(name).overwrite(F.col("id") == 1)
    assert _rows(enabled.table(name)) == [[1, "a"], [2, "b"], [2, "b"]]
    more.withColumn("n", F.lit(1)).writeTo(name).createOrReplace()
    assert _rows(enabled.table(name)) == [[3, "c", 1]]


def test_a_delta_table_takes_no_other_partition_columns_on_append(enabled: Any, rows: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows.write.format("delta").partitionBy("d").save(path)
    with pytest.raises(AnalysisException, match="DELTA_METADATA_MISMATCH"):
        rows.write.format("delta").mode("append").partitionBy("id").save(path)
    with pytest.raises(IllegalArgumentException):
        rows.write.format("delta").save()
