"""Bound predicate -> Spark condition with the same semantics: NaN equals itself and is greater than every number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from lakescan.expressions.instants import plain_value, text_of
from lakescan.expressions.predicate import (
    And,
    ColumnComparison,
    ColumnTest,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Or,
    Predicate,
)

if TYPE_CHECKING:
    from pyspark.sql import Column

_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def condition(predicate: Predicate, columns: Mapping[int, Column]) -> Column:
    """The predicate as a condition over `columns`, which are keyed by field id."""

    def walk(part: Predicate) -> Column:
        match part:
            case Constant(value):
                return F.lit(value).cast("boolean")
            case And(left, right):
                return walk(left) & walk(right)
            case Or(left, right):
                return walk(left) | walk(right)
            case ColumnComparison():
                one, other = (columns[each] for each in part.bound_ids)
                return _OPERATORS[part.op](one, other)
            case ColumnTest():
                return _leaf(part, columns[part.bound_id])
        raise TypeError(f"not a predicate: {part!r}")

    return walk(predicate)


def _leaf(leaf: ColumnTest, column: Column) -> Column:
    match leaf:
        case IsNull():
            return column.isNotNull() if leaf.negate else column.isNull()
        case IsNaN():
            return ~F.isnan(column) if leaf.negate else F.isnan(column)
        case Comparison():
            return _OPERATORS[leaf.op](_exact(column, leaf.value), _literal(leaf.value))
        case In():
            matches = _exact(column, leaf.values[0]).isin(*(_literal(value) for value in leaf.values))
            if leaf.negate:
                return ~matches & F.lit(not leaf.has_null)
            return matches
        case Like():
            matches = column.ilike(leaf.pattern) if leaf.ignore_case else column.like(leaf.pattern)
            return ~matches if leaf.negate else matches
    raise TypeError(f"Spark has no condition for {leaf!r}")


def _exact(column: Column, value: pa.Scalar) -> Column:
    """The column; floats are wrapped so that Spark does not skip row groups by their statistics.

    Parquet statistics ignore NaN and distinguish 0.0 from -0.0; SQL orders NaN above all numbers and has one zero.
    """
    return (
        F.nanvl(column, F.lit(math.nan).cast(from_arrow_type(value.type)))
        if pa.types.is_floating(value.type)
        else column
    )


def _literal(value: pa.Scalar) -> Column:
    """A typed literal; timestamps and decimals are cast from text, which no session setting changes."""
    plain, kind = plain_value(value), value.type
    if isinstance(plain, bytes):
        return F.unhex(F.lit(plain.hex()))
    if isinstance(plain, bool | int | float | str):
        return F.lit(plain).cast(from_arrow_type(kind))
    return F.lit(text_of(value)).cast(from_arrow_type(kind, prefer_timestamp_ntz=True))
