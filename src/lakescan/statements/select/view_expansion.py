"""Catalog views in queries: replace the name of a view by its query.

A view's query means the same wherever it is read: short names are resolved in the view's own namespace, and it has the
columns of the time when it was created.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakescan.api.open import split_metadata_name
from lakescan.api.view import View
from lakescan.catalogs.registry import is_known, location_limits
from lakescan.common.identifiers import Identifier
from lakescan.common.references import backquote
from lakescan.errors import InvalidStatement, NoSuchCatalog, NoSuchTable, UnsupportedFeature
from lakescan.statements.select.renaming import rename_tables
from lakescan.statements.select.table_references import Occurrence, occurrences
from lakescan.statements.select.table_resolution import FORMATS, TableResolver
from lakescan.statements.select.view_functions import FUNCTIONS
from lakescan.statements.syntax.parse import has_pipes, parse_tree, statement_of
from lakescan.statements.syntax.spark_syntax import resolve_identifiers, rewrite_syntax
from lakescan.statements.syntax.text import apply_edits, underline_place

_DEEPEST = 50  # levels of nested views
_NO_VALUES: Mapping[str, Any] = {}


def expand_catalog_views(
    text: str, tree: Any, tables: TableResolver, values: Mapping[str, Any], within: tuple[Identifier, ...] = ()
) -> str:
    """Replace the names of catalog views in a query by the views' queries.

    Args:
        text: A query.
        tree: The sqlglot tree of `text`.
        tables: Resolves the names of the query.
        values: The statement's parameters, by name.
        within: The views that contain this query, from the outermost.

    Raises:
        InvalidStatement: A view is read with time travel, or views read each other.
        NoSuchTable: A view reads a table that does not exist.
        UnsupportedFeature: A view has no query in Spark's dialect.
    """
    queries: dict[Occurrence, str] = {}
    for each in occurrences(tree, text, values):
        view = tables.view(each.names)
        if view is None:
            continue
        _check_plain(each, text)
        queries[each] = f"({_query_of(View(view), view.location, tables, within)}\n)"
    return rename_tables(text, tree, queries) if queries else text


def _check_plain(each: Occurrence, text: str) -> None:
    place = underline_place(text, each.start, each.end)
    if each.travel is not None:
        raise InvalidStatement(f"{each.names[-1]} is a view: time travel is only for tables{place}")
    if each.changes is not None:
        raise InvalidStatement(f"{each.names[-1]} is a view: table_changes is only for tables{place}")


def _query_of(view: View, home: str | None, tables: TableResolver, within: tuple[Identifier, ...]) -> str:
    """Return the query of a view over tables only, with the view's column names.

    `home` is the view's metadata file, if its catalog has one, and `within` the views that contain this one. Raises
    `InvalidStatement` for views that read each other, and `LocationRefused` for a table path that tables of the view's
    catalog may not refer to.
    """
    if view.name in within:
        chain = " -> ".join(map(str, (*within[within.index(view.name) :], view.name)))
        raise InvalidStatement(f"views read each other: {chain}. Replace one of them by a query over tables")
    if len(within) >= _DEEPEST:
        raise InvalidStatement(f"views are nested deeper than {_DEEPEST}: {within[0]} is the outermost")
    text = qualify_names(_as_tokens(view), view.default_namespace, f"the view {view.name}")
    tree = parse_tree(text)
    _check_functions(tree, view)
    allowed = location_limits(view.name.catalog, home or view.location)
    for each in occurrences(tree, text):
        if _is_path(each.names):
            allowed.check(split_metadata_name(each.names[1])[0])
        if tables.view(each.names) is None:
            _check_there(each, tables, view)
    columns = view.schema.names
    return _rename_columns(
        expand_catalog_views(text, tree, tables, _NO_VALUES, (*within, view.name)), tree, view.query_columns, columns
    )


def _as_tokens(view: View) -> str:
    """Return the query of a view without comments and hints, so that every parser reads the same tokens.

    Parsers disagree about where comments end, and Spark substitutes variables before it parses. Raises
    `UnsupportedFeature` for variables.
    """
    from sqlglot.dialects import Spark
    from sqlglot.tokens import TokenType

    text, end = "", 0
    for token in Spark().tokenize(view.query):
        if token.start < end or token.token_type is TokenType.HINT:  # `2L` is three tokens at one place
            continue
        is_apart = token.start > end and text  # `>>` is two tokens side by side
        text += (" " if is_apart else "") + view.query[token.start : token.end + 1]
        end = token.end + 1
    if "${" in text:
        raise UnsupportedFeature(
            f"'${{' in the view {view.name}", "Spark replaces such variables by settings. Write the values instead."
        )
    return text


def _check_functions(tree: Any, view: View) -> None:
    """Raise `UnsupportedFeature` for a call that could run code of the view's writer in the reader's process."""
    from sqlglot import exp

    called = (each.name for each in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc))
    found = next((each for each in called if each.lower() not in FUNCTIONS), None)
    if found is None and tree.find(exp.QueryTransform) is not None:
        found = "TRANSFORM"
    if found is not None:
        raise UnsupportedFeature(
            f"{found!r} in the view {view.name}",
            "Views may only call built-in functions of Spark that cannot run other code. Use the view's query instead.",
        )


def _check_there(each: Occurrence, tables: TableResolver, view: View) -> None:
    """Raise `NoSuchTable`, naming the view, if a table that it reads does not exist."""
    try:
        tables.resolve_table(each)
    except NoSuchTable as error:
        what = str(error).splitlines()[0].split(" (line")[0]
        raise NoSuchTable(
            f"the view {view.name} reads {'.'.join(each.names)}: {what}. Its query: {view.query}"
        ) from error


def _rename_columns(text: str, tree: Any, own: tuple[str, ...], names: list[str]) -> str:
    """Rename the columns of a view's query to `names`, the columns of the view.

    Columns of `SELECT *` are matched by `own`, the names they had when the view was created, because tables may have
    changed since. Other columns are matched by position.
    """
    if not (_has_star(tree) or has_pipes(text)):
        if tree.named_selects == names:
            return text
        return f"SELECT * FROM ({text}\n) AS `lakescan_view` ({', '.join(map(backquote, names))})"
    if len({each.lower() for each in own}) < len(names):
        return f"SELECT * FROM ({text}\n) AS `lakescan_view` ({', '.join(map(backquote, names))})"
    columns = ", ".join(f"{backquote(one)} AS {backquote(name)}" for one, name in zip(own, names, strict=True))
    return f"SELECT {columns} FROM ({text}\n)"


def _has_star(tree: Any) -> bool:
    """Return whether a query selects columns by `*`."""
    from sqlglot import exp

    selects = [tree, *tree.find_all(exp.Select)] if not isinstance(tree, exp.Select) else [tree]
    return any(each.is_star for each in selects if isinstance(each, exp.Query))


def qualify_names(text: str, within: tuple[str, ...], what: str) -> str:
    """Rewrite a view's query so that table names include their catalog.

    Args:
        text: The query.
        within: The catalog and namespace of its short names.
        what: The view, for messages.

    Raises:
        InvalidStatement: The text is not a query, or it has parameters.
        NoSuchCatalog: The catalog of its short names is not registered.
    """
    from sqlglot import exp

    text = rewrite_syntax(statement_of(text).text)
    text = resolve_identifiers(text, parse_tree(text), _NO_VALUES)
    tree = parse_tree(text)
    if (parameter := next(tree.find_all(exp.Placeholder, exp.Parameter), None)) is not None:
        raise InvalidStatement(f"{what} takes no parameters, but has {parameter.sql('spark')}: write values instead")
    edits = []
    for each in occurrences(tree, text):
        full = _absolute(each, within, what)
        if full == each.names:
            continue
        if each.changes is not None:
            raise InvalidStatement(f"in {what}, table_changes needs the name with its catalog: {'.'.join(full)}")
        parts = each.node.parts
        edits.append((parts[0].meta["start"], parts[-1].meta["end"] + 1, ".".join(map(backquote, full))))
    return apply_edits(text, edits)


def _is_path(names: tuple[str, ...]) -> bool:
    """Return whether a name is a format and a path, such as ``delta.`/path` ``."""
    return names[0].lower() in FORMATS and (len(names) == 2 or (len(names) == 3 and not is_known(names[0])))


def _absolute(each: Occurrence, within: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Return a name with its catalog, by Spark's rules for views. The path of a table is returned unchanged.

    `within` is the catalog and namespace of short names. Raises `NoSuchCatalog` if the catalog is not registered.
    """
    names = each.names
    if _is_path(names) or (len(names) > 2 and is_known(names[0])):
        return names
    if not is_known(within[0]):
        raise NoSuchCatalog(
            f"{what} reads {'.'.join(names)}, but no catalog is registered as {within[0]!r}: see lakescan.catalog"
        )
    return (*within, *names) if len(names) == 1 else (within[0], *names)
