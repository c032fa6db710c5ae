"""SQL conditions on Spark: Spark evaluates them on the frame, so a filter can use all of its functions."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import NoSuchColumn

pytestmark = pytest.mark.spark

ROWS = [
    {"id": 1, "word": "été", "n": 2, "tags": ["x", "y"], "at": {"City": "Paris", "zip": 1}, "points": [{"x": 1}]},
    {"id": 2, "word": "b", "n": 2, "tags": [], "at": None, "points": None},
    {"id": 3, "word": None, "n": None, "tags": None, "at": {"City": "Oslo", "zip": None}, "points": [{"x": 5}]},
    {"id": 4, "word": "ÉTÉ", "n": 0, "tags": ["y"], "at": {"City": "été", "zip": 4}, "points": []},
]
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "word": pa.string(),
        "n": pa.int64(),
        "tags": pa.list_(pa.string()),
        "at": pa.struct({"City": pa.string(), "zip": pa.int64()}),
        "points": pa.list_(pa.struct({"x": pa.int64()})),
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lakescan.Table:
    path = str(tmp_path_factory.mktemp("conditions") / "t")
    lakescan.save(pa.Table.from_pylist(ROWS, SCHEMA), path, format="delta", partition_by=["n"])
    return lakescan.table(path)


@pytest.mark.parametrize("lane", ["native", "arrow"])
@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("lower(word) = 'été'", [1, 4]),
        ("regexp_like(word, '^.$') and n = 2", [2]),
        ("id = n or regexp_like(at.City, '^P')", [1, 2]),
        ("word is null or (sha2(word, 256) = sha2('b', 256) and n > 1)", [2, 3]),
        ("array_contains(tags, 'x') and tags[1] = 'y'", [1]),
        ("exists(points, id -> id.x > 4) and points.x[0] = 5", [3]),
        ("not (soundex(at.City) = soundex('paris')) and at.zip is not null", [4]),
        ("current_date >= date '2020-01-01' and timestampdiff(DAY, date '2024-01-01', date '2024-01-03') = n", [1, 2]),
    ],
)
def test_spark_evaluates_conditions_that_planning_cannot_use(
    spark, table, lane: str, condition: str, ids: list
) -> None:
    frame = table.scan().where(condition).options(lane=lane).to_spark(spark)
    assert frame.columns == SCHEMA.names
    assert sorted(row.id for row in frame.collect()) == ids


def test_condition_columns_need_not_be_in_the_output(spark, table) -> None:
    scan = table.scan().where("reverse(word) = 'b' or instr(at.City, 'aris') > 0")
    frame = scan.select(word="n", City="id", id="word").to_spark(spark)
    assert frame.columns == ["word", "City", "id"]
    assert sorted(map(tuple, frame.collect())) == [(2, 1, "été"), (2, 2, "b")]
    assert table.scan().where("instr(word, 't') > 0").select().to_spark(spark).count() == 1


def test_a_limit_applies_after_the_condition_and_pruning_before_it(spark, table) -> None:
    scan = table.scan().where("instr(word, 't') + id = 3 or instr(word, 'b') = 1").limit(1)
    assert scan.to_spark(spark).count() == 1
    assert table.scan().where("n = 2 and instr(word, 'b') = 1").ignore_residuals().to_spark(spark).count() == 2
    text = lakescan.spark.explain(table.scan().where("n = 2 and regexp_like(word, 'b')"))
    assert "skipped 2: partition values" in text
    assert "on Spark: rows are filtered by regexp_like(word, 'b')" in text


def test_files_are_pruned_in_the_time_zone_of_the_session(spark, tmp_path: Path) -> None:
    first = datetime(2024, 1, 1, tzinfo=UTC)
    moments = [first + timedelta(hours=6 * number) for number in range(12)]
    rows = pa.table({"id": range(12), "at": pa.array(moments, pa.timestamp("us", "UTC"))})
    for row in range(12):
        lakescan.save(rows.slice(row, 1), str(tmp_path / "t"), format="delta", mode="append")
    table = lakescan.table(str(tmp_path / "t"))
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        for name in ("UTC", "Asia/Tokyo", "America/Los_Angeles"):
            spark.conf.set("spark.sql.session.timeZone", name)
            for condition in ("to_date(at) = date '2024-01-02'", "hour(at) < 9 and day(at) = 2", "at > current_date()"):
                expected = table.scan().to_spark(spark).where(condition).select("id").collect()
                scan = table.scan().where(condition).select("id")
                assert sorted(scan.to_spark(spark).collect()) == sorted(expected), (name, condition)
        text = lakescan.spark.explain(table.scan().where("to_date(at) = date '2024-01-02'"))
        assert re.search(r"files by statistics +[1-9] +\(skipped", text), text
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_names_match_as_the_option_defines_and_unknown_ones_are_refused(spark, table) -> None:
    scan = table.scan().where("WORD || 'x' = 'bx' and AT.city is null")
    assert [row.id for row in scan.to_spark(spark).collect()] == [2]
    with pytest.raises(NoSuchColumn, match="WORD"):
        scan.options(**{"case-sensitive": "true"}).to_spark(spark)


def test_a_data_source_evaluates_the_condition_in_its_workers(spark, table) -> None:
    lakescan.spark.register(spark)
    reader = spark.read.format("lakescan")
    assert [row.id for row in reader.option("where", "id + n = 3").load(table.location).collect()] == [1]
    with pytest.raises(Exception, match=r"the function current_timezone\(\)"):
        reader.option("where", "word = current_timezone()").load(table.location).collect()
