"""Evaluation of a bound predicate on Arrow columns, with SQL's three-valued logic."""

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
    ColumnComparison,
    Comparison,
    Constant,
    In,
    IsNaN,
    IsNull,
    Like,
    Or,
    Predicate,
    SqlCondition,
    has_sql,
    operands,
)

Columns = Callable[[int], pa.Array]

KERNELS = {
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
    "=": pc.equal,
    "!=": pc.not_equal,
}


def evaluate(predicate: Predicate, columns: Columns, rows: int, *, among: pa.Array | None = None) -> pa.Array:
    """Evaluate a bound predicate into a boolean array of `rows` values; null where SQL's result is null.

    `columns` returns the array of a field by its id. SQL conditions are evaluated only on the rows in the mask `among`
    (by default on all rows), and the result is undefined on other rows. Raises the errors of
    `ScalarExpression.evaluate`.
    """
    return (
        _evaluate_lazily(predicate, columns, rows, among)
        if has_sql(predicate)
        else _evaluate_kernels(predicate, columns, rows)
    )


def _evaluate_kernels(predicate: Predicate, columns: Columns, rows: int) -> pa.Array:
    """Evaluate a bound predicate without SQL conditions by Arrow's compute functions; see `evaluate`."""
    match predicate:
        case Constant(value):
            return pa.repeat(pa.scalar(value), rows)
        case And(left, right):
            return pc.and_kleene(_evaluate_kernels(left, columns, rows), _evaluate_kernels(right, columns, rows))
        case Or(left, right):
            return pc.or_kleene(_evaluate_kernels(left, columns, rows), _evaluate_kernels(right, columns, rows))
        case Comparison():
            return compare(storage(columns(predicate.bound_id)), predicate.op, predicate.value)
        case ColumnComparison():
            one, other = (columns(each) for each in predicate.bound_ids)
            return KERNELS[predicate.op](one, other)
        case In():
            mask = _is_in(storage(columns(predicate.bound_id)), predicate.values)
            return pc.invert(mask) if predicate.negate else mask
        case IsNull():
            column = columns(predicate.bound_id)
            return pc.is_valid(column) if predicate.negate else pc.is_null(column)
        case IsNaN():
            mask = pc.fill_null(pc.is_nan(columns(predicate.bound_id)), False)
            return pc.invert(mask) if predicate.negate else mask
        case Like():
            mask = matches(columns(predicate.bound_id), predicate.pattern, ignore_case=predicate.ignore_case)
            return pc.invert(mask) if predicate.negate else mask
    raise TypeError(f"cannot evaluate {predicate!r}")


def _evaluate_lazily(predicate: Predicate, columns: Columns, rows: int, among: pa.Array | None) -> pa.Array:
    """Evaluate a predicate with SQL conditions, on which other operands of AND and OR are evaluated first.

    An SQL condition is evaluated only on rows that the other operands do not decide, because it may fail elsewhere.
    `among` is the mask of the rows to evaluate; None for all.
    """
    if isinstance(predicate, SqlCondition):
        return _evaluate_sql(predicate, columns, rows, among)
    assert isinstance(predicate, And | Or)
    join, decisive = (pc.and_kleene, False) if isinstance(predicate, And) else (pc.or_kleene, True)
    result = None
    for part in sorted(operands(predicate), key=has_sql):
        undecided = among
        if result is not None:
            undecided = pc.fill_null(pc.not_equal(result, decisive), True)
            undecided = undecided if among is None else pc.and_(undecided, among)
        value = evaluate(part, columns, rows, among=undecided)
        result = value if result is None else join(result, value)
    return result


def _evaluate_sql(condition: SqlCondition, columns: Columns, rows: int, among: pa.Array | None) -> pa.Array:
    expression = condition.bound_expression
    if among is None:
        return expression.evaluate_columns(columns, rows)
    count = pc.sum(among).as_py() or 0
    result = pa.nulls(rows, pa.bool_())
    if not count:
        return result
    values = expression.evaluate_columns(lambda field_id: columns(field_id).filter(among), count)
    return pc.replace_with_mask(result, among, values.cast(pa.bool_()))


def matching_rows(predicate: Predicate, columns: Columns, rows: int, *, among: pa.Array | None = None) -> pa.Array:
    """Return a mask of the rows that satisfy the predicate; False where the predicate is null. See `evaluate`."""
    return pc.fill_null(evaluate(predicate, columns, rows, among=among), False)


def compare(column: pa.Array, op: str, value: pa.Scalar) -> pa.Array:
    """Evaluate `column op value` into a boolean array, null for nulls; `op` is one of < <= > >= = !=.

    NaN equals NaN and is greater than all other values.
    """
    if pa.types.is_floating(column.type):
        return _compare_floating(column, op, value)
    if pa.types.is_fixed_size_binary(column.type):
        column, value = column.cast(pa.binary()), value.cast(pa.binary())
    return KERNELS[op](column, value)


def storage(column: pa.Array) -> pa.Array:
    """Return the storage array of an array with an extension type (UUID), and other arrays unchanged.

    Arrow's compute functions do not take extension types.
    """
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def _compare_floating(column: pa.Array, op: str, value: pa.Scalar) -> pa.Array:
    is_nan = pc.is_nan(column)
    if value.as_py() == value.as_py():
        compared = KERNELS[op](column, value)
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
    """Evaluate `column in (values)` into a boolean array, null where the column is null.

    Floats are compared one by one, because Arrow's hash set distinguishes 0.0 and -0.0.
    """
    if pa.types.is_floating(column.type):
        return reduce(pc.or_kleene, (compare(column, "=", v) for v in values))
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    wanted = []
    for value in values:
        try:
            wanted.append(value.cast(column.type))
        except pa.ArrowInvalid:  # has more digits than the column can hold, so it equals no value
            continue
    mask = pc.is_in(column, value_set=pa.array(wanted, column.type))
    return pc.if_else(pc.is_valid(column), mask, pa.scalar(None, pa.bool_()))


def column_getter(batch: pa.RecordBatch | pa.Table, schema: Schema) -> Columns:
    """Return a function that returns the array of a field by its id, from a batch with the schema's columns in order.

    The field may be a member of structs, at any depth; it is then null where a struct is null.
    """
    positions = {field.id: i for i, field in enumerate(schema.fields)}

    def column(field_id: int) -> pa.Array:
        top = schema.top_level_of[field_id]
        values, field = batch.column(positions[top.id]), top
        while field.id != field_id:
            assert isinstance(field.type, t.Struct)
            index, field = next(
                (i, f) for i, f in enumerate(field.type.fields) if any(w.id == field_id for w in t.walk((f,)))
            )
            values = pc.struct_field(values, [index])
        return values

    return column
