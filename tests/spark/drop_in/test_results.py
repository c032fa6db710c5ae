"""`spark.sql` of an enabled session returns the JVM's columns: names, order and types.

The interop suite runs `STATEMENTS` on the JVM's libraries, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

_NOTHING = ""
_TABLE = "col_name string, data_type string, comment string"
_INFO = "info_name string, info_value string"
_PROPERTIES = "key string, value string"
_NAMES = "namespace string, tableName string, isTemporary boolean"
_SNAPSHOTS = "previous_snapshot_id bigint, current_snapshot_id bigint"
_FORWARDED = "branch_updated string, previous_ref bigint, updated_ref bigint"
_CHANGELOG = "_change_type string, _change_ordinal int, _commit_snapshot_id bigint"
_REWRITTEN = (
    "rewritten_data_files_count int, added_data_files_count int, rewritten_bytes_count bigint, "
    "failed_data_files_count int, removed_delete_files_count int"
)
_EXPIRED = ", ".join(
    f"deleted_{kind}_count bigint"
    for kind in (
        *("data_files", "position_delete_files", "equality_delete_files"),
        *("manifest_files", "manifest_lists", "statistics_files"),
    )
)
_HISTORY = (
    "version bigint, timestamp timestamp, userId string, userName string, operation string, "
    "operationParameters map<string,string>, "
    "job struct<jobId:string,jobName:string,jobRunId:string,runId:string,jobOwnerId:string,triggerType:string>, "
    "notebook struct<notebookId:string>, clusterId string, readVersion bigint, isolationLevel string, "
    "isBlindAppend boolean, operationMetrics map<string,string>, userMetadata string, engineInfo string"
)
_DETAIL = (
    "format string, id string, name string, description string, location string, createdAt timestamp, "
    "lastModified timestamp, partitionColumns array<string>, clusteringColumns array<string>, numFiles bigint, "
    "sizeInBytes bigint, properties map<string,string>, minReaderVersion int, minWriterVersion int, "
    "tableFeatures array<string>"
)
_MERGED = "num_affected_rows bigint, num_updated_rows bigint, num_deleted_rows bigint, num_inserted_rows bigint"

# Statements in the order in which they run, with the columns of their results. {d} is a Delta table by its path.
STATEMENTS = (
    ("CREATE NAMESPACE IF NOT EXISTS lake.res", _NOTHING),
    (
        "CREATE TABLE lake.res.t (id BIGINT NOT NULL, data STRING) USING iceberg PARTITIONED BY (bucket(4, id))",
        _NOTHING,
    ),
    ("INSERT INTO lake.res.t VALUES (1, 'a'), (2, 'b'), (3, 'c')", _NOTHING),
    ("UPDATE lake.res.t SET data = 'z' WHERE id = 1", _NOTHING),
    ("DELETE FROM lake.res.t WHERE id = 2", _NOTHING),
    (
        "MERGE INTO lake.res.t t USING (SELECT 1L AS id, 'm' AS data) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        _NOTHING,
    ),
    ("CREATE OR REPLACE TABLE lake.res.c USING iceberg AS SELECT 1L AS id", _NOTHING),
    ("ALTER TABLE lake.res.t ADD COLUMNS (v INT COMMENT 'a number')", _NOTHING),
    ("ALTER TABLE lake.res.t SET TBLPROPERTIES ('own' = '1')", _NOTHING),
    ("ALTER TABLE lake.res.t SET IDENTIFIER FIELDS id", _NOTHING),
    ("ALTER TABLE lake.res.t WRITE ORDERED BY id", _NOTHING),
    ("ALTER TABLE lake.res.t CREATE BRANCH audit", _NOTHING),
    ("ALTER TABLE lake.res.t CREATE OR REPLACE TAG eoy RETAIN 365 DAYS", _NOTHING),
    ("ALTER TABLE lake.res.t DROP TAG eoy", _NOTHING),
    ("COMMENT ON TABLE lake.res.t IS 'text'", _NOTHING),
    ("REFRESH TABLE lake.res.t", _NOTHING),
    ("TRUNCATE TABLE lake.res.c", _NOTHING),
    ("DROP TABLE lake.res.c", _NOTHING),
    ("DESCRIBE lake.res.t", _TABLE),
    ("DESCRIBE EXTENDED lake.res.t", _TABLE),
    ("DESCRIBE lake.res.t id", _INFO),
    ("DESCRIBE NAMESPACE lake.res", _INFO),
    ("DESCRIBE QUERY SELECT id FROM lake.res.t", _TABLE),
    ("SHOW TABLES IN lake.res", _NAMES),
    ("SHOW TABLE EXTENDED IN lake.res LIKE '*'", f"{_NAMES}, information string"),
    ("SHOW NAMESPACES IN lake", "namespace string"),
    ("SHOW DATABASES IN lake", "namespace string"),
    ("SHOW COLUMNS IN lake.res.t", "col_name string"),
    ("SHOW TBLPROPERTIES lake.res.t", _PROPERTIES),
    ("SHOW TBLPROPERTIES lake.res.t ('own')", _PROPERTIES),
    ("SHOW CREATE TABLE lake.res.t", "createtab_stmt string"),
    ("SHOW VIEWS IN lake.res", "namespace string, viewName string, isTemporary boolean"),
    ("SHOW CATALOGS", "catalog string"),
    ("SHOW FUNCTIONS IN lake LIKE 'abs'", "function string"),
    ("EXPLAIN SELECT * FROM lake.res.t", "plan string"),
    ("EXPLAIN FORMATTED SELECT * FROM lake.res.t", "plan string"),
    ("EXPLAIN DELETE FROM lake.res.t WHERE id = 1", "plan string"),
    ("SELECT * FROM lake.res.t.changes", f"id bigint, data string, v int, {_CHANGELOG}"),
    (
        "CALL lake.system.fast_forward('res.t', 'audit', 'main')",
        "branch_updated string, previous_ref bigint, updated_ref bigint",
    ),
    ("CALL lake.system.set_current_snapshot(table => 'res.t', ref => 'audit')", _SNAPSHOTS),
    ("CALL lake.system.expire_snapshots('res.t', TIMESTAMP '2001-06-30 00:00:00')", _EXPIRED),
    ("CALL lake.system.remove_orphan_files(table => 'res.t', dry_run => true)", "orphan_file_location string"),
    ("CALL lake.system.rewrite_data_files('res.t')", _REWRITTEN),
    ("CALL lake.system.rewrite_manifests('res.t')", "rewritten_manifests_count int, added_manifests_count int"),
    ("CALL lake.system.ancestors_of('res.t')", "snapshot_id bigint, timestamp bigint"),
    ("CALL lake.system.create_changelog_view(table => 'res.t')", "changelog_view string"),
    ("CALL lake.system.compute_table_stats('res.t')", "statistics_file string"),
    ("USE lake.res", _NOTHING),
    ("SHOW CURRENT NAMESPACE", "catalog string, namespace string"),
    ("SELECT current_catalog(), current_schema() FROM t", "current_catalog() string, current_schema() string"),
    ("USE spark_catalog", _NOTHING),
    ("CREATE TEMPORARY VIEW res_view AS SELECT id FROM lake.res.t", _NOTHING),
    ("CACHE TABLE res_cache AS SELECT id FROM lake.res.t", _NOTHING),
    ("UNCACHE TABLE res_cache", _NOTHING),
    ("DROP VIEW res_view", _NOTHING),
    ("DROP VIEW res_cache", _NOTHING),
    ("CREATE TABLE {d} (id INT, data STRING) USING delta", _NOTHING),
    ("INSERT INTO {d} VALUES (1, 'a'), (2, 'b'), (3, 'c')", _NOTHING),
    ("UPDATE {d} SET data = 'z' WHERE id = 1", "num_affected_rows bigint"),
    ("DELETE FROM {d} WHERE id = 2", "num_affected_rows bigint"),
    (
        "MERGE INTO {d} t USING (SELECT 1 AS id, 'm' AS data) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        _MERGED,
    ),
    ("DESCRIBE HISTORY {d}", _HISTORY),
    ("DESCRIBE DETAIL {d}", _DETAIL),
)


@pytest.mark.parametrize(("statement", "columns"), STATEMENTS, ids=[text[:60] for text, _ in STATEMENTS])
def test_results_have_the_columns_of_the_jvm(enabled: Any, delta_path: str, statement: str, columns: str) -> None:
    found = enabled.sql(statement.replace("{d}", delta_path))
    assert columns_of(found) == columns


def columns_of(frame: Any) -> str:
    """The names and types of a frame's columns."""
    return ", ".join(f"{each.name} {each.dataType.simpleString()}" for each in frame.schema.fields)


