"""`spark.sql` of an enabled session: which statements are lakescan's, and what queries over its tables can use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F

import lakescan
from lakescan.spark.drop_in.sessions import find_session
from lakescan.spark.drop_in.statements import may_be_ours


@pytest.fixture(scope="module", autouse=True)
def table(enabled: Any) -> None:
    """The Iceberg table `lake.st.t`, and the table `st_own` of Spark's."""
    enabled.sql("CREATE TABLE lake.st.t (id BIGINT, s STRING) USING iceberg")
    enabled.sql("INSERT INTO lake.st.t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    enabled.sql("DROP TABLE IF EXISTS st_own")
    enabled.sql("CREATE TABLE st_own USING parquet AS SELECT id, s FROM lake.st.t WHERE id < 3")


def ids(frame: Any) -> list[int]:
    return sorted(row[0] for row in frame.collect())


@pytest.mark.parametrize(
    "text", ["SELECT 1", "SELECT a FROM parquet.`/x` WHERE b = 'sea'", "CREATE TABLE plain (n INT) USING parquet"]
)
def test_a_quick_look_decides_that_a_statement_is_not_ours(enabled: Any, text: str) -> None:
    session = find_session(enabled)
    assert session is not None
    assert not may_be_ours(session, text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT lake FROM VALUES (1) AS t(lake)",
        "SELECT 'lake.st.t'",
        "SELECT 1 AS lake GROUP BY ALL",
    ],
)
def test_statements_that_only_look_like_ours_run_on_spark(enabled: Any, text: str) -> None:
    assert enabled.sql(text).count() == 1


def test_errors_of_statements_that_are_not_ours_are_those_of_spark(enabled: Any) -> None:
    with pytest.raises(AnalysisException) as found:
        enabled.sql("SELECT lake FROM nope")
    assert found.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in str(found.value)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT id FROM lake.st.t", [1, 2, 3]),
        ("FROM lake.st.t SELECT id WHERE id > 1", [2, 3]),
        ("TABLE lake.st.t", [1, 2, 3]),
        ("FROM lake.st.t |> WHERE id > 2 |> SELECT id", [3]),
        ("WITH c AS (SELECT * FROM lake.st.t) SELECT c.id FROM c JOIN st_own USING (id)", [1, 2]),
        ("SELECT id FROM st_own WHERE id NOT IN (SELECT id FROM lake.st.t WHERE s = 'a')", [2]),
        ("SELECT lake.st.t.id FROM lake.st.t WHERE t.s = 'b'", [2]),
        ("SELECT count(*) FROM lake.st.t.snapshots", [1]),
        ("SELECT id FROM lake.st.t TIMESTAMP AS OF '2099-01-01'", [1, 2, 3]),
        ("SELECT id FROM lake.st.t FOR SYSTEM_VERSION AS OF 'main'", [1, 2, 3]),
        ("SELECT id FROM lake.st.t.branch_main", [1, 2, 3]),
    ],
)
def test_queries_read_tables_of_lakescan_and_of_spark(enabled: Any, query: str, rows: list[int]) -> None:
    assert ids(enabled.sql(query)) == rows


def test_paths_name_tables(enabled: Any, warehouse: Path, tmp_path: Path) -> None:
    enabled.sql(f"CREATE TABLE delta.`{tmp_path}/d` USING delta AS SELECT id FROM lake.st.t")
    assert ids(enabled.sql(f"SELECT id FROM delta.`{tmp_path}/d`")) == [1, 2, 3]
    assert ids(enabled.sql(f"SELECT id FROM iceberg.`{warehouse}/st/t`")) == [1, 2, 3]
    enabled.sql(f"CREATE OR REPLACE TABLE delta.`{tmp_path}/d` USING delta AS SELECT 7L AS id")
    assert ids(enabled.sql(f"SELECT id FROM delta.`{tmp_path}/d`")) == [7]
    assert ids(enabled.sql(f"SELECT id FROM delta.`{tmp_path}/d` VERSION AS OF 0")) == [1, 2, 3]


