"""Streams of changes: laws for both kinds of tables, for any split into batches, and the rows of history tables."""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import lakescan
import lakescan.spark
from lakescan.catalogs.registry import connection
from lakescan.errors import AmbiguousMerge, InvalidOption, SchemaMismatch, UnsupportedFeature
from lakescan.iceberg.target import IcebergTarget
from tests.spark import killed_changes
from tests.spark.killed_changes import NEVER, POINTS, run_killed
from tests.tables.support import Make, maker

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
SOURCE = "id long, value string, note string, seq long, kind string"
HISTORY = "id BIGINT, value STRING, note STRING, __START_AT BIGINT, __END_AT BIGINT"
Row = tuple[Any, ...]


@pytest.fixture
def iceberg(local: lakescan.Catalog, spark: Any) -> Make:
    return maker("iceberg", local)


def frame_of(spark: Any, *rows: Row) -> Any:
    return spark.createDataFrame(list(rows), SOURCE)


def there() -> list[Row]:
    found = lakescan.table("local.db.t").to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=lambda row: [(each is None, each) for each in row])


def events(random: Random, keys: int) -> list[Row]:
    """Return some changes of each key, each at a different time; many of them occur twice."""
    found = []
    for key in range(keys):
        for seq in random.sample(range(20), random.randint(1, 7)):
            kind = "D" if random.random() < 0.3 else "U"
            row = (key, None if kind == "D" else random.choice("ab"), f"note {seq}", seq, kind)
            found += [row] * random.choice((1, 1, 2))
    return found


def batches(random: Random, rows: list[Row]) -> list[list[Row]]:
    """Split the rows, in any order, into batches; equal rows may be in several."""
    shuffled = random.sample(rows, len(rows))
    cuts = sorted(random.sample(range(len(rows)), 2))
    return [shuffled[first:last] for first, last in zip((0, *cuts), (*cuts, len(rows)), strict=True)]


def histories(rows: list[Row]) -> list[Row]:
    """Return the final rows of the table, without deletes that end nothing."""
    found: list[Row] = []
    for key in {row[0] for row in rows}:
        mine = sorted({row for row in rows if row[0] == key}, key=lambda row: row[3])
        ends = [row[3] for row in mine[1:]] + [None]
        before = "D"
        for (_, value, note, seq, kind), end in zip(mine, ends, strict=True):
            if kind == "U":
                found.append((key, value, note, seq, end))
            elif before == "D":
                found.append((key, None, None, seq, seq))
            before = kind
    return sorted(found, key=lambda row: [(each is None, each) for each in row])


@pytest.mark.parametrize(("format", "seed"), [("iceberg version 3", 1), ("delta", 2)])
def test_any_split_into_batches_gives_the_same_history(
    spark: Any, local: lakescan.Catalog, format: str, seed: int
) -> None:
    maker(format, local)(HISTORY, partition_by=())
    random = Random(seed)
    rows = events(random, 150)
    sink = lakescan.spark.history_sink(
        "local.db.t", "id", sequence_by="seq", deletes_when="kind = 'D'", keep_deletes=True, query="q"
    )
    for number, batch in enumerate(batches(random, rows)):
        sink(frame_of(spark, *batch), number)
    assert there() == histories(rows)


def test_any_split_into_batches_gives_the_same_newest_rows(spark: Any, local: lakescan.Catalog) -> None:
    maker("delta", local)("id BIGINT, value STRING, note STRING, seq BIGINT, gone BOOLEAN", partition_by=())
    random = Random(3)
    rows = events(random, 150)
    sink = lakescan.spark.upsert_sink("local.db.t", "id", sequence_by="seq", query="q")
    for number, batch in enumerate(batches(random, rows)):
        marked = frame_of(spark, *batch).selectExpr("* except (kind)", "kind = 'D' AS gone")
        sink(marked, number)
    newest = {row[0]: row for row in sorted(rows, key=lambda row: row[3])}
    assert there() == sorted((*row[:4], row[4] == "D") for row in newest.values())


def test_late_rows_are_inserted_in_order(spark: Any, iceberg: Make) -> None:
    iceberg(HISTORY, partition_by=())
    sink = lakescan.spark.history_sink("local.db.t", "id", sequence_by="seq", deletes_when="kind = 'D'")
    sink(frame_of(spark, (1, "a", "", 10, "U"), (1, "b", "", 20, "U"), (1, None, "", 30, "D")))
    assert there() == [(1, "a", "", 10, 20), (1, "b", "", 20, 30)]
    sink(frame_of(spark, (1, "c", "", 15, "U"), (1, None, "", 25, "D"), (2, "x", "", 1, "U")))
    assert there() == [(1, "a", "", 10, 15), (1, "b", "", 20, 25), (1, "c", "", 15, 20), (2, "x", "", 1, None)]
    # Recorded history stays; a delete of a missing row is not recorded.
    sink(frame_of(spark, (1, "other", "", 15, "U"), (1, None, "", 5, "D"), (3, None, "", 5, "D")))
    assert len(there()) == 4
    sink(frame_of(spark, (3, "y", "", 4, "U")))
    assert there()[-1] == (3, "y", "", 4, None)


