"""Errors of enabled sessions have the classes and conditions that jobs for the JARs catch, and lakescan's messages."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import errors
from pyspark.sql import functions as F

from lakescan.errors import (
    LakescanError,
    NoSuchColumn,
    NoSuchTable,
    QueryFailed,
    SchemaMismatch,
    StorageError,
    UnsupportedFeature,
)
from lakescan.spark.drop_in.errors import errors_of_format, raise_as_spark, spark_error

MISSING = "TABLE_OR_VIEW_NOT_FOUND"
EXISTS = "TABLE_OR_VIEW_ALREADY_EXISTS"
UNRESOLVED = "UNRESOLVED_COLUMN.WITH_SUGGESTION"


# Statements, with PySpark's class and the condition of their errors in the JVM (see `interop/test_enabled_writers.py`).
# `lake` is an Iceberg catalog, and {} a folder with Delta tables.
STATEMENTS = (
    ("SELECT * FROM lake.e.nothing", "AnalysisException", MISSING),
    ("INSERT INTO lake.e.nothing VALUES (1)", "AnalysisException", MISSING),
    ("DELETE FROM lake.e.nothing", "AnalysisException", MISSING),
    ("DROP TABLE lake.e.nothing", "AnalysisException", MISSING),
    ("CREATE TABLE lake.e.t (x INT)", "AnalysisException", EXISTS),
    ("CREATE NAMESPACE lake.e", "AnalysisException", "SCHEMA_ALREADY_EXISTS"),
    (
        "INSERT INTO lake.e.t VALUES (1)",
        "AnalysisException",
        "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS",
    ),
    (
        "INSERT INTO lake.e.t VALUES (1, 'a', 2)",
        "AnalysisException",
        "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS",
    ),
    ("INSERT INTO lake.e.t (id, zz) VALUES (1, 'a')", "AnalysisException", UNRESOLVED),
    ("UPDATE lake.e.t SET nope = 1", "AnalysisException", UNRESOLVED),
    ("ALTER TABLE lake.e.t ADD COLUMN id BIGINT", "AnalysisException", "FIELD_ALREADY_EXISTS"),
    ("ALTER TABLE lake.e.t ALTER COLUMN id TYPE INT", "AnalysisException", "NOT_SUPPORTED_CHANGE_COLUMN"),
    ("DELETE FORM lake.e.t", "ParseException", "PARSE_SYNTAX_ERROR"),
    ("SELECT * FROM lake.e.t VERSION AS OF 99", "IllegalArgumentException", None),
    ("SELECT * FROM delta.`/nothing/here`", "AnalysisException", "PATH_NOT_FOUND"),
    ("SELECT * FROM delta.`{}/t` VERSION AS OF 99", "AnalysisException", "DELTA_VERSION_NOT_FOUND"),
    ("VACUUM delta.`{}/t` RETAIN 0 HOURS", "IllegalArgumentException", "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"),
    ("ALTER TABLE delta.`{}/t` DROP COLUMN d", "AnalysisException", "DELTA_UNSUPPORTED_DROP_COLUMN"),
    (
        "ALTER TABLE delta.`{}/t` ADD CONSTRAINT c CHECK (id > 100)",
        "AnalysisException",
        "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
    ),
    ("DROP NAMESPACE lake.e", "Py4JJavaError", None),
    ("CALL lake.system.nothing('e.t')", "AnalysisException", "FAILED_TO_LOAD_ROUTINE"),
    ("CALL lake.system.rollback_to_snapshot('e.t')", "AnalysisException", "REQUIRED_PARAMETER_NOT_FOUND"),
    ("CALL lake.system.rollback_to_snapshot('e.t', 1, 2)", "AnalysisException", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION"),
    ("CALL lake.system.expire_snapshots(table => 'e.t', no => 1)", "AnalysisException", "UNRECOGNIZED_PARAMETER_NAME"),
    (
        "CALL lake.system.expire_snapshots(table => 'e.t', table => 'e.t')",
        "AnalysisException",
        "DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT.DOUBLE_NAMED_ARGUMENT_REFERENCE",
    ),
    ("CALL lake.system.rollback_to_snapshot(table => 'e.t', 1)", "AnalysisException", "UNEXPECTED_POSITIONAL_ARGUMENT"),
    ("CALL lake.system.rollback_to_snapshot('e.t', 'a')", "NumberFormatException", "CAST_INVALID_INPUT"),
    ("CALL lake.system.fast_forward('e.t', 'main', 'no')", "IllegalArgumentException", None),
    ("CALL lake.system.rollback_to_snapshot('e.t', 1)", "Py4JJavaError", None),
    ("OPTIMIZE delta.`{}/t` ZORDER BY (no)", "IllegalArgumentException", "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST"),
    ("OPTIMIZE delta.`{}/t` WHERE id = 1", "AnalysisException", "DELTA_NON_PARTITION_COLUMN_REFERENCE"),
    ("OPTIMIZE delta.`{}/t` FULL", "UnsupportedOperationException", "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"),
    ("RESTORE delta.`{}/t` TO VERSION AS OF 99", "AnalysisException", "DELTA_CANNOT_RESTORE_TABLE_VERSION"),
    (
        "RESTORE delta.`{}/t` TO TIMESTAMP AS OF '2099-01-01'",
        "AnalysisException",
        "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
    ),
)


@pytest.fixture(scope="module")
def tables(enabled: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Iceberg tables `lake.e.t` and `lake.e.n`, and a folder with the Delta tables `t` and `c`."""
    folder = tmp_path_factory.mktemp("delta")
    enabled.sql("CREATE TABLE lake.e.t (id BIGINT, d STRING)")
    enabled.sql("CREATE TABLE lake.e.n (a INT NOT NULL, b STRING)")
    enabled.sql(f"CREATE TABLE delta.`{folder}/t` (id BIGINT, d STRING) USING delta")
    enabled.sql(f"CREATE TABLE delta.`{folder}/c` (id BIGINT NOT NULL, v VARCHAR(3)) USING delta")
    enabled.sql(f"ALTER TABLE delta.`{folder}/c` ADD CONSTRAINT positive CHECK (id > 0)")
    enabled.sql(f"INSERT INTO delta.`{folder}/t` VALUES (1, 'a')")
    return folder


