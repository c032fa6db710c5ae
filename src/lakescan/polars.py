"""Polars' words for tables: `lakescan.polars.scan(...)`, as there are `pl.scan_delta` and `pl.scan_iceberg`."""

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
    """A table as a Polars lazy frame: columns and filters of the query reach the files that are read.

    Iceberg and Delta alike, with every kind of delete, and time travel by the options.

    Args:
        source: A folder, a URI, an Iceberg metadata file, or `catalog.namespace.table`; see `lakescan.table`.
        storage_options: Settings of the filesystem; see `lakescan.table`.
        options: Read options by the ecosystem's names (`version_as_of`, `branch`, ...); the page Options of the
            documents lists them.

    Raises:
        MissingDependency: Polars is not installed.
        NotATable: There is no table at the path; and what else `lakescan.table` raises.

    Example:
        >>> lakescan.polars.scan("/lake/orders").filter(pl.col("price") > 5).select("order_id").collect()
    """
    return table(source, storage_options=storage_options, **options).scan().to_polars(lazy=True)
