"""Nulls without a type: values that have Arrow's type `null`, at any depth, which Arrow casts nothing to."""

from __future__ import annotations

import pyarrow as pa


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
        >>> fitted(pa.array([[]], pa.list_(pa.int32())), pa.list_(pa.null())).type
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
