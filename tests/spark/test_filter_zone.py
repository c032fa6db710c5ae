"""On Spark, a whole filter is evaluated in the session's time zone, as the same filter on a frame is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark

ROWS = pa.table(
    {
        "rid": pa.array([1, 2, 3], pa.int64()),
        "ts": pa.array(
            [
                datetime(2020, 1, 1, 2, tzinfo=UTC),
                datetime(2020, 1, 1, 12, tzinfo=UTC),
                datetime(2021, 1, 1, 2, tzinfo=UTC),
            ],
            pa.timestamp("us", "UTC"),
        ),
        "dt": pa.array([18262, 18262, 18628], pa.int32()).cast(pa.date32()),
    }
)
FILTERS = [
    "ts >= '2020-01-01' and year(ts) = 2019",
    "ts >= '2020-01-01'",
    "ts < '2020-01-01' or rid = 3",
    "ts = '2019-12-31 21:00:00'",
    "ts = '2020-01-01 02:00:00Z'",
    "year(ts) = 2020",
    "ts >= '2020-01-01' and year(ts) = 2020",
    "date_trunc('day', ts) = TIMESTAMP '2020-01-01 00:00:00'",
    "hour(ts) = 21 or ts = '2020-01-01 07:00:00'",
    "cast(ts as date) = '2019-12-31'",
    "dt <= TIMESTAMP '2020-01-01 05:00:00Z'",
    "ts between '2019-12-31' and '2019-12-31 23:00'",
    "ts in ('2019-12-31 21:00', '2020-12-31 21:00')",
]
# Python workers compute only with instants in UTC; the inferred predicates do not cover these conditions.
REFUSED = [
    "ts >= '2020-01-01' and year(ts) = 2019",
    "year(ts) = 2020",
    "ts >= '2020-01-01' and year(ts) = 2020",
    "date_trunc('day', ts) = TIMESTAMP '2020-01-01 00:00:00'",
    "hour(ts) = 21 or ts = '2020-01-01 07:00:00'",
    "cast(ts as date) = '2019-12-31'",
]
Read = Callable[[Any, lakescan.Table, str], Any]
READS: dict[str, Read] = {
    "native lane": lambda spark, table, text: table.scan().where(text).options(lane="native").to_spark(spark),
    "arrow lane": lambda spark, table, text: table.scan().where(text).options(lane="arrow").to_spark(spark),
    "read": lambda spark, table, text: lakescan.spark.read(spark, table.location, where=text),
    "sql": lambda spark, table, text: lakescan.spark.sql(spark, f"SELECT * FROM zones.db.t WHERE {text}"),
}


def ids(frame: Any) -> list[int]:
    return sorted(row["rid"] for row in frame.collect())


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> lakescan.Table:
    lake = lakescan.catalog("zones", warehouse=str(tmp_path_factory.mktemp("zones")))
    lake.create_namespace("db")
    made = lake.create_table("db.t", ROWS.schema)
    made.append(ROWS)
    return made


@pytest.fixture
def los_angeles(spark: Any) -> Iterator[Any]:
    spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    lakescan.spark.register(spark)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    lakescan.spark.register(spark)


@pytest.mark.parametrize("text", FILTERS)
def test_every_read_keeps_the_rows_that_spark_keeps(los_angeles: Any, table: lakescan.Table, text: str) -> None:
    expected = ids(table.scan().to_spark(los_angeles).where(text))
    assert {name: ids(read(los_angeles, table, text)) for name, read in READS.items()} == dict.fromkeys(READS, expected)


@pytest.mark.parametrize("text", FILTERS)
def test_the_option_where_keeps_the_same_rows_or_is_refused(los_angeles: Any, table: lakescan.Table, text: str) -> None:
    expected = ids(table.scan().to_spark(los_angeles).where(text))
    read = los_angeles.read.format("iceberg").option("where", text)
    if text in REFUSED:
        with pytest.raises(Exception, match="in the time zone America/Los_Angeles"):
            read.load(table.location).collect()
    else:
        assert ids(read.load(table.location)) == expected


def test_a_read_is_refused_if_the_zone_has_changed_since_the_source_was_registered(
    los_angeles: Any, table: lakescan.Table
) -> None:
    los_angeles.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    read = los_angeles.read.format("iceberg")
    with pytest.raises(
        Exception, match=r"time zone is Asia/Tokyo and was America/Los_Angeles.*register\(spark\) again"
    ):
        read.option("where", "ts >= '2020-01-01'").load(table.location).collect()
    assert ids(read.option("where", "rid >= 2").load(table.location)) == [2, 3]


def test_in_process_the_whole_filter_is_in_utc(los_angeles: Any, table: lakescan.Table) -> None:
    for text, kept in {
        "ts >= '2020-01-01' and year(ts) = 2019": [],
        "ts >= '2020-01-01' and hour(ts) = 2": [1, 3],
    }.items():
        assert table.scan().where(text).to_arrow()["rid"].to_pylist() == kept
        assert lakescan.sql(f"SELECT rid FROM zones.db.t WHERE {text} ORDER BY 1").to_arrow()["rid"].to_pylist() == kept


@pytest.mark.parametrize("read", ["native lane", "read", "sql"])
def test_a_session_without_the_setting_has_the_zone_of_its_jvm(spark: Any, table: lakescan.Table, read: str) -> None:
    lakescan.spark.register(spark)
    before, zones = spark.conf.get("spark.sql.session.timeZone"), spark._jvm.java.util.TimeZone
    own = zones.getDefault()
    spark.conf.unset("spark.sql.session.timeZone")
    zones.setDefault(zones.getTimeZone("America/Los_Angeles"))
    try:
        for text in ("ts >= '2020-01-01'", "ts = '2019-12-31 18:00:00'", "year(ts) = 2019"):
            expected = ids(spark.createDataFrame(ROWS).where(text))
            assert ids(READS[read](spark, table, text)) == expected, text
            assert ids(lakescan.spark.table(spark, table.location).where(text)) == expected, text
    finally:
        zones.setDefault(own)
        spark.conf.set("spark.sql.session.timeZone", before)
