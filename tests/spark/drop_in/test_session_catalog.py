"""Delta tables in Spark's own catalog: made, read, changed and dropped by name, as with Delta's JAR."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F

import lakescan
import lakescan.spark

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def database(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the database `delta_db` of Spark's own catalog."""
    folder = tmp_path_factory.mktemp("delta_db")
    enabled.sql(f"CREATE DATABASE delta_db LOCATION '{folder}'")
    yield folder
    enabled.sql("DROP DATABASE delta_db CASCADE")


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(each) for each in frame.collect())


@pytest.fixture
def orders(enabled: Any, database: Path) -> Iterator[str]:
    """A managed table with two rows."""
    enabled.sql("CREATE TABLE delta_db.orders (id BIGINT, item STRING) USING delta PARTITIONED BY (item)")
    enabled.sql("INSERT INTO delta_db.orders VALUES (1, 'a'), (2, 'b')")
    yield "delta_db.orders"
    enabled.sql("DROP TABLE IF EXISTS delta_db.orders")


def test_a_managed_table_is_in_the_folder_of_its_database(enabled: Any, database: Path, orders: str) -> None:
    assert rows(enabled.table(orders)) == [(1, "a"), (2, "b")]
    assert lakescan.table(database / "orders").format == "delta"
    assert rows(enabled.read.format("delta").load(str(database / "orders"))) == [(1, "a"), (2, "b")]


def test_detail_has_the_full_name(enabled: Any, orders: str) -> None:
    [detail] = enabled.sql(f"DESCRIBE DETAIL {orders}").collect()
    assert detail["name"] == "spark_catalog.delta_db.orders"


def test_names_have_one_two_or_three_parts(enabled: Any, orders: str) -> None:
    enabled.sql("USE delta_db")
    try:
        for name in ("orders", "delta_db.orders", "spark_catalog.delta_db.orders", "`Orders`"):
            assert enabled.table(name).count() == 2
            assert enabled.sql(f"SELECT count(*) FROM {name}").collect()[0][0] == 2
    finally:
        enabled.sql("USE default")


def test_a_temporary_view_hides_a_table_of_the_current_database(enabled: Any, orders: str) -> None:
    enabled.sql("USE delta_db")
    enabled.range(5).createOrReplaceTempView("orders")
    try:
        assert enabled.table("orders").count() == 5
        assert enabled.table("delta_db.orders").count() == 2
    finally:
        enabled.catalog.dropTempView("orders")
        enabled.sql("USE default")


def test_a_query_joins_a_delta_table_and_a_table_of_spark(enabled: Any, orders: str) -> None:
    enabled.sql("CREATE TABLE delta_db.prices USING parquet AS SELECT 1L AS id, 10 AS price")
    found = enabled.sql(
        "SELECT o.id, delta_db.prices.price FROM delta_db.orders o JOIN delta_db.prices ON o.id = prices.id"
    )
    assert rows(found) == [(1, 10)]
    named = enabled.sql("SELECT delta_db.orders.item FROM delta_db.orders, delta_db.prices p WHERE orders.id = p.id")
    assert rows(named) == [("a",)]
    enabled.sql("DROP TABLE delta_db.prices")


