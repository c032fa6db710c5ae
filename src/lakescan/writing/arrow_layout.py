"""Conversion of Arrow arrays to one canonical layout.

Arrow has many layouts for a list or a string, and allows arbitrary bytes beneath a null. Files are written from one
layout: `list` and `map` with 32-bit offsets that begin at 0 and no elements beneath nulls, structs whose members are
null wherever the struct is null, `string`, `binary` and `decimal128`. There are no views, dictionaries, run-end
encoding or extension types. A UUID is a binary of 16 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from lakescan.definition.arrow_schema import decimal_digits, is_any_list

_MOST = 2**31 - 1  # most elements or bytes of an array with 32-bit offsets
_LARGE = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}


def canonical_layout(array: pa.Array) -> pa.Array:
    """Convert an array of any type to the canonical layout of this module.

    Float16 becomes float32. Raises `ArrowCapacityError` if it overflows 32-bit offsets, and `ArrowInvalid` for decimals
    with too many digits.
    """
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_storage(array)
    if (narrow := _LARGE.get(kind)) is not None:
        return _narrow_offsets(array, narrow)
    if (narrow := _VIEWS.get(kind)) is not None:
        return _convert_views(array, narrow)
    if kinds.is_float16(kind):
        return array.cast(pa.float32())
    if kinds.is_decimal(kind):
        return _decimals(array)
    if kinds.is_dictionary(kind):
        return canonical_layout(array.dictionary).take(array.indices)
    if kinds.is_run_end_encoded(kind):
        ends = array.run_ends.to_numpy(zero_copy_only=False)
        at = np.arange(array.offset, array.offset + len(array))
        return canonical_layout(array.values).take(pa.array(np.searchsorted(ends, at, side="right")))
    if kinds.is_struct(kind):
        members = [canonical_layout(member) for member in array.flatten()]  # null where the struct is
        fields = [f.with_type(m.type).with_nullable(True) for f, m in zip(kind, members, strict=True)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=array.is_null() if array.null_count else None)
    if kinds.is_map(kind):
        return _map(array)
    return _list(array) if is_any_list(kind) else array


def with_children(array: pa.Array, kind: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """Return a copy of a list or map with other elements and the type `kind`; offsets and nulls stay.

    `array` is in the canonical layout. `children` are the elements of a list, or the keys and values of a map.
    """
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], array.null_count, array.offset, _elements(kind, children)
    )


def drop_validity(array: pa.Array) -> pa.Array:
    """Return the array without its validity bitmap: each null becomes an arbitrary value (empty for strings and lists).

    Use it for required members beneath null structs: Arrow's Parquet writer rejects nulls there, too.
    """
    kind = array.type
    if not array.null_count:
        return array
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, drop_validity(array.storage))
    if kinds.is_struct(kind):
        return pa.StructArray.from_arrays([array.field(n) for n in range(kind.num_fields)], fields=list(kind))
    children = [array.keys, array.items] if kinds.is_map(kind) else [array.values] if kinds.is_list(kind) else []
    own = array.buffers()[1 : 2 if children else None]
    below = _elements(kind, children) if children else None
    return pa.Array.from_buffers(kind, len(array), [None, *own], 0, array.offset, below)


def _elements(kind: pa.DataType, children: list[pa.Array]) -> list[pa.Array]:
    """Return the child arrays for a buffer-level list or map: the elements, or one struct array of keys and values."""
    if not kinds.is_map(kind):
        return children
    return [pa.StructArray.from_arrays(children, fields=[kind.key_field, kind.item_field])]


def _plain_storage(array: pa.ExtensionArray) -> pa.Array:
    storage = canonical_layout(array.storage)
    return storage.cast(pa.bool_()) if isinstance(array.type, pa.Bool8Type) else storage


def _narrow_offsets(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert a large string or binary array to `kind`, which has 32-bit offsets.

    Arrow's cast would also count the bytes before a slice. Raises `ArrowCapacityError` for more than 2 GiB.
    """
    _, offsets, data = array.buffers()
    if not len(array) or data is None:
        return array.cast(kind)
    starts = np.frombuffer(offsets, np.int64, count=len(array) + 1, offset=8 * array.offset)
    first, size = int(starts[0]), int(starts[-1] - starts[0])
    if size > _MOST:
        raise pa.ArrowCapacityError(f"{size:,} bytes in one batch of a column")
    narrow = pa.array((starts - first).astype(np.int32)).buffers()[1]
    return pa.Array.from_buffers(kind, len(array), [_valid(array), narrow, data.slice(first, size)])


