"""Truth values of `IN (SELECT ...)` as Spark has them: false, not null, where nulls leave a match open.

Spark makes joins of IN and NOT IN. A row without a match has the value false, for both of them: `NOT (x IN ...)` is not
the opposite of `x IN ...`. Spark therefore decides by the place of a NOT. A NOT goes through AND, OR, other NOTs and
comparisons with constants down to IN, as in Spark's optimizer. In the condition of an outer join, NOT IN is the
opposite of IN if Spark evaluates it in the join. Spark does so unless a filter before the join can evaluate it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidStatement
from lakescan.expressions.scalar.typed import Typed


def decides(node: Any) -> bool:
    """Whether a node combines or negates an IN of a query, or compares it with TRUE or FALSE."""
    from sqlglot import exp

    if isinstance(node, exp.Not | exp.And | exp.Or):
        return holds_in_query(node)
    compared = compared_with_constant(node)
    return compared is not None and holds_in_query(compared[0])


def compared_with_constant(node: Any) -> tuple[Any, bool] | None:
    """What a comparison compares with TRUE or FALSE, in parentheses, and whether it is true if that is true."""
    from sqlglot import exp

    if isinstance(node, exp.In) and len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Boolean):
        return node.this, bool(node.expressions[0].this)
    if not isinstance(node, exp.EQ | exp.NEQ):
        return None
    for one, other in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(other, exp.Boolean) and isinstance(one, exp.Paren):
            return one, bool(other.this) == isinstance(node, exp.EQ)
    return None


def are_opposite(node: Any) -> bool:
    """Whether the operands of AND or OR are an expression and its negation, of which Spark makes FALSE or TRUE."""
    from sqlglot import exp

    left, right = node.left.unnest(), node.right.unnest()
    return any(isinstance(one, exp.Not) and one.this.unnest() == other for one, other in ((left, right), (right, left)))


def holds_in_query(node: Any) -> bool:
    """Whether an expression has an IN of a query, outside of queries in it."""
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
    """Whether a truth value only decides which rows are kept, where null is as good as false."""
    from sqlglot import exp

    while isinstance(node.parent, exp.Paren | exp.And | exp.Or | exp.Not) or (
        node.parent is not None and compared_with_constant(node.parent) is not None
    ):
        node = node.parent
    return isinstance(node.parent, exp.Where | exp.Having | exp.Qualify | exp.Join)


def subjects_of(node: Any, columns: int) -> list[Any]:
    """The values that IN compares with the columns of a query; raises `InvalidStatement` for another number."""
    from sqlglot import exp

    subject = node.this.unnest()
    is_struct = isinstance(subject, exp.Anonymous) and str(subject.this).lower() == "struct"
    found = [node.this]
    if isinstance(subject, exp.Tuple) or (is_struct and columns > 1):
        found = [each.unalias() for each in subject.expressions]
    if len(found) != columns:
        raise InvalidStatement(f"IN compares {len(found)} values with a query of {columns} columns")
    return found


def is_null_constant(node: Any) -> bool:
    """Whether an expression is NULL, maybe with a type."""
    from sqlglot import exp

    node = node.unnest()
    return is_null_constant(node.this) if isinstance(node, exp.Cast) else isinstance(node, exp.Null)


def test(
    left: Sequence[Typed],
    right: Sequence[Typed],
    sql: str,
    *,
    is_negated: bool,
    is_opposite: bool,
    may_be_null: bool,
) -> Typed:
    """Return IN or NOT IN of a query.

    Args:
        left: The values that are compared.
        right: The columns of the query, as those of q.
        sql: The query.
        is_negated: Whether it is NOT IN.
        is_opposite: Whether NOT IN is true wherever IN is not.
        may_be_null: Whether null may stand for false.
    """
    if len(left) > 1:
        return _test_of_several(left, right, sql, is_negated, is_opposite)
    found = f"{left[0].sql} IN (SELECT {right[0].sql} FROM ({sql}) AS q)"
    if is_negated:
        found = f"NOT coalesce({found}, FALSE)" if is_opposite else f"NOT ({found})"
    is_sure = may_be_null or (is_negated and is_opposite)
    return Typed(f"({found})" if is_sure else f"coalesce({found}, FALSE)", t.BOOLEAN, True)


def _test_of_several(
    left: Sequence[Typed], right: Sequence[Typed], sql: str, is_negated: bool, is_opposite: bool
) -> Typed:
    """The test of several columns: DuckDB takes nulls in rows for values that are equal."""
    listed = ", ".join(f"{each.sql} AS c{n}" for n, each in enumerate(right))
    matches = []
    for n, each in enumerate(left):
        is_open = f" OR ({each.sql}) IS NULL OR w.c{n} IS NULL" if is_negated and not is_opposite else ""
        matches.append(f"({each.sql} = w.c{n}{is_open})")
    rows = f"SELECT 1 FROM (SELECT {listed} FROM ({sql}) AS q) AS w WHERE {' AND '.join(matches)}"
    return Typed(f"({'NOT ' if is_negated else ''}EXISTS ({rows}))", t.BOOLEAN, True)