def test_only_changes_of_tracked_columns_make_versions(spark: Any, iceberg: Make) -> None:
    iceberg(HISTORY, partition_by=())
    sink = lakescan.spark.history_sink(
        "local.db.t", "id", sequence_by="seq", deletes_when="kind = 'D'", track_history_columns="value"
    )
    sink(frame_of(spark, (1, "a", "first", 10, "U"), (1, "a", "second", 11, "U"), (1, "b", "third", 20, "U")))
    assert there() == [(1, "a", "second", 10, 20), (1, "b", "third", 20, None)]
    sink(frame_of(spark, (1, "b", "earlier", 15, "U"), (1, "b", "latest", 30, "U")))
    assert there() == [(1, "a", "second", 10, 15), (1, "b", "latest", 15, None)]
    with pytest.raises(InvalidOption, match="no column 'price'"):
        lakescan.spark.history_sink("local.db.t", "id", sequence_by="seq", track_history_columns="price")(
            frame_of(spark, (1, "a", "", 1, "U")).drop("kind")
        )


def test_invalid_options_of_histories_are_refused(spark: Any, iceberg: Make) -> None:
    iceberg("id BIGINT, value STRING, note STRING", partition_by=())
    sink = lakescan.spark.history_sink("local.db.t", "id", sequence_by="seq", deletes_when="kind = 'D'")
    with pytest.raises(SchemaMismatch, match="has no column __START_AT"):
        sink(frame_of(spark, (1, "a", "", 1, "U")))
    lakescan.Catalog("local").drop_table("db.t")
    iceberg(HISTORY, partition_by=())
    with pytest.raises(AmbiguousMerge):
        sink(frame_of(spark, (1, "a", "", 1, "U"), (1, "b", "", 1, "U")))
    with pytest.raises(SchemaMismatch, match="no column 'note'"):
        sink(frame_of(spark, (1, "a", "", 1, "U")).drop("note"))
    assert there() == []


def test_changes_of_a_delta_table_are_applied_to_another(spark: Any, local: lakescan.Catalog, tmp_path: Path) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    source = local.create_table("db.s", "id BIGINT, value STRING", format="delta", properties=feed)
    local.create_table("db.t", "id BIGINT, value STRING", format="iceberg")
    local.create_table("db.h", "id BIGINT, value STRING, __START_AT BIGINT, __END_AT BIGINT", format="delta")

    def applied() -> None:
        stream = spark.readStream.format("delta").option("readChangeFeed", True).load(source.location)
        rows = lakescan.spark.change_rows(stream)
        for name, scd_type in (("t", 1), ("h", 2)):
            lakescan.spark.apply_changes(
                f"local.db.{name}",
                rows,
                "id",
                "_change_sequence",
                scd_type=scd_type,
                apply_as_deletes="_change_type = 'delete'",
                checkpoint=tmp_path / name,
                trigger={"availableNow": True},
            ).awaitTermination()

    source.append(pa.table({"id": [1, 2, 3], "value": ["a", "b", "c"]}))
    applied()
    source.update({"value": "upper(value)"}, "id < 3")
    source.delete("id = 1")
    source.append(pa.table({"id": [4], "value": ["d"]}))
    applied()
    assert there() == [(2, "B"), (3, "c"), (4, "d")]
    versions = [
        (row["id"], row["value"], row["__END_AT"] is None)
        for row in lakescan.table("local.db.h").to_arrow().to_pylist()
    ]
    assert sorted(versions) == [
        (1, "A", False),
        (1, "a", False),
        (2, "B", True),
        (2, "b", False),
        (3, "c", True),
        (4, "d", True),
    ]


