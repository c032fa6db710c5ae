"""Counts and extremes of all rows of a read come from metadata if it proves them."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from tests.spark.test_replaced_reads import _condition, _difference, _found, _make_table, plan_of

pytestmark = [pytest.mark.spark, pytest.mark.replaced]
_NOTHING = ("p = 2", "id > 1000")
_SCANS = ("FileScan", "BatchScan")


def _is_known(frame: Any) -> bool:
    """Return whether no file is read."""
    plan = plan_of(frame).split("== Physical Plan ==")[1]
    return "metadata: " in plan and not any(each in plan for each in _SCANS)


@pytest.fixture(autouse=True)
def _no_view_is_left(spark: Any) -> Iterator[None]:
    """Drop the view `t`, which tests of other modules would find in the session."""
    yield
    spark.catalog.dropTempView("t")


@pytest.fixture(scope="module", params=["iceberg", "delta"])
def numbers(request: Any, spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A format, and a table of two partitions without deletes."""
    kind = request.param
    catalog = lakescan.catalog(f"totals{kind}", warehouse=str(tmp_path_factory.mktemp("totals")))
    catalog.create_namespace("n")
    columns = "id BIGINT, x DOUBLE, s STRING, d DATE, ts TIMESTAMP, n DECIMAL(9,2), b BOOLEAN, p INT"
    table = catalog.create_table("n.t", columns, format=kind, partition_by=["p"])
    days = [dt.date(2024, 1, 1) + dt.timedelta(n) for n in range(100)]
    rows = {
        "id": range(100),
        "x": [n / 2 + 1 for n in range(100)],
        "s": [f"s{n:03d}" for n in range(100)],
        "d": days,
        "ts": [dt.datetime(day.year, day.month, day.day, 3, 4, 5, 6000) for day in days],
        "n": pa.array([None if n < 3 else n for n in range(100)], pa.decimal128(9, 2)),
        "b": [None] * 100,
        "p": pa.array([n // 50 for n in range(100)], pa.int32()),
    }
    table.append(pa.table(rows).cast(table.scan().schema))
    lakescan.spark.register(spark)
    return kind, f"totals{kind}.n.t"


def test_totals_of_a_read_with_a_limit_are_those_of_its_rows(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    frame = spark.read.format(kind).option("limit", 3).load(name)
    assert not _is_known(frame.groupBy().count())
    assert frame.count() == 3
    assert lakescan.spark.sql(spark, "SELECT count(*) FROM {t}", t=lakescan.table(name, limit=3)).collect() == [(3,)]
    limited = lakescan.table(name).scan().limit(3)
    assert lakescan.sql("SELECT count(*) FROM t", t=limited).to_arrow()[0].to_pylist() == [3]


@pytest.mark.parametrize(
    "text",
    [
        "count(*)",
        "count(1) AS c, min(id), max(id)",
        "min(x) + 1, max(p) * 2 AS twice",
        "min(d), max(d), max(ts), min(n), max(n)",
        "min(b), max(b)",
        "count(*) FILTER (WHERE true)",
    ],
)
@pytest.mark.parametrize("condition", ["true", "p = 1", "p = 2", "id >= 50", "p = 0 AND id < 70", "id > 1000"])
def test_totals_of_whole_files_are_read_from_metadata(
    spark: Any, numbers: tuple[str, str], text: str, condition: str
) -> None:
    kind, name = numbers
    frames = [spark.read.format(kind).option("lane", lane).load(name) for lane in ("auto", "arrow")]
    mine, plain = (each.where(condition).selectExpr(*_split(text)) for each in frames)
    # Delta has no NaN counts, and stores times in milliseconds.
    assert _is_known(mine) == (kind == "iceberg" or condition in _NOTHING or ("(x)" not in text and "(ts)" not in text))
    assert mine.collect() == plain.collect()
    assert mine.columns == plain.columns
    assert mine.schema == plain.schema


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(", ")]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM t WHERE id > 60",
        "SELECT count(n) FROM t",
        "SELECT count(DISTINCT p) FROM t",
        "SELECT sum(id) FROM t",
        "SELECT count(*), p FROM t GROUP BY p ORDER BY p",
        "SELECT count(*) FILTER (WHERE id > 3) FROM t",
        "SELECT max(id + 1) FROM t",
        "SELECT count(*) FROM (SELECT * FROM t LIMIT 7)",
        "SELECT count(*) FROM t WHERE rand() < 0.5 OR id >= 0",
        "SELECT count(*) FROM t WHERE length(s) = 4 AND hash(id) IS NOT NULL",
        "SELECT max(e) FROM t LATERAL VIEW explode(array(id)) AS e",
    ],
)
def test_other_totals_are_computed_from_rows(spark: Any, numbers: tuple[str, str], query: str) -> None:
    kind, name = numbers
    spark.read.format(kind).load(name).createOrReplaceTempView("t")
    mine = spark.sql(query)
    assert "metadata: " not in plan_of(mine)
    spark.read.format(kind).option("lane", "arrow").load(name).createOrReplaceTempView("t")
    assert mine.collect() == spark.sql(query).collect()


