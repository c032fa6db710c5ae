"""Tables with catalog-managed commits on Spark: workers read, write and commit with the catalog's credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakescan
import lakescan.spark
from tests.support.s3 import SECRET
from tests.support.unity_server import TOKEN, UnityServer
from tests.support.unity_tables import NAME, ids, published, rows, stored


@pytest.fixture
def registered(spark: Any, main: lakescan.Catalog) -> Any:
    """The Spark session with the catalog registered."""
    lakescan.spark.register(spark)
    return spark


def test_frames_are_read_and_written(
    registered: Any, table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch
) -> None:
    table.append(rows(1, 2))
    table.delete("id = 1")
    assert published(server) == [0]
    by_name = registered.read.format("delta").load(NAME)
    planned = lakescan.table(NAME).scan().where("id > 0").to_spark(registered)
    assert [row["id"] for row in by_name.collect()] == [row["id"] for row in planned.collect()] == [2]
    assert lakescan.spark.sql(registered, f"SELECT max(id) AS m FROM {NAME}").collect()[0]["m"] == 2
    frame = registered.createDataFrame([(5, "a"), (6, "b")], "id long, part string")
    frame.write.format("delta").mode("append").save(NAME)
    table.append(frame)
    assert ids() == [2, 5, 5, 6, 6]


def test_rows_are_merged_and_tables_created_by_workers(registered: Any, table: lakescan.Table) -> None:
    table.append(rows(1, 2))
    source = registered.createDataFrame([(2, "z"), (3, "c")], "id long, part string")
    merge = table.merge(source, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute()
    found = lakescan.table(NAME).scan().to_arrow().sort_by("id").to_pydict()
    assert found == {"id": [1, 2, 3], "part": ["a", "z", "c"]}
    source.write.format("delta").mode("append").save("main.db.fresh")
    assert ids("main.db.fresh") == [2, 3]


def test_a_stream_reads_ratified_commits_and_writes_each_batch_once(
    registered: Any, main: lakescan.Catalog, table: lakescan.Table, server: UnityServer, tmp_path: Path
) -> None:
    main.create_table("db.sink", "id BIGINT, part STRING", format="delta")
    table.append(rows(1))

    def run() -> None:
        stream = registered.readStream.format("delta").load(NAME).writeStream.format("delta")
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        stream.start("main.db.sink").awaitTermination()

    run()
    table.append(rows(2))
    table.append(rows(3))
    run()
    run()
    assert ids("main.db.sink") == [1, 2, 3]
    assert published(server)[-1] == stored(server).latest


@pytest.mark.slow
def test_workers_use_vended_credentials_and_plans_show_no_secret(spark: Any, bucket: UnityServer) -> None:
    lakescan.spark.register(spark)
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id long, part string")
    frame.write.format("delta").mode("append").save(NAME)
    by_name = spark.read.format("delta").load(NAME)
    planned = lakescan.table(NAME).scan().where("id > 1").to_spark(spark)
    assert sorted(row["id"] for row in by_name.collect()) == [1, 2]
    assert [row["id"] for row in planned.collect()] == [2]
    for each in (by_name, planned):
        text = each._jdf.queryExecution().toString()
        assert SECRET not in text
        assert TOKEN not in text
