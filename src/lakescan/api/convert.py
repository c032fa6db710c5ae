"""Converting folders of Parquet files to tables, where the files are."""

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
    """Make a Delta table of a folder of Parquet files, where they are: CONVERT TO DELTA.

    Only footers are read, and no file is changed or moved. The columns are those of all files; types must be the same.
    Hidden files are left out. From then on, write to the folder as to a table alone.

    Args:
        path: The folder.
        partition_by: The partition columns with their types, if the files are in folders such as `day=2026-01-31`:
            'day DATE, country STRING'.
        statistics: Take counts and bounds from the footers, by which queries skip files.
        properties: The table's properties.
        comment: What the table is about.
        storage_options: Settings of the filesystem, as of `lakescan.table`.

    Returns:
        The open table. A folder that has a Delta table already is opened as it is.

    Raises:
        InvalidOption: There are no files, or their folders are not named after `partition_by`.
        SchemaMismatch: Two files have a column of different types.
        UnsupportedFeature: Columns that Delta does not have, such as times of day; a folder with an Iceberg table.
        CorruptData: A file is no Parquet file.

    Example:
        >>> lakescan.convert_to_delta("/lake/events", partition_by="day DATE")
        Table(delta '/lake/events')
    """
    location, storage = absolute(location_of(path)).rstrip("/"), Storage(storage_options or {})
    if not is_table(location, storage):
        columns = parse_columns(partition_by).columns if partition_by.strip() else ()
        convert_folder(location, Conversion(columns, property_texts(properties), comment, statistics), storage)
    return table(location, format="delta", storage_options=storage_options)