@pytest.fixture(scope="module")
def delta_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a Delta table by its path."""
    folder: Path = tmp_path_factory.mktemp("delta")
    return f"delta.`{folder}/t`"


def test_a_statement_runs_once_when_sql_is_called(enabled: Any) -> None:
    enabled.sql("CREATE TABLE lake.res.once (id BIGINT) USING iceberg")
    done = enabled.sql("INSERT INTO lake.res.once VALUES (1)")
    assert (done.collect(), done.count(), done.columns) == ([], 0, [])
    assert enabled.table("lake.res.once").count() == 1


def test_counts_of_delta_are_rows(enabled: Any, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/counted`"
    enabled.sql(f"CREATE TABLE {table} USING delta AS SELECT id FROM range(5)")
    assert enabled.sql(f"DELETE FROM {table} WHERE id < 2").collect()[0].num_affected_rows == 2
    merged = enabled.sql(
        f"MERGE INTO {table} t USING (SELECT 2L AS id UNION ALL SELECT 9L) s ON t.id = s.id "
        "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    assert tuple(merged.collect()[0]) == (2, 0, 1, 1)


def test_properties_of_iceberg_tables_include_their_state_as_with_the_jar(enabled: Any) -> None:
    enabled.sql("CREATE TABLE lake.res.props (id BIGINT) USING iceberg TBLPROPERTIES ('own' = '1')")
    found = {row.key: row.value for row in enabled.sql("SHOW TBLPROPERTIES lake.res.props").collect()}
    assert found == {
        "current-snapshot-id": "none",
        "format": "iceberg/parquet",
        "format-version": "2",
        "own": "1",
        "write.parquet.compression-codec": "zstd",
    }
