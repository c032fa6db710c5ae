"""Map table columns to the schema to request from Spark's Parquet reader, and its columns to the table's values."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as s

from lakescan.common import types as t
from lakescan.common.references import backquote
from lakescan.common.schema import FieldMatching
from lakescan.expressions.literals import text_of
from lakescan.spark.types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from lakescan.common.selection import SelectedColumn


@dataclass(frozen=True)
class FileColumns:
    """How to find columns in data files: by field id (`by_id`), or by physical name.

    Even with field ids, Spark pushes filters into Parquet by name. If another column had the requested name in some
    file, Spark would prune by that column's statistics. So a column is requested under a name that no file has, unless
    its field id is in `settled`: these columns have the same name in all files, and no other column has had it.

    - `mark`: text that makes the requested names unique for a table.
    - `compares_micros`: whether a query may compare timestamps with times that are not whole milliseconds.
    """

    by_id: bool
    settled: frozenset[int] = frozenset()
    mark: str = ""
    file_format: str = "parquet"
    compares_micros: bool = True

    @staticmethod
    def match_columns(matching: FieldMatching, location: str) -> FileColumns:
        """Return how to find the columns of the table at `location` in its files, from the table's `matching`."""
        return FileColumns(matching.by_id, matching.settled, mark_of(location))

    def schema(self, fields: Iterable[t.Field]) -> s.StructType:
        """Return the Spark schema to request for columns of the table.

        Every column is nullable, since a file may be older than a column. Metadata has the field ids, and defaults for
        such files.
        """
        return s.StructType([self._field(f, self.name(f)) for f in fields])

    def column(self, field: t.Field) -> Column:
        """Return an unresolved Spark column for the column of a frame that was read with `schema`."""
        return F.col(backquote(self.name(field)))

    def name(self, field: t.Field) -> str:
        """Return the name under which a column is requested, and which it has in a frame that was read with `schema`.

        It is the physical name without field ids; else the column's own name if settled, or a name that no file has.
        """
        if not self.by_id:
            return field.physical_name
        return field.name if field.id in self.settled else self._unique_name(field)

    def _unique_name(self, field: t.Field) -> str:
        return unique_name(field.id, self.mark)

    def value(self, field: t.Field, column: Column) -> Column:
        """Convert a column of files, or a struct field, to the table's types and field names, and protect some types.

        Protected values are wrapped in a function that does not change them, so that Spark cannot push filters on them
        into Parquet files; see `is_protected`.
        """
        match field.type:
            case t.FLOAT | t.DOUBLE:
                return F.nanvl(column, F.lit(math.nan).cast(spark_type(field.type)))
            case t.Decimal():
                return F.round(column, field.type.scale).cast(spark_type(field.type))
            case t.Timestamp() if self.is_protected(field.type):
                return F.timestamp_micros(F.unix_micros(column))
            case t.Struct():
                return self._struct(field.type, column)
            case t.ListOf() | t.MapOf() if any(self._member_name(f) != f.name for f in _members_within(field.type)):
                return column.cast(spark_type(field.type))
        return column

    def is_protected(self, kind: t.Type) -> bool:
        """Return whether pushed filters on columns of a type would make Spark skip row groups with matching rows.

        - Parquet statistics ignore NaN, but SQL orders NaN above all numbers: `x > 5` would skip row groups with NaN.
        - A decimal with more digits than the file's type overflows when Spark converts it to the file's type.
        - A time loses its microseconds if the file has milliseconds, so that `<` and `<>` lose rows. This only concerns
          instants: Spark pushes no filters on timestamps without a zone into such files.
        """
        if isinstance(kind, t.Timestamp):
            return kind.zoned and self.compares_micros
        return kind in t.FLOATING or isinstance(kind, t.Decimal)

    def is_as_read(self, kind: t.Type) -> bool:
        """Return whether `value` returns a column of this type unchanged, apart from its protection."""
        if isinstance(kind, t.Struct):
            return False
        return not has_members(kind) or all(self._member_name(f) == f.name for f in _members_within(kind))

    def _struct(self, kind: t.Struct, column: Column) -> Column:
        """Convert a struct field by field instead of by a cast, so that Spark reads only the fields that a query needs.

        A cast is used only if one field has the former name of another.
        """
        names = {f.name: self._member_name(f) for f in kind.fields}
        is_renamed = any(old != new for new, old in names.items())
        if is_renamed and {n.lower() for n in names} & {old.lower() for new, old in names.items() if old != new}:
            return column.cast(spark_type(kind))  # one field has the former name of another
        result = column
        for member in kind.fields:
            old = names[member.name]
            value = self.value(member, column.getField(old))
            if (
                is_renamed and old == member.name
            ):  # drop and add again: renamed fields are appended, and the order must stay
                result = result.dropFields(backquote(old))
            if is_renamed or self.is_protected(member.type) or has_members(member.type):
                result = result.withField(backquote(member.name), value)
        former = [backquote(old) for new, old in names.items() if old != new]
        return result.dropFields(*former) if former else result

    def _member_name(self, member: t.Field) -> str:
        """Return the name under which to request a struct field.

        With field ids, it is a name that no file has. If a file has none of the requested fields, Spark reads another
        field to determine which structs are null. If that field had the requested name, Spark would return its values.
        """
        return self._unique_name(member) if self.by_id else member.physical_name

    def _field(self, field: t.Field, name: str) -> s.StructField:
        metadata: dict[str, object] = {"parquet.field.id": field.id} if self.by_id else {}
        if field.default is not None:
            metadata["EXISTS_DEFAULT"] = _as_sql(field.default, field.type)
        return s.StructField(name, self._type(field.type), True, metadata)

    def _type(self, kind: t.Type) -> s.DataType:
        match kind:
            case t.Struct():
                return s.StructType([self._field(f, self._member_name(f)) for f in kind.fields])
            case t.ListOf():
                return s.ArrayType(self._type(kind.element.type))
            case t.MapOf():
                return s.MapType(self._type(kind.key.type), self._type(kind.value.type))
        return spark_type(kind)


