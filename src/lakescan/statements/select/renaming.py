"""Replace table names in a statement's text."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lakescan.common.identifiers import split_name
from lakescan.errors import InvalidStatement, UnsupportedFeature
from lakescan.statements.select.session import SessionNames
from lakescan.statements.select.table_references import Occurrence, occurrences
from lakescan.statements.syntax.parse import parse_tree
from lakescan.statements.syntax.text import apply_edits, underline_place

_DEEPEST = 50  # levels of nested views


def rename_tables(text: str, tree: Any, names: Mapping[Occurrence, str]) -> str:
    """Return the text with each table replaced by its entry in `names`.

    Added aliases keep the qualifiers of columns valid.
    """
    return apply_edits(text, edits_of_names(tree, names))


def edits_of_names(tree: Any, names: Mapping[Occurrence, str]) -> list[tuple[int, int, str]]:
    """Return the edits that rename tables: start, end and replacement of each edited range of the text."""
    edits = []
    for each, name in names.items():
        alias = f" AS `{each.qualifier.replace('`', '``')}`"
        if each.alias_at is None:
            edits.append((each.start, each.end, name))
        elif each.alias_at == each.end:
            edits.append((each.start, each.end, name + alias))
        else:
            edits += [(each.start, each.end, name), (each.alias_at, each.alias_at, alias)]
    for column, count in long_references(tree, names):
        edits.append((column.parts[0].meta["start"], column.parts[count - 1].meta["start"], ""))
    return edits


def long_references(tree: Any, found: Mapping[Occurrence, Any]) -> list[tuple[Any, int]]:
    """Return the column nodes that are qualified by several names (`db.t.c`), and the number of these names.

    Only qualifiers of the tables in `found` count.
    """
    from sqlglot import exp

    wide = {each for occurrence in found for each in occurrence.qualifiers if len(each) > 1}
    result = []
    for column in tree.find_all(exp.Column):
        names = tuple(part.name.lower() for part in column.parts)
        counts = [count for count in range(2, len(names)) if names[:count] in wide]
        if counts:
            result.append((column, counts[-1]))
    return result


def expand_session_views(text: str, views: SessionNames, tables: Collection[str], values: Mapping[str, Any]) -> str:
    """Return the text with the names of the engine's views replaced by their queries, also in these queries.

    `tables` are the names of tables that the user passed. Raises `InvalidStatement` for time travel of a view and for
    views nested too deeply, and `UnsupportedFeature` if a name in a view's query would refer to a WITH query or frame
    of the statement.
    """
    from sqlglot import exp

    given = {name.lower() for name in (*tables, *views.frame_names())}
    taken = given | {each.alias.lower() for each in parse_tree(text).find_all(exp.CTE)}
    for _ in range(_DEEPEST):
        tree = parse_tree(text)
        queries: dict[Occurrence, str] = {}
        for each in occurrences(tree, text, values):
            name = each.names[0].lower()
            is_short = len(each.names) == 1 and each.changes is None and name not in given
            query = views.query(name) if is_short else None
            if query is None:
                continue
            if each.travel is not None:
                place = underline_place(text, each.start, each.end)
                raise InvalidStatement(f"{each.names[0]} is a view: time travel is only for tables{place}")
            _check_names(name, query, taken)
            queries[each] = query if split_name(query) is not None else f"({query}\n)"
        if not queries:
            return text
        text = rename_tables(text, tree, queries)
    raise InvalidStatement(f"views are nested deeper than {_DEEPEST}, or name each other")


def _check_names(name: str, query: str, taken: Collection[str]) -> None:
    if split_name(query) is not None:
        return
    short = {each.names[0].lower() for each in occurrences(parse_tree(query), query) if len(each.names) == 1}
    if both := sorted(short.intersection(taken)):
        raise UnsupportedFeature(
            f"the view {name!r} in a statement with its own {both[0]!r}",
            "The view reads a table or view of the same name. Rename the query of WITH, or the frame.",
        )
