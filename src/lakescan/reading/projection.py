"""Projection: map the columns of a data file to those of the table, across schema evolution.

A projection is resolved once per file: each table field is found by id or name, or is missing and becomes a constant,
a default or null (Iceberg specification, "Column Projection"). Applying it to a batch renames, reorders, casts and
fills in, down through structs, lists and maps; columns that already match pass through without a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.metadata_columns import FIRST_RESERVED_ID
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptMetadata
from lakescan.reading.casting import cast_leaf, padded
from lakescan.reading.file_schema import FileField


@dataclass(frozen=True)
class Source:
    """The source of one table field: `child` is its index in its parent in the file, None if it is missing there.

    `children` are the sources of a struct's members, a list's element, or a map's key and value.
    """

    target: t.Field
    child: int | None
    children: tuple[Source, ...] = ()
    constant: pa.Scalar | None = None


@dataclass(frozen=True)
class Projection:
    """The sources of all columns; `columns` are the file's top-level columns to read, `leaves` their leaf columns."""

    sources: tuple[Source, ...]
    columns: tuple[int, ...]
    leaves: tuple[int, ...]

    def apply(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Convert a batch that has exactly `columns`, in that order, to the table's columns."""
        place = {column: i for i, column in enumerate(self.columns)}
        return [
            _missing(s, batch.num_rows) if s.child is None else _convert(batch.column(place[s.child]), s)
            for s in self.sources
        ]

    def leaf_of(self, field_id: int, fields: tuple[FileField, ...]) -> tuple[int, FileField] | None:
        """The leaf column and file field of a top-level field of atomic type; None if the file lacks it."""
        for source in self.sources:
            if source.target.id == field_id and source.child is not None and not source.children:
                return sum(f.leaves for f in fields[: source.child]), fields[source.child]
        return None


def resolve(
    fields: tuple[FileField, ...], schema: Schema, matching: FieldMatching, constants: Mapping[int, pa.Scalar]
) -> Projection:
    """Find the columns of `schema` in a file. `constants` are values by field id that replace the file's columns."""
    has_ids = matching.by_id and any(f.id is not None for f in fields)
    sources = tuple(_source(field, fields, has_ids, constants) for field in schema.fields)
    columns = sorted({s.child for s in sources if s.child is not None})
    starts = [sum(f.leaves for f in fields[:i]) for i in range(len(fields))]
    leaves = [leaf for c in columns for leaf in range(starts[c], starts[c] + fields[c].leaves)]
    return Projection(sources, tuple(columns), tuple(leaves))


def _source(
    target: t.Field, siblings: tuple[FileField, ...], by_id: bool, constants: Mapping[int, pa.Scalar]
) -> Source:
    if (constant := constants.get(target.id)) is not None:
        return Source(target, None, constant=constant)
    field = _find(target, siblings, by_id)
    if field is None:
        return Source(target, None)
    return Source(target, field.index, _children(target, field, by_id, constants))


def _find(target: t.Field, siblings: tuple[FileField, ...], by_id: bool) -> FileField | None:
    if by_id and target.id < FIRST_RESERVED_ID and any(f.id is not None for f in siblings):
        return next((f for f in siblings if f.id == target.id), None)
    exact = next((f for f in siblings if f.name == target.physical_name), None)
    lower = target.physical_name.lower()
    return exact or next((f for f in siblings if f.name.lower() == lower), None)


def _children(target: t.Field, field: FileField, by_id: bool, constants: Mapping[int, pa.Scalar]) -> tuple[Source, ...]:
    kind, file_type = target.type, field.type
    if isinstance(kind, t.Struct) and pa.types.is_struct(file_type):
        return tuple(_source(member, field.children, by_id, constants) for member in kind.fields)
    if isinstance(kind, t.ListOf) and (pa.types.is_list(file_type) or pa.types.is_large_list(file_type)):
        return (_inner(kind.element, field.children[0], by_id),)
    if isinstance(kind, t.MapOf) and pa.types.is_map(file_type):
        return (_inner(kind.key, field.children[0], by_id), _inner(kind.value, field.children[1], by_id))
    if isinstance(kind, t.Struct | t.ListOf | t.MapOf):
        raise CorruptMetadata(f"column {target.name!r} is {kind} in the table and {file_type} in a data file")
    return ()


def _inner(target: t.Field, field: FileField, by_id: bool) -> Source:
    """The source of a list's element, or a map's key or value: matched by position, whatever its name."""
    return Source(target, field.index, _children(target, field, by_id, {}))


def _missing(source: Source, rows: int) -> pa.Array:
    kind, default = source.target.type, source.target.default
    if source.constant is not None:
        return pa.repeat(source.constant, rows)
    if default is None:
        return pa.nulls(rows, kind.arrow())
    if isinstance(kind, t.Struct):
        members = [_missing(Source(f, None), rows) for f in kind.fields]
        return pa.StructArray.from_arrays(members, fields=[f.arrow() for f in kind.fields])
    return pa.repeat(pa.scalar(default, kind.arrow()), rows)


def _convert(array: pa.Array, source: Source) -> pa.Array:
    kind = source.target.type
    if isinstance(array, pa.ExtensionArray) and not isinstance(kind, t.Atomic):
        array = array.storage
    if isinstance(kind, t.Struct):
        return _convert_struct(array, source, kind)
    if isinstance(kind, t.ListOf):
        return _convert_list(array, source, kind)
    if isinstance(kind, t.MapOf):
        return _convert_map(array, source, kind)
    return padded(cast_leaf(array, kind, source.target.name), source.target.pad)


def _convert_struct(array: pa.StructArray, source: Source, kind: t.Struct) -> pa.Array:
    members = [
        _missing(s, len(array)) if s.child is None else _convert(array.field(s.child), s) for s in source.children
    ]
    mask = array.is_null() if array.null_count else None
    if not members:
        empty = pa.array([{}] * len(array), pa.struct([]))
        return empty if mask is None else pa.array([None if m else {} for m in mask.to_pylist()], pa.struct([]))
    return pa.StructArray.from_arrays(members, fields=[f.arrow() for f in kind.fields], mask=mask)


def _convert_list(array: pa.ListArray, source: Source, kind: t.ListOf) -> pa.Array:
    array = unsliced(array)
    values = _convert(array.values, source.children[0])
    offsets = array.offsets.cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=kind.arrow(), mask=_null_mask(array))


def _convert_map(array: pa.MapArray, source: Source, kind: t.MapOf) -> pa.Array:
    array = unsliced(array)
    keys = _convert(array.keys, source.children[0])
    items = _convert(array.items, source.children[1])
    return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind.arrow(), mask=_null_mask(array))


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def unsliced(array: pa.Array) -> pa.Array:
    """Copy an array to offset 0, so that its offsets, children and validity can be used separately."""
    return array.take(pa.array(np.arange(len(array)))) if array.offset else array
