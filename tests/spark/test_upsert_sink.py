"""Streams that upsert: the newest row of each key, each batch once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakescan
import lakescan.spark
from lakescan.errors import AmbiguousMerge, InvalidOption, NoSuchColumn, NoSuchTable, SchemaMismatch, UnsupportedFeature
from lakescan.tables.results import ChangeResult
from tests.tables.support import Make, maker

pytestmark = pytest.mark.usefixtures("no_other_catalogs")
SOURCE = "id long, value string, seq long, kind string"
TABLE = "id BIGINT, value STRING, seq BIGINT"
Row = tuple[Any, ...]
NOTHING = ChangeResult()


@pytest.fixture(params=["iceberg", "iceberg version 3", "delta"])
def make(request: pytest.FixtureRequest, local: lakescan.Catalog, spark: Any) -> Make:
    return maker(request.param, local)


@pytest.fixture
def iceberg(local: lakescan.Catalog, spark: Any) -> Make:
    return maker("iceberg", local)


def sink_of(**more: Any) -> Any:
    given = {"sequence_by": "seq", "deletes_when": "kind = 'D'", "query": "q", **more}
    return lakescan.spark.upsert_sink("local.db.t", "id", **given)


def frame_of(spark: Any, *rows: Row, schema: str = SOURCE) -> Any:
    return spark.createDataFrame(list(rows), schema)


def there() -> list[Row]:
    found = lakescan.table("local.db.t").to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def state() -> int | None:
    return lakescan.table("local.db.t").version


def test_rows_are_inserted_updated_and_deleted(spark: Any, make: Make) -> None:
    make(TABLE, partition_by=())
    sink = sink_of()
    result = sink(frame_of(spark, (1, "a", 1, "I"), (2, "b", 1, "I"), (3, "c", 1, "I")), 0)
    assert (result.inserted, result.updated, result.deleted) == (3, 0, 0)
    result = sink(frame_of(spark, (1, "A", 2, "U"), (2, None, 2, "D"), (4, "d", 2, "I")), 1)
    assert (result.inserted, result.updated, result.deleted) == (1, 1, 1)
    assert there() == [(1, "A", 2), (3, "c", 1), (4, "d", 2)]


def test_the_greatest_sequence_of_a_key_wins(spark: Any, make: Make) -> None:
    make(TABLE, partition_by=())
    sink = sink_of()
    sink(frame_of(spark, (1, "b", 5, "U"), (1, "a", 4, "I"), (2, "x", 3, "I"), (2, None, 4, "D"), (3, "c", 9, "I")), 0)
    assert there() == [(1, "b", 5), (3, "c", 9)]
    late = frame_of(spark, (1, "late", 4, "U"), (1, "as old", 5, "U"), (3, None, 8, "D"), (3, None, 9, "D"))
    with pytest.raises(AmbiguousMerge):
        sink(frame_of(spark, (1, "one", 6, "U"), (1, "other", 6, "U")), 1)
    assert sink(late, 1) == NOTHING
    assert there() == [(1, "b", 5), (3, "c", 9)]


def test_deleted_keys_are_not_remembered(spark: Any, iceberg: Make) -> None:
    iceberg(TABLE, partition_by=())
    sink = sink_of()
    sink(frame_of(spark, (1, "a", 1, "I")), 0)
    sink(frame_of(spark, (1, None, 9, "D")), 1)
    sink(frame_of(spark, (1, "old", 2, "U")), 2)
    assert there() == [(1, "old", 2)]


def test_a_row_of_the_table_without_a_sequence_is_older_than_any(spark: Any, iceberg: Make) -> None:
    table = iceberg(TABLE, partition_by=())
    table.append(spark.createDataFrame([(1, "a", None)], TABLE))
    sink_of()(frame_of(spark, (1, "b", -5, "U")), 0)
    assert there() == [(1, "b", -5)]


def test_a_repeated_batch_commits_nothing(spark: Any, make: Make) -> None:
    make(TABLE, partition_by=())
    sink = sink_of(sequence_by=None)
    for batch in (0, 1):
        sink(frame_of(spark, (1, f"a{batch}", batch, "I")), batch)
    before = state()
    for batch in (0, 1):
        assert sink(frame_of(spark, (1, "again", batch, "I"), (2, "b", 1, "I")), batch) == NOTHING
    assert (state(), there()) == (before, [(1, "a1", 1)])
    lakescan.spark.upsert_sink("local.db.t", "id", query="other")(
        frame_of(spark, (2, "b", 1), schema="id long, value string, seq long"), 0
    )
    assert there() == [(1, "a1", 1), (2, "b", 1)]


def test_without_a_number_rows_are_merged_in_any_case(spark: Any, iceberg: Make) -> None:
    iceberg(TABLE, partition_by=())
    sink = lakescan.spark.upsert_sink("local.db.t", "id", deletes_when="kind = 'D'")
    with pytest.raises(InvalidOption, match="query="):
        sink(frame_of(spark, (1, "a", 1, "I")), 0)
    assert sink(frame_of(spark, (1, "a", 1, "I"))).inserted == 1
    assert sink(frame_of(spark, (1, "a", 1, "D"))).deleted == 1


def test_equal_rows_of_a_key_are_one_row(spark: Any, iceberg: Make) -> None:
    iceberg("id BIGINT, value DOUBLE, tags MAP<STRING, INT>, seq BIGINT", partition_by=())
    schema = "id long, value double, tags map<string, int>, seq long, kind string"
    nan, tags = float("nan"), {"a": 1, "b": None}
    sink = sink_of()
    sink(frame_of(spark, (1, nan, tags, 1, "I"), (1, nan, tags, 1, "U"), (2, 1.0, tags, 1, "I"), schema=schema), 0)
    assert len(there()) == 2
    # Deletes are equal whatever their other columns hold.
    sink(frame_of(spark, (2, 7.0, None, 2, "D"), (2, 8.0, {"x": 1}, 2, "D"), schema=schema), 1)
    assert [row[0] for row in there()] == [1]
    for other in ((2, 1.0, {"a": 2, "b": None}, 3, "I"), (2, 1.0, None, 3, "I"), (2, 1.0, tags, 3, "D")):
        with pytest.raises(AmbiguousMerge, match=r'rows with \{"id":2\} have the same sequence, and differ'):
            sink(frame_of(spark, (2, 1.0, tags, 3, "I"), other, schema=schema), 2)


def test_without_a_sequence_a_batch_must_have_one_row_per_key(spark: Any, iceberg: Make) -> None:
    iceberg(TABLE, partition_by=())
    sink = sink_of(sequence_by=None)
    with pytest.raises(AmbiguousMerge, match="there is no sequence_by"):
        sink(frame_of(spark, (1, "a", 1, "I"), (1, "b", 2, "I")), 0)
    assert there() == []
    sink(frame_of(spark, (1, "b", 2, "I"), (1, "b", 2, "I")), 0)
    sink(frame_of(spark, (1, "a", 1, "I")), 1)
    assert there() == [(1, "a", 1)]


@pytest.mark.parametrize(
    ("row", "said"), [((None, "a", 1, "I"), "a row has no key"), ((1, "a", None, "I"), "has no sequence")]
)
def test_null_keys_and_sequences_fail_the_batch(spark: Any, iceberg: Make, row: Row, said: str) -> None:
    iceberg(TABLE, partition_by=())
    with pytest.raises(SchemaMismatch, match=said):
        sink_of()(frame_of(spark, row, (2, "b", 1, "I")), 0)
    assert there() == []


def test_keys_are_compared_as_they_are_stored(spark: Any, make: Make) -> None:
    make(TABLE, partition_by=())
    sink, schema = sink_of(deletes_when=None), "id string, value string, seq long"
    sink(frame_of(spark, ("5", "a", 1), schema=schema), 0)
    sink(frame_of(spark, (5.0, "b", 2), schema="id double, value string, seq long"), 1)
    assert there() == [(5, "b", 2)]
    with pytest.raises(AmbiguousMerge):
        sink(frame_of(spark, ("5", "c", 3), ("05", "d", 3), schema=schema), 2)
    with pytest.raises(SchemaMismatch, match=r'"id":5.5.*the key column .id. \(long\) would store as another value'):
        sink(frame_of(spark, (5.5, "c", 3), schema="id double, value string, seq long"), 2)
    with pytest.raises(SchemaMismatch, match=r"has id = 5\.5, which the key column 'id'"):
        lakescan.table("local.db.t").upsert(
            frame_of(spark, (5.5, "c", 3), schema="id double, value string, seq long"), "id"
        )
    assert there() == [(5, "b", 2)]


def test_the_sequence_may_be_an_expression_over_table_columns(spark: Any, iceberg: Make) -> None:
    iceberg("id BIGINT, value STRING, version BIGINT", partition_by=())
    schema = "id long, value string, term long, number long"
    sink = lakescan.spark.upsert_sink("local.db.t", "id", sequence_by="term * 100 + number AS version", query="q")
    sink(frame_of(spark, (1, "a", 2, 1), (1, "b", 1, 99), schema=schema), 0)
    sink(frame_of(spark, (1, "late", 2, 0), schema=schema), 1)
    assert there() == [(1, "a", 201)]


def test_a_sequence_not_stored_in_the_table_is_refused_unless_batches_are_in_order(spark: Any, iceberg: Make) -> None:
    iceberg("id BIGINT, value STRING", partition_by=())
    rows = frame_of(spark, (1, "a", 2, "I"), (1, "b", 1, "I"))
    with pytest.raises(InvalidOption, match="the table has no column 'seq' that stores the sequence"):
        sink_of()(rows, 0)
    with pytest.raises(InvalidOption, match="expression AS column"):
        sink_of(sequence_by="seq + 1")(rows, 0)
    sink = sink_of(in_order=True, sequence_by="seq + 1")
    sink(rows, 0)
    sink(frame_of(spark, (1, "c", 0, "I")), 1)
    assert there() == [(1, "c")]


def test_other_columns_are_an_error_or_added(spark: Any, make: Make) -> None:
    make(TABLE, partition_by=())
    schema = f"{SOURCE}, color string"
    rows = frame_of(spark, (1, "a", 1, "I", "red"), schema=schema)
    with pytest.raises(SchemaMismatch, match="'color' that the table lacks"):
        sink_of()(rows, 0)
    assert sink_of(except_columns="color")(rows).inserted == 1
    assert there() == [(1, "a", 1)]
    sink_of(merge_schema=True)(rows.withColumn("seq", rows.seq + 1), 0)
    assert there() == [(1, "a", 2, "red")]
    assert lakescan.table("local.db.t").schema.names == ["id", "value", "seq", "color"]


def test_keys_are_the_identifier_fields(spark: Any, local: lakescan.Catalog) -> None:
    import pyarrow as pa

    required = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.string())])
    local.create_table("db.t", required, partition_by=())
    with pytest.raises(InvalidOption, match="no identifier fields"):
        lakescan.spark.upsert_sink("local.db.t")(frame_of(spark, (1, "a"), schema="id long, value string"))
    from lakescan.catalogs.registry import connection

    with connection("local").load_table(("db", "t")).update_schema() as update:
        update.set_identifier_fields("id")
    sink = lakescan.spark.upsert_sink("local.db.t")
    sink(frame_of(spark, (1, "a"), schema="id long, value string"))
    sink(frame_of(spark, (1, "b"), schema="ID long, value string"))
    assert there() == [(1, "b")]
    with pytest.raises(NoSuchColumn, match="'id', which is a key"):
        sink(frame_of(spark, ("b",), schema="value string"))


def test_the_table_must_exist_and_the_stream_numbers_its_transactions(spark: Any, local: lakescan.Catalog) -> None:
    with pytest.raises(NoSuchTable, match="create it first"):
        sink_of()(frame_of(spark, (1, "a", 1, "I")), 0)
    with pytest.raises(InvalidOption, match="query="):
        sink_of(txn_app_id="a", txn_version=1)


def test_a_stream_is_merged_and_continues_from_its_checkpoint(spark: Any, make: Make, tmp_path: Path) -> None:
    make(TABLE, partition_by=())
    folder = tmp_path / "source"
    batches = (
        [(1, "a", 1, "I"), (2, "b", 1, "I")],
        [(1, "A", 3, "U"), (1, "late", 2, "U"), (2, None, 2, "D")],
        [(1, "later", 2, "U"), (3, "c", 1, "I")],
    )
    sink = lakescan.spark.upsert_sink("local.db.t", "id", sequence_by="seq", deletes_when="kind = 'D'")
    for rows in batches:
        frame_of(spark, *rows).coalesce(1).write.mode("append").parquet(str(folder))
        stream = spark.readStream.schema(SOURCE).option("maxFilesPerTrigger", 1).parquet(str(folder))
        writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    assert there() == [(1, "A", 3), (3, "c", 1)]
    # The same batch of the same query, by its checkpoint: it was committed.
    again = lakescan.spark.upsert_sink("local.db.t", "id", checkpoint_location=str(tmp_path / "checkpoint"))
    rows = frame_of(spark, (9, "z", 1), schema="id long, value string, seq long")
    assert (again(rows, 2), again(rows, 3).inserted) == (NOTHING, 1)


@pytest.mark.parametrize("by_property", [False, True])
def test_batches_are_upserted_without_reading_the_table(spark: Any, local: lakescan.Catalog, by_property: bool) -> None:
    properties = {"write.upsert.enabled": str(by_property).lower()}
    local.create_table("db.t", "id BIGINT, value STRING", partition_by=("bucket(2, id)",), properties=properties)
    mode = {} if by_property else {"upsert_mode": "equality"}
    sink = sink_of(in_order=True, **mode)
    sink(frame_of(spark, (1, "a", 1, "I"), (2, "b", 1, "I"), (2, "B", 2, "U"), (3, "c", 1, "I")), 0)
    for _ in range(2):
        sink(frame_of(spark, (1, "A", 3, "U"), (3, None, 3, "D"), (4, "d", 3, "I"), (4, None, 4, "D")), 1)
    assert there() == [(1, "A"), (2, "B")]
    from lakescan.catalogs.registry import connection

    table = connection("local").load_table(("db", "t"))
    assert len(table.snapshots()) == 2
    assert set(table.inspect.delete_files()["content"].to_pylist()) == {2}
    with pytest.raises(SchemaMismatch, match="a row has no key"):
        sink(frame_of(spark, (None, "a", 1, "I")), 2)


def test_late_rows_are_refused_with_equality_deletes(spark: Any, iceberg: Make) -> None:
    iceberg(TABLE, partition_by=())
    with pytest.raises(InvalidOption, match="late rows cannot be detected"):
        sink_of(upsert_mode="equality")(frame_of(spark, (1, "a", 1, "I")), 0)
    with pytest.raises(UnsupportedFeature, match=r"write.upsert.enabled"):
        iceberg_upserts(spark)


def iceberg_upserts(spark: Any) -> None:
    """Check an append by `df.write` to a table that streams upsert."""
    catalog = lakescan.Catalog("local")
    catalog.create_table("db.u", "id BIGINT", properties={"write.upsert.enabled": "true"})
    lakescan.spark.write_to(spark.range(1), "local.db.u").append()


KEYED = "id BIGINT NOT NULL, value STRING, PRIMARY KEY (id)"


@pytest.mark.parametrize("way", ["Table.append", "df.write", "write_to", "INSERT", "writeStream"])
@pytest.mark.parametrize("version", ["2", "3"])
def test_appended_rows_replace_those_with_their_keys(
    spark: Any, local: lakescan.Catalog, tmp_path: Path, way: str, version: str
) -> None:
    """As in Flink. Of several rows with the same key the last one counts, whichever tasks write them."""
    properties = {"write.upsert.enabled": "true", "format-version": version}
    local.create_table("db.t", KEYED, partition_by=("bucket(2, id)",), properties=properties)
    lakescan.spark.register(spark)

    def write(*rows: Row) -> None:
        frame = spark.createDataFrame(list(rows), "id long, value string").repartitionByRange(2, "value")
        if way == "Table.append":
            lakescan.table("local.db.t").append(frame)
        elif way == "df.write":
            frame.write.format("iceberg").mode("append").save("local.db.t")
        elif way == "write_to":
            lakescan.spark.write_to(frame, "local.db.t").append()
        elif way == "INSERT":
            frame.createOrReplaceTempView("new_rows")
            lakescan.spark.sql(spark, "INSERT INTO local.db.t SELECT * FROM new_rows")
        else:
            source = str(tmp_path / "source")
            # One file, because the files of one commit have no order.
            lakescan.save(frame.coalesce(1), source, format="delta", mode="append")
            stream = spark.readStream.format("delta").load(source).writeStream.format("iceberg")
            stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).option("path", "local.db.t")
            stream.trigger(availableNow=True).start().awaitTermination()

    write((1, "a"), (1, "z"), (2, "b"), (3, "c"))
    write((2, "m"), (3, "a"), (3, "x"), (3, "y"))
    assert there() == [(1, "z"), (2, "m"), (3, "y")]
    files = local.load_table("db.t").inspect("files")
    assert sorted(Path(each).name for each in files["file_path"].to_pylist()) == data_files(tmp_path)


def data_files(folder: Path) -> list[str]:
    """Return the names of the table's Parquet files in storage, after checking that a commit references each."""
    return sorted(each.name for each in folder.rglob("t/data/**/*.parquet"))


def test_a_write_that_lacks_keys_leaves_no_files(spark: Any, local: lakescan.Catalog, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    local.create_table("db.t", KEYED, properties={"write.upsert.enabled": "true"})
    lakescan.spark.register(spark)
    frame = spark.createDataFrame([(1, "a"), (None, "b")], "id long, value string")
    with pytest.raises(PySparkException, match="id"):
        frame.write.format("iceberg").mode("append").save("local.db.t")
    with pytest.raises(SchemaMismatch, match="id"):
        lakescan.table("local.db.t").append(frame)
    assert data_files(tmp_path) == []
