"""Import of Parquet files that other writers wrote in Hive-partitioned folders: listing, checks and column types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import CorruptMetadata, InvalidOption, SchemaMismatch, UnsupportedFeature
from lakescan.reading.field_ids import FileField
from lakescan.reading.parquet.file import ParquetData
from lakescan.reading.parquet.footer import decode_bounds
from lakescan.reading.parquet.legacy_calendar import LegacyCalendar
from lakescan.reading.type_promotion import cast_leaf
from lakescan.storage import FileEntry, Storage
from lakescan.writing.file_statistics import Extreme
from lakescan.writing.partition_key import physical_values

_BOUNDED = (t.BOOLEAN, t.DATE, t.TIME, t.STRING, *t.INTEGRAL, *t.FLOATING)


@dataclass(frozen=True)
class FolderFiles:
    """The data files below a folder, as of a Hive-partitioned table.

    - `entries`: the files.
    - `folders`: for each name in the names of subfolders (`day=2026-01-31`), the value of each file; empty without such
      subfolders.
    """

    folder: str
    entries: Sequence[FileEntry]
    folders: Mapping[str, Sequence[str | None]]

    @classmethod
    def list_folder(cls, folder: str, storage: Storage) -> Self:
        """List the files below a folder, or a single file. Hidden files are skipped, as Spark skips them.

        `folder` is the location without a trailing slash. Raises `InvalidOption` without any file, or if files are in
        subfolders with different column names. Raises `UnsupportedFeature` for the folder of a Delta or Iceberg table,
        because some of its files may be removed from the table.
        """
        entries = storage.files_at(folder)
        below = [each.location[len(folder) :].strip("/").split("/") for each in entries]
        if any("_delta_log" in each or _is_metadata(each) for each in below):
            raise UnsupportedFeature(
                f"adding the files of {folder}, which has a Delta or Iceberg table",
                "Removed and deleted rows would come back: read the table, and append its rows (Table.append).",
            )
        seen = [(one, path) for one, path in zip(entries, below, strict=True) if not any(map(_is_hidden, path))]
        if not seen:
            raise InvalidOption(f"{folder} has no files to add")
        named = [dict(_values(path[:-1])) for _, path in seen]
        names = list(named[0])
        if other := next((at for at, each in enumerate(named) if list(each) != names), None):
            raise InvalidOption(
                f"the files of {folder} are in folders of different names: {seen[0][0].location} and "
                f"{seen[other][0].location}. Add them folder by folder."
            )
        return cls(folder, [one for one, _ in seen], {name: [each[name] for each in named] for name in names})

    def select_files(self, locations: Sequence[str], storage: Storage) -> Self:
        """Keep only the files at these locations; equivalent URIs of a file, such as s3:// and s3a://, match.

        Raises `InvalidOption` if a location is not among the files.
        """
        places = storage.places()
        there = places.canonicalize(pa.array([each.location for each in self.entries], pa.string()))
        wanted = places.canonicalize(pa.array(locations, pa.string()))
        lost = pc.index(pc.is_in(wanted, value_set=there), False).as_py()
        if lost >= 0:
            raise InvalidOption(f"{locations[lost]} is not among the files of {self.folder}")
        kept = pc.indices_nonzero(pc.is_in(there, value_set=wanted)).to_pylist()
        folders = {name: [values[place] for place in kept] for name, values in self.folders.items()}
        return replace(self, entries=[self.entries[place] for place in kept], folders=folders)


def check_parquet(entries: Sequence[FileEntry]) -> None:
    """Raise `UnsupportedFeature` if the name of a file ends in `.orc` or `.avro`; contents are not read."""
    names = pc.utf8_lower(pa.array([each.location for each in entries], pa.string()))
    for ending, kind in ((".orc", "ORC"), (".avro", "Avro")):
        at = pc.index(pc.ends_with(names, ending), True).as_py()
        if at >= 0:
            raise UnsupportedFeature(
                f"adding the {kind} file {entries[at].location}",
                "Only Parquet files are supported: read other files with Spark and append their rows (Table.append).",
            )


def footer_bound(
    chunks: Sequence[Any],
    side: str,
    type_name: str,
    source: pa.DataType,
    column: t.Field,
    empty: Sequence[bool],
    created_by: str | None,
    calendar: LegacyCalendar | None = None,
) -> Extreme | None:
    """Return a leaf column's lower or upper bound over all row groups of a file, or None if it is unknown.

    It is in the encoding of `FileStatistics`: integers for times and unscaled decimals, bytes for strings. It is
    unknown for other types, if a row group that has values (see `empty`) has no bound, if bounds cannot be read, or if
    the calendar makes them unreliable.

    Args:
        chunks: The footer's metadata of the column, by row group.
        side: `"lower"` or `"upper"`.
        type_name: The physical type of the column in the file.
        source: The Arrow type of the column in the file.
        column: The column of the table; its type determines the type of the bound.
        empty: By row group, whether it has only nulls.
        created_by: The writer that the footer names, because some writers stored wrong bounds; None if it names none.
        calendar: The calendar of a file whose dates may be in the hybrid calendar; None for other files.
    """
    if column.type not in _BOUNDED and not isinstance(column.type, t.Decimal | t.Timestamp):
        return None
    try:
        values = decode_bounds(chunks, side, type_name, source, created_by)
        values = values if calendar is None else calendar.reliable_bounds(values)
        values = None if values is None else cast_leaf(values, column.type, column.name)
    except (pa.ArrowException, CorruptMetadata, TypeError, ValueError, ArithmeticError):
        return None
    if values is None or values.null_count == len(values):
        return None
    if pc.any(pc.and_not(values.is_null(), pa.array(empty, pa.bool_()))).as_py():
        return None
    value = pc.min_max(physical_values(values))["min" if side == "lower" else "max"].as_py()
    if isinstance(column.type, t.Decimal):
        return int(value.scaleb(column.type.scale))
    return value.encode() if isinstance(value, str) else value


def _values(folders: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each folder name of the form `name=value`, URL-decoded; others are skipped."""
    for each in folders:
        name, separator, value = each.partition("=")
        if separator:
            yield unquote(name), unquote(value)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _is_metadata(path: Sequence[str]) -> bool:
    return path[-1].endswith((".metadata.json", ".metadata.json.gz"))