def test_rows_change_by_name(enabled: Any, orders: str) -> None:
    enabled.sql(f"UPDATE {orders} SET item = 'c' WHERE id = 2")
    enabled.sql(f"DELETE FROM {orders} WHERE id = 1")
    enabled.range(2, 5).selectExpr("id", "'new' AS item").createOrReplaceTempView("delta_db_source")
    enabled.sql(
        f"MERGE INTO {orders} t USING delta_db_source s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    enabled.catalog.dropTempView("delta_db_source")
    assert rows(enabled.table(orders)) == [(2, "new"), (3, "new"), (4, "new")]
    assert rows(enabled.sql(f"SELECT * FROM {orders} VERSION AS OF 1")) == [(1, "a"), (2, "b")]


def test_maintenance_by_name(enabled: Any, orders: str) -> None:
    enabled.sql(f"ALTER TABLE {orders} ADD COLUMNS (price INT)")
    enabled.sql(f"ALTER TABLE {orders} SET TBLPROPERTIES ('owner' = 'me')")
    assert enabled.table(orders).columns == ["id", "item", "price"]
    enabled.sql(f"OPTIMIZE {orders}")
    enabled.sql(f"RESTORE TABLE {orders} TO VERSION AS OF 0")
    assert enabled.table(orders).count() == 0
    enabled.sql(f"VACUUM {orders}")
    operations = [each["operation"] for each in enabled.sql(f"DESCRIBE HISTORY {orders}").collect()]
    assert operations[-2:] == ["WRITE", "CREATE TABLE"]
    assert "RESTORE" in operations


def test_statements_describe_the_columns_of_the_log(enabled: Any, orders: str) -> None:
    described = [each["col_name"] for each in enabled.sql(f"DESCRIBE EXTENDED {orders}").collect()]
    assert described[:2] == ["id", "item"]
    assert rows(enabled.sql(f"SHOW COLUMNS IN {orders}")) == [("id",), ("item",)]
    assert ("delta_db", "orders", False) in rows(enabled.sql("SHOW TABLES IN delta_db"))


def test_an_existing_table_is_kept_or_replaced_or_an_error(enabled: Any, orders: str) -> None:
    with pytest.raises(AnalysisException) as raised:
        enabled.sql(f"CREATE TABLE {orders} (id INT) USING delta")
    assert raised.value.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS"
    enabled.sql(f"CREATE TABLE IF NOT EXISTS {orders} (x INT) USING delta")
    assert enabled.table(orders).count() == 2
    enabled.sql(f"CREATE OR REPLACE TABLE {orders} USING delta AS SELECT 'x' AS letter")
    assert rows(enabled.table(orders)) == [("x",)]
    assert enabled.sql(f"DESCRIBE HISTORY {orders}").count() == 3


def test_a_table_like_another_and_a_clone(enabled: Any, orders: str) -> None:
    enabled.sql(f"CREATE TABLE delta_db.same LIKE {orders}")
    enabled.sql(f"CREATE TABLE delta_db.copied SHALLOW CLONE {orders}")
    assert enabled.table("delta_db.same").schema == enabled.table(orders).schema
    assert rows(enabled.table("delta_db.copied")) == [(1, "a"), (2, "b")]
    enabled.sql("DROP TABLE delta_db.same")
    enabled.sql("DROP TABLE delta_db.copied")
    assert enabled.table(orders).count() == 2


def test_dropping_a_managed_table_deletes_its_files(enabled: Any, database: Path, orders: str) -> None:
    enabled.sql(f"DROP TABLE {orders}")
    assert not (database / "orders").exists()
    with pytest.raises(AnalysisException):
        enabled.table(orders)


def test_an_external_table_keeps_its_files(enabled: Any, database: Path, tmp_path: Path) -> None:
    folder = tmp_path / "outside"
    enabled.sql(f"CREATE TABLE delta_db.outside (id BIGINT) USING delta LOCATION '{folder}'")
    enabled.sql("INSERT INTO delta_db.outside VALUES (7)")
    enabled.sql("DROP TABLE delta_db.outside")
    enabled.sql(f"CREATE TABLE delta_db.again USING delta LOCATION '{folder}'")
    assert rows(enabled.table("delta_db.again")) == [(7,)]
    with pytest.raises(AnalysisException):
        enabled.sql(f"CREATE TABLE delta_db.other (id STRING) USING delta LOCATION '{folder}'")
    assert not enabled.catalog.tableExists("delta_db.other")
    enabled.sql("DROP TABLE delta_db.again")


def test_renaming(enabled: Any, database: Path, orders: str) -> None:
    enabled.sql(f"ALTER TABLE {orders} RENAME TO delta_db.renamed")
    assert enabled.table("delta_db.renamed").count() == 2
    assert not enabled.catalog.tableExists(orders)
    enabled.sql("DROP TABLE delta_db.renamed")


def test_save_as_table(enabled: Any, database: Path) -> None:
    frame = enabled.range(3)
    frame.write.format("delta").saveAsTable("delta_db.saved")
    with pytest.raises(AnalysisException):
        frame.write.format("delta").saveAsTable("delta_db.saved")
    frame.write.format("delta").mode("append").saveAsTable("delta_db.saved")
    assert enabled.table("delta_db.saved").count() == 6
    with pytest.raises(AnalysisException):
        frame.write.mode("append").saveAsTable("delta_db.saved")  # Parquet, Spark's default
    frame.write.insertInto("delta_db.saved")
    frame.write.format("delta").mode("ignore").saveAsTable("delta_db.saved")
    assert enabled.table("delta_db.saved").count() == 9
    frame.write.format("delta").mode("overwrite").saveAsTable("delta_db.saved")
    assert enabled.table("delta_db.saved").count() == 3
    enabled.sql("DROP TABLE delta_db.saved")


def test_a_table_without_a_format_is_spark_s_own(enabled: Any, database: Path) -> None:
    enabled.range(3).write.saveAsTable("delta_db.plain")
    assert enabled.sql("DESCRIBE EXTENDED delta_db.plain").where("col_name = 'Provider'").first()[1] == "parquet"
    assert enabled.table("delta_db.plain").count() == 3
    enabled.sql("DROP TABLE delta_db.plain")


def test_save_as_table_with_a_path_is_external(enabled: Any, database: Path, tmp_path: Path) -> None:
    enabled.range(3).write.format("delta").option("path", str(tmp_path / "e")).saveAsTable("delta_db.external")
    assert lakescan.table(tmp_path / "e").scan().count() == 3
    enabled.sql("DROP TABLE delta_db.external")
    assert lakescan.table(tmp_path / "e").scan().count() == 3


def test_write_to(enabled: Any, database: Path) -> None:
    frame = enabled.range(4).withColumn("kind", F.lit("a"))
    frame.writeTo("delta_db.written").using("delta").partitionedBy("kind").create()
    frame.writeTo("delta_db.written").append()
    assert enabled.table("delta_db.written").count() == 8
    assert enabled.sql("DESCRIBE DETAIL delta_db.written").first()["partitionColumns"] == ["kind"]
    enabled.sql("DROP TABLE delta_db.written")
    frame.writeTo("delta_db.written").using("parquet").create()
    assert enabled.sql("DESCRIBE EXTENDED delta_db.written").where("col_name = 'Provider'").first()[1] == "parquet"
    enabled.sql("DROP TABLE delta_db.written")


def test_a_failed_create_leaves_no_table(enabled: Any, database: Path) -> None:
    with pytest.raises(PySparkException):
        enabled.sql("CREATE TABLE delta_db.failed USING delta AS SELECT CAST(raise_error('no') AS INT) AS x")
    assert not enabled.catalog.tableExists("delta_db.failed")
    assert ("delta_db", "failed", False) not in rows(enabled.sql("SHOW TABLES IN delta_db"))
    enabled.sql("CREATE TABLE delta_db.failed USING delta AS SELECT 1 AS x")
    assert rows(enabled.table("delta_db.failed")) == [(1,)]
    enabled.sql("DROP TABLE delta_db.failed")


def test_streams_by_name(enabled: Any, database: Path, orders: str, tmp_path: Path) -> None:
    query = (
        enabled.readStream.table(orders)
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .toTable("delta_db.streamed")
    )
    query.awaitTermination()
    assert rows(enabled.table("delta_db.streamed")) == [(1, "a"), (2, "b")]
    enabled.sql("DROP TABLE delta_db.streamed")


def test_an_unknown_table_has_spark_s_error(enabled: Any, database: Path) -> None:
    with pytest.raises(AnalysisException) as raised:
        enabled.sql("SELECT * FROM delta_db.nothing").collect()
    assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_a_view_of_spark_s_catalog_reads_the_latest_rows(enabled: Any, orders: str) -> None:
    enabled.sql(f"CREATE OR REPLACE VIEW delta_db.first_order AS SELECT item FROM {orders} WHERE id = 1")
    assert rows(enabled.table("delta_db.first_order")) == [("a",)]
    enabled.sql(f"UPDATE {orders} SET item = 'changed' WHERE id = 1")
    assert rows(enabled.sql("SELECT v.item FROM delta_db.first_order v")) == [("changed",)]
    enabled.sql("DROP VIEW delta_db.first_order")
    assert not enabled.catalog.tableExists("delta_db.first_order")


def test_an_entry_that_another_program_left_without_a_log_is_taken_over(enabled: Any, database: Path) -> None:
    enabled.sql("CREATE TABLE delta_db.half (id BIGINT) USING delta")
    for each in (database / "half" / "_delta_log").iterdir():
        each.unlink()
    with pytest.raises(AnalysisException):
        enabled.table("delta_db.half").collect()
    enabled.sql("CREATE TABLE delta_db.half (name STRING) USING delta")
    assert enabled.table("delta_db.half").columns == ["name"]
    enabled.sql("DROP TABLE delta_db.half")


def test_converting_a_parquet_table_by_name(enabled: Any, database: Path) -> None:
    enabled.sql("CREATE TABLE delta_db.was_parquet USING parquet PARTITIONED BY (part) AS SELECT 1L AS id, 'a' AS part")
    enabled.sql("CONVERT TO DELTA delta_db.was_parquet")
    enabled.sql("INSERT INTO delta_db.was_parquet VALUES (2, 'b')")
    assert rows(enabled.table("delta_db.was_parquet")) == [(1, "a"), (2, "b")]
    assert lakescan.table(database / "was_parquet").format == "delta"
    enabled.sql("DROP TABLE delta_db.was_parquet")


def test_an_entry_of_delta_s_jar_has_no_columns(enabled: Any, database: Path, tmp_path: Path) -> None:
    lakescan.save(enabled.range(3), tmp_path / "theirs", format="delta")
    enabled.sql(f"CREATE TABLE delta_db.theirs USING delta LOCATION 'file:{tmp_path / 'theirs'}'")
    assert enabled.table("delta_db.theirs").columns == ["id"]
    enabled.sql("ALTER TABLE delta_db.theirs ADD COLUMNS (more STRING)")
    assert enabled.sql("SELECT * FROM delta_db.theirs").columns == ["id", "more"]
    enabled.sql("DROP TABLE delta_db.theirs")


def test_iceberg_s_session_catalog_has_both_iceberg_s_tables_and_spark_s(enabled: Any, tmp_path: Path) -> None:
    session = enabled.newSession()
    session.conf.set("spark.sql.catalog.spark_catalog", "org.apache.iceberg.spark.SparkSessionCatalog")
    session.conf.set("spark.sql.catalog.spark_catalog.type", "hadoop")
    session.conf.set("spark.sql.catalog.spark_catalog.warehouse", str(tmp_path))
    session.sql("CREATE DATABASE iceberg_db")
    session.sql("CREATE TABLE iceberg_db.ours (id BIGINT, s STRING) USING iceberg PARTITIONED BY (s)")
    session.sql("INSERT INTO iceberg_db.ours VALUES (1, 'x')")
    session.sql("CREATE TABLE iceberg_db.theirs USING parquet AS SELECT * FROM iceberg_db.ours")
    found = session.sql("SELECT o.id, theirs.s FROM iceberg_db.ours o JOIN iceberg_db.theirs ON o.id = theirs.id")
    assert rows(found) == [(1, "x")]
    assert session.sql("SELECT count(*) FROM iceberg_db.ours.snapshots").collect()[0][0] == 1
    assert lakescan.table(tmp_path / "iceberg_db" / "ours").format == "iceberg"
    for words in ("SHOW TABLES IN iceberg_db", "SHOW TABLE EXTENDED IN iceberg_db LIKE '*'"):
        assert sorted(row["tableName"] for row in session.sql(words).collect()) == ["ours", "theirs"]
    session.sql("CREATE VIEW iceberg_db.seen AS SELECT id + 1 AS next FROM iceberg_db.ours")
    assert rows(session.sql("SELECT * FROM iceberg_db.seen")) == [(2,)]
    session.sql(
        "MERGE INTO iceberg_db.ours t USING iceberg_db.seen s ON t.id = s.next "
        "WHEN NOT MATCHED THEN INSERT (id, s) VALUES (next, 'y')"
    )
    assert rows(session.table("iceberg_db.ours")) == [(1, "x"), (2, "y")]
    assert rows(session.table("iceberg_db.seen")) == [(2,), (3,)]
    session.sql("DROP VIEW iceberg_db.seen")
    session.sql("DROP TABLE iceberg_db.ours")
    session.sql("DROP DATABASE iceberg_db CASCADE")
    lakescan.spark.disable(session)


def test_set_location_gives_the_name_to_another_table(enabled: Any, database: Path, tmp_path: Path) -> None:
    orders = "delta_db.moved"  # its first folder stays, without a name
    enabled.sql(f"CREATE TABLE {orders} (id BIGINT, item STRING) USING delta PARTITIONED BY (item)")
    enabled.sql("SELECT 7L AS id, 'c' AS item").write.format("delta").partitionBy("item").save(str(tmp_path / "new"))
    enabled.sql(f"ALTER TABLE {orders} SET LOCATION '{tmp_path / 'new'}'")
    assert rows(enabled.table(orders)) == [(7, "c")]
    enabled.range(3).write.format("delta").save(str(tmp_path / "other"))
    with pytest.raises(AnalysisException) as raised:
        enabled.sql(f"ALTER TABLE {orders} SET LOCATION '{tmp_path / 'other'}'")
    assert raised.value.getCondition() == "DELTA_SET_LOCATION_SCHEMA_MISMATCH"
    assert rows(enabled.table(orders)) == [(7, "c")]
    enabled.sql(f"DROP TABLE {orders}")


def test_optimize_counts_the_files_that_it_considers(enabled: Any, orders: str) -> None:
    enabled.sql(f"INSERT INTO {orders} VALUES (3, 'a')")
    metrics = enabled.sql(f"OPTIMIZE {orders} WHERE item = 'a'").select("metrics.*").first()
    assert (metrics.totalConsideredFiles, metrics.numFilesRemoved, metrics.totalFilesSkipped) == (2, 2, 0)


@pytest.mark.parametrize("statement", ["OPTIMIZE nothing", "VACUUM nothing", "DESCRIBE HISTORY nothing"])
def test_a_command_of_delta_names_a_missing_table(enabled: Any, statement: str) -> None:
    with pytest.raises(AnalysisException) as raised:
        enabled.sql(statement)
    assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
