"""A bound predicate over Arrow columns: one mask for the whole batch, nulls where SQL says null."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.like import matches
from lakescan.expressions.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Or,
    Predicate,
)

Columns = Callable[[int], pa.Array]

_KERNELS = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "=": pc.equal,
    "!=": pc.not_equal,
}


def evaluate(predicate: Predicate, columns: Columns, rows: int) -> pa.Array:
    """A boolean array of `rows` values; `columns` gives the column of a field id."""
    match predicate:
        case Constant(value):
            return pa.repeat(pa.scalar(value), rows)
        case And(left, right):
            return pc.and_kleene(evaluate(left, columns, rows), evaluate(right, columns, rows))
        case Or(left, right):
            return pc.or_kleene(evaluate(left, columns, rows), evaluate(right, columns, rows))
        case Comparison():
            return compare(storage(columns(predicate.bound_id)), predicate.op, predicate.value)
        case In():
            found = _is_in(storage(columns(predicate.bound_id)), predicate.values)
            return pc.invert(found) if predicate.negate else found
        case IsNull():
            column = columns(predicate.bound_id)
            return pc.is_valid(column) if predicate.negate else pc.is_null(column)
        case IsNaN():
            found = pc.fill_null(pc.is_nan(columns(predicate.bound_id)), False)
            return pc.invert(found) if predicate.negate else found
        case Like():
            found = matches(columns(predicate.bound_id), predicate.pattern, ignore_case=predicate.ignore_case)
            return pc.invert(found) if predicate.negate else found
    raise TypeError(f"cannot evaluate {predicate!r}")


def keep(predicate: Predicate, columns: Columns, rows: int) -> pa.Array:
    """The rows that the predicate keeps: where it is true, not null."""
    return pc.fill_null(evaluate(predicate, columns, rows), False)


def compare(column: pa.Array, op: str, value: pa.Scalar) -> pa.Array:
    """`column op value` with SQL's NaN: equal to itself, greater than all else. Null where the column is."""
    if pa.types.is_floating(column.type):
        return _compare_floating(column, op, value)
    if pa.types.is_fixed_size_binary(column.type):
        column, value = column.cast(pa.binary()), value.cast(pa.binary())
    return _KERNELS[op](column, value)


def storage(column: pa.Array) -> pa.Array:
    """The column under an extension type (uuid), which Arrow's kernels work on."""
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _compare_floating(column: pa.Array, op: str, value: pa.Scalar) -> pa.Array:
    is_nan = pc.is_nan(column)
    if value.as_py() == value.as_py():
        compared = _KERNELS[op](column, value)
        return pc.or_kleene(compared, is_nan) if op in (">", ">=") else compared
    match op:
        case "=" | ">=":
            return is_nan
        case "!=" | "<":
            return pc.invert(is_nan)
        case "<=":
            return pc.or_kleene(is_nan, pc.invert(is_nan))
    return pc.and_kleene(is_nan, pc.invert(is_nan))


def _is_in(column: pa.Array, values: tuple[pa.Scalar, ...]) -> pa.Array:
    """Null where the column is null; floats one by one, because a hash set tells 0.0 from -0.0."""
    if pa.types.is_floating(column.type):
        return reduce(pc.or_kleene, (compare(column, "=", v) for v in values))
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    wanted = []
    for value in values:
        try:
            wanted.append(value.cast(column.type))
        except pa.ArrowInvalid:  # more digits than the column can hold: equal to none of its values
            continue
    found = pc.is_in(column, value_set=pa.array(wanted, column.type))
    return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))


def columns_of(batch: pa.RecordBatch | pa.Table, schema: Schema) -> Columns:
    """Access by field id to a batch whose columns are those of the schema, in its order; members of structs too."""
    places = {field.id: i for i, field in enumerate(schema.fields)}

    def column(field_id: int) -> pa.Array:
        top = schema.top_level_of[field_id]
        found, field = batch.column(places[top.id]), top
        while field.id != field_id:
            assert isinstance(field.type, t.Struct)
            index, field = next(
                (i, f) for i, f in enumerate(field.type.fields) if any(w.id == field_id for w in t.walk((f,)))
            )
            found = pc.struct_field(found, [index])
        return found

    return column
