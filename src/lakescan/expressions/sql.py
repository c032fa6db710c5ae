"""Filters as SQL text: the condition of a WHERE clause in Spark's dialect, parsed by sqlglot.

Tests of one column against literals become predicates that planning understands. Where AND, OR and NOT combine them
with other conditions, each other condition becomes an `SqlCondition`.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from lakescan.common.references import dotted_path
from lakescan.errors import InvalidFilter, missing_dependency
from lakescan.expressions.like import join_pattern, split_pattern
from lakescan.expressions.literals import UnknownCast, cast_constant
from lakescan.expressions.predicate import (
    UNKNOWN,
    Comparison,
    Constant,
    ExactText,
    In,
    IsNaN,
    IsNull,
    Like,
    Predicate,
    conjunction,
    disjunction,
    mirror_operator,
    negation,
    starts_with,
)
from lakescan.expressions.scalar.parse import escape_doubled_quotes, names_of, tokens_of
from lakescan.expressions.sql_condition import sql_condition

_COMPARISONS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=", "NullSafeEQ": "="}


class NotColumnTests(InvalidFilter):
    """Raised for a condition that is not a combination of tests of single columns against literals."""


def parse_filter(text: str) -> Predicate:
    """Parse SQL text such as `ts >= '2026-01-01' and year(born) % 4 = 0` into a predicate.

    Raises `InvalidFilter` for text that does not parse or is nested too deeply, or that contains a subquery, an
    aggregate, a window function or a nondeterministic function. Columns and functions are not looked up; binding does
    that.
    """
    try:
        return _parse_operands(text)
    except RecursionError:
        raise _too_deep(text) from None


def _parse_operands(text: str, *, negate: bool = False) -> Predicate:
    """Parse a condition or, with `negate`, its negation, as `parse_filter` does; too deep nesting is `RecursionError`.

    A text that is not only column tests is split at AND, OR and NOT, and each operand is parsed by itself.
    """
    try:
        tests = parse_column_tests(text)
        return negation(tests) if negate else tests
    except NotColumnTests:
        operator, operands = operands_of(text)
    if operator is None:
        return sql_condition(f"not ({operands[0]})" if negate else operands[0])
    if operator == "NOT":
        return _parse_operands(operands[0], negate=not negate)
    parts = [_parse_operands(each, negate=negate) for each in operands]
    return conjunction(parts) if (operator == "AND") is not negate else disjunction(parts)


def parse_column_tests(text: str) -> Predicate:
    """Parse SQL text such as `ts >= '2026-01-01' and country in ('FR', 'DE')` into a predicate.

    Raises `NotColumnTests` for conditions other than tests of single columns against literals, `InvalidFilter` for text
    that does not parse or is nested too deeply, and `MissingDependency` without sqlglot.
    """
    try:
        import sqlglot
    except ImportError as error:
        raise missing_dependency("sqlglot", "sql", "a filter written as SQL text") from error
    try:
        tree = sqlglot.parse_one(escape_doubled_quotes(text), into=sqlglot.exp.Condition, dialect="spark")
    except sqlglot.errors.SqlglotError as error:
        raise InvalidFilter(f"cannot parse the filter {text!r}: {_syntax_problem(error, text)}") from error
    except RecursionError:
        raise _too_deep(text) from None
    try:
        return _predicate(tree, text)
    except RecursionError:
        raise _too_deep(text) from None


def _syntax_problem(error: Any, text: str) -> str:
    """Describe where sqlglot found a syntax error in a filter's text.

    Its own message names internal classes; it is returned only if it has no position.
    """
    if not text.strip():
        return "it is empty"
    found = (getattr(error, "errors", None) or [{}])[0]
    word, said = found.get("highlight"), str(found.get("description"))
    if not word:
        return str(error)
    if said.startswith("Required"):
        return f"something is missing at {word!r}, character {text.rfind(word) + 1}"
    if said.startswith("Expecting"):
        return f"{said.lower()} after {word!r}"
    return f"{word!r} is not expected after {found.get('start_context', '').strip()!r}"


def _too_deep(text: str) -> InvalidFilter:
    return InvalidFilter(f"the filter {text[:80]!r}... is nested too deeply: write it with fewer parentheses")


# The arguments that each kind of sqlglot node may have besides its operands. A node with any other argument is
# rejected, because new sqlglot versions add arguments that change the meaning: `not like` was once a `Not` node around
# a `Like`, and is now a `Like` with `negate`.
_OPERANDS = {"this", "expression", "expressions"}
_KNOWN_ARGUMENTS = {
    "Like": {"negate"},
    "ILike": {"negate"},
    "In": {"negate"},
    "Is": {"negate"},
    "Between": {"negate", "low", "high"},
    "Literal": {"is_string"},
    "Identifier": {"quoted"},
    "Column": {"table", "db", "catalog"},
    "Cast": {"to"},
    "TryCast": {"to", "safe"},
}


def _predicate(node: Any, text: str) -> Predicate:
    _check_meaning(node, text)
    predicate = _translate_node(node, text)
    return negation(predicate) if node.args.get("negate") else predicate


def _check_meaning(node: Any, text: str) -> None:
    """Raise `NotColumnTests` for a sqlglot node with arguments that are not known here.

    New versions of sqlglot add arguments that change a node's meaning. `text` is the whole filter, for the message.
    """
    arguments = {name for name, value in node.args.items() if value not in (None, False, [])}
    if arguments - _OPERANDS - _KNOWN_ARGUMENTS.get(type(node).__name__, set()):
        raise _not_column_test(node, text)


def _translate_node(node: Any, text: str) -> Predicate:
    """Translate a sqlglot node to a predicate, ignoring its argument `negate`, which the caller handles.

    `text` is the whole filter, for messages. Raises `NotColumnTests` for other conditions.
    """
    from sqlglot import exp

    match node:
        case exp.Paren():
            return _predicate(node.this, text)
        case exp.And():
            return conjunction([_predicate(each, text) for each in _operands(node, text)])
        case exp.Or():
            return disjunction([_predicate(each, text) for each in _operands(node, text)])
        case exp.Not():
            return negation(_predicate(node.this, text))
        case exp.Boolean():
            return Constant(bool(node.this))
        case exp.Column():
            return Comparison(_column(node, text), op="=", value=True)
        case exp.Is():
            return _is(node, text)
        case exp.In():
            return _in(node, text)
        case exp.Between():
            column = _column(node.this, text)
            ends = (_value(node.args[name], text) for name in ("low", "high"))
            low, high = (ExactText(each) if isinstance(each, str) else each for each in ends)
            return _compare(column, ">=", low) & _compare(column, "<=", high)
        case exp.Like() | exp.ILike():
            return _like(node, text)
        case exp.Escape(this=exp.Like() | exp.ILike()):
            _check_meaning(node.this, text)
            like = _like(node.this, text, escape=_text(node.expression, text) or "")
            return negation(like) if node.this.args.get("negate") else like
        case exp.StartsWith():
            prefix = _text(node.expression, text)
            return UNKNOWN if prefix is None else starts_with(_column(node.this, text), prefix)
        case exp.IsNan():
            return IsNaN(_column(node.this, text))
    if (op := _COMPARISONS.get(type(node).__name__)) is not None:
        return _comparison(node, op, text)
    raise _not_column_test(node, text)


def _operands(node: Any, text: str) -> list[Any]:
    """Return the operands of a chain of `and` (or of `or`) nodes as a flat list, in order; see `_check_meaning`.

    It is not recursive, because chains may be long.
    """
    result, pending = [], [node]
    while pending:
        each = pending.pop()
        if type(each) is type(node):
            _check_meaning(each, text)
            pending += [each.right, each.left]
        else:
            result.append(each)
    return result


def _like(node: Any, text: str, escape: str = "\\") -> Predicate:
    """Translate a LIKE or ILIKE node; a null pattern becomes unknown. Its argument `negate` is ignored.

    Raises `InvalidFilter` if `escape` is not a single character, and `NotColumnTests` if the pattern is not a string.
    """
    if len(escape) != 1:
        raise InvalidFilter(f"in the filter {text!r}, the escape {escape!r} is not a single character")
    pattern = _text(node.expression, text)
    if pattern is None:
        return UNKNOWN
    return Like(
        _column(node.this, text),
        pattern=join_pattern(split_pattern(pattern, escape)),
        ignore_case=type(node).__name__ == "ILike",
    )


def _text(node: Any, text: str) -> str | None:
    """Return the value of a string literal, or None for null; raises `NotColumnTests` for other nodes."""
    value = _value(node, text)
    if value is None or isinstance(value, str):
        return value
    raise NotColumnTests(f"in the filter {text!r}, {value!r} is not a string: quote it")


def _comparison(node: Any, op: str, text: str) -> Predicate:
    from sqlglot import exp

    left, right = node.left, node.right
    if isinstance(_unwrap(right), exp.Column | exp.Dot) and not isinstance(_unwrap(left), exp.Column | exp.Dot):
        left, right, op = right, left, mirror_operator(op)
    column, value = _column(left, text), _value(right, text)
    if not isinstance(node, exp.NullSafeEQ):
        return _compare(column, op, value)
    return IsNull(column) if value is None else _never_null(Comparison(column, op=op, value=value))


def _compare(column: str, op: str, value: Any) -> Predicate:
    """Return the comparison of a column with a literal; a comparison with null (None) is `UNKNOWN`."""
    return UNKNOWN if value is None else Comparison(column, op=op, value=value)


def _is(node: Any, text: str) -> Predicate:
    column, value = _column(node.this, text), _value(node.expression, text)
    if value is None:
        return IsNull(column)
    return _never_null(Comparison(column, op="=", value=value))


def _never_null(test: Comparison) -> Predicate:
    """Return a test that is false where `test` is null, so that its negation, `not (a <=> 1)`, keeps rows with null."""
    return IsNull(test.column, negate=True) & test


def _in(node: Any, text: str) -> Predicate:
    if not node.expressions:
        raise _not_column_test(node, text)
    values = [_value(v, text) for v in node.expressions]
    known = tuple(v for v in values if v is not None)
    return In(_column(node.this, text), values=known, has_null=None in values)


def _unwrap(node: Any) -> Any:
    from sqlglot import exp

    return _unwrap(node.this) if isinstance(node, exp.Paren) else node


def _column(node: Any, text: str) -> str:
    node = _unwrap(node)
    _check_meaning(node, text)
    if (names := names_of(node)) is None:
        raise _not_column_test(node, text)
    return dotted_path(names)


def literal_of(node: Any) -> Any:
    """Return the Python value of a sqlglot node that is a literal, null, a negated number or a cast of a constant.

    Raises `InvalidFilter` for other expressions, and for invalid values.
    """
    return _value(node, node.sql(dialect="spark"))


def _value(node: Any, text: str) -> Any:
    from sqlglot import exp

    node = _unwrap(node)
    _check_meaning(node, text)
    match node:
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal():
            return node.this if node.is_string else _number(node.this, text)
        case exp.Neg():
            return _negative(node.this, text)
        case exp.HexString():
            return _bytes(node.this, text)
        case exp.Cast():
            return _cast(node, text)
    raise _not_column_test(node, text)


def _negative(node: Any, text: str) -> Any:
    value = _value(node, text)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise NotColumnTests(f"in the filter {text!r}, {value!r} is not a number and cannot be negated")
    return value.copy_negate() if isinstance(value, Decimal) else -value  # a minus sign would round to 28 digits


def _bytes(digits: str, text: str) -> bytes:
    try:
        return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")
    except ValueError as error:
        raise InvalidFilter(
            f"in the filter {text!r}, X'{digits}' has characters that are not hexadecimal digits"
        ) from error


def _number(digits: str, text: str) -> int | Decimal | float:
    if digits.isdecimal():
        return int(digits)
    value = float(digits) if "e" in digits.lower() else Decimal(digits)
    if value == math.inf:
        raise InvalidFilter(f"in the filter {text!r}, {digits} exceeds the range of doubles")
    return value


def _cast(node: Any, text: str) -> Any:
    value, target = _value(node.this, text), node.to.this.name
    try:
        return cast_constant(value, target, tuple(int(each.name) for each in node.to.expressions))
    except ValueError as error:
        kind = InvalidFilter if isinstance(value, str) and not isinstance(error, UnknownCast) else NotColumnTests
        raise kind(f"in the filter {text!r}, {value!r} is not a {target.lower()}: {error}") from error


def _not_column_test(node: Any, text: str) -> NotColumnTests:
    return NotColumnTests(
        f"in the filter {text!r}, {node.sql(dialect='spark')!r} is more than tests of columns against literals "
        "(comparison, in, between, like, is null, isnan), combined by and, or and not"
    )


_OPENING, _CLOSING = ("L_PAREN", "L_BRACKET", "L_BRACE"), ("R_PAREN", "R_BRACKET", "R_BRACE")


def operands_of(text: str) -> tuple[str | None, list[str]]:
    """Split SQL text at its top-level operator: return OR, AND or NOT with its operands, or None with the whole text.

    Outer parentheses are removed. Raises `InvalidFilter` for text that has no tokens or cannot be split into tokens.

    Example:
        >>> operands_of("a = 1 and (b = 2 or c)")
        ('AND', ['a = 1', '(b = 2 or c)'])
    """
    tokens = tokens_of(text)
    depths = _depths(tokens)
    while _kind(tokens[0]) == "L_PAREN" and min(depths[:-1]) > 0 and _kind(tokens[-1]) == "R_PAREN":
        tokens, depths = tokens[1:-1], [depth - 1 for depth in depths[1:-1]]
    for operator in ("OR", "AND"):
        if places := _places(tokens, depths, operator):
            starts, ends = [0, *(place + 1 for place in places)], [*places, len(tokens)]
            return operator, [_token_text(text, tokens[start:end]) for start, end in zip(starts, ends, strict=True)]
    if _kind(tokens[0]) == "NOT":
        return "NOT", [_token_text(text, tokens[1:])]
    return None, [_token_text(text, tokens)]


def _kind(token: Any) -> str:
    return str(token.token_type.name)


def _token_text(text: str, tokens: list[Any]) -> str:
    return text[tokens[0].start : tokens[-1].end + 1] if tokens else ""


def _depths(tokens: list[Any]) -> list[int]:
    """Return how many brackets and CASEs are open after each token."""
    depths, opened = [], []
    for token in tokens:
        kind = _kind(token)
        if kind in _OPENING or kind == "CASE":
            opened.append(kind)
        elif opened and (kind in _CLOSING or (kind == "END" and opened[-1] == "CASE")):
            opened.pop()
        depths.append(len(opened))
    return depths


def _places(tokens: list[Any], depths: list[int], operator: str) -> list[int]:
    """Return the indexes of the tokens that are the operator AND or OR, outside of brackets and CASEs.

    `depths` are those of `_depths`. The AND of a BETWEEN is left out.
    """
    places, in_between = [], False
    for place, (token, depth) in enumerate(zip(tokens, depths, strict=True)):
        kind = _kind(token)
        if depth == 0 and kind == "BETWEEN":
            in_between = True
        elif depth == 0 and kind == "AND" and in_between:
            in_between = False
        elif depth == 0 and kind == operator:
            places.append(place)
    return places
