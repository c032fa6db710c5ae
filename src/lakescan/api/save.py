"""`lakescan.save`: write rows to a table, and create it if it does not exist."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from lakescan.api.rows import as_rows
from lakescan.catalogs.formats import existing_target, exists, new_table
from lakescan.catalogs.lookup import location_or_name
from lakescan.common.identifiers import Identifier, location_of
from lakescan.errors import CreatedConcurrently, InvalidOption, TableExists, nearest
from lakescan.options.keywords import WriteKeywords
from lakescan.options.write import WriteOptions
from lakescan.storage.errors import redact
from lakescan.tables.results import WriteResult
from lakescan.tables.rows import Rows
from lakescan.tables.scan_spec import as_predicate
from lakescan.tables.write_rows import append_rows, create_with_rows, overwrite_rows

_LOG = logging.getLogger("lakescan.commits")
_SAVE_MODES = ("error", "append", "overwrite", "ignore")


def save(
    rows: Any,
    path: str | os.PathLike[str] | Identifier,
    *,
    mode: str = "error",
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    partition_by: str | Sequence[str] | None = None,
    properties: Mapping[str, Any] | None = None,
    **options: Unpack[WriteKeywords],
) -> WriteResult:
    """Save rows in a table, and create the table if it does not exist.

    Creating the table and adding its rows is one commit: if it fails, there is no table.

    Args:
        rows: Arrow, pandas, Polars or DuckDB data, or a Spark data frame; see `Table.append`.
        path: The table's name in a catalog (`catalog.namespace.table`), or the folder of a Delta table.
        mode: What to do if the table exists. 'error' raises `TableExists`, 'append' adds the rows, 'overwrite' replaces
            all rows, 'ignore' does nothing.
        format: The format of a new table, 'iceberg' or 'delta'. By default a name in a catalog becomes an Iceberg
            table. For a folder without a table, 'delta' is required.
        storage_options: Settings of the filesystem; see `lakescan.table`.
        partition_by: The partitioning of a new table: columns, and Iceberg's transforms (`days(ts)`, `bucket(16, id)`).
            An existing table must have the same partitioning, except with `overwriteSchema`, which replaces it.
        properties: Table properties of a new table, such as `{"format-version": "3"}`.
        options: Write options. The page Options of the documentation lists them.

    Returns:
        The number of files, rows and bytes written; zero if `mode` is 'ignore' and the table exists.

    Raises:
        TableExists: `mode` is 'error' and the table exists.
        CreatedConcurrently: Another writer created the table at the same time, and `mode` is 'error' or the rows can be
            read only once.
        InvalidOption: An argument or option is invalid.
        SchemaMismatch, CommitConflict, CommitStateUnknown, UnsupportedFeature: See `Table.append`.

    Example:
        >>> lakescan.save(frame, "local.shop.sales", partition_by=["days(sold_at)"])
    """
    arguments = {"format": format, "storage-options": storage_options, "partition-by": partition_by}
    checked = WriteOptions.parse(options).merge_arguments(
        {name: value for name, value in arguments.items() if value is not None} | _as_options(properties)
    )
    location = location_or_name(location_of(path))
    if mode not in _SAVE_MODES:
        raise InvalidOption(f"mode {mode!r} is unknown.{nearest(mode, _SAVE_MODES)} Valid: {', '.join(_SAVE_MODES)}")
    return save_with_options(rows, location, mode, checked)


def save_with_options(rows: Any, location: str, mode: str, options: WriteOptions) -> WriteResult:
    """Save rows in a table with parsed options; see `save`.

    Args:
        rows: The rows, as in `save`, or as `Rows`.
        location: The table's folder, or its name in a catalog.
        mode: As in `save`.
        options: The write options; `format` is that of a new table.
    """
    storage = dict(options.storage_options or {})
    if mode in ("error", "ignore") and exists(location, storage):
        if mode == "ignore":
            return WriteResult(0, 0, 0)
        raise TableExists(f"{location} already exists: mode='append' adds to it, mode='overwrite' replaces its rows")
    given = as_rows(rows)
    checked = replace(options, session=given.session)
    while True:
        if (target := existing_target(location, checked.format, checked, storage)) is not None:
            if mode == "overwrite":
                return _log_result(location, overwrite_rows(target, given, checked, None))
            return _log_result(location, append_rows(target, given, checked))
        try:
            result = _create_table(given, location, checked, storage, is_overwrite=mode == "overwrite")
            return _log_result(location, result)
        except CreatedConcurrently:
            if mode == "ignore":
                return WriteResult(0, 0, 0)
            if mode == "error" or not given.can_repeat:
                raise


def _log_result(location: str, result: WriteResult) -> WriteResult:
    _LOG.debug("%s: %s", redact(location), result)
    return result


def _create_table(
    rows: Rows, location: str, options: WriteOptions, storage: dict[str, Any], *, is_overwrite: bool
) -> WriteResult:
    """Create the table with the rows, in one commit, and return the result.

    With `is_overwrite`, the options of overwrites apply instead of those of appends. Raises `CreatedConcurrently` if
    another writer creates the table.
    """
    where = options.replace_where
    if is_overwrite:
        options.check_overwrites(where)
    else:
        options.check_appends()
    new = new_table(location, options.format, options, storage, rows.schema)
    return create_with_rows(new, rows, as_predicate(where) if is_overwrite and where is not None else None)


def _as_options(properties: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the properties of a new table as write options (`table-property.<name>`).

    Raises `InvalidOption` for a value that is not a mapping.
    """
    if not isinstance(properties, Mapping | None):
        raise InvalidOption(f"properties are a mapping of names to values, not {properties!r}")
    return {f"table-property.{name}": value for name, value in (properties or {}).items()}
