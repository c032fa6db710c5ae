"""A pyiceberg catalog in a folder, for tables that tests make."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def local_catalog(folder: Path, name: str = "c") -> Any:
    """Make a catalog with the namespace `n`, whose tables are under the folder."""
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog(name, uri=f"sqlite:///{folder}/{name}.db", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    return catalog
