"""Find the columns, conditions and limit that can be pushed into the scan of each table without changing the result.

Each occurrence of a table is handled separately. A condition reaches a table from WHERE, and from ON where the join
allows it, through derived tables, WITH queries and unions. The engine still evaluates the whole statement, so a
condition may be pushed in part or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.local.aggregates import Aggregate
from lakescan.statements.select.conditions import own_nodes
from lakescan.statements.select.relations import (
    FrameRelation,
    OpaqueRelation,
    Pushdown,
    Relation,
    SharedRelation,
    TableRelation,
    UnionRelation,
)
from lakescan.statements.select.select_scope import SelectRelation, SelectScope
from lakescan.statements.select.session import QuerySettings
from lakescan.statements.select.table_references import Occurrence, argument, definition_of

_OF_SET_OPERATION = {"with", "this", "expression", "expressions", "distinct", "order"}


def find_pushdowns(
    tree: Any,
    schemas: Mapping[Occurrence, Schema],
    frames: Mapping[Occurrence, Sequence[str]],
    settings: QuerySettings,
) -> dict[Occurrence, Pushdown]:
    """Return the columns, conditions and limit to push into each scan, by occurrence.

    `tree` is the sqlglot tree. `schemas` are the schemas of the tables to scan, `frames` the column names of the
    engine's own views and frames.
    """
    analysis = Analysis({id(each.node): each for each in (*schemas, *frames)}, schemas, settings, frames)
    analysis.run(tree)
    used = _ColumnUse(tree)
    for each, pushed in analysis.pushed.items():
        pushed.columns = used.columns(each, schemas[each])
    return analysis.pushed


class _ColumnUse:
    """The columns that a statement may read: all names in its text, or all columns where a star may mean them."""

    def __init__(self, tree: Any) -> None:
        from sqlglot import exp

        self.names = {each.name.lower() for each in tree.find_all(exp.Identifier)}
        laterals = [each for lateral in tree.find_all(exp.Lateral) for each in lateral.find_all(exp.Star)]
        self.everything = (
            bool(laterals)
            or _has_other_readers(tree)
            or any(tree.find_all(exp.Pivot))
            or any(str(each.args.get("method") or "").upper() == "NATURAL" for each in tree.find_all(exp.Join))
        )
        self.columns_alone = {each.name.lower() for each in tree.find_all(exp.Column) if not each.table}

    def columns(self, each: Occurrence, schema: Schema) -> tuple[str, ...] | None:
        """Return the names of the columns that the statement may read from an occurrence; None for all of them.

        If it reads only the number of rows, the cheapest column is returned.
        """
        select = _select_of(each.node)
        if _has_names_for_columns(each.node):
            return None
        if not schema.fields or self.everything or select is None or _has_star(select) or not each.is_plain:
            return None
        names = tuple(name for name in schema.names if name.lower() in self.names)
        if each.qualifier.lower() in self.columns_alone and each.qualifier.lower() not in map(str.lower, schema.names):
            return None  # DuckDB takes a table's name for a struct of its columns
        return names or (_cheapest(schema),)


def _has_other_readers(tree: Any) -> bool:
    """Return whether tables may be named by strings or be arguments, as in IDENTIFIER('t') or f(TABLE(t))."""
    from sqlglot import exp

    functions = (each for each in tree.find_all(exp.Table) if not isinstance(each.this, exp.Identifier | exp.Dot))
    return any(each.name.lower() == "identifier" for each in tree.find_all(exp.Anonymous)) or any(
        each.find(exp.Column, exp.Table) is not each or each.find(exp.Column) is not None for each in functions
    )


def _has_names_for_columns(table: Any) -> bool:
    """Return whether a table's columns are renamed by position, as in `t AS q(a, b)`."""
    from sqlglot import exp

    node = table
    while isinstance(node, exp.Table | exp.From | exp.Join) or (
        isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table)
    ):
        alias = node.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            return True
        node = node.parent
    return False


def _select_of(table: Any) -> Any:
    """Return the SELECT whose FROM or JOIN contains a table; None if it is elsewhere."""
    from sqlglot import exp

    node = table.parent
    while isinstance(node, exp.From | exp.Join | exp.Table) or (
        isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table)
    ):
        node = node.parent
    return node if isinstance(node, exp.Select) else None


def _has_star(select: Any) -> bool:
    """Return whether a SELECT, without its subqueries, has a star other than that of `count(*)`."""
    from sqlglot import exp

    return any(
        not isinstance(star.parent, exp.Count) or star.args.get("except_") for star in own_nodes(select, exp.Star)
    )


def _cheapest(schema: Schema) -> str:
    """Return the name of the column that is cheapest to read, for queries that need only the number of rows."""
    fixed: tuple[t.Type, ...] = (t.BOOLEAN, t.BYTE, t.SHORT, t.INT, t.DATE, t.LONG, *t.FLOATING)
    ranked = {each: n for n, each in enumerate(fixed)}
    return min(schema.fields, key=lambda each: ranked.get(each.type, len(ranked))).name


