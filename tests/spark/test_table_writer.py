"""Writes by name with Spark's method names: `write_to`, `save_as_table`, `to_table`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakescan
import lakescan.spark
from lakescan.errors import InvalidOption, NoSuchTable, TableExists, UnsupportedFeature


@pytest.fixture(params=["iceberg", "delta"])
def format(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(autouse=True)
def _lake(spark: Any, tmp_path: Path) -> Iterator[None]:
    """The catalog `words2` with the namespace `db`."""
    lakescan.catalog("words2", warehouse=str(tmp_path / "lake")).create_namespace("db")
    yield
    spark.conf.unset("spark.lakescan.namespace")


@pytest.fixture
def frame(spark: Any) -> Any:
    return spark.createDataFrame([(1, "FR"), (2, "DE"), (3, "FR")], "id long, country string")


def more(spark: Any, *rows: tuple[int, str]) -> Any:
    return spark.createDataFrame(list(rows), "id long, country string")


def rows(name: str = "words2.db.t") -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in lakescan.table(name).to_arrow().to_pylist())


ALL = [(1, "FR"), (2, "DE"), (3, "FR")]


def test_a_table_is_created_with_partitions_and_properties(spark: Any, frame: Any, format: str) -> None:
    writer = lakescan.spark.write_to(frame, "words2.db.t").using(format).partitionedBy("country")
    assert writer.tableProperty("owner", "me").option("maxRecordsPerFile", 1).create().files == 3
    table = lakescan.table("words2.db.t")
    assert (table.format, table.partitioning, table.properties["owner"]) == (format, "country", "me")
    assert rows() == ALL
    with pytest.raises(TableExists):
        lakescan.spark.write_to(frame, "words2.db.t").using(format).create()
    assert rows() == ALL


def test_transforms_are_columns_of_spark_or_text(spark: Any, frame: Any) -> None:
    from pyspark.sql.functions import col, partitioning

    writer = lakescan.spark.write_to(frame, "words2.db.t")
    writer.partitionedBy(partitioning.bucket(4, "id"), col("country")).create()
    assert lakescan.table("words2.db.t").partitioning == "bucket(4, id), country"
    lakescan.spark.write_to(frame, "words2.db.u").partitionedBy("bucket(4, id)", "country").create()
    assert lakescan.table("words2.db.u").partitioning == "bucket(4, id), country"


def test_rows_are_appended_and_replaced(spark: Any, frame: Any, format: str) -> None:
    lakescan.spark.write_to(frame, "words2.db.t").using(format).partitionedBy("country").create()

    def writer(*given: tuple[int, str]) -> lakescan.spark.TableWriter:
        return lakescan.spark.write_to(more(spark, *given), "words2.db.t")

    assert writer((4, "NL")).append().rows == 1
    assert rows() == [*ALL, (4, "NL")]
    writer((9, "FR")).overwritePartitions()
    assert rows() == [(2, "DE"), (4, "NL"), (9, "FR")]
    writer((5, "NL")).overwrite("country = 'NL' and id > 3")
    assert rows() == [(2, "DE"), (5, "NL"), (9, "FR")]
    writer((6, "NL")).overwrite(lakescan.col("country") == "NL")
    assert rows() == [(2, "DE"), (6, "NL"), (9, "FR")]
    with pytest.raises(Exception, match="do not match replaceWhere"):
        writer((7, "DE")).overwrite("country = 'NL'")
    writer((7, "DE")).overwrite(True)
    assert rows() == [(7, "DE")]


def test_a_table_is_replaced_by_one_of_other_columns(spark: Any, frame: Any, format: str) -> None:
    other = spark.createDataFrame([("x",)], "name string")
    with pytest.raises(NoSuchTable):
        lakescan.spark.write_to(other, "words2.db.t").using(format).replace()
    lakescan.spark.write_to(frame, "words2.db.t").using(format).createOrReplace()
    lakescan.spark.write_to(other, "words2.db.t").using(format).replace()
    assert rows() == [("x",)]
    lakescan.spark.write_to(frame, "words2.db.t").using(format).partitionedBy("country").createOrReplace()
    assert rows() == ALL
    assert lakescan.table("words2.db.t").partitioning == "country"


def test_a_table_that_cannot_be_filled_is_not_created(spark: Any, frame: Any) -> None:
    with pytest.raises(InvalidOption, match="mergeShema"):
        lakescan.spark.write_to(frame, "words2.db.t").option("mergeShema", True).create()
    with pytest.raises(InvalidOption, match="for overwrites only"):
        lakescan.spark.write_to(frame, "words2.db.t").option("isolation-level", "snapshot").create()
    with pytest.raises(NoSuchTable):
        lakescan.table("words2.db.t")


def test_short_names_after_use_and_delta_paths_work(spark: Any, frame: Any, tmp_path: Path) -> None:
    lakescan.spark.sql(spark, "USE words2.db")
    lakescan.spark.write_to(frame, "t").create()
    lakescan.spark.write_to(frame, "db.t").append()
    assert rows() == sorted(ALL * 2)
    place = f"delta.`{tmp_path / 'folder'}`"
    lakescan.spark.write_to(frame, place).partitionedBy("country").create()
    lakescan.spark.write_to(frame, place).append()
    assert rows(str(tmp_path / "folder")) == sorted(ALL * 2)
    with pytest.raises(TableExists):
        lakescan.spark.write_to(frame, place).create()


def test_missing_tables_and_columns_are_refused_by_name(spark: Any, frame: Any) -> None:
    lakescan.spark.write_to(frame, "words2.db.t").create()
    writer = lakescan.spark.write_to(frame, "words2.db.t")
    with pytest.raises(AttributeError, match=r"no 'overwritePartition'\. Did you mean 'overwritePartitions'"):
        writer.overwritePartition()
    with pytest.raises(UnsupportedFeature, match="CLUSTER BY of an Iceberg table"):
        lakescan.spark.write_to(frame, "words2.db.clustered").clusterBy("id").create()
    lakescan.spark.write_to(frame, "words2.db.clustered").using("delta").clusterBy("id").create()
    assert lakescan.table("words2.db.clustered").inspect("detail")["clusteringColumns"].to_pylist() == [["id"]]
    with pytest.raises(InvalidOption, match="SQL text"):
        writer.overwrite(frame.id > 1)
    with pytest.raises(InvalidOption, match="partitionedBy is for new tables"):
        lakescan.spark.write_to(frame, "words2.db.t").partitionedBy("country").append()
    with pytest.raises(InvalidOption, match="unknown"):
        writer.using("parquet")
    with pytest.raises(NoSuchTable, match="Did you mean"):
        lakescan.spark.write_to(frame, "words2.db.tt").append()
    with pytest.raises(NoSuchTable, match="no USE was run"):
        lakescan.spark.write_to(frame, "t")
    assert rows() == ALL


def test_save_as_table_supports_all_modes(spark: Any, frame: Any, format: str) -> None:
    name = "words2.db.t"
    lakescan.spark.save_as_table(frame, name, format, partitionBy="country", maxRecordsPerFile=1)
    for mode in (None, "error", "errorifexists"):
        with pytest.raises(TableExists):
            lakescan.spark.save_as_table(frame, name, format, mode)
    assert lakescan.spark.save_as_table(frame, name, mode="ignore").rows == 0
    lakescan.spark.save_as_table(more(spark, (4, "NL")), name, mode="append", partitionBy=["country"])
    assert rows() == [*ALL, (4, "NL")]
    lakescan.spark.save_as_table(more(spark, (5, "NL")), name, mode="overwrite", replaceWhere="country = 'NL'")
    assert rows() == [*ALL, (5, "NL")]
    lakescan.spark.save_as_table(more(spark, (6, "NL")), name, mode="overwrite")
    assert rows() == [(6, "NL")]
    assert lakescan.table(name).partitioning == "country"
    with pytest.raises(InvalidOption, match="is partitioned by country, not by id"):
        lakescan.spark.save_as_table(frame, name, mode="append", partitionBy="id")
    lakescan.spark.save_as_table(frame, name, mode="overwrite", partitionBy="id")
    assert (rows(), lakescan.table(name).partitioning) == (ALL, "id")
    with pytest.raises(InvalidOption, match="Did you mean 'overwrite'"):
        lakescan.spark.save_as_table(frame, name, mode="overwrites")
    with pytest.raises(InvalidOption, match="is a table of format"):
        lakescan.spark.save_as_table(frame, name, "delta" if format == "iceberg" else "iceberg", "append")


def test_a_stream_goes_into_a_table_once(spark: Any, frame: Any, format: str, tmp_path: Path) -> None:
    lakescan.spark.write_to(frame, "words2.db.source").create()
    lakescan.spark.register(spark)
    lakescan.spark.sql(spark, "USE words2.db")

    def stream() -> Any:
        return spark.readStream.format("iceberg").load("words2.db.source")

    for given in (stream(), stream().writeStream.trigger(availableNow=True)):
        if hasattr(given, "writeStream"):
            query = lakescan.spark.to_table(
                given, "t", format, "append", "country", "named", checkpointLocation=str(tmp_path / "c")
            )
            query.processAllAvailable()
            assert query.name == "named"
            query.stop()
        else:
            lakescan.spark.to_table(given, "words2.db.t", checkpointLocation=str(tmp_path / "c")).awaitTermination()
        assert rows() == ALL
    assert (lakescan.table("words2.db.t").format, lakescan.table("words2.db.t").partitioning) == (format, "country")
    with pytest.raises(InvalidOption, match="save_as_table"):
        lakescan.spark.to_table(frame, "t")
    with pytest.raises(InvalidOption, match="to_table"):
        lakescan.spark.write_to(stream(), "words2.db.t")


def test_a_table_is_created_or_replaced_in_one_commit(spark: Any, frame: Any, format: str) -> None:
    lakescan.spark.write_to(frame, "words2.db.t").using(format).create()
    lakescan.spark.write_to(more(spark, (9, "NL")), "words2.db.t").using(format).replace()
    assert rows() == [(9, "NL")]
    text = f"CREATE OR REPLACE TABLE words2.db.t USING {format} AS SELECT id, id * 2 AS twice FROM range(3)"
    lakescan.spark.sql(spark, text)
    assert rows() == [(0, 0), (1, 2), (2, 4)]
    table = lakescan.table("words2.db.t")
    assert len(table.history()) == 3
    lakescan.spark.save_as_table(frame, "words2.db.saved", format=format)
    assert len(lakescan.table("words2.db.saved").history()) == 1


def test_a_query_that_fails_leaves_no_table_and_no_files(spark: Any, frame: Any, format: str, tmp_path: Path) -> None:
    """Tasks that ended before another one failed have written files, which are removed, too."""
    some = spark.range(0, 4, 1, 4).selectExpr("IF(id = 3, raise_error('no ' || id), id) AS id")
    with pytest.raises(Exception, match="no 3"):
        lakescan.spark.write_to(some, "words2.db.t").using(format).create()
    assert lakescan.catalog("words2").list_tables("db") == []
    assert not list((tmp_path / "lake").rglob("*.parquet"))
