"""Patterns of LIKE: % is any text, _ any one character (line breaks too), and a backslash takes what follows literally.

Spark refuses a backslash before another character than these; here it stands for that character, as in DuckDB, in
every lane: patterns are bound in a form without such backslashes. A backslash at the end is refused by all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import InvalidFilter


@dataclass(frozen=True)
class Part:
    """A piece of a pattern: literal text, or a wildcard, % or _."""

    text: str
    is_wildcard: bool = False


ANY, ONE = Part("%", is_wildcard=True), Part("_", is_wildcard=True)


def parts(pattern: str, escape: str = "\\") -> tuple[Part, ...]:
    """The pieces of a pattern, literals as long as they are; raises `InvalidFilter` where it ends with the escape."""
    found: list[Part] = []
    for part in _characters(pattern, escape):
        if not part.is_wildcard and found and not found[-1].is_wildcard:
            found[-1] = Part(found[-1].text + part.text)
        elif part != ANY or not found or found[-1] != ANY:
            found.append(part)
    return tuple(found)


def _characters(pattern: str, escape: str) -> Iterator[Part]:
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            if (literal := next(characters, None)) is None:
                raise InvalidFilter(f"the pattern {pattern!r} ends with the escape character {escape!r}: double it")
            yield Part(literal)
        else:
            yield Part(character, is_wildcard=character in "%_")


def joined(pieces: tuple[Part, ...]) -> str:
    """The pieces as a pattern, with a backslash before literal wildcards and backslashes, and nowhere else."""
    return "".join(part.text if part.is_wildcard else escaped(part.text) for part in pieces)


def escaped(text: str) -> str:
    """Text as a pattern that matches just it."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def matches(column: pa.Array, pattern: str, *, ignore_case: bool = False) -> pa.Array:
    """Which texts match; null where they are null. With `ignore_case`, texts and pattern are lowered first."""
    pieces = parts(pattern)
    if ignore_case:
        column = pc.utf8_lower(column)
        pieces = tuple(p if p.is_wildcard else Part(pc.utf8_lower(pa.scalar(p.text)).as_py()) for p in pieces)
    match pieces:
        case ():
            return pc.equal(column, "")
        case (Part(text, False),):
            return pc.equal(column, text)
        case (Part(text, False), any_text) if any_text == ANY:
            return pc.starts_with(column, text)
        case (any_text, Part(text, False)) if any_text == ANY:
            return pc.ends_with(column, text)
        case (before, Part(text, False), after) if before == after == ANY:
            return pc.match_substring(column, text)
    return pc.match_substring_regex(column, _regex(pieces))


def _regex(pieces: tuple[Part, ...]) -> str:
    inner = "".join({ANY: ".*", ONE: "."}.get(part) or re.escape(part.text) for part in pieces)
    return rf"(?s)\A{inner}\z"
