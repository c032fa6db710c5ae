"""Projection: maps the columns of a data file to those of the table, across schema evolution.

A projection is resolved once per file. Each table field is found by id or name, or is missing and becomes a constant, a
default or null (Iceberg specification, "Column Projection"). Readers decode only the needed columns and struct members.
Applying the projection to a batch renames, reorders, casts and fills in columns, down through structs, lists and maps.
Columns that already match are not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.metadata_columns import FIRST_RESERVED_ID
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptMetadata
from lakescan.reading.field_ids import FileField
from lakescan.reading.type_promotion import cast_leaf, pad_texts


@dataclass(frozen=True)
class FieldSource:
    """The source of one table field (`target`). `child` is its index in its parent, None if the file lacks it.

    In `Projection.sources`, indices count only the columns and members that are read. `children` are the sources of a
    struct's members, a list's element, or a map's key and value. `constant` replaces the file's values, if not None.
    """

    target: t.Field
    child: int | None
    children: tuple[FieldSource, ...] = ()
    constant: pa.Scalar | None = None


@dataclass(frozen=True)
class Projection:
    """The sources of the table's columns, and the file's columns to read for them.

    `read` are the file's columns to read, in file order; `FileField.children` of a struct are the members to read.
    `leaves` are the numbers of their leaf columns in the file.
    """

    sources: tuple[FieldSource, ...]
    read: tuple[FileField, ...]
    leaves: tuple[int, ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """The indices of the top-level columns of `read` in the file."""
        return tuple(field.index for field in self.read)

    def apply(self, batch: pa.RecordBatch, *, encoded: bool = False) -> list[pa.Array]:
        """Convert a batch that has exactly the columns and members of `read` to arrays of the table's columns.

        `encoded`: columns that only need to be decoded may stay dictionary arrays. Raises `CorruptMetadata` for a type
        that cannot be converted to the table's.
        """
        rows = batch.num_rows
        return [
            _missing(s, rows) if s.child is None else _column(batch.column(s.child), s, encoded) for s in self.sources
        ]

    def leaf_of(self, field_id: int, fields: tuple[FileField, ...]) -> tuple[int, FileField] | None:
        """Return the number of the leaf column, and the file field, of a table field of atomic type.

        `fields` are the file's columns. The field may be a member of structs. Returns None if the file lacks it, or it
        is inside a list or map.
        """
        return _leaf_of(field_id, self.sources, self.read, fields, 0)


def _leaf_of(
    field_id: int,
    sources: Iterable[FieldSource],
    read: tuple[FileField, ...],
    fields: tuple[FileField, ...],
    start: int,
) -> tuple[int, FileField] | None:
    """Implement `Projection.leaf_of` among siblings: `start` is the number of the first leaf column of `fields`."""
    for source in sources:
        if source.child is None:
            continue
        index = read[source.child].index
        first = start + sum(field.leaves for field in fields[:index])
        whole = fields[index]
        if not source.children:
            if source.target.id == field_id and not whole.children:
                return first, whole
        elif pa.types.is_struct(whole.type):
            found = _leaf_of(field_id, source.children, read[source.child].children, whole.children, first)
            if found is not None:
                return found
    return None


def resolve(
    fields: tuple[FileField, ...], schema: Schema, matching: FieldMatching, constants: Mapping[int, pa.Scalar]
) -> Projection:
    """Find the columns of the table's `schema` in a file, whose columns are `fields`.

    `matching` decides whether by id or name. `constants` are values by field id that replace the file's columns. Raises
    `CorruptMetadata` if a struct, list or map has another kind of type in the file.
    """
    is_mapped = matching.name_mapping is not None  # then names that are not in the mapping are not in the table
    has_ids = matching.by_id and (is_mapped or any(f.id is not None for f in fields))
    columns = _Siblings(fields, is_mapped)
    sources = tuple(_source(field, columns, has_ids, constants) for field in schema.fields)
    read = _read(fields, sources)
    return Projection(_renumber_sources(sources, read), read, tuple(_leaves(fields, read, 0)))


def _read(fields: tuple[FileField, ...], sources: Iterable[FieldSource]) -> tuple[FileField, ...]:
    """Return the fields of the file that are sources, in file order. Structs have only the members to read."""
    found: dict[int, list[FieldSource]] = {}
    for source in sources:
        if source.child is not None:
            found.setdefault(source.child, []).append(source)
    return tuple(_with_members(fields[child], found[child]) for child in sorted(found))


def _with_members(field: FileField, sources: list[FieldSource]) -> FileField:
    """Return the file field with only the struct members to read: at least one, so that null structs are found.

    `sources` are the table fields that read it.
    """
    is_struct = pa.types.is_struct(field.type) and field.children
    if not is_struct or not all(source.children for source in sources):
        return field
    members = _read(field.children, (member for source in sources for member in source.children))
    return replace(field, children=members or (_smallest(field.children),))


def _smallest(members: tuple[FileField, ...]) -> FileField:
    """Return one member of a struct to read: the first one that is not nested or, if all are nested, the first.

    Of a nested struct, only one member is read.
    """
    member = next((each for each in members if not each.children), members[0])
    is_struct = pa.types.is_struct(member.type) and member.children
    return replace(member, children=(_smallest(member.children),)) if is_struct else member


def _renumber_sources(sources: tuple[FieldSource, ...], read: tuple[FileField, ...]) -> tuple[FieldSource, ...]:
    """Return the sources with `child` changed from an index in the file to an index among the fields `read`."""
    places = {field.index: place for place, field in enumerate(read)}
    placed = []
    for source in sources:
        if source.child is not None:
            place = places[source.child]
            is_struct = source.children and pa.types.is_struct(read[place].type)
            children = _renumber_sources(source.children, read[place].children) if is_struct else source.children
            source = replace(source, child=place, children=children)
        placed.append(source)
    return tuple(placed)


def _leaves(fields: tuple[FileField, ...], read: tuple[FileField, ...], start: int) -> Iterator[int]:
    """Yield the numbers of the leaf columns of the fields `read`; `start` is that of the first leaf of `fields`."""
    starts = list(accumulate((field.leaves for field in fields), initial=start))
    for field in read:
        whole, first = fields[field.index], starts[field.index]
        if field.children == whole.children:
            yield from range(first, first + whole.leaves)
        else:
            yield from _leaves(whole.children, field.children, first)


def prune_members(array: pa.Array, field: FileField) -> pa.Array:
    """Return a whole column of the file as an array with only those struct members that are read (`field`)."""
    if not pa.types.is_struct(array.type) or len(field.children) == array.type.num_fields == 0:
        return array
    members = [prune_members(array.field(each.index), each) for each in field.children]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, names=[each.name for each in field.children], mask=mask)


class _Siblings:
    """The columns of a file, or the members of a struct in it, by id and by name.

    `is_mapped`: the ids are from a name mapping, so that fields without an id are not in the table.
    """

    def __init__(self, fields: tuple[FileField, ...], is_mapped: bool) -> None:
        self.is_mapped = is_mapped
        self._by_id: dict[int, FileField] = {}
        self._by_name: dict[str, FileField] = {}
        self._by_lower: dict[str, FileField] = {}
        for each in fields:  # indexed: files may have thousands of columns
            if each.id is not None:
                self._by_id.setdefault(each.id, each)
            self._by_name.setdefault(each.name, each)
            self._by_lower.setdefault(each.name.lower(), each)

    def find(self, target: t.Field, by_id: bool) -> FileField | None:
        if by_id and target.id < FIRST_RESERVED_ID and (self._by_id or self.is_mapped):
            return self._by_id.get(target.id)
        exact = self._by_name.get(target.physical_name)
        return exact or self._by_lower.get(target.physical_name.lower())


def _source(target: t.Field, siblings: _Siblings, by_id: bool, constants: Mapping[int, pa.Scalar]) -> FieldSource:
    if (constant := constants.get(target.id)) is not None:
        return FieldSource(target, None, constant=constant)
    field = siblings.find(target, by_id)
    if field is None:
        return FieldSource(target, None)
    return FieldSource(target, field.index, _children(target, field, by_id, siblings.is_mapped, constants))


def _children(
    target: t.Field, field: FileField, by_id: bool, is_mapped: bool, constants: Mapping[int, pa.Scalar]
) -> tuple[FieldSource, ...]:
    kind, file_type = target.type, field.type
    if isinstance(kind, t.Struct) and pa.types.is_struct(file_type):
        members = _Siblings(field.children, is_mapped)
        return tuple(_source(member, members, by_id, constants) for member in kind.fields)
    if isinstance(kind, t.ListOf) and (pa.types.is_list(file_type) or pa.types.is_large_list(file_type)):
        return (_inner(kind.element, field.children[0], by_id, is_mapped),)
    if isinstance(kind, t.MapOf) and pa.types.is_map(file_type):
        sides = ((kind.key, field.children[0]), (kind.value, field.children[1]))
        return tuple(_inner(side, of_file, by_id, is_mapped) for side, of_file in sides)
    if isinstance(kind, t.Struct | t.ListOf | t.MapOf):
        raise CorruptMetadata(f"column {target.name!r} is {kind} in the table and {file_type} in a data file")
    return ()


def _inner(target: t.Field, field: FileField, by_id: bool, is_mapped: bool) -> FieldSource:
    """Return the source of a list's element, or a map's key or value, which are matched by position.

    `by_id` and `is_mapped` apply to the members of structs inside.
    """
    return FieldSource(target, field.index, _children(target, field, by_id, is_mapped, {}))


def _missing(source: FieldSource, rows: int) -> pa.Array:
    kind, default = source.target.type, source.target.default
    if source.constant is not None:
        return pa.repeat(source.constant, rows)
    if default is None:
        return pa.nulls(rows, kind.arrow())
    if isinstance(kind, t.Struct):
        members = [_missing(FieldSource(f, None), rows) for f in kind.fields]
        return pa.StructArray.from_arrays(members, fields=[f.arrow() for f in kind.fields])
    return pa.repeat(pa.scalar(default, kind.arrow()), rows)


def _column(array: pa.Array, source: FieldSource, encoded: bool) -> pa.Array:
    kind = array.type
    is_encoded = encoded and pa.types.is_dictionary(kind) and not source.target.width
    return array if is_encoded and kind.value_type == source.target.type.arrow() else _convert(array, source)


def _convert(array: pa.Array, source: FieldSource) -> pa.Array:
    kind = source.target.type
    if isinstance(array, pa.ExtensionArray) and not isinstance(kind, t.Atomic):
        array = array.storage
    if isinstance(kind, t.Struct):
        return _convert_struct(array, source, kind)
    if isinstance(kind, t.ListOf):
        return _convert_list(array, source, kind)
    if isinstance(kind, t.MapOf):
        return _convert_map(array, source, kind)
    return pad_texts(cast_leaf(array, kind, source.target.name), source.target.width)


def _convert_struct(array: pa.StructArray, source: FieldSource, kind: t.Struct) -> pa.Array:
    members = [
        _missing(s, len(array)) if s.child is None else _convert(array.field(s.child), s) for s in source.children
    ]
    mask = array.is_null() if array.null_count else None
    if not members:
        empty = pa.array([{}] * len(array), pa.struct([]))
        return empty if mask is None else pa.array([None if m else {} for m in mask.to_pylist()], pa.struct([]))
    return pa.StructArray.from_arrays(members, fields=[f.arrow() for f in kind.fields], mask=mask)


def _convert_list(array: pa.ListArray, source: FieldSource, kind: t.ListOf) -> pa.Array:
    array = reset_offset(array)
    values = _convert(array.values, source.children[0])
    offsets = array.offsets.cast(pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=kind.arrow(), mask=_null_mask(array))


def _convert_map(array: pa.MapArray, source: FieldSource, kind: t.MapOf) -> pa.Array:
    array = reset_offset(array)
    keys = _convert(array.keys, source.children[0])
    items = _convert(array.items, source.children[1])
    return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind.arrow(), mask=_null_mask(array))


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def reset_offset(array: pa.Array) -> pa.Array:
    """Return an array with offset 0, copied if necessary, so that its offsets and children can be used separately."""
    return array.take(pa.array(np.arange(len(array)))) if array.offset else array
