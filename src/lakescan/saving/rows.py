"""Rows to save, whatever holds them: Arrow, pandas, Polars, DuckDB, or a Spark data frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lakescan.errors import InvalidOption
from lakescan.executors import PlanningExecutor
from lakescan.expressions.predicate import Predicate
from lakescan.saving.save import write_checked
from lakescan.saving.target import Target
from lakescan.writing.table_writes import WrittenFile


class Rows(Protocol):
    """Rows that can be written."""

    @property
    def schema(self) -> pa.Schema:
        """Their columns."""

    @property
    def executor(self) -> PlanningExecutor | None:
        """Where rows of the table that stay are written; None for here."""

    def write(self, target: Target, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Write them all; with `where`, raise `SchemaMismatch` for rows that are not of it."""


class ArrowRows:
    """Record batches in this process, gone through once."""

    executor = None

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self.schema, self._batches = schema, batches

    def write(self, target: Target, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Here, in one task."""
        return write_checked(target.writes, self._batches, write_id, where)


def rows_of(data: Any) -> Rows:
    """Rows from what has them; raises `InvalidOption` for what has none."""
    if type(data).__module__.startswith("pyspark."):
        from lakescan.spark.writing import SparkRows

        return SparkRows(data)
    if isinstance(data, pa.RecordBatch):
        return ArrowRows(data.schema, [data])
    if isinstance(data, pa.Table):
        return ArrowRows(data.schema, data.to_batches())
    if type(data).__module__.startswith("pandas."):
        table = pa.Table.from_pandas(data, preserve_index=False)
        return ArrowRows(table.schema.remove_metadata(), table.to_batches())
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return ArrowRows(reader.schema, reader)
    raise InvalidOption(
        f"{type(data).__name__} holds no rows to save: give Arrow, pandas, Polars, DuckDB or a Spark data frame"
    )
