"""Trees of conditions in the form that is understood here: that of `parse_expression`, where calls keep their names."""

from __future__ import annotations

from typing import Any

from lakescan.errors import LakescanError
from lakescan.expressions.scalar.parse import parse_expression

# Calls that sqlglot's own dialect reads as other nodes, and writes as they were. Others might be written otherwise.
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

# Arguments that a node may have besides operands. Another could change its meaning, as `negate` once did.
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
    """Return the tree of a condition's text; None if it does not parse."""
    try:
        return parse_expression(text)
    except LakescanError:
        return None


def plain_tree(node: Any) -> Any | None:
    """Return the tree of a condition in this form; None if it has calls for which there is none."""
    from sqlglot import exp

    names = {type(each).__name__ for each in node.find_all(exp.Func)} - _AS_WRITTEN
    if not names:
        return node
    return parse_condition(node.sql(dialect="spark")) if names <= _REWRITTEN else None


def is_known(node: Any) -> bool:
    """Whether all arguments of a node are understood."""
    given = {key for key, value in node.args.items() if value not in (None, False, [])}
    return given <= _OPERANDS | _ARGUMENTS.get(type(node).__name__, set())


def is_condition(node: Any) -> bool:
    """Return whether an operand is a condition without parentheses, which Spark may group in another way."""
    from sqlglot import exp

    return isinstance(node, exp.Not | exp.Predicate | exp.Escape | exp.Connector | exp.RegexpLike)
