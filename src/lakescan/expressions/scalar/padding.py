"""Comparisons of CHAR(n), as in Spark: the shorter side is padded with spaces.

The other side is a constant text or another column of CHAR. Beside any other expression, a column of CHAR is a text
with spaces at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakescan.common import types as t
from lakescan.expressions.scalar.typed import Typed, literal, quoted


def padded(left: Typed, right: Typed, constant: bool = False) -> tuple[Typed, Typed]:
    """The sides of a comparison in the length that both have then.

    Args:
        left: One side.
        right: The other.
        constant: Whether a side that is no column of CHAR is constant, though no literal.
    """
    if left.pad and right.pad:
        size = max(left.pad, right.pad)
        return _padded_column(left, size), _padded_column(right, size)
    if left.pad:
        return _beside(left, right, constant)
    if right.pad:
        second, first = _beside(right, left, constant)
        return first, second
    return left, right


def unpadded(each: Typed) -> Typed:
    """A column of CHAR as the text with spaces that it is, where Spark compares it so: in BETWEEN and `nullif`."""
    return replace(each, pad=0)


def padded_among(subject: Typed, values: Sequence[Typed]) -> tuple[Typed, list[Typed]]:
    """The sides of IN in one length, if the values are all quoted texts, or all columns of CHAR."""
    if not subject.pad:
        return subject, list(values)
    if all(each.is_text_literal for each in values):  # Spark compares with the padded texts if there is a null
        size = max([subject.pad, *(len(each.literal) for each in values)])
        return _padded_column(subject, size), [_padded_literal(each, size) for each in values]
    if all(each.pad for each in values):
        size = max(each.pad for each in (subject, *values))
        return _padded_column(subject, size), [_padded_column(each, size) for each in values]
    return subject, list(values)


def _beside(column: Typed, other: Typed, constant: bool) -> tuple[Typed, Typed]:
    if other.is_text_literal:
        size = max(column.pad, len(other.literal))
        return _padded_column(column, size), _padded_literal(other, size)
    if constant and other.type == t.STRING:
        size_sql = f"CAST(greatest({column.pad}, length({other.sql})) AS INTEGER)"
        return _rpad(column, size_sql, other.raises), _rpad(other, size_sql, other.raises)
    return column, other


def _padded_literal(each: Typed, size: int) -> Typed:
    return literal(each.literal.ljust(size), t.STRING)


def _padded_column(each: Typed, size: int) -> Typed:
    return each if each.pad == size else _rpad(each, str(size), each.raises)


def _rpad(each: Typed, size_sql: str, raises: bool) -> Typed:
    return replace(each, sql=f"rpad({each.sql}, {size_sql}, {quoted(' ')})", raises=each.raises or raises, pad=0)
