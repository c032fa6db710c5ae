"""`spark.catalog` with lakescan's catalogs and tables."""

from __future__ import annotations

from typing import Any


def intercept_catalog(owner: type) -> None:
    """Intercept the methods of PySpark's class `Catalog`."""
