"""Conform rows to a table schema: match columns by name, cast without loss, check required values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.common.uuids import parse_uuids, uuid_texts
from lakescan.definition.arrow_schema import columns_of
from lakescan.errors import SchemaMismatch, UnsupportedFeature
from lakescan.limits import PARQUET_LEVELS
from lakescan.writing.arrow_layout import canonical_layout, drop_validity, with_children

_INSTEAD_OF_NANOS = (
    " Round it to microseconds first, or write it to an Iceberg table of format version 3, which stores nanoseconds "
    "(for a new table: the option table-property.format-version=3)"
)


@dataclass(frozen=True)
class Fit:
    """Converts rows of one Arrow schema to a table schema.

    - `schema`: the table schema.
    - `places`: for each table column, the index of its column in the rows; None if the rows lack it.
    """

    schema: Schema
    places: tuple[int | None, ...]  # for each table column, its index in the rows; None if absent

    @staticmethod
    def match_columns(schema: Schema, rows: pa.Schema) -> Fit:
        """Match the rows' columns to the table's columns by name, and check that their types can be converted.

        Names match case-insensitively, unless the table has names that differ only in case. Raises `SchemaMismatch`
        with all mismatches and both schemas, and `UnsupportedFeature` for table columns that cannot be written
        (variant, geometry, geography, nulls inside other types, too many levels).
        """
        for column in t.walk(schema.fields):
            is_nested_null = column.type == t.UNKNOWN and column not in schema.fields
            if column.type == t.VARIANT or isinstance(column.type, t.Geospatial) or is_nested_null:
                raise UnsupportedFeature(f"writing column {schema.path_of[column.id]!r} of type {column.type}")
        _check_depth(schema)
        columns = columns_of(rows)
        places = places_of(schema.fields, columns)
        problems = list(misfits(t.Struct(columns), schema.struct(), of_pandas=b"pandas" in (rows.metadata or {})))
        if problems:
            raise SchemaMismatch(
                f"the rows do not fit the table: {'; '.join(problems)}.\n  table: {_describe(schema.fields)}\n"
                f"  rows:  {_describe(columns)}\nColumns are matched by name. {_advice(problems)}"
            )
        return Fit(schema, places)

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows to the table's columns and types; columns that the rows lack get their write default or null.

        Raises `SchemaMismatch` for a value that does not fit, and `ArrowCapacityError` for more data than 32-bit
        offsets allow.
        """
        columns = [
            _missing_values(field, rows.num_rows)
            if place is None
            else fit_array(_plain(rows.column(place), field), field)
            for field, place in zip(self.schema.fields, self.places, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow) if columns else rows.select([])

    def pieces(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the rows converted by `apply`, split into halves while one batch overflows 32-bit offsets.

        Raises `SchemaMismatch` for a value that does not fit, or for a single row that is too large.
        """
        try:
            yield self.apply(rows)
        except pa.ArrowCapacityError as error:
            if rows.num_rows < 2:
                raise SchemaMismatch(f"a single row is too large to write: {error}") from error
            half = rows.num_rows // 2
            yield from self.pieces(rows.slice(0, half))
            yield from self.pieces(rows.slice(half))

    @cached_property
    def _arrow(self) -> pa.Schema:
        return pa.schema([_field(field) for field in self.schema.fields])


def _check_depth(schema: Schema) -> None:
    """Raise `UnsupportedFeature` for a column with more nesting levels than Parquet readers accept."""
    most = PARQUET_LEVELS - 1
    for column in schema.fields:
        if _levels(column.type) > most:
            raise UnsupportedFeature(
                f"writing column {column.name!r}, which has {_levels(column.type)} levels in Parquet",
                f"Readers accept at most {most}: a struct is one level, a list or a map two.",
            )


def _levels(kind: t.Type) -> int:
    """Return the number of nesting levels of a column in a Parquet schema: a list or map has two, other types one."""
    own = 2 if isinstance(kind, t.ListOf | t.MapOf) else 1
    return own + max((_levels(each.type) for each in t.children(kind)), default=0)


_NEW = " is not in the table"
_NEW_OF_KEY = " is not in the table, and keys of maps get no new members"


def _advice(problems: Sequence[str]) -> str:
    """Return the advice that ends a message: how to add new columns and members, and how to handle other types.

    `problems` are the texts from `misfits`.
    """
    advice = "New ones are added with merge-schema=true."
    if all(each.endswith(_NEW_OF_KEY) for each in problems):
        advice = "Leave them out of the rows, or write the rows to a new table."
    if any(" in the table and " in each for each in problems):
        advice += " Where types differ, cast the values to the table's type."
    return advice


def _plain(array: pa.Array, field: t.Field) -> pa.Array:
    try:
        return canonical_layout(array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(f"column {field.name!r}: its values cannot be written: {error}") from error


def fit_array(array: pa.Array, field: t.Field, where: str = "", hidden: int = 0) -> pa.Array:
    """Cast values in the layout of `canonical_layout` to a field's type, and check nulls.

    `where` is the prefix of the field's path in messages. `hidden` is the number of nulls that the values have only
    because an enclosing struct is null. Raises `SchemaMismatch` for any other null in a required field, and for a value
    that the type cannot represent.
    """
    path = f"{where}{field.name}"
    if field.required and array.null_count > hidden:
        missing = array.null_count - hidden
        raise SchemaMismatch(f"column {path!r} is required, but is null in {missing:,} rows of a batch")
    kind = field.type
    if pa.types.is_null(array.type):
        return _nulls(kind, len(array))
    match kind:
        case t.Struct():
            return _fit_struct(array, kind, path)
        case t.ListOf():
            return with_children(array, kind.arrow(), [fit_array(array.values, kind.element, f"{path}.")])
        case t.MapOf():
            key, value = fit_array(array.keys, kind.key, f"{path}."), fit_array(array.items, kind.value, f"{path}.")
            return with_children(array, kind.arrow(), [key, value])
    return _cast(array, kind, path)


def _cast(array: pa.Array, kind: t.Type, path: str) -> pa.Array:
    if array.type == kind.arrow():
        return array
    if kind in t.INTEGRAL and pa.types.is_floating(array.type):
        _check_exact(array, path)
    try:
        if kind == t.STRING and pa.types.is_fixed_size_binary(array.type):
            return uuid_texts(array)
        if kind == t.UUID:
            packed = parse_uuids(array) if pa.types.is_string(array.type) else array.cast(pa.binary(16))
            return pa.ExtensionArray.from_storage(pa.uuid(), packed)
        if isinstance(kind, t.Fixed) and pa.types.is_fixed_size_binary(array.type):  # the lengths differ
            return array.cast(pa.binary()).cast(kind.arrow())
        if isinstance(kind, t.Decimal) and pa.types.is_integer(array.type):
            array = array.cast(pa.decimal128(20, 0))  # Arrow checks the range of the integer type, not the values
        return array.cast(kind.arrow())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        finer = isinstance(kind, t.Timestamp) and kind.unit == "us" and getattr(array.type, "unit", "") == "ns"
        raise SchemaMismatch(
            f"column {path!r} is {kind}, and a value does not fit: {error}.{_INSTEAD_OF_NANOS if finer else ''}"
        ) from error


def _check_exact(array: pa.Array, path: str) -> None:
    """Raise `SchemaMismatch` for floats from 2^53 (2^24 for 32-bit floats), which may be integers that were rounded.

    `path` names the column in the message.
    """
    limit = t.exact_integers(t.DOUBLE if array.type == pa.float64() else t.FLOAT)
    rounded = array.filter(pc.greater_equal(pc.abs(array), pa.scalar(limit, array.type)))
    if len(rounded):
        raise SchemaMismatch(
            f"column {path!r} holds integers, and the rows have {rounded[0].as_py()!r} as {array.type}, which may be a "
            f"rounded value: floats of {limit:,} and more cannot represent every integer. pandas converts integer "
            'columns with nulls to floats: read them with to_pandas(dtype_backend="pyarrow"), or use the type Int64'
        )


def _missing_values(field: t.Field, rows: int) -> pa.Array:
    """Return `rows` values for a column or struct member that the rows lack: its write default, or null."""
    if field.write_default is None:
        return _nulls(field.type, rows)
    return pa.repeat(pa.scalar(field.write_default, field.type.arrow()), rows)


def _nulls(kind: t.Type, rows: int) -> pa.Array:
    """Return `rows` nulls of a type.

    Required members of null structs get arbitrary values, as Parquet files need them.
    """
    if not isinstance(kind, t.Struct):
        return pa.nulls(rows, kind.arrow())
    members = [_nulls(inner.type, rows) for inner in kind.fields]
    kept = [drop_validity(each) if of.required else each for each, of in zip(members, kind.fields, strict=True)]
    return pa.StructArray.from_arrays(
        kept, fields=[_field(each) for each in kind.fields], mask=pa.repeat(pa.scalar(True), rows)
    )


def _fit_struct(array: pa.StructArray, kind: t.Struct, path: str) -> pa.Array:
    present = tuple(t.Field(0, name, t.UNKNOWN) for name in array.type.names)
    members = []
    for inner, place in zip(kind.fields, places_of(kind.fields, present), strict=True):
        if place is None:
            members.append(_missing_values(inner, len(array)))
        else:
            member = fit_array(array.field(place), inner, f"{path}.", array.null_count)
            members.append(drop_validity(member) if inner.required else member)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(members, fields=[_field(f) for f in kind.fields], mask=mask)


def retype(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the array with struct members and elements named and numbered as in the Arrow type `kind`.

    Members match by position (Arrow's casts match them by name). The array is a result of `fit_array` or part of one.
    UUIDs become their 16-byte storage.
    """
    if array.type == kind and not pa.types.is_nested(kind):
        return array
    if pa.types.is_struct(kind):
        members = [retype(array.field(place), member.type) for place, member in enumerate(kind)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if pa.types.is_list(kind):
        return with_children(array, kind, [retype(array.values, kind.value_type)])
    if pa.types.is_map(kind):
        return with_children(array, kind, [retype(array.keys, kind.key_type), retype(array.items, kind.item_type)])
    return array.storage if isinstance(array.type, pa.UuidType) else array.cast(kind)


def _field(field: t.Field) -> pa.Field:
    return pa.field(field.name, field.type.arrow(), nullable=not field.required)


def places_of(columns: tuple[t.Field, ...], given: tuple[t.Field, ...]) -> tuple[int | None, ...]:
    """For each column or struct member in `columns`, return the index in `given` of the field with its name, or None.

    Names match exactly, else case-insensitively. If names of `columns` differ only in case, only exact matches count.
    """
    names: dict[str, int] = {}
    lower: dict[str, int] = {}
    for n, field in enumerate(given):  # by name: tables may have thousands of columns
        names.setdefault(field.name, n)
        lower.setdefault(field.name.lower(), n)
    exact = len({field.name.lower() for field in columns}) < len(columns)

    def place(name: str) -> int | None:
        found = names.get(name)
        return lower.get(name.lower()) if found is None and not exact else found

    return tuple(place(field.name) for field in columns)


def misfits(theirs: t.Struct, ours: t.Struct, where: str = "", *, of_pandas: bool = False) -> Iterator[str]:
    """Yield a text for each mismatch between the rows' columns (`theirs`) and the table's columns (`ours`).

    Mismatches are duplicate columns, missing required columns, columns that are not in the table, and types that cannot
    be converted. `where` is the prefix of column paths. With `of_pandas`, floats are accepted for integer columns,
    because pandas stores nullable integers as floats.
    """
    names = [field.name for field in theirs.fields]
    counts = Counter(names)
    yield from (f"column {where + name!r} occurs twice" for name, count in counts.items() if count > 1)
    places = places_of(ours.fields, theirs.fields)
    for inner, place in zip(ours.fields, places, strict=True):
        if place is not None:
            yield from _type_misfits(theirs.fields[place].type, inner.type, f"{where}{inner.name}", of_pandas)
        elif inner.required and inner.write_default is None:
            yield f"column {where + inner.name!r} is required but missing"
    taken = set(places)
    first = {name: place for place, name in reversed([*enumerate(names)])}
    what = "member" if where else "column"
    yield from (f"{what} {where + name!r}{_NEW}" for name in counts if first[name] not in taken)


def _type_misfits(theirs: t.Type, ours: t.Type, path: str, of_pandas: bool) -> Iterator[str]:
    match theirs, ours:
        case t.Struct(), t.Struct():
            yield from misfits(theirs, ours, f"{path}.", of_pandas=of_pandas)
        case t.ListOf(), t.ListOf():
            yield from _type_misfits(theirs.element.type, ours.element.type, f"{path}.element", of_pandas)
        case t.MapOf(), t.MapOf():
            for each in _type_misfits(theirs.key.type, ours.key.type, f"{path}.key", of_pandas):
                yield each.replace(_NEW, _NEW_OF_KEY) if each.endswith(_NEW) else each
            yield from _type_misfits(theirs.value.type, ours.value.type, f"{path}.value", of_pandas)
        case _ if not _widens(theirs, ours) and not (of_pandas and theirs in t.FLOATING and ours in t.INTEGRAL):
            yield f"column {path!r} is {ours} in the table and {theirs} in the rows"


def _widens(source: t.Type, target: t.Type) -> bool:
    """Return whether values of type `source` can be written to a column of type `target`.

    True also if only some values fit, such as long to int: the cast checks each value.
    """
    if source in (target, t.UNKNOWN):
        return True
    if source in t.INTEGRAL and target in t.INTEGRAL:
        return True
    match source, target:
        case t.Decimal(), t.Decimal():
            whole = source.precision - source.scale <= target.precision - target.scale
            return whole and source.scale <= target.scale
        case t.Decimal(scale=0), _ if target in t.INTEGRAL:  # DuckDB's sums, unsigned 64-bit integers
            return True
        case t.Timestamp(), t.Timestamp():
            return source.zoned == target.zoned
        case t.Fixed(), _:
            return target == t.BINARY or (target == t.UUID and source.length == 16)
        case t.STRING, t.UUID:  # SQL handles UUIDs as strings
            return True
        case t.UUID, _:
            return target in (t.STRING, t.BINARY, t.Fixed(16))
    return (source, target) == (t.FLOAT, t.DOUBLE) or (source == t.BINARY and isinstance(target, t.Fixed))


def _describe(columns: tuple[t.Field, ...]) -> str:
    return ", ".join(f"{field.name} {field.type}{' not null' if field.required else ''}" for field in columns)
