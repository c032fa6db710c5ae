"""Texts of a log (commits, JSON checkpoints, JSON inside of them): parsed at one boundary, with the place in messages.

What is read here was written by others, and may be damaged: whatever is wrong with it becomes `CorruptMetadata` that
names the file and the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lakescan.errors import CorruptMetadata

ADVICE = "Restore the file, or read a version before it."
_MOST_SHOWN = 60  # characters of a value
_LONGS = range(-(2**63), 2**63)
_DIGITS = re.compile(r"-?\d{1,19}")
_MANY_LINES, _SHORTEST = 1 << 18, 16  # bytes of a line with an action
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LogText:
    """The content of a commit or of a JSON checkpoint; `version` is the commit's, -1 of a checkpoint."""

    location: str
    content: bytes
    version: int = -1

    def place(self, line: int) -> str:
        """A line, counted from 1, as messages have it."""
        return f"{self.location}, line {line}"

    def actions(self) -> bytes:
        """The lines without what is around them; raises `CorruptMetadata` where there are none.

        A writer that has nothing to say writes no file: one without any line is a write that was cut off.
        """
        found = self.content.removeprefix(_BOM).rstrip()
        if not found.strip():
            raise CorruptMetadata(
                f"{self.location} holds no action ({len(self.content):,} bytes): its write was cut off. {ADVICE}"
            )
        lines = found.count(b"\n")
        if lines > _MANY_LINES and len(found) < lines * _SHORTEST:
            raise CorruptMetadata(
                f"{self.location} has {lines:,} lines in {len(found):,} bytes, less than actions take. {ADVICE}"
            )
        return found


class RepeatedMember(dict[str, Any]):
    """A JSON object that has a member more than once: readers differ in which one counts."""


@dataclass(frozen=True)
class Action:
    """An action of a log that is not about a file, by name, its members as parsed, and where it is."""

    name: str
    members: Mapping[str, Any]
    where: str

    def get(self, member: str) -> Any:
        """A member as parsed; None where it is missing."""
        return self.members.get(member)

    def whole_number(self, member: str) -> int | None:
        """A member that is a whole number of 64 bits."""
        found = self.members.get(member)
        number = int(found) if isinstance(found, str) and _DIGITS.fullmatch(found) else as_long(found)
        if found is not None and number is None:
            raise self.wrong(member, "a whole number")
        return number

    def text(self, member: str) -> str | None:
        """A member that is text."""
        found = self.members.get(member)
        if found is not None and not isinstance(found, str):
            raise self.wrong(member, "text")
        return found

    def texts(self, member: str) -> tuple[str, ...] | None:
        """A member that is a list of texts."""
        found = self.members.get(member)
        if found is not None and not (isinstance(found, list) and all(isinstance(each, str) for each in found)):
            raise self.wrong(member, "a list of texts")
        return None if found is None else tuple(found)

    def text_map(self, member: str) -> dict[str, str]:
        """A member that is texts by name: numbers and booleans as JSON writes them, nulls left out."""
        found = self.members.get(member)
        if found is None:
            return {}
        if not isinstance(found, dict) or isinstance(found, RepeatedMember):
            raise self.wrong(member, "an object with each name once")
        if any(isinstance(value, dict | list) for value in found.values()):
            raise self.wrong(member, "texts by name")
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in found.items() if v is not None}

    def wrong(self, member: str, wanted: str) -> CorruptMetadata:
        """The error for a member that is not what it has to be."""
        found = self.members.get(member)
        fault = "is missing" if found is None else f"is {shown(found)}"
        return CorruptMetadata(f"{self.where}: {self.name}.{member} {fault}, where {wanted} belongs. {ADVICE}")


def as_long(value: Any) -> int | None:
    """A parsed number if it is a whole one of 64 bits, else None."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _LONGS else None


def shown(value: Any) -> str:
    """A parsed value as messages have it: as JSON, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (ValueError, RecursionError):
        text = "a deeply nested value"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def parse_json(text: bytes | str, where: str) -> Any:
    """A JSON value; raises `CorruptMetadata` that begins with `where`, whatever is wrong with the text."""
    try:
        decoded = text if isinstance(text, str) else text.decode()
        return json.loads(decoded, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise CorruptMetadata(f"{where} is not JSON that can be read: {_fault(error)}. {ADVICE}") from error


def parse_object(text: bytes | str, where: str) -> dict[str, Any]:
    """A JSON object; raises `CorruptMetadata` that begins with `where`."""
    found = parse_json(text, where)
    if not isinstance(found, dict):
        raise CorruptMetadata(f"{where} is {shown(found)}, where a JSON object belongs. {ADVICE}")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else RepeatedMember(found)


def _fault(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"


def single_actions(text: LogText, names: tuple[str, ...]) -> Iterator[Action]:
    """The few actions of a commit that are not about files (protocol, metaData, commitInfo), last first.

    Only lines that mention a name are parsed. Raises `CorruptMetadata` for one that is not an object.
    """
    content = text.content.removeprefix(_BOM)
    for start, stop in sorted(_lines_that_mention(content, names), reverse=True):
        line = content[start:stop]
        node = _parsed_line(line, text, content, start)
        for name in names:
            if (found := node.get(name)) is None:
                continue
            where = text.place(content.count(b"\n", 0, start) + 1)
            if not isinstance(found, dict):
                raise CorruptMetadata(f"{where}: {name} is {shown(found)}, where an object belongs. {ADVICE}")
            if isinstance(node, RepeatedMember) or isinstance(found, RepeatedMember):
                raise CorruptMetadata(f"{where}: the {name} action has a member more than once. {ADVICE}")
            yield Action(name, found, where)


def only_actions(actions: Iterable[Action]) -> dict[str, Action]:
    """The actions of a version, of which it has one a name, by name; raises `CorruptMetadata` for two that differ."""
    found: dict[str, Action] = {}
    for action in actions:
        other = found.setdefault(action.name, action)
        if other.members != action.members:
            raise CorruptMetadata(
                f"{action.where}: a second {action.name} action, which differs from that of {other.where}; a version "
                f"has at most one. {ADVICE}"
            )
    return found


def _parsed_line(line: bytes, text: LogText, content: bytes, start: int) -> dict[str, Any]:
    try:
        return parse_object(line, "")
    except CorruptMetadata as error:
        where = text.place(content.count(b"\n", 0, start) + 1)
        raise CorruptMetadata(f"{where}{error}") from error.__cause__


def _lines_that_mention(text: bytes, names: tuple[str, ...]) -> set[tuple[int, int]]:
    """Where lines with one of these names in quotes begin and end."""
    found = set()
    for name in names:
        quoted = b'"%s"' % name.encode()
        at = text.find(quoted)
        while at >= 0:
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            found.add((text.rfind(b"\n", 0, at) + 1, end))
            at = text.find(quoted, end)
    return found
