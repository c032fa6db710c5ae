"""The stripes of an ORC file: their offsets and row counts, from its footer, which Arrow does not tell.

ORC specification, "File Tail": the last byte is the postscript's length; the footer before it is a Protocol Buffers
message, compressed in chunks with a head of three bytes (length, and whether the chunk is not compressed).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import orc

from lakescan import limits
from lakescan.errors import LimitExceeded
from lakescan.reading.avro.codecs import TooLarge, raw_lz4, raw_snappy, unpacked
from lakescan.storage.faults import shown

_PLAIN = "UNCOMPRESSED"
_CHUNK = 1 << 23  # maximum bytes of a decompressed chunk
_MOST_BYTES = 10  # of a 64-bit varint
_STRIPES, _OFFSET, _ROWS = 3, 1, 5  # numbers of fields: of the footer, and of a stripe
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # kinds of fields


@dataclass(frozen=True)
class Stripes:
    """The offset of each stripe in bytes, and the file position of its first row; `first_rows` ends with their sum."""

    offsets: np.ndarray
    first_rows: np.ndarray

    def within(self, start: int, stop: int) -> list[int]:
        """The stripes that begin in the bytes [start, stop)."""
        found: list[int] = np.flatnonzero((self.offsets >= start) & (self.offsets < stop)).tolist()
        return found


def read_stripes(handle: pa.NativeFile, file: orc.ORCFile, path: str) -> Stripes | None:
    """Read the stripes from the footer of an open file; None if it is compressed by a codec that is not known here.

    Raises `ValueError` or `IndexError` if the footer is damaged, or contradicts Arrow's reading of it; `LimitExceeded`
    past `limits.FOOTER`.
    """
    end = file.file_length - 1 - file.file_postscript_length
    packed = handle.read_at(file.file_footer_length, end - file.file_footer_length)
    if file.compression not in (_PLAIN, *_CODECS):
        return None
    try:
        footer = b"".join(_chunks(packed, file.compression, min(file.compression_size, _CHUNK)))
    except TooLarge:
        raise LimitExceeded(
            f"{shown(path)} has a footer that decompresses to more than {limits.FOOTER:,} bytes. If the size is "
            "legitimate, raise lakescan.limits.FOOTER."
        ) from None
    stripes = [_numbers(value) for number, value in _fields(footer) if number == _STRIPES and isinstance(value, bytes)]
    offsets, rows = ([each.get(number, 0) for each in stripes] for number in (_OFFSET, _ROWS))
    if len(stripes) != file.nstripes or sum(rows) != file.nrows:
        raise ValueError(
            f"it lists {len(stripes):,} stripes with {sum(rows):,} rows, but says that there are {file.nstripes:,} "
            f"with {file.nrows:,}"
        )
    if any(not 0 <= offset < file.file_length for offset in offsets):
        raise ValueError(f"it lists a stripe outside the file, which has {file.file_length:,} bytes")
    first_rows = np.cumsum([0, *rows], dtype=np.int64)
    return Stripes(np.array(offsets, dtype=np.int64), first_rows)


def _chunks(data: bytes, compression: str, most: int) -> Iterator[bytes]:
    """Decompress the chunks of a footer, each to at most `most` bytes."""
    if compression == _PLAIN:
        yield data
        return
    at, left = 0, limits.FOOTER
    while at < len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        at, end = at + 3, at + 3 + (head >> 1)
        if end > len(data):
            raise ValueError("it is truncated")
        chunk = data[at:end] if head & 1 else _CODECS[compression](data[at:end], min(most, left))
        left -= len(chunk)
        yield chunk
        at = end


def _zlib(chunk: bytes, most: int) -> bytes:
    return unpacked("deflate", chunk, most)


def _zstd(chunk: bytes, most: int) -> bytes:
    return unpacked("zstandard", chunk, most)


_CODECS = {"ZLIB": _zlib, "SNAPPY": raw_snappy, "LZ4": raw_lz4, "ZSTD": _zstd}


def _numbers(message: bytes) -> dict[int, int]:
    """The fields of a message that are numbers."""
    return {number: value for number, value in _fields(message) if isinstance(value, int)}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: numbers, and bytes; others are skipped."""
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        number, kind = head >> 3, head & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif kind == _BYTES:
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise ValueError("it is truncated")
            yield number, data[at : at + length]
            at += length
        elif kind in (_DOUBLE, _FLOAT):
            at += 8 if kind == _DOUBLE else 4
        else:
            raise ValueError(f"it has a field of kind {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_MOST_BYTES):
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError("it has a number of more than 64 bits")
