"""The rows of a write, from Arrow, pandas, Polars, DuckDB or a Spark data frame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from lakescan import engines
from lakescan.common.executors import PlanningExecutor
from lakescan.errors import InvalidOption
from lakescan.expressions.predicate import Predicate
from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.tables.frames import check_duckdb, check_polars, convert_pandas, open_arrow_stream, stream_batches
from lakescan.tables.save import check_and_write
from lakescan.writing.table_writes import TableWrites, WrittenFile
from lakescan.writing.upserts import UpsertFiles, write_newest

# How Python's own collections become rows.
_AS_ARROW: dict[type, str] = {
    dict: ". Of a dict of columns, pyarrow.table(data) makes them",
    list: ". Of a list of dicts, pyarrow.Table.from_pylist(data) makes them",
}


class Rows(Protocol):
    """Rows to write, and the engine that writes them."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""

    @property
    def session(self) -> SessionSettings:
        """How the session that the rows come from stages rows of audited tables."""

    @property
    def executor(self) -> PlanningExecutor | None:
        """The executor that rewrites kept rows of replaced files; None for threads of this process."""

    @property
    def can_repeat(self) -> bool:
        """Whether the rows can be written twice: those of a stream can be read only once."""

    def write(self, writes: TableWrites, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Write all rows; raise `SchemaMismatch` if a row does not match `where`."""

    def write_newest(self, writes: TableWrites, keys: TableWrites, write_id: str) -> UpsertFiles:
        """Write the last row of each key, and the keys of what they replace."""


class ArrowRows:
    """Record batches in this process; other batches than those of a list can be read once."""

    executor: None = None
    session: SessionSettings = NO_SESSION

    def __init__(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        self.schema = schema
        self._batches = batches
        self.can_repeat: bool = isinstance(batches, list)

    def write(self, writes: TableWrites, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Write all rows in this process, as one task."""
        return check_and_write(writes, self._batches, write_id, where)

    def write_newest(self, writes: TableWrites, keys: TableWrites, write_id: str) -> UpsertFiles:
        """Write the last row of each key in this process, as one task."""
        return write_newest(writes, keys, self._batches, write_id)


def as_rows(data: Any) -> Rows:
    """The rows of Arrow, pandas, Polars (a lazy frame is collected), DuckDB or Spark data.

    Raises `InvalidOption` for data without rows, `SchemaMismatch` and `UnsupportedFeature` for values that Arrow cannot
    represent.
    """
    if isinstance(data, pa.RecordBatch):
        return ArrowRows(data.schema, [data])
    if isinstance(data, pa.Table):
        return ArrowRows(data.schema, data.to_batches())
    match _library(data):
        case "pyspark" if hasattr(data, "mapInArrow"):
            rows: Rows = engines.load("spark").SparkRows(data)
            return rows
        case "pandas" if hasattr(data, "columns"):
            table = convert_pandas(data)
            return ArrowRows(table.schema, table.to_batches())
        case "polars":
            data = data.collect() if hasattr(data, "collect") else data
            if hasattr(data, "schema"):
                check_polars(data)
        case "duckdb" if hasattr(data, "types"):
            check_duckdb(data)
    if hasattr(data, "__arrow_c_stream__"):
        reader = open_arrow_stream(data)
        return ArrowRows(reader.schema, stream_batches(reader))
    raise InvalidOption(
        f"{type(data).__name__} holds no rows to save: pass Arrow, pandas, Polars, DuckDB or a Spark data frame"
        f"{_AS_ARROW.get(type(data), '')}"
    )


def session_settings_of(data: Any) -> SessionSettings:
    """How the session of a Spark data frame stages rows; of other data, that it does not."""
    if _library(data) == "pyspark" and hasattr(data, "sparkSession"):
        found: SessionSettings = engines.load("spark").settings_of_session(data.sparkSession)
        return found
    return NO_SESSION


def _library(data: Any) -> str:
    """The library that defines the type of `data` or one of its base classes; empty if it is none that we know."""
    modules = {each.__module__.split(".")[0].lstrip("_") for each in type(data).__mro__}
    return next((name for name in ("pyspark", "pandas", "polars", "duckdb") if name in modules), "")
