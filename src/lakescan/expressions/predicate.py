"""The predicate tree: comparisons of one column with literals, joined by and, or and not.

Semantics are SQL's, as in Spark and DuckDB: a comparison with null is null and keeps no row; NaN equals NaN and is
greater than every other number; -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from typing import Any, NoReturn

import pyarrow as pa

from lakescan.errors import NoTruthValue
from lakescan.expressions.instants import plain_value
from lakescan.expressions.like import ANY, escaped, parts

_LONG_CHAIN = 64


@dataclass(frozen=True)
class Predicate:
    """The parent of all predicates. `&`, `|` and `~` combine them; `and`, `or`, `not` and `if` raise `NoTruthValue`.

    `==` between two predicates says whether they are the same text of a filter; it does not make another one.
    """

    def __bool__(self) -> NoReturn:
        raise NoTruthValue(
            f"the filter {self} has no truth value: it is true or false of each row. Write `(a) & (b)` for `a and b`, "
            "`(a) | (b)` for `a or b`, `~(a)` for `not a`, `col(...).between(1, 3)` for `1 <= col(...) <= 3`, "
            "`col(...).is_in([...])` for `col(...) in [...]`"
        )

    def __and__(self, other: Predicate) -> Predicate:
        return conjunction([self, other])

    def __or__(self, other: Predicate) -> Predicate:
        return disjunction([self, other])

    def __invert__(self) -> Predicate:
        return negated(self)


@dataclass(frozen=True)
class Constant(Predicate):
    """Every row, or none; None is SQL's unknown (`a = null`), which keeps no row, and nor does its negation."""

    value: bool | None

    def __str__(self) -> str:
        return "null" if self.value is None else str(self.value).lower()


TRUE, FALSE, UNKNOWN = Constant(True), Constant(False), Constant(None)


@dataclass(frozen=True)
class And(Predicate):
    """Both sides."""

    left: Predicate
    right: Predicate

    def __str__(self) -> str:
        return f"({self.left} and {self.right})"


@dataclass(frozen=True)
class Or(Predicate):
    """Either side."""

    left: Predicate
    right: Predicate

    def __str__(self) -> str:
        return f"({self.left} or {self.right})"


@dataclass(frozen=True)
class Leaf(Predicate):
    """A test of one column. `column` is its dotted path (`Schema.field`); binding fills in `field_id`."""

    column: str
    field_id: int | None = None

    @property
    def bound_id(self) -> int:
        """The field id of a bound test."""
        if self.field_id is None:
            raise ValueError(f"{self.column!r} is not bound to a schema")
        return self.field_id


@dataclass(frozen=True)
class Comparison(Leaf):
    """`column op value`, where op is one of < <= > >= = !=."""

    op: str = "="
    value: Any = None

    def __str__(self) -> str:
        return f"{self.column} {self.op} {_literal(self.value)}"


@dataclass(frozen=True)
class In(Leaf):
    """`column in (values)`, or `not in` with `negate`.

    `has_null` says that the list has a null in it too: `in` keeps the same rows without it, and `not in` keeps none.
    """

    values: tuple[Any, ...] = ()
    negate: bool = False
    has_null: bool = False

    def __str__(self) -> str:
        shown = ", ".join(_literal(v) for v in self.values[:20]) + (", ..." if len(self.values) > 20 else "")
        return f"{self.column} {'not in' if self.negate else 'in'} ({shown})"


@dataclass(frozen=True)
class IsNull(Leaf):
    """`column is null`, or `is not null` with `negate`."""

    negate: bool = False

    def __str__(self) -> str:
        return f"{self.column} is {'not ' if self.negate else ''}null"


@dataclass(frozen=True)
class IsNaN(Leaf):
    """`isnan(column)`, or its negation; false, not null, where the column is null, as in Spark."""

    negate: bool = False

    def __str__(self) -> str:
        return f"{'not ' if self.negate else ''}isnan({self.column})"


