"""The frame of an Avro file: its header and the row counts of its blocks, without decoding a record.

Avro specification, "Object Container Files": magic, a map of metadata, a sync marker; then blocks of a row count, a
size in bytes, so many bytes, and the marker again. Files that are decoded together give rows in a row: the counts tell
which row is of which file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from lakescan.errors import CorruptMetadata

_MAGIC = b"Obj\x01"
_SYNC = 16


@dataclass(frozen=True)
class Container:
    """The bytes of a file, its metadata, and the number of its rows."""

    data: bytes
    source: str
    metadata: dict[str, bytes]
    rows: int
    body: int  # where the header's marker begins, after which the blocks come

    def with_schema(self, schema: bytes) -> bytes:
        """The file under another schema that describes the same bytes."""
        header = {**self.metadata, "avro.schema": schema}
        pairs = b"".join(_encoded(key.encode()) + _encoded(value) for key, value in header.items())
        return b"".join([_MAGIC, _encoded_number(len(header)), pairs, b"\x00", self.data[self.body :]])

    @property
    def schema(self) -> bytes:
        """The writer's schema, as JSON text."""
        return self.metadata["avro.schema"]


def of_one_schema(files: Sequence[Container]) -> list[list[int]]:
    """Runs of files that have the same schema, by number: they can be decoded together, and their order stays."""
    return [[i for i, _ in run] for _, run in groupby(enumerate(files), key=lambda each: each[1].schema)]


def open_container(data: bytes, source: str) -> Container:
    """Read the frame; raises `CorruptMetadata` for what is not Avro, or breaks off. One step a block."""
    try:
        if not data.startswith(_MAGIC):
            raise ValueError("it does not begin with 'Obj'")
        metadata, at = _metadata(data, len(_MAGIC))
        if "avro.schema" not in metadata:
            raise ValueError("its header has no schema")
        body, sync = at, data[at : at + _SYNC]
        at, rows = at + _SYNC, 0
        while at < len(data):
            count, at = _number(data, at)
            size, at = _number(data, at)
            at += size
            if count < 0 or size < 0 or data[at : at + _SYNC] != sync:
                raise ValueError(f"a block before byte {at} does not end with the file's marker")
            rows, at = rows + count, at + _SYNC
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise CorruptMetadata(f"{source} is not an Avro file that can be read: {error}") from error
    return Container(data, source, metadata, rows, body)


def _metadata(data: bytes, at: int) -> tuple[dict[str, bytes], int]:
    """A map of bytes: blocks of a count (negative, then with a size) and so many pairs, up to an empty one."""
    found: dict[str, bytes] = {}
    while True:
        count, at = _number(data, at)
        if count == 0:
            return found, at
        if count < 0:
            _, at = _number(data, at)
        for _ in range(abs(count)):
            key, at = _bytes(data, at)
            value, at = _bytes(data, at)
            found[key.decode()] = value


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _number(data, at)
    if size < 0 or at + size > len(data):
        raise ValueError("a text is cut off")
    return data[at : at + size], at + size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of seven bits a byte, and where it ends."""
    shift = value = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _encoded(value: bytes) -> bytes:
    return _encoded_number(len(value)) + value


def _encoded_number(value: int) -> bytes:
    """A number that is not negative, zigzag, seven bits a byte."""
    value, found = value << 1, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
