"""Convert a folder of Parquet files to a Delta table in place, by writing a log; only footers are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.common.schema import FieldMatching
from lakescan.common.timestamps import to_millis
from lakescan.definition.arrow_schema import delta_columns
from lakescan.definition.table_definition import TableDefinition, Term, assign_ids
from lakescan.delta.commit.actions import ADD, DeltaFileChanges, json_text, log_paths, table_of
from lakescan.delta.commit.commit import Operation
from lakescan.delta.commit.creation import commit_first, new_table
from lakescan.delta.data_files.stats_json import stats_text
from lakescan.delta.metadata.protocol import Metadata
from lakescan.delta.scan.partition_values import NULL_PARTITION, typed_values
from lakescan.errors import CorruptMetadata, InvalidOption, UnsupportedFeature, nearest
from lakescan.reading.field_ids import FileField, read_fields
from lakescan.reading.parquet.file import ParquetData, open_parquet
from lakescan.storage import FileEntry, Storage
from lakescan.writing.file_statistics import FileStatistics, LeafColumn, LeafStatistics
from lakescan.writing.imported_files import (
    FolderFiles,
    check_parquet,
    check_times,
    footer_bound,
    merge_columns,
    physical_types,
    with_instants,
)

_READERS = 16  # footers that are read in parallel
_NO_NANOSECONDS = "Delta's timestamps have microseconds: read the files, and write their rows to a new table."
_FORBIDDEN = " ,;{}()\n\t="  # in column names: Delta's writers refuse them


@dataclass(frozen=True)
class Conversion:
    """The options of a conversion: partition columns, as the folders are named, table properties and a description.

    `statistics` decides whether file statistics are collected from footers.
    """

    partition_columns: Sequence[t.Field] = ()
    properties: Mapping[str, str] | None = None
    comment: str | None = None
    statistics: bool = True


@dataclass(frozen=True)
class _File:
    """A Parquet file with its columns, without partition columns, and the statistics of its footer."""

    entry: FileEntry
    columns: tuple[t.Field, ...]
    statistics: FileStatistics


def convert_folder(location: str, how: Conversion, storage: Storage) -> int:
    """Make the Parquet files under a folder a Delta table, in place; return the number of files.

    The table gets the columns of all files. Raises `SchemaMismatch` if files have a column in different types,
    `InvalidOption` if the folders are not named after the partition columns, `UnsupportedFeature` for columns that a
    Delta table cannot have and for column mapping, `CreatedConcurrently` and `CorruptData`.
    """
    found = FolderFiles.list_folder(location, storage)
    _check_partitions(found, how.partition_columns)
    names = {each.name.lower() for each in how.partition_columns}
    check_parquet(found.entries)
    with ThreadPoolExecutor(_READERS) as pool:
        files = list(pool.map(lambda entry: _read_file(entry, storage, names), found.entries))
    columns = assign_ids(
        (*merge_columns((each.entry.location, each.columns) for each in files), *how.partition_columns)
    )
    if wrong := [each.name for each in t.walk(columns) if set(each.name) & set(_FORBIDDEN)]:
        raise UnsupportedFeature(
            f"converting {location}, which has a column {wrong[0]!r}",
            "Delta's files cannot have columns with spaces or one of ,;{}()= in their names: write the rows to a table "
            "with column mapping.",
        )
    properties = dict(how.properties or {})
    if properties.get("delta.columnMapping.mode", "none") != "none":
        raise UnsupportedFeature(
            f"converting {location} to a table with column mapping", "Enable it after the conversion: Table.alter()."
        )
    terms = tuple(Term(dotted_path((each.name,))) for each in how.partition_columns)
    new = new_table(TableDefinition(columns, partition_by=terms, properties=properties, comment=how.comment))
    parameters = {
        "numFiles": len(files),
        "partitionedBy": json_text([each.name for each in how.partition_columns]),
        "collectStats": how.statistics,
        "sourceFormat": "parquet",
    }
    operation = Operation("CONVERT", parameters, {"numConvertedFiles": len(files)})
    added = _adds(location, files, found, how, new.metadata)
    commit_first(location, operation, new.protocol, new.metadata, storage, DeltaFileChanges(added=added))
    return len(files)


def _check_partitions(found: FolderFiles, columns: Sequence[t.Field]) -> None:
    """Raise `InvalidOption` unless the folders are named after the partition columns, with values of their types."""
    names = [each.name for each in columns]
    if sorted(names) != sorted(found.folders):
        given, there = ", ".join(names) or "nothing", ", ".join(found.folders) or "no column"
        near = next((nearest(each, found.folders) for each in names if each not in found.folders), "")
        raise InvalidOption(
            f"the folders of {found.folder} are named after {there}, but partition_by is {given}: it takes the names "
            f"of the folders, each with a type, such as 'day DATE, country STRING'.{near}"
        )
    for each in columns:
        texts = pa.array(found.folders[each.name], pa.string())
        try:
            typed_values(texts, each)
        except CorruptMetadata as error:
            raise InvalidOption(f"{found.folder}: {str(error).split('. ')[0]}: give the column another type") from error


def _read_file(entry: FileEntry, storage: Storage, without: set[str]) -> _File:
    with open_parquet(storage, entry.location) as opened:
        data = opened.as_spark_reads()
        check_times(data, f"converting {data.path}", _NO_NANOSECONDS)
        every = read_fields(data.schema, FieldMatching())
        places = np.cumsum([0, *(each.leaves for each in every)]).tolist()
        fields = [each for each in every if each.name.lower() not in without]
        found = delta_columns(pa.schema([data.schema.field(each.index) for each in fields]))
        types = physical_types(data)
        columns = tuple(
            with_instants(field, column, types[places[field.index] :])
            for field, column in zip(fields, found, strict=True)
        )
        leaves = [
            leaf
            for field, column in zip(fields, columns, strict=True)
            for leaf in _leaves(field, (column,), places[field.index])
        ]
        return _File(entry, columns, _statistics(data, leaves))


def _leaves(field: FileField, way: tuple[t.Field, ...], place: int) -> Iterator[tuple[int, FileField, LeafColumn]]:
    """Yield the leaf columns of a file's field, except those inside lists and maps.

    Each comes with its leaf index in the Parquet file and its field. `way` are the table's fields from the column to
    `field`, and `place` is the leaf index of the first leaf.
    """
    kind = way[-1].type
    if isinstance(kind, t.Struct):
        for child, member in zip(field.children, kind.fields, strict=True):
            yield from _leaves(child, (*way, member), place)
            place += child.leaves
    elif not t.children(kind):
        yield place, field, LeafColumn(way, ())


def _statistics(data: ParquetData, leaves: Sequence[tuple[int, FileField, LeafColumn]]) -> FileStatistics:
    """Return the row count, null counts and bounds of `leaves` (see `_leaves`) from a file's footer.

    Floating-point columns get no bounds, since the footer has no NaN counts.
    """
    groups = data.footer.statistics([place for place, _, _ in leaves])
    rows, writer = np.diff(data.footer.first_rows).tolist(), data.file.metadata.created_by
    found = []
    for place, field, leaf in leaves:
        chunks = groups[place]
        counts = [each.null_count for each in chunks]
        nulls = None if any(each is None for each in counts) else sum(each or 0 for each in counts)
        empty = [each == count for each, count in zip(counts, rows, strict=True)]
        type_name = data.file.schema.column(place).physical_type
        least = most = None
        if leaf.field.type not in t.FLOATING and type_name != "INT96":
            least, most = (
                footer_bound(chunks, side, type_name, field.type, leaf.field, empty, writer, data.calendar)
                for side in ("lower", "upper")
            )
        found.append(LeafStatistics(leaf, None, data.rows, nulls, 0, least, most))
    return FileStatistics(data.rows, [], found)


def _adds(location: str, files: Sequence[_File], found: FolderFiles, how: Conversion, metadata: Metadata) -> pa.Table:
    folders = {
        each.name: [None if value == NULL_PARTITION else value for value in found.folders[each.name]]
        for each in how.partition_columns
    }
    values = [list(zip(folders, each, strict=True)) for each in zip(*folders.values(), strict=True)]
    start = len(location.rstrip("/")) + 1
    paths = pa.array([each.entry.location[start:] for each in files], pa.string())
    columns: dict[str, Any] = {
        "path": log_paths(paths),
        "partitionValues": values or [[]] * len(files),
        "size": [each.entry.size for each in files],
        "modificationTime": [0 if each.entry.modified is None else to_millis(each.entry.modified) for each in files],
        "dataChange": [True] * len(files),
        "stats": [stats_text(each.statistics, metadata.properties) if how.statistics else None for each in files],
    }
    return table_of(columns, ADD, len(files))
