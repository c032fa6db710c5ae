"""Convert bounds: serialized values <-> Arrow arrays (specification, "Binary single-value serialization")."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal as PyDecimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.corrupt_statistics import drop_contradictions, filter_manifest_stats

_FIXED_WIDTH: dict[t.Type, tuple[str, ...]] = {
    t.BOOLEAN: ("u1",),
    t.INT: ("<i4",),
    t.LONG: ("<i8", "<i4"),  # a column promoted from int has old bounds of 4 bytes
    t.FLOAT: ("<f4",),
    t.DOUBLE: ("<f8", "<f4"),
    t.DATE: ("<i4",),
    t.TIME: ("<i8",),
}
_NANOSECONDS = (t.Timestamp("ns", zoned=True), t.Timestamp("ns", zoned=False))
_MOST = np.iinfo(np.int64).max


def encode_value(value: Any, kind: t.Type) -> bytes:
    """Serialize one value (specification, appendix D).

    Dates, times and timestamps are given as numbers, decimals as unscaled numbers, strings as bytes.

    >>> encode_value(-1, t.Decimal(9, 2)), encode_value(True, t.BOOLEAN)
    (b'\\xff', b'\\x01')
    """
    if isinstance(kind, t.Decimal):
        number = int(value)
        size = (number if number >= 0 else ~number).bit_length() // 8 + 1
        return number.to_bytes(size, "big", signed=True)
    if kind in _FIXED_WIDTH or isinstance(kind, t.Timestamp):
        width = _FIXED_WIDTH.get(kind, ("<i8",))[0]
        return np.array(value, width).tobytes()
    return bytes(value)


def decode_values(values: pa.Array, kind: t.Type) -> pa.Array | None:
    """Decode serialized values to an Arrow array of the type; null where missing or of an invalid length.

    Returns None for types that bounds cannot prune: uuid, variant, geospatial and nested types.
    """
    if isinstance(kind, t.Timestamp):
        # A column promoted from date has old bounds of 4 bytes, which are days.
        return pc.coalesce(_decode_numbers(values, ("<i8",)), _days(values, kind)).cast(kind.arrow())
    if kind in _FIXED_WIDTH:
        return _decode_numbers(values, _FIXED_WIDTH[kind]).cast(kind.arrow())
    if isinstance(kind, t.Decimal):
        return _decimals(values, kind)
    if kind == t.STRING:
        return _text(values)
    if kind == t.BINARY or isinstance(kind, t.Fixed):
        return values
    return None


def recorded_stats(files: pa.Table, field: t.Field, *, is_member: bool = False) -> ColumnStats:
    """Return one column's statistics from manifest entries, without untrustworthy ones (`planning.corrupt_statistics`).

    The entries have `record_count`, `file_format` and `stats`. The members of `stats` (null_value_counts,
    nan_value_counts, lower_bounds, upper_bounds, as far as the manifest has them) are lists of (key: field id, value).
    `is_member` is True for a column inside a struct.
    """
    stats, counts, formats = (files[name].combine_chunks() for name in ("stats", "record_count", "file_format"))
    bounds = [
        decode_values(bound, field.type) if (bound := value_of_key(stats, name, field.id)) is not None else None
        for name in ("lower_bounds", "upper_bounds")
    ]
    if field.type in _NANOSECONDS:
        bounds = [None if b is None else _widen_bounds(b, upper=i == 1) for i, b in enumerate(bounds)]
    nulls = value_of_key(stats, "null_value_counts", field.id)
    nans = value_of_key(stats, "nan_value_counts", field.id) if field.type in t.FLOATING else None
    recorded = ColumnStats(bounds[0], bounds[1], nulls, nans)
    return drop_contradictions(filter_manifest_stats(recorded, field, formats, counts, is_member=is_member))


def _widen_bounds(bounds: pa.Array, *, upper: bool) -> pa.Array:
    """Return nanosecond bounds, with those that are whole microseconds moved up to 999 ns outwards.

    Such bounds may be truncated from values further out: writers truncate either downwards or towards 1970.
    """
    mask = bounds.is_null().to_numpy(zero_copy_only=False)
    numbers = pc.fill_null(bounds.cast(pa.int64()), 1).to_numpy(zero_copy_only=False)
    whole = numbers % 1000 == 0
    if upper:
        wide = np.where(whole, np.minimum(numbers, _MOST - 999) + 999, numbers)
    else:
        wide = np.where(whole & (numbers <= 0), np.maximum(numbers, 998 - _MOST) - 999, numbers)
    return pa.array(wide, mask=mask).cast(bounds.type)


def _days(values: pa.Array, kind: t.Timestamp) -> pa.Array:
    """Convert 4-byte bounds, which are days since 1970, to numbers in the unit of the type; null on overflow."""
    days = _decode_numbers(values, ("<i4",)).cast(pa.int64())
    numbers = pc.fill_null(days, 0).to_numpy(zero_copy_only=False)
    fits = (np.abs(numbers) <= _MOST // kind.per_day) & pc.is_valid(days).to_numpy(zero_copy_only=False)
    return pa.array(np.where(fits, numbers, 0) * kind.per_day, mask=~fits)


def value_of_key(stats: pa.StructArray, name: str, key: int) -> pa.Array | None:
    """Return each row's value for `key` in its key-value list `name`, null if absent; None if there is no list."""
    index = stats.type.get_field_index(name)
    if index < 0:
        return None
    lists = stats.field(index)
    if pa.types.is_map(lists.type):  # from a metadata table
        keys, items = lists.keys, lists.items
        lists = pa.ListArray.from_arrays(lists.offsets, pa.StructArray.from_arrays([keys, items], ["key", "value"]))
    entries = lists.flatten()
    matches = np.flatnonzero(entries.field(0).to_numpy(zero_copy_only=False) == key)
    rows = pc.list_parent_indices(lists).take(pa.array(matches)).to_numpy()
    values = entries.field(1).take(pa.array(matches))
    if len(rows) == len(stats) and (rows == np.arange(len(stats))).all():
        return values  # the common case: every file has the key
    place = np.full(len(stats), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return values.take(pa.array(place, mask=place < 0))


def _decode_lengths(values: pa.Array, decode: Callable[[np.ndarray, int], np.ndarray | None], dtype: str) -> pa.Array:
    """Decode binary values to numbers of `dtype`, all values of the same length at once.

    `decode` takes a matrix of bytes and the length, and returns None for an invalid length, whose values become null.
    """
    lengths = pc.fill_null(pc.binary_length(values), -1).to_numpy(zero_copy_only=False)
    result, known = np.zeros(len(values), dtype=dtype), np.zeros(len(values), dtype=bool)
    for length in np.unique(lengths[lengths > 0]).tolist():  # few distinct lengths, the widths of a type
        rows = np.flatnonzero(lengths == length)
        taken = values.take(pa.array(rows)).cast(pa.binary(length))
        raw = np.frombuffer(taken.buffers()[1], dtype=np.uint8, count=len(rows) * length).reshape(len(rows), length)
        decoded = decode(raw, length)
        if decoded is not None:
            result[rows], known[rows] = decoded, True
    return pa.array(result, mask=~known)


def _decode_numbers(values: pa.Array, widths: tuple[str, ...]) -> pa.Array:
    by_length = {np.dtype(w).itemsize: np.dtype(w) for w in widths}

    def decode(raw: np.ndarray, length: int) -> np.ndarray | None:
        kind = by_length.get(length)
        return None if kind is None else np.ascontiguousarray(raw).view(kind).reshape(-1)

    widest = np.dtype(widths[0])
    return _decode_lengths(values, decode, widest.str)


def _decimals(values: pa.Array, kind: t.Decimal) -> pa.Array:
    """Decode decimals from unscaled big-endian two's complement; null where the precision of `kind` is exceeded."""
    lengths = pc.fill_null(pc.binary_length(values), -1).to_numpy(zero_copy_only=False)
    wide = np.zeros((len(values), 16), dtype=np.uint8)
    for length in np.unique(lengths[(lengths > 0) & (lengths <= 16)]).tolist():
        rows = np.flatnonzero(lengths == length)
        taken = values.take(pa.array(rows)).cast(pa.binary(length))
        raw = np.frombuffer(taken.buffers()[1], dtype=np.uint8, count=len(rows) * length).reshape(len(rows), length)
        wide[rows, :] = np.where(raw[:, :1] & 0x80, 0xFF, 0)
        wide[rows, 16 - length :] = raw
    known = (lengths > 0) & (lengths <= 16)
    mask = pa.array(known).buffers()[1]
    data = pa.py_buffer(np.ascontiguousarray(wide[:, ::-1]).tobytes())
    decimals = pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(values), [mask, data])
    most = pa.scalar(PyDecimal((0, (9,) * kind.precision, -kind.scale)), decimals.type)
    least = pa.scalar(PyDecimal((1, (9,) * kind.precision, -kind.scale)), decimals.type)
    fits = pc.and_(pc.less_equal(decimals, most), pc.greater_equal(decimals, least))
    return pc.if_else(fits, decimals, pa.scalar(None, decimals.type)).cast(kind.arrow())


def _text(values: pa.Array) -> pa.Array | None:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # a bound truncated inside a character
        return None
