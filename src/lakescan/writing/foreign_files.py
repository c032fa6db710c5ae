"""Parquet files that other writers wrote, in folders named after partitions: which there are, and what footers say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import CorruptMetadata, InvalidOption, UnsupportedFeature
from lakescan.reading.casting import cast_leaf
from lakescan.reading.parquet.bounds import decode_bounds
from lakescan.reading.parquet.legacy_calendar import LegacyCalendar
from lakescan.storage import FileEntry, Storage
from lakescan.writing.partition_key import physical_values
from lakescan.writing.statistics import Extreme

_BOUNDED = (t.BOOLEAN, t.DATE, t.TIME, t.STRING, *t.INTEGRAL, *t.FLOATING)


@dataclass(frozen=True)
class FolderFiles:
    """Files under a folder, and the values of their own folders (`day=2026-01-31`) by name."""

    folder: str
    entries: Sequence[FileEntry]
    folders: Mapping[str, Sequence[str | None]]

    @classmethod
    def list_folder(cls, folder: str, storage: Storage) -> Self:
        """List the files under a folder, or one file; hidden ones are left out, as Spark leaves them out.

        Raises `InvalidOption` if there is none, or files are in folders of different depth or names;
        `UnsupportedFeature` for the folder of a Delta or Iceberg table, some of whose files may be removed ones.
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
        """The files of these locations, in any spelling; raises `InvalidOption` if one is not under the folder."""
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
    """Raise `UnsupportedFeature` for files whose names say that they are ORC or Avro files."""
    names = pc.utf8_lower(pa.array([each.location for each in entries], pa.string()))
    for ending, kind in ((".orc", "ORC"), (".avro", "Avro")):
        at = pc.index(pc.ends_with(names, ending), True).as_py()
        if at >= 0:
            raise UnsupportedFeature(
                f"adding the {kind} file {entries[at].location}",
                "Parquet files are taken: read the others with Spark, and append their rows (Table.append).",
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
    """The bound of a column over all row groups; None unless each has one, or nothing but nulls (`empty`).

    Bounds that a legacy `calendar` makes unreliable are none.
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
    """The names and values of folders in Hive's layout."""
    for each in folders:
        name, separator, value = each.partition("=")
        if separator:
            yield unquote(name), unquote(value)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _is_metadata(path: Sequence[str]) -> bool:
    return path[-1].endswith((".metadata.json", ".metadata.json.gz"))
