"""Typed access to the JSON objects of metadata files.

All metadata JSON is read through `Node`, so that every kind of damage raises a `CorruptMetadata` that names the file,
the path inside the document, and the invalid value.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

import pyarrow as pa

from lakescan import limits
from lakescan.errors import CorruptMetadata, LimitExceeded, NotEnoughMemory
from lakescan.storage.errors import error_text, redact

T = TypeVar("T")
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
_HALF = re.compile("[\ud800-\udfff]")
_MOST = 80  # maximum characters of a value in a message


class _Required:
    """The type of `REQUIRED`, which marks members without a default."""


REQUIRED = _Required()


@dataclass(frozen=True)
class Node:
    """One JSON object. `source` names the file, `place` is the object's path inside the document (empty at the top).

    A null member counts as missing. The accessors raise `CorruptMetadata` for a value of another type, and for a
    missing member without a default.
    """

    value: Mapping[str, Any]
    source: str
    place: str = ""

    @staticmethod
    def wrap(value: Any, source: str, place: str = "") -> Node:
        """Return the node of a value; raises `CorruptMetadata` if the value is not an object."""
        if not isinstance(value, dict):
            raise fault(source, f"{place or 'the document'} is {shown_value(value)}, not an object")
        return Node(value, source, place)

    def fault(self, problem: str) -> CorruptMetadata:
        """Return the `CorruptMetadata` error for a problem with this object."""
        return fault(self.source, f"{self.place} {problem}" if self.place else problem)

    def has(self, name: str) -> bool:
        """Return whether a member exists and is not null."""
        return self.value.get(name) is not None

    def integer(self, name: str, default: T | _Required = REQUIRED, *, least: int = 0, most: int = LONG_MAX) -> int | T:
        """Return the member `name` as a whole number, or `default` for a missing one.

        Raises `CorruptMetadata` for another type, a number outside of `least` to `most`, and a missing one without
        default.
        """
        if (value := self._get(name, default)) is default:
            return value  # type: ignore[return-value]
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._unlike(name, value, "a whole number")
        if not least <= value <= most:
            raise self._unlike(name, value, f"from {least} to {most}")
        return value

    def text(self, name: str, default: T | _Required = REQUIRED) -> str | T:
        """Return the member `name` as a string, or `default` for a missing one.

        Raises `CorruptMetadata` for another type, and for a missing one without default.
        """
        if (value := self._get(name, default)) is default:
            return value  # type: ignore[return-value]
        if not _is_text(value):
            raise self._unlike(name, value, "a string")
        return value

    def flag(self, name: str, default: T | _Required = REQUIRED) -> bool | T:
        """Return the member `name` as a boolean, or `default` for a missing one.

        Raises `CorruptMetadata` for another type, and for a missing one without default.
        """
        if (value := self._get(name, default)) is default:
            return value  # type: ignore[return-value]
        if not isinstance(value, bool):
            raise self._unlike(name, value, "true or false")
        return value

    def child(self, name: str) -> Node:
        """Return the node of the member `name`; raises `CorruptMetadata` if it is missing or not an object."""
        return Node.wrap(self._get(name, REQUIRED), self.source, self._at(name))

    def items(self, name: str, default: T | _Required = REQUIRED) -> list[Any] | T:
        """Return the member `name` as a list with elements of any type, or `default` for a missing one.

        Raises `CorruptMetadata` for another type, and for a missing one without default.
        """
        if (value := self._get(name, default)) is default:
            return value  # type: ignore[return-value]
        if not isinstance(value, list):
            raise self._unlike(name, value, "a list")
        return value

    def children(self, name: str, default: list[Any] | _Required = REQUIRED) -> Iterator[Node]:
        """Yield the nodes of the member `name`, a list of objects, or of `default` for a missing one.

        Raises `CorruptMetadata` for other types, and for a missing one without default.
        """
        for number, each in enumerate(self.items(name, default)):
            yield Node.wrap(each, self.source, f"{self._at(name)}[{number}]")

    def element(self, name: str, number: int) -> Node:
        """Return the node of the element at index `number` of the member `name`, a list of objects."""
        return Node.wrap(self.items(name)[number], self.source, f"{self._at(name)}[{number}]")

    def members(self, name: str) -> dict[str, Any]:
        """Return the members of the member `name` as dict; empty if it is missing.

        Raises `CorruptMetadata` if it is not an object.
        """
        value = self._get(name, None)
        return {} if value is None else dict(Node.wrap(value, self.source, self._at(name)).value)

    def texts(self, name: str) -> dict[str, str]:
        """Return the object that is the member `name` as a dict of strings; empty if it is missing.

        Values that are not strings are returned as JSON text. Raises `CorruptMetadata` for text that UTF-8 cannot
        encode.
        """
        texts = {k: v if isinstance(v, str) else json.dumps(v) for k, v in self.members(name).items()}
        if wrong := [each for pair in texts.items() for each in pair if not _is_text(each)]:
            raise self._unlike(name, wrong[0], "a string")
        return texts

    def integers(self, name: str) -> tuple[int, ...]:
        """Return the list that is the member `name` as whole numbers; empty if it is missing."""
        numbers = self.items(name, [])
        if wrong := [each for each in numbers if not isinstance(each, int) or isinstance(each, bool)]:
            raise self._unlike(name, wrong[0], "a whole number")
        return tuple(numbers)

    def _get(self, name: str, default: Any) -> Any:
        value = self.value.get(name)
        if value is None and default is REQUIRED:
            raise self.fault(f"lacks the required field {name!r}")
        return default if value is None else value

    def _unlike(self, name: str, value: Any, wanted: str) -> CorruptMetadata:
        return self.fault(f"has {shown_value(value)} for {name!r}, which is not {wanted}")

    def _at(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name


def fault(source: str, problem: str) -> CorruptMetadata:
    """Return the error for a damaged metadata file, with a remedy."""
    return CorruptMetadata(
        f"{redact(source)}: {problem}. Restore the file, or open an older metadata file of the table."
    )


def _is_text(value: Any) -> bool:
    """Return whether a value is a string that UTF-8 can encode: JSON can contain unpaired surrogates."""
    return isinstance(value, str) and (value.isascii() or not _HALF.search(value))


def shown_value(value: Any) -> str:
    """Return a value as JSON for messages, truncated if long."""
    try:
        text = json.dumps(value)
    except (RecursionError, ValueError, TypeError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 20  # bytes decompressed at once
_MEMBERS = 64  # maximum members of a gzip file; writers create one


def read_document(data: bytes, source: str) -> Node:
    """Parse a metadata file, plain or compressed with gzip or zstd. `source` names the file in errors.

    Raises `CorruptMetadata` for a file that is not a JSON object, `LimitExceeded` past `limits.METADATA` bytes.
    """
    text = decompress(data, source)
    try:
        node = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise fault(source, "its JSON is nested too deeply") from None
    except MemoryError as error:
        raise NotEnoughMemory(f"{redact(source)}: its JSON does not fit into memory") from error
    except ValueError as error:  # not JSON, not Unicode, or a number with thousands of digits
        raise fault(source, f"it is not valid JSON: {error_text(error)}") from error
    if not isinstance(node, dict) or "format-version" not in node:
        raise fault(source, "it is not Iceberg table metadata: it has no format-version")
    return Node(node, source)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def decompress(data: bytes, source: str) -> bytes:
    """Decompress a file by its first bytes (gzip, zstd or plain), whatever its name; `source` names it in errors.

    Raises `CorruptMetadata` for a damaged file, `LimitExceeded` past `limits.METADATA` bytes.
    """
    try:
        if data.startswith(_GZIP):
            return _gunzip(data, source)
        if data.startswith(_ZSTD):
            return _unzstd(data, source)
    except (zlib.error, EOFError, OSError, pa.ArrowException) as error:
        raise fault(source, f"it cannot be decompressed: {error_text(error)}") from error
    return data


def _gunzip(data: bytes, source: str) -> bytes:
    """Decompress all members of a gzip file; trailing zero bytes are padding.

    Raises `EOFError` for a truncated file or too many members, `LimitExceeded` past `limits.METADATA` bytes.
    """
    text, left = b"", limits.METADATA
    for _ in range(_MEMBERS):
        if not data.strip(b"\x00"):
            return text
        member = zlib.decompressobj(31)
        piece = member.decompress(data, left + 1)
        if len(piece) > left:
            raise _too_large(source)
        if not member.eof:
            raise EOFError("it is truncated")
        text, left, data = text + piece, left - len(piece), member.unused_data
    raise EOFError(f"it has more than {_MEMBERS} gzip members")


def _unzstd(data: bytes, source: str) -> bytes:
    stream, pieces, size = pa.CompressedInputStream(pa.BufferReader(data), "zstd"), [], 0
    while piece := stream.read(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > limits.METADATA:
            raise _too_large(source)
    return b"".join(pieces)


def _too_large(source: str) -> LimitExceeded:
    return LimitExceeded(
        f"{redact(source)} exceeds the limit of {limits.METADATA:,} decompressed bytes. If the file is valid, raise "
        "lakescan.limits.METADATA."
    )
