"""Registry of engines, imported on first use: the only place where lower layers name higher ones."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Engine name to module. `dml` runs statements that change rows, in this process or on the engine of their source;
# `query` checks the queries of views. Other modules provide `frame_of`, `changes_frame`, `rows_of`, `is_frame` and
# `schema_of`.
_MODULES = {
    "spark": "lakescan.spark.engine",
    "dml": "lakescan.statements.rows.table_methods",
    "query": "lakescan.statements.tables.views",
}


def load(name: str) -> Any:
    """Import and return the module of an engine; imported on first use, because an engine may not be installed."""
    return import_module(_MODULES[name])
