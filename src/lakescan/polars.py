"""Read tables from Polars code: `lakescan.polars.scan(...)`, analogous to `pl.scan_delta` and `pl.scan_iceberg`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from lakescan.api.open import table
from lakescan.common.identifiers import Identifier
from lakescan.options.keywords import TableKeywords

if TYPE_CHECKING:
    import polars


def scan(
    source: str | os.PathLike[str] | Identifier,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[TableKeywords],
) -> polars.LazyFrame:
    """Open a table as a Polars lazy frame, pushing the query's columns and filters down to the file scan.

    Works for Iceberg and Delta tables, with every kind of delete, and with time travel by options.

    Args:
        source: A folder, a URI, an Iceberg metadata file, or `catalog.namespace.table`; see `lakescan.table`.
        storage_options: Settings of the filesystem; see `lakescan.table`.
        options: Read options in snake case (`version_as_of`, `branch`, ...). The page Options of the documentation
            lists them.

    Returns:
        A lazy frame; nothing is read before it is collected.

    Raises:
        MissingDependency: Polars is not installed.
        NotATable: There is no table at the path. Other errors are those of `lakescan.table`.

    Example:
        >>> lakescan.polars.scan("/lake/orders").filter(pl.col("price") > 5).select("order_id").collect()
    """
    return table(source, storage_options=storage_options, **options).scan().to_polars(lazy=True)
