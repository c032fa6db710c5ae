"""Filters written in Python: `col("price") > 20` says what the SQL text `price > 20` says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from lakescan.errors import InvalidFilter, NoTruthValue
from lakescan.expressions.predicate import Comparison, In, IsNaN, IsNull, Like, Predicate, starts_with


class Column:
    """A column by its dotted path (`` a.`b.c` ``); comparing it with a literal gives a predicate.

    Predicates are joined by `&`, `|` and `~`, which bind tighter than comparisons: write parentheses.
    """

    __hash__ = None  # type: ignore[assignment]  # equality makes a predicate

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"col({self.name!r})"

    def __bool__(self) -> NoReturn:
        raise NoTruthValue(
            f"{self!r} has no truth value: compare it with a literal, `{self!r} == True`; filters are joined by "
            "`&`, `|` and `~`"
        )

    def __contains__(self, value: object) -> NoReturn:
        raise NoTruthValue(
            f"`{value!r} in {self!r}` says nothing: write {self!r}.is_in([...]) or {self!r}.like('%...%')"
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
        """At least `low` and at most `high`."""
        return (self >= low) & (self <= high)

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """Equal to one of the values; a null among them is SQL's."""
        listed = list(values)
        return In(self.name, values=tuple(v for v in listed if v is not None), has_null=None in listed)

    def is_null(self) -> Predicate:
        """Null. `~` of it: not null."""
        return IsNull(self.name)

    def is_nan(self) -> Predicate:
        """Not a number, for float and double columns."""
        return IsNaN(self.name)

    def starts_with(self, prefix: str) -> Predicate:
        """Text with that prefix."""
        return starts_with(self.name, prefix)

    def like(self, pattern: str) -> Predicate:
        """Text that matches an SQL pattern: % is any text, _ one character, a backslash escapes them."""
        return Like(self.name, pattern=pattern)

    def ilike(self, pattern: str) -> Predicate:
        """`like` without regard to case."""
        return Like(self.name, pattern=pattern, ignore_case=True)


def col(name: str) -> Column:
    """The column of that name, to compare: `scan.where((col("price") > 20) & ~col("note").is_null())`."""
    return Column(name)
