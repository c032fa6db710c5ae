"""The stripes of an ORC file: offsets, row counts and column statistics, which Arrow does not provide.

ORC specification, "File Tail": the last byte is the length of the postscript. The footer is before the postscript, and
the metadata section with the statistics of stripes is before the footer. Both are Protocol Buffers messages, compressed
in chunks with a header of three bytes (length, and whether the chunk is uncompressed).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

from lakescan import limits
from lakescan.errors import LimitExceeded
from lakescan.planning.corrupt_statistics import can_trust_orc
from lakescan.reading.avro.codecs import TooLarge, decompress_block, decompress_lz4, decompress_snappy
from lakescan.storage.errors import redact

_PLAIN = "UNCOMPRESSED"
_CHUNK = 1 << 23  # maximum bytes of a decompressed chunk
_MOST_BYTES = 10  # maximum bytes of a 64-bit varint
# Field numbers.
_STRIPES, _OFFSET, _ROWS = 3, 1, 5  # of the footer, and of a stripe
_TYPES, _WRITER, _ENCRYPTION, _SUBTYPES = 4, 9, 10, 2  # of the footer, and of a type
_METADATA_LENGTH, _WRITER_VERSION = 5, 6  # of the postscript
_STRIPE_STATISTICS, _COLUMN_STATISTICS = 1, 1  # of the metadata section, and of a stripe
_VALUES, _HAS_NULL = 1, 10  # of the statistics of a column
_INTEGERS, _DOUBLES, _STRINGS, _BOOLEANS, _DECIMALS, _DATES, _TIMESTAMPS = 2, 3, 4, 5, 6, 7, 9
_MIN, _MAX, _SUM, _LOWER, _UPPER, _MIN_UTC, _MAX_UTC = 1, 2, 3, 4, 5, 3, 4  # of one kind of statistics
_MOST_STATISTICS = 100_000  # maximum columns of all stripes; each takes a Python step
_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5  # wire types of fields


@dataclass(frozen=True)
class Stripes:
    """The offset of each stripe in bytes, and the position of its first row; `first_rows` ends with the row count."""

    offsets: np.ndarray
    first_rows: np.ndarray

    def find_stripes(self, start: int, stop: int) -> list[int]:
        """Return the stripes that start in the bytes [start, stop)."""
        found: list[int] = np.flatnonzero((self.offsets >= start) & (self.offsets < stop)).tolist()
        return found


@dataclass(frozen=True)
class StripeStatistics:
    """The statistics of a column in a stripe: its bounds and the number of nulls, each None if unknown."""

    lower: Any = None
    upper: Any = None
    nulls: int | None = None


def read_statistics(
    handle: pa.NativeFile, file: orc.ORCFile, columns: Mapping[int, pa.DataType], rows: Sequence[int]
) -> dict[int, list[StripeStatistics]]:
    """Read the statistics of columns, one entry per stripe, from the metadata section.

    `columns` maps the indices of top-level columns that are not nested to their Arrow types; `rows` are the row counts
    of stripes. The result is by index. It is empty if the statistics cannot be read or trusted
    (`planning.corrupt_statistics`). Raises `ValueError` or `IndexError` if they are damaged, and `TooLarge`.
    """
    if file.compression not in (_PLAIN, *_CODECS) or not columns:
        return {}
    end = file.file_length - 1 - file.file_postscript_length
    postscript = _numbers(handle.read_at(file.file_postscript_length, end))
    length = postscript.get(_METADATA_LENGTH, 0)
    start = end - file.file_footer_length - length
    if not length or start < 0:
        return {}
    footer = _section(handle, file, end - file.file_footer_length, file.file_footer_length)
    writer = _numbers(footer).get(_WRITER)
    is_encrypted = any(number == _ENCRYPTION for number, _ in _fields(footer))
    if is_encrypted or not can_trust_orc(writer, postscript.get(_WRITER_VERSION)):
        return {}
    places = _places(footer)
    wanted = {places[each]: (each, kind) for each, kind in columns.items() if each < len(places)}
    found: dict[int, list[StripeStatistics]] = {each: [] for each in columns}
    recorded = _fields(_section(handle, file, start, length))
    stripes = [value for number, value in recorded if number == _STRIPE_STATISTICS]
    if len(stripes) != len(rows) or len(stripes) * (max(wanted, default=0) + 1) > _MOST_STATISTICS:
        return {}
    for stripe, count in zip(stripes, rows, strict=True):
        if not isinstance(stripe, bytes):
            raise ValueError("its statistics are not messages")
        known = {place: StripeStatistics() for place in columns}
        of_columns = (value for number, value in _fields(stripe) if number == _COLUMN_STATISTICS)
        for number, value in enumerate(of_columns):
            if number in wanted and isinstance(value, bytes):
                place, kind = wanted[number]
                known[place] = _statistics(dict(_fields(value)), kind, count)
        for place, each in known.items():
            found[place].append(each)
    return found


def _places(footer: bytes) -> list[int]:
    """Return the ORC column id of each top-level column, by the root type in the footer's bytes.

    Raises `ValueError` if the footer lists no types.
    """
    root = next((value for number, value in _fields(footer) if number == _TYPES), None)
    if not isinstance(root, bytes):
        raise ValueError("it lists no types")
    numbers: list[int] = []
    for number, value in _fields(root):
        if number == _SUBTYPES and isinstance(value, int):
            numbers.append(value)
        elif number == _SUBTYPES and isinstance(value, bytes):  # packed
            at = 0
            while at < len(value):
                subtype, at = _varint(value, at)
                numbers.append(subtype)
    return numbers


def _statistics(column: dict[int, int | bytes], kind: pa.DataType, rows: int) -> StripeStatistics:
    values, has_null = column.get(_VALUES), column.get(_HAS_NULL)
    nulls = None
    if isinstance(values, int) and isinstance(has_null, int):
        nulls = rows if has_null and not values else None if has_null else 0
    lower, upper = _bounds(column, kind, values if isinstance(values, int) else None)
    return StripeStatistics(lower, upper, nulls)


def _bounds(column: dict[int, int | bytes], kind: pa.DataType, values: int | None) -> tuple[Any, Any]:
    """Return the lower and upper bound of a column's statistics, as Python values for an Arrow array of `kind`.

    `column` are the fields of the statistics message, and `values` is its number of values. Unknown bounds are None.
    """

    def members(number: int) -> dict[int, int | bytes]:
        message = column.get(number)
        return dict(_fields(message)) if isinstance(message, bytes) else {}

    if pa.types.is_integer(kind):
        found = members(_INTEGERS)
        return _zigzag(found.get(_MIN)), _zigzag(found.get(_MAX))
    if pa.types.is_date(kind):
        found = members(_DATES)
        return _zigzag(found.get(_MIN)), _zigzag(found.get(_MAX))
    if pa.types.is_floating(kind):
        low, high, total = (_double(members(_DOUBLES).get(each)) for each in (_MIN, _MAX, _SUM))
        # If a value is NaN, the sum is NaN, and the bounds may be wrong (ORC-629).
        return (low, high) if low is not None and high is not None and total is not None else (None, None)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = members(_STRINGS)
        return _text(found.get(_MIN, found.get(_LOWER))), _text(found.get(_MAX, found.get(_UPPER)))
    if pa.types.is_decimal(kind):
        found = members(_DECIMALS)
        return _decimal(found.get(_MIN)), _decimal(found.get(_MAX))
    if pa.types.is_timestamp(kind):
        # Milliseconds of times with nanoseconds, rounded down or towards 1970 (ORC-611).
        found = members(_TIMESTAMPS)
        low, high = _zigzag(found.get(_MIN_UTC)), _zigzag(found.get(_MAX_UTC))
        return None if low is None else low - 1, None if high is None else high + 1
    if pa.types.is_boolean(kind) and values:
        counts = members(_BOOLEANS).get(1)
        true = _varint(counts, 0)[0] if isinstance(counts, bytes) and counts else counts
        if isinstance(true, int):
            return true == values, true > 0
    return None, None


def _zigzag(value: int | bytes | None) -> int | None:
    """Decode an integer in zigzag encoding; None for other values."""
    return (value >> 1) ^ -(value & 1) if isinstance(value, int) else None


def _double(value: int | bytes | None) -> float | None:
    """Decode the 8 bytes of a finite double; None for other values, also NaN and infinities."""
    if not isinstance(value, bytes) or len(value) != 8:
        return None
    number: float = struct.unpack("<d", value)[0]
    return number if math.isfinite(number) else None


def _text(value: int | bytes | None) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else None
    except UnicodeDecodeError:  # truncated within a character
        return None


def _decimal(value: int | bytes | None) -> Decimal | None:
    try:
        found = Decimal(value.decode("ascii")) if isinstance(value, bytes) else None
    except (UnicodeDecodeError, ArithmeticError):
        return None
    return found if found is not None and found.is_finite() else None


def read_stripes(handle: pa.NativeFile, file: orc.ORCFile, path: str) -> Stripes | None:
    """Read the stripes from the footer of an open file; None if it has an unsupported codec.

    Raises `ValueError` or `IndexError` if the footer is damaged or contradicts Arrow's reader, and `LimitExceeded`
    above `limits.FOOTER`.
    """
    end = file.file_length - 1 - file.file_postscript_length
    if file.compression not in (_PLAIN, *_CODECS):
        return None
    try:
        footer = _section(handle, file, end - file.file_footer_length, file.file_footer_length)
    except TooLarge:
        raise LimitExceeded(
            f"{redact(path)} has a footer that decompresses to more than {limits.FOOTER:,} bytes. If the size is "
            "legitimate, raise lakescan.limits.FOOTER."
        ) from None
    stripes = [_numbers(value) for number, value in _fields(footer) if number == _STRIPES and isinstance(value, bytes)]
    offsets, rows = ([each.get(number, 0) for each in stripes] for number in (_OFFSET, _ROWS))
    if len(stripes) != file.nstripes or sum(rows) != file.nrows:
        raise ValueError(
            f"it lists {len(stripes):,} stripes with {sum(rows):,} rows, but records {file.nstripes:,} "
            f"with {file.nrows:,}"
        )
    if any(not 0 <= offset < file.file_length for offset in offsets):
        raise ValueError(f"it lists a stripe outside the file, which has {file.file_length:,} bytes")
    first_rows = np.cumsum([0, *rows], dtype=np.int64)
    return Stripes(np.array(offsets, dtype=np.int64), first_rows)


def _section(handle: pa.NativeFile, file: orc.ORCFile, start: int, length: int) -> bytes:
    """Read and decompress `length` bytes of the file's tail from offset `start`; raises `TooLarge`, `ValueError`."""
    return b"".join(_chunks(handle.read_at(length, start), file.compression, min(file.compression_size, _CHUNK)))


def _chunks(data: bytes, compression: str, most: int) -> Iterator[bytes]:
    """Yield the decompressed chunks of a section, each of at most `most` bytes.

    Raises `TooLarge` also for more than `limits.FOOTER` bytes together, and `ValueError` if a chunk is damaged.
    """
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
    return decompress_block("deflate", chunk, most)


def _zstd(chunk: bytes, most: int) -> bytes:
    return decompress_block("zstandard", chunk, most)


_CODECS = {"ZLIB": _zlib, "SNAPPY": decompress_snappy, "LZ4": decompress_lz4, "ZSTD": _zstd}


def _numbers(message: bytes) -> dict[int, int]:
    """Return the integer fields of a Protocol Buffers message by field number; the last one of repeated fields."""
    return {number: value for number, value in _fields(message) if isinstance(value, int)}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the field numbers and values of a Protocol Buffers message: integers, or bytes.

    Floating-point numbers are 8 or 4 bytes. Raises `ValueError` or `IndexError` if it is damaged.
    """
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
            length = 8 if kind == _DOUBLE else 4
            if length > len(data) - at:
                raise ValueError("it is truncated")
            yield number, data[at : at + length]
            at += length
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
