"""Arrow arrays: chunks as one array, values and rows as numbers, offsets of structs, and nulls without a type."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BITS = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}


def as_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values as one array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows; `schema.empty_table()` fails if UUIDs are inside other types."""
    return pa.Table.from_batches([], schema=schema)


def empty_structs(rows: int) -> pa.StructArray:
    """So many structs without members."""
    return pa.Array.from_buffers(pa.struct([]), rows, [None])


def struct_member(values: pa.StructArray, name: str) -> pa.Array:
    """A member of structs by its name, null where the struct is; Arrow takes names that begin with a dot for paths."""
    index = values.type.get_field_index(name)
    if index < 0:
        raise KeyError(name)
    return pc.struct_field(values, [index])


def dictionary_codes(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A number for each distinct value, from 0 in order of appearance; -1 for null."""
    indices = as_array(values).dictionary_encode().indices
    result: np.ndarray = indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def float_bits(values: pa.Array) -> pa.Array:
    """Floating-point numbers as bits, which distinguish -0.0 from 0.0, with one NaN; other values as they are."""
    if values.type not in _BITS:
        return values
    one_nan = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)
    return one_nan.view(_BITS[values.type])


def remove_inner_offsets(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The column; a copy of what has an offset at or above a struct that is inside another array.

    Slices have offsets. DuckDB drops that of a struct in a struct, list or map: versions before 2.0 read other rows.
    """
    if not _holds_struct(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(map(remove_inner_offsets, column.chunks), column.type)
    return column.take(pa.array(np.arange(len(column)))) if _has_offset(column) else column


def remove_table_offsets(table: pa.Table) -> pa.Table:
    """A table with `remove_inner_offsets` of all its chunks."""
    if not any(_holds_struct(kind) for kind in table.schema.types):
        return table
    return pa.table([remove_inner_offsets(column) for column in table.columns], schema=table.schema)


def _holds_struct(kind: pa.DataType) -> bool:
    """Whether arrays inside arrays of a type are structs, or unions."""
    return any(_is_struct(each) or _holds_struct(each) for each in _inner_types(kind))


def _is_struct(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) or pa.types.is_union(kind)


def _inner_types(kind: pa.DataType) -> list[pa.DataType]:
    if isinstance(kind, pa.BaseExtensionType):
        return _inner_types(kind.storage_type)
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.field(place).type for place in range(kind.num_fields)]


def _has_offset(array: pa.Array) -> bool:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if _is_struct(kind):
        inner = [array.field(place) for place in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        inner = [array.keys, array.items]
    else:
        inner = [array.values] if kind.num_fields else []
    return array.offset > 0 or any(map(_has_offset, inner))


def row_numbers(columns: Iterable[pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """A number for each row, from 0; equal for rows that are equal in all columns.

    Null equals null, and NaN equals NaN. Whether 0.0 equals -0.0 is not defined: pass floating-point numbers as bits
    (`arrays.float_bits`), or with one kind of zero. The types are those that Arrow can hash: no lists, maps or structs.
    """
    numbers: np.ndarray | None = None
    for column in columns:
        values = as_array(column)
        encoded = (values.storage if isinstance(values, pa.ExtensionArray) else values).dictionary_encode("encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        numbers = codes if numbers is None else combine_codes(numbers, codes, len(encoded.dictionary))[1]
    return np.zeros(0, dtype=np.int64) if numbers is None else numbers


def combine_codes(numbers: np.ndarray, codes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Combine row numbers with the codes of another column, which are less than `count`.

    Returns the distinct combinations, `number * count + code`, sorted; and the place of each row's combination in them.
    Places are dense, so that the next product cannot overflow.
    """
    combinations, places = np.unique(numbers * max(count, 1) + codes, return_inverse=True)
    return combinations, places.astype(np.int64, copy=False)


def cast_nulls(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast values to a type, in which what is null may be of the type `null`, at any depth.

    Args:
        values: Any values; those that become of type `null` are lost.
        kind: The wanted type, of the same shape.

    Returns:
        Values of that type.

    Raises:
        pyarrow.ArrowException: Arrow does not cast the values.

    Example:
        >>> cast_nulls(pa.array([[]], pa.list_(pa.int32())), pa.list_(pa.null())).type
        ListType(list<item: null>)
    """
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if kind == pa.month_day_nano_interval() and pa.types.is_integer(values.type):  # of months
        return pa.array([None if each is None else (each, 0, 0) for each in values.to_pylist()], kind)
    if not _has_null(kind):
        return values.cast(kind)
    if values.offset:  # Arrow makes no lists of offsets that do not begin at the first value
        values = pa.concat_arrays([values, values.slice(0, 0)])
    is_null = values.is_null()
    if pa.types.is_struct(kind):
        fields = list(kind)
        children = [cast_nulls(each, field.type) for each, field in zip(values.flatten(), fields, strict=True)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=is_null)
    if pa.types.is_map(kind):
        keys, items = cast_nulls(values.keys, kind.key_type), cast_nulls(values.items, kind.item_type)
        return pa.MapArray.from_arrays(values.offsets, keys, items, kind, mask=is_null)
    return pa.ListArray.from_arrays(values.offsets, cast_nulls(values.values, kind.value_type), kind, mask=is_null)


def _has_null(kind: pa.DataType) -> bool:
    return pa.types.is_null(kind) or any(_has_null(kind.field(n).type) for n in range(kind.num_fields))
