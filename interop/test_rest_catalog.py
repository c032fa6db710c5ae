"""The reference REST catalog: lakescan and the JVM create and write tables in turn, concurrently, and while killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.s3 import KEY, REGION, SECRET, s3_server

import lakescan
from interop.crowd import written_by_many

from .rest_server import rest_server


def java(jvm: Any, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in jvm.table(f"rest.{name}").collect())


def test_a_table_is_created_written_and_dropped_in_the_catalog(rest: lakescan.Catalog, jvm: Any) -> None:
    made = lakescan.sql(
        None,
        "CREATE TABLE rest.db.life (id BIGINT NOT NULL, at TIMESTAMP, part STRING, PRIMARY KEY (id) NOT ENFORCED) "
        "USING iceberg PARTITIONED BY (days(at), part) TBLPROPERTIES ('write.metadata.compression-codec'='gzip')",
    )
    assert made is not None
    described = [row["col_name"] for row in jvm.sql("DESCRIBE TABLE rest.db.life").collect()]
    assert described[:3] == ["id", "at", "part"]
    with pytest.raises(lakescan.TableExists):
        rest.create_table("db.life", "id INT")
    made.append(pa.table({"id": [1, 2], "part": ["a", "b"]}))
    jvm.sql("INSERT INTO rest.db.life VALUES (3, timestamp'2026-01-01', 'a')")
    jvm.sql("DELETE FROM rest.db.life WHERE id = 1")
    rest.load_table("db.life").overwrite(pa.table({"id": [4], "part": ["b"]}), where="part = 'b'")
    assert [row[0] for row in java(jvm, "db.life")] == [3, 4]
    assert sorted(lakescan.table("rest.db.life").scan().to_arrow()["id"].to_pylist()) == [3, 4]
    assert str(rest.rename_table("db.life", "db.after").name) == "rest.db.after"
    assert {"db.after", "db.life"} & set(rest.list_tables("db")) == {"db.after"}
    rest.drop_table("db.after")
    assert not {"db.after", "db.life"} & set(rest.list_tables("db"))


def test_conflicts_are_reported(rest: lakescan.Catalog, jvm: Any) -> None:
    """Another writer adds to the replaced rows, removes them, or replaces them; rows added elsewhere do not conflict."""
    from lakescan.iceberg.target import IcebergTarget
    from lakescan.options.write import WriteOptions
    from lakescan.tables.rows import as_rows
    from lakescan.tables.write_rows import overwrite_rows

    rest.create_table("db.conflicts", "id BIGINT, part STRING", partition_by=["part"])
    rest.load_table("db.conflicts").append(pa.table({"id": [1, 2, 3], "part": ["a", "b", "c"]}))
    said = WriteOptions.parse({}, "iceberg")
    new = pa.table({"id": [9], "part": ["a"]})
    for statement in (
        "INSERT INTO rest.db.conflicts VALUES (4, 'a')",
        "DELETE FROM rest.db.conflicts WHERE part = 'a'",
        "INSERT INTO rest.db.conflicts VALUES (1, 'a')",
        "INSERT OVERWRITE rest.db.conflicts PARTITION (part = 'a') SELECT CAST(5 AS BIGINT)",
    ):
        table = rest.load_table("db.conflicts")
        target = IcebergTarget.open(table.name, said)  # as of now
        jvm.sql(statement)
        before = java(jvm, "db.conflicts")
        with pytest.raises(lakescan.CommitConflict, match="another writer"):
            overwrite_rows(target, as_rows(new), said, "part = 'a'")
        assert java(jvm, "db.conflicts") == before
    target = IcebergTarget.open(rest.load_table("db.conflicts").name, said)
    jvm.sql("INSERT INTO rest.db.conflicts VALUES (6, 'b')")
    overwrite_rows(target, as_rows(new), said, "part = 'a'")
    assert java(jvm, "db.conflicts") == [(2, "b"), (3, "c"), (6, "b"), (9, "a")]


def test_concurrent_writers_in_lakescan_and_the_jvm_lose_and_double_nothing(rest: lakescan.Catalog, jvm: Any) -> None:
    often = {"commit.retry.num-retries": "100", "commit.retry.max-wait-ms": "500"}
    rest.create_table("db.crowd", "id BIGINT", properties=often)
    expected = written_by_many(
        lambda number: lakescan.table("rest.db.crowd").append(pa.table({"id": [number]})),
        lambda number: jvm.sql(f"INSERT INTO rest.db.crowd VALUES ({number})"),
    )
    assert [row[0] for row in java(jvm, "db.crowd")] == expected
    assert sorted(lakescan.table("rest.db.crowd").scan().to_arrow()["id"].to_pylist()) == expected


_KILLED = """
import os, signal, sys
import pyarrow as pa
import lakescan
from lakescan.iceberg.commit.commit import IcebergCommit

