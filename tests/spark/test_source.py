"""The data sources on a classic session: options, SQL, schemas, filters, partitions, errors."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
import lakescan.spark
from lakescan.spark.session import parallelism
from tests.support.rows import differences

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Delta table of three files of one hundred numbers each, with floats, nulls and odd names."""
    from deltalake import write_deltalake

    folder = str(tmp_path_factory.mktemp("numbers"))
    for start in (0, 100, 200):
        n = list(range(start, start + 100))
        f = [float("nan") if i % 10 == 0 else i / 10 for i in n]
        text = [None if i % 7 == 0 else f"text {i}" for i in n]
        write_deltalake(folder, pa.table({"n": n, "f": f, "a.b": text}), mode="append")
    return folder


def test_a_table_reads_as_it_does_in_process(spark, shop) -> None:
    actual = spark.read.format("iceberg").load(shop.orders).toArrow()
    assert differences(actual, lakescan.table(shop.orders).scan().to_arrow()) == ""


def test_spark_partitions_are_the_task_groups_of_the_plan(spark, shop) -> None:
    scan = lakescan.table(shop.orders).scan().options(split_size=20_000, file_open_cost=1, lane="arrow")
    groups = len(scan.plan().groups)
    assert groups > 3
    assert scan.to_spark(spark).rdd.getNumPartitions() == groups


def test_options_work_by_their_ecosystems_names(spark, shop) -> None:
    found = spark.read.format("delta").option("versionAsOf", 0).load(shop.customers)
    assert found.count() == lakescan.table(shop.customers).scan().as_of(version=0).to_arrow().num_rows


def test_times_without_an_offset_are_of_the_sessions_zone(spark, shop) -> None:
    """Kiritimati is 14 hours ahead: its clock is ahead of UTC's at the same moment."""
    newest = lakescan.table(shop.customers).history()["timestamp"][-1].as_py()
    later = f"{newest + timedelta(hours=13):%Y-%m-%d %H:%M:%S}"
    try:
        spark.conf.set("spark.sql.session.timeZone", "Pacific/Kiritimati")
        lakescan.spark.register(spark)
        read = spark.read.format("delta").option("timestampAsOf", later)
        assert "is before the oldest version" in failing(lambda: read.load(shop.customers).count())
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        lakescan.spark.register(spark)
    read = spark.read.format("delta").option("timestampAsOf", later)
    assert "is after the newest version" in failing(lambda: read.load(shop.customers).count())


def test_sql_views_use_the_formats(spark, shop) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW customers USING delta OPTIONS (path '{shop.customers}', versionAsOf '0')"
    )
    expected = lakescan.table(shop.customers, versionAsOf=0).scan().where("country = 'FR'").to_arrow().num_rows
    assert spark.sql("select count(*) from customers where country = 'FR'").first()[0] == expected
    spark.catalog.dropTempView("customers")


def test_lakescan_detects_the_format(spark, shop) -> None:
    for location in (shop.orders, shop.customers):
        assert (
            spark.read.format("lakescan").load(location).count() == lakescan.table(location).scan().to_arrow().num_rows
        )


def test_a_narrower_schema_or_the_columns_option_narrows_the_read(spark, shop) -> None:
    by_option = spark.read.format("delta").option("columns", "country,customer_id").load(shop.customers)
    assert by_option.columns == ["country", "customer_id"]
    by_schema = spark.read.format("delta").schema("credit double, country string").load(shop.customers)
    assert by_schema.columns == ["credit", "country"]
    assert by_schema.where("country = 'FR'").count() == by_option.where("country = 'FR'").count()


def failing(action: Any) -> str:
    with pytest.raises(Exception) as caught:
        action()
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"versionAsof2": "1"}, "InvalidOption: unknown option 'versionasof2'. Did you mean 'versionAsOf'?"),
        ({"snapshot-id": "1"}, "option 'snapshot-id' is for iceberg tables; this is a delta table"),
        ({"schemaLocation": "x"}, "UnsupportedFeature: unsupported feature: delta option 'schemaLocation'"),
        ({"excludeRegex": "x"}, "option 'excludeRegex' is for streams"),
        ({"versionAsOf": "99"}, "has no version 99: its newest is"),
        ({"filter": "contry = 'FR'"}, "Did you mean 'country'?"),
    ],
)
def test_errors_reach_the_user_with_their_message(spark, shop, options: dict[str, str], message: str) -> None:
    assert message in failing(lambda: spark.read.format("delta").options(**options).load(shop.customers).collect())


def test_a_schema_that_changes_a_type_is_refused(spark, shop) -> None:
    read = spark.read.format("delta").schema("customer_id string").load(shop.customers)
    assert "a schema may leave columns out, not change them" in failing(read.collect)


def test_a_path_is_needed(spark) -> None:
    assert "needs a path" in failing(lambda: spark.read.format("iceberg").load())


def test_a_missing_data_file_fails_the_query(spark, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path), pa.table({"n": [1]}))
    next(tmp_path.glob("*.parquet")).unlink()
    assert "MissingFile" in failing(spark.read.format("delta").load(str(tmp_path)).collect)


