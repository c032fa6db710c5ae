"""The tables that a statement names: each place in the text, its name, alias and time travel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakescan.errors import InvalidStatement, UnsupportedFeature
from lakescan.statements.select.table_changes import TableChangesRange, is_call, read_call
from lakescan.statements.syntax.spark_syntax import options_behind
from lakescan.statements.syntax.text import underline_place

_GAP = r"(?:\s|--[^\n]*\n|/\*.*?\*/)"
_TRAVEL = re.compile(
    rf"{_GAP}*(?:for{_GAP}+)?(system_version|version|system_time|timestamp){_GAP}+as{_GAP}+of{_GAP}+",
    re.IGNORECASE | re.DOTALL,
)
_PLAIN = {"this", "db", "catalog", "alias", "version", "joins"}
_NO_VALUES: Mapping[str, Any] = {}
_LONGEST_MOMENT = 64  # tokens of the expression behind TIMESTAMP AS OF


@dataclass(frozen=True)
class TimeTravel:
    """`VERSION AS OF` or `TIMESTAMP AS OF`, and the expression that follows."""

    by_time: bool
    expression: Any


@dataclass(frozen=True, eq=False)
class Occurrence:
    """One place where a statement reads a table.

    - `names`: the parts of its name.
    - `start`, `end`: the place of the name and of the time travel in the text.
    - `alias_at`: where an alias belongs, for a table without one; else None.
    - `full`: the name from the catalog on, if it has one: any end of it may qualify columns.
    - `is_plain`: rows are read as they are: no sample, no pivot.
    - `options`: of the read, as the statement gives them to this table; `end` is behind them.
    - `changes`: the range of a call of `table_changes`, whose place it is then.
    """

    node: Any
    names: tuple[str, ...]
    start: int
    end: int
    alias_at: int | None
    travel: TimeTravel | None
    is_plain: bool
    full: tuple[str, ...] = ()
    changes: TableChangesRange | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def at(self, node: Any) -> Occurrence:
        """The same place in a copy of the tree."""
        return replace(self, node=node)

    @property
    def qualifier(self) -> str:
        """The name by which the rest of the statement refers to it."""
        return self.node.alias or (self.names[-1] if self.changes is None else self.node.this.name)

    @property
    def label(self) -> str:
        """What it is, for people."""
        name = ".".join(self.names)
        return name if self.changes is None else f"table_changes({name})"

    @property
    def qualifiers(self) -> frozenset[tuple[str, ...]]:
        """What columns may be qualified by, in lower case: the alias, else any end of the name."""
        if self.node.alias or self.changes is not None:
            return frozenset({(self.qualifier.lower(),)})
        parts = tuple(name.lower() for name in self.full or self.names)
        return frozenset(parts[n:] for n in range(len(parts)))


def occurrences(tree: Any, text: str, values: Mapping[str, Any] = _NO_VALUES) -> list[Occurrence]:
    """The tables that the tree of a text reads, but not those that are queries of a WITH clause.

    `values` are those of the statement's parameters, some of which may name tables.
    """
    from sqlglot import exp

    calls = [_call(node, text, values) for node in tree.find_all(exp.Table) if is_call(node)]
    found = [node for node in tree.find_all(exp.Table) if isinstance(node.this, exp.Identifier | exp.Dot)]
    read = [node for node in found if node.find_ancestor(exp.Hint) is None]  # hints name tables, too
    return [*calls, *(_occurrence(node, text) for node in read if definition_of(node) is None)]


def _call(node: Any, text: str, values: Mapping[str, Any]) -> Occurrence:
    """A call of `table_changes`."""
    names, changes, start, end = read_call(node, text, values)
    alias_at = None if node.alias else _end_of_sample(node, text, end)
    return Occurrence(node, names, start, end, alias_at, None, _is_plain(node), changes=changes)


def definition_of(table: Any) -> Any:
    """The query of a WITH clause (sqlglot's `CTE`) that a table's name means; None for a table."""
    if len(table.parts) != 1:
        return None
    name, inner = table.name.lower(), table
    for outer in _ancestors(table):
        clause = argument(outer, "with")
        if clause is not None and clause is not inner:
            if (found := _find_query(clause.expressions, name)) is not None:
                return found
        elif clause is not None:  # the table is within the clause: earlier queries are seen, and itself if recursive
            own = next(n for n, each in enumerate(clause.expressions) if _contains(each, table))
            upto = own + 1 if clause.args.get("recursive") else own
            if (found := _find_query(clause.expressions[:upto], name)) is not None:
                return found
        inner = outer
    return None


def argument(node: Any, name: str) -> Any:
    """An argument of a node; sqlglot 28 began to end names that are Python's words with an underscore."""
    return node.args.get(f"{name}_") or node.args.get(name)


def _ancestors(node: Any) -> Iterator[Any]:
    while (node := node.parent) is not None:
        yield node


def _contains(outer: Any, node: Any) -> bool:
    return node is outer or any(each is outer for each in _ancestors(node))


def _find_query(queries: list[Any], name: str) -> Any:
    return next((each for each in reversed(queries) if each.alias.lower() == name), None)


def _occurrence(node: Any, text: str) -> Occurrence:
    parts = node.parts
    if any("start" not in part.meta for part in parts):
        raise UnsupportedFeature(f"the table name {node.sql('spark')!r} in this place")
    start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
    version = node.args.get("version")
    travel = None
    if version is not None:
        if version.args.get("kind") != "AS OF":
            raise _syntax_error(text, start, end, f"time travel {version.sql('spark')!r}")
        travel = TimeTravel(version.name.upper() == "TIMESTAMP", version.expression)
        end = _end_of_travel(text, end, travel)
    options, end = options_behind(text, end) or ({}, end)
    alias_at = None if node.alias else _end_of_sample(node, text, end)
    names = tuple(part.name for part in parts)
    return Occurrence(node, names, start, end, alias_at, travel, _is_plain(node), options=options)


def _is_plain(node: Any) -> bool:
    return not {name for name, value in node.args.items() if value} - _PLAIN


def _end_of_travel(text: str, end: int, travel: TimeTravel) -> int:
    """Where the clause ends: behind the first tokens that mean the same expression."""
    import sqlglot

    found = _TRAVEL.match(text, end)
    if found is None:
        raise _syntax_error(text, end, end + 1, "time travel in this place")
    rest, wanted = text[found.end() :], travel.expression.sql("spark", comments=False)
    for token in sqlglot.tokenize(rest, read="spark")[:_LONGEST_MOMENT]:
        try:
            if sqlglot.parse_one(rest[: token.end + 1], dialect="spark").sql("spark", comments=False) == wanted:
                return found.end() + int(token.end) + 1
        except sqlglot.errors.SqlglotError:
            continue
    raise _syntax_error(text, found.start(), found.end(), f"time travel to {wanted}")


def _end_of_sample(node: Any, text: str, end: int) -> int:
    """The position behind `TABLESAMPLE (...) REPEATABLE (...)`, which stands between a name and its alias."""
    if not node.args.get("sample"):
        return end
    import sqlglot

    depth, last, words = 0, end, ("TABLESAMPLE", "REPEATABLE")
    for token in sqlglot.tokenize(text[end:], read="spark"):
        if depth == 0 and token.text.upper() not in words and token.text != "(":
            break
        depth += (token.text == "(") - (token.text == ")")
        last = end + int(token.end) + 1
    return last


def _syntax_error(text: str, start: int, end: int, what: str) -> InvalidStatement:
    return InvalidStatement(f"{what} is not understood{underline_place(text, start, end)}")
