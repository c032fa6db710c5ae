"""Parsing the assignments of an UPDATE or MERGE."""

from __future__ import annotations

from collections.abc import Callable

from lakescan.statements.rows.statements import Assignment
from lakescan.statements.syntax.words import TokenReader


def read_assignments(words: TokenReader, stop: Callable[[int], bool]) -> tuple[Assignment, ...]:
    """Read `column = value, ...` up to a word that stops; raises `InvalidStatement` for a name that occurs twice."""
    end = words.find(stop)
    found: list[Assignment] = []
    for first, behind in words.split_items(words.at, end):
        words.at = first
        if first >= behind:
            raise words.unexpected_word("a column")
        column = words.names("a column")
        if not (words.takes("=") or words.takes("==")):
            raise words.unexpected_word("=")
        if any(column == each.column for each in found):
            raise words.error(f"the column {'.'.join(column)} is assigned twice", first, words.at - 2)
        found.append(Assignment(column, words.expression(words.at, behind, "the value")))
    words.at = end
    return tuple(found)
