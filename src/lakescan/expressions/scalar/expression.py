"""Scalar expressions that are bound to a table's columns, and their evaluation on record batches."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.arrays import cast_nulls, remove_inner_offsets
from lakescan.common.distinct_names import distinct_table, restore_names
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.errors import NoSuchColumn, SchemaMismatch, missing_dependency
from lakescan.expressions.evaluate import Columns, column_getter
from lakescan.expressions.scalar import nested
from lakescan.expressions.scalar.collections import check_inside
from lakescan.expressions.scalar.parse import parse_expression
from lakescan.expressions.scalar.translate import Translator
from lakescan.expressions.scalar.typed_sql import UNEQUAL, TypedSql, sql_type, unsupported_error
from lakescan.expressions.scalar.udf import Udf, register, remember, udfs_in

_IN_PYTHON = re.compile(r"^.*Python exception occurred while executing the UDF: \w+: ")

# Functions whose results depend on the time zone although no timestamp type shows it.
_OF_ZONE = (
    *("current_date", "curdate", "convert_timezone", "date_format", "date_part", "datepart", "extract", "hour"),
    *("minute", "second", "months_between", "from_unixtime", "unix_timestamp", "to_unix_timestamp", "unix_micros"),
    *("unix_millis", "unix_seconds", "timestampdiff"),
)
_WITHOUT_PARENTHESES = {"current_date", "curdate"}
_ZONE_LETTERS = re.compile("[VzOXxZ]")  # pattern letters for time zones


def _may_name_zone(pattern: Any) -> bool:
    return not pattern.is_string or _ZONE_LETTERS.search(pattern.name) is not None


@dataclass(frozen=True)
class ScalarExpression:
    """An SQL expression bound to the columns of a schema. Pickled for workers.

    - `text`: the SQL text.
    - `type`: the type of its values in Spark.
    - `columns`: the ids of the fields that it reads, in the order of DuckDB's columns c0, c1, ...
    - `_sql`: its DuckDB SQL over these columns, and `_udfs`: the Python functions that the SQL calls.
    """

    text: str
    schema: Schema = field(repr=False)
    type: t.Type
    columns: tuple[int, ...]
    _sql: str = field(repr=False)
    _udfs: tuple[Udf, ...] = field(default=(), repr=False)
    _has_instants: bool = field(default=False, repr=False)

    @property
    def depends_on_zone(self) -> bool:
        """Whether values may differ in a session time zone other than UTC, which evaluation assumes."""
        from sqlglot import exp

        if self._has_instants:
            return True
        tree = parse_expression(self.text)
        called = {each.name.lower() for each in tree.find_all(exp.Column)} & _WITHOUT_PARENTHESES
        for each in tree.find_all(exp.Func):
            name = (str(each.this) if isinstance(each, exp.Anonymous) else each.sql_name()).lower()
            called.add(name)
            if name in ("to_date", "try_to_date") and any(map(_may_name_zone, each.expressions[1:])):
                return True
            if name in ("datediff", "date_diff") and len(each.expressions) == 3:  # with a unit
                return True
        return not called.isdisjoint(_OF_ZONE)

    @staticmethod
    def parse(
        text: str, schema: Schema, values: Mapping[str, TypedSql] | None = None, *, case_sensitive: bool = False
    ) -> ScalarExpression:
        """Parse an expression and bind it to a schema.

        `values` are the values of functions without arguments, such as `current_date`, by name. Raises `InvalidFilter`
        for text that does not parse, `NoSuchColumn`, and `UnsupportedFeature` for an operator or function whose result
        may differ from Spark's.

        Example:
            >>> ScalarExpression.parse("year(day) * 100 + month(day)", schema).evaluate(batch)
        """
        ids: list[int] = []
        known = values or {}

        def column(path: tuple[str, ...]) -> TypedSql:
            try:
                found = schema.field(dotted_path(path), case_sensitive=case_sensitive)
            except NoSuchColumn:
                if len(path) == 1 and path[0].lower() in known:  # current_date, without parentheses
                    return known[path[0].lower()]
                raise
            if schema.struct_path(found.id)[-1] is not found:
                raise unsupported_error(f"a field inside a list or map, {found.name!r},")
            if isinstance(found.type, t.ListOf | t.MapOf):
                check_inside(found.type)
            else:
                sql_type(found.type)
            if found.id not in ids:
                ids.append(found.id)
            return TypedSql(f"c{ids.index(found.id)}", found.type)

        translate = Translator(column, known)
        typed = translate(parse_expression(text))
        udfs = udfs_in(typed.sql)
        return ScalarExpression(text, schema, typed.type, tuple(ids), typed.sql, udfs, translate.has_instants)

    def evaluate(self, rows: pa.RecordBatch | pa.Table) -> pa.Array:
        """Evaluate the expression on rows whose columns are those of the schema, in order; return the values.

        Raises `SchemaMismatch` where Spark fails, too (a division by zero, an overflow), `UnsupportedFeature` for
        values that DuckDB and Spark may evaluate differently, and `MissingDependency` without DuckDB.
        """
        return self.evaluate_columns(column_getter(rows, self.schema), rows.num_rows)

    def evaluate_columns(self, columns: Columns, rows: int) -> pa.Array:
        """Evaluate the expression on `rows` rows; `columns` returns the array of a field by its id.

        Raises the errors of `evaluate`.
        """
        remember(self._udfs)
        try:
            return evaluate_sql(self._sql, [columns(each) for each in self.columns], rows, nested.arrow(self.type))
        except FailedEvaluation as error:
            problem = _IN_PYTHON.sub("", str(error)).splitlines()[0]
            _, unequal, what = problem.partition(UNEQUAL)
            if unequal:
                raise unsupported_error(f"{self.text!r}: {what}") from error
            raise SchemaMismatch(f"the SQL expression {self.text!r} cannot be evaluated: {problem}") from error


# The days of the years -290000 to 290000, for which DuckDB computes as Spark does: see
# `tests/statements/select/test_years.py`.
FIRST_DAY, LAST_DAY = -106_640_000, 105_201_000
_MICROS = (FIRST_DAY * 86_400_000_000, (LAST_DAY + 1) * 86_400_000_000 - 1)
_SETTINGS = {
    "threads": "1",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_of_thread = threading.local()


class FailedEvaluation(Exception):
    """Raised if DuckDB fails to evaluate an expression for a value; the message is DuckDB's."""


