"""The context for interpreting conditions (columns, time zone and current time), and helpers for sqlglot nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import Schema
from lakescan.errors import LakescanError, NoSuchColumn
from lakescan.expressions.inference.time_zones import Zone
from lakescan.expressions.predicate import IsNull, Predicate, conjunction
from lakescan.expressions.scalar.parse import names_of, parse_expression
from lakescan.expressions.scalar.translate import type_of


@dataclass(frozen=True)
class InferenceContext:
    """The meaning of names and times in a condition.

    - `schema`, `case_sensitive`: the columns, and whether their names match case-sensitively.
    - `zone`: the session time zone; None if unknown.
    - `now`: the current time in UTC, without a zone; None if unknown.
    - `now_is_exact`: whether the engine evaluates the condition with exactly `now`. Otherwise its time may be later.
    - `ansi`: whether `spark.sql.ansi.enabled` is on, so that overflows are errors.
    """

    schema: Schema
    zone: Zone | None
    case_sensitive: bool
    now: datetime | None
    now_is_exact: bool
    ansi: bool

    @property
    def is_utc(self) -> bool:
        """Whether the session time zone is known to be UTC."""
        return self.zone is not None and self.zone.is_utc

    def path_of(self, path: tuple[str, ...]) -> str | None:
        """Join the names of a column or struct member by dots, in backquotes where needed (see `dotted_path`).

        None if the schema has no such field, or if it is inside a list or map.
        """
        found = self._find_field(path)
        return None if found is None else dotted_path(path)

    def _find_field(self, path: tuple[str, ...]) -> t.Field | None:
        try:
            field = self.schema.field(dotted_path(path), case_sensitive=self.case_sensitive)
        except NoSuchColumn:
            return None
        return field if self.schema.struct_path(field.id)[-1] is field else None

    def field_of(self, node: Any) -> t.Field | None:
        """Return the field that a column node refers to; None for other nodes, and where `path_of` returns None."""
        path = names_of(node)
        return None if path is None else self._find_field(path)


def call_of(node: Any) -> tuple[str, list[Any]] | None:
    """Return the lower-case name and the arguments of a function call node; None for other nodes.

    EXTRACT is a call of its unit with one argument.
    """
    from sqlglot import exp

    match node:
        case exp.Anonymous():
            return str(node.this).lower(), list(node.expressions)
        case exp.Substring():
            size = node.args.get("length")
            return "substring", [node.this, node.args["start"], *([] if size is None else [size])]
        case exp.Extract():
            return node.this.name.lower(), [node.expression]
    return None


def type_of_cast(node: Any) -> t.Type | None:
    """Return the target type of a CAST node; None for types that lakescan does not evaluate."""
    try:
        return type_of(node.args["to"])
    except LakescanError:
        return None


# Calls that sqlglot parses to special nodes and writes back as the same calls. Other calls might change.
_REWRITTEN = frozenset(
    (
        *("Abs", "Coalesce", "Concat", "Contains", "CurrentDate", "CurrentTimestamp", "DateTrunc", "EndsWith"),
        *("EqualNull", "IsNan", "Left", "Length", "Lower", "StartsWith", "TimestampTrunc", "TsOrDsToDate"),
        *("UnixMicros", "UnixMillis", "UnixSeconds", "Upper", "Year"),
    )
)
_AS_WRITTEN = frozenset(
    ("And", "Anonymous", "Case", "Cast", "Extract", "If", "Or", "RegexpLike", "Substring", "Trim", "TryCast")
)

# Arguments that a node may have besides operands. Any other could change its meaning, as `negate` once did.
_OPERANDS = {"this", "expression", "expressions", "negate"}
_ARGUMENTS = {
    "Between": {"low", "high"},
    "Case": {"ifs", "default"},
    "Cast": {"to"},
    "Column": {"table", "db", "catalog"},
    "DPipe": {"safe"},
    "Div": {"typed", "safe"},
    "If": {"true", "false"},
    "In": {"query"},
    "Interval": {"unit"},
    "Literal": {"is_string"},
    "Substring": {"start", "length"},
    "TryCast": {"to", "safe"},
}


def parse_condition(text: str) -> Any | None:
    """Parse the text of a condition to a tree; None if it does not parse."""
    try:
        return parse_expression(text)
    except LakescanError:
        return None


def plain_tree(node: Any) -> Any | None:
    """Return a condition's tree as `parse_expression` builds it, where function calls are `Anonymous` nodes.

    A tree from another parser is written as text and parsed again. None if it has a call that this might change.
    """
    from sqlglot import exp

    names = {type(each).__name__ for each in node.find_all(exp.Func)} - _AS_WRITTEN
    if not names:
        return node
    return parse_condition(node.sql(dialect="spark")) if names <= _REWRITTEN else None


def is_known(node: Any) -> bool:
    """Return whether a sqlglot node has only arguments whose meaning is known here; others might change its meaning."""
    given = {key for key, value in node.args.items() if value not in (None, False, [])}
    return given <= _OPERANDS | _ARGUMENTS.get(type(node).__name__, set())


def is_condition(node: Any) -> bool:
    """Return whether an operand is a condition (NOT, a comparison, LIKE, ...) without parentheses.

    Spark and sqlglot may group such an operand differently.
    """
    from sqlglot import exp

    return isinstance(node, exp.Not | exp.Predicate | exp.Escape | exp.Connector | exp.RegexpLike)


_STRICT_NODES = ("Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "DPipe", "Neg", "Paren", "Cast", "TryCast", "RegexpLike")
_STRICT_CALLS = frozenset(
    (
        *("abs", "add_months", "array_contains", "bigint", "ceil", "ceiling", "char_length", "character_length"),
        *("concat", "contains", "date", "date_add", "date_diff", "date_format", "date_sub", "date_trunc"),
        *("datediff", "day", "dayofmonth", "dayofweek", "dayofyear", "double", "element_at", "endswith", "floor"),
        *("hour", "int", "last_day", "lcase", "left", "len", "length", "lower", "ltrim", "minute", "mod", "month"),
        *("negative", "pmod", "positive", "quarter", "round", "rtrim", "second", "smallint", "startswith", "string"),
        "substr",
        *("substring", "timestamp", "tinyint", "to_date", "to_timestamp", "trim", "trunc", "ucase", "unix_date"),
        *("unix_micros", "unix_millis", "unix_seconds", "upper", "weekday", "weekofyear", "year"),
    )
)
_WITH_UNIT = ("date_add", "date_diff", "datediff")  # the first of three arguments may be a unit


def infer_not_null(nodes: Sequence[Any], context: InferenceContext) -> Predicate:
    """Return the predicate that those columns are not null whose null makes one of the expressions `nodes` null.

    It is `TRUE` without such columns. Only operators and functions that return null for a null argument are followed.
    """
    paths = dict.fromkeys(path for each in nodes for path in _paths(each, context))
    return conjunction([IsNull(path, negate=True) for path in paths])


def _paths(node: Any, context: InferenceContext) -> Iterator[str]:
    from sqlglot import exp

    if (names := names_of(node)) is not None:
        path = context.path_of(names)
        if path is not None:
            yield path
        return
    call = call_of(node)
    if call is not None:
        first = 1 if call[0] in _WITH_UNIT and len(call[1]) == 3 else 0
        operands = call[1][first:] if call[0] in _STRICT_CALLS else []
    elif type(node).__name__ in _STRICT_NODES:
        operands = [each for each in (node.this, node.args.get("expression")) if isinstance(each, exp.Expression)]
    else:
        operands = [node.this] if isinstance(node, exp.Bracket) else []
    for each in operands:
        yield from _paths(each, context)
