"""Read the blocks of an Avro file, or of a part of it; decompression is limited, row counts are checked for sanity.

Avro specification, "Object Container Files": magic, metadata map, sync marker; then blocks of a row count, a size in
bytes, the data, and the sync marker again. A file truncated between two blocks cannot be detected here.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from lakescan import limits
from lakescan.errors import LimitExceeded
from lakescan.reading.avro.codecs import TooLarge, check_codec, decompress_block
from lakescan.reading.avro.schema import WrittenSchema, parse_avro_schema
from lakescan.storage.faults import redact

_MAGIC = b"Obj\x01"
_MARKER = 16
_NUMBER = 10  # maximum bytes of a varint
_HEADER = 1000  # maximum entries in a header
_DEPTH = 100  # maximum nesting of a row schema
_OF_NOTHING = 1 << 20  # maximum rows in a block if a row may take no bytes


@dataclass(frozen=True)
class Block:
    """The decompressed records of a block, their number, and the file position of the first."""

    first_row: int
    rows: int
    data: bytes


@dataclass
class AvroBlocks:
    """An open Avro file; `body` is the offset of its first block. `rows` is known once the file's end was reached."""

    file: BinaryIO
    path: str
    size: int
    schema: WrittenSchema
    codec: str
    marker: bytes
    body: int
    rows: int | None = None

    @property
    def record(self) -> Mapping[str, Any]:
        """The schema of the records."""
        return self.schema.record

    def read_blocks(self, start: int, stop: int) -> Iterator[Block]:
        """The blocks whose preceding sync marker begins in the bytes [start, stop), as Java's readers choose them.

        Those before them are stepped over, by their sizes, to count their rows. Raises `ValueError` for an incomplete
        or invalid block, and `LimitExceeded` for one that is too large.
        """
        at, first_row = self.body, 0
        self.file.seek(at)
        while first := self.file.read(1):
            if (marker := at - _MARKER) >= stop:
                return
            count, size = _read_varint(self.file, first), _read_varint(self.file)
            if marker >= start:
                block = _read_exactly(self.file, size, self.size)
            elif 0 <= size <= self.size:
                self.file.seek(size, io.SEEK_CUR)
            else:
                raise ValueError(f"it declares a block of {size:,} bytes but has {self.size:,}")
            if count < 0 or self.file.read(_MARKER) != self.marker:
                raise ValueError("a block does not end with the file's sync marker")
            if marker >= start:
                yield Block(first_row, count, self._decompress(block, count))
            first_row += count
            at = self.file.tell()
        self.rows = first_row

    def _decompress(self, block: bytes, count: int) -> bytes:
        try:
            data = decompress_block(self.codec, block, limits.AVRO_BLOCK)
        except TooLarge:
            raise LimitExceeded(
                f"{redact(self.path)} has a block that decompresses to more than {limits.AVRO_BLOCK:,} bytes. If "
                "the size is legitimate, raise lakescan.limits.AVRO_BLOCK."
            ) from None
        if count > (len(data) // self.schema.least if self.schema.least else _OF_NOTHING):
            raise ValueError(f"a block has {len(data):,} bytes, too few for its {count:,} records")
        return data


def open_blocks(file: BinaryIO, path: str, size: int) -> AvroBlocks:
    """Read the header of a file of `size` bytes.

    Raises `ValueError` if it is not Avro, and `UnsupportedFeature` for an unknown codec.
    """
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it does not start with Avro's magic bytes")
    header: dict[bytes, bytes] = {}
    while count := _read_varint(file):
        if count < 0:
            _read_varint(file)
        if abs(count) > _HEADER - len(header):
            raise ValueError(f"its header declares {abs(count):,} entries, and the limit is {_HEADER:,}")
        for _ in range(abs(count)):
            key = _read_exactly(file, _read_varint(file), size)
            header[key] = _read_exactly(file, _read_varint(file), size)
    codec = header.get(b"avro.codec", b"null").decode()
    check_codec(codec, path)
    schema = parse_avro_schema(header[b"avro.schema"], _DEPTH)
    marker = _read_exactly(file, _MARKER, size)
    return AvroBlocks(file, path, size, schema, codec, marker, file.tell())


def _read_exactly(file: BinaryIO, length: int, most: int) -> bytes:
    """Read exactly `length` bytes; a length beyond `most`, the file's size, is rejected before memory is allocated."""
    if not 0 <= length <= most:
        raise ValueError(f"it declares {length:,} bytes but has {most:,}")
    data = file.read(length)
    if len(data) < length:
        raise EOFError("it is truncated")
    return data


def _read_varint(file: BinaryIO, first: bytes = b"") -> int:
    """Read a zigzag varint."""
    value = 0
    for place in range(_NUMBER):
        byte = (first or _read_exactly(file, 1, 1))[0]
        first = b""
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return (value >> 1) ^ -(value & 1)
    raise ValueError("it has a number of more than 64 bits")