uri, point = sys.argv[1:]
lakescan.catalog("rest", type="rest", uri=uri)
if point == "written":
    IcebergCommit.append = lambda self, files: os.kill(os.getpid(), signal.SIGKILL)
lakescan.table("rest.db.killed").append(pa.table({"id": [1]}), txnAppId="loader", txnVersion=1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_writer_that_is_killed_leaves_all_or_nothing(rest: lakescan.Catalog, jvm: Any, rest_uri: str) -> None:
    rest.create_table("db.killed", "id BIGINT")
    for point, rows in (("written", []), ("committed", [(1,)]), ("committed", [(1,)])):
        killed = subprocess.run([sys.executable, "-c", _KILLED, rest_uri, point], timeout=600, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert java(jvm, "db.killed") == rows


LINEAGE = ("id", "n", "part", "_row_id", "_last_updated_sequence_number")


def lineage(jvm: Any, catalog: lakescan.Catalog, name: str) -> list[tuple[Any, ...]]:
    """Return the rows with their ids, after checking that the JVM and lakescan read the same."""
    theirs = sorted(tuple(row) for row in jvm.table(f"rest.{name}").selectExpr(*LINEAGE).collect())
    mine = catalog.load_table(name).scan().select(*LINEAGE).to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in mine) == theirs
    return theirs


def test_tables_of_format_version_three_are_written_in_turn_and_rows_keep_their_ids(
    rest: lakescan.Catalog, jvm: Any
) -> None:
    lakescan.sql(
        None,
        "CREATE TABLE rest.db.three (id BIGINT NOT NULL, n INT DEFAULT 7, part STRING) USING iceberg PARTITIONED BY "
        "(part) TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read')",
    )

    def table() -> lakescan.Table:
        return rest.load_table("db.three")

    ids = pa.array(range(6), pa.int64())
    table().append(pa.table({"id": ids, "part": ["a", "b"] * 3}))
    jvm.sql("INSERT INTO rest.db.three VALUES (10, 1, 'a'), (11, 2, 'b')")
    jvm.sql("DELETE FROM rest.db.three WHERE id = 2")  # by a deletion vector
    before = lineage(jvm, rest, "db.three")
    assert [row[:2] for row in before] == [(0, 7), (1, 7), (3, 7), (4, 7), (5, 7), (10, 1), (11, 2)]
    assert len({row[3] for row in before}) == len(before)
    table().append(pa.table({"id": [20], "n": pa.array([3], pa.int32()), "part": ["c"]}))
    table().overwrite(pa.table({"id": [4], "part": ["a"]}), where="id = 4")  # rewrites the file that has the vector
    after = lineage(jvm, rest, "db.three")
    assert {row for row in before if row[0] != 4} < set(after)
    newest = max(before, key=lambda row: row[3])
    assert next(row for row in after if row[0] == 4)[3] > newest[3]
    assert jvm.table("rest.db.three.delete_files").count() == 0
    jvm.sql("DELETE FROM rest.db.three WHERE id = 5")
    kept = lineage(jvm, rest, "db.three")
    done = table().compact()
    assert done.removed_files > done.files
    assert lineage(jvm, rest, "db.three") == kept
    assert jvm.table("rest.db.three.delete_files").count() == 0
    jvm.sql("UPDATE rest.db.three SET n = 8 WHERE id = 3")
    assert next(row for row in lineage(jvm, rest, "db.three") if row[0] == 3)[1] == 8
    summaries = [row["summary"] for row in jvm.table("rest.db.three.snapshots").orderBy("committed_at").collect()]
    assert summaries[-2]["total-position-deletes"] == "0"
    lakescan.sql(None, "CREATE OR REPLACE TABLE rest.db.three (id BIGINT, note STRING DEFAULT 'new') USING iceberg")
    table().append(pa.table({"id": [1]}))
    found = [tuple(row) for row in jvm.table("rest.db.three").selectExpr("id", "note", "_row_id").collect()]
    assert found == [(1, "new", found[0][2])]
    assert found[0][2] > newest[3]


@pytest.mark.parametrize("version", ["2", "3"])
def test_concurrent_deletes_in_replaced_files_are_a_conflict(rest: lakescan.Catalog, jvm: Any, version: str) -> None:
    """By position delete files and by vectors; a later commit without deletes hides nothing."""
    from lakescan.iceberg.target import IcebergTarget
    from lakescan.maintenance import compact
    from lakescan.options.write import WriteOptions
    from lakescan.tables.rows import as_rows
    from lakescan.tables.write_rows import overwrite_rows

    properties = {"format-version": version, "write.delete.mode": "merge-on-read"}
    table = f"db.deleted_{version}"
    rest.create_table(table, "id BIGINT, part STRING", partition_by=["part"], properties=properties)
    for number in range(4):
        rest.load_table(table).append(pa.table({"id": [2 * number, 2 * number + 1], "part": ["a", "a"]}))
    name, said = rest.load_table(table).name, WriteOptions()
    assert name is not None
    before = IcebergTarget.open(name, said)
    jvm.sql(f"DELETE FROM rest.{table} WHERE id = 3")
    jvm.sql(f"INSERT INTO rest.{table} VALUES (8, 'b')")
    with pytest.raises(lakescan.CommitConflict):
        compact(before)
    with pytest.raises(lakescan.CommitConflict):
        overwrite_rows(before, as_rows(pa.table({"id": [2], "part": ["a"]})), said, "id = 2")
    assert compact(IcebergTarget.open(name, said)).removed_files == 4
    assert [row[0] for row in java(jvm, table)] == [0, 1, 2, 4, 5, 6, 7, 8]


def test_rows_from_before_version_three_get_their_ids_with_the_next_commit(rest: lakescan.Catalog, jvm: Any) -> None:
    rest.create_table("db.upgraded", "id BIGINT, n INT, part STRING")
    for number in range(2):
        rest.load_table("db.upgraded").append(pa.table({"id": [number], "part": ["a"]}))
    jvm.sql("ALTER TABLE rest.db.upgraded SET TBLPROPERTIES ('format-version'='3')")
    rest.load_table("db.upgraded").append(pa.table({"id": [2], "part": ["a"]}))
    first = lineage(jvm, rest, "db.upgraded")
    assert len({row[3] for row in first} - {None}) == 3
    rest.load_table("db.upgraded").compact()
    assert lineage(jvm, rest, "db.upgraded") == first
    jvm.sql("INSERT INTO rest.db.upgraded VALUES (3, 1, 'a')")
    assert len({row[3] for row in lineage(jvm, rest, "db.upgraded")}) == 4


def test_a_stream_reads_a_catalog_table_and_writes_another_table(
    rest: lakescan.Catalog, jvm: Any, tmp_path: Path
) -> None:
    """On PySpark 4.1, into a Delta table, by names."""
    import lakescan.spark

    rest.create_table("db.source", "id BIGINT").append(pa.table({"id": [1, 2, 3]}))
    lakescan.spark.register(jvm, names=("lakescan",))
    stream = jvm.readStream.format("lakescan").load("rest.db.source").writeStream.format("lakescan")
    stream = stream.option("format", "delta").option("checkpointLocation", f"{tmp_path}/checkpoint")
    stream.trigger(availableNow=True).start(f"{tmp_path}/sink").awaitTermination()
    assert sorted(row["id"] for row in jvm.read.format("delta").load(f"{tmp_path}/sink").collect()) == [1, 2, 3]


@pytest.fixture(scope="module")
def vending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lakescan.Catalog]:
    """A catalog whose tables are in a bucket, and which alone has the keys: it vends them to whoever opens a table."""
    folder = tmp_path_factory.mktemp("vending")
    with s3_server("lake") as endpoint:
        settings = {
            "warehouse": "s3://lake/warehouse",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "s3.endpoint": endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "client.region": REGION,
            "include-credentials": "true",
        }
        with rest_server(folder, settings) as uri:
            catalog = lakescan.catalog(
                {"name": "vending", "type": "rest", "uri": uri, "s3.endpoint": endpoint, "client.region": REGION}
            )
            catalog.create_namespace("db")
            yield catalog