_NULL = "__HIVE_DEFAULT_PARTITION__"
_FRACTION = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?").pattern
_DAY = r"\d{4}-\d{2}-\d{2}"


def with_instants(field: FileField, column: t.Field, types: Sequence[str]) -> t.Field:
    """Return the column with its INT96 timestamps as timestamps with a time zone, as Spark writes and reads them.

    Args:
        field: The column in the file.
        column: The same column as a table column.
        types: The physical types of the column's leaves, and possibly of later leaves.

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
    """Return the physical types of a file's leaf columns, in order, for `with_instants`.

    Args:
        data: The open file.

    Example:
        >>> physical_types(data)
        ['INT64', 'INT96']
    """
    schema = data.file.schema
    return [schema.column(number).physical_type for number in range(len(schema))]


def check_times(data: ParquetData, doing: str, advice: str) -> None:
    """Raise `UnsupportedFeature` for a file with nanosecond timestamps or times.

    Args:
        data: The open file.
        doing: The refused operation, ending in the path of the file.
        advice: The alternative, for the message.

    Example:
        >>> check_times(data, f"converting {data.path}", "Write the rows to a new table.")
    """
    schema = data.file.schema
    for number, kind in enumerate(physical_types(data)):
        column = schema.column(number)
        if kind == "INT64" and "nanoseconds" in str(column.logical_type):
            raise UnsupportedFeature(f"{doing}, whose column {column.path!r} has nanoseconds", advice)


def merge_columns(files: Iterable[tuple[str, Sequence[t.Field]]]) -> list[t.Field]:
    """Return the union of the columns of all files in order of first appearance, matched case-insensitively by name.

    Raises `SchemaMismatch` if files have a column with different types or in different case.

    Args:
        files: The location and the columns of each file.

    Example:
        >>> merge_columns([("1.parquet", [id]), ("2.parquet", [id, note])])
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
            f"column {path!r} is {one.type} in {where[0]}, and {other.type} in {where[1]}: all files of a table need "
            "the same type. Rewrite one of them"
        )
    return one


def folder_type(values: Sequence[str | None]) -> t.Type:
    """Infer the column type of folder values (`day=2026-01-31`): int, long, double, date or string.

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
