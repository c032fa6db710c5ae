"""Timestamps of SQL in this process: conversion to microseconds, the range of years, and constant timestamps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import InvalidStatement, LakescanError, SchemaMismatch, UnsupportedFeature, missing_dependency
from lakescan.expressions.scalar.expression import FIRST_DAY, LAST_DAY


def microsecond_type(kind: pa.DataType) -> pa.DataType:
    """Return an Arrow type with microseconds instead of nanoseconds, also in structs, lists and maps."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz) if kind.unit == "ns" else kind
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(microsecond_type(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(microsecond_type(kind.key_type), kind.item_field.with_type(microsecond_type(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(microsecond_type(kind.value_type)))
    return kind


def microsecond_converter(
    schema: pa.Schema, shown: str
) -> tuple[pa.Schema, Callable[[pa.RecordBatch], pa.RecordBatch]] | None:
    """Return the schema with microseconds, and a function that converts batches; None for a schema without nanoseconds.

    The function raises `UnsupportedFeature` for a value that is not a whole number of microseconds.

    Args:
        schema: The schema of the batches.
        shown: The name of the table, for messages.
    """
    made = pa.schema([each.with_type(microsecond_type(each.type)) for each in schema], schema.metadata)
    if made == schema:
        return None

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [_convert_column(column, field, shown) for column, field in zip(batch.columns, made, strict=True)],
            schema=made,
        )

    return made, convert


def _convert_column(column: pa.Array, field: pa.Field, shown: str) -> pa.Array:
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise UnsupportedFeature(
            f"reading {field.name!r} of {shown}, which has nanoseconds, in SQL",
            f"SQL timestamps have microseconds, as in Spark, and values are not rounded ({error}). Read the table with "
            "Table.scan, which keeps nanoseconds, or leave the column out.",
        ) from error


def as_microseconds(frame: pa.Table, shown: str) -> pa.Table:
    """Convert the nanoseconds of a frame, which pandas uses for timestamps, to microseconds.

    Raises:
        SchemaMismatch: A value is not a whole number of microseconds.
    """
    made = pa.schema([each.with_type(microsecond_type(each.type)) for each in frame.schema], frame.schema.metadata)
    if made == frame.schema:
        return frame
    try:
        return frame.cast(made)
    except pa.ArrowInvalid:
        for field in frame.schema:
            try:
                frame[field.name].cast(microsecond_type(field.type))
            except pa.ArrowInvalid as error:
                raise SchemaMismatch(
                    f"the column {field.name!r} of {shown} has nanoseconds, which SQL would round: {error}. Round it "
                    "to microseconds first, or append the rows"
                ) from error
        raise


_OF_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def check_batches(rows: pa.Table, check: Callable[[pa.RecordBatch], pa.RecordBatch]) -> pa.Table:
    """Call `check`, which may raise an error, for each batch of the rows, and return the rows unchanged."""
    for batch in rows.to_batches():
        check(batch)
    return rows


def check_years(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch; raises `UnsupportedFeature` if a date or timestamp is beyond the years -290000 to 290000."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_date32(column.type):
            least, most, number = FIRST_DAY, LAST_DAY, pa.int32()
        elif pa.types.is_timestamp(column.type):
            per_day = 86_400 * _OF_SECOND[column.type.unit]
            least, most, number = (
                max(FIRST_DAY * per_day, -(2**63)),
                min((LAST_DAY + 1) * per_day, 2**63) - 1,
                pa.int64(),
            )
        else:
            continue
        found = pc.min_max(column.cast(number))
        if found["min"].is_valid and not (least <= found["min"].as_py() and found["max"].as_py() <= most):
            raise UnsupportedFeature(
                f"computing with a time beyond the years -290000 to 290000 in the column {name!r}",
                "DuckDB, which runs SQL in this process, cannot store it. Run the statement with lakescan.spark.sql.",
            )
    return batch


def moment_of(expression: Any, zone: tzinfo, what: str = "TIMESTAMP AS OF") -> datetime | str:
    """Evaluate a constant timestamp expression, such as `current_timestamp() - INTERVAL 1 DAY`, to a datetime in UTC.

    A string literal is returned unchanged, and a number counts seconds since 1970. `zone` is the time zone of
    timestamps without an offset, and `what` the clause for messages. Raises `InvalidStatement` if the expression is not
    constant.
    """
    from sqlglot import exp

    if isinstance(expression, exp.Literal):
        try:
            return expression.name if expression.is_string else datetime.fromtimestamp(float(expression.name), UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise InvalidStatement(f"{what} {expression.name}: {error}") from error
    try:
        import duckdb
    except ImportError as error:
        raise missing_dependency("duckdb", "sql", f"{what} an expression") from error
    try:
        with duckdb.connect() as connection:
            connection.execute(f"SET TimeZone = '{zone}'")
            connection.execute("SET enable_external_access = false")  # the expression may not read files
            query = f"SELECT CAST({expression.sql('duckdb')} AS TIMESTAMPTZ)::TIMESTAMPTZ AS moment"
            value = connection.sql(query).to_arrow_table()["moment"][0]
    except (duckdb.Error, pa.ArrowException) as error:
        found = None if expression.find(exp.Column, exp.Query) else _moment_of_spark(expression)
        if found is not None:
            return found
        raise InvalidStatement(f"{what} takes a constant time, not {expression.sql('spark')}: {error}") from error
    if not value.is_valid:
        raise InvalidStatement(f"{what} takes a time; {expression.sql('spark')} is null")
    moment: datetime = value.as_py()
    return moment.astimezone(UTC)


def _moment_of_spark(expression: Any) -> datetime | None:
    """Evaluate functions of Spark that DuckDB does not have, such as `timestamp_millis`; None if that is impossible.

    An expression with texts is not evaluated, as they may be times in the session's zone.
    """
    from sqlglot import exp

    from lakescan.statements.select.query import query  # which imports this module

    if any(each.is_string for each in expression.find_all(exp.Literal)):
        return None
    try:
        rows = query(f"SELECT CAST({expression.sql('spark')} AS TIMESTAMP) AS moment", None, {}, ()).to_arrow()
    except LakescanError:
        return None
    moment: datetime | None = rows.column(0)[0].as_py()
    return None if moment is None else moment.astimezone(UTC)
