"""Check and rewrite the expressions of a statement that changes rows, and map errors to places in the user's text.

The engines run one query that combines the expressions (`statements.rows.change_query`). Combining them must not change
their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from lakescan.common.references import backquote
from lakescan.errors import InvalidStatement, NoSuchColumn, NoSuchNamespace, NoSuchTable
from lakescan.statements.syntax.dml import Clause, Delete, Merge, Update, When
from lakescan.statements.syntax.text import Sql, TableName, tokens, underline_place

_PLACE = re.compile(r" \(line (\d+), column (\d+)\)\n[^\n]*\n *(\^+)\s*$")
_COLUMNS = re.compile(r" There are: ([^\n]*)\.(?=\Z| Did you| \(line)")
_QUALIFIED = re.compile(r"^there is no column '([^\n'.]+)\.[^\n']*'\.")
_UNSTABLE = frozenset(
    ("rand", "randn", "random", "uuid", "shuffle", "monotonically_increasing_id", "spark_partition_id")
)
_Statement = TypeVar("_Statement", bound=Delete | Update | Merge)


def check_parts(statement: Delete | Update | Merge) -> None:
    """Raise `InvalidStatement` for an expression that is empty, is not balanced, or reads a side without rows.

    A MERGE clause for unmatched rows can read only the side that has them.

    Example:
        >>> check_parts(Delete(TableName(("t",)), Sql("id = 1) OR (TRUE")))
        Traceback (most recent call last):
        lakescan.errors.InvalidStatement: not valid SQL: nothing opens this ')' (line 1, column 7) ...
    """
    for each in _expressions(statement):
        _check_whole(each.text)
    if not isinstance(statement, Merge):
        return
    source, target = statement.source_alias, statement.target.qualifier
    for clause in statement.clauses:
        absent = {When.NOT_MATCHED: target, When.NOT_MATCHED_BY_SOURCE: source}.get(clause.when)
        if absent is not None:
            for each in _clause_expressions(clause):
                _check_reads(each.text, absent, clause.when)


def unstable_call(text: str) -> str | None:
    """Return the first nondeterministic function that an expression calls, such as `rand`; None without one.

    Example:
        >>> unstable_call("note = 'rand()' AND rand () > price"), unstable_call("note = 'rand()'")
        ('rand', None)
    """
    for name, behind in pairwise(tokens(text)):
        is_call = behind.text == "(" and "STRING" not in name.token_type.name
        if is_call and name.text.lower() in _UNSTABLE:
            return str(name.text)
    return None


def _check_whole(text: str) -> None:
    opened = []
    words = tokens(text)
    if not words:
        raise InvalidStatement("an expression is empty: leave the condition out, or write one")
    for word in words:
        if word.token_type.name == "L_PAREN":
            opened.append(word)
        elif word.token_type.name == "R_PAREN":
            if not opened:
                place = underline_place(text, word.start, word.end + 1)
                raise InvalidStatement(f"not valid SQL: nothing opens this ')'{place}")
            opened.pop()
    if opened:
        place = underline_place(text, opened[-1].start, opened[-1].end + 1)
        raise InvalidStatement(f"not valid SQL: this parenthesis is not closed{place}")


def _check_reads(text: str, absent: str, when: When) -> None:
    """Raise `InvalidStatement` if a MERGE clause reads the side `absent`, which has no row for it.

    Expressions with subqueries are not checked, because names in them may mean the subqueries' own tables.
    """
    words = tokens(text)
    if any(word.text.upper() == "SELECT" for word in words):
        return
    for n, (name, dot) in enumerate(pairwise(words)):
        is_first = n == 0 or words[n - 1].text != "."
        if is_first and dot.text == "." and name.token_type.name != "STRING" and name.text.lower() == absent.lower():
            place = underline_place(text, name.start, name.end + 1)
            raise InvalidStatement(f"a clause for rows that are {when} cannot read columns of {absent}{place}")


def shorten_names(statement: _Statement, columns: Sequence[str]) -> _Statement:
    """Replace the table's full name in front of columns (`db.t.id`) by its last part.

    Example:
        >>> shorten_names(Delete(TableName(("db", "t")), Sql("db.t.id = 1")), ["id"]).where.text
        '`t`.id = 1'
    """
    target = statement.target
    if target.alias is not None or len(target.parts) < 2:
        return statement
    known = {name.lower() for name in columns}
    return _map_expressions(statement, lambda each: replace(each, text=_shorten(each.text, target, known)))


def _shorten(text: str, target: TableName, known: set[str]) -> str:
    parts = [part.lower() for part in target.parts]
    if parts[-1] not in text.lower():
        return text
    words, edits = tokens(text), []
    for n, word in enumerate(words):
        if n and words[n - 1].text.upper() in (".", "FROM", "JOIN"):
            continue
        names = [word]
        while n + 2 * len(names) < len(words) and words[n + 2 * len(names) - 1].text == ".":
            names.append(words[n + 2 * len(names)])
        lower = [each.text.lower() for each in names]
        for size in range(min(len(parts), len(names) - 1), 1, -1):
            if lower[:size] == parts[-size:] and lower[size] in known:
                edits.append((word.start, names[size - 1].end + 1))
                break
    short = backquote(target.qualifier)
    for start, end in reversed(edits):
        text = text[:start] + short + text[end:]
    return text


def qualify_sides(statement: _Statement, target: Sequence[str], source: Sequence[str]) -> _Statement:
    """Qualify unqualified columns in MERGE clauses for unmatched rows, which have only one side.

    Without the qualifier, the name could mean a column of either side.

    Args:
        statement: The statement.
        target: The names of the target's columns.
        source: The names of the source's columns, if they are known.

    Example:
        >>> qualify_sides(merge, ["id"], ["id"]).clauses[0].assignments[0].value.text
        '`s`.id'
    """
    if not isinstance(statement, Merge) or statement.source_alias is None:
        return statement
    sides = {
        When.NOT_MATCHED: (statement.source_alias, {name.lower() for name in source}),
        When.NOT_MATCHED_BY_SOURCE: (statement.target.qualifier, {name.lower() for name in target}),
    }
    clauses = []
    for each in statement.clauses:
        if each.when not in sides:
            clauses.append(each)
            continue
        one = replace(statement, clauses=(each,), on=Sql("TRUE"))
        side, names = sides[each.when]
        clauses += _map_expressions(one, partial(_qualify, side=side, names=names)).clauses
    return replace(statement, clauses=tuple(clauses))


def _qualify(each: Sql, side: str, names: set[str]) -> Sql:
    return replace(each, text=_qualify_names(each.text, side, names))


def _qualify_names(text: str, side: str, names: set[str]) -> str:
    words = tokens(text)
    if any(word.text.upper() == "SELECT" or word.text == "->" for word in words):
        return text  # names may belong to other tables or to lambda functions
    marked = f"{backquote(side)}."
    places = []
    for n, word in enumerate(words):
        before, after = words[n - 1].text if n else "", words[n + 1].text if n + 1 < len(words) else ""
        is_name = word.token_type.name in ("VAR", "IDENTIFIER") and word.text.lower() in names
        if is_name and before != "." and after != "(" and not (after == "." and word.text.lower() == side.lower()):
            places.append(word.start)
    for place in reversed(places):
        text = text[:place] + marked + text[place:]
    return text


@contextmanager
def translate_error_places(statement: Delete | Update | Merge, query: str, columns: Sequence[str]) -> Iterator[None]:
    """Context manager: make errors of a query refer to the user's expressions and columns instead of the query's.

    Args:
        statement: The statement, whose expression is underlined.
        query: The query that was built for it.
        columns: The names of the table's columns, to be listed instead of the query's (not for MERGE).
    """
    try:
        yield
    except (InvalidStatement, NoSuchColumn, NoSuchNamespace, NoSuchTable) as error:
        message = str(error)
        if "neither in GROUP BY nor in an aggregate function" in message:
            raise InvalidStatement(
                "aggregate functions cannot be used in a statement that changes rows: use a subquery, (SELECT max(...) "
                "FROM ...)"
            ) from error
        there = "" if isinstance(statement, Merge) else f" There are: {', '.join(columns)}."
        message = _COLUMNS.sub(lambda _: there, message)
        if isinstance(statement, Merge):
            message = _QUALIFIED.sub(lambda absent: f"{absent[0]}{_sides(statement, absent[1])}", message)
        message = relocate_error(statement, query, message)
        if message == str(error):
            raise
        raise type(error)(message) from error


def relocate_error(statement: Delete | Update | Merge, query: str, message: str) -> str:
    """Return an error message about a query with the place in the user's expression instead of the place in the query.

    A message without a place is returned unchanged.
    """
    found = _PLACE.search(message)
    return message if found is None else message[: found.start()] + _own_place(statement, query, found)


def _sides(statement: Merge, qualifier: str) -> str:
    """Return a hint with the qualifiers of a MERGE's sides, if `qualifier` is not one of them; otherwise ""."""
    target, source = statement.target.qualifier, statement.source_alias
    if qualifier.lower() in (target.lower(), (source or "").lower()):
        return ""
    return f" The table is {backquote(target)} here{f', the source {backquote(source)}' if source else ''}."


