"""Names that stay distinct in DuckDB, which compares names of columns and struct members case-insensitively.

Rows are passed to DuckDB under these names, and SQL for DuckDB uses them. Results get the original names back.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakescan.errors import UnsupportedFeature


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names, with a number added to each that differs from an earlier one only in case.

    Example:
        >>> distinct_names(["id", "b", "B"])
        ['id', 'b', 'B_1']
    """
    taken = {name.lower() for name in names}
    if len(taken) == len(names):
        return list(names)
    seen: set[str] = set()
    result = []
    for name in names:
        number, found = 0, name
        while found.lower() in seen or (number and found.lower() in taken):
            number += 1
            found = f"{name}_{number}"
        seen.add(found.lower())
        result.append(found)
    return result


def distinct_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with distinct names of columns and of members of structs at any depth."""
    names = distinct_names(schema.names)
    made = pa.schema([_rename_field(each, name) for each, name in zip(schema, names, strict=True)], schema.metadata)
    return schema if made.equals(schema) else made


def _rename_field(field: pa.Field, name: str) -> pa.Field:
    return field.with_type(distinct_type(field.type)).with_name(name)


def check_distinct(schema: pa.Schema, place: str) -> None:
    """Raise `UnsupportedFeature` if two columns, or two members of a struct, have names that differ only in case.

    DuckDB would confuse them. `place` describes the source of the columns in the message.
    """
    for had, named in zip(schema, distinct_schema(schema), strict=True):
        if had.name != named.name:
            raise UnsupportedFeature(
                f"the columns of {place} in DuckDB, where {had.name!r} and another differ only in case",
                "Select one of them, or give it another name: scan.select(other='name').",
            )
        if had.type != named.type:
            raise UnsupportedFeature(
                f"the column {had.name!r} of {place} in DuckDB, whose struct has members that differ only in case",
                "Select its members one by one, under other names: scan.select(other='struct.member').",
            )


def distinct_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with distinct names of struct members at any depth, also inside lists and maps."""
    if pa.types.is_struct(kind):
        names = distinct_names([each.name for each in kind])
        return pa.struct([_rename_field(each, name) for each, name in zip(kind, names, strict=True)])
    if pa.types.is_map(kind):
        return pa.map_(distinct_type(kind.key_type), _rename_field(kind.item_field, kind.item_field.name))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_rename_field(kind.value_field, kind.value_field.name), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(_rename_field(kind.value_field, kind.value_field.name))
    if pa.types.is_large_list(kind):
        return pa.large_list(_rename_field(kind.value_field, kind.value_field.name))
    return kind


class _TypeView:
    """Exports an array or batch through Arrow's C interface with another type or schema, without a copy.

    `named` is that type or schema, which differs only in the names of columns or struct members.
    """

    def __init__(self, arrays: pa.RecordBatch | pa.Array, named: pa.Schema | pa.DataType) -> None:
        self._arrays, self._named = arrays, named

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        return self._named.__arrow_c_schema__(), self._arrays.__arrow_c_array__()[1]


def rename_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with `schema`, which has the same types and differs only in column and member names; no copy."""
    return batch if batch.schema.equals(schema) else pa.record_batch(_TypeView(batch, schema))


def distinct_table(table: pa.Table) -> pa.Table:
    """Return the table with distinct names of columns and of struct members at any depth; see `distinct_names`."""
    schema = distinct_schema(table.schema)
    if schema is table.schema:
        return table
    return pa.Table.from_batches([rename_batch(each, schema) for each in table.to_batches()], schema=schema)


def restore_names(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the values with their struct members named as in `kind`, a type with the same nesting.

    Only names change, also inside lists and maps. Values whose nesting differs from `kind` keep their names.
    """
    named = _restore_type(values.type, kind)
    return values if named == values.type else pa.array(_TypeView(values, named))


def _restore_type(found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the type `found` with the struct member names of `wanted`, where both are nested in the same way."""
    if pa.types.is_struct(found) and pa.types.is_struct(wanted) and found.num_fields == wanted.num_fields:
        pairs = zip(found, wanted, strict=True)
        return pa.struct(
            [one.with_type(_restore_type(one.type, other.type)).with_name(other.name) for one, other in pairs]
        )
    if pa.types.is_map(found) and pa.types.is_map(wanted):
        item = found.item_field.with_type(_restore_type(found.item_type, wanted.item_type))
        return pa.map_(_restore_type(found.key_type, wanted.key_type), item)
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return pa.list_(found.value_field.with_type(_restore_type(found.value_type, wanted.value_type)))
    return found
