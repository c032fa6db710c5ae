"""The columns of Parquet files that other writers wrote: of one file, and of all files of a folder together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import SchemaMismatch, UnsupportedFeature
from lakescan.reading.file_schema import FileField
from lakescan.reading.parquet.file import ParquetData

_NULL = "__HIVE_DEFAULT_PARTITION__"
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?").pattern
_DAY = r"\d{4}-\d{2}-\d{2}"


def with_instants(field: FileField, column: t.Field, types: Sequence[str]) -> t.Field:
    """A column whose timestamps of 96 bits are instants, as Spark writes and reads them.

    Args:
        field: The column as the file has it.
        column: The same as a table has it.
        types: The physical types of its leaves, and of those after them.

    Example:
        >>> with_instants(field, t.Field(1, "at", t.Timestamp("ns", zoned=False)), ["INT96"]).type
        Timestamp(unit='us', zoned=True)
    """
    below = t.children(column.type)
    if not below:
        is_instant = types[0] == "INT96" and isinstance(column.type, t.Timestamp)
        return replace(column, type=t.Timestamp()) if is_instant else column
    made, place = [], 0
    for child, member in zip(field.children, below, strict=True):
        made.append(with_instants(child, member, types[place:]))
        place += child.leaves
    match column.type:
        case t.ListOf():
            return replace(column, type=t.ListOf(made[0]))
        case t.MapOf():
            return replace(column, type=t.MapOf(made[0], made[1]))
    return replace(column, type=t.Struct(tuple(made)))


def physical_types(data: ParquetData) -> list[str]:
    """The physical types of a file's leaf columns, in order, as `with_instants` takes them.

    Args:
        data: The open file.

    Example:
        >>> physical_types(data)
        ['INT64', 'INT96']
    """
    schema = data.file.schema
    return [schema.column(number).physical_type for number in range(len(schema))]


def check_times(data: ParquetData, doing: str, advice: str) -> None:
    """Raise `UnsupportedFeature` for a file with times of nanoseconds.

    Args:
        data: The open file.
        doing: What is refused, with the path of the file at its end.
        advice: What to do instead.

    Example:
        >>> check_times(data, f"converting {data.path}", "Write the rows to a new table.")
    """
    schema = data.file.schema
    for number, kind in enumerate(physical_types(data)):
        column = schema.column(number)
        if kind == "INT64" and "nanoseconds" in str(column.logical_type):
            raise UnsupportedFeature(f"{doing}, whose column {column.path!r} has nanoseconds", advice)


def merge_columns(files: Iterable[tuple[str, Sequence[t.Field]]]) -> list[t.Field]:
    """The columns of all files, in the order in which they come; by their names in any case.

    Raises `SchemaMismatch` for a column of different types.

    Args:
        files: The location and the columns of each file.

    Example:
        >>> merged_columns([("1.parquet", [id]), ("2.parquet", [id, note])])
    """
    merged: dict[str, t.Field] = {}
    first: dict[str, str] = {}
    for location, columns in files:
        for column in columns:
            name = column.name.lower()
            if name not in merged:
                merged[name], first[name] = column, location
            elif merged[name] != column:
                merged[name] = _merge_fields(merged[name], column, column.name, (first[name], location))
    return list(merged.values())


def _merge_fields(one: t.Field, other: t.Field, path: str, where: tuple[str, str]) -> t.Field:
    if one.name != other.name:
        raise SchemaMismatch(f"column {path!r} is {one.name!r} in {where[0]}, and {other.name!r} in {where[1]}")
    match one.type, other.type:
        case t.Struct(), t.Struct():
            members = {each.name.lower(): each for each in one.type.fields}
            for each in other.type.fields:
                known = members.get(each.name.lower())
                members[each.name.lower()] = (
                    each if known is None else _merge_fields(known, each, f"{path}.{each.name}", where)
                )
            return replace(one, type=t.Struct(tuple(members.values())))
        case t.ListOf(), t.ListOf():
            return replace(
                one, type=t.ListOf(_merge_fields(one.type.element, other.type.element, f"{path}.element", where))
            )
        case t.MapOf(), t.MapOf():
            key = _merge_fields(one.type.key, other.type.key, f"{path}.key", where)
            return replace(
                one, type=t.MapOf(key, _merge_fields(one.type.value, other.type.value, f"{path}.value", where))
            )
    if one.type != other.type:
        raise SchemaMismatch(
            f"column {path!r} is {one.type} in {where[0]}, and {other.type} in {where[1]}: files of one table have the "
            "table's type. Write the rows of one of them again"
        )
    return one


def folder_type(values: Sequence[str | None]) -> t.Type:
    """The type of the values of folders, such as `day=2026-01-31`: whole numbers, fractions, days, or else text.

    Example:
        >>> folder_type(["1", "27"])
        Atomic(name='int')
    """
    texts = pa.array([None if each == _NULL else each for each in values], pa.string()).drop_null()
    if not len(texts):
        return t.STRING
    for kind, pattern in ((t.INT, r"[+-]?\d+"), (t.LONG, r"[+-]?\d+"), (t.DOUBLE, _FRACTION), (t.DATE, _DAY)):
        if pc.all(pc.match_substring_regex(texts, f"^({pattern})$")).as_py() and _can_cast(texts, kind):
            return kind
    return t.STRING


def _can_cast(texts: pa.Array, kind: t.Type) -> bool:
    try:
        texts.cast(kind.arrow())
    except pa.ArrowInvalid:
        return False
    return True
