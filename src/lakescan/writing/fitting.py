"""Rows made to fit a table: columns by name, types widened where nothing is lost, required values checked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan import types as t
from lakescan.definition.from_arrow import columns_of
from lakescan.errors import SchemaMismatch, UnsupportedFeature
from lakescan.schema import Schema


@dataclass(frozen=True)
class Fit:
    """How rows of a schema become rows of a table."""

    schema: Schema
    places: tuple[int | None, ...]  # of each column of the table among those of the rows

    @staticmethod
    def of(schema: Schema, rows: pa.Schema) -> Fit:
        """Raises `SchemaMismatch` where rows do not fit; it names everything that is wrong, and both sides.

        Names are told apart without case, unless the table has two that differ in nothing else.
        """
        for column in t.walk(schema.fields):
            if column.type == t.VARIANT or isinstance(column.type, t.Geospatial):
                raise UnsupportedFeature(f"writing column {column.name!r} of type {column.type}")
        given = columns_of(rows)
        places = _places(schema.fields, given)
        wrong = list(_wrong(schema.fields, given, places))
        if wrong:
            raise SchemaMismatch(
                f"the rows do not fit the table: {'; '.join(wrong)}.\n  table: {_shown(schema.fields)}\n"
                f"  rows:  {_shown(given)}\nColumns are matched by name. New ones are added with merge-schema=true."
            )
        return Fit(schema, places)

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the table's columns and types; raises `SchemaMismatch` for a value that does not fit."""
        columns = [
            _absent(field, rows.num_rows) if place is None else fitted(rows.column(place), field)
            for field, place in zip(self.schema.fields, self.places, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)

    @cached_property
    def _arrow(self) -> pa.Schema:
        return pa.schema([_plain(field) for field in self.schema.fields])


def fitted(array: pa.Array, field: t.Field, where: str = "") -> pa.Array:
    """Values as a field has them; raises `SchemaMismatch` for nulls where it is required, and where one is lost."""
    path = f"{where}{field.name}"
    if field.required and array.null_count:
        raise SchemaMismatch(f"column {path!r} is required, and {array.null_count:,} rows of a batch have none")
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = field.type
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind.arrow())
    match kind:
        case t.Struct():
            return _fitted_struct(array, kind, path)
        case t.ListOf():
            return _fitted_list(array, kind, path)
        case t.MapOf():
            entries = array.cast(pa.map_(array.type.key_type, array.type.item_type)) if array.offset else array
            key, value = fitted(entries.keys, kind.key, f"{path}."), fitted(entries.items, kind.value, f"{path}.")
            return pa.MapArray.from_arrays(_offsets(entries), key, value, type=kind.arrow())
    try:
        return array if array.type == kind.arrow() else array.cast(kind.arrow())
    except pa.ArrowInvalid as error:
        raise SchemaMismatch(f"column {path!r} is {kind}, and a value would be lost: {error}") from error


def _absent(field: t.Field, rows: int) -> pa.Array:
    """What rows have of a column that is not theirs: its default."""
    if field.write_default is None:
        return pa.nulls(rows, field.type.arrow())
    return pa.repeat(pa.scalar(field.write_default, field.type.arrow()), rows)


def _fitted_struct(array: pa.StructArray, kind: t.Struct, path: str) -> pa.Array:
    names = [name.lower() for name in array.type.names]
    members = []
    for inner in kind.fields:
        if inner.name.lower() not in names:
            members.append(_absent(inner, len(array)))
            continue
        child = pc.struct_field(array, [names.index(inner.name.lower())])
        if inner.required and array.null_count:  # members of structs that are null are none
            present = child.filter(array.is_valid())
            fitted(present, inner, f"{path}.")
            members.append(fitted(child, replace(inner, required=False), f"{path}."))
        else:
            members.append(fitted(child, inner, f"{path}."))
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=[_plain(f) for f in kind.fields], mask=mask)


def _fitted_list(array: pa.Array, kind: t.ListOf, path: str) -> pa.Array:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if array.offset:
        array = pa.concat_arrays([array.slice(0, 0), array])
    values = fitted(array.values, kind.element, f"{path}.")
    return pa.ListArray.from_arrays(_offsets(array), values, type=kind.arrow())