def mark_of(location: str) -> str:
    """Return the hash of a table's location that makes the requested column names unique for the table."""
    return hashlib.sha256(location.encode()).hexdigest()[:12]


def unique_name(field_id: int, mark: str) -> str:
    """Return the requested name for a field: with the `mark` of the table, which no column of a file contains."""
    return f"__lakescan_{field_id}_{mark}"


def members_of(field: t.Field, column: Column) -> Iterator[tuple[int, Column]]:
    """Yield the field ids and Spark columns of a table column and of its struct fields, at any depth of structs."""
    yield field.id, column
    if isinstance(field.type, t.Struct):
        for member in field.type.fields:
            yield from members_of(member, column.getField(member.name))


def select_member(column: Column, what: SelectedColumn) -> Column:
    """Return the struct member that `what` selects of a column, or the column itself, under its output name."""
    for member in what.path[1:]:
        column = column.getField(member.name)
    return column.alias(what.name)


def has_members(kind: t.Type) -> bool:
    """Return whether a type is or contains, at any depth, a struct with fields."""
    return next(_members_within(kind), None) is not None


def _members_within(kind: t.Type) -> Iterator[t.Field]:
    """Yield the struct fields of a type at any depth, also within lists and maps."""
    match kind:
        case t.Struct():
            yield from kind.fields
            below = kind.fields
        case t.ListOf():
            below = (kind.element,)
        case t.MapOf():
            below = (kind.key, kind.value)
        case _:
            return
    for field in below:
        yield from _members_within(field.type)


def _as_sql(value: object, kind: t.Type) -> str:
    """Return a default value as an SQL literal, or as a cast from text that does not depend on session settings."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if kind in t.INTEGRAL or kind == t.BOOLEAN:
        return str(value).lower()
    text = str(value) if kind in t.FLOATING else text_of(pa.scalar(value, kind.arrow()))
    return f"CAST('{text}' AS {spark_type(kind).simpleString()})"
