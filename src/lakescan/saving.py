"""`lakescan.save`: rows into a table that is made where it is not there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lakescan.catalogs.identifiers import Identifier, location_of
from lakescan.errors import InvalidOption, TableExists, nearest
from lakescan.transaction.base import Saved
from lakescan.transaction.into import append_rows, overwrite_rows
from lakescan.transaction.open import exists, open_target
from lakescan.transaction.rows import rows_of

_SAVE_MODES = ("error", "append", "overwrite", "ignore")


def save(
    rows: Any,
    path: str | os.PathLike[str] | Identifier,
    *,
    mode: str = "error",
    format: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> Saved:
    """Save rows in a table by its identifier or, for Delta, its folder; it is made where it is not there.

    `mode` is 'error' (`TableExists` where it is there), 'append', 'overwrite' or 'ignore' (nothing is done where it is
    there). `rows` and options are those of `Table.append`; `partition_by` says how a new table is partitioned.
    """
    location, storage = location_of(path), dict(storage_options or {})
    if mode not in _SAVE_MODES:
        raise InvalidOption(f"mode {mode!r} is not known.{nearest(mode, _SAVE_MODES)} Valid: {', '.join(_SAVE_MODES)}")
    if mode in ("error", "ignore") and exists(location, storage):
        if mode == "ignore":
            return Saved(0, 0, 0)
        raise TableExists(f"{location} exists already: mode='append' adds to it, mode='overwrite' replaces its rows")
    given = rows_of(rows)
    target, said = open_target(location, format, options, storage, given.schema)
    return overwrite_rows(target, given, said, None) if mode == "overwrite" else append_rows(target, given, said)
