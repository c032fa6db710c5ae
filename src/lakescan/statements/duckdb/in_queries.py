"""Truth values of `IN (SELECT ...)` as in Spark, which returns false, not null, where nulls leave a match undecided.

Spark executes IN and NOT IN as joins. A row without a match is false for both, so `NOT (x IN ...)` is not the opposite
of `x IN ...`, and the result depends on the place of NOT. As in Spark's optimizer, NOT is pushed through AND, OR, other
NOTs and comparisons with constants down to IN. In the condition of an outer join, NOT IN is the opposite of IN if Spark
evaluates it in the join, which Spark does unless a filter before the join can evaluate it.

Before that, Spark's optimizer (`BooleanSimplification`) treats IN and NOT IN as opposites. It replaces `x IN ... OR x
NOT IN ...` by TRUE, and extracts common operands of AND and OR, which can bring more such pairs together.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidStatement
from lakescan.expressions.scalar.typed_sql import TypedSql


def has_in_query_operand(node: Any) -> bool:
    """Return whether a node combines or negates an IN of a subquery, or compares it with TRUE or FALSE."""
    from sqlglot import exp

    if isinstance(node, exp.Not | exp.And | exp.Or):
        return has_in_query(node)
    compared = compared_with_constant(node)
    return compared is not None and has_in_query(compared[0])


def compared_with_constant(node: Any) -> tuple[Any, bool] | None:
    """Return the operand compared with TRUE or FALSE, and the truth value of it that makes the comparison true.

    Returns None for nodes other than =, <> and IN, and for operands of = and <> without parentheses.
    """
    from sqlglot import exp

    if isinstance(node, exp.In) and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Boolean):
        return node.this, bool(node.expressions[0].this)
    if not isinstance(node, exp.EQ | exp.NEQ):
        return None
    for one, other in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(other, exp.Boolean) and isinstance(one, exp.Paren):
            return one, bool(other.this) == isinstance(node, exp.EQ)
    return None


@dataclass(frozen=True)
class AtomicCondition:
    """The condition `node` or, if `is_negated`, its negation. It is not AND, OR or NOT.

    Conditions that Spark treats as equal have the same `key` and `sign`. Their negations have the same `key` and the
    other `sign`.
    """

    node: Any
    is_negated: bool
    key: Hashable
    sign: bool

    def is_opposite(self, other: Condition) -> bool:
        """Return whether another condition is the negation of this one."""
        return isinstance(other, AtomicCondition) and self.key == other.key and self.sign != other.sign


@dataclass(frozen=True)
class BinaryCondition:
    """Two conditions joined by `word`, which is AND or OR."""

    word: str
    left: Condition
    right: Condition


Condition = AtomicCondition | BinaryCondition | bool  # TRUE and FALSE are themselves


def simplify(condition: Condition) -> Condition:
    """Simplify a condition like Spark's `BooleanSimplification`, which treats IN and NOT IN of a subquery as opposites.

    Constants are folded, `x OR NOT x` becomes TRUE, `x AND NOT x` becomes FALSE, and common operands are extracted.
    """
    if not isinstance(condition, BinaryCondition):
        return condition
    word = condition.word
    left, right = simplify(condition.left), simplify(condition.right)
    decides = word == "OR"
    if isinstance(left, bool) or isinstance(right, bool):
        constant, other = (left, right) if isinstance(left, bool) else (right, left)
        return decides if constant is decides else other
    if isinstance(left, AtomicCondition) and left.is_opposite(right):
        return decides
    inner = "OR" if word == "AND" else "AND"
    lefts, rights = _parts(left, inner), _parts(right, inner)
    common = [each for each in lefts if _is_in(each, rights)]
    if not common:
        return BinaryCondition(word, left, right)
    firsts, seconds = ([each for each in side if not _is_in(each, common)] for side in (lefts, rights))
    if firsts and seconds:
        common.append(BinaryCondition(word, _combine(inner, firsts), _combine(inner, seconds)))
        return simplify(_combine(inner, common))
    return _combine(inner, common)


def _parts(condition: Condition, word: str) -> list[Condition]:
    """Return the operands of a chain of `word` (AND or OR); the condition itself if it is not such a chain."""
    if isinstance(condition, BinaryCondition) and condition.word == word:
        return [*_parts(condition.left, word), *_parts(condition.right, word)]
    return [condition]


def _combine(word: str, conditions: Sequence[Condition]) -> Condition:
    return reduce(lambda one, other: BinaryCondition(word, one, other), conditions)


def _is_in(condition: Condition, others: Sequence[Condition]) -> bool:
    return any(_key(condition) == _key(other) for other in others)


def _key(condition: Condition) -> Hashable:
    """Return a value that is equal for conditions that Spark treats as equal. The order of operands does not matter."""
    if isinstance(condition, BinaryCondition):
        return condition.word, frozenset(_key(each) for each in _parts(condition, condition.word))
    return condition if isinstance(condition, bool) else (condition.sign, condition.key)


def key_of_sql(sql: str) -> str:
    """Return DuckDB's SQL with its table aliases (`AS r7`) renumbered in order, so that queries can be compared."""
    names = dict.fromkeys(re.findall(r"\bAS (r\d+)\b", sql))
    numbered = {name: f"q{n}" for n, name in enumerate(names)}
    return re.sub(r"\br\d+\b", lambda found: numbered.get(found[0], found[0]), sql)


