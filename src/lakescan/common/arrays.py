"""Helpers for Arrow arrays: combining chunks, numbering values and rows, removing offsets, casting to the null type."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_BITS = {pa.float64(): pa.int64(), pa.float32(): pa.int32(), pa.float16(): pa.int16()}


def as_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values as one array, combining the chunks of a chunked array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows. `schema.empty_table()` fails if UUIDs are inside other types."""
    return pa.Table.from_batches([], schema=schema)


def empty_structs(rows: int) -> pa.StructArray:
    """Return an array of `rows` non-null structs whose type has no members."""
    return pa.Array.from_buffers(pa.struct([]), rows, [None])


def struct_member(values: pa.StructArray, name: str) -> pa.Array:
    """Return the member `name` of an array of structs, null where the struct is null.

    Unlike in Arrow's own lookup, a name that begins with a dot is not a path. Raises `KeyError` for an unknown name.
    """
    index = values.type.get_field_index(name)
    if index < 0:
        raise KeyError(name)
    return pc.struct_field(values, [index])


def dictionary_codes(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Number the distinct values from 0 in order of appearance, and return the number of each value; -1 for null."""
    indices = as_array(values).dictionary_encode().indices
    result: np.ndarray = indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return result


def float_bits(values: pa.Array) -> pa.Array:
    """Return floating-point numbers as integers with the same bits, and values of other types unchanged.

    The bits distinguish -0.0 from 0.0. All NaNs become the same integer.
    """
    if values.type not in _BITS:
        return values
    one_nan = pc.if_else(pc.is_nan(values), pa.scalar(math.nan, values.type), values)
    return one_nan.view(_BITS[values.type])


def remove_inner_offsets(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Copy a column of nested structs if one of its arrays has an offset; otherwise return it unchanged.

    Slices have offsets. DuckDB before 2.0 ignores the offset of a struct inside a struct, list or map, and reads other
    rows.
    """
    if not _holds_struct(column.type):
        return column
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array(map(remove_inner_offsets, column.chunks), column.type)
    return column.take(pa.array(np.arange(len(column)))) if _has_offset(column) else column


def remove_table_offsets(table: pa.Table) -> pa.Table:
    """Apply `remove_inner_offsets` to all columns of a table."""
    if not any(_holds_struct(kind) for kind in table.schema.types):
        return table
    return pa.table([remove_inner_offsets(column) for column in table.columns], schema=table.schema)


def _holds_struct(kind: pa.DataType) -> bool:
    """Return whether a type has a struct or union inside it, not counting the type itself; False for plain types."""
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
    """Number the distinct rows of several columns from 0, and return the number of each row.

    Null equals null, and NaN equals NaN. Whether 0.0 equals -0.0 is not defined: pass floating-point numbers as bits
    (`float_bits`), or with one kind of zero. The columns need types that Arrow can hash: no lists, maps or structs.
    """
    numbers: np.ndarray | None = None
    for column in columns:
        values = as_array(column)
        encoded = (values.storage if isinstance(values, pa.ExtensionArray) else values).dictionary_encode("encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        numbers = codes if numbers is None else combine_codes(numbers, codes, len(encoded.dictionary))[1]
    return np.zeros(0, dtype=np.int64) if numbers is None else numbers


def combine_codes(numbers: np.ndarray, codes: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Combine, for each row, the number in `numbers` with the code of another column in `codes`, both counted from 0.

    `count` is the number of different codes. Returns the distinct combinations (`number * count + code`, sorted), and
    for each row the index of its combination. Use these indices as `numbers` for the next column: they are dense, so
    the product cannot overflow.
    """
    combinations, places = np.unique(numbers * max(count, 1) + codes, return_inverse=True)
    return combinations, places.astype(np.int64, copy=False)


def cast_nulls(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast values to a type that may contain the type `null` at any depth.

    Args:
        values: Values of any type. Values that are cast to `null` are lost.
        kind: The target type, nested in the same way.

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
    if kind == pa.month_day_nano_interval() and pa.types.is_integer(values.type):  # numbers of months
        return pa.array([None if each is None else (each, 0, 0) for each in values.to_pylist()], kind)
    if not _has_null(kind):
        return values.cast(kind)
    if values.offset:  # `from_arrays` rejects offsets of a sliced array
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