def test_totals_in_subqueries_and_unions_are_read_from_metadata(spark: Any, numbers: tuple[str, str]) -> None:
    kind, name = numbers
    spark.read.format(kind).load(name).createOrReplaceTempView("t")
    query = spark.sql("SELECT id FROM t WHERE id = (SELECT max(id) FROM t) UNION ALL SELECT count(*) FROM t")
    assert sorted(row[0] for row in query.collect()) == [99, 100]
    assert "metadata: " in plan_of(query)


def test_a_zero_of_doubles_is_read_from_rows_which_have_its_sign(spark: Any, tmp_path: Path) -> None:
    catalog = lakescan.catalog("totalszero", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    catalog.create_table("n.t", "x DOUBLE", format="iceberg").append(pa.table({"x": [0.0, 1.0]}))
    lakescan.spark.register(spark)
    frame = spark.read.format("iceberg").load("totalszero.n.t")
    assert str(frame.selectExpr("min(x)").first()[0]) == "0.0"
    assert _is_known(frame.selectExpr("max(x)"))


def test_rows_that_are_deleted_by_vectors_are_not_counted(spark: Any, tmp_path: Path) -> None:
    catalog = lakescan.catalog("totalsdeleted", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    cases = {
        "v3": ("iceberg", {"format-version": "3", "write.delete.mode": "merge-on-read"}, True),
        "v2": ("iceberg", {"format-version": "2", "write.delete.mode": "merge-on-read"}, False),
        "dv": ("delta", {"delta.enableDeletionVectors": "true"}, True),
    }
    lakescan.spark.register(spark)
    for table, (kind, properties, known) in cases.items():
        made = catalog.create_table(f"n.{table}", "id BIGINT", format=kind, properties=properties)
        made.append(pa.table({"id": range(100)}))
        made.delete("id < 10 OR id > 95")
        frame = spark.read.format(kind).load(f"totalsdeleted.n.{table}")
        count = frame.groupBy().count()
        assert (_is_known(count), count.first()[0]) == (known, 86)
        ends = frame.selectExpr("min(id)", "max(id)")
        assert (_is_known(ends), tuple(ends.first())) == (False, (10, 95))


def check_random_totals(spark: Any, folder: Path, seed: int, count: int) -> None:
    """Compare totals of a random table with those of the Arrow lane's rows."""
    some = random.Random(seed)
    kind = some.choice(["iceberg", "delta"])
    catalog = lakescan.catalog(f"totalled{seed}", warehouse=str(folder))
    catalog.create_namespace("n")
    name = f"totalled{seed}.n.t"
    _make_table(catalog, name, kind, some)
    lakescan.spark.register(spark)
    arrow = spark.read.format(kind).option("lane", "arrow").load(name)
    spark.createDataFrame(arrow.toArrow(), arrow.schema).createOrReplaceTempView("plain")
    spark.read.format(kind).load(name).createOrReplaceTempView("replaced")
    names = [each for each in arrow.columns if each not in ("st", "xs")]
    for _ in range(count):
        spark.conf.set("spark.sql.ansi.enabled", some.choice(["true", "false"]))
        column, other = some.choice(names), some.choice(names)
        what = some.choice(["count(*)", f"min({column})", f"max({column})", f"min({column}), max({other}), count(1)"])
        where = "true" if some.random() < 0.4 else _condition(some, arrow.columns)
        text = f"SELECT {what} FROM t WHERE {where}"
        mine, plain = (_found(spark, text.replace(" t ", f" {each} ")) for each in ("replaced", "plain"))
        assert mine == plain, f"seed {seed}, {kind}: {text}\n{_difference(mine, plain)}"


@pytest.mark.parametrize("seed", range(2))
def test_random_totals_equal_those_of_the_arrow_lane(spark: Any, tmp_path: Path, seed: int) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    check_random_totals(spark, tmp_path, seed, 20)
    spark.conf.set("spark.sql.ansi.enabled", before)