def renamed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values under a type that differs in the names and ids of members: by place, as casts do not."""
    if array.type == kind and not pa.types.is_nested(kind):
        return array
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        members = [renamed(array.field(place), member.type) for place, member in enumerate(kind)]
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(_offsets(array), renamed(array.values, kind.value_type), type=kind)
    if pa.types.is_map(kind):
        keys, items = renamed(array.keys, kind.key_type), renamed(array.items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=kind)
    return array.cast(kind)


def _offsets(array: Any) -> pa.Array:
    """The offsets of lists, null where a list is."""
    offsets = array.offsets
    if not array.null_count:
        return offsets
    valid = pa.concat_arrays([array.is_valid(), pa.array([True])])
    return pc.if_else(valid, offsets, pa.scalar(None, offsets.type))


def _plain(field: t.Field) -> pa.Field:
    return pa.field(field.name, field.type.arrow(), nullable=not field.required)


def _places(columns: tuple[t.Field, ...], given: tuple[t.Field, ...]) -> tuple[int | None, ...]:
    names = [field.name for field in given]
    lower = [name.lower() for name in names]
    exact = len({field.name.lower() for field in columns}) < len(columns)

    def place(name: str) -> int | None:
        if name in names:
            return names.index(name)
        return None if exact or name.lower() not in lower else lower.index(name.lower())

    return tuple(place(field.name) for field in columns)


def _wrong(
    columns: tuple[t.Field, ...],
    given: tuple[t.Field, ...],
    places: tuple[int | None, ...],
) -> Iterator[str]:
    for field, place in zip(columns, places, strict=True):
        if place is not None:
            yield from _misfits(given[place], field, "")
        elif field.required and field.write_default is None:
            yield f"column {field.name!r} is required and not there"
    for place, field in enumerate(given):
        if place not in places:
            yield f"column {field.name!r} is not the table's"


def _misfits(given: t.Field, wanted: t.Field, where: str) -> Iterator[str]:
    path = f"{where}{wanted.name}"
    match given.type, wanted.type:
        case t.Struct() as theirs, t.Struct() as ours:
            by_name = {field.name.lower(): field for field in theirs.fields}
            for inner in ours.fields:
                found = by_name.pop(inner.name.lower(), None)
                if found is not None:
                    yield from _misfits(found, inner, f"{path}.")
                elif inner.required and inner.write_default is None:
                    yield f"column {path}.{inner.name} is required and not there"
            yield from (f"column {path}.{field.name} is not the table's" for field in by_name.values())
        case t.ListOf() as theirs, t.ListOf() as ours:
            yield from _misfits(theirs.element, ours.element, f"{path}.")
        case t.MapOf() as theirs, t.MapOf() as ours:
            yield from _misfits(theirs.key, ours.key, f"{path}.")
            yield from _misfits(theirs.value, ours.value, f"{path}.")
        case theirs, ours if not _widens(theirs, ours):
            yield f"column {path!r} is {ours}, and the rows have {theirs}"


def _widens(given: t.Type, wanted: t.Type) -> bool:
    """Whether values of a type are of another; those that may not be are looked at one by one when they are cast."""
    if given == wanted or given == t.UNKNOWN:
        return True
    if given in t.INTEGRAL and wanted in t.INTEGRAL:
        return True
    match given, wanted:
        case t.Decimal(), t.Decimal():
            whole = given.precision - given.scale <= wanted.precision - wanted.scale
            return whole and given.scale <= wanted.scale
        case t.Timestamp(), t.Timestamp():
            return given.zoned == wanted.zoned
        case t.Fixed(), _:
            return wanted == t.BINARY or (wanted == t.UUID and given.length == 16)
    return (given, wanted) == (t.FLOAT, t.DOUBLE) or (given == t.BINARY and isinstance(wanted, t.Fixed))


def _shown(columns: tuple[t.Field, ...]) -> str:
    return ", ".join(f"{field.name} {field.type}{' not null' if field.required else ''}" for field in columns)
