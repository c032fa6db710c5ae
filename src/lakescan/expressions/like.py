"""LIKE patterns: % matches any text, _ matches any one character (also a line break), a backslash escapes the next one.

Spark rejects a backslash before any other character. In lakescan and DuckDB, it makes that character literal. Binding
removes such backslashes, so that all engines return the same rows. All engines reject a backslash at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import InvalidFilter


@dataclass(frozen=True)
class PatternPart:
    """A part of a pattern: literal text without escapes, or one of the wildcards % and _."""

    text: str
    is_wildcard: bool = False


ANY, ONE = PatternPart("%", is_wildcard=True), PatternPart("_", is_wildcard=True)


def split_pattern(pattern: str, escape: str = "\\") -> tuple[PatternPart, ...]:
    """Split a pattern into wildcards and literal texts, each as long as possible; % after % is dropped.

    `escape` is the escape character. Raises `InvalidFilter` if the pattern ends with it.
    """
    pieces: list[PatternPart] = []
    for part in _characters(pattern, escape):
        if not part.is_wildcard and pieces and not pieces[-1].is_wildcard:
            pieces[-1] = PatternPart(pieces[-1].text + part.text)
        elif part != ANY or not pieces or pieces[-1] != ANY:
            pieces.append(part)
    return tuple(pieces)


def _characters(pattern: str, escape: str) -> Iterator[PatternPart]:
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            if (literal := next(characters, None)) is None:
                raise InvalidFilter(f"the pattern {pattern!r} ends with the escape character {escape!r}: double it")
            yield PatternPart(literal)
        else:
            yield PatternPart(character, is_wildcard=character in "%_")


def join_pattern(pieces: tuple[PatternPart, ...]) -> str:
    """Join the parts of `split_pattern` into a pattern, with a backslash before literal %, _ and backslashes only."""
    return "".join(part.text if part.is_wildcard else escape_pattern(part.text) for part in pieces)


def escape_pattern(text: str) -> str:
    """Return the LIKE pattern, with backslashes as escapes, that matches only this text."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def matches(column: pa.Array, pattern: str, *, ignore_case: bool = False) -> pa.Array:
    """Return a boolean array: whether each string matches a LIKE pattern, null for nulls.

    `ignore_case` compares strings and pattern in lower case, as ILIKE does. Raises `InvalidFilter` for an escape at the
    end.
    """
    pieces = split_pattern(pattern)
    if ignore_case:
        column = pc.utf8_lower(column)
        pieces = tuple(p if p.is_wildcard else PatternPart(pc.utf8_lower(pa.scalar(p.text)).as_py()) for p in pieces)
    match pieces:
        case ():
            return pc.equal(column, "")
        case (PatternPart(text, False),):
            return pc.equal(column, text)
        case (PatternPart(text, False), any_text) if any_text == ANY:
            return pc.starts_with(column, text)
        case (any_text, PatternPart(text, False)) if any_text == ANY:
            return pc.ends_with(column, text)
        case (before, PatternPart(text, False), after) if before == after == ANY:
            return pc.match_substring(column, text)
    return pc.match_substring_regex(column, _regex(pieces))


def _regex(pieces: tuple[PatternPart, ...]) -> str:
    inner = "".join({ANY: ".*", ONE: "."}.get(part) or re.escape(part.text) for part in pieces)
    return rf"(?s)\A{inner}\z"
