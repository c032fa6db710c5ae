"""Rows reach Python in batches that Spark does not measure, and that are not larger than measured ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as s

import lakescan
import lakescan.spark
from lakescan.spark.types import schema_of_rows
from lakescan.spark.writing.arrow_batches import BYTES, RECORDS, ArrowTransfer, BatchBound, BatchLimits, batch_bound
from lakescan.spark.writing.row_widths import RowWidth, row_width

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("no_other_catalogs")]

MB = 2**20
LIMIT = 64 * MB
SEEN = "rows long, bytes long, limit string, records string"


def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows and bytes of each batch, and the limits of the task that sent it."""
    from pyspark import TaskContext

    task = TaskContext.get()
    assert task is not None
    limits = [task.getLocalProperty(name) for name in (BYTES, RECORDS)]
    for batch in batches:
        yield pa.RecordBatch.from_pylist(
            [{"rows": batch.num_rows, "bytes": batch.nbytes, "limit": limits[0], "records": limits[1]}],
            schema=pa.schema([("rows", "int64"), ("bytes", "int64"), ("limit", "string"), ("records", "string")]),
        )


def batches_of(frame: Any) -> list[Any]:
    handed = ArrowTransfer(frame)
    return list(handed.run(handed.map_in_arrow(frame, seen, SEEN), lambda found: found.collect()))


def is_measured(found: list[Any]) -> bool:
    return all(each["limit"] != str(2**31 - 1) for each in found)


INT, LONG, DATE, BINARY = s.IntegerType(), s.LongType(), s.DateType(), s.BinaryType()
INTS = s.ArrayType(INT)


def struct(*types: s.DataType) -> s.StructType:
    return s.StructType([s.StructField(f"f{n}", each) for n, each in enumerate(types)])


@pytest.mark.parametrize(
    ("types", "width"),
    [
        ([LONG, INT, s.DoubleType(), s.BooleanType(), DATE, s.TimestampType()], 9 + 5 + 9 + 2 + 5 + 9),
        ([s.DecimalType(38, 2), s.TimestampNTZType(), s.ByteType(), s.ShortType(), s.FloatType()], 17 + 9 + 2 + 3 + 5),
        ([struct(LONG, struct(DATE))], 1 + 9 + 1 + 5),
    ],
)
def test_rows_of_fixed_width_have_no_variable_bytes(types: list[s.DataType], width: int) -> None:
    found = row_width(types, [f"c{n}" for n in range(len(types))])
    assert found is not None
    assert (found.fixed, found.variable) == (width, ())


@pytest.mark.parametrize(
    "type",
    [
        s.VariantType(),
        s.ArrayType(BINARY),
        s.ArrayType(INTS),
        s.MapType(s.StringType(), INTS),
        s.ArrayType(s.MapType(INT, INT)),
    ],
    ids=str,
)
def test_values_without_a_cheap_measure_have_no_width(type: s.DataType) -> None:
    assert row_width([type], ["a"]) is None