def test_vended_credentials_reach_workers_and_are_in_no_text(vending: lakescan.Catalog, jvm: Any) -> None:
    import lakescan.spark

    table = vending.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    assert SECRET in str(dict(table.scan().spec.storage.io_properties))
    table.append(pa.table({"id": [1, 2], "part": ["a", "b"]}))
    opened = lakescan.table("vending.db.t")
    assert sorted(opened.scan().to_arrow()["id"].to_pylist()) == [1, 2]
    lakescan.spark.register(jvm, names=("lakescan",))
    frame = jvm.read.format("lakescan").load("vending.db.t").where("id > 1")
    planned = opened.scan().where("id > 1").to_spark(jvm)
    assert [row["id"] for row in frame.collect()] == [row["id"] for row in planned.collect()] == [2]
    jvm.range(3, 5).selectExpr("id", "'c' AS part").write.format("lakescan").mode("append").save("vending.db.t")
    assert sorted(lakescan.table("vending.db.t").scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 4]
    texts = [repr(opened), repr(opened.scan()), repr(opened.scan().spec.storage), opened.scan().explain()]
    texts += [each._jdf.queryExecution().toString() for each in (frame, planned)]
    assert not [text for text in texts if SECRET in text or KEY in text]


def test_several_tables_are_changed_in_one_commit_or_not_at_all(rest: lakescan.Catalog, jvm: Any) -> None:
    for name in ("debits", "credits"):
        jvm.sql(f"CREATE TABLE rest.db.{name} (id BIGINT, n INT) USING iceberg TBLPROPERTIES ('format-version'='3')")
        jvm.sql(f"INSERT INTO rest.db.{name} VALUES (1, 1), (2, 2)")
    with rest.transaction() as tx:
        tx.load_table("db.debits").delete("id = 1")
        tx.load_table("db.debits").alter().add_column("why", "STRING").commit()
        tx.load_table("db.credits").append(pa.table({"id": [3], "n": pa.array([3], pa.int32())}))
        lakescan.sql(f"UPDATE {tx.name}.db.credits SET n = 9 WHERE id = 3")
        assert java(jvm, "db.debits") == java(jvm, "db.credits") == [(1, 1), (2, 2)]
    assert java(jvm, "db.debits") == [(2, 2, None)]
    assert java(jvm, "db.credits") == [(1, 1), (2, 2), (3, 9)]
    tx = rest.transaction()
    tx.load_table("db.debits").append(pa.table({"id": [4], "n": pa.array([4], pa.int32()), "why": ["x"]}))
    tx.load_table("db.credits").overwrite(pa.table({"id": [8], "n": pa.array([8], pa.int32())}), where="id = 8")
    jvm.sql("INSERT INTO rest.db.credits VALUES (8, 1)")
    with pytest.raises(lakescan.CommitConflict, match="another writer"):
        tx.commit()
    assert java(jvm, "db.debits") == [(2, 2, None)]
    with rest.transaction() as tx:
        tx.load_table("db.debits").append(pa.table({"id": [4], "n": pa.array([4], pa.int32()), "why": ["x"]}))
        tx.load_table("db.credits").append(pa.table({"id": [5], "n": pa.array([5], pa.int32())}))
        jvm.sql("INSERT INTO rest.db.credits VALUES (6, 6)")
    assert java(jvm, "db.debits") == [(2, 2, None), (4, 4, "x")]
    assert java(jvm, "db.credits") == [(1, 1), (2, 2), (3, 9), (5, 5), (6, 6), (8, 1)]


def test_server_plans_have_the_rows_of_local_plans(rest: lakescan.Catalog, jvm: Any) -> None:
    jvm.sql(
        "CREATE TABLE rest.db.planned (id BIGINT, part STRING, at TIMESTAMP) USING iceberg "
        "PARTITIONED BY (part, days(at)) TBLPROPERTIES ('write.delete.mode'='merge-on-read')"
    )
    for day in (1, 2, 3):
        rows = ", ".join(f"({10 * day + n}, '{'ab'[n % 2]}', timestamp'2026-01-0{day} 0{n}:00:00')" for n in range(6))
        jvm.sql(f"INSERT INTO rest.db.planned VALUES {rows}")
    jvm.sql("DELETE FROM rest.db.planned WHERE id IN (11, 24)")
    scan = rest.load_table("db.planned").scan()
    for where in ("true", "id > 20", "part = 'a'", "at >= '2026-01-02T00:00:00Z'", "part LIKE 'b%' AND id < 30"):
        mine = scan.where(where)
        served = mine.options(scan_planning_mode="server")
        assert served.to_arrow().sort_by("id").equals(mine.to_arrow().sort_by("id")), where
        assert set(served.plan().table.state()) == set(mine.plan().table.state()), where
