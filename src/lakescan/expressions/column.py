"""Filters written in Python: `col("price") > 20` is equivalent to the SQL text `price > 20`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from lakescan.common.references import parse_reference
from lakescan.errors import InvalidFilter, NoTruthValue
from lakescan.expressions.predicate import Comparison, In, IsNaN, IsNull, Like, Predicate, starts_with

__all__ = ["Column", "col", "parse_reference"]


class Column:
    """A column by its dotted path (`` a.`b.c` ``); comparing it with a literal returns a predicate.

    Combine predicates with `&`, `|` and `~`; these bind tighter than comparisons, so write parentheses.
    """

    __hash__ = None  # type: ignore[assignment]  # `==` returns a predicate

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"col({self.name!r})"

    def __bool__(self) -> NoReturn:
        raise NoTruthValue(
            f"{self!r} has no truth value: compare it with a literal, `{self!r} == True`, and combine filters with "
            "`&`, `|` and `~`"
        )

    def __contains__(self, value: object) -> NoReturn:
        raise NoTruthValue(
            f"`{value!r} in {self!r}` is not a filter: write {self!r}.is_in([...]) or {self!r}.like('%...%')"
        )

    def _compared(self, op: str, value: Any) -> Predicate:
        if value is None or isinstance(value, Column):
            raise InvalidFilter(f"{self!r} {op} {value!r}: compare a column with a literal, or use is_null()")
        return Comparison(self.name, op=op, value=value)

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._compared("=", value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._compared("!=", value)

    def __lt__(self, value: Any) -> Predicate:
        return self._compared("<", value)

    def __le__(self, value: Any) -> Predicate:
        return self._compared("<=", value)

    def __gt__(self, value: Any) -> Predicate:
        return self._compared(">", value)

    def __ge__(self, value: Any) -> Predicate:
        return self._compared(">=", value)

    def between(self, low: Any, high: Any) -> Predicate:
        """Return `low <= column and column <= high`."""
        return (self >= low) & (self <= high)

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """Return `column in (values)`; None among the values is SQL's null, so the negation then keeps no row."""
        listed = list(values)
        return In(self.name, values=tuple(v for v in listed if v is not None), has_null=None in listed)

    def is_null(self) -> Predicate:
        """Return `column is null`; negate it with `~`."""
        return IsNull(self.name)

    def is_nan(self) -> Predicate:
        """Return `isnan(column)`, for float and double columns."""
        return IsNaN(self.name)

    def starts_with(self, prefix: str) -> Predicate:
        """Return whether the string starts with `prefix`, taken literally."""
        return starts_with(self.name, prefix)

    def like(self, pattern: str) -> Predicate:
        """Return `column like pattern`: % matches any text, _ one character, a backslash escapes them."""
        return Like(self.name, pattern=pattern)

    def ilike(self, pattern: str) -> Predicate:
        """Return `column ilike pattern`: `like` ignoring case."""
        return Like(self.name, pattern=pattern, ignore_case=True)


def col(name: str) -> Column:
    """Return a column for use in filters.

    Args:
        name: A column, or a member of a struct (`address.city`). Names with dots are quoted: "`a.b`".

    Returns:
        An object whose comparisons are predicates.

    Example:
        >>> scan.where((lakescan.col("price") > 20) & ~lakescan.col("note").is_null())
    """
    return Column(name)
