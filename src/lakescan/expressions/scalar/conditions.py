"""Comparisons, conditions and choices: SQL's three-valued logic, evaluated only as far as Spark does."""

from __future__ import annotations

from collections.abc import Sequence

from lakescan.common import types as t
from lakescan.expressions.scalar.padding import padded, padded_among, unpadded
from lakescan.expressions.scalar.typed import (
    Typed,
    aligned,
    common_type,
    converted,
    failing,
    literal,
    sql_type,
    unsupported,
)


def comparison(op: str, left: Typed, right: Typed, *, has_constant: bool = False) -> Typed:
    """Return `left op right`; `<=>` is `IS NOT DISTINCT FROM`. NaN equals itself and exceeds all other numbers.

    `has_constant`: one side is constant, though no literal.
    """
    first, second = aligned(*padded(left, right, has_constant), f"the operator {op}")
    sql_type(first.type)
    return Typed(f"({first.sql} {op} {second.sql})", t.BOOLEAN, first.raises or second.raises)


def rows_compared(op: str, pairs: Sequence[tuple[Typed, Typed]]) -> Typed:
    """Return a comparison of rows: structs in Spark, which are never null, and in which null equals null."""
    sides = [aligned(*padded(one, other), f"the operator {op}") for one, other in pairs]
    same = [f"({one.sql} IS NOT DISTINCT FROM {other.sql})" for one, other in sides]
    raises = any(one.raises or other.raises for one, other in sides)
    if op in ("=", "IS NOT DISTINCT FROM"):
        return Typed(f"({' AND '.join(same)})", t.BOOLEAN, raises)
    if op in ("<>", "IS DISTINCT FROM"):
        return Typed(f"(NOT ({' AND '.join(same)}))", t.BOOLEAN, raises)
    strict, result = op[0], "FALSE" if op in ("<", ">") else "TRUE"
    for equal, (one, other) in zip(reversed(same), reversed(sides), strict=True):
        first, second = (one, other) if strict == "<" else (other, one)
        less = f"({first.sql} < {second.sql} OR (({first.sql}) IS NULL AND ({second.sql}) IS NOT NULL)) IS TRUE"
        result = f"(CASE WHEN {equal} THEN {result} ELSE {less} END)"
    return Typed(result, t.BOOLEAN, raises)


def _boolean(each: Typed, what: str) -> Typed:
    if each.type not in (t.BOOLEAN, t.UNKNOWN):
        raise unsupported(f"{what} of {each.type}")
    return converted(each, t.BOOLEAN)


def inverse(each: Typed) -> Typed:
    """Return `NOT each`."""
    return Typed(f"(NOT {_boolean(each, 'NOT').sql})", t.BOOLEAN, each.raises)


def chain(op: str, parts: Sequence[Typed]) -> Typed:
    """Return operands joined by AND or OR. A part that may fail is reached only if those before do not decide."""
    decides = "FALSE" if op == "AND" else "TRUE"
    values = [_boolean(each, op) for each in parts]
    if not any(each.raises for each in values[1:]):
        return Typed(f"({f' {op} '.join(each.sql for each in values)})", t.BOOLEAN, values[0].raises)
    cases = " ".join(f"WHEN ({each.sql}) IS {decides} THEN {decides}" for each in values)
    # Of what is left, no part decides: the result is null if a part is.
    nulls = " OR ".join(f"({each.sql}) IS NULL" for each in values)
    other = "TRUE" if op == "AND" else "FALSE"
    return Typed(f"CASE {cases} WHEN {nulls} THEN NULL ELSE {other} END", t.BOOLEAN, True)


def failure(message: Typed) -> Typed:
    """Translate `raise_error`: an expression without a value, whose evaluation fails with a message."""
    # Spark fails for a null message too; DuckDB's error(NULL) is null.
    return Typed(f"error(coalesce(CAST({message.sql} AS VARCHAR), 'null'))", t.UNKNOWN, True)


def is_null(each: Typed) -> Typed:
    """Return `each IS NULL`."""
    return Typed(f"({each.sql} IS NULL)", t.BOOLEAN, each.raises)


def is_truth(each: Typed, value: bool) -> Typed:
    """Return `each IS TRUE` or `each IS FALSE`."""
    return Typed(f"({_boolean(each, 'IS').sql} IS {str(value).upper()})", t.BOOLEAN, each.raises)


