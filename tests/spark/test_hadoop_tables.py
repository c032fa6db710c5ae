"""Iceberg tables written by Spark without a catalog service: by folder, and by name in a hadoop catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakescan

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(tmp_path: Path, spark: Any) -> Path:
    """The folder of a table in the catalog `hdlake`."""
    lake = lakescan.catalog("hdlake", type="hadoop", warehouse=tmp_path / "lake")
    lake.create_namespace("db")
    lake.create_table("db.t", "id BIGINT, part STRING", partition_by="part", properties={"format-version": "2"})
    return tmp_path / "lake/db/t"


def pairs(folder: Path) -> list[tuple[int, str]]:
    return sorted((row["id"], row["part"]) for row in lakescan.table(folder).to_arrow().to_pylist())


def test_row_level_statements_run_on_hadoop_tables(spark: Any, folder: Path) -> None:
    run = lambda text: lakescan.spark.sql(spark, text)  # noqa: E731
    at = f"iceberg.`{folder}`"
    run(f"INSERT INTO {at} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    run(f"DELETE FROM {at} WHERE id = 1")
    run(f"UPDATE {at} SET part = 'z' WHERE id = 2")
    run(
        f"MERGE INTO {at} t USING (SELECT 3 AS id, 'd' AS part UNION ALL SELECT 4, 'e') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    run("INSERT INTO hdlake.db.t VALUES (5, 'f')")
    assert pairs(folder) == [(2, "z"), (3, "d"), (4, "e"), (5, "f")]
    assert not list((folder / "metadata").glob("0*.json"))


def test_frames_and_streams_are_written_to_hadoop_tables(spark: Any, folder: Path, tmp_path: Path) -> None:
    frame = spark.sql("SELECT id, 'a' AS part FROM range(4)")
    frame.write.format("iceberg").mode("append").save(str(folder))
    lakescan.table(folder).append(spark.sql("SELECT 9L AS id, 'b' AS part"))
    frame.write.mode("overwrite").parquet(str(tmp_path / "source"))
    stream = spark.readStream.schema("id BIGINT, part STRING").parquet(str(tmp_path / "source"))
    for _ in range(2):  # the second run finds that its batch is committed
        query = (
            stream.writeStream.format("iceberg")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(folder))
        )
        query.awaitTermination()
    assert pairs(folder) == sorted([*[(n, "a") for n in range(4)] * 2, (9, "b")])


def test_workers_maintain_hadoop_tables(spark: Any, folder: Path) -> None:
    for number in range(3):
        lakescan.table(folder).append(spark.sql(f"SELECT {number}L AS id, 'a' AS part"))
    lakescan.table(folder).compact(executor=lakescan.spark.SparkExecutor(spark), min_input_files=2)
    assert pairs(folder) == [(n, "a") for n in range(3)]
    assert lakescan.table(folder).inspect("files").num_rows == 1
