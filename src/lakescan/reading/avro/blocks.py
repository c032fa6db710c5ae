"""Read the blocks of an Avro file as records, in batches; decompression is limited, row counts are checked for sanity.

Avro specification, "Object Container Files": magic, metadata map, sync marker; then blocks of a row count, a size in
bytes, the data, and the sync marker again. A file truncated between two blocks cannot be detected here.
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
_NUMBER = 10  # maximum bytes of a varint
_HEADER = 1000  # maximum entries in a header
_DEPTH = 100  # maximum nesting of a row schema
_TOGETHER = 1 << 20  # bytes of blocks that are decoded together
_OF_NOTHING = 1 << 20  # maximum rows in a block if a row may take no bytes


@dataclass
class AvroBlocks:
    """An open Avro file, positioned after its header."""

    file: BinaryIO
    path: str
    size: int
    schema: WrittenSchema
    codec: str
    marker: bytes

    @property
    def record(self) -> Mapping[str, Any]:
        """The schema of the records."""
        return self.schema.record

    def records(self) -> Iterator[list[dict[str, Any]]]:
        """All records, in batches of about 1 MiB of blocks; raises `ValueError` for an incomplete or invalid block."""
        head = _file_header(fastavro.parse_schema(dict(self.record)))
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
                raise ValueError("a block does not end with the file's sync marker")
            try:
                data = unpacked(self.codec, block, limits.AVRO_BLOCK)
            except TooLarge:
                raise LimitExceeded(
                    f"{shown(self.path)} has a block that decompresses to more than {limits.AVRO_BLOCK:,} bytes. If "
                    "the size is legitimate, raise lakescan.limits.AVRO_BLOCK."
                ) from None
            if count > (len(data) // self.schema.least if self.schema.least else _OF_NOTHING):
                raise ValueError(f"a block has {len(data):,} bytes, too few for its {count:,} records")
            yield count, data


def open_blocks(file: BinaryIO, path: str, size: int) -> AvroBlocks:
    """Read the header of a file of `size` bytes.

    Raises `ValueError` if it is not Avro, and `UnsupportedFeature` for an unknown codec.
    """
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not start with Avro's magic bytes")
    header: dict[bytes, bytes] = {}
    while count := _number(file):
        if count < 0:
            _number(file)
        if abs(count) > _HEADER - len(header):
            raise ValueError(f"its header declares {abs(count):,} entries, and the limit is {_HEADER:,}")
        for _ in range(abs(count)):
            key = _exactly(file, _number(file), size)
            header[key] = _exactly(file, _number(file), size)
    codec = header.get(b"avro.codec", b"null").decode()
    check_codec(codec, path)
    schema = parse_avro_schema(header[b"avro.schema"], _DEPTH)
    return AvroBlocks(file, path, size, schema, codec, _exactly(file, _MARKER, size))


def _decoded(head: bytes, rows: int, records: bytes) -> list[dict[str, Any]]:
    """Decode the records of blocks; raises `ValueError` if bytes are left over."""
    file = io.BytesIO(head + _encoded(rows) + _encoded(len(records)) + records + bytes(_MARKER))
    decoded: list[Any] = list(fastavro.reader(file))
    if file.tell() != len(file.getbuffer()):
        raise ValueError(f"a block has extra bytes after its {rows:,} records")
    return decoded


def _file_header(schema: Any) -> bytes:
    """The header of an uncompressed Avro file with this schema."""
    out = io.BytesIO()
    fastavro.writer(out, schema, [], sync_marker=bytes(_MARKER))
    return out.getvalue()


def _exactly(file: BinaryIO, length: int, most: int) -> bytes:
    """Read exactly `length` bytes; a length beyond `most`, the file's size, is rejected before memory is allocated."""
    if not 0 <= length <= most:
        raise ValueError(f"it declares {length:,} bytes but has {most:,}")
    data = file.read(length)
    if len(data) < length:
        raise EOFError("it is truncated")
    return data


def _number(file: BinaryIO, first: bytes = b"") -> int:
    """Read a zigzag varint."""
    value = 0
    for place in range(_NUMBER):
        byte = (first or _exactly(file, 1, 1))[0]
        first = b""
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return (value >> 1) ^ -(value & 1)
    raise ValueError("it has a number of more than 64 bits")


def _encoded(value: int) -> bytes:
    """A non-negative number as a zigzag varint."""
    value, out = value << 1, bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