def _own_place(statement: Delete | Update | Merge, query: str, found: re.Match[str]) -> str:
    """Return the end of a message that underlines the place in the longest expression of the user that contains it.

    `found` is the match of `_PLACE`, a line and a column of `query`. Returns "" if no expression contains the place.
    """
    line, column, size = int(found[1]), int(found[2]), len(found[3])
    lines = query.split("\n")
    if line > len(lines):
        return ""
    at = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    parts = [each.text for each in _expressions(statement)]
    if isinstance(statement, Merge):
        parts.append(statement.source.text)
    for part in sorted(set(parts), key=len, reverse=True):
        for match in re.finditer(re.escape(part), query):
            if match.start() <= at < match.end():
                start = at - match.start()
                return underline_place(part, start, min(start + size, len(part)))
            if match.end() <= at <= match.end() + 1:  # the line break and the parenthesis after the expression
                return underline_place(part, len(part) - 1, len(part))
    return ""


def _expressions(statement: Delete | Update | Merge) -> list[Sql]:
    """Return all conditions and assigned values of a statement."""
    found: list[Sql] = []

    def take(each: Sql) -> Sql:
        found.append(each)
        return each

    _map_expressions(statement, take)
    return found


def _clause_expressions(clause: Clause) -> list[Sql]:
    values = [each.value for each in clause.assignments or ()]
    return values if clause.condition is None else [clause.condition, *values]


def _map_expressions(statement: _Statement, change: Callable[[Sql], Sql]) -> _Statement:
    """Return the statement with `change` applied to all conditions and assigned values."""
    changed: Any = statement
    if isinstance(statement, Merge):
        clauses = tuple(
            replace(
                each,
                condition=None if each.condition is None else change(each.condition),
                assignments=None
                if each.assignments is None
                else tuple(replace(one, value=change(one.value)) for one in each.assignments),
            )
            for each in changed.clauses
        )
        return replace(changed, on=change(statement.on), clauses=clauses)
    where = None if changed.where is None else change(changed.where)
    if isinstance(statement, Update):
        assignments = tuple(replace(each, value=change(each.value)) for each in statement.assignments)
        return replace(changed, where=where, assignments=assignments)
    return replace(changed, where=where)
