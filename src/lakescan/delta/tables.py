"""`DeltaTable` and its builders, with the interface of Delta's module `delta.tables`, for PySpark."""

from __future__ import annotations

from lakescan.spark.delta_tables.builders import (
    DeltaColumnBuilder,
    DeltaTableBuilder,
    IdentityGenerator,
)
from lakescan.spark.delta_tables.merge import DeltaMergeBuilder
from lakescan.spark.delta_tables.optimize import DeltaOptimizeBuilder
from lakescan.spark.delta_tables.table import DeltaTable

__all__ = [
    "DeltaColumnBuilder",
    "DeltaMergeBuilder",
    "DeltaOptimizeBuilder",
    "DeltaTable",
    "DeltaTableBuilder",
    "IdentityGenerator",
]
