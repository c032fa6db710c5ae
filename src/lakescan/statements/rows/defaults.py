"""`DEFAULT` in the rows of an INSERT, and values as literals of Spark's SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from lakescan.common import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.statements.syntax.literals import literal
from lakescan.statements.syntax.text import apply_edits
from lakescan.statements.syntax.words import TokenReader
from lakescan.writing.column_rules import ColumnRules

_SETS = ("UNION", "EXCEPT", "INTERSECT", "MINUS")


def with_defaults(
    query: str, columns: Sequence[t.Field] | None, rules: ColumnRules, *, has_others: bool = False
) -> tuple[str, frozenset[int]]:
    """A query with values in the place of `DEFAULT`: in VALUES, and in the list of a SELECT without FROM.

    Args:
        query: The text.
        columns: The columns that its values are for, in order; None if they are matched by name.
        rules: What the table's columns are filled with.
        has_others: Whether the statement gives values to other columns, in PARTITION.

    Returns:
        The text, and the places of the columns that have DEFAULT in all rows: they are left to the writer. Rows need at
        least one column, so where all have DEFAULT, one gets its value in the text.

    Raises:
        InvalidStatement: Values are matched by name.
        UnsupportedFeature: A default that no literal has, in some rows only, or rows whose values are all computed.
    """
    if "default" not in query.lower():
        return query, frozenset()
    words = TokenReader(query)
    rows = _rows(words)
    marked = [
        {n for n, (start, end) in enumerate(row) if end == start + 1 and words.spells(start, "DEFAULT")} for row in rows
    ]
    if not any(marked):
        return query, frozenset()
    if columns is None:
        at = next(row[min(found)][0] for row, found in zip(rows, marked, strict=True) if found)
        raise words.error("DEFAULT is for values that are matched by their places, not BY NAME", at)
    is_alone = words.find(lambda n: any(words.spells(n, each) for each in _SETS)) == len(words.words)
    everywhere = frozenset.intersection(*(frozenset(each) for each in marked)) if is_alone else frozenset()
    if rows and everywhere and not has_others and all(len(row) == len(everywhere) for row in rows):
        everywhere -= {_first_literal(columns, everywhere, rules)}
    edits = []
    for row, places in zip(rows, marked, strict=True):
        for n in places:
            token = words.words[row[n][0]]
            is_known = n in everywhere or n >= len(columns)
            value = "NULL" if is_known else _default_of(columns[n], rules)
            edits.append((token.start, token.end + 1, value))
    return apply_edits(query, edits), everywhere


def _rows(words: TokenReader) -> list[list[tuple[int, int]]]:
    """Where the values of each row are: of VALUES, or of one SELECT."""
    end = len(words.words)
    start = words.find(lambda n: words.spells(n, "VALUES") or words.spells(n, "SELECT"))
    if start >= end:
        return []
    if words.spells(start, "VALUES"):
        rows = []
        for first, behind in words.split_items(start + 1, end):
            is_row = words.words[first].text == "("
            rows.append(words.split_items(first + 1, words.closing(first)) if is_row else [(first, behind)])
        return rows
    if words.find(lambda n: n > start and words.spells(n, "SELECT")) < end:
        return []  # of several queries, each may have other values
    if words.find(lambda n: words.spells(n, "FROM")) < end:
        return []  # whose tables may have a column of this name
    first = start + 1 + (words.spells(start + 1, "ALL") or words.spells(start + 1, "DISTINCT"))
    ends = ("WHERE", "LIMIT", *_SETS)
    return [words.split_items(first, words.find(lambda n: any(words.spells(n, each) for each in ends), first))]


def _first_literal(columns: Sequence[t.Field], places: frozenset[int], rules: ColumnRules) -> int:
    """Return the place of the first column whose default is a literal."""
    for n in sorted(places):
        if n < len(columns) and columns[n].name not in {*rules.generated, *rules.identities}:
            return n
    raise UnsupportedFeature(
        f"rows of which all values are computed: {', '.join(each.name for each in columns)}",
        "Give another column a value.",
    )


def _default_of(column: t.Field, rules: ColumnRules) -> str:
    """The default of a column as a literal."""
    if column.name in rules.generated or column.name in rules.identities:
        raise UnsupportedFeature(
            f"DEFAULT for the column {column.name!r}, whose values are computed, in some rows only",
            "Insert these rows by a statement of their own.",
        )
    if (found := rules.defaults.get(column.name)) is not None:
        return literal(found.as_py())
    return literal(column.write_default)


def with_values(text: str, values: Mapping[str, Any], of: Callable[[Any], str] = literal) -> str:
    """A text with literals in the place of its named parameters."""
    if not values or ":" not in text:
        return text
    words = TokenReader(text).words
    edits = []
    for mark, name in pairwise(words):
        is_parameter = mark.text == ":" and name.text in values and mark.end + 1 == name.start
        if is_parameter and not (mark.start and (text[mark.start - 1].isalnum() or text[mark.start - 1] in "_`)]")):
            edits.append((mark.start, name.end + 1, of(values[name.text])))
    return apply_edits(text, edits)