def fold_constant_case(node: Any) -> Any:
    """Return the value that a CASE or IF with constant conditions selects; NULL if no branch applies.

    Other nodes are returned without the parentheses around them.
    """
    from sqlglot import exp

    node = node.unnest()
    if isinstance(node, exp.If):
        cases, default = [(node.this, node.args.get("true"))], node.args.get("false")
    elif isinstance(node, exp.Case) and node.this is None:
        cases, default = [(each.this, each.args["true"]) for each in node.args["ifs"]], node.args.get("default")
    else:
        return node
    for test, value in cases:
        constant = test.unnest()
        if isinstance(constant, exp.Boolean) and constant.this:
            return fold_constant_case(value)
        if not isinstance(constant, exp.Boolean) and not is_null_constant(constant):
            return node
    return exp.Null() if default is None else fold_constant_case(default)


def has_in_query(node: Any) -> bool:
    """Return whether an expression has an IN of a subquery, not counting nested subqueries."""
    from sqlglot import exp

    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, exp.In) and each.args.get("query") is not None:
            return True
        if not isinstance(each, exp.Query):
            pending += each.iter_expressions()
    return False


def is_condition(node: Any) -> bool:
    """Return whether a boolean is an operand of WHERE, HAVING, QUALIFY or ON, where null acts like false.

    It may be below AND, OR, NOT and comparisons with TRUE or FALSE there.
    """
    from sqlglot import exp

    while isinstance(node.parent, exp.Paren | exp.And | exp.Or | exp.Not) or (
        node.parent is not None and compared_with_constant(node.parent) is not None
    ):
        node = node.parent
    return isinstance(node.parent, exp.Where | exp.Having | exp.Qualify | exp.Join)


def subjects_of(node: Any, columns: int) -> list[Any]:
    """Return the expressions before IN, one for each column of the subquery: `x`, or the members of `(a, b)`.

    `columns` is the number of columns of the subquery. Raises `InvalidStatement` if the numbers differ.
    """
    from sqlglot import exp

    subject = node.this.unnest()
    is_struct = isinstance(subject, exp.Anonymous) and str(subject.this).lower() == "struct"
    found = [node.this]
    if isinstance(subject, exp.Tuple) or (is_struct and columns > 1):
        found = [each.unalias() for each in subject.expressions]
    if len(found) != columns:
        raise InvalidStatement(f"IN compares {len(found)} values with a query of {columns} columns: use equal numbers")
    return found


def is_null_constant(node: Any) -> bool:
    """Return whether an expression is NULL, perhaps in casts or parentheses."""
    from sqlglot import exp

    node = node.unnest()
    return is_null_constant(node.this) if isinstance(node, exp.Cast) else isinstance(node, exp.Null)


def translate_in_query(
    left: Sequence[TypedSql],
    right: Sequence[TypedSql],
    sql: str,
    *,
    is_negated: bool,
    is_opposite: bool,
    may_be_null: bool,
) -> TypedSql:
    """Translate IN or NOT IN of a subquery.

    Args:
        left: The values before IN.
        right: The columns of the subquery, qualified by q, with the same types as `left`.
        sql: The SQL of the subquery.
        is_negated: Whether to translate NOT IN.
        is_opposite: Whether NOT IN is true wherever IN is not true, not only where IN is false.
        may_be_null: Whether the result may be null instead of false.
    """
    if len(left) > 1:
        return _translate_tuple_in(left, right, sql, is_negated, is_opposite)
    found = f"{left[0].sql} IN (SELECT {right[0].sql} FROM ({sql}) AS q)"
    if is_negated:
        found = f"NOT coalesce({found}, FALSE)" if is_opposite else f"NOT ({found})"
    is_sure = may_be_null or (is_negated and is_opposite)
    return TypedSql(f"({found})" if is_sure else f"coalesce({found}, FALSE)", t.BOOLEAN, True)


def _translate_tuple_in(
    left: Sequence[TypedSql], right: Sequence[TypedSql], sql: str, is_negated: bool, is_opposite: bool
) -> TypedSql:
    """Translate IN or NOT IN of several columns to EXISTS. DuckDB's own row comparison treats nulls as equal values."""
    listed = ", ".join(f"{each.sql} AS c{n}" for n, each in enumerate(right))
    matches = []
    for n, each in enumerate(left):
        is_open = f" OR ({each.sql}) IS NULL OR w.c{n} IS NULL" if is_negated and not is_opposite else ""
        matches.append(f"({each.sql} = w.c{n}{is_open})")
    rows = f"SELECT 1 FROM (SELECT {listed} FROM ({sql}) AS q) AS w WHERE {' AND '.join(matches)}"
    return TypedSql(f"({'NOT ' if is_negated else ''}EXISTS ({rows}))", t.BOOLEAN, True)
