"""Parse the JSON of a log: commits, JSON checkpoints and JSON nested in them.

The text comes from other writers and may be damaged. Every error becomes `CorruptMetadata` with file and line.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from lakescan.errors import CorruptMetadata

ADVICE = "Restore the file, or read a version before it."
_MOST_SHOWN = 60  # characters of a value in a message
_LONGS = range(-(2**63), 2**63)
_DIGITS = re.compile(r"-?\d{1,19}")
_MANY_LINES, _SHORTEST = 1 << 18, 16  # beyond so many lines, each must have so many bytes on average
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LogText:
    """The content of a commit or a JSON checkpoint; `version` is the commit's, or -1 for a checkpoint."""

    location: str
    content: bytes
    version: int = -1

    def place(self, line: int) -> str:
        """Return location and line for messages; `line` counts from 1."""
        return f"{self.location}, line {line}"

    def actions(self) -> bytes:
        """Return the lines as bytes, without byte order mark and trailing white space.

        Raises `CorruptMetadata` if the file has no line, or many that are too short to be actions. A commit always has
        an action, so an empty file is an incomplete write.
        """
        content = self.content.removeprefix(_BOM).rstrip()
        if not content.strip():
            raise CorruptMetadata(
                f"{self.location} has no actions ({len(self.content):,} bytes): its write was cut off. {ADVICE}"
            )
        lines = content.count(b"\n")
        if lines > _MANY_LINES and len(content) < lines * _SHORTEST:
            raise CorruptMetadata(
                f"{self.location} has {lines:,} lines in {len(content):,} bytes, too short to be actions. {ADVICE}"
            )
        return content


class RepeatedMember(dict[str, Any]):
    """A JSON object with a duplicate field; readers differ in the value that they use."""


@dataclass(frozen=True)
class Action:
    """A non-file action: its name, its parsed fields, and its file and line for messages."""

    name: str
    members: Mapping[str, Any]
    where: str

    def get(self, member: str) -> Any:
        """Return a field as parsed; None if missing."""
        return self.members.get(member)

    def whole_number(self, member: str) -> int | None:
        """Return a field as a 64-bit whole number, or None if missing; a text of digits is converted.

        Raises `CorruptMetadata` for any other value.
        """
        value = self.members.get(member)
        number = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else as_long(value)
        if value is not None and number is None:
            raise self.wrong(member, "a whole number")
        return number

    def text(self, member: str) -> str | None:
        """Return a field as text, or None if missing; raises `CorruptMetadata` for a value that is not text."""
        value = self.members.get(member)
        if value is not None and not isinstance(value, str):
            raise self.wrong(member, "text")
        return value

    def texts(self, member: str) -> tuple[str, ...] | None:
        """Return a field as a tuple of texts, or None if missing; raises `CorruptMetadata` for any other value."""
        value = self.members.get(member)
        if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            raise self.wrong(member, "a list of texts")
        return None if value is None else tuple(value)

    def text_map(self, member: str) -> dict[str, str]:
        """Return a field as a map of text to text, empty if missing.

        Numbers and booleans become JSON text; nulls are dropped. Raises `CorruptMetadata` for nested values and
        duplicate names.
        """
        node = self.members.get(member)
        if node is None:
            return {}
        if not isinstance(node, dict) or isinstance(node, RepeatedMember):
            raise self.wrong(member, "an object with unique names")
        if any(isinstance(value, dict | list) for value in node.values()):
            raise self.wrong(member, "an object whose values are text")
        return {k: v if isinstance(v, str) else json.dumps(v) for k, v in node.items() if v is not None}

    def wrong(self, member: str, expected: str) -> CorruptMetadata:
        """Return the error for a missing or malformed field; `expected` describes a valid value, such as "text"."""
        value = self.members.get(member)
        fault = "is missing" if value is None else f"is {short_json(value)}"
        return CorruptMetadata(f"{self.where}: {self.name}.{member} {fault}; expected {expected}. {ADVICE}")


