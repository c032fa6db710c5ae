"""Comparisons of CHAR(n) as in Spark: the shorter side is padded with spaces.

This applies if the other side is a constant string or another CHAR column. Next to any other expression, a CHAR column
is an ordinary string with trailing spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakescan.common import types as t
from lakescan.expressions.scalar.typed_sql import TypedSql, literal, quote_text


def pad_sides(left: TypedSql, right: TypedSql, constant: bool = False) -> tuple[TypedSql, TypedSql]:
    """Pad both sides of a comparison with spaces to the same length, if one is CHAR(n) and Spark does so.

    Sides are returned unchanged if none is a CHAR column, or if the other one is neither constant nor CHAR.

    Args:
        left: One side.
        right: The other side.
        constant: Whether a side that is not a CHAR column is constant but not a literal.
    """
    if left.pad and right.pad:
        size = max(left.pad, right.pad)
        return _pad_column(left, size), _pad_column(right, size)
    if left.pad:
        return _pad_other(left, right, constant)
    if right.pad:
        second, first = _pad_other(right, left, constant)
        return first, second
    return left, right


def ignore_padding(each: TypedSql) -> TypedSql:
    """Return a CHAR column as an ordinary string with its trailing spaces, as in Spark's BETWEEN and `nullif`."""
    return replace(each, pad=0)


def pad_list(subject: TypedSql, values: Sequence[TypedSql]) -> tuple[TypedSql, list[TypedSql]]:
    """Pad a CHAR column and the values of IN to the same length, if all values are string literals or CHAR columns.

    Other operands are returned unchanged. `subject` is the left side of IN.
    """
    if not subject.pad:
        return subject, list(values)
    if all(each.is_text_literal for each in values):  # with a null in the list, Spark does not pad the literals
        size = max([subject.pad, *(len(each.literal) for each in values)])
        return _pad_column(subject, size), [_pad_literal(each, size) for each in values]
    if all(each.pad for each in values):
        size = max(each.pad for each in (subject, *values))
        return _pad_column(subject, size), [_pad_column(each, size) for each in values]
    return subject, list(values)


def _pad_other(column: TypedSql, other: TypedSql, constant: bool) -> tuple[TypedSql, TypedSql]:
    if other.is_text_literal:
        size = max(column.pad, len(other.literal))
        return _pad_column(column, size), _pad_literal(other, size)
    if constant and other.type == t.STRING:
        size_sql = f"CAST(greatest({column.pad}, length({other.sql})) AS INTEGER)"
        return _rpad(column, size_sql, other.raises), _rpad(other, size_sql, other.raises)
    return column, other


def _pad_literal(each: TypedSql, size: int) -> TypedSql:
    return literal(each.literal.ljust(size), t.STRING)


def _pad_column(each: TypedSql, size: int) -> TypedSql:
    return each if each.pad == size else _rpad(each, str(size), each.raises)


def _rpad(each: TypedSql, size_sql: str, raises: bool) -> TypedSql:
    return replace(each, sql=f"rpad({each.sql}, {size_sql}, {quote_text(' ')})", raises=each.raises or raises, pad=0)