def is_nan(each: Typed) -> Typed:
    """Return `isnan(each)`, which is false for null."""
    if each.type not in t.FLOATING:
        raise unsupported(f"the function isnan() of {each.type}")
    return Typed(f"coalesce(isnan({each.sql}), FALSE)", t.BOOLEAN, each.raises)


def is_in(each: Typed, values: Sequence[Typed]) -> Typed:
    """Return `each IN (values)`: all of them are converted to one type."""
    each, values = padded_among(each, values)
    operands = [each, *values]
    subject, *others = unified(operands, "the operator IN")
    subject, others = unpadded(subject), [unpadded(one) for one in others]
    parts = [comparison("=", subject, one) for one in others]
    if any(one.raises for one in others):
        return chain("OR", parts)
    # Lists are long: as comparisons, hundreds of them take DuckDB seconds to parse.
    return Typed(f"({subject.sql} IN ({', '.join(one.sql for one in others)}))", t.BOOLEAN, subject.raises)


def between(each: Typed, low: Typed, high: Typed) -> Typed:
    """Return `each BETWEEN low AND high`."""
    each, low, high = map(unpadded, (each, low, high))
    return chain("AND", [comparison(">=", each, low), comparison("<=", each, high)])


def unified(values: Sequence[Typed], what: str) -> list[Typed]:
    """Return the values as ones of one type, to which Spark converts all of them; errors say `what` has them."""
    whole = literal(None, t.UNKNOWN)
    for each in values:
        kind = common_type(whole, each, what)
        whole = Typed("", kind, literal=None)
    if whole.type == t.UNKNOWN:  # beside NULL, an expression that only fails needs a type for DuckDB
        return [failing(each, whole.type) if each.raises else each for each in values]
    return [converted(each, whole.type) for each in values]


def choice(conditions: Sequence[Typed], results: Sequence[Typed], default: Typed | None) -> Typed:
    """Return `CASE WHEN ... END`; `IF` is one with a single condition."""
    values = unified([*results, default or literal(None, t.UNKNOWN)], "CASE")
    tests = [_boolean(each, "CASE WHEN") for each in conditions]
    cases = " ".join(f"WHEN {test.sql} THEN {value.sql}" for test, value in zip(tests, values[:-1], strict=True))
    raises = any(each.raises for each in (*tests, *values))
    return Typed(f"CASE {cases} ELSE {values[-1].sql} END", values[-1].type, raises)


def first_valid(*args: Typed) -> Typed:
    """Return `coalesce(...)`."""
    values = unified(args, "the function coalesce()")
    cases = " ".join(f"WHEN ({each.sql}) IS NOT NULL THEN {each.sql}" for each in values[:-1])
    sql = f"CASE {cases} ELSE {values[-1].sql} END" if cases else values[-1].sql
    return Typed(sql, values[-1].type, any(each.raises for each in values))


def null_if(each: Typed, other: Typed) -> Typed:
    """Return `nullif(each, other)`."""
    return choice([comparison("=", unpadded(each), unpadded(other))], [literal(None, t.UNKNOWN)], each)


def if_valid(each: Typed, then: Typed, otherwise: Typed) -> Typed:
    """Return `nvl2(each, then, otherwise)`."""
    return choice([inverse(is_null(each))], [then], otherwise)


def extreme(function: str, *args: Typed) -> Typed:
    """Return `greatest(...)` or `least(...)`, which skip nulls."""
    if len(args) < 2:
        raise unsupported(f"the function {function}() of one argument")
    values = unified(args, f"the function {function}()")
    if values[0].type in t.FLOATING:
        return _extreme_double(">" if function == "greatest" else "<", values)
    if values[0].type == t.BOOLEAN:
        raise unsupported(f"the function {function}() of {values[0].type}")
    sql_type(values[0].type)
    listed = ", ".join(each.sql for each in values)
    return Typed(f"{function}({listed})", values[0].type, any(each.raises for each in values))


def _extreme_double(op: str, values: Sequence[Typed]) -> Typed:
    """The first extreme: comparisons take NaN for the greatest, and -0.0 for 0.0, as Spark does."""
    sql = values[0].sql
    for each in values[1:]:
        exceeds = f"({each.sql}) IS NOT NULL AND (({sql}) IS NULL OR {each.sql} {op} {sql})"
        sql = f"(CASE WHEN {exceeds} THEN {each.sql} ELSE {sql} END)"
    return Typed(sql, values[0].type, any(each.raises for each in values))
