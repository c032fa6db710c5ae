"""Comparisons, conditions and choices with SQL's three-valued logic, translated to DuckDB SQL.

Functions take and return `TypedSql`, and raise `UnsupportedFeature` for types that cannot be compared or unified. As in
Spark, an operand that may fail is evaluated only if earlier operands do not decide the result.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakescan.common import types as t
from lakescan.expressions.scalar.char_padding import ignore_padding, pad_list, pad_sides
from lakescan.expressions.scalar.typed_sql import (
    TypedSql,
    align,
    common_type,
    convert,
    failure_value,
    literal,
    sql_type,
    unsupported_error,
)


def comparison(op: str, left: TypedSql, right: TypedSql, *, has_constant: bool = False) -> TypedSql:
    """Return `left op right`, both converted to their common type in Spark; `<=>` is `IS NOT DISTINCT FROM`.

    NaN equals NaN and is greater than all other numbers. `has_constant` means that one side is constant but not a
    literal, which affects the padding of CHAR.
    """
    first, second = align(*pad_sides(left, right, has_constant), f"the operator {op}")
    sql_type(first.type)
    return TypedSql(f"({first.sql} {op} {second.sql})", t.BOOLEAN, first.raises or second.raises)


def compare_rows(op: str, pairs: Sequence[tuple[TypedSql, TypedSql]]) -> TypedSql:
    """Return a comparison of two rows, such as `(a, b) < (1, 2)`; `pairs` has the left and right value of each member.

    Rows are compared as structs in Spark: rows are never null, null equals null, and null is less than any value.
    """
    sides = [align(*pad_sides(one, other), f"the operator {op}") for one, other in pairs]
    same = [f"({one.sql} IS NOT DISTINCT FROM {other.sql})" for one, other in sides]
    raises = any(one.raises or other.raises for one, other in sides)
    if op in ("=", "IS NOT DISTINCT FROM"):
        return TypedSql(f"({' AND '.join(same)})", t.BOOLEAN, raises)
    if op in ("<>", "IS DISTINCT FROM"):
        return TypedSql(f"(NOT ({' AND '.join(same)}))", t.BOOLEAN, raises)
    strict, result = op[0], "FALSE" if op in ("<", ">") else "TRUE"
    for equal, (one, other) in zip(reversed(same), reversed(sides), strict=True):
        first, second = (one, other) if strict == "<" else (other, one)
        less = f"({first.sql} < {second.sql} OR (({first.sql}) IS NULL AND ({second.sql}) IS NOT NULL)) IS TRUE"
        result = f"(CASE WHEN {equal} THEN {result} ELSE {less} END)"
    return TypedSql(result, t.BOOLEAN, raises)


def _boolean(each: TypedSql, what: str) -> TypedSql:
    if each.type not in (t.BOOLEAN, t.UNKNOWN):
        raise unsupported_error(f"{what} of {each.type}")
    return convert(each, t.BOOLEAN)


def inverse(each: TypedSql) -> TypedSql:
    """Return `NOT each` of a boolean."""
    return TypedSql(f"(NOT {_boolean(each, 'NOT').sql})", t.BOOLEAN, each.raises)


def chain(op: str, parts: Sequence[TypedSql]) -> TypedSql:
    """Join conditions by AND or OR (`op`).

    A condition that may fail is evaluated only if earlier ones do not decide the result.
    """
    decides = "FALSE" if op == "AND" else "TRUE"
    values = [_boolean(each, op) for each in parts]
    if not any(each.raises for each in values[1:]):
        return TypedSql(f"({f' {op} '.join(each.sql for each in values)})", t.BOOLEAN, values[0].raises)
    cases = " ".join(f"WHEN ({each.sql}) IS {decides} THEN {decides}" for each in values)
    # Otherwise, no part decides the result, which is null if a part is null.
    nulls = " OR ".join(f"({each.sql}) IS NULL" for each in values)
    other = "TRUE" if op == "AND" else "FALSE"
    return TypedSql(f"CASE {cases} WHEN {nulls} THEN NULL ELSE {other} END", t.BOOLEAN, True)


def failure(message: TypedSql) -> TypedSql:
    """Translate `raise_error(message)`: an expression of unknown type whose evaluation fails with the message."""
    # Spark fails for a null message too; DuckDB's error(NULL) is null.
    return TypedSql(f"error(coalesce(CAST({message.sql} AS VARCHAR), 'null'))", t.UNKNOWN, True)


def is_null(each: TypedSql) -> TypedSql:
    """Return `each IS NULL`."""
    return TypedSql(f"({each.sql} IS NULL)", t.BOOLEAN, each.raises)


def is_truth(each: TypedSql, value: bool) -> TypedSql:
    """Return `each IS TRUE` or `each IS FALSE`, by `value`; neither is ever null."""
    return TypedSql(f"({_boolean(each, 'IS').sql} IS {str(value).upper()})", t.BOOLEAN, each.raises)


def is_nan(each: TypedSql) -> TypedSql:
    """Return `isnan(each)`, which is false for null."""
    if each.type not in t.FLOATING:
        raise unsupported_error(f"the function isnan() of {each.type}")
    return TypedSql(f"coalesce(isnan({each.sql}), FALSE)", t.BOOLEAN, each.raises)


def is_in(each: TypedSql, values: Sequence[TypedSql]) -> TypedSql:
    """Return `each IN (values)`, with all operands converted to one type. CHAR is padded as in Spark."""
    each, values = pad_list(each, values)
    operands = [each, *values]
    subject, *others = unify(operands, "the operator IN")
    subject, others = ignore_padding(subject), [ignore_padding(one) for one in others]
    parts = [comparison("=", subject, one) for one in others]
    if any(one.raises for one in others):
        return chain("OR", parts)
    # As comparisons, hundreds of values would take DuckDB seconds to parse.
    return TypedSql(f"({subject.sql} IN ({', '.join(one.sql for one in others)}))", t.BOOLEAN, subject.raises)


def between(each: TypedSql, low: TypedSql, high: TypedSql) -> TypedSql:
    """Return `each BETWEEN low AND high`; CHAR values are compared with their trailing spaces, as in Spark."""
    each, low, high = map(ignore_padding, (each, low, high))
    return chain("AND", [comparison(">=", each, low), comparison("<=", each, high)])


def unify(values: Sequence[TypedSql], what: str) -> list[TypedSql]:
    """Convert the values to their common type in Spark; `what` describes their use in errors ("the operator IN").

    Raises `UnsupportedFeature` without a common type. Nulls without a type stay if all values are such nulls.
    """
    whole = literal(None, t.UNKNOWN)
    for each in values:
        kind = common_type(whole, each, what)
        whole = TypedSql("", kind, literal=None)
    if whole.type == t.UNKNOWN:  # DuckDB needs a type for an expression that only fails, next to NULL
        return [failure_value(each, whole.type) if each.raises else each for each in values]
    return [convert(each, whole.type) for each in values]


def choice(conditions: Sequence[TypedSql], results: Sequence[TypedSql], default: TypedSql | None) -> TypedSql:
    """Return `CASE WHEN condition THEN result ... ELSE default END`, with all results converted to one type.

    Without `default`, it is null.
    """
    values = unify([*results, default or literal(None, t.UNKNOWN)], "CASE")
    tests = [_boolean(each, "CASE WHEN") for each in conditions]
    cases = " ".join(f"WHEN {test.sql} THEN {value.sql}" for test, value in zip(tests, values[:-1], strict=True))
    raises = any(each.raises for each in (*tests, *values))
    return TypedSql(f"CASE {cases} ELSE {values[-1].sql} END", values[-1].type, raises)


def coalesce(*args: TypedSql) -> TypedSql:
    """Return `coalesce(...)`: the first argument that is not null, converted to the common type."""
    values = unify(args, "the function coalesce()")
    cases = " ".join(f"WHEN ({each.sql}) IS NOT NULL THEN {each.sql}" for each in values[:-1])
    sql = f"CASE {cases} ELSE {values[-1].sql} END" if cases else values[-1].sql
    return TypedSql(sql, values[-1].type, any(each.raises for each in values))


def null_if(each: TypedSql, other: TypedSql) -> TypedSql:
    """Return `nullif(each, other)`: null if both are equal, else `each`."""
    return choice([comparison("=", ignore_padding(each), ignore_padding(other))], [literal(None, t.UNKNOWN)], each)


def if_valid(each: TypedSql, then: TypedSql, otherwise: TypedSql) -> TypedSql:
    """Return `nvl2(each, then, otherwise)`: `then` if `each` is not null."""
    return choice([inverse(is_null(each))], [then], otherwise)


def extreme(function: str, *args: TypedSql) -> TypedSql:
    """Return `greatest(...)` or `least(...)` (`function`) of at least two arguments, which skip nulls."""
    if len(args) < 2:
        raise unsupported_error(f"the function {function}() of one argument")
    values = unify(args, f"the function {function}()")
    if values[0].type in t.FLOATING:
        return _extreme_double(">" if function == "greatest" else "<", values)
    if values[0].type == t.BOOLEAN:
        raise unsupported_error(f"the function {function}() of {values[0].type}")
    sql_type(values[0].type)
    listed = ", ".join(each.sql for each in values)
    return TypedSql(f"{function}({listed})", values[0].type, any(each.raises for each in values))


def _extreme_double(op: str, values: Sequence[TypedSql]) -> TypedSql:
    """Return SQL for the first greatest (`op` is >) or least (<) of floating-point values, skipping nulls.

    As in Spark, NaN is the greatest and -0.0 equals 0.0.
    """
    sql = values[0].sql
    for each in values[1:]:
        exceeds = f"({each.sql}) IS NOT NULL AND (({sql}) IS NULL OR {each.sql} {op} {sql})"
        sql = f"(CASE WHEN {exceeds} THEN {each.sql} ELSE {sql} END)"
    return TypedSql(sql, values[0].type, any(each.raises for each in values))