class Analysis:
    """The analysis of a whole statement.

    - `tables`: the occurrences, by the id of their sqlglot node.
    - `schemas`: the schemas of the tables to scan. `frames`: the column names of the engine's own views and frames.
    - `pushed`: the pushdown of each table to scan, filled by `run`.
    """

    def __init__(
        self,
        tables: Mapping[int, Occurrence],
        schemas: Mapping[Occurrence, Schema],
        settings: QuerySettings,
        frames: Mapping[Occurrence, Sequence[str]],
    ) -> None:
        self._tables, self._schemas, self._settings = tables, schemas, settings
        self.pushed: dict[Occurrence, Pushdown] = {each: Pushdown() for each in schemas}
        self._frames = frames
        self._selects: dict[int, SelectScope] = {}
        self._readers: dict[int, list[Any]] = {}
        self._shared: dict[int, SharedRelation] = {}

    def run(self, tree: Any) -> None:
        """Analyze every SELECT of the statement, the outermost first, and fill `pushed`."""
        from sqlglot import exp

        if not _has_other_readers(tree):
            for table in tree.find_all(exp.Table):
                if isinstance(table.this, exp.Identifier) and (found := definition_of(table)) is not None:
                    self._readers.setdefault(id(found), []).append(table)
        selects = [self.select(each) for each in list(tree.find_all(exp.Select))]
        for each in selects:
            outer = each.node.find_ancestor(exp.Select)
            if outer is not None and not isinstance(each.node.parent, exp.From | exp.Join):
                each.push_correlated(self.select(outer))
        self._push_shared_conditions()
        top = tree
        while isinstance(top, exp.Subquery) and not {n for n, value in top.args.items() if value} - {"this"}:
            top = top.this
        if isinstance(top, exp.Select) and (rows := self.select(top).limit()) is not None:
            self._limit(top, rows)
        if isinstance(top, exp.Select) and (found := self.select(top).aggregates()):
            self._aggregate(top, found)

    def _push_shared_conditions(self) -> None:
        """Push the disjunction of its readers' conditions into each WITH query that is read several times.

        A WITH query comes after the WITH queries that read it.
        """
        done: set[int] = set()

        def push_shared(key: int) -> None:
            if key in done:
                return
            done.add(key)
            for reader in self._readers.get(key, ()):
                for each in self._readers:
                    if any(id(outer) == each for outer in _ancestors(reader)):
                        push_shared(each)
            if key in self._shared:
                self._shared[key].push_common_conditions()

        for key in self._readers:
            push_shared(key)

    def _limit(self, top: Any, rows: int) -> None:
        table = argument(top, "from").this
        occurrence = self._tables.get(id(table))
        if occurrence in self.pushed and occurrence is not None and occurrence.is_plain and not table.args.get("joins"):
            self.pushed[occurrence].limit = rows

    def _aggregate(self, top: Any, found: tuple[Aggregate, ...]) -> None:
        table = argument(top, "from").this
        occurrence = self._tables.get(id(table))
        if occurrence is None or occurrence not in self.pushed or not occurrence.is_plain or table.args.get("joins"):
            return
        exact = {name.lower(): name for name in self._schemas[occurrence].names}
        self.pushed[occurrence].aggregates = tuple(
            each if each.column is None else replace(each, column=exact[each.column.lower()]) for each in found
        )

    def select(self, node: Any) -> SelectScope:
        """Return the scope of a SELECT node. The first call creates it, which pushes its conditions."""
        if id(node) not in self._selects:
            self._selects[id(node)] = SelectScope(node, self)
        return self._selects[id(node)]

    def occurrence_of(self, node: Any) -> Occurrence | None:
        """Return the occurrence of a table node; None for other names, such as that of a WITH query."""
        return self._tables.get(id(node))

    def relation_of_table(self, node: Any, names: Sequence[str]) -> Relation:
        """Return the relation of a table node: a scan, a frame, a WITH query, or a relation with unknown columns.

        `names` are the columns' new names, as in `t AS q(a, b)`; empty without new names.
        """
        occurrence = self._tables.get(id(node))
        if occurrence is not None:
            if occurrence in self._frames and not names and occurrence.is_plain:
                return FrameRelation(occurrence, self._frames[occurrence])
            if occurrence not in self._schemas or names:
                return Relation()
            return TableRelation(occurrence, self._schemas[occurrence], self.pushed[occurrence], self._settings)
        definition = definition_of(node)
        extra = {name for name, value in node.args.items() if value} - {"this", "alias", "joins"}
        if definition is None or extra or _contains(definition, node):
            return Relation()
        own = [each.name for each in definition.args["alias"].columns]
        relation = self.relation_of_query(definition.this, names or own)
        readers = len(self._readers.get(id(definition), ()))
        if readers > 1 and not names:
            return self._shared.setdefault(id(definition), SharedRelation(relation, readers)).add_reader()
        return relation if readers == 1 else OpaqueRelation(relation.columns)

    def relation_of_query(self, node: Any, names: Sequence[str]) -> Relation:
        """Return the relation of a query node. `names` are its columns' new names; empty without new names.

        A query that accepts no conditions, such as one with LIMIT around a union, is a relation with unknown columns.
        """
        from sqlglot import exp

        if isinstance(node, exp.Select):
            return SelectRelation(self.select(node), names or None)
        if isinstance(node, exp.Subquery) and not {n for n, value in node.args.items() if value} - {"this"}:
            return self.relation_of_query(node.this, names)
        if isinstance(node, exp.SetOperation) and not names:
            sides = [self.relation_of_query(each, ()) for each in (node.this, node.expression)]
            is_transparent = not {n.rstrip("_") for n, value in node.args.items() if value} - _OF_SET_OPERATION
            return UnionRelation(sides[0], sides[1], is_transparent)
        return Relation()


def _ancestors(node: Any) -> Iterator[Any]:
    while node is not None:
        yield node
        node = node.parent


def _contains(outer: Any, node: Any) -> bool:
    return any(each is outer for each in _ancestors(node))
