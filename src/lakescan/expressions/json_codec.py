"""Predicates as JSON: the expression model of Iceberg's REST specification (`{"type": "gt", "term": "a", "value": 1}`).

Filters are sent to Spark workers in this form. Literals that JSON cannot represent are tagged: `{"type": "literal",
"data-type": "decimal", "value": "1.50"}`.
"""

from __future__ import annotations

import json
import math
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakescan.errors import InvalidFilter
from lakescan.expressions.literals import Instant, plain_value
from lakescan.expressions.predicate import (
    And,
    ColumnComparison,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Or,
    Predicate,
    SqlCondition,
    conjunction,
    disjunction,
    negation,
    starts_with,
)
from lakescan.expressions.sql_condition import sql_condition
from lakescan.expressions.text_casts import offset_of_wall, wall_of_text


def _time(text: str) -> datetime | pa.Scalar:
    """Parse a timestamp in ISO 8601. One with nanoseconds, which a pandas timestamp had, becomes an Arrow scalar."""
    if len(re.split("[-+]", text.partition(".")[2])[0]) <= 6:
        return datetime.fromisoformat(text)
    wall = wall_of_text(text)
    if wall.zone is None:
        return pa.scalar(wall.nanoseconds, pa.timestamp("ns"))
    utc = wall.nanoseconds - 1000 * offset_of_wall(wall.nanoseconds // 1000, wall.zone)
    return pa.scalar(utc, pa.timestamp("ns", tz="UTC"))


def _instant(text: str) -> Instant:
    wall, _, offset = text.partition(" ")
    return Instant(int(wall), int(offset) if offset else None)


def _instant_text(value: Instant) -> str:
    return f"{value.wall} {'' if value.offset is None else value.offset}"


def _far(text: str) -> pa.Scalar:
    """Parse a number of units since 1970, and the unit, into an Arrow timestamp; NumPy reads the least as NaT."""
    count, unit, *zone = text.split(" ")
    kind = pa.date32() if unit == "D" else pa.timestamp(unit, *zone)
    return pa.scalar(int(count), pa.int32() if unit == "D" else pa.int64()).cast(kind)


def _far_text(value: np.datetime64 | pa.Scalar) -> str:
    if isinstance(value, pa.Scalar):
        if pa.types.is_date(value.type):
            return f"{value.cast(pa.date32()).value} D"
        return f"{value.value} {value.type.unit}{' UTC' if value.type.tz is not None else ''}"
    unit = np.datetime_data(value.dtype)[0]
    unit = {"Y": "D", "M": "D", "W": "D", "h": "s", "m": "s"}.get(unit, unit)
    return f"{value.astype(f'datetime64[{unit}]').astype(np.int64)} {unit}"


_OPS = {"<": "lt", "<=": "lt-eq", ">": "gt", ">=": "gt-eq", "=": "eq", "!=": "not-eq"}
_NAMES = {name: op for op, name in _OPS.items()}
_UNARY: dict[str, Callable[[str], Predicate]] = {
    "is-null": lambda column: IsNull(column),
    "not-null": lambda column: IsNull(column, negate=True),
    "is-nan": lambda column: IsNaN(column),
    "not-nan": lambda column: IsNaN(column, negate=True),
}
_TAGGED: dict[str, tuple[type | tuple[type, ...], Callable[[Any], str], Callable[[str], Any]]] = {
    "decimal": (Decimal, str, Decimal),
    "timestamp": (datetime, lambda value: value.isoformat(), _time),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "binary": (bytes, bytes.hex, bytes.fromhex),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "instant": (Instant, _instant_text, _instant),
    "datetime64": ((np.datetime64, pa.Scalar), _far_text, _far),
}


def to_json(predicate: Predicate) -> str:
    """Encode a predicate as JSON text."""
    return json.dumps(PredicateEncoder().encode(predicate))


def from_json(text: str) -> Predicate:
    """Decode a predicate from JSON text, also as Iceberg's REST catalogs write it; raises `InvalidFilter`."""
    try:
        return _decode(json.loads(text))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise InvalidFilter(f"not a filter expression in JSON: {text!r} ({error})") from error


class PredicateEncoder:
    """Encodes predicates as dictionaries, lists and values that JSON can represent; `from_json` decodes them.

    Subclasses override methods to encode constants, literals or kinds of tests for another reader.
    """

    def encode(self, predicate: Predicate) -> Any:
        """Encode a predicate as nested dictionaries; raises `TypeError` for an unknown kind of predicate."""
        match predicate:
            case Constant(value):
                return self.constant(value)
            case And(left, right) | Or(left, right):
                name = "and" if isinstance(predicate, And) else "or"
                return {"type": name, "left": self.encode(left), "right": self.encode(right)}
            case Comparison(op=op, value=value):
                return {"type": _OPS[op], "term": predicate.column, "value": self.literal(value)}
            case ColumnComparison():
                return self.columns(predicate)
            case In(negate=negate):
                return {
                    "type": "not-in" if negate else "in",
                    "term": predicate.column,
                    "values": self.values(predicate),
                }
            case IsNull(negate=negate):
                return {"type": "not-null" if negate else "is-null", "term": predicate.column}
            case IsNaN(negate=negate):
                return {"type": "not-nan" if negate else "is-nan", "term": predicate.column}
            case Like():
                return self.like(predicate)
            case SqlCondition():
                return self.sql(predicate)
        raise TypeError(f"cannot encode {predicate!r}")

    def constant(self, value: bool | None) -> Any:
        """Encode a constant predicate: True, False, or None for SQL's unknown. Here, it is the value itself."""
        return value

    def literal(self, value: Any) -> Any:
        """Encode the literal of a comparison: as itself, or tagged with its type if JSON has no such value."""
        return _encode_value(value)

    def values(self, predicate: In) -> list[Any]:
        """Encode the literals of an `in` list, followed by None if the list has null."""
        return [self.literal(value) for value in predicate.values] + [None] * predicate.has_null

    def like(self, predicate: Like) -> Any:
        """Encode a LIKE test; a pattern that is literal text followed by % becomes `starts-with`."""
        kind, value = ("ilike" if predicate.ignore_case else "like"), predicate.pattern
        if predicate.is_prefix_match:
            kind, value = "starts-with", predicate.prefix
        return {"type": f"not-{kind}" if predicate.negate else kind, "term": predicate.column, "value": value}

    def columns(self, predicate: ColumnComparison) -> Any:
        """Encode a comparison of two columns, with the second one under the key `other`."""
        return {"type": _OPS[predicate.op], "term": predicate.column, "other": predicate.other}

    def sql(self, predicate: SqlCondition) -> Any:
        """Encode an SQL condition as its text and the value of `current_timestamp()`."""
        return {"type": "sql", "value": predicate.text, "now": predicate.now.isoformat()}


def _encode_value(value: Any) -> Any:
    if isinstance(value, pa.Scalar) and not isinstance(plain := plain_value(value), np.datetime64):
        value = plain
    if isinstance(value, float) and not math.isfinite(value):
        return {"type": "literal", "data-type": "double", "value": str(value)}
    for tag, (kind, encode, _) in _TAGGED.items():
        if isinstance(value, kind):
            return {"type": "literal", "data-type": tag, "value": encode(value)}
    return value


def _decode(node: Any) -> Predicate:
    if node is None or isinstance(node, bool):
        return Constant(node)
    kind = node["type"]
    match kind:
        case "true" | "false":
            return Constant(kind == "true")
        case "and":
            return conjunction([_decode(node["left"]), _decode(node["right"])])
        case "or":
            return disjunction([_decode(node["left"]), _decode(node["right"])])
        case "not":
            return negation(_decode(node["child"]))
        case "sql":
            condition = sql_condition(node["value"])
            return replace(condition, now=datetime.fromisoformat(node["now"])) if "now" in node else condition
        case "in" | "not-in":
            values = tuple(_decode_value(v) for v in node["values"] if v is not None)
            return In(node["term"], values=values, negate=kind == "not-in", has_null=None in node["values"])
        case "starts-with" | "not-starts-with":
            return starts_with(node["term"], node["value"], negate=kind.startswith("not"))
        case "like" | "not-like" | "ilike" | "not-ilike":
            negate, ignore_case = kind.startswith("not"), kind.endswith("ilike")
            return Like(node["term"], pattern=node["value"], negate=negate, ignore_case=ignore_case)
    if kind in _UNARY:
        return _UNARY[kind](node["term"])
    if "other" in node:
        return ColumnComparison(node["term"], _NAMES[kind], node["other"])
    return Comparison(node["term"], op=_NAMES[kind], value=_decode_value(node["value"]))


def _decode_value(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    tag = value["data-type"]
    return float(value["value"]) if tag == "double" else _TAGGED[tag][2](value["value"])