def _convert_views(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert a string or binary view array to `kind`, which has 32-bit offsets.

    Raises `ArrowCapacityError` for more than 2 GiB, which Arrow's cast does not check.
    """
    if len(array):
        views = np.frombuffer(array.buffers()[1], np.int32, count=4 * len(array), offset=16 * array.offset)
        sizes = views[::4].astype(np.int64)  # a view begins with the length
        size = int(sizes.sum(where=array.is_valid().to_numpy(zero_copy_only=False)))
        if size > _MOST:
            raise pa.ArrowCapacityError(f"{size:,} bytes in one batch of a column")
    return array.cast(kind)


def _valid(array: pa.Array) -> pa.Buffer | None:
    """Return a copy of the array's validity bitmap that begins at bit 0; None if nothing is null."""
    return pa.array(array.is_valid()).buffers()[1] if array.null_count else None


def _decimals(array: pa.Array) -> pa.Array:
    """Convert decimals of any width to `decimal128` with 0 <= scale <= precision.

    Raises `ArrowInvalid` for a value with more digits than its type allows, which Arrow does not check.
    """
    kind = array.type
    precision, scale = decimal_digits(kind)
    if kind.bit_width < 128:  # Arrow has no compute functions for narrower decimals
        array = array.cast(pa.decimal128(kind.precision, kind.scale))
    if len(array) - array.null_count:
        largest = max(each.copy_abs() for each in pc.min_max(array).as_py().values())  # `abs` would round
        if largest and largest.adjusted() >= kind.precision - kind.scale:
            raise pa.ArrowInvalid(f"{largest} has more digits than {kind}")
    return array.cast(pa.decimal128(precision, scale))


def _list(array: Any) -> pa.Array:
    kind = array.type
    if kinds.is_fixed_size_list(kind):
        starts = (array.offset + np.arange(len(array))) * kind.list_size
        lengths = np.full(len(array), kind.list_size)
    elif kinds.is_list_view(kind) or kinds.is_large_list_view(kind):
        starts, lengths = array.offsets.to_numpy(), array.sizes.to_numpy()
    else:
        starts, lengths = array.offsets.to_numpy()[:-1], np.diff(array.offsets.to_numpy())
    offsets, (values,) = _gather_elements(array, starts, lengths, [array.values])
    return _build_list(array, pa.list_(pa.field("element", values.type)), offsets, values)


def _map(array: Any) -> pa.Array:
    old_offsets = array.offsets.to_numpy()
    offsets, (keys, items) = _gather_elements(array, old_offsets[:-1], np.diff(old_offsets), [array.keys, array.items])
    kind = pa.map_(pa.field("key", keys.type, nullable=False), pa.field("value", items.type))
    entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
    return _build_list(array, kind, offsets, entries)


def _gather_elements(
    array: pa.Array, starts: np.ndarray, lengths: np.ndarray, children: list[pa.Array]
) -> tuple[np.ndarray, list[pa.Array]]:
    """Return 64-bit offsets from 0, and the elements of the non-null lists without gaps, in the canonical layout.

    `starts` and `lengths` locate each list of `array` in `children`: its elements, or its keys and its values. Raises
    `ArrowCapacityError` for more elements than 32-bit offsets can count.
    """
    starts, lengths = starts.astype(np.int64), lengths.astype(np.int64)
    if array.null_count:
        lengths = np.where(array.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _MOST:
        raise pa.ArrowCapacityError(f"{offsets[-1]:,} elements in lists of one batch")
    some = lengths > 0
    if not some.any():
        return offsets, [canonical_layout(child.slice(0, 0)) for child in children]
    first, last = int(starts[some].min()), int((starts + lengths)[some].max())
    elements = [canonical_layout(child.slice(first, last - first)) for child in children]
    if last - first == offsets[-1] and np.array_equal(starts[some] - first, offsets[:-1][some]):
        return offsets, elements
    at = pa.array(np.arange(offsets[-1]) + np.repeat(starts - first - offsets[:-1], lengths))
    return offsets, [child.take(at) for child in elements]


def _build_list(array: pa.Array, kind: pa.DataType, offsets: np.ndarray, values: pa.Array) -> pa.Array:
    narrow = pa.array(offsets.astype(np.int32)).buffers()[1]
    return pa.Array.from_buffers(kind, len(array), [_valid(array), narrow], array.null_count, 0, [values])
