"""Parse the CHAR and VARCHAR types of a column, which Delta records as text next to the type `string`.

The text is Spark's name of the column's type, such as `char(3)` or `array<struct<code:varchar(2),n:int>>`.
"""

from __future__ import annotations

import re

from lakescan.common import types as t
from lakescan.errors import CorruptMetadata
from lakescan.writing.column_rules import Lengths, NestedLengths, TextLength

_TEXT = re.compile(r"(char|varchar)\((\d{1,9})\)", re.IGNORECASE)
_ATOMIC = re.compile(r"[a-z_]+(\([^()]*\))?( collate \w+)?", re.IGNORECASE)
_NAME = re.compile(r"(?:`(?:[^`]|``)*`|[^:`]+):")


def text_lengths(text: str, kind: t.Type, where: str) -> Lengths | None:
    """Return the CHAR and VARCHAR lengths that `text` records for a column of type `kind`; None without any.

    Raises `CorruptMetadata`, whose message starts with `where`, if `text` does not match the type.
    """
    lengths, end = _Reader(text, where).lengths(kind, 0)
    if end != len(text):
        raise _wrong(text, where)
    return lengths


def _wrong(text: str, where: str) -> CorruptMetadata:
    return CorruptMetadata(f"{where} has CHAR or VARCHAR lengths that do not match its type: {text!r}")


class _Reader:
    """Parses the text of one column's type. Positions (`at`) are character offsets in that text."""

    def __init__(self, text: str, where: str) -> None:
        self._text, self._where = text, where

    def lengths(self, kind: t.Type, at: int) -> tuple[Lengths | None, int]:
        """Parse the type `kind` at position `at`; return its lengths (None without any) and the position after it.

        Raises `CorruptMetadata` if the text has another type there.
        """
        match kind:
            case t.Struct():
                return self._nested_lengths("struct<", [each.type for each in kind.fields], at, named=True)
            case t.ListOf():
                return self._nested_lengths("array<", [kind.element.type], at)
            case t.MapOf():
                return self._nested_lengths("map<", [kind.key.type, kind.value.type], at)
        if kind == t.STRING and (match := _TEXT.match(self._text, at)):
            return TextLength(int(match[2]), match[1].lower() == "char"), match.end()
        return None, self._after(_ATOMIC, at)

    def _nested_lengths(
        self, opening: str, kinds: list[t.Type], at: int, *, named: bool = False
    ) -> tuple[Lengths | None, int]:
        at = self._after(re.compile(re.escape(opening), re.IGNORECASE), at)
        children: list[Lengths | None] = []
        for place, kind in enumerate(kinds):
            at = self._after(re.compile(","), at) if place else at
            at = self._after(_NAME, at) if named else at
            child, at = self.lengths(kind, at)
            children.append(child)
        at = self._after(re.compile(">"), at)
        return NestedLengths(tuple(children)) if any(children) else None, at

    def _after(self, pattern: re.Pattern[str], at: int) -> int:
        match = pattern.match(self._text, at)
        if match is None:
            raise _wrong(self._text, self._where)
        return match.end()
