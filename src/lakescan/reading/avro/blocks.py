"""The blocks of an Avro file as records, some at a time: unpacked within limits, their counts held against their bytes.

Avro specification, "Object Container Files": magic, a map of metadata, a marker; then blocks of a row count, a size in
bytes, so many bytes, and the marker again. A file that is cut between two blocks cannot be told from a whole one here.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import fastavro

from lakescan import limits
from lakescan.errors import LimitExceeded
from lakescan.reading.avro.codecs import TooLarge, check_codec, unpacked
from lakescan.reading.avro.schema import WrittenSchema, parse_avro_schema
from lakescan.storage.faults import shown

_MAGIC = b"Obj\x01"
_MARKER = 16
_NUMBER = 10  # bytes of the longest number
_HEADER = 1000  # entries of a header
_DEPTH = 100  # of a schema of rows
_TOGETHER = 1 << 20  # bytes of blocks that are decoded together
_OF_NOTHING = 1 << 20  # rows of a block that take no bytes


@dataclass
class AvroBlocks:
    """An open file behind its header."""

    file: BinaryIO
    path: str
    size: int
    schema: WrittenSchema
    codec: str
    marker: bytes

    @property
    def record(self) -> Mapping[str, Any]:
        """The schema of its records."""
        return self.schema.record

    def records(self) -> Iterator[list[dict[str, Any]]]:
        """All records, those of about so many bytes at a time; raises `ValueError` for blocks that are not whole."""
        head = _as_file(fastavro.parse_schema(dict(self.record)))
        kept: list[bytes] = []
        rows = size = 0
        for count, block in self._blocks():
            kept.append(block)
            rows, size = rows + count, size + len(block)
            if size >= _TOGETHER:
                yield _decoded(head, rows, b"".join(kept))
                kept, rows, size = [], 0, 0
        if rows:
            yield _decoded(head, rows, b"".join(kept))

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        while first := self.file.read(1):
            count, size = _number(self.file, first), _number(self.file)
            block = _exactly(self.file, size, self.size)
            if count < 0 or self.file.read(_MARKER) != self.marker:
                raise ValueError("a block does not end with the file's marker")
            try:
                data = unpacked(self.codec, block, limits.AVRO_BLOCK)
            except TooLarge:
                raise LimitExceeded(
                    f"{shown(self.path)} has a block that unpacks to more than {limits.AVRO_BLOCK:,} bytes. If it is "
                    "what it should be, raise lakescan.limits.AVRO_BLOCK."
                ) from None
            if count > (len(data) // self.schema.least if self.schema.least else _OF_NOTHING):
                raise ValueError(f"a block has {len(data):,} bytes for {count:,} records")
            yield count, data


def open_blocks(file: BinaryIO, path: str, size: int) -> AvroBlocks:
    """Read the header of a file of `size` bytes; raises `ValueError` for what is not Avro, and `UnsupportedFeature`."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not begin as Avro does")
    header: dict[bytes, bytes] = {}
    while count := _number(file):
        if count < 0:
            _number(file)
        if abs(count) > _HEADER - len(header):
            raise ValueError(f"its header says that it has {abs(count):,} entries")
        for _ in range(abs(count)):
            key = _exactly(file, _number(file), size)
            header[key] = _exactly(file, _number(file), size)
    codec = header.get(b"avro.codec", b"null").decode()
    check_codec(codec, path)
    schema = parse_avro_schema(header[b"avro.schema"], _DEPTH)
    return AvroBlocks(file, path, size, schema, codec, _exactly(file, _MARKER, size))


def _decoded(head: bytes, rows: int, records: bytes) -> list[dict[str, Any]]:
    """The records of a block, which has to have no bytes beside them."""
    file = io.BytesIO(head + _written(rows) + _written(len(records)) + records + bytes(_MARKER))
    found: list[Any] = list(fastavro.reader(file))
    if file.tell() != len(file.getbuffer()):
        raise ValueError(f"a block has bytes beside its {rows:,} records")
    return found


def _as_file(schema: Any) -> bytes:
    """The header of a file of these records that are not packed."""
    out = io.BytesIO()
    fastavro.writer(out, schema, [], sync_marker=bytes(_MARKER))
    return out.getvalue()


def _exactly(file: BinaryIO, length: int, most: int) -> bytes:
    """So many bytes; no more are asked for than the file has."""
    if not 0 <= length <= most:
        raise ValueError(f"it says {length:,} bytes and has {most:,}")
    data = file.read(length)
    if len(data) < length:
        raise EOFError("it breaks off")
    return data


def _number(file: BinaryIO, first: bytes = b"") -> int:
    """A zigzag number of seven bits a byte."""
    value = 0
    for place in range(_NUMBER):
        byte = (first or _exactly(file, 1, 1))[0]
        first = b""
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return (value >> 1) ^ -(value & 1)
    raise ValueError("it has a number that does not end")


def _written(value: int) -> bytes:
    value, out = value << 1, bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