def _raised(call: Callable[[], object]) -> Any:
    with pytest.raises(LakescanError) as found:
        call()
    return found.value


@pytest.mark.parametrize(("text", "name", "condition"), STATEMENTS)
def test_errors_of_statements(enabled: Any, tables: Path, text: str, name: str, condition: str | None) -> None:
    with pytest.raises(Exception) as found:
        enabled.sql(text.format(tables)).collect()
    error: Any = found.value
    own = getattr(error, "getCondition", lambda: None)  # errors of py4j have none
    assert (type(error).__name__, own()) == (name, condition)
    if name != "Py4JJavaError":
        assert isinstance(error, getattr(errors, name))


def test_errors_of_spark_about_a_query_are_unchanged(enabled: Any, tables: Path) -> None:
    for call in (lambda: enabled.table("lake.e.t").select("nope"), lambda: enabled.sql("SELECT nope FROM lake.e.t")):
        with pytest.raises(errors.AnalysisException) as found:
            call().collect()
        assert found.value.getCondition() == UNRESOLVED


@pytest.mark.parametrize(
    ("columns", "name", "condition"),
    [
        ({"id": "1L", "d": "'a'", "e": "1"}, "AnalysisException", "INCOMPATIBLE_DATA_FOR_TABLE.EXTRA_COLUMNS"),
        ({"id": "'x'", "d": "'a'"}, "AnalysisException", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"),
    ],
)
def test_columns_that_do_not_fit_an_iceberg_table(
    enabled: Any, tables: Path, columns: dict[str, str], name: str, condition: str
) -> None:
    frame = enabled.range(1).select(*(F.expr(value).alias(key) for key, value in columns.items()))
    for write in (frame.writeTo("lake.e.t").append, lambda: frame.write.mode("append").saveAsTable("lake.e.t")):
        error = _raised(write)
        assert (type(error).__name__, error.getCondition()) == (name, condition)
        assert isinstance(error, SchemaMismatch)


def test_columns_that_do_not_fit_a_delta_table(enabled: Any, tables: Path) -> None:
    def condition(frame: Any, **options: str) -> str:
        writer = frame.write.format("delta").mode("append").options(**options)
        error = _raised(lambda: writer.save(f"{tables}/t"))
        assert isinstance(error, errors.AnalysisException)
        return str(error.getCondition())

    one = enabled.range(1)
    assert condition(one.selectExpr("id", "'a' d", "1 e")) == "DELTA_METADATA_MISMATCH"
    assert condition(one.selectExpr("'x' id", "'a' d")) == "DELTA_FAILED_TO_MERGE_FIELDS"
    error = _raised(lambda: one.selectExpr("id `a b`").write.format("delta").save(f"{tables}/new"))
    assert error.getCondition() == "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"
    error = _raised(lambda: one.write.format("delta").save(f"{tables}/t"))
    assert error.getCondition() == "DELTA_PATH_EXISTS"
    one.selectExpr("1 i").write.format("delta").save(f"{tables}/narrow")
    error = _raised(lambda: one.selectExpr("1L i").write.format("delta").mode("append").save(f"{tables}/narrow"))
    assert error.getCondition() == "DELTA_FAILED_TO_MERGE_FIELDS"


def test_rows_that_violate_rules_of_a_delta_table_raise_a_java_error(enabled: Any, tables: Path) -> None:
    for text in ("-1L id", "CAST(NULL AS BIGINT) id"):
        frame = enabled.range(1).selectExpr(text)
        with pytest.raises(Py4JJavaError) as found:
            frame.write.format("delta").mode("append").save(f"{tables}/c")
        name = found.value.java_exception.getClass().getName()
        assert name == "org.apache.spark.sql.delta.schema.DeltaInvariantViolationException"
        assert found.value.java_exception.getMessage() == str(found.value)


def test_nulls_in_a_required_column_of_an_iceberg_table(enabled: Any, tables: Path) -> None:
    frame = enabled.range(1).selectExpr("CAST(NULL AS INT) a", "'x' b")
    error = _raised(frame.writeTo("lake.e.n").append)
    assert isinstance(error, errors.SparkRuntimeException)
    assert error.getCondition() == "NOT_NULL_ASSERT_VIOLATION"


def test_a_missing_branch_is_a_java_error_for_writes(enabled: Any, tables: Path) -> None:
    with pytest.raises(Py4JJavaError, match="nothing"):
        enabled.table("lake.e.t").writeTo("lake.e.t.branch_nothing").append()


def test_an_error_has_the_interface_of_both_libraries() -> None:
    error: Any = spark_error(NoSuchTable("lake.db.t does not exist"))
    assert isinstance(error, NoSuchTable)
    assert isinstance(error, errors.AnalysisException)
    assert type(error).__name__ == "AnalysisException"
    assert str(error) == "[TABLE_OR_VIEW_NOT_FOUND] lake.db.t does not exist"
    assert (error.getCondition(), error.getSqlState()) == (MISSING, "42P01")
    assert error.getMessageParameters() == {"relationName": "lake.db.t"}
    with pytest.warns(FutureWarning):
        assert error.getErrorClass() == MISSING


@pytest.mark.parametrize("connect", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        NoSuchColumn("no column 'x'"),
        StorageError("unreachable"),
        UnsupportedFeature("this", "Do that."),
        QueryFailed("no"),
    ],
)
def test_errors_can_be_pickled(error: LakescanError, connect: bool) -> None:
    found: Any = spark_error(error, connect=connect)
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found)
    assert str(again) == str(found)
    if hasattr(found, "getCondition"):
        assert again.getCondition() == found.getCondition()
    assert isinstance(again, type(error))


