"""Columns without which an expression is null: an operand of most operators and functions must not be null."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lakescan.expressions.implied.context import InferenceContext, call_of
from lakescan.expressions.predicate import IsNull, Predicate, conjunction
from lakescan.expressions.scalar.parse import names_of

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
_WITH_UNIT = ("date_add", "date_diff", "datediff")  # of three arguments, the first may be a unit and no column


def infer_not_null(nodes: Sequence[Any], context: InferenceContext) -> Predicate:
    """Return that the columns are not null without which one of the expressions is null."""
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
