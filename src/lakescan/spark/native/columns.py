"""The table's columns as Spark's Parquet reader is asked for them, and what it reads as the table's values."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as s

from lakescan.common import types as t
from lakescan.common.schema import FieldMatching
from lakescan.spark.types import quoted, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class FileColumns:
    """How columns are found in data files: by field id, or by their names in files.

    By field id, Spark still pushes filters into Parquet by name: a column whose name another one had in some file
    would be judged by that one's statistics. So a column is asked for under a name that no file has, unless its own is
    known to be settled. `mark` tells such names from those of any file.
    """

    by_id: bool
    settled: frozenset[int] = frozenset()
    mark: str = ""

    @staticmethod
    def of(matching: FieldMatching, location: str) -> FileColumns:
        """Those of a table at a location."""
        mark = hashlib.sha256(location.encode()).hexdigest()[:12]
        return FileColumns(matching.by_id, matching.settled, mark)

    def schema(self, fields: Iterable[t.Field]) -> s.StructType:
        """What Spark's reader is asked for; every column may be null: a file may be older than its column."""
        return s.StructType([self._field(f, self.name(f)) for f in fields])

    def column(self, field: t.Field) -> Column:
        """A column of a frame that was read with `schema`."""
        return F.col(quoted(self.name(field)))

    def name(self, field: t.Field) -> str:
        """The name of a column in that frame."""
        if not self.by_id:
            return field.physical_name
        return field.name if field.id in self.settled else self._own_name(field)

    def _own_name(self, field: t.Field) -> str:
        return f"__lakescan_{field.id}_{self.mark}"

    def value(self, field: t.Field, column: Column) -> Column:
        """The values of a column, or of a struct's member, as the table has them: by its names, floats guarded.

        Floats are put behind a function that changes nothing. Statistics of Parquet leave NaN out, where SQL has NaN
        above all else: Spark would skip row groups that have NaN where its frame is filtered by `x > 5`.
        """
        match field.type:
            case t.FLOAT | t.DOUBLE:
                return F.nanvl(column, F.lit(math.nan).cast(spark_type(field.type)))
            case t.Struct():
                return self._struct(field.type, column)
            case t.ListOf() | t.MapOf() if any(self._member_name(f) != f.name for f in _members_within(field.type)):
                return column.cast(spark_type(field.type))
        return column

    def _struct(self, kind: t.Struct, column: Column) -> Column:
        """A struct, member by member: Spark still reads only the members that a query wants."""
        names = {f.name: self._member_name(f) for f in kind.fields}
        is_renamed = any(old != new for new, old in names.items())
        if is_renamed and {n.lower() for n in names} & {old.lower() for new, old in names.items() if old != new}:
            return column.cast(spark_type(kind))  # one member has the name that another had
        result = column
        for member in kind.fields:
            old = names[member.name]
            value = self.value(member, column.getField(old))
            if is_renamed and old == member.name:  # to the end, where the renamed ones are
                result = result.dropFields(quoted(old))
            if is_renamed or member.type in t.FLOATING or has_members(member.type):
                result = result.withField(quoted(member.name), value)
        gone = [quoted(old) for new, old in names.items() if old != new]
        return result.dropFields(*gone) if gone else result

    def _member_name(self, member: t.Field) -> str:
        """What a member of a struct is asked for as.

        By field id, under a name that no file has: where a file has none of the members wanted, Spark takes another
        one to tell which structs are null, and would take its values for those of a member of that name.
        """
        return self._own_name(member) if self.by_id else member.physical_name

    def _field(self, field: t.Field, name: str) -> s.StructField:
        metadata: dict[str, object] = {"parquet.field.id": field.id} if self.by_id else {}
        if field.default is not None:
            metadata["EXISTS_DEFAULT"] = _as_sql(field.default)
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


def members_of(field: t.Field, column: Column) -> Iterator[tuple[int, Column]]:
    """The column and its struct members at any depth, by field id."""
    yield field.id, column
    if isinstance(field.type, t.Struct):
        for member in field.type.fields:
            yield from members_of(member, column.getField(member.name))


def has_members(kind: t.Type) -> bool:
    """Whether a type is, or has at any depth, a struct with members."""
    return next(_members_within(kind), None) is not None


def _members_within(kind: t.Type) -> Iterator[t.Field]:
    """The struct members at any depth of a type."""
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


def _as_sql(value: object) -> str:
    """A default as an SQL literal."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(value).lower() if isinstance(value, bool) else str(value)