def test_a_translated_error_keeps_the_place_that_raised_it_and_hides_the_first_one() -> None:
    def fail() -> None:
        raise NoSuchTable("gone")

    with pytest.raises(errors.AnalysisException) as found, raise_as_spark():
        fail()
    assert found.traceback[-1].name == "fail"
    assert found.value.__cause__ is None
    assert found.value.__suppress_context__


def test_an_error_of_a_query_keeps_the_class_and_condition_of_spark() -> None:
    class Overflow(errors.ArithmeticException):
        def getCondition(self) -> str:
            return "ARITHMETIC_OVERFLOW"

        def getSqlState(self) -> str:
            return "22003"

    error = QueryFailed("UPDATE of t: overflow")
    error.__cause__ = Overflow("overflow")
    found: Any = spark_error(error)
    assert isinstance(found, errors.ArithmeticException)
    assert (found.getCondition(), found.getSqlState()) == ("ARITHMETIC_OVERFLOW", "22003")


def test_the_format_of_a_table_decides_between_conditions() -> None:
    with pytest.raises(SchemaMismatch) as found, raise_as_spark(), errors_of_format("delta"):
        raise SchemaMismatch("the rows do not fit the table: column 'e' is not in the table")
    error: Any = found.value
    assert error.getCondition() == "DELTA_METADATA_MISMATCH"
