"""Spark functions that DuckDB lacks or computes differently, as Python functions that DuckDB SQL calls.

Each function is a module of `expressions.scalar.python` and a name in it, such as `texts.md5`. The SQL name of a call
identifies the function and its types. `udfs_in` finds the calls in a query, and `register` registers them with a
connection.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from lakescan.common import types as t
from lakescan.expressions.scalar import nested
from lakescan.expressions.scalar.typed_sql import Interval, TypedSql, nested_sql_type

_NAME = re.compile(r"\bspark_[a-z0-9_]+_[0-9a-f]{16}(?=\()")
_KNOWN: dict[str, Udf] = {}


class FailedValue(Exception):
    """Raised by a Spark function in Python for a value if Spark fails, too.

    The message begins with the name of Spark's error class.
    """


@dataclass(frozen=True)
class Udf:
    """A Python function with the types of one call.

    - `function`: its module in `expressions.scalar.python`, and its name, such as `texts.md5`.
    - `arguments`, `result`: the types of the arguments and of the result.
    - `keeps_nulls`: whether it is called with nulls. Otherwise the result is null if an argument is null.
    """

    function: str
    arguments: tuple[t.Type, ...]
    result: t.Type
    keeps_nulls: bool = False

    @property
    def name(self) -> str:
        """The name of the function in DuckDB SQL, which has a hash of the types."""
        digest = hashlib.sha1(repr(self).encode(), usedforsecurity=False).hexdigest()[:16]
        return f"spark_{self.function.replace('.', '_').lower()}_{digest}"


def type_factory(function: Callable[[Sequence[t.Type], t.Type], Callable[..., Any]]) -> Any:
    """Decorator for a function that, given a call's argument and result types, returns the Python function of values.

    Such functions need the types to interpret values.
    """
    function.is_made_for_types = True  # type: ignore[attr-defined]
    return function


def call_python(
    function: str, args: Sequence[TypedSql], result: t.Type, *, keeps_nulls: bool = False, raises: bool = False
) -> TypedSql:
    """Return the SQL of a call of a Python function, and register the function in this process.

    - `function`: its module and name, such as `texts.md5`.
    - `keeps_nulls`: whether it is called with nulls. Otherwise the result is null if an argument is null.
    - `raises`: whether it fails for some values.
    """
    udf = Udf(function, tuple(each.type for each in args), result, keeps_nulls)
    name = udf.name
    _KNOWN[name] = udf
    fails = raises or any(each.raises for each in args)
    return TypedSql(f"{name}({', '.join(_argument(each) for each in args)})", result, fails)


def _argument(each: TypedSql) -> str:
    """Return the SQL of an argument; a bare NULL is cast to its type, because DuckDB needs one."""
    return f"CAST(NULL AS {nested_sql_type(each.type)})" if each.sql == "NULL" else each.sql


def udfs_in(sql: str) -> tuple[Udf, ...]:
    """Return the Python functions that DuckDB SQL calls, each once; names unknown to this process are ignored."""
    return tuple(_KNOWN[name] for name in dict.fromkeys(_NAME.findall(sql)) if name in _KNOWN)


def remember(udfs: Iterable[Udf]) -> None:
    """Register Python functions that `udfs_in` returned in another process, so that this one finds them, too."""
    _KNOWN.update((each.name, each) for each in udfs)


def register(connection: Any, udfs: Iterable[Udf]) -> None:
    """Create the Python functions as DuckDB functions on a connection that does not have them yet."""
    for each in udfs:
        connection.create_function(
            each.name,
            _vectorize(each),
            [nested_sql_type(kind) for kind in each.arguments],
            nested_sql_type(each.result),
            type="arrow",
            null_handling="special",
        )


def _vectorize(udf: Udf) -> Callable[..., pa.Array]:
    module, _, name = udf.function.rpartition(".")
    function = getattr(import_module(f"lakescan.expressions.scalar.python.{module}"), name)
    if getattr(function, "is_made_for_types", False):
        function = function(udf.arguments, udf.result)
    result = storage_type(udf.result)

    def run(*columns: pa.ChunkedArray) -> pa.Array:
        rows = zip(*(_values(column, kind) for column, kind in zip(columns, udf.arguments, strict=True)), strict=True)
        if udf.keeps_nulls:
            values = [function(*row) for row in rows]
        else:
            values = [None if None in row else function(*row) for row in rows]
        return _cast_duckdb(pa.array(values, result), udf.result)

    # DuckDB inspects the signature for the number of parameters.
    places = [inspect.Parameter(f"c{n}", inspect.Parameter.POSITIONAL_ONLY) for n in range(len(udf.arguments))]
    run.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
    return run


def _values(column: pa.ChunkedArray, kind: t.Type) -> list[Any]:
    """Return DuckDB's values of one argument as Python values.

    Dates are numbers of days and times are microseconds, because Python's years are limited.
    """
    wanted = storage_type(kind)
    if column.type != wanted and _has_times(kind):
        column = column.cast(wanted)
    values: list[Any] = column.to_pylist()
    return values


def storage_type(kind: t.Type) -> pa.DataType:
    """Return the Arrow type of a column type's values as Python functions get and return them.

    Dates, times and intervals are integers.
    """
    match kind:
        case t.DATE:
            return pa.int32()
        case t.Timestamp() | t.TIME:
            return pa.int64()
        case t.Struct():
            return pa.struct([(name, storage_type(each.type)) for name, each in _members(kind)])
        case t.ListOf():
            return pa.list_(storage_type(kind.element.type))
        case t.MapOf():
            return pa.map_(storage_type(kind.key.type), storage_type(kind.value.type))
        case Interval():
            return pa.int32() if kind.has_months else pa.int64()
    return pa.int32() if kind == t.UNKNOWN else kind.arrow()


def _members(kind: t.Struct) -> list[tuple[str, t.Field]]:
    """Return a struct's members with their names in DuckDB, which the dictionaries of Python functions have, too."""
    return list(zip(nested.member_names(kind), kind.fields, strict=True))


def _has_times(kind: t.Type) -> bool:
    inner = t.children(kind)
    return kind in (t.DATE, t.TIME) or isinstance(kind, t.Timestamp) or any(_has_times(each.type) for each in inner)


def _cast_duckdb(values: pa.Array, kind: t.Type) -> pa.Array:
    return values.cast(_duckdb(kind)) if _has_times(kind) else values


def _duckdb(kind: t.Type) -> pa.DataType:
    match kind:
        case t.Timestamp():
            return pa.timestamp("us")
        case t.Struct():
            return pa.struct([(name, _duckdb(each.type)) for name, each in _members(kind)])
        case t.ListOf():
            return pa.list_(_duckdb(kind.element.type))
        case t.MapOf():
            return pa.map_(_duckdb(kind.key.type), _duckdb(kind.value.type))
    return kind.arrow() if kind in (t.DATE, t.TIME) else storage_type(kind)