@dataclass(frozen=True)
class Like(Leaf):
    """`column like pattern` (% and _, escaped by a backslash), or `not like` with `negate`.

    `ilike` with `ignore_case`. Raises `InvalidFilter` for a pattern that ends with a backslash.
    """

    pattern: str = ""
    negate: bool = False
    ignore_case: bool = False

    def __post_init__(self) -> None:
        parts(self.pattern)

    def __str__(self) -> str:
        word = "ilike" if self.ignore_case else "like"
        return f"{self.column} {'not ' if self.negate else ''}{word} {_literal(self.pattern)}"

    @property
    def prefix(self) -> str:
        """The literal text that every match starts with."""
        pieces = () if self.ignore_case else parts(self.pattern)
        return pieces[0].text if pieces and not pieces[0].is_wildcard else ""

    @property
    def is_prefix_match(self) -> bool:
        """Whether the pattern is only a prefix followed by %: every value with that prefix matches."""
        if self.ignore_case:
            return False
        pieces = parts(self.pattern)
        return pieces[-1:] == (ANY,) and not any(part.is_wildcard for part in pieces[:-1])


def starts_with(column: str, prefix: str, *, negate: bool = False) -> Like:
    """`column like 'prefix%'`, with the prefix taken literally."""
    return Like(column, pattern=escaped(prefix) + "%", negate=negate)


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def mirrored(op: str) -> str:
    """The operator that says the same with its sides exchanged."""
    return _MIRRORED[op]


def negated(predicate: Predicate) -> Predicate:
    """`not predicate`, pushed down to the leaves: under three-valued logic it keeps the same rows."""
    match predicate:
        case Constant(value):
            return Constant(None if value is None else not value)
        case And(left, right):
            return Or(negated(left), negated(right))
        case Or(left, right):
            return And(negated(left), negated(right))
        case Comparison(column, field_id, op, value):
            return Comparison(column, field_id, _OPPOSITE[op], value)
        case In() | IsNull() | IsNaN() | Like():
            return replace(predicate, negate=not predicate.negate)
    raise TypeError(f"cannot negate {predicate!r}")


def conjunction(parts: list[Predicate]) -> Predicate:
    """All of them, true left out; `TRUE` for none."""
    if FALSE in parts:
        return FALSE
    return _joined([part for part in parts if part != TRUE], And, TRUE)


def disjunction(parts: list[Predicate]) -> Predicate:
    """Any of them, false left out; `FALSE` for none."""
    if TRUE in parts:
        return TRUE
    return _joined([part for part in parts if part != FALSE], Or, FALSE)


def operands(predicate: And | Or) -> list[Predicate]:
    """What a chain of `and`, or of `or`, is made of, in order: however long it is."""
    found: list[Predicate] = []
    left: list[Predicate] = [predicate]
    while left:
        each = left.pop()
        if isinstance(each, And | Or) and type(each) is type(predicate):
            left += [each.right, each.left]
        else:
            found.append(each)
    return found


def _joined(parts: list[Predicate], kind: type[And] | type[Or], none: Predicate) -> Predicate:
    """One by one; long lists by halves, so that trees stay so shallow that they can be walked."""
    if len(parts) > _LONG_CHAIN:
        half = len(parts) // 2
        return kind(_joined(parts[:half], kind, none), _joined(parts[half:], kind, none))
    return reduce(kind, parts) if parts else none


def conjuncts(predicate: Predicate) -> list[Predicate]:
    """The parts that a predicate requires all of, in order; none for `TRUE`."""
    if isinstance(predicate, And):
        return conjuncts(predicate.left) + conjuncts(predicate.right)
    return [] if predicate == TRUE else [predicate]


def leaves(predicate: Predicate) -> Iterator[Leaf]:
    """Every column test in the tree."""
    if isinstance(predicate, And | Or):
        yield from leaves(predicate.left)
        yield from leaves(predicate.right)
    elif isinstance(predicate, Leaf):
        yield predicate


def _literal(value: Any) -> str:
    if isinstance(value, pa.Scalar):  # in a bound predicate
        value = plain_value(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return "'" + str(value).replace("'", "''") + "'"
