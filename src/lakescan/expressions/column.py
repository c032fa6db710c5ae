"""Filters written in Python: `col("price") > 20` is equivalent to the SQL text `price > 20`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from lakescan.common.references import parse_reference
from lakescan.errors import InvalidFilter, NoSuchMethod, NoTruthValue, nearest
from lakescan.expressions.like import escape_pattern
from lakescan.expressions.predicate import Comparison, In, IsNaN, IsNull, Like, Predicate, starts_with

__all__ = ["Column", "col", "parse_reference"]


class Column:
    """A column by its dotted path (`` a.`b.c` ``). Comparing it with a literal returns a predicate.

    Combine predicates with `&`, `|` and `~`. These bind tighter than comparisons, so use parentheses. Methods also have
    the names of PySpark and Polars: `isin`, `isNull`, `startswith`, `is_between`, ...

    Example:
        >>> (lakescan.col("price") > 20) & lakescan.col("country").is_in("FR", "DE")
    """

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # `==` returns a predicate

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

    def _compare(self, op: str, value: Any) -> Predicate:
        if value is None or isinstance(value, Column):
            raise InvalidFilter(f"{self!r} {op} {value!r}: compare a column with a literal, or use is_null()")
        return Comparison(self.name, op=op, value=value)

    def __eq__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._compare("=", value)

    def __ne__(self, value: object) -> Predicate:  # type: ignore[override]
        return self._compare("!=", value)

    def __lt__(self, value: Any) -> Predicate:
        return self._compare("<", value)

    def __le__(self, value: Any) -> Predicate:
        return self._compare("<=", value)

    def __gt__(self, value: Any) -> Predicate:
        return self._compare(">", value)

    def __ge__(self, value: Any) -> Predicate:
        return self._compare(">=", value)

    def between(self, low: Any, high: Any) -> Predicate:
        """Return `low <= column and column <= high`, for literals `low` and `high`.

        Example:
            >>> lakescan.col("price").between(10, 20)
        """
        return (self >= low) & (self <= high)

    def is_in(self, *values: Any) -> Predicate:
        """Return `column in (values)`, where `values` are several arguments or one collection.

        None in the list is SQL's null, and then the negation keeps no rows. An empty list keeps no rows, and its
        negation keeps all rows.

        Example:
            >>> lakescan.col("id").is_in(1, 2)
            >>> ~lakescan.col("id").is_in([1, 2])
        """
        listed = _python_values(values[0]) if len(values) == 1 and _is_collection(values[0]) else list(values)
        return In(self.name, values=tuple(v for v in listed if v is not None), has_null=None in listed)

    def is_null(self) -> Predicate:
        """Return `column is null`; negate it with `~`."""
        return IsNull(self.name)

    def is_not_null(self) -> Predicate:
        """Return `column is not null`."""
        return IsNull(self.name, negate=True)

    def eq_null_safe(self, value: Any) -> Predicate:
        """Return `column <=> value`: like `=`, but null equals null, and the result is never null.

        Args:
            value: A value of the column's type, or None for null.

        Example:
            >>> lakescan.col("note").eq_null_safe(None)
        """
        return self.is_null() if value is None else self.is_not_null() & (self == value)

    def is_nan(self) -> Predicate:
        """Return `isnan(column)`, for float and double columns."""
        return IsNaN(self.name)

    def starts_with(self, prefix: str) -> Predicate:
        """Return the predicate that the string starts with `prefix`, taken literally.

        Example:
            >>> lakescan.col("name").starts_with("10%")
        """
        return starts_with(self.name, prefix)

    def ends_with(self, suffix: str) -> Predicate:
        """Return the predicate that the string ends with `suffix`, taken literally.

        Example:
            >>> lakescan.col("name").ends_with(".csv")
        """
        return Like(self.name, pattern="%" + escape_pattern(suffix))

    def contains(self, text: str) -> Predicate:
        """Return the predicate that the string contains `text`, taken literally.

        Example:
            >>> lakescan.col("name").contains("_x_")
        """
        return Like(self.name, pattern="%" + escape_pattern(text) + "%")

    def like(self, pattern: str) -> Predicate:
        """Return `column like pattern`.

        Args:
            pattern: `%` matches any text and `_` one character. A backslash escapes them.

        Example:
            >>> lakescan.col("name").like("a%")
        """
        return Like(self.name, pattern=pattern)

    def ilike(self, pattern: str) -> Predicate:
        """Return `column ilike pattern`, which ignores case.

        Args:
            pattern: A pattern as for `like`.

        Example:
            >>> lakescan.col("name").ilike("A%")
        """
        return Like(self.name, pattern=pattern, ignore_case=True)

    # The names of PySpark and Polars:
    isin = is_in
    is_between = between
    eqNullSafe = eq_null_safe
    eq_missing = eq_null_safe
    isNull = is_null
    isNotNull = is_not_null
    isNaN = is_nan
    startswith = starts_with
    endswith = ends_with

    if not TYPE_CHECKING:  # otherwise type checkers would accept any method

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [each for each in dir(Column) if not each.startswith("_")]
            raise NoSuchMethod(f"columns have no {name!r}.{nearest(name, known)} Filters have: {', '.join(known)}")


def _is_collection(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray)


def _python_values(values: Iterable[Any]) -> list[Any]:
    """Convert a collection to a list of Python values; Arrow, NumPy and pandas have a method for this."""
    convert = getattr(values, "to_pylist", None) or getattr(values, "tolist", None)
    return list(values if convert is None else convert())


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