@pytest.mark.parametrize(
    ("width", "limits", "records"),
    [
        (RowWidth(50), BatchLimits(), 10_000),
        (RowWidth(50), BatchLimits(records=1_000_000, is_lowered=False), 1_000_000),
        (RowWidth(8_000), BatchLimits(), LIMIT // 8_000),
        (RowWidth(8_000), BatchLimits(is_lowered=False), None),
        (RowWidth(100), BatchLimits(records=1_000_000), LIMIT // 100),
        (RowWidth(100), BatchLimits(records=0), None),
        (RowWidth(100 * MB), BatchLimits(), 1),
        (RowWidth(50, ("x",), frozenset({0})), BatchLimits(), 10_000),
        (RowWidth(8_000, ("x",), frozenset({0})), BatchLimits(), LIMIT // 16_000),
        (RowWidth(8_000, ("x",), frozenset({0})), BatchLimits(is_lowered=False), None),
        (RowWidth(50, ("x",), frozenset({0}), fields=99), BatchLimits(), 10_000),
        (RowWidth(50, ("x",), frozenset({0}), fields=100), BatchLimits(), None),
        (RowWidth(900, fields=100), BatchLimits(), 10_000),
        (None, BatchLimits(), None),
    ],
)
def test_the_record_limit_bounds_batches_within_the_byte_limit(
    width: RowWidth | None, limits: BatchLimits, records: int | None
) -> None:
    bound = batch_bound(width, limits)
    assert (bound.records if bound else None) == records
    assert bound is None or width is None or (bound.pieces is None) == (not width.variable)
    assert batch_bound(RowWidth(50), BatchLimits()) == BatchBound(10_000)


WIDE: dict[str, str] = {
    "texts of 10 MB": "repeat('x', 10 * 1024 * 1024) AS a",
    "tiny, then huge": "repeat('x', IF(id < 40, 1, 9000000)) AS a",
    "huge, then tiny": "repeat('x', IF(id > 20, 1, 9000000)) AS a",
    "binary": "CAST(repeat('x', 5000000) AS BINARY) AS a",
    "arrays": "array_repeat(id, 1000000) AS a",
    "arrays of texts": "array_repeat(repeat('x', 100000), 100) AS a",
    "maps": "map_from_arrays(sequence(1, 100000), array_repeat(repeat('y', 50), 100000)) AS a",
    "structs": "named_struct('b', named_struct('c', repeat('x', 7000000)), 'd', id) AS a",
    "arrays of structs": "array_repeat(named_struct('b', repeat('x', 90000), 'c', id), 100) AS a",
    "nulls between": "IF(id % 3 = 0, NULL, repeat('x', 9000000)) AS a",
    "two columns": "repeat('x', 4000000) AS a, repeat('y', 4000000) AS b",
    "moderate": "repeat('x', 6000) AS a, explode(sequence(1, 250)) AS n",
}


@pytest.mark.parametrize("columns", WIDE.values(), ids=WIDE)
def test_batches_of_wide_rows_have_no_more_bytes_than_measured_ones(spark: Any, columns: str) -> None:
    frame = spark.sql(f"SELECT id, {columns} FROM range(0, 60, 1, 1)")
    widest = max(row["w"] for row in batches_width(frame))
    found = batches_of(frame)
    assert not is_measured(found)
    assert sum(each["rows"] for each in found) == frame.count()
    assert max(each["bytes"] for each in found) <= LIMIT + widest


def batches_width(frame: Any) -> list[Any]:
    """Return the bytes of each row, as Arrow counts them."""

    def widths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for n in range(batch.num_rows):
                size = pa.RecordBatch.from_pylist(batch.slice(n, 1).to_pylist(), schema=batch.schema).nbytes
                yield pa.RecordBatch.from_pydict({"w": pa.array([size], pa.int64())})
                if n > 30:
                    break

    return list(frame.mapInArrow(widths, "w long").agg(F.max("w").alias("w")).collect())


def test_rows_arrive_unchanged_without_fillers(spark: Any, local: lakescan.Catalog) -> None:
    rows = spark.range(0, 300, 1, 2).selectExpr(
        "id",
        "IF(id % 7 = 0, NULL, repeat(CAST(id AS STRING), IF(id % 50 = 1, 20000, 1))) AS `a.b`",
        "array_repeat(id, CAST(id AS INT) * 100) AS c",
        "map('k', repeat('v', 10000), 'n', NULL) AS d",
        "named_struct('x', IF(id % 2 = 0, NULL, id), 'y', repeat('z', 9000)) AS e",
        "IF(id % 5 = 0, NULL, named_struct('t', IF(id > 0, 'u', NULL))) AS f",
    )
    local.create_namespace("wide")
    table = local.create_table("wide.rows", schema_of_rows(rows.schema))
    table.append(rows)
    expected = rows.toArrow().to_pylist()
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == sorted(expected, key=lambda row: row["id"])


def test_not_null_columns_stay_not_null(spark: Any) -> None:
    frame = spark.createDataFrame([(1, "x" * 100_000), (2, "y")], "id long not null, a string not null")
    assert not frame.schema["a"].nullable

    def nullable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"n": [any(field.nullable for field in batch.schema)]})

    handed = ArrowTransfer(frame)
    found = handed.run(handed.map_in_arrow(frame, nullable, "n boolean"), lambda found: found.collect())
    assert {row["n"] for row in found} == {False}


def test_the_settings_of_the_session_are_unchanged(spark: Any) -> None:
    before = dict(spark.conf.getAll)
    during: list[tuple[Any, ...]] = []

    def action(found: Any) -> Any:
        def look() -> None:
            rows = spark.range(1).mapInArrow(seen, SEEN).collect()
            during.append((dict(spark.conf.getAll), rows[0]["limit"], spark.conf.get(BYTES)))

        other = threading.Thread(target=look)
        other.start()
        other.join()
        return found.collect()

    frame = spark.range(10)
    handed = ArrowTransfer(frame)
    found = handed.run(handed.map_in_arrow(frame, seen, SEEN), action)
    assert not is_measured(found)
    assert during == [(before, None, "67108864b")]
    assert dict(spark.conf.getAll) == before
    assert is_measured(spark.range(1).mapInArrow(seen, SEEN).collect())


def test_the_settings_of_the_session_are_unchanged_after_an_error(spark: Any) -> None:
    before = dict(spark.conf.getAll)

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no")

    frame = spark.range(10)
    handed = ArrowTransfer(frame)
    with pytest.raises(Exception, match="no"):
        handed.run(handed.map_in_arrow(frame, fail, SEEN), lambda found: found.collect())
    assert dict(spark.conf.getAll) == before
    assert is_measured(spark.range(1).mapInArrow(seen, SEEN).collect())


@pytest.mark.parametrize(("name", "value"), [(BYTES, "32m"), (RECORDS, "100")])
def test_settings_of_the_session_are_obeyed(spark: Any, name: str, value: str) -> None:
    spark.conf.set(name, value)
    try:
        found = batches_of(spark.range(0, 1000, 1, 1))
        assert is_measured(found) == (name == BYTES)
        assert {each["rows"] for each in found} == ({100} if name == RECORDS else {1000})
        assert spark.conf.get(name) == value
    finally:
        spark.conf.unset(name)


def test_a_high_limit_of_records_still_bounds_the_bytes(spark: Any) -> None:
    spark.conf.set(RECORDS, 1_000_000)
    try:
        frame = spark.range(0, 40_000, 1, 1).selectExpr("id", "repeat('x', 5000) AS a")
        found = batches_of(frame)
    finally:
        spark.conf.unset(RECORDS)
    assert not is_measured(found)
    assert max(each["bytes"] for each in found) <= LIMIT + 6000
    assert sum(each["rows"] for each in found) == 40_000


def test_rows_of_frames_with_foreign_functions_are_measured(spark: Any) -> None:
    more = F.arrow_udf(lambda numbers: numbers, "long")  # type: ignore[call-overload]
    frame = spark.range(10)
    mapped = frame.mapInArrow(lambda batches: batches, "id long")
    for functions in (frame.select(more("id")), mapped, frame.where(F.col("id") > mapped.agg(F.max("id")).scalar())):
        assert is_measured(batches_of(functions))
    assert is_measured(batches_of(spark.createDataFrame(mapped.rdd, "id long")))
    assert not is_measured(batches_of(frame))


def test_values_of_unknown_width_are_measured(spark: Any) -> None:
    assert is_measured(batches_of(spark.sql("SELECT parse_json('[1]') AS v")))


@F.udf(s.StringType(), useArrow=False)  # type: ignore[untyped-decorator]
def limit_of_task(_: object) -> str | None:
    """Return the byte limit of the task that makes the row."""
    from pyspark import TaskContext

    task = TaskContext.get()
    return None if task is None else task.getLocalProperty(BYTES)


def with_limits(spark: Any, *ids: int, text: str = "x") -> Any:
    """Return rows that record the limit of the job that writes them."""
    rows = spark.createDataFrame([(each, text) for each in ids], "id long, text string")
    return rows.coalesce(1).withColumn("lifted", limit_of_task("id"))


@pytest.fixture(params=["iceberg", "delta"])
def table(request: pytest.FixtureRequest, spark: Any, local: lakescan.Catalog) -> lakescan.Table:
    """Make an empty table of each format with the columns of `with_limits`."""
    lakescan.spark.register(spark)
    local.create_namespace("w", exist_ok=True)
    columns = pa.schema([("id", pa.int64()), ("text", pa.string()), ("lifted", pa.string())])
    return local.create_table("w.t", columns, format=request.param)


def limits_of(table: lakescan.Table) -> list[tuple[int, bool]]:
    """Return whether each row was written without Spark's limit, in the order of the ids."""
    rows = lakescan.table(str(table.name)).scan().to_arrow().to_pylist()
    return sorted((row["id"], row["lifted"] == str(2**31 - 1)) for row in rows)


def test_all_ways_to_write_a_frame_lift_the_limit(spark: Any, table: lakescan.Table) -> None:
    table.append(with_limits(spark, 1))
    with_limits(spark, 2).write.format(table.format).mode("append").save(str(table.name))
    lakescan.spark.write_to(with_limits(spark, 3), str(table.name)).append()
    table.upsert(with_limits(spark, 3, 4), keys="id")
    rows = with_limits(spark, 4, 5)
    table.merge(rows, on="t.id = s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert limits_of(table) == [(n, True) for n in (1, 2, 3, 4, 5)]
    with_limits(spark, 6).write.format(table.format).mode("overwrite").save(str(table.name))
    assert limits_of(table) == [(6, True)]
    assert {BYTES, RECORDS}.isdisjoint(spark.conf.getAll)
    assert is_measured(spark.range(1).mapInArrow(seen, SEEN).collect())


def test_wide_rows_of_df_write_arrive_without_fillers(spark: Any, table: lakescan.Table) -> None:
    rows = spark.range(0, 40, 1, 1).selectExpr(
        "id", "IF(id % 3 = 0, NULL, repeat('x', IF(id > 9, 3000000, 2))) AS text", "'' AS lifted"
    )
    expected = sorted(rows.toArrow().to_pylist(), key=lambda row: row["id"])
    rows.withColumn("lifted", limit_of_task("id")).write.format(table.format).mode("append").save(str(table.name))
    found = sorted(lakescan.table(str(table.name)).scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(row["id"], row["text"]) for row in found] == [(row["id"], row["text"]) for row in expected]
    assert all(lifted for _, lifted in limits_of(table))


def test_a_df_write_that_fails_leaves_no_lifted_limit(spark: Any, table: lakescan.Table) -> None:
    failing = spark.range(3).selectExpr("id", "raise_error('no') AS text", "'' AS lifted")
    with pytest.raises(Exception, match="no"):
        failing.write.format(table.format).mode("append").save(str(table.name))
    assert limits_of(table) == []
    assert is_measured(spark.range(1).mapInArrow(seen, SEEN).collect())


def test_a_df_write_of_frames_with_foreign_functions_is_measured(spark: Any, table: lakescan.Table) -> None:
    mapped = with_limits(spark, 1).mapInArrow(lambda batches: batches, "id long, text string, lifted string")
    mapped.write.format(table.format).mode("append").save(str(table.name))
    cached = mapped.cache()
    try:
        cached.write.format(table.format).mode("append").save(str(table.name))
    finally:
        cached.unpersist()
    assert limits_of(table) == [(1, False), (1, False)]


def test_batches_of_a_stream_lift_the_limit(spark: Any, table: lakescan.Table, tmp_path: Any) -> None:
    spark.range(2).write.parquet(str(tmp_path / "rows"))
    stream = spark.readStream.schema("id long").parquet(str(tmp_path / "rows"))

    def write(batch: Any, _: int) -> None:
        rows = batch.selectExpr("id", "'x' AS text").withColumn("lifted", limit_of_task("id"))
        lakescan.table(str(table.name)).append(rows)

    query = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "check"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert limits_of(table) == [(0, True), (1, True)]
