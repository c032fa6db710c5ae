"""Work with the conditions of a statement (sqlglot trees) and the columns in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakescan.statements.select.table_references import Occurrence

Path = tuple[str, ...]


@dataclass
class ResolvedCondition:
    """A condition (sqlglot tree), and its column nodes in the order of `columns_of`."""

    node: Any
    columns: list[Any]

    def with_paths(self, paths: Sequence[Path]) -> ResolvedCondition:
        """Return a copy of the condition with its columns replaced by `paths`, in the same order."""
        node = self.node.copy()
        copies = columns_of(node)
        new = [_column(path) for path in paths]
        for old, column in zip(copies, new, strict=True):
            if old is node:
                node = column
            else:
                old.replace(column)
        return ResolvedCondition(node, new)


@dataclass(frozen=True)
class ValuesOf:
    """The values of a column in one occurrence of a table.

    `path` has the names of the column and of struct members in it.
    """

    occurrence: Occurrence
    path: Path


class AmongValues(ResolvedCondition):
    """The condition that a column equals one of the values of the table columns `values`, as a join or IN requires."""

    def __init__(self, column: Any, values: tuple[ValuesOf, ...]) -> None:
        super().__init__(column, [column])
        self.values = values


def _column(path: Path) -> Any:
    from sqlglot import exp

    first, *rest = (exp.to_identifier(name, quoted=True) for name in path)
    return exp.Dot.build([exp.Column(this=first), *rest]) if rest else exp.Column(this=first)


def columns_of(node: Any) -> list[Any]:
    """Return the column nodes of a condition, with the struct members that follow them, in a fixed order."""
    from sqlglot import exp

    found, pending = [], [node]
    while pending:
        each = pending.pop()
        if isinstance(each, exp.Column) or (isinstance(each, exp.Dot) and is_path(each)):
            found.append(each)
        else:
            pending += each.iter_expressions()
    return found


def is_path(dot: Any) -> bool:
    """Return whether a chain of dots is a column followed by struct members."""
    from sqlglot import exp

    while isinstance(dot, exp.Dot) and isinstance(dot.expression, exp.Identifier):
        dot = dot.this
    return isinstance(dot, exp.Column)


def conjuncts(node: Any) -> list[Any]:
    """Return the operands of a chain of AND without parentheses around them; the condition itself if it is not AND."""
    from sqlglot import exp

    return _parts(node, exp.And)


def disjuncts(node: Any) -> list[Any]:
    """Return the operands of a chain of OR without parentheses around them; the condition itself if it is not OR."""
    from sqlglot import exp

    return _parts(node, exp.Or)


def _parts(node: Any, kind: Any) -> list[Any]:
    """Return the operands of a chain of the operator `kind`, a sqlglot class. Iterative, because chains may be long."""
    from sqlglot import exp

    found, pending = [], [node]
    while pending:
        each = pending.pop()
        if isinstance(each, exp.Paren):
            pending.append(each.this)
        elif isinstance(each, kind):
            pending += [each.right, each.left]
        else:
            found.append(each)
    return found


def own_nodes(select: Any, kind: type) -> Iterator[Any]:
    """Yield the nodes of the class `kind` below a node, without those in subqueries."""
    from sqlglot import exp

    pending = list(select.iter_expressions())
    while pending:
        node = pending.pop()
        if isinstance(node, kind):
            yield node
        if not isinstance(node, exp.Query | exp.CTE) or (
            isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table)
        ):
            pending += node.iter_expressions()
