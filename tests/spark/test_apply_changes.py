"""Streams of changes: laws of both kinds of tables, in any split into batches, and what histories have."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import lakescan
import lakescan.spark
from lakescan.errors import AmbiguousMerge, InvalidOption, SchemaMismatch
from tests.support import own_catalog
from tests.transaction.support import Make, maker

local, no_other_catalogs = own_catalog.local, own_catalog.no_other_catalogs
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
    """Some changes of each key, each at another time; many of them twice."""
    found = []
    for key in range(keys):
        for seq in random.sample(range(20), random.randint(1, 7)):
            kind = "D" if random.random() < 0.3 else "U"
            row = (key, None if kind == "D" else random.choice("ab"), f"note {seq}", seq, kind)
            found += [row] * random.choice((1, 1, 2))
    return found


def batches(random: Random, rows: list[Row]) -> list[list[Row]]:
    """The rows in any order, in some batches; equal ones may be in several."""
    shuffled = random.sample(rows, len(rows))
    cuts = sorted(random.sample(range(len(rows)), 2))
    return [shuffled[first:last] for first, last in zip((0, *cuts), (*cuts, len(rows)), strict=True)]


def histories(rows: list[Row]) -> list[Row]:
    """What the table has in the end, with deletes that end nothing."""
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
def test_any_split_into_batches_gives_the_history(spark: Any, local: lakescan.Catalog, format: str, seed: int) -> None:
    maker(format, local)(HISTORY, partition_by=())
    random = Random(seed)
    rows = events(random, 150)
    sink = lakescan.spark.history_sink(
        "local.db.t", "id", sequence_by="seq", deletes_when="kind = 'D'", keep_deletes=True, query="q"
    )
    for number, batch in enumerate(batches(random, rows)):
        sink(frame_of(spark, *batch), number)
    assert there() == histories(rows)


def test_any_split_into_batches_gives_the_newest_rows(spark: Any, local: lakescan.Catalog) -> None:
    maker("delta", local)("id BIGINT, value STRING, note STRING, seq BIGINT, gone BOOLEAN", partition_by=())
    random = Random(3)
    rows = events(random, 150)
    sink = lakescan.spark.upsert_sink("local.db.t", "id", sequence_by="seq", query="q")
    for number, batch in enumerate(batches(random, rows)):
        marked = frame_of(spark, *batch).selectExpr("* except (kind)", "kind = 'D' AS gone")
        sink(marked, number)
    newest = {row[0]: row for row in sorted(rows, key=lambda row: row[3])}
    assert there() == sorted((*row[:4], row[4] == "D") for row in newest.values())


def test_late_rows_are_put_into_their_place(spark: Any, iceberg: Make) -> None:
    iceberg(HISTORY, partition_by=())
    sink = lakescan.spark.history_sink("local.db.t", "id", sequence_by="seq", deletes_when="kind = 'D'")
    sink(frame_of(spark, (1, "a", "", 10, "U"), (1, "b", "", 20, "U"), (1, None, "", 30, "D")))
    assert there() == [(1, "a", "", 10, 20), (1, "b", "", 20, 30)]
    sink(frame_of(spark, (1, "c", "", 15, "U"), (1, None, "", 25, "D"), (2, "x", "", 1, "U")))
    assert there() == [(1, "a", "", 10, 15), (1, "b", "", 20, 25), (1, "c", "", 15, 20), (2, "x", "", 1, None)]
    # What the table has at a time stays; a delete of nothing is not remembered.
    sink(frame_of(spark, (1, "other", "", 15, "U"), (1, None, "", 5, "D"), (3, None, "", 5, "D")))
    assert len(there()) == 4
    sink(frame_of(spark, (3, "y", "", 4, "U")))
    assert there()[-1] == (3, "y", "", 4, None)


def test_only_tracked_columns_make_versions(spark: Any, iceberg: Make) -> None:
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
            frame_of(spark, (1, "a", "", 1, "U"))
        )


def test_what_a_history_needs(spark: Any, iceberg: Make) -> None:
    iceberg("id BIGINT, value STRING, note STRING", partition_by=())
    sink = lakescan.spark.history_sink("local.db.t", "id", sequence_by="seq", deletes_when="kind = 'D'")
    with pytest.raises(SchemaMismatch, match="has no column __START_AT"):
        sink(frame_of(spark, (1, "a", "", 1, "U")))
    lakescan.catalog("local").drop_table("db.t")
    iceberg(HISTORY, partition_by=())
    with pytest.raises(AmbiguousMerge):
        sink(frame_of(spark, (1, "a", "", 1, "U"), (1, "b", "", 1, "U")))
    with pytest.raises(SchemaMismatch, match="no column 'note'"):
        sink(frame_of(spark, (1, "a", "", 1, "U")).drop("note"))
    assert there() == []
