"""`DeltaTable` and its builders do what Delta's own Python interface does, over lakescan's tables."""

from __future__ import annotations

import datetime
import importlib
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException
from pyspark.sql import functions as F

import lakescan
from lakescan.delta import exceptions
from lakescan.delta.tables import DeltaTable, IdentityGenerator
from lakescan.errors import CommitConflict, ConflictCause
from lakescan.spark.drop_in.errors import spark_error

pytestmark = pytest.mark.slow

ROWS = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]


@pytest.fixture
def path(enabled: Any, tmp_path: Path) -> str:
    """The folder of a table with the rows a-1 to d-4."""
    found = str(tmp_path / "t")
    enabled.createDataFrame(ROWS, "key string, value long").write.format("delta").save(found)
    return found


def rows_of(table: DeltaTable) -> list[tuple[Any, ...]]:
    """Return the table's rows, sorted."""
    return sorted(tuple(row) for row in table.toDF().collect())


def test_conditions_and_values_are_text_or_columns(enabled: Any, path: str) -> None:
    table = DeltaTable.forPath(enabled, path)
    table.delete("key = 'a'")
    table.delete(F.col("key") == F.lit("b"))
    table.update(F.col("key") == "c", {"value": F.col("value") + 10})
    table.alias("t").update("t.key = 'd'", {"t.value": "t.value * 2"})
    assert rows_of(table) == [("c", 13), ("d", 8)]
    history = table.history()
    assert [row.operation for row in history.select("operation").collect()] == [
        "UPDATE",
        "UPDATE",
        "DELETE",
        "DELETE",
        "WRITE",
    ]
    assert history.first().operationMetrics["numUpdatedRows"] == "1"
    assert table.history(2).count() == 2


def test_a_merge_updates_deletes_and_inserts_and_returns_its_counts(enabled: Any, path: str) -> None:
    source = enabled.createDataFrame([("a", -1), ("b", 0), ("e", -5)], "k string, v long")
    table = DeltaTable.forPath(enabled, path)
    counts = (
        table.merge(source, "key = k")
        .whenMatchedDelete(F.col("k") == "b")
        .whenMatchedUpdate(set={"value": F.col("v") - 1})
        .whenNotMatchedInsert(values={"key": "k", "value": F.col("v")})
        .whenNotMatchedBySourceUpdate(condition="key = 'c'", set={"value": F.col("value") + 100})
        .whenNotMatchedBySourceDelete()
        .execute()
    )
    assert counts.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert [tuple(row) for row in counts.collect()] == [(5, 2, 2, 1)]
    assert rows_of(table) == [("a", -2), ("c", 103), ("e", -5)]
    metrics = table.history(1).first().operationMetrics
    assert (metrics["numTargetRowsUpdated"], metrics["numTargetRowsDeleted"]) == ("2", "2")


def test_aliases_and_columns_of_frames_name_both_sides(enabled: Any, path: str) -> None:
    source = enabled.createDataFrame([("a", 7), ("z", 9)], "key string, value long")
    table = DeltaTable.forPath(enabled, path)
    target = table.toDF()
    (
        table.alias("t")
        .merge(source.alias("s"), (target["key"] == source["key"]) & F.col("T.value").isNotNull())
        .whenMatchedUpdate(set={"t.value": source["value"] + F.col("t.value")})
        .whenNotMatchedInsertAll("s.value > 100")
        .execute()
    )
    assert rows_of(table)[0] == ("a", 8)
    assert len(rows_of(table)) == 4


def test_two_source_rows_for_one_row_are_refused(enabled: Any, path: str) -> None:
    twice = enabled.createDataFrame([("a", 7), ("a", 9)], "key string, value long")
    merge = DeltaTable.forPath(enabled, path).alias("t").merge(twice.alias("s"), "t.key = s.key")
    with pytest.raises(UnsupportedOperationException, match="matches more than one row") as caught:
        merge.whenMatchedUpdateAll().execute()
    assert not isinstance(caught.value, AnalysisException)


LITERALS = {
    "quoted": "it's \\ `x` --",
    "boolean": True,
    "long": 2**40,
    "least": -(2**31),
    "double": 1.5,
    "decimal": Decimal("-12.340"),
    "date": datetime.date(1582, 10, 4),
    "timestamp": datetime.datetime(2026, 1, 31, 23, 59, 59, 1),
    "binary": bytearray(b"\x00\xff"),
    "interval": datetime.timedelta(days=-1, microseconds=5),
    "list": [1, 2, 3],
}


def test_the_text_of_a_column_has_its_value_and_type(enabled: Any) -> None:
    from lakescan.spark.column_sql.column_text import Scope, column_text

    columns = {name: F.lit(value) for name, value in LITERALS.items()}
    columns |= {
        "null": F.lit(None).cast("struct<a: int>"),
        "case": F.when(F.col("id") > 0, "x").when(F.col("id").isin(0, 7), "y").otherwise("z"),
        "nested": F.struct(F.col("id").alias("a b"))["a b"],
        "map": F.create_map(F.lit("k"), F.col("id"))["k"],
        "lambda": F.aggregate(F.array(F.lit(1), F.col("id")), F.lit(0), lambda total, x: total + x.cast("int")),
        "logic": ~((F.col("id") <= 3) & F.col("id").isNull()) | F.col("id").eqNullSafe(None),
        "text": F.concat_ws("-", F.col("ID").cast("string"), F.expr("upper('x')  -- comment")),
        "like": F.lit("a%b").like("a\\%_") | F.lit("ab").rlike("^a") | F.lit("ab").startswith("a"),
        "arithmetic": -(F.col("id") % 3) * 2 / 4 + F.lit(1).bitwiseOR(6),
        "part": F.extract(F.lit("YEAR"), F.lit(datetime.date(2026, 1, 31))),
        "safe": F.lit("x").try_cast("int"),
        "trim": F.trim(F.lit(" x ")),
    }
    texts = {name: column_text(enabled, column, Scope()) for name, column in columns.items()}
    frame = enabled.range(2)
    given = frame.select(*(column.alias(name) for name, column in columns.items()))
    written = frame.selectExpr(*(f"{text} AS `{name}`" for name, text in texts.items()))
    assert written.schema.simpleString() == given.schema.simpleString()
    assert written.collect() == given.collect()