def evaluate_sql(sql: str, columns: Sequence[pa.Array], rows: int, kind: pa.DataType) -> pa.Array:
    """Evaluate DuckDB SQL over the columns c0, c1, ..., which have `rows` values each, and return the values in order.

    `kind` is the Arrow type of the result. Raises `FailedEvaluation`, also for times beyond the years -290000 to
    290000.
    """
    arrays = [remove_inner_offsets(_plain(each)) for each in columns]
    names = [f"c{place}" for place in range(len(arrays))]
    # An extra column, so that a constant has one value per row.
    table = distinct_table(pa.table([pa.nulls(rows, pa.int8()), *arrays], names=["__rows", *names]))
    duckdb, connection = _library(), _connection()
    new = [each for each in udfs_in(sql) if each.name not in _of_thread.functions]
    register(connection, new)
    _of_thread.functions.update(each.name for each in new)
    try:
        result = connection.from_arrow(table).project(f"{sql} AS value").to_arrow_table()
    except duckdb.Error as error:
        raise FailedEvaluation(str(error)) from error
    values = result["value"].combine_chunks()
    assert len(values) == rows
    return _cast_result(restore_names(values, kind), kind)


def _plain(array: pa.Array) -> pa.Array:
    """Return an array with instants, also nested ones, as wall-clock times in UTC, because DuckDB gets no time zones.

    Raises `FailedEvaluation` for dates and timestamps outside the years -290000 to 290000.
    """
    if pa.types.is_timestamp(array.type):
        _check_years(array.cast(pa.int64()), _MICROS, array)
        return array.cast(pa.timestamp("us"))
    if pa.types.is_date32(array.type):
        _check_years(array.cast(pa.int32()), (FIRST_DAY, LAST_DAY), array)
    return array.cast(wall) if array.type != (wall := _wall_clock_type(array.type)) else array


def _wall_clock_type(kind: pa.DataType) -> pa.DataType:
    """Return an Arrow type with timestamps with a time zone, at any depth, replaced by timestamps without one."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_wall_clock_type(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_wall_clock_type(kind.key_type), _wall_clock_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _wall_clock_type(each.type)) for each in kind])
    return pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) and kind.tz else kind


def _check_years(numbers: pa.Array, limits: tuple[int, int], array: pa.Array) -> None:
    least, most = (pc.min_max(numbers)[name].as_py() for name in ("min", "max"))
    if least is not None and not (limits[0] <= least and most <= limits[1]):
        raise FailedEvaluation(f"{UNEQUAL}a {array.type} beyond the years -290000 to 290000")


def _cast_result(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind) and kind.tz:
        return values.cast(pa.timestamp("us")).cast(pa.int64()).cast(kind)
    return cast_nulls(values, kind)


def _library() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise missing_dependency("duckdb", "sql", "the value of an SQL expression") from error
    return duckdb


def _connection() -> Any:
    """Return the DuckDB connection of this thread.

    Its optimizer is off, so that operands that may fail are not moved.
    """
    if not hasattr(_of_thread, "connection"):
        connection = _library().connect(config=_SETTINGS)
        connection.execute("PRAGMA disable_optimizer")
        connection.execute("SET lock_configuration = true")
        _of_thread.connection, _of_thread.functions = connection, set()
    return _of_thread.connection
