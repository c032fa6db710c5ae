"""Find the tables that a statement reads: each occurrence in the text, with its name, alias and time travel."""

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
_LONGEST_MOMENT = 64  # tokens of the expression after TIMESTAMP AS OF


@dataclass(frozen=True)
class TimeTravel:
    """`VERSION AS OF` or (if `by_time`) `TIMESTAMP AS OF`, and the expression after it."""

    by_time: bool
    expression: Any


@dataclass(frozen=True, eq=False)
class Occurrence:
    """One place where a statement reads a table.

    - `node`: the node of the table in the sqlglot tree. `names`: the parts of its name.
    - `start`, `end`: the range of the text with the name, the time travel and the options.
    - `alias_at`: the position where an alias can be inserted, or None if the table has one.
    - `travel`: its time travel, if any.
    - `is_plain`: whether the rows are read unchanged, without a sample or pivot.
    - `full`: the name including its catalog, if it has one. Any trailing part of it may qualify columns.
    - `changes`: the range, if the occurrence is a call of `table_changes`.
    - `options`: the read options that the statement sets for this table.
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
        """Return the same occurrence in a copy of the tree, where `node` is the node of the table."""
        return replace(self, node=node)

    @property
    def qualifier(self) -> str:
        """The name that the rest of the statement uses for the table."""
        return self.node.alias or (self.names[-1] if self.changes is None else self.node.this.name)

    @property
    def label(self) -> str:
        """The table's name, or its `table_changes` call, for messages."""
        name = ".".join(self.names)
        return name if self.changes is None else f"table_changes({name})"

    @property
    def qualifiers(self) -> frozenset[tuple[str, ...]]:
        """The qualifiers of its columns, in lower case: the alias, or else any trailing part of the name."""
        if self.node.alias or self.changes is not None:
            return frozenset({(self.qualifier.lower(),)})
        parts = tuple(name.lower() for name in self.full or self.names)
        return frozenset(parts[n:] for n in range(len(parts)))


def occurrences(tree: Any, text: str, values: Mapping[str, Any] = _NO_VALUES) -> list[Occurrence]:
    """Return the tables that a statement reads, without the names of WITH queries.

    `values` are the statement's parameters, which may name tables.
    """
    from sqlglot import exp

    calls = [_call(node, text, values) for node in tree.find_all(exp.Table) if is_call(node)]
    found = [node for node in tree.find_all(exp.Table) if isinstance(node.this, exp.Identifier | exp.Dot)]
    read = [node for node in found if node.find_ancestor(exp.Hint) is None]  # hints name tables, too
    return [*calls, *(_occurrence(node, text) for node in read if definition_of(node) is None)]


def _call(node: Any, text: str, values: Mapping[str, Any]) -> Occurrence:
    """Return the occurrence of a call of `table_changes`."""
    names, changes, start, end = read_call(node, text, values)
    alias_at = None if node.alias else _end_of_sample(node, text, end)
    return Occurrence(node, names, start, end, alias_at, None, _is_plain(node), changes=changes)


def definition_of(table: Any) -> Any:
    """Return the WITH query (sqlglot's `CTE`) that a table's name refers to; None for a table."""
    if len(table.parts) != 1:
        return None
    name, inner = table.name.lower(), table
    for outer in _ancestors(table):
        clause = argument(outer, "with")
        if clause is not None and clause is not inner:
            if (found := _find_query(clause.expressions, name)) is not None:
                return found
        elif clause is not None:  # within WITH, a query sees only earlier queries, and itself if it is recursive
            own = next(n for n, each in enumerate(clause.expressions) if _contains(each, table))
            upto = own + 1 if clause.args.get("recursive") else own
            if (found := _find_query(clause.expressions[:upto], name)) is not None:
                return found
        inner = outer
    return None


def argument(node: Any, name: str) -> Any:
    """Return an argument of a sqlglot node, such as `from`; None if it is not set.

    sqlglot 28 began to end the names that are Python keywords with an underscore.
    """
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
    """Return the end of the time travel clause at `end`, after the first tokens that parse to its expression.

    Raises `InvalidStatement` if the clause cannot be found.
    """
    import sqlglot

    found = _TRAVEL.match(text, end)
    if found is None:
        raise _syntax_error(text, end, end + 1, "time travel in this place")
    rest, wanted = text[found.end() :], travel.expression.sql("spark", comments=False)
    words = list(sqlglot.tokenize(rest, read="spark")[:_LONGEST_MOMENT])
    for n, token in enumerate(words):
        try:
            if sqlglot.parse_one(rest[: token.end + 1], dialect="spark").sql("spark", comments=False) == wanted:
                if [each.text for each in words[n + 1 : n + 3]] == ["(", ")"]:  # current_timestamp()
                    token = words[n + 2]
                return found.end() + int(token.end) + 1
        except sqlglot.errors.SqlglotError:
            continue
    raise _syntax_error(text, found.start(), found.end(), f"time travel to {wanted}")


def _end_of_sample(node: Any, text: str, end: int) -> int:
    """Return the end of `TABLESAMPLE (...) REPEATABLE (...)` at `end`, which comes between a name and its alias.

    Returns `end` for a table without a sample.
    """
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
    return InvalidStatement(f"{what} cannot be parsed{underline_place(text, start, end)}")