def as_long(value: Any) -> int | None:
    """Return a whole number (int or float) as an int if it fits into 64 bits; None for other values and booleans."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in _LONGS else None


def short_json(value: Any) -> str:
    """Return a parsed value for messages: as JSON, cut after `_MOST_SHOWN` characters."""
    try:
        text = json.dumps(value, ensure_ascii=True)
    except (ValueError, RecursionError):
        text = "a deeply nested value"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def parse_json(text: bytes | str, where: str, *, parse_float: Callable[[str], Any] = float) -> Any:
    """Parse a JSON value; raises `CorruptMetadata` whose message starts with `where` for invalid text."""
    try:
        decoded = text if isinstance(text, str) else text.decode()
        return json.loads(decoded, object_pairs_hook=_object, parse_float=parse_float)
    except (ValueError, RecursionError) as error:
        raise CorruptMetadata(f"{where} is not valid JSON: {_fault(error)}. {ADVICE}") from error


def parse_object(text: bytes | str, where: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises `CorruptMetadata`, whose message starts with `where`, for invalid JSON and for other values.
    """
    node = parse_json(text, where)
    if not isinstance(node, dict):
        raise CorruptMetadata(f"{where} is {short_json(node)}; expected a JSON object. {ADVICE}")
    return node


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    node = dict(pairs)
    return node if len(node) == len(pairs) else RepeatedMember(node)


def _fault(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start + 1} is not UTF-8"
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"


def single_actions(text: LogText, names: tuple[str, ...]) -> Iterator[Action]:
    """Yield the non-file actions of these names in a commit (such as protocol, metaData, commitInfo), last first.

    Parses only lines that contain a name in quotes. Raises `CorruptMetadata` if one of these lines is not valid JSON,
    or if an action is not an object or has a duplicate field.
    """
    content = text.content.removeprefix(_BOM)
    for start, stop in sorted(_lines_that_mention(content, names), reverse=True):
        line = content[start:stop]
        node = _parse_line(line, text, content, start)
        for name in names:
            if (members := node.get(name)) is None:
                continue
            where = text.place(content.count(b"\n", 0, start) + 1)
            if not isinstance(members, dict):
                raise CorruptMetadata(f"{where}: {name} is {short_json(members)}; expected an object. {ADVICE}")
            if isinstance(node, RepeatedMember) or isinstance(members, RepeatedMember):
                raise CorruptMetadata(f"{where}: the {name} action has a member more than once. {ADVICE}")
            yield Action(name, members, where)


def only_actions(actions: Iterable[Action]) -> dict[str, Action]:
    """Return a version's actions by name; raises `CorruptMetadata` for two different ones of the same name."""
    by_name: dict[str, Action] = {}
    for action in actions:
        other = by_name.setdefault(action.name, action)
        if other.members != action.members:
            raise CorruptMetadata(
                f"{action.where}: a second {action.name} action, which differs from the one in {other.where}; a "
                f"version has at most one. {ADVICE}"
            )
    return by_name


def _parse_line(line: bytes, text: LogText, content: bytes, start: int) -> dict[str, Any]:
    try:
        return parse_object(line, "")
    except CorruptMetadata as error:
        where = text.place(content.count(b"\n", 0, start) + 1)
        raise CorruptMetadata(f"{where}{error}") from error.__cause__


def _lines_that_mention(text: bytes, names: tuple[str, ...]) -> set[tuple[int, int]]:
    """Return the start and end offsets of the lines that contain one of these names in quotes."""
    lines = set()
    for name in names:
        quoted = b'"%s"' % name.encode()
        at = text.find(quoted)
        while at >= 0:
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            lines.add((text.rfind(b"\n", 0, at) + 1, end))
            at = text.find(quoted, end)
    return lines


CHECKSUM = "checksum"


def has_right_checksum(node: Mapping[str, Any]) -> bool | None:
    """Return whether an object's checksum matches its other fields; None if it has none or it cannot be computed."""
    if not isinstance(node.get(CHECKSUM), str):
        return None
    try:
        return checksum_of(node) == node[CHECKSUM]
    except (_Unknown, UnicodeEncodeError, RecursionError):
        return None


def checksum_of(node: Mapping[str, Any]) -> str:
    """Return the checksum (hexadecimal MD5, as in `_last_checkpoint`) of an object's fields other than `checksum`.

    Raises `_Unknown` for floating-point numbers.
    """
    pairs = sorted(_pairs({k: v for k, v in node.items() if k != CHECKSUM}, ()))
    text = ",".join(f"{path}={value}" for path, value in pairs)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


class _Unknown(Exception):
    """A checksum cannot be computed: it needs the original text of a floating-point number, which parsing discarded."""


def _pairs(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield path and value of each scalar in a JSON value, in the text form that a checksum uses.

    `path` leads to the value itself. Raises `_Unknown` for floating-point numbers.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _pairs(inner, (*path, _quote_text(name)))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _pairs(inner, (*path, str(place)))
    elif isinstance(value, float):
        raise _Unknown
    else:
        yield "+".join(path), _quote_text(value) if isinstance(value, str) else json.dumps(value)


def _quote_text(text: str) -> str:
    return f'"{quote(text, safe="")}"'