@pytest.mark.parametrize(
    "condition",
    [
        "n > 150",
        "n in (5, 250, null)",
        "not (n in (5, 250))",
        "f > 25",
        "f = cast('nan' as double)",
        "f != 3.5",
        "`a.b` = 'text 5'",
        "`a.b` <=> null",
        "not (`a.b` <=> 'text 5')",
        "`a.b` like 'text 1%'",
        "`a.b` like '%9'",
        "not `a.b` like '%9'",
        "n between 90 and 110 and `a.b` is not null",
        "n < 10 or n > 290",
    ],
)
def test_the_option_where_has_the_rows_of_the_filter(spark, numbers: str, condition: str) -> None:
    plain = spark.createDataFrame(lakescan.table(numbers).scan().to_arrow())
    expected = plain.where(condition).select("n").toArrow()["n"].to_pylist()
    frame = spark.read.format("delta").option("where", condition).option("columns", "n").load(numbers)
    assert sorted(frame.toArrow()["n"].to_pylist()) == sorted(expected)


def test_options_that_filter_are_all_obeyed(spark, numbers: str) -> None:
    read = spark.read.format("lakescan").option("where", "n < 20").option("filter", "n >= 10")
    assert read.load(numbers).count() == 10


def test_the_option_where_prunes_files(spark, numbers: str) -> None:
    scan = lakescan.table(numbers).scan().where("n >= 100 and n < 200")
    second = scan.plan().files["path"].to_pylist()
    assert len(second) == 1
    others = [p for p in Path(numbers).glob("*.parquet") if str(p) not in second]
    for path in others:
        path.rename(path.with_suffix(".away"))
    try:
        # Now only a plan that pruned the other files can be read.
        frame = spark.read.format("delta").option("where", "n >= 100 and n < 200").load(numbers)
        assert frame.count() == 100
    finally:
        for path in others:
            path.with_suffix(".away").rename(path)


@pytest.mark.parametrize("lane", ["source", "arrow", "planned here"])
def test_a_limit_applies_to_all_tasks_together(spark, numbers: str, lane: str) -> None:
    if lane == "source":
        frame = spark.read.format("delta").options(limit=150, where="n >= 50").load(numbers)
    else:
        scan = lakescan.table(numbers, lane="arrow").scan().where("n >= 50").limit(150)
        scan = scan.options(data_planning_mode="distributed") if lane == "planned here" else scan
        frame = scan.to_spark(spark)
    assert frame.count() == 150
    assert frame.where("n < 50").count() == 0


def test_a_scan_without_residuals_has_none_in_the_arrow_lane(spark, numbers: str) -> None:
    scan = lakescan.table(numbers, lane="arrow").scan().where("n = 150").ignore_residuals()
    assert scan.to_spark(spark).count() == 100


def test_splits_are_made_for_the_sessions_cores(spark) -> None:
    assert parallelism(spark) == 2


def test_pushed_filters_apply_after_the_limit_of_the_scan(tmp_path: Path) -> None:
    from deltalake import write_deltalake
    from pyspark.sql.datasource import GreaterThan
    from pyspark.sql.types import LongType, StructField, StructType

    from lakescan.spark.source.data_source import FilteringReader

    write_deltalake(tmp_path / "t", pa.table({"id": list(range(10))}))
    schema = StructType([StructField("id", LongType())])

    def read(scan: lakescan.Scan) -> list[int]:
        reader = FilteringReader(scan.spec, schema, 1, None)
        assert len(list(reader.pushFilters([GreaterThan(("id",), 5)]))) == 1  # Spark evaluates it again
        return [i for part in reader.partitions() for batch in reader.read(part) for i in batch["id"].to_pylist()]

    scan = lakescan.table(tmp_path / "t").scan()
    assert read(scan) == [6, 7, 8, 9]
    assert read(scan.limit(3)) == scan.limit(3).to_arrow()["id"].to_pylist()


def test_a_later_catalog_is_found_and_an_unknown_one_is_named(spark: Any, tmp_path: Path) -> None:
    """A name in an unregistered catalog is read neither as a folder nor as a new table."""
    lakescan.spark.register(spark)
    message = r"this data source has no catalog 'srcnone'.*call it again. A folder of that name is './srcnone\.db\.t'"
    for format in ("lakescan", "iceberg", "delta"):
        with pytest.raises(Exception, match=message):
            spark.range(2).write.format(format).mode("append").save("srcnone.db.t")
        with pytest.raises(Exception, match=message):
            spark.read.format(format).load("srcnone.db.t").collect()
    with pytest.raises(Exception, match=message):
        spark.readStream.format("iceberg").load("srcnone.db.t")
    lake = lakescan.catalog("srclate", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")
    lake.create_table("db.t", "id BIGINT")
    spark.range(2).write.format("lakescan").mode("append").save("srclate.db.t")
    assert spark.read.format("iceberg").load("srclate.db.t").count() == 2
