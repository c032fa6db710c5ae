"""Filters that Spark pushes down -> predicates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import datasource as ds

from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.common.selection import Selection
from lakescan.expressions.bind import binds
from lakescan.expressions.like import escaped
from lakescan.expressions.predicate import (
    Comparison,
    ExactText,
    In,
    IsNull,
    Like,
    Predicate,
    conjunction,
    negated,
    starts_with,
)

_COMPARISONS: dict[type, str] = {
    ds.EqualTo: "=",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}


def usable_predicate(filters: Iterable[ds.Filter], schema: Schema, output: Selection) -> Predicate:
    """The conjunction of the filters of a scan's output that planning can use, over the table's columns (`schema`).

    Spark evaluates every filter on the rows again.
    """
    parts = [part for each in filters if (part := _predicate(each, output)) is not None and binds(part, schema)]
    return conjunction(parts)


def _reference(each: ds.Filter, output: Selection) -> str | None:
    """The table's column or member that a filter tests; None if the scan does not return it."""
    first, *more = getattr(each, "attribute", ("",))
    if (selected := output.by_name.get(first)) is None:
        return None
    return ".".join([selected.reference, *([dotted_path(more)] if more else [])])


def _predicate(each: ds.Filter, output: Selection) -> Predicate | None:
    if isinstance(each, ds.Not):
        inner = _predicate(each.child, output)
        # `not (a <=> 1)` is true if a is null, `not (a = 1)` is not.
        return None if inner is None or isinstance(each.child, ds.EqualNullSafe) else negated(inner)
    if (column := _reference(each, output)) is None:
        return None
    match each:
        case ds.IsNull():
            return IsNull(column)
        case ds.IsNotNull():
            return IsNull(column, negate=True)
        case ds.EqualNullSafe():
            return IsNull(column) if each.value is None else Comparison(column, op="=", value=_exact(each.value))
        case ds.In():
            known = tuple(v for v in each.value if v is not None)
            return In(column, values=known, has_null=len(known) < len(each.value))
        case ds.StringStartsWith():
            return starts_with(column, each.value)
        case ds.StringEndsWith():
            return Like(column, pattern="%" + escaped(each.value))
        case ds.StringContains():
            return Like(column, pattern="%" + escaped(each.value) + "%")
    op = _COMPARISONS.get(type(each))
    return None if op is None or each.value is None else Comparison(column, op=op, value=_exact(each.value))


def _exact(value: Any) -> Any:
    """A literal; Spark has padded the texts that it compares with CHAR(n) without regard to the padding."""
    return ExactText(value) if isinstance(value, str) else value