def test_parquet_files_become_a_delta_table(enabled: Any, tmp_path: Path) -> None:
    enabled.range(3).write.parquet(f"{tmp_path}/old")
    assert enabled.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/old`").columns == []
    assert ids(enabled.sql(f"SELECT id FROM delta.`{tmp_path}/old`")) == [0, 1, 2]


def test_parameters_are_values(enabled: Any) -> None:
    assert ids(enabled.sql("SELECT id FROM lake.st.t WHERE s = :s", {"s": "b"})) == [2]
    assert ids(enabled.sql("SELECT id FROM lake.st.t WHERE id > ? AND s < ?", [1, "c"])) == [2]


def test_braces_are_frames_values_and_columns(enabled: Any) -> None:
    frame = enabled.range(2, 9)
    found = enabled.sql(
        "SELECT {c} FROM lake.st.t JOIN {frame} USING (id) WHERE s < {text} OR id = {number}",
        frame=frame,
        c=F.col("id"),
        text="it's",
        number=3,
    )
    assert ids(found) == [2, 3]
    assert ids(enabled.sql("SELECT id FROM {own} WHERE id < 2", own=lakescan.table("lake.st.t"))) == [1]


def test_braces_of_rows_to_write_are_frames(enabled: Any) -> None:
    enabled.sql("CREATE TABLE lake.st.written (id BIGINT, s STRING) USING iceberg")
    enabled.sql("INSERT INTO lake.st.written SELECT id, {text} FROM {rows}", rows=enabled.range(3), text="x")
    enabled.sql(
        "MERGE INTO lake.st.written t USING {rows} s ON t.id = s.id WHEN MATCHED THEN DELETE", rows=enabled.range(1)
    )
    assert ids(enabled.table("lake.st.written")) == [1, 2]


def test_statements_of_spark_read_our_tables(enabled: Any) -> None:
    enabled.sql("CREATE TABLE st_filled USING parquet AS SELECT id FROM lake.st.t")
    enabled.sql("INSERT INTO st_filled SELECT id + 10 FROM lake.st.t WHERE id = 1")
    enabled.sql("WITH c AS (SELECT id FROM lake.st.t WHERE id = 3) INSERT INTO st_filled SELECT id + 10 FROM c")
    assert ids(enabled.table("st_filled")) == [1, 2, 3, 11, 13]
    enabled.sql("INSERT OVERWRITE st_filled SELECT id FROM lake.st.t WHERE id = 2")
    assert ids(enabled.table("st_filled")) == [2]
    enabled.sql("DROP TABLE st_filled")


def test_statements_of_ours_read_tables_of_spark(enabled: Any) -> None:
    enabled.sql("CREATE TABLE lake.st.filled USING iceberg AS SELECT * FROM st_own")
    enabled.sql("INSERT INTO lake.st.filled SELECT id + 10, s FROM st_own")
    enabled.sql("DELETE FROM lake.st.filled WHERE id IN (SELECT id FROM st_own)")
    assert ids(enabled.table("lake.st.filled")) == [11, 12]


def test_temporary_views_are_of_whole_tables(enabled: Any) -> None:
    enabled.sql("CREATE TEMPORARY VIEW st_view (n COMMENT 'a number', t) AS SELECT id, s FROM lake.st.t")
    assert ids(enabled.table("st_view")) == [1, 2, 3]
    assert [tuple(row)[::2] for row in enabled.sql("DESCRIBE st_view").collect()] == [("n", "a number"), ("t", None)]
    with pytest.raises(AnalysisException):
        enabled.sql("CREATE TEMPORARY VIEW st_view AS SELECT id FROM lake.st.t")
    enabled.sql("CREATE OR REPLACE TEMP VIEW st_view AS SELECT id FROM lake.st.t WHERE id = 1")
    assert ids(enabled.sql("SELECT * FROM st_view")) == [1]
    enabled.sql("CACHE TABLE st_cached AS SELECT id FROM lake.st.t")
    assert ids(enabled.table("st_cached")) == [1, 2, 3]
    enabled.sql("UNCACHE TABLE st_cached")
    for name in ("st_view", "st_cached"):
        enabled.sql(f"DROP VIEW {name}")


def test_short_names_follow_use(enabled: Any) -> None:
    enabled.sql("USE lake.st")
    try:
        assert ids(enabled.sql("SELECT id FROM t")) == [1, 2, 3]
        assert ids(enabled.sql("SELECT id FROM st.t JOIN spark_catalog.default.st_own USING (id)")) == [1, 2]
        query = "SELECT current_catalog(), current_schema(), upper(current_database()) AS d, id FROM t WHERE id = 1"
        found = enabled.sql(query)
        assert found.columns == ["current_catalog()", "current_schema()", "d", "id"]
        assert tuple(found.collect()[0]) == ("lake", "st", "ST", 1)
        assert tuple(enabled.sql("SHOW CURRENT NAMESPACE").collect()[0]) == ("lake", "st")
        with pytest.raises(AnalysisException, match="nope"):
            enabled.sql("USE lake.nope")
    finally:
        enabled.sql("USE spark_catalog")
    enabled.sql("SET CATALOG lake")
    assert enabled.sql("SELECT current_catalog()").collect()[0][0] == "lake"
    enabled.sql("SET CATALOG spark_catalog")
    assert enabled.sql("SELECT current_catalog()").collect()[0][0] == "spark_catalog"


@pytest.mark.parametrize(
    "text",
    ["SELECT * FORM lake.st.t", "SELEC 1 FROM lake.st.t", "UPDATE lake.st.t SET", "MERGE INTO lake.st.t USING x"],
)
def test_text_that_is_not_sql_raises_sparks_own_error(enabled: Any, text: str) -> None:
    with pytest.raises(ParseException):
        enabled.sql(text)


def test_positions_in_errors_are_those_of_the_users_text(enabled: Any) -> None:
    with pytest.raises(AnalysisException) as found:
        enabled.sql("SELECT id,\n  missing FROM lake.st.t")
    assert found.value.getCondition() == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert "  missing FROM lake.st.t\n  ^^^^^^^" in str(found.value)
    with pytest.raises(AnalysisException) as unknown:
        enabled.sql("SELECT * FROM lake.st.absent")
    assert unknown.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("ANALYZE TABLE lake.st.t COMPUTE STATISTICS", "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"),
        ("MSCK REPAIR TABLE lake.st.t", "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE"),
    ],
)
def test_statements_that_the_jars_refuse_are_refused(enabled: Any, text: str, condition: str) -> None:
    with pytest.raises(AnalysisException) as found:
        enabled.sql(text)
    assert found.value.getCondition() == condition


def test_use_of_a_catalog_selects_its_default_namespace(enabled: Any) -> None:
    enabled.conf.set("spark.sql.catalog.lake.default-namespace", "st")
    try:
        enabled.sql("USE lake")
        assert enabled.catalog.currentDatabase() == "st"
        assert enabled.table("t").count() == 3
        enabled.sql("USE spark_catalog.default")
        enabled.catalog.setCurrentCatalog("lake")
        assert enabled.catalog.currentDatabase() == "st"
    finally:
        enabled.conf.unset("spark.sql.catalog.lake.default-namespace")
        enabled.catalog.setCurrentCatalog("spark_catalog")


def test_metadata_tables_have_the_rows_of_all_manifests(enabled: Any) -> None:
    enabled.sql("CREATE TABLE lake.st.files (id BIGINT) USING iceberg")
    for n in range(3):
        enabled.sql(f"INSERT INTO lake.st.files VALUES ({n}), ({n + 10})")
    enabled.sql("DELETE FROM lake.st.files WHERE id = 1")  # the manifest of its file has no live file any more
    files = lakescan.table("lake.st.files").inspect("files").num_rows
    assert enabled.table("lake.st.files.files").count() == files >= 3


def test_statements_that_change_no_row_commit_as_with_the_jar_of_iceberg(enabled: Any) -> None:
    enabled.sql("CREATE TABLE lake.st.none (id BIGINT) USING iceberg")
    enabled.sql("INSERT INTO lake.st.none VALUES (1)")
    for text in (
        "UPDATE lake.st.none SET id = 2 WHERE id = 7",
        "DELETE FROM lake.st.none WHERE id = 7",
        "MERGE INTO lake.st.none t USING (SELECT 7 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        enabled.sql(text)
    found = enabled.sql("SELECT operation FROM lake.st.none.snapshots ORDER BY committed_at").collect()
    assert [row.operation for row in found] == ["append", "overwrite", "delete", "overwrite"]
    assert ids(enabled.table("lake.st.none")) == [1]


def test_a_text_is_not_stored_in_a_column_of_iceberg_with_another_type(enabled: Any) -> None:
    with pytest.raises(AnalysisException, match="CANNOT_SAFELY_CAST"):
        enabled.sql("UPDATE lake.st.t SET id = '5'")


def test_the_setting_auto_merge_adds_columns_in_every_write_to_delta(enabled: Any, tmp_path: Path) -> None:
    path = f"{tmp_path}/evolving"
    enabled.range(2).write.format("delta").save(path)
    enabled.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        enabled.range(2, 3).selectExpr("id", "'a' AS a").write.format("delta").mode("append").save(path)
        enabled.sql(
            f"MERGE INTO delta.`{path}` t USING (SELECT 3L AS id, 'a' AS a, 'b' AS b) s ON t.id = s.id "
            "WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        enabled.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")
    assert enabled.read.format("delta").load(path).columns == ["id", "a", "b"]


def test_vacuum_obeys_the_setting_of_the_retention_check(enabled: Any, tmp_path: Path) -> None:
    path = f"{tmp_path}/vacuumed"
    for mode in ("append", "overwrite"):
        enabled.range(2).write.format("delta").mode(mode).save(path)
    enabled.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        enabled.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    finally:
        enabled.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    history = enabled.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    assert [row.operation for row in history] == ["VACUUM END", "VACUUM START", "WRITE", "WRITE"]
    assert int(history[0].operationMetrics["numDeletedFiles"]) > 0


def test_the_session_sets_properties_of_new_delta_tables(enabled: Any, tmp_path: Path) -> None:
    name = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    enabled.conf.set(name, "true")
    try:
        enabled.range(1).write.format("delta").save(f"{tmp_path}/saved")
        enabled.sql(f"CREATE TABLE delta.`{tmp_path}/made` (id BIGINT) USING delta")
    finally:
        enabled.conf.unset(name)
    for each in ("saved", "made"):
        detail = enabled.sql(f"DESCRIBE DETAIL delta.`{tmp_path}/{each}`").first()
        assert detail.properties == {"delta.enableChangeDataFeed": "true"}
    enabled.range(1).write.format("delta").save(f"{tmp_path}/other")
    assert enabled.sql(f"DESCRIBE DETAIL delta.`{tmp_path}/other`").first().properties == {}


def test_a_snapshot_and_a_time_are_parts_of_a_name_in_iceberg(enabled: Any) -> None:
    enabled.sql("CREATE TABLE lake.st.past (id BIGINT) USING iceberg")
    for n in range(2):
        enabled.sql(f"INSERT INTO lake.st.past VALUES ({n})")
    first = enabled.sql("SELECT snapshot_id, committed_at FROM lake.st.past.snapshots ORDER BY committed_at").first()
    assert ids(enabled.table(f"lake.st.past.snapshot_id_{first.snapshot_id}")) == [0]
    millis = int(first.committed_at.timestamp() * 1000) + 1
    assert ids(enabled.sql(f"SELECT id FROM lake.st.past.at_timestamp_{millis}")) == [0]


def test_statements_may_be_values_and_set_variables(enabled: Any) -> None:
    enabled.sql("CREATE TABLE lake.st.dynamic (id BIGINT) USING iceberg")
    enabled.sql("EXECUTE IMMEDIATE 'INSERT INTO lake.st.dynamic VALUES (1), (7)'")
    assert ids(enabled.sql("EXECUTE IMMEDIATE 'SELECT id FROM lake.st.dynamic WHERE id > ?' USING 1")) == [7]
    assert ids(enabled.sql("EXECUTE IMMEDIATE 'SELECT id FROM lake.st.dynamic WHERE id < :x' USING (2 AS x)")) == [1]
    enabled.sql("DECLARE OR REPLACE VARIABLE most BIGINT")
    enabled.sql("DECLARE OR REPLACE VARIABLE least BIGINT")
    enabled.sql("EXECUTE IMMEDIATE 'SELECT max(id) FROM lake.st.dynamic' INTO most")
    assert enabled.sql("SELECT most").first()[0] == 7
    enabled.sql("SET VAR most = (SELECT min(id) FROM lake.st.dynamic) + 1")
    assert enabled.sql("SELECT most").first()[0] == 2
    enabled.sql("SET VARIABLE (least, most) = (SELECT min(id), max(id) FROM lake.st.dynamic)")
    assert tuple(enabled.sql("SELECT least, most").first()) == (1, 7)
    assert ids(enabled.sql("SELECT id FROM lake.st.dynamic WHERE id = most")) == [7]
    enabled.sql("SET VARIABLE least = 5, most = (SELECT count(*) FROM lake.st.dynamic)")
    assert tuple(enabled.sql("SELECT least, most").first()) == (5, 2)
    assert enabled.sql("EXECUTE IMMEDIATE 'SELECT 1 AS one'").first()[0] == 1
    assert ids(enabled.sql("EXECUTE IMMEDIATE '/* a */ SELECT id FROM lake.st.dynamic WHERE id = 1'")) == [1]
    with pytest.raises(lakescan.InvalidStatement, match="INTO takes a query"):
        enabled.sql("EXECUTE IMMEDIATE 'INSERT INTO lake.st.dynamic VALUES (9)' INTO most")
    assert ids(enabled.table("lake.st.dynamic")) == [1, 7]


@pytest.mark.parametrize("comment", ["/* dbt */ ", "-- a job\n", "/* a */\n  -- b\n"])
def test_comments_before_a_statement_do_not_matter(enabled: Any, comment: str, tmp_path: Path) -> None:
    enabled.range(2).write.format("delta").save(f"{tmp_path}/t")
    enabled.sql(f"{comment}CREATE OR REPLACE TEMPORARY VIEW commented AS SELECT id FROM delta.`{tmp_path}/t`")
    assert ids(enabled.table("commented")) == [0, 1]
    assert enabled.sql(f"{comment}DESCRIBE HISTORY delta.`{tmp_path}/t`").count() == 1
    assert enabled.sql(f"{comment}VACUUM delta.`{tmp_path}/t`").first()[0] == f"file:{tmp_path}/t"


def test_results_without_rows_keep_their_columns(enabled: Any) -> None:
    enabled.sql("CREATE NAMESPACE lake.nothing")
    assert enabled.sql("SHOW TABLES IN lake.nothing").columns == ["namespace", "tableName", "isTemporary"]
    assert enabled.sql("SHOW TABLES IN lake.nothing").count() == 0


def test_an_empty_text_is_a_null_partition_of_delta(enabled: Any, tmp_path: Path) -> None:
    frame = enabled.createDataFrame([(1, ""), (2, "a")], "id long, k string")
    frame.write.format("delta").partitionBy("k").save(f"{tmp_path}/parts")
    found = enabled.read.format("delta").load(f"{tmp_path}/parts").orderBy("id").collect()
    assert [row.k for row in found] == [None, "a"]
