"""`convert_to_delta`: turn a folder of Parquet files into a Delta table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lakescan.api.alter import property_texts
from lakescan.api.open import table
from lakescan.api.table import Table
from lakescan.common.identifiers import location_of
from lakescan.delta.commit.convert import Conversion, convert_folder
from lakescan.delta.commit.creation import is_table
from lakescan.statements.syntax.columns import parse_columns
from lakescan.storage import Storage
from lakescan.storage.locations import absolute


def convert_to_delta(
    path: str | os.PathLike[str],
    *,
    partition_by: str = "",
    statistics: bool = True,
    properties: Mapping[str, Any] | None = None,
    comment: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Table:
    """Turn a folder of Parquet files into a Delta table in place (CONVERT TO DELTA).

    Only footers are read, and no file is changed or moved. The table has the columns of all files; a column must have
    the same type in all of them. Hidden files are ignored. Afterwards, write to the folder only through the table.

    Args:
        path: The folder, as a path or URI.
        partition_by: The partition columns with their types, if the files are in folders such as `day=2026-01-31`: 'day
            DATE, country STRING'.
        statistics: Copy counts and bounds from the footers into the log, so that queries can skip files.
        properties: Table properties.
        comment: A description of the table.
        storage_options: Settings of the filesystem; see `lakescan.table`.

    Returns:
        The open table. If the folder already is a Delta table, it is opened as it is.

    Raises:
        InvalidOption: The folder has no files, or the names of its folders do not match `partition_by`.
        SchemaMismatch: A column has different types in two files.
        UnsupportedFeature: A column has a type that Delta lacks, such as a time of day, or the folder is an Iceberg
            table.
        CorruptData: A file is not a Parquet file.

    Example:
        >>> lakescan.convert_to_delta("/lake/events", partition_by="day DATE")
        Table(delta '/lake/events')
    """
    location, storage = absolute(location_of(path)).rstrip("/"), Storage(storage_options or {})
    if not is_table(location, storage):
        columns = parse_columns(partition_by).columns if partition_by.strip() else ()
        convert_folder(location, Conversion(columns, property_texts(properties), comment, statistics), storage)
    return table(location, format="delta", storage_options=storage_options)
