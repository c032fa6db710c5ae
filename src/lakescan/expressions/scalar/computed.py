"""Compute DuckDB SQL over Arrow arrays, with a connection a thread that can read nothing else."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import remove_inner_offsets
from lakescan.common.distinct_names import distinct_table, restore_names
from lakescan.common.untyped_nulls import cast_nulls
from lakescan.errors import missing_dependency
from lakescan.expressions.scalar.typed import UNEQUAL
from lakescan.expressions.scalar.udf import register, udfs_in

# Since 1970: the years -290000 to 290000. DuckDB computes with them as Spark does (`tests/query/test_years.py`).
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
    """DuckDB's message about a value for which an expression has no result."""


def evaluate_sql(sql: str, columns: Sequence[pa.Array], rows: int, kind: pa.DataType) -> pa.Array:
    """Return the values of an expression over columns c0, c1, ..., in the order of the rows.

    Raises `FailedEvaluation`.
    """
    arrays = [remove_inner_offsets(_plain(each)) for each in columns]
    names = [f"c{place}" for place in range(len(arrays))]
    # A column of its own, so that constants have as many values as there are rows.
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
    """Return wall-clock times in UTC for instants. Raises `FailedEvaluation` beyond the years -290000 to 290000."""
    if pa.types.is_timestamp(array.type):
        _check_years(array.cast(pa.int64()), _MICROS, array)
        return array.cast(pa.timestamp("us"))
    if pa.types.is_date32(array.type):
        _check_years(array.cast(pa.int32()), (FIRST_DAY, LAST_DAY), array)
    return array.cast(wall) if array.type != (wall := _wall_clock_type(array.type)) else array


def _wall_clock_type(kind: pa.DataType) -> pa.DataType:
    """The type with wall-clock times for the instants inside."""
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
    """This thread's connection. Nothing is reordered: an operand that may fail is evaluated where it is written."""
    if not hasattr(_of_thread, "connection"):
        connection = _library().connect(config=_SETTINGS)
        connection.execute("PRAGMA disable_optimizer")
        connection.execute("SET lock_configuration = true")
        _of_thread.connection, _of_thread.functions = connection, set()
    return _of_thread.connection
