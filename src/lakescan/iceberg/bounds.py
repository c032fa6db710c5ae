"""Bounds and partition values in binary (specification, appendix D: "Binary single-value serialization"), columnar."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import types as t
from lakescan.planning.column_stats import ColumnStats
from lakescan.reading.casting import cast_leaf

_FIXED_WIDTH: dict[t.Type, tuple[str, ...]] = {
    t.BOOLEAN: ("u1",),
    t.INT: ("<i4",),
    t.LONG: ("<i8", "<i4"),  # a column that was an int has old bounds of 4 bytes
    t.FLOAT: ("<f4",),
    t.DOUBLE: ("<f8", "<f4"),
    t.DATE: ("<i4",),
    t.TIME: ("<i8",),
}


def decode_values(values: pa.Array, kind: t.Type) -> pa.Array | None:
    """Serialized values as an Arrow array of the type; null where absent or of a length the type does not have.

    None for types whose order or encoding says nothing that pruning can use (uuid, variant, geospatial, nested).
    """
    if isinstance(kind, t.Timestamp):
        # A column that was a date has old bounds of 4 bytes: days.
        days = _fixed(values, ("<i4",)).cast(pa.int32()).cast(pa.date32())
        return pc.coalesce(_fixed(values, ("<i8",)).cast(kind.arrow()), cast_leaf(days, kind, ""))
    if kind in _FIXED_WIDTH:
        return _fixed(values, _FIXED_WIDTH[kind]).cast(kind.arrow())
    if isinstance(kind, t.Decimal):
        return _decimals(values, kind)
    if kind == t.STRING:
        return _text(values)
    if kind == t.BINARY or isinstance(kind, t.Fixed):
        return values
    return None


def column_stats(stats: pa.StructArray, field: t.Field, record_count: pa.Array) -> ColumnStats:
    """One column's statistics out of the key-value lists of manifest entries.

    `stats` has members value_counts, null_value_counts, nan_value_counts, lower_bounds and upper_bounds, as many as
    the manifest has; each a list of (key: field id, value).
    """
    bounds = [
        decode_values(found, field.type) if (found := value_of_key(stats, name, field.id)) is not None else None
        for name in ("lower_bounds", "upper_bounds")
    ]
    values = value_of_key(stats, "value_counts", field.id)
    nulls = value_of_key(stats, "null_value_counts", field.id)
    nans = value_of_key(stats, "nan_value_counts", field.id) if field.type in t.FLOATING else None
    return ColumnStats(bounds[0], bounds[1], nulls, nans, record_count if values is None else values)


def value_of_key(stats: pa.StructArray, name: str, key: int) -> pa.Array | None:
    """For each row, the value under `key` in its key-value list `name`, null where it has none; None without a list."""
    index = stats.type.get_field_index(name)
    if index < 0:
        return None
    lists = stats.field(index)
    if pa.types.is_map(lists.type):  # a metadata table's
        keys, items = lists.keys, lists.items
        lists = pa.ListArray.from_arrays(lists.offsets, pa.StructArray.from_arrays([keys, items], ["key", "value"]))
    entries = lists.flatten()
    found = np.flatnonzero(entries.field(0).to_numpy(zero_copy_only=False) == key)
    rows = pc.list_parent_indices(lists).take(pa.array(found)).to_numpy()
    values = entries.field(1).take(pa.array(found))
    if len(rows) == len(stats) and (rows == np.arange(len(stats))).all():
        return values  # every file has it, which is the rule
    place = np.full(len(stats), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    return values.take(pa.array(place, mask=place < 0))


def _by_length(values: pa.Array, decode: Callable[[np.ndarray, int], np.ndarray | None], dtype: str) -> pa.Array:
    """Decode values a length at a time: `decode` gets a matrix of bytes; None for a length it does not know."""
    lengths = pc.fill_null(pc.binary_length(values), -1).to_numpy(zero_copy_only=False)
    result, known = np.zeros(len(values), dtype=dtype), np.zeros(len(values), dtype=bool)
    for length in np.unique(lengths[lengths > 0]).tolist():  # a handful: the widths of a type
        rows = np.flatnonzero(lengths == length)
        taken = values.take(pa.array(rows)).cast(pa.binary(length))
        raw = np.frombuffer(taken.buffers()[1], dtype=np.uint8, count=len(rows) * length).reshape(len(rows), length)
        decoded = decode(raw, length)
        if decoded is not None:
            result[rows], known[rows] = decoded, True
    return pa.array(result, mask=~known)


def _fixed(values: pa.Array, widths: tuple[str, ...]) -> pa.Array:
    by_length = {np.dtype(w).itemsize: np.dtype(w) for w in widths}

    def decode(raw: np.ndarray, length: int) -> np.ndarray | None:
        kind = by_length.get(length)
        return None if kind is None else np.ascontiguousarray(raw).view(kind).reshape(-1)

    widest = np.dtype(widths[0])
    return _by_length(values, decode, widest.str)


def _decimals(values: pa.Array, kind: t.Decimal) -> pa.Array:
    """Unscaled big-endian two's complement, to 16 little-endian bytes."""
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
    return pa.Array.from_buffers(pa.decimal128(38, kind.scale), len(values), [mask, data])


def _text(values: pa.Array) -> pa.Array | None:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # a bound cut inside a character
        return None