def test_changes_of_an_iceberg_table_are_applied_to_another(
    spark: Any, local: lakescan.Catalog, tmp_path: Path
) -> None:
    lakescan.spark.register(spark)  # whose sources know the catalogs registered at that time
    source = local.create_table("db.s", "id BIGINT, value STRING", format="iceberg")
    local.create_table("db.t", "id BIGINT, value STRING", format="delta")
    source.append(pa.table({"id": [1, 2, 3], "value": ["a", "b", "c"]}))
    source.update({"value": "upper(value)"}, "id < 3")
    source.delete("id = 1")
    stream = spark.readStream.format("iceberg").option("on-change", "changelog")
    rows = lakescan.spark.change_rows(
        stream.option("starting-strategy", "INCREMENTAL_FROM_EARLIEST_SNAPSHOT").load("local.db.s")
    )
    lakescan.spark.apply_changes(
        "local.db.t",
        rows,
        "id",
        "_change_sequence",
        apply_as_deletes="_change_type = 'delete'",
        checkpoint=tmp_path / "checkpoint",
        trigger={"availableNow": True},
    ).awaitTermination()
    assert there() == [(2, "B"), (3, "c")]
    local.create_table("db.h", "id BIGINT, value STRING, __START_AT BIGINT, __END_AT BIGINT")
    schema = "id long, value string, _change_type string, _change_ordinal int"
    batch = lakescan.spark.change_rows(spark.createDataFrame([(1, "a", "INSERT", 0)], schema))
    sink = lakescan.spark.history_sink("local.db.h", "id", sequence_by="_change_sequence")
    with pytest.raises(UnsupportedFeature, match="numbers restart"):
        sink(batch)


def test_changes_apply_the_rows_after_each_change(spark: Any) -> None:
    schema = "id int, _change_type string, _commit_version long"
    rows = [(1, "insert", 3), (1, "update_preimage", 4), (1, "update_postimage", 4), (1, "delete", 5)]
    found = lakescan.spark.change_rows(spark.createDataFrame(rows, schema)).collect()
    assert [(row["_change_type"], row["_change_sequence"]) for row in found] == [
        ("insert", 7),
        ("update", 9),
        ("delete", 10),
    ]
    with pytest.raises(InvalidOption, match="no _change_type"):
        lakescan.spark.change_rows(spark.range(1))


class Broken(Exception):
    """A failure at a step of a batch."""


@pytest.mark.parametrize("scd_type", [1, 2])
@pytest.mark.parametrize("point", ["before the commit", "after the commit"])
def test_a_stream_that_fails_at_a_step_applies_each_change_once(
    spark: Any, local: lakescan.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, scd_type: int
) -> None:
    maker("iceberg", local)(
        HISTORY if scd_type == 2 else "id BIGINT, value STRING, note STRING, seq BIGINT", partition_by=()
    )
    commit, failed = IcebergTarget.change, []

    def change(target: Any, changes: Any) -> None:
        fails = len(failed) < 2  # and the batch, when it is tried again, once more
        if fails and point == "before the commit":
            failed.append(1)
            raise Broken
        commit(target, changes)
        if fails:
            failed.append(1)
            raise Broken

    folder = tmp_path / "source"
    frame_of(spark, (1, "a", "", 1, "U"), (2, "b", "", 1, "U")).coalesce(1).write.parquet(str(folder))
    stream = spark.readStream.schema(SOURCE).parquet(str(folder))
    monkeypatch.setattr(IcebergTarget, "change", change)
    runs = 0
    while runs < 4:
        runs += 1
        query = lakescan.spark.apply_changes(
            "local.db.t",
            stream,
            "id",
            "seq",
            scd_type=scd_type,
            apply_as_deletes="kind = 'D'",
            checkpoint=tmp_path / "checkpoint",
            trigger={"availableNow": True},
        )
        try:
            query.awaitTermination()
            break
        except StreamingQueryException:
            continue
    assert runs == (3 if point == "before the commit" else 2)
    end = (None,) if scd_type == 2 else ()
    assert there() == [(1, "a", "", 1, *end), (2, "b", "", 1, *end)]
    assert len(connection("local").load_table(("db", "t")).snapshots()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("format", "how"), [("delta", "history"), ("iceberg version 3", "newest"), ("iceberg", "equality")]
)
def test_a_stream_that_is_killed_applies_each_change_once(
    spark: Any, local: lakescan.Catalog, tmp_path: Path, format: str, how: str, point: str
) -> None:
    columns = {"history": "__START_AT BIGINT, __END_AT BIGINT"}.get(how, "seq BIGINT")
    table = maker(format, local)(f"id BIGINT, value STRING, {columns}", partition_by=())
    batches = [[(1, "a", 1, "U"), (2, "b", 1, "U")], [(1, "A", 2, "U"), (2, None, 2, "D")], [(3, "c", 1, "U")]]
    for batch in batches:
        frame = spark.createDataFrame(batch, killed_changes.SOURCE).coalesce(1)
        frame.write.mode("append").parquet(str(tmp_path / "source"))
    assert run_killed(tmp_path, how, point) == -signal.SIGKILL
    assert run_killed(tmp_path, how, NEVER) == 0
    expected: dict[str, list[Row]] = {
        "history": [(1, "A", 2, None), (1, "a", 1, 2), (2, "b", 1, 2), (3, "c", 1, None)],
        "newest": [(1, "A", 2), (3, "c", 1)],
    }
    assert there() == expected.get(how, expected["newest"])
    made = (
        table.refresh().version if format == "delta" else len(connection("local").load_table(("db", "t")).snapshots())
    )
    assert made == len(batches)
