"""Objects of metadata documents, taken apart by type: what is missing or of another type is told with its place.

Everything that is read from a metadata JSON goes through here, so that damage of any kind is a `CorruptMetadata` which
names the file, the place in it, and what was found there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lakescan.errors import CorruptMetadata
from lakescan.storage.faults import shown

T = TypeVar("T")
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
_HALF = re.compile("[\ud800-\udfff]")
_MOST = 80  # characters of a value in a message


class _Required:
    """The default of members that have none."""


REQUIRED = _Required()


@dataclass(frozen=True)
class Node:
    """One object of a document: `source` names the file, `place` is where in it the object is, empty at its top.

    A member that is null counts as missing. Each method raises `CorruptMetadata` for a value of another type, and,
    where it is given no default, for a missing one.
    """

    value: Mapping[str, Any]
    source: str
    place: str = ""

    @staticmethod
    def of(value: Any, source: str, place: str = "") -> Node:
        """The node of a value, which has to be an object."""
        if not isinstance(value, dict):
            raise fault(source, f"{place or 'the document'} is {told(value)}, not an object")
        return Node(value, source, place)

    def fault(self, problem: str) -> CorruptMetadata:
        """The error for this object."""
        return fault(self.source, f"{self.place} {problem}" if self.place else problem)

    def has(self, name: str) -> bool:
        """Whether a member is there, and not null."""
        return self.value.get(name) is not None

    def integer(self, name: str, default: T | _Required = REQUIRED, *, least: int = 0, most: int = LONG_MAX) -> int | T:
        """A whole number."""
        if (found := self._get(name, default)) is default:
            return found  # type: ignore[return-value]
        if not isinstance(found, int) or isinstance(found, bool):
            raise self._unlike(name, found, "a whole number")
        if not least <= found <= most:
            raise self._unlike(name, found, f"from {least} to {most}")
        return found

    def text(self, name: str, default: T | _Required = REQUIRED) -> str | T:
        """A text."""
        if (found := self._get(name, default)) is default:
            return found  # type: ignore[return-value]
        if not _is_text(found):
            raise self._unlike(name, found, "a text")
        return found

    def flag(self, name: str, default: T | _Required = REQUIRED) -> bool | T:
        """True or false."""
        if (found := self._get(name, default)) is default:
            return found  # type: ignore[return-value]
        if not isinstance(found, bool):
            raise self._unlike(name, found, "true or false")
        return found

    def child(self, name: str) -> Node:
        """An object."""
        return Node.of(self._get(name, REQUIRED), self.source, self._at(name))

    def items(self, name: str, default: T | _Required = REQUIRED) -> list[Any] | T:
        """A list of anything."""
        if (found := self._get(name, default)) is default:
            return found  # type: ignore[return-value]
        if not isinstance(found, list):
            raise self._unlike(name, found, "a list")
        return found

    def children(self, name: str, default: list[Any] | _Required = REQUIRED) -> Iterator[Node]:
        """The objects of a list."""
        for number, each in enumerate(self.items(name, default)):
            yield Node.of(each, self.source, f"{self._at(name)}[{number}]")

    def members(self, name: str) -> dict[str, Any]:
        """An object by its members, empty where it is missing."""
        found = self._get(name, None)
        return {} if found is None else dict(Node.of(found, self.source, self._at(name)).value)

    def texts(self, name: str) -> dict[str, str]:
        """An object of texts, such as properties; numbers and the like as text, empty where it is missing."""
        found = {k: v if isinstance(v, str) else json.dumps(v) for k, v in self.members(name).items()}
        if wrong := [each for pair in found.items() for each in pair if not _is_text(each)]:
            raise self._unlike(name, wrong[0], "a text")
        return found

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers, empty where it is missing."""
        found = self.items(name, [])
        if wrong := [each for each in found if not isinstance(each, int) or isinstance(each, bool)]:
            raise self._unlike(name, wrong[0], "a whole number")
        return tuple(found)

    def _get(self, name: str, default: Any) -> Any:
        found = self.value.get(name)
        if found is None and default is REQUIRED:
            raise self.fault(f"lacks the required field {name!r}")
        return default if found is None else found

    def _unlike(self, name: str, found: Any, wanted: str) -> CorruptMetadata:
        return self.fault(f"has {told(found)} for {name!r}, which is not {wanted}")

    def _at(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def fault(source: str, problem: str) -> CorruptMetadata:
    """The error for a document, with what can be done."""
    return CorruptMetadata(
        f"{shown(source)}: {problem}. Restore the file, or open an older metadata file of the table."
    )


def _is_text(value: Any) -> bool:
    """Whether a value is a text that UTF-8 can have: JSON can name half a character."""
    return isinstance(value, str) and (value.isascii() or not _HALF.search(value))


def told(value: Any) -> str:
    """A value as messages have it: as JSON, cut where it is long."""
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError, TypeError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."
