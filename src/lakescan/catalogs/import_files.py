"""Creation of tables from existing files: derives columns and partitions from footers and folders, and commits once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakescan.catalogs.committer import CatalogCommitter
from lakescan.catalogs.registry import location_limits
from lakescan.common import types as t
from lakescan.common.identifiers import Identifier
from lakescan.common.references import dotted_path
from lakescan.common.schema import FieldMatching, Schema
from lakescan.definition.table_definition import TableDefinition, Term, assign_ids
from lakescan.errors import InvalidOption
from lakescan.options.write import WriteOptions
from lakescan.reading.field_ids import read_fields
from lakescan.reading.parquet.file import open_parquet
from lakescan.storage import Storage
from lakescan.storage.settings.catalog_properties import storage_properties
from lakescan.tables.base import Format
from lakescan.tables.commit_files import write_result
from lakescan.tables.results import WriteResult
from lakescan.writing.imported_files import (
    FolderFiles,
    check_parquet,
    check_times,
    folder_type,
    merge_columns,
    physical_types,
    with_instants,
)

_READERS = 16  # footers that are read concurrently
_NO_NANOSECONDS = "Read the files and write their rows to a new table of format version 3."


@dataclass(frozen=True)
class Import:
    """The files of a folder to import as a new table.

    - `folder`: the location of the folder, or of a single file.
    - `columns`: the columns except the partition columns. None: the columns of the files.
    - `partition_by`: the columns that the folders are named after (`day=2026-01-31`). None: found by the folders' names
      and values.
    - `files`: the locations of the files. None: all files under the folder.
    - `properties`: the new table's properties.
    - `location`: the new table's location. None: the catalog chooses it.
    """

    folder: str
    columns: Sequence[t.Field] | None = None
    partition_by: Sequence[t.Field] | None = None
    files: Sequence[str] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None


def split_columns(
    columns: Sequence[t.Field] | None, partition_by: Sequence[str] | None
) -> tuple[Sequence[t.Field] | None, Sequence[t.Field] | None]:
    """Split columns into the other columns and the partition columns, the fields of `Import`.

    Returns (None, None) if both are None. Raises `InvalidOption` if partition columns are named but `columns` is None,
    and `NoSuchColumn`.
    """
    if columns is None:
        if partition_by is not None:
            raise InvalidOption("partition_by is given without columns: their types are needed. Give both, or neither")
        return None, None
    chosen = [Schema(tuple(columns)).field(name) for name in partition_by or ()]
    return [each for each in columns if each not in chosen], chosen


def import_files(format: Format, catalog: Any, name: Identifier, wanted: Import) -> WriteResult:
    """Create the table `name` from the existing files of `wanted`, in one commit, and return its `WriteResult`.

    The files stay where they are, and only their footers are read. Raises `InvalidOption` and `SchemaMismatch` for
    files that do not fit, `UnsupportedFeature`, `CreatedConcurrently`, `CommitStateUnknown`.
    """
    storage = Storage(io_properties=storage_properties(catalog.properties), allowed=location_limits(name.catalog))
    found = None if wanted.files is not None and not wanted.files else FolderFiles.list_folder(wanted.folder, storage)
    if found is not None and wanted.files is not None:
        found = found.select_files(wanted.files, storage)
    folders = {} if found is None else found.folders
    partition = wanted.partition_by
    if partition is None:
        partition = [t.Field(0, name, folder_type(values)) for name, values in folders.items()]
    elif found is not None and {each.name for each in partition} != set(folders):
        raise InvalidOption(
            f"the folders of {wanted.folder} are named after {', '.join(folders) or 'no column'}, and its partition "
            f"columns are {', '.join(each.name for each in partition) or 'none'}"
        )
    columns = wanted.columns
    if columns is None:
        names = {each.name.lower() for each in partition}
        columns = [] if found is None else _columns(found, storage, format, wanted.properties, names)
    definition = TableDefinition(
        assign_ids((*columns, *partition)),
        partition_by=tuple(Term(dotted_path((each.name,))) for each in partition),
        properties=wanted.properties,
        location=wanted.location,
    )
    new, files = format.new_table(CatalogCommitter(name), definition, WriteOptions()).adopt_files(wanted.folder, found)
    new.commit(files)
    return write_result(files)


def _columns(
    found: FolderFiles, storage: Storage, format: Format, properties: Mapping[str, str], without: set[str]
) -> list[t.Field]:
    """Merge the columns of all Parquet files (`found`) to those of a table of this format.

    `properties` are the table's. Columns in `without` (lower case), the partition columns, are left out. Raises
    `SchemaMismatch` and `UnsupportedFeature` for files that do not fit.
    """

    def file_columns(location: str) -> tuple[str, list[t.Field]]:
        with open_parquet(storage, location) as data:
            check_times(data, f"a table of the files of {data.path}", _NO_NANOSECONDS)
            fields = read_fields(data.schema, FieldMatching())
            types = physical_types(data)
            places = np.cumsum([0, *(each.leaves for each in fields)]).tolist()
            columns = format.columns(data.schema, properties)
            pairs = zip(fields, columns, strict=True)
            made = [with_instants(each, column, types[places[each.index] :]) for each, column in pairs]
            return location, [each for each in made if each.name.lower() not in without]

    check_parquet(found.entries)
    with ThreadPoolExecutor(_READERS) as pool:
        return merge_columns(pool.map(file_columns, sorted(each.location for each in found.entries)))