def test_a_python_function_in_an_expression_is_refused(enabled: Any, path: str) -> None:
    function = F.udf(lambda value: value, "long")
    with pytest.raises(UnsupportedOperationException, match="Python UDF"):
        DeltaTable.forPath(enabled, path).update(set={"value": function("value")})


def test_arguments_of_other_types_are_refused(enabled: Any, path: str) -> None:
    table = DeltaTable.forPath(enabled, path)
    wrong: Any = 1
    with pytest.raises(TypeError, match="must be a Spark SQL Column or a string"):
        table.delete(wrong)
    with pytest.raises(ValueError, match="cannot be None"):
        table.update("key = 'a'")
    with pytest.raises(TypeError, match="Values of dict"):
        table.update(set={"value": wrong})
    with pytest.raises(TypeError, match="must be DataFrame"):
        table.merge(wrong, "a = b")
    with pytest.raises(AnalysisException):
        table.update(set={"missing": "1"})


def test_builders_create_and_replace_a_table(enabled: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "made")

    def build(builder: Any) -> DeltaTable:
        found: DeltaTable = (
            builder.location(path)
            .addColumn("id", "bigint", generatedByDefaultAs=IdentityGenerator(start=5, step=2))
            .addColumn("n", "int", nullable=False, comment="a number")
            .addColumn("twice", "int", generatedAlwaysAs="n * 2")
            .partitionedBy("n")
            .property("owner", "sales")
            .comment("made")
            .execute()
        )
        return found

    build(DeltaTable.create(enabled))
    table = build(DeltaTable.createIfNotExists(enabled))
    with pytest.raises(AnalysisException, match="already exists"):
        build(DeltaTable.create(enabled))
    lakescan.table(path).append(enabled.sql("SELECT 3 AS n"))
    assert rows_of(table) == [(5, 3, 6)]
    detail = table.detail().first()
    assert (detail.format, detail.name, detail.description) == ("delta", None, "made")
    assert (detail.partitionColumns, detail.properties["owner"]) == (["n"], "sales")
    assert build(DeltaTable.createOrReplace(enabled)).toDF().count() == 0
    with pytest.raises(AnalysisException):
        DeltaTable.replace(enabled).location(str(tmp_path / "none")).addColumn("a", "int").execute()


def test_restore_optimize_clone_and_vacuum(enabled: Any, path: str, tmp_path: Path) -> None:
    table = DeltaTable.forPath(enabled, path)
    lakescan.table(path).append(enabled.createDataFrame([("e", 5)], "key string, value long"))
    metrics = table.optimize().executeCompaction().first().metrics
    assert metrics.numFilesAdded == 1
    assert metrics.numFilesRemoved == metrics.filesRemoved.totalFiles >= 2
    with pytest.raises(AnalysisException, match="Predicate references non-partition column 'key'"):
        table.optimize().where("key = 'a'").executeCompaction()
    copy = table.cloneAtVersion(0, str(tmp_path / "copy"), isShallow=True)
    assert rows_of(copy) == ROWS
    restored = table.restoreToVersion(0).first()
    assert restored.num_removed_files == 1
    assert rows_of(table) == ROWS
    with pytest.raises(AnalysisException, match="cannot be converted to a valid timestamp"):
        table.restoreToTimestamp("05/04/1999")
    with pytest.raises(IllegalArgumentException):
        table.vacuum(0)
    assert table.vacuum().columns == []


def test_is_delta_table(enabled: Any, path: str, tmp_path: Path) -> None:
    assert DeltaTable.isDeltaTable(enabled, path)
    assert not DeltaTable.isDeltaTable(enabled, str(tmp_path))
    with pytest.raises(AnalysisException):
        DeltaTable.forPath(enabled, str(tmp_path))


def test_the_module_delta_is_there_in_enabled_sessions(enabled: Any) -> None:
    delta: Any = importlib.import_module("delta.tables")
    conflicts: Any = importlib.import_module("delta.exceptions")
    assert delta.DeltaTable is sys.modules["delta"].DeltaTable
    assert conflicts.ConcurrentAppendException is exceptions.ConcurrentAppendException


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (ConflictCause.APPEND, exceptions.ConcurrentAppendException),
        (ConflictCause.DELETE_READ, exceptions.ConcurrentDeleteReadException),
        (ConflictCause.DELETE_DELETE, exceptions.ConcurrentDeleteDeleteException),
        (ConflictCause.METADATA, exceptions.MetadataChangedException),
        (ConflictCause.PROTOCOL, exceptions.ProtocolChangedException),
        (ConflictCause.TRANSACTION, exceptions.ConcurrentTransactionException),
        (ConflictCause.WRITE, exceptions.ConcurrentWriteException),
    ],
)
def test_a_conflict_has_the_class_of_its_cause(cause: ConflictCause, kind: type) -> None:
    found = spark_error(CommitConflict("a conflict").because(cause))
    assert isinstance(found, kind)
    assert isinstance(found, exceptions.DeltaConcurrentModificationException)
    assert isinstance(found, CommitConflict)
