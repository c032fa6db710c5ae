"""Decode the bounds of column chunks: bytes in a footer -> Arrow values of the file's type."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lakescan.planning.corrupt_statistics import can_trust_footer
from lakescan.reading.parquet.footer import ChunkStatistics

# Physical types by their numbers in `parquet.thrift`.
_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTES, _FIXED = 0, 1, 2, 4, 5, 6, 7
_LAYOUT = {_BOOLEAN: "u1", _INT32: "<i4", _INT64: "<i8", _FLOAT: "<f4", _DOUBLE: "<f8"}
PHYSICAL = {"BOOLEAN": 0, "INT32": 1, "INT64": 2, "INT96": 3, "FLOAT": 4, "DOUBLE": 5}
PHYSICAL |= {"BYTE_ARRAY": _BYTES, "FIXED_LEN_BYTE_ARRAY": _FIXED}
_EXACT = Context(prec=80)


def decode_bounds(
    statistics: Sequence[ChunkStatistics], side: str, physical_type: str, kind: pa.DataType, created_by: str | None
) -> pa.Array | None:
    """Decode the bounds of one side ('lower' or 'upper') to an array of `kind`, null for chunks without reliable ones.

    None if bounds of this type cannot be decoded, or the writer `created_by` is known to record wrong ones.
    `physical_type` is the schema's; a chunk of another type has none.
    """
    number = PHYSICAL.get(physical_type)
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if not can_trust_footer(created_by, physical_type, kind):
        return None
    plain = number in _LAYOUT and not pa.types.is_unsigned_integer(kind)
    values = [getattr(s, side) if s.physical_type == number and (s.ordered or plain) else None for s in statistics]
    if number in _LAYOUT:
        return _numbers(values, _LAYOUT[number], kind)
    return _bytes(values, kind) if number in (_BYTES, _FIXED) else None


def _numbers(values: list[bytes | None], layout: str, kind: pa.DataType) -> pa.Array | None:
    width = np.dtype(layout).itemsize
    missing = np.array([v is None or len(v) != width for v in values], dtype=bool)
    joined = b"".join(bytes(width) if absent else v or b"" for v, absent in zip(values, missing, strict=True))
    numbers = np.frombuffer(joined, dtype=layout)
    if layout == "u1":
        return pa.array(numbers != 0, mask=missing) if pa.types.is_boolean(kind) else None
    if pa.types.is_floating(kind):
        return pa.array(numbers, mask=missing | np.isnan(numbers)).cast(kind)
    if pa.types.is_decimal(kind):
        return _decimals([None if absent else int(v) for v, absent in zip(numbers, missing, strict=True)], kind)
    if pa.types.is_unsigned_integer(kind):
        return pa.array(numbers.view(layout.replace("i", "u")), mask=missing).cast(kind)
    whole = pa.array(numbers, mask=missing)
    return whole.cast(kind) if pa.types.is_integer(kind) else whole.view(kind)


def _bytes(values: list[bytes | None], kind: pa.DataType) -> pa.Array | None:
    if pa.types.is_decimal(kind):
        return _decimals([None if v is None else int.from_bytes(v, "big", signed=True) for v in values], kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array([None if v is None else _text(v) for v in values], kind)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array(values, kind)
    return None


def _decimals(unscaled: list[int | None], kind: pa.DataType) -> pa.Array:
    decimals: list[Any] = [None if v is None else Decimal(v).scaleb(-kind.scale, _EXACT) for v in unscaled]
    return pa.array(decimals, kind)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
