"""Where the conditions of one SELECT go: each to the source that it is about, and of joins the keys of each side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from lakescan.statements.select.conditions import AmongValues, ResolvedCondition, columns_of, conjuncts, disjuncts
from lakescan.statements.select.relations import FromSource, Origin, Relation


class ColumnResolver(Protocol):
    """What the columns of a SELECT mean."""

    def resolve(self, column: Any, sources: Sequence[FromSource] | None = None) -> Origin | None:
        """The source of a column, and its path there; None where that is not certain."""

    def relation_of_query(self, node: Any) -> Relation:
        """The relation of a query within the SELECT."""


class Conditions:
    """The conditions of one SELECT, in WHERE and ON."""

    def __init__(self, scope: ColumnResolver) -> None:
        self._scope = scope

    def push_part(self, part: Any, visible: list[FromSource], reached: list[FromSource]) -> bool:
        """Push one condition to the source that it is about, if that is among those which it may reach."""
        from sqlglot import exp

        if isinstance(part, exp.In) and part.args.get("query") is not None:
            self._push_membership(part, visible, reached)
        if part.find(exp.Query, exp.Window, exp.AggFunc) is not None:
            return False
        if (sides := equal_columns(part)) is not None:
            left, right = (self._scope.resolve(each, visible) for each in sides)
            if left is not None and right is not None:
                self.push_equality(sides[0], left, right, reached)
        origins = [self._scope.resolve(column, visible) for column in columns_of(part)]
        known = [each for each in origins if each is not None]
        if not known or len(known) < len(origins):
            return False
        if any(each.source is not known[0].source for each in known):
            self._push_shares(part, visible, reached)
            return False
        if all(each is not known[0].source for each in reached):
            return False
        return push(ResolvedCondition(part, columns_of(part)), known, nullable=False)

    def _push_shares(self, part: Any, visible: list[FromSource], reached: list[FromSource]) -> None:
        """Of a disjunction about several sources, push to each of them what all branches say of it alone."""
        from sqlglot import exp

        branches = [conjuncts(each) for each in disjuncts(part)]
        for source in reached if len(branches) > 1 else ():
            shares = [[each for each in branch if self._is_about(each, source, visible)] for branch in branches]
            if all(shares):
                node = exp.paren(exp.or_(*(exp.and_(*share) for share in shares)))
                origins = [self._scope.resolve(column, visible) for column in columns_of(node)]
                known = [each for each in origins if each is not None]
                push(ResolvedCondition(node, columns_of(node)), known, nullable=False)

    def _is_about(self, part: Any, source: FromSource, visible: list[FromSource]) -> bool:
        origins = [self._scope.resolve(column, visible) for column in columns_of(part)]
        return bool(origins) and all(each is not None and each.source is source for each in origins)

    def push_equality(self, column: Any, left: Origin, right: Origin, reached: Sequence[FromSource]) -> None:
        """Each side of a join has only values of the other side, if the join drops its other rows."""
        for target, other in ((left, right), (right, left)):
            values = other.source.relation.values_of(other.path)
            if values and target.source is not other.source and any(each is target.source for each in reached):
                push(AmongValues(column, values), [target], nullable=False)

    def _push_membership(self, part: Any, visible: list[FromSource], reached: list[FromSource]) -> None:
        """`column IN (SELECT ...)`: the column has only values of the query."""
        if columns_of(part.this) != [part.this]:
            return
        origin = self._scope.resolve(part.this, visible)
        relation = self._scope.relation_of_query(part.args["query"])
        if origin is None or relation.columns is None or len(relation.columns) != 1:
            return
        values = relation.values_of((relation.columns[0],)) if relation.columns[0] else ()
        if values and any(each is origin.source for each in reached):
            push(AmongValues(part.this, values), [origin], nullable=False)


def push(condition: ResolvedCondition, origins: Sequence[Origin], nullable: bool) -> bool:
    """Hand a condition to its source, if it is about a single one."""
    source = origins[0].source
    if any(each.source is not source for each in origins):
        return False
    return source.relation.push(condition, [each.path for each in origins], nullable or source.nullable)


def equal_columns(part: Any) -> tuple[Any, Any] | None:
    """The columns of a condition that two columns are equal; None for another one."""
    from sqlglot import exp

    if not isinstance(part, exp.EQ):
        return None
    left, right = part.left.unnest(), part.right.unnest()
    return (left, right) if columns_of(left) == [left] and columns_of(right) == [right] else None
