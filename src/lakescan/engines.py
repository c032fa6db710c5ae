"""The engines that are imported when something is handed to them: the one place where lower layers name higher ones."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The module of each engine that takes scans, changes and rows. It offers `frame_of`, `changes_frame`, `rows_of`,
# `is_frame` and `schema_of`.
_MODULES = {"spark": "lakescan.spark.engine"}


def load(name: str) -> Any:
    """The module of an engine; it is imported when it is first asked for, since an engine may not be installed."""
    return import_module(_MODULES[name])
