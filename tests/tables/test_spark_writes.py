"""Writes from Spark: by lakescan's calls, from data frames, and by streams, each micro-batch once."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lakescan
import lakescan.spark
from lakescan.options.write import WriteOptions
from lakescan.spark.types import schema_of
from tests.support.delta_rules import identity, mark_of, table_with_rules
from tests.tables.killed_sink import NEVER, POINTS, run_killed
from tests.tables.support import NAME, Make, data_files, maker, now, pairs, rows

pytestmark = pytest.mark.spark


@pytest.fixture(params=["iceberg", "delta"])
def made(request: pytest.FixtureRequest, local: lakescan.Catalog) -> Make:
    """Return a function that makes the table, for each format in turn."""
    return maker(request.param, local)


@pytest.fixture
def here(spark: Any, local: lakescan.Catalog) -> Any:
    """The session with the catalog registered."""
    lakescan.spark.register(spark)
    return spark


def frame(spark: Any, *ids: int) -> Any:
    return spark.createDataFrame([(i, "abc"[i % 3]) for i in ids], "id long, part string")


def ids() -> list[int]:
    return [i for i, _ in pairs()]


def test_frames_are_appended_and_replace_other_rows(here: Any, made: Make) -> None:
    name = made().format
    frame(here, *range(9)).write.format(name).mode("append").save(NAME)
    frame(here, 9).write.format("lakescan").mode("append").save(NAME)
    assert ids() == list(range(10))
    assert sorted(row["id"] for row in here.read.format(name).load(NAME).collect()) == list(range(10))
    frame(here, 3, 12).write.format(name).mode("overwrite").option("replaceWhere", "part = 'a'").save(NAME)
    assert ids() == [1, 2, 3, 4, 5, 7, 8, 12]
    frame(here, 1).write.format(name).mode("overwrite").option("partitionOverwriteMode", "dynamic").save(NAME)
    assert ids() == [1, 2, 3, 5, 8, 12]
    frame(here, 1).write.format(name).mode("overwrite").save(NAME)
    assert ids() == [1]


def test_partial_overwrites_by_frames_are_recorded_as_changes(here: Any, local: lakescan.Catalog) -> None:
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
    maker("delta", local)(partition_by=(), properties=properties).append(rows((1, "a"), (2, "b"), (3, "c")))
    before = lineage()
    frame(here, 2).write.format("delta").mode("overwrite").option("replaceWhere", "id = 2").save(NAME)
    now().overwrite(frame(here, 3), where="id = 3")  # rewritten by workers
    changes = here.read.format("delta").option("readChangeFeed", True).option("startingVersion", 2).load(NAME)
    assert sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in changes.collect()) == [
        (2, "delete", 2),
        (2, "insert", 2),
        (3, "delete", 3),
        (3, "insert", 3),
    ]
    after = lineage()
    assert after[1] == before[1]
    assert min(after[2], after[3]) > max(before.values())
    now().compact()
    moved = here.read.format("delta").option("columns", "id, _row_id").load(NAME)
    assert {row["id"]: row["_row_id"] for row in moved.collect()} == after
    assert here.read.format("delta").load(NAME).columns == ["id", "part"]


def lineage() -> dict[int, int]:
    """Return the row id of each row, by its column `id`."""
    found = now().scan().select("id", "_row_id").to_arrow().to_pylist()
    return {row["id"]: row["_row_id"] for row in found}


def test_tables_accept_frames(here: Any, made: Make) -> None:
    made()
    assert now().append(frame(here, *range(6)).repartition(2)).rows == 6
    saved = now().overwrite(frame(here, 3), where="part = 'a'")
    assert (saved.files, saved.rows) == (1, 1)
    assert ids() == [1, 2, 3, 4, 5]
    lakescan.save(frame(here, 7), NAME, mode="overwrite")
    assert ids() == [7]


def test_rows_of_frames_have_ids_in_tables_of_format_version_three(here: Any, local: lakescan.Catalog) -> None:
    maker("iceberg version 3", local)("id BIGINT, part STRING, n INT DEFAULT 7")
    now().append(frame(here, *range(4)))
    frame(here, 4, 5).write.format("iceberg").mode("append").save(NAME)
    frame(here, 5, 6).write.format("iceberg").mode("overwrite").option("replaceWhere", "id >= 5").save(NAME)
    found = now().scan().select("id", "n", "_row_id").to_spark(here).collect()
    assert sorted(row["id"] for row in found) == list(range(7))
    assert {row["n"] for row in found} == {7}
    assert len({row["_row_id"] for row in found}) == 7


def test_workers_compact_and_rewrite_remaining_rows_of_an_overwrite(here: Any, local: lakescan.Catalog) -> None:
    maker("iceberg version 3", local)()
    for number in range(6):
        now().append(rows((number, "ab"[number % 2])))
    done = now().compact(executor=lakescan.spark.SparkExecutor(here))
    assert (done.files, done.removed_files) == (2, 6)
    new = here.createDataFrame([(4, "a"), (8, "a")], "id long, part string")
    saved = now().overwrite(new, where="part = 'a' and id >= 4")
    assert saved.removed_files == 1
    assert pairs() == [(0, "a"), (1, "b"), (2, "a"), (3, "b"), (4, "a"), (5, "b"), (8, "a")]


RECORDED = {
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.columnMapping.mode": "name",
    "delta.enableChangeDataFeed": "true",
}
SORTED: list[dict[str, Any]] = [
    {},
    {"strategy": "sort", "sort_order": "id DESC"},
    {"strategy": "zorder", "zorder_by": ["id", "n"]},
]


@pytest.mark.parametrize("options", SORTED, ids=["binpack", "sort", "zorder"])
@pytest.mark.parametrize(
    ("kind", "properties"),
    [("delta", RECORDED), ("iceberg version 3", {"write.delete.mode": "merge-on-read"})],
    ids=["delta", "iceberg"],
)
def test_workers_compact_files_with_vectors(
    here: Any, local: lakescan.Catalog, kind: str, properties: dict[str, str], options: dict[str, Any]
) -> None:
    """Rows keep their ids, no change is recorded, and streams skip the commit."""
    maker(kind, local)("id BIGINT, part STRING, n INT", properties=properties)
    for start in range(0, 60, 20):
        more = pa.array([n % 7 for n in range(20)], pa.int32())
        now().append(rows(*((n, "ab"[n % 2]) for n in range(start, start + 20))).append_column("n", more))
    now().delete("id % 10 = 3")
    before, versions = lineage(), now().history().num_rows
    done = now().compact(executor=lakescan.spark.SparkExecutor(here), max_records_per_file=9, **options)
    assert (done.removed_files, done.rows) == (6, 54)
    assert now().history().num_rows == versions + 1
    assert lineage() == before
    now().append(rows((100, "a")).append_column("n", pa.array([0], pa.int32())))
    begin: dict[str, Any] = {"startingVersion": versions}
    if kind != "delta":
        begin = {"starting-strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT", "skip-operations": "delete"}
    found = [n for batch in now().stream(wait=False, **begin) for n in batch["id"].to_pylist()]
    assert sorted(found) == ([100] if kind == "delta" else [*range(60), 100])
    if kind == "delta":
        assert now().changes(versions).to_arrow()["id"].to_pylist() == [100]
    if options.get("strategy") == "sort":
        assert now().scan().where("id = 41 and part = 'b'").plan().files.num_rows == 1


def test_workers_share_a_group_that_is_sorted(here: Any, local: lakescan.Catalog) -> None:
    """The ranges of a group are separate files, written by several workers; equal keys are in several ranges."""
    maker("iceberg", local)("id BIGINT, part STRING", ())
    for start in range(4):
        now().append(pa.table({"id": [n * 7 % 10_007 for n in range(start, 20_000, 4)], "part": ["x"] * 5_000}))
    size = sum(now().scan().plan().files["size"].to_pylist())
    before = pairs()
    options: dict[str, Any] = {"target_file_size_bytes": size // 5, "executor": lakescan.spark.SparkExecutor(here)}
    done = now().compact(strategy="sort", sort_order="id", **options)
    assert done.files >= 4
    assert now().scan().where("id = 4321").plan().files.num_rows <= 2
    now().compact(strategy="sort", sort_order="part", **options)
    assert now().scan().plan().files.num_rows >= 2
    assert pairs() == before


@pytest.mark.parametrize("by", ["format", "lakescan", "save", "table"])
def test_an_overwrite_may_give_a_table_other_columns(here: Any, made: Make, by: str) -> None:
    table = made()
    table.append(rows((1, "a")))
    commits = now().history().num_rows
    new = here.createDataFrame([("b", 1.5), (None, 2.5)], "part string, price double")
    with pytest.raises(PySparkException, match="use mergeSchema"):
        new.write.format(table.format).mode("append").option("overwriteSchema", "true").save(NAME)
    match by:
        case "save":
            lakescan.save(new, NAME, mode="overwrite", overwriteSchema=True)
        case "table":
            now().overwrite(new, overwrite_schema=True)
        case _:
            format = table.format if by == "format" else by
            new.write.format(format).mode("overwrite").option("overwriteSchema", "true").save(NAME)
    assert now().scan().to_arrow().sort_by("price").to_pylist() == [
        {"part": "b", "price": 1.5},
        {"part": None, "price": 2.5},
    ]
    assert now().history().num_rows == commits + 1
    assert now().partitioning == "part"


BY = {"iceberg": ("bucket(3, id)", "truncate(1, part)"), "delta": ("part",)}


@pytest.mark.parametrize("by", ["call", "df.write"])
def test_rules_of_columns_hold_for_frames(here: Any, tmp_path: Path, by: str) -> None:
    table = table_with_rules(
        tmp_path,
        {"id": "long", "at": "date", "year": "integer", "code": "string", "n": "integer"},
        {
            "id": identity(),
            "year": {"delta.generationExpression": "year(at)"},
            "code": {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"},
            "n": {"CURRENT_DEFAULT": "7"},
        },
        partition=("year",),
        properties={"delta.constraints.late": "year > 2000 and n < 10"},
    )

    def write(texts: str) -> None:
        given = here.sql(texts).repartition(3)
        if by == "call":
            table.append(given)
        else:
            given.write.format("delta").mode("append").save(str(tmp_path))

    write("SELECT date'2024-02-29' + CAST(id AS INT) AS at, 'a' AS code FROM range(600)")
    found = lakescan.table(tmp_path).scan().to_arrow()
    assert len(set(found["id"].to_pylist())) == 600
    assert mark_of(tmp_path, "id") == max(found["id"].to_pylist())
    assert set(found["code"].to_pylist()) == {"a  "}
    assert set(found["n"].to_pylist()) == {7}
    assert all(row["at"].year == row["year"] for row in found.to_pylist())
    with pytest.raises((lakescan.SchemaMismatch, PySparkException), match="the constraint 'late'"):
        write("SELECT date'1999-12-31' AS at, 'a' AS code")
    write("SELECT date'2024-12-31' AS at, 'b' AS code")
    assert len(set(lakescan.table(tmp_path).scan().to_arrow()["id"].to_pylist())) == 601


@pytest.mark.parametrize("format", BY)
def test_rows_are_shuffled_by_partition_before_they_are_written(here: Any, local, format: str) -> None:
    local.create_table("db.t", "id BIGINT, part STRING, b BINARY", format=format, partition_by=BY[format])
    data = here.range(0, 600, 1, 8).selectExpr("id", "concat(substr('xyz', id % 3 + 1, 1), id) AS part", "X'ff00' AS b")
    if format == "delta":
        data = data.selectExpr("id", "substr(part, 1, 1) AS part", "b")
    together = {"delta": {"optimizeWrite": True}}.get(format, {})
    apart = {"delta": {}}.get(format, {"distribution-mode": "none"})
    partitions = 9 if format == "iceberg" else 3
    assert now().append(data, **together).files == partitions
    assert now().append(data, **apart).files == 8 * partitions
    assert now().scan().count() == 1200
    writer = data.write.format(format).mode("append").options(**(together or {"distribution-mode": "hash"}))
    if format == "delta":  # optimizeWrite is only about the size of files
        writer.save(NAME)
        assert now().scan().count() == 1800
        return
    with pytest.raises(PySparkException, match=r"distribution-mode=hash of df\.write.*use Table\.append"):
        writer.save(NAME)


def test_a_write_creates_a_missing_table(here: Any, local: lakescan.Catalog, tmp_path: Path) -> None:
    writer = frame(here, 1, 2, 3).write.mode("append").option("partition-by", "bucket(2, id)")
    writer.format("iceberg").save(NAME)
    assert (ids(), now().partitioning) == ([1, 2, 3], "bucket(2, id)")
    frame(here, 1).write.format("delta").mode("append").save(str(tmp_path / "d"))
    assert lakescan.table(tmp_path / "d").scan().count() == 1
    with pytest.raises(PySparkException, match='cannot be written in the "ErrorIfExists" mode'):
        frame(here, 1).write.format("delta").save(str(tmp_path / "e"))  # Spark's own rule: lakescan.save has that mode


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_write_creates_a_table_with_its_rows_or_none(here: Any, local: lakescan.Catalog, format: str) -> None:
    from pyspark.sql.functions import raise_error

    writer = frame(here, 1, 2).write.format(format).option("partition-by", "part")
    writer.option("table-property.a", "b").mode("append").save("local.db.new")
    table = local.load_table("db.new")
    assert (len(table.history()), table.count(), table.partitioning, table.properties["a"]) == (1, 2, "part", "b")
    bad = frame(here, 1, 2).withColumn("part", raise_error("no").cast("string"))
    for mode in ("append", "overwrite"):
        with pytest.raises(Exception, match="no"):
            bad.write.format(format).mode(mode).save("local.db.bad")
    assert not local.table_exists("db.bad")
    with pytest.raises(Exception, match="replaceWhere"):
        frame(here, 1).write.format(format).mode("overwrite").option("replaceWhere", "id = 9").save("local.db.bad")
    assert not local.table_exists("db.bad")


def test_a_write_that_fails_leaves_nothing(here: Any, made: Make, tmp_path: Path) -> None:
    name = made().format
    frame(here, 1).write.format(name).mode("append").save(NAME)
    files, bad = data_files(tmp_path), frame(here, *range(100)).repartition(1)
    with pytest.raises(PySparkException, match="rows do not match replaceWhere"):
        bad.write.format(name).mode("overwrite").option("replaceWhere", "id < 99").save(NAME)
    with pytest.raises(PySparkException, match="column 'extra' is not in the table"):
        bad.selectExpr("*", "1 as extra").write.format(name).mode("append").save(NAME)
    with pytest.raises(PySparkException, match="unknown write option 'mergeshema'"):
        bad.write.format(name).mode("append").option("mergeShema", "true").save(NAME)
    assert (ids(), data_files(tmp_path)) == ([1], files)


def test_a_write_that_is_aborted_removes_the_files_of_tasks_that_were_killed(made: Make, tmp_path: Path) -> None:
    from lakescan.spark.writing.sink import BatchWriter, Sink

    table = made()
    writer = BatchWriter(Sink(NAME, None, WriteOptions(), {}), table.schema, is_overwrite=False)
    writer.write(iter(pa.table({"id": [1, 2], "part": ["a", "b"]}).to_batches()))
    assert data_files(tmp_path) == 2
    writer.abort([None])
    assert data_files(tmp_path) == 0


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_writers_of_new_tables_are_sent_to_tasks_and_commit_elsewhere(
    local: lakescan.Catalog, tmp_path: Path, format: str
) -> None:
    """The first micro-batch creates the table, and a repeated one is not committed again."""
    import pickle

    from lakescan.catalogs.registry import all_configurations
    from lakescan.spark.writing.sink import MicroBatchWriter, Sink

    rows = pa.table({"id": [1, 2], "part": ["a", "b"]})
    options, seen = WriteOptions.parse({"partition-by": "part"}), []
    for batch, expected in ((0, 2), (0, 2), (1, 4)):
        sink = Sink(NAME, format, replace(options, txn_app_id="query", txn_version=batch), all_configurations())
        writer = pickle.loads(pickle.dumps(MicroBatchWriter(sink, rows.schema, is_overwrite=False)))
        written = writer.write(iter(rows.to_batches()))
        assert local.table_exists("db.t") is (len(seen) > 0)
        writer.commit([pickle.loads(pickle.dumps(written))], batch)
        seen.append(batch)
        assert (now().count(), data_files(tmp_path)) == (expected, expected)
    assert len(now().history()) == 2


def test_every_type_of_spark_is_read_back(here: Any, local: lakescan.Catalog) -> None:
    query = """
        SELECT CAST(id AS BYTE) AS b, CAST(id AS SHORT) AS s, CAST(id AS INT) AS i, id AS l,
            CAST(id AS FLOAT) AS f, CAST(id AS DOUBLE) AS d, CAST(id AS DECIMAL(20, 3)) AS dec, id > 1 AS bool,
            CAST(id AS STRING) AS str, CAST(CAST(id AS STRING) AS BINARY) AS bin,
            date_add(DATE'1969-12-31', CAST(id AS INT)) AS dt,
            timestamp_micros(id - 2) AS ts, CAST(timestamp_micros(id) AS TIMESTAMP_NTZ) AS ntz,
            named_struct('x', id, 'y', array(named_struct('z', id))) AS st,
            map(CAST(id AS STRING), array(id, null)) AS m, IF(id = 2, null, array(id)) AS a
        FROM range(4)
    """
    for name in ("iceberg", "delta"):
        rows = here.sql(query)
        table = f"local.db.types_{name}"
        rows.write.format(name).mode("append").save(table)
        found = here.read.format(name).load(table)
        assert sorted(map(str, found.collect())) == sorted(map(str, rows.collect()))
        assert schema_of(lakescan.table(table).scan().spec).names == rows.columns


class Copy:
    """A stream from one table into another, one file per micro-batch."""

    def __init__(self, spark: Any, name: str, folder: Path) -> None:
        self.spark, self.name, self.checkpoint = spark, name, folder / "checkpoint"

    def run(self, **options: Any) -> None:
        source = self.spark.readStream.format(self.name).option("maxFilesPerTrigger", 1).load("local.db.source")
        writer = source.writeStream.format(self.name).options(**options)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start(NAME).awaitTermination()


@pytest.fixture
def copy(here: Any, made: Make, local: lakescan.Catalog, tmp_path: Path) -> Copy:
    """Stream a source of three files into an empty table."""
    name = made().format
    source = local.create_table("db.source", "id BIGINT, part STRING", format=name)
    for number in range(3):
        source.append(frame(here, number).toArrow())
    return Copy(here, name, tmp_path)


def test_a_stream_commits_each_micro_batch_once(copy: Copy) -> None:
    copy.run()
    assert ids() == [0, 1, 2]
    lakescan.table("local.db.source").append(frame(copy.spark, 7).toArrow())
    copy.run()
    assert ids() == [0, 1, 2, 7]


@pytest.mark.parametrize("last", [1, 2])
def test_a_micro_batch_that_is_repeated_is_not_committed_again(copy: Copy, last: int) -> None:
    """As after a crash between the table's commit and Spark's commit log entry, which the test deletes."""
    copy.run()
    for number in range(last, 3):
        (copy.checkpoint / "commits" / str(number)).unlink()
        (copy.checkpoint / "commits" / f".{number}.crc").unlink()
    commits = now().history().num_rows
    copy.run()
    assert ids() == [0, 1, 2]
    assert now().history().num_rows == commits


def test_new_columns_in_a_stream_are_refused_or_added(copy: Copy, local: lakescan.Catalog) -> None:
    wide = frame(copy.spark, 5).selectExpr("*", "1.5D AS more")
    lakescan.table("local.db.source").append(wide, merge_schema=True)
    with pytest.raises(PySparkException, match="column 'more' is not in the table"):
        copy.run()
    copy.run(mergeSchema=True)
    assert (ids(), now().schema.names) == ([0, 1, 2, 5], ["id", "part", "more"])


def test_another_query_has_its_own_transactions(copy: Copy, tmp_path: Path) -> None:
    copy.run()
    Copy(copy.spark, copy.name, tmp_path / "other").run()
    assert ids() == [0, 0, 1, 1, 2, 2]


def test_the_commits_of_a_stream_contain_its_query_id(copy: Copy) -> None:
    copy.run()
    query = json.loads((copy.checkpoint / "metadata").read_text())["id"]
    if copy.name == "iceberg":
        summary = dict(now().history()["summary"].to_pylist()[-1])
        assert (summary["spark.sql.streaming.queryId"], summary["spark.sql.streaming.epochId"]) == (query, "2")
        return
    log = Path(now().location.removeprefix("file://")) / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{3:020d}.json").read_text().splitlines()]
    transaction = next(action["txn"] for action in actions if "txn" in action)
    assert (transaction["appId"], transaction["version"]) == (query, 2)


def test_a_stream_that_is_killed_writes_every_row_once(made: Make, local: lakescan.Catalog, tmp_path: Path) -> None:
    """The process is killed after files are written, before the commit, and after it.

    Because a process takes long to start, Delta has only the last point: the batch is committed, but Spark has not
    recorded it.
    """
    name = made().format
    source = local.create_table("db.source", "id BIGINT, part STRING", format=name)
    for number in range(5):
        source.append(rows((number, "a")))
    for point in POINTS if name == "iceberg" else POINTS[-1:]:
        assert run_killed(name, tmp_path, point) == -signal.SIGKILL
    assert run_killed(name, tmp_path, NEVER) == 0
    assert ids() == list(range(5))
