"""Translate windows: OVER, frames, and functions that require a window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidStatement
from lakescan.expressions.scalar.interval_values import is_time
from lakescan.expressions.scalar.typed_sql import Interval, TypedSql, common_type, convert, unsupported_error

Translate = Callable[[Any], TypedSql]
WINDOW_FUNCTIONS: dict[str, t.Type | None] = {
    "row_number": t.INT,
    "rank": t.INT,
    "dense_rank": t.INT,
    "percent_rank": t.DOUBLE,
    "cume_dist": t.DOUBLE,
    "ntile": t.INT,
    "lag": None,
    "lead": None,
    "first": None,
    "last": None,
    "any_value": None,
    "first_value": None,
    "last_value": None,
    "nth_value": None,
}
_NAMES = {"first": "first_value", "last": "last_value", "any_value": "first_value"}


def window_call(name: str, args: Sequence[TypedSql], ignores: bool, window: str) -> TypedSql:
    """Translate a call of the window function `name`, a key of `WINDOW_FUNCTIONS`.

    `window` is its ` OVER (...)`, and `ignores` is whether IGNORE NULLS is set. Raises `UnsupportedFeature` for other
    arguments than DuckDB supports, and `InvalidStatement` if the value is missing.
    """
    kind = WINDOW_FUNCTIONS[name]
    if kind is not None:
        expected = 1 if name == "ntile" else 0
        if len(args) > expected or ignores:
            raise unsupported_error(f"the function {name}() with these arguments")
        given = ", ".join(each.sql for each in args)
        if name == "ntile":
            given = _positive_constant(args[0], name) if args else "1"
        return TypedSql(f"CAST({name}({given}){window} AS {'DOUBLE' if kind == t.DOUBLE else 'INTEGER'})", kind)
    if not args:
        raise InvalidStatement(f"{name}() needs a value as its first argument")
    value, *more = args
    if name in ("lag", "lead"):
        return _neighbour(name, value, more, ignores, window)
    if name == "nth_value":
        if len(more) != 1:
            raise unsupported_error("the function nth_value() with these arguments")
        extra = f", {_positive_constant(more[0], name)}"
    else:
        if len(more) > 1 or any(not isinstance(each.literal, bool) for each in more):
            raise unsupported_error(f"the function {name}() with these arguments")
        ignores, extra = ignores or any(each.literal for each in more), ""
    nulls = " IGNORE NULLS" if ignores else ""
    return TypedSql(f"{_NAMES.get(name, name)}({value.sql}{extra}{nulls}){window}", value.type)


def _positive_constant(each: TypedSql, name: str) -> str:
    if not isinstance(each.literal, int) or each.literal < 1:
        raise unsupported_error(f"the function {name}() with a number that is not a positive constant")
    return str(each.literal)


def _neighbour(name: str, value: TypedSql, more: Sequence[TypedSql], ignores: bool, window: str) -> TypedSql:
    """Translate `lag` and `lead`. `more` holds the offset, if any, and then the default value for missing rows.

    Raises `UnsupportedFeature` if the offset is not constant.
    """
    if len(more) > 2 or (more and not isinstance(more[0].literal, int)):
        raise unsupported_error(f"the function {name}() with an offset that is not constant")
    parts = [value.sql]
    kind = value.type
    if more:
        parts.append(str(more[0].literal))
    if len(more) == 2:
        kind = common_type(replace(value, literal=None), more[1], f"the function {name}()")
        parts = [convert(value, kind).sql, parts[1], convert(more[1], kind).sql]
    nulls = " IGNORE NULLS" if ignores else ""
    return TypedSql(f"{name}({', '.join(parts)}{nulls}){window}", kind)


def window_sql(node: Any, values: Translate, windows: Mapping[str, Any]) -> str:
    """Return the SQL ` OVER (...)` of a window node. `values` translates its expressions.

    `windows` are the nodes of the WINDOW clause, by name in lower case. Raises `UnsupportedFeature`.
    """
    known = {"this", "partition_by", "order", "spec", "alias", "over"}
    extra = {key for key, value in node.args.items() if value} - known
    alias = node.args.get("alias")
    parts = [node.args.get(key) for key in ("partition_by", "order", "spec")]
    if alias is not None:
        if any(parts) or alias.name.lower() not in windows:
            raise unsupported_error(f"the window {node.sql('spark')!r}")
        return window_sql(windows[alias.name.lower()], values, {})
    if extra:
        raise unsupported_error(f"the window {node.sql('spark')!r}")
    partition, order, spec = parts
    texts = []
    if partition:
        texts.append("PARTITION BY " + ", ".join(_group_key(values(each)) for each in partition))
    keys = [] if order is None else [(values(each.this), each) for each in order.expressions]
    if keys:
        texts.append("ORDER BY " + ", ".join(order_key(value, each) for value, each in keys))
    if spec is not None:
        texts.append(_frame(spec, keys, values))
    return f" OVER ({' '.join(texts)})"


def _group_key(value: TypedSql) -> str:
    return value.sql if value.literal is None else f"({value.sql})"


def order_key(value: TypedSql, node: Any) -> str:
    """Return the SQL of one key of ORDER BY: `value` with the direction and null order of the sqlglot node `node`.

    As in Spark, nulls come first in ascending order and last in descending order, unless the key sets NULLS FIRST or
    LAST. Raises `UnsupportedFeature` for nested types.
    """
    if t.children(value.type):  # nested nulls are the smallest values in Spark, and the largest in DuckDB
        raise unsupported_error(f"ORDER BY values of type {value.type}")
    direction = "DESC" if node.args.get("desc") else "ASC"
    return f"{value.sql} {direction} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


def _frame(spec: Any, keys: Sequence[tuple[TypedSql, Any]], values: Translate) -> str:
    if {key for key, value in spec.args.items() if value} - {"kind", "start", "start_side", "end", "end_side"}:
        raise unsupported_error(f"the frame {spec.sql('spark')!r}")
    kind = str(spec.args["kind"]).upper()
    start = _bound(spec.args["start"], spec.args.get("start_side"), kind, keys, values)
    end = spec.args.get("end")
    last = "CURRENT ROW" if end is None else _bound(end, spec.args.get("end_side"), kind, keys, values)
    return f"{kind} BETWEEN {start} AND {last}"


def _bound(bound: Any, side: Any, kind: str, keys: Sequence[tuple[TypedSql, Any]], values: Translate) -> str:
    if isinstance(bound, str):
        word = bound.upper()
        return f"UNBOUNDED {str(side).upper()}" if word == "UNBOUNDED" else word
    value = values(bound) if type(bound).__name__ in ("Literal", "Neg", "Interval") else None
    if value is not None and isinstance(value.type, Interval):
        if kind != "RANGE" or len(keys) != 1 or not is_time(keys[0][0].type):
            raise unsupported_error(
                f"the bound {bound.sql('spark')!r} of a window that is not ordered by one date or timestamp"
            )
        unit = "to_months" if value.type.has_months else "to_microseconds"
        return f"{unit}({value.sql}) {str(side).upper()}"
    if value is None or not isinstance(value.literal, int):
        raise unsupported_error(f"the bound {bound.sql('spark')!r} of a window")
    if kind == "RANGE" and (len(keys) != 1 or keys[0][0].type not in (t.BYTE, t.SHORT, t.INT, t.LONG)):
        raise unsupported_error("RANGE with a number in a window that is not ordered by one integer")
    number, direction = value.literal, str(side).upper()
    if number < 0:
        number, direction = -number, {"PRECEDING": "FOLLOWING", "FOLLOWING": "PRECEDING"}[direction]
    return f"{number} {direction}"
