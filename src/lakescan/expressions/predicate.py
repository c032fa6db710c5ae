"""The predicate tree: tests of single columns against literals and SQL conditions, combined by and, or and not.

Semantics are SQL's, as in Spark and DuckDB: a comparison with null is null and keeps no row, NaN equals NaN and is
greater than every other number, and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from lakescan.errors import NoTruthValue
from lakescan.expressions.like import ANY, escape_pattern, split_pattern
from lakescan.expressions.literals import plain_value

if TYPE_CHECKING:
    from lakescan.expressions.scalar.expression import ScalarExpression

_LONG_CHAIN = 64


@dataclass(frozen=True)
class Predicate:
    """Base class of predicates. Combine them with `&`, `|`, `~`; `and`, `or`, `not` and `if` raise `NoTruthValue`.

    `==` between two predicates compares their structure and returns a bool, not a predicate.
    """

    def __bool__(self) -> NoReturn:
        raise NoTruthValue(
            f"the filter {self} has no truth value: it is evaluated per row. Write `(a) & (b)` for `a and b`, "
            "`(a) | (b)` for `a or b`, `~(a)` for `not a`, `col(...).between(1, 3)` for `1 <= col(...) <= 3`, "
            "`col(...).is_in([...])` for `col(...) in [...]`"
        )

    def __and__(self, other: Predicate) -> Predicate:
        return conjunction([self, other])

    def __or__(self, other: Predicate) -> Predicate:
        return disjunction([self, other])

    def __invert__(self) -> Predicate:
        return negation(self)


@dataclass(frozen=True)
class Constant(Predicate):
    """A predicate that is true, false, or SQL's unknown (None, as for `a = null`) for every row.

    Neither unknown nor its negation keeps a row.
    """

    value: bool | None

    def __str__(self) -> str:
        return "null" if self.value is None else str(self.value).lower()


TRUE, FALSE, UNKNOWN = Constant(True), Constant(False), Constant(None)


@dataclass(frozen=True)
class And(Predicate):
    """`left and right`."""

    left: Predicate
    right: Predicate

    def __str__(self) -> str:
        return f"({self.left} and {self.right})"


@dataclass(frozen=True)
class Or(Predicate):
    """`left or right`."""

    left: Predicate
    right: Predicate

    def __str__(self) -> str:
        return f"({self.left} or {self.right})"


@dataclass(frozen=True)
class ColumnTest(Predicate):
    """A test of one column against literals.

    - `column`: the column's dotted path (see `Schema.field`).
    - `field_id`: the column's field id; None until binding sets it.
    """

    column: str
    field_id: int | None = None

    @property
    def bound_id(self) -> int:
        """The field id; raises `ValueError` if the test is not bound."""
        if self.field_id is None:
            raise ValueError(f"{self.column!r} is not bound to a schema")
        return self.field_id


class ExactText(str):
    """A text literal that is compared with CHAR(n) values including their padding, as Spark does in BETWEEN."""

    __slots__ = ()


@dataclass(frozen=True)
class Comparison(ColumnTest):
    """`column op value`, where `op` is one of < <= > >= = !=."""

    op: str = "="
    value: Any = None

    def __str__(self) -> str:
        return f"{self.column} {self.op} {_literal(self.value)}"


@dataclass(frozen=True)
class In(ColumnTest):
    """`column in (values)`, or `not in` with `negate`.

    `has_null` means that the list also contains null. Then `in` keeps the same rows, and `not in` keeps no rows.
    """

    values: tuple[Any, ...] = ()
    negate: bool = False
    has_null: bool = False

    def __str__(self) -> str:
        shown = ", ".join(_literal(v) for v in self.values[:20]) + (", ..." if len(self.values) > 20 else "")
        return f"{self.column} {'not in' if self.negate else 'in'} ({shown})"


@dataclass(frozen=True)
class IsNull(ColumnTest):
    """`column is null`, or `is not null` with `negate`."""

    negate: bool = False

    def __str__(self) -> str:
        return f"{self.column} is {'not ' if self.negate else ''}null"


@dataclass(frozen=True)
class IsNaN(ColumnTest):
    """`isnan(column)`, or its negation with `negate`. As in Spark, `isnan` of null is false, not null."""

    negate: bool = False

    def __str__(self) -> str:
        return f"{'not ' if self.negate else ''}isnan({self.column})"


@dataclass(frozen=True)
class Like(ColumnTest):
    """`column like pattern`, or `not like` with `negate`, or `ilike` with `ignore_case`.

    In the pattern, % and _ are wildcards, and a backslash escapes them. Raises `InvalidFilter` for a pattern that ends
    with an unescaped backslash.
    """

    pattern: str = ""
    negate: bool = False
    ignore_case: bool = False

    def __post_init__(self) -> None:
        split_pattern(self.pattern)

    def __str__(self) -> str:
        word = "ilike" if self.ignore_case else "like"
        return f"{self.column} {'not ' if self.negate else ''}{word} {_literal(self.pattern)}"

    @property
    def prefix(self) -> str:
        """The literal text before the first wildcard, which all matches begin with.

        It is empty if the pattern begins with a wildcard or case is ignored.
        """
        pieces = () if self.ignore_case else split_pattern(self.pattern)
        return pieces[0].text if pieces and not pieces[0].is_wildcard else ""

    @property
    def is_prefix_match(self) -> bool:
        """Whether the pattern is a literal followed by %, so that it matches exactly the strings with that prefix."""
        if self.ignore_case:
            return False
        pieces = split_pattern(self.pattern)
        return pieces[-1:] == (ANY,) and not any(part.is_wildcard for part in pieces[:-1])


@dataclass(frozen=True)
class ColumnComparison(Predicate):
    """`column op other` for two columns, which are both integers or have the same decimal, date or timestamp type.

    - `op`: one of < <= > >= = !=.
    - `ids`: the field ids of both columns; None until binding sets them.
    """

    column: str
    op: str
    other: str
    ids: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"{self.column} {self.op} {self.other}"

    @property
    def bound_ids(self) -> tuple[int, int]:
        """The field ids of both columns; raises `ValueError` if the comparison is not bound."""
        if self.ids is None:
            raise ValueError(f"{self} is not bound to a schema")
        return self.ids


@dataclass(frozen=True)
class SqlCondition(Predicate):
    """A condition in Spark SQL that is more than tests of single columns, so that it is evaluated on rows.

    - `text`: the SQL text.
    - `now`: the value of `current_timestamp()`, wherever and whenever lakescan evaluates the condition.
    - `implied`: a predicate, used to prune files, that is satisfied by every row that satisfies the condition. Set by
      binding.
    - `expression`: the condition over the columns of a schema. Set by binding.
    """

    text: str
    now: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False, repr=False)
    implied: Predicate = TRUE
    expression: ScalarExpression | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def bound_expression(self) -> ScalarExpression:
        """The condition over the columns of a schema; raises `ValueError` if it is not bound."""
        if self.expression is None:
            raise ValueError(f"{self.text!r} is not bound to a schema")
        return self.expression


def starts_with(column: str, prefix: str, *, negate: bool = False) -> Like:
    """Return `column like 'prefix%'`, or `not like` with `negate`; wildcards in the prefix are escaped."""
    return Like(column, pattern=escape_pattern(prefix) + "%", negate=negate)


_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "=": "!=", "!=": "="}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}


def mirror_operator(op: str) -> str:
    """Return the operator for exchanged operands: < for >, <= for >=, and = and != for themselves."""
    return _MIRRORED[op]


def opposite_operator(op: str) -> str:
    """Return the operator that is true where `op` is false: >= for <, != for =, and so on."""
    return _OPPOSITE[op]


def negation(predicate: Predicate) -> Predicate:
    """Return `not predicate`, with the negation moved into the leaves. It is null where the predicate is null."""
    match predicate:
        case Constant(value):
            return Constant(None if value is None else not value)
        case And(left, right):
            return Or(negation(left), negation(right))
        case Or(left, right):
            return And(negation(left), negation(right))
        case Comparison(column, field_id, op, value):
            return Comparison(column, field_id, _OPPOSITE[op], value)
        case In() | IsNull() | IsNaN() | Like():
            return replace(predicate, negate=not predicate.negate)
        case ColumnComparison():
            return replace(predicate, op=_OPPOSITE[predicate.op])
        case SqlCondition(text, now):
            return SqlCondition(f"not ({text})", now)
    raise TypeError(f"cannot negate {predicate!r}")


def conjunction(parts: list[Predicate]) -> Predicate:
    """Combine predicates with `and`, without those that are `TRUE`.

    Returns `FALSE` if one of them is `FALSE`, and `TRUE` for an empty list.
    """
    if FALSE in parts:
        return FALSE
    return _join_tree([part for part in parts if part != TRUE], And, TRUE)


def disjunction(parts: list[Predicate]) -> Predicate:
    """Combine predicates with `or`, without those that are `FALSE`.

    Returns `TRUE` if one of them is `TRUE`, and `FALSE` for an empty list.
    """
    if TRUE in parts:
        return TRUE
    return _join_tree([part for part in parts if part != FALSE], Or, FALSE)


def operands(predicate: And | Or) -> list[Predicate]:
    """Return the operands of a chain of `and` (or of `or`) as a flat list, in order.

    It is not recursive, because chains may be long.
    """
    result: list[Predicate] = []
    pending: list[Predicate] = [predicate]
    while pending:
        each = pending.pop()
        if isinstance(each, And | Or) and type(each) is type(predicate):
            pending += [each.right, each.left]
        else:
            result.append(each)
    return result


def _join_tree(parts: list[Predicate], kind: type[And] | type[Or], none: Predicate) -> Predicate:
    """Join predicates by `kind` into a tree; return `none` for an empty list.

    The tree of few predicates leans to the left. That of many is balanced, so that recursion over it is not too deep.
    """
    if len(parts) > _LONG_CHAIN:
        half = len(parts) // 2
        return kind(_join_tree(parts[:half], kind, none), _join_tree(parts[half:], kind, none))
    return reduce(kind, parts) if parts else none


def conjuncts(predicate: Predicate) -> list[Predicate]:
    """Split a predicate into its top-level conjuncts, in order; empty for `TRUE`."""
    if isinstance(predicate, And):
        return conjuncts(predicate.left) + conjuncts(predicate.right)
    return [] if predicate == TRUE else [predicate]


def leaves(predicate: Predicate) -> Iterator[ColumnTest]:
    """Yield every column test in the tree.

    For an SQL condition, yield the tests in its `implied` predicate. For a comparison of columns, yield that each is
    not null.
    """
    if isinstance(predicate, And | Or):
        yield from leaves(predicate.left)
        yield from leaves(predicate.right)
    elif isinstance(predicate, SqlCondition):
        yield from leaves(predicate.implied)
    elif isinstance(predicate, ColumnComparison):
        ids = predicate.ids or (None, None)
        yield from (
            IsNull(name, each, negate=True) for name, each in zip((predicate.column, predicate.other), ids, strict=True)
        )
    elif isinstance(predicate, ColumnTest):
        yield predicate


def has_sql(predicate: Predicate) -> bool:
    """Return whether the tree contains SQL conditions."""
    if isinstance(predicate, And | Or):
        return has_sql(predicate.left) or has_sql(predicate.right)
    return isinstance(predicate, SqlCondition)


def replace_sql(
    predicate: Predicate, implied: Callable[[SqlCondition], Predicate] = lambda each: each.implied
) -> Predicate:
    """Replace each SQL condition by the predicate that `implied` returns for it, by default its own `implied`.

    If every row that satisfies a condition also satisfies its replacement, the same holds for the whole predicate.
    """
    match predicate:
        case And() | Or() if has_sql(predicate):
            parts = [replace_sql(part, implied) for part in operands(predicate)]
            return conjunction(parts) if isinstance(predicate, And) else disjunction(parts)
        case SqlCondition():
            return implied(predicate)
    return predicate


def predicate_fields(predicate: Predicate) -> set[int]:
    """Return the ids of the fields that a bound predicate reads; raises `ValueError` if it is not bound."""
    match predicate:
        case And(left, right) | Or(left, right):
            return predicate_fields(left) | predicate_fields(right)
        case SqlCondition():
            return set(predicate.bound_expression.columns)
        case ColumnComparison():
            return set(predicate.bound_ids)
        case ColumnTest():
            return {predicate.bound_id}
    return set()


def _literal(value: Any) -> str:
    if isinstance(value, pa.Scalar):  # the predicate is bound
        value = plain_value(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return "'" + str(value).replace("'", "''") + "'"
