"""Frames, temporary views and settings that a statement can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Any

import pyarrow as pa

from lakescan.errors import InvalidOption
from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.tables.rows import convert_pandas, open_arrow_stream


class SessionNames:
    """What an engine has by short names; this one has nothing."""

    def has(self, name: str) -> bool:
        """Whether there is something of a name."""
        return False

    def has_catalog(self, name: str) -> bool:
        """Whether a name of several parts that begins so is the engine's own."""
        return False

    def columns(self, name: str) -> Sequence[str] | None:
        """Its columns; None if they are not known."""
        return None

    @property
    def has_queries(self) -> bool:
        """Whether some of the names may stand for queries."""
        return False

    def query(self, name: str) -> str | None:
        """The query, or the table, that a name stands for: it is read in its place. None for another name."""
        return None

    def frame_names(self) -> Sequence[str]:
        """The names of frames, in lower case."""
        return ()

    def rows(self, name: str) -> pa.Table | None:
        """Its rows, if they are at hand."""
        return None


def arrow_table(name: str, frame: Any) -> pa.Table:
    """The rows of Arrow, pandas, Polars, DuckDB or Spark data; raises `InvalidOption` for data without rows."""
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    if hasattr(frame, "index") and hasattr(frame, "columns"):
        return convert_pandas(frame)
    if hasattr(frame, "sparkSession"):
        return frame.toArrow()
    if hasattr(frame, "collect") and not hasattr(frame, "__arrow_c_stream__"):  # a lazy frame of Polars
        frame = frame.collect()
    if hasattr(frame, "__arrow_c_stream__"):
        return open_arrow_stream(frame).read_all()
    raise InvalidOption(
        f"{name}={type(frame).__name__} holds no rows: give a table, a scan, or Arrow, pandas, Polars or DuckDB data"
    )


def may_have_rounded(frames: Mapping[str, Any]) -> bool:
    """Whether a frame comes from a library that may keep integers as floats, as pandas does with nulls.

    Tables and scans have the types of their table, and Spark's frames those of Spark.
    """
    return any(
        isinstance(each, pa.Table | pa.RecordBatch) or not type(each).__module__.startswith(("lakescan", "pyspark"))
        for each in frames.values()
    )


class GivenFrames(SessionNames):
    """Frames that the user gave by name. Their rows are taken when they are first asked for, and kept."""

    def __init__(self, frames: Mapping[str, Any]) -> None:
        self._frames = {name.lower(): (name, frame) for name, frame in frames.items()}
        self._tables: dict[str, pa.Table] = {}

    def has(self, name: str) -> bool:
        """Whether a frame of that name was given."""
        return name.lower() in self._frames

    def columns(self, name: str) -> Sequence[str] | None:
        """The columns of a frame."""
        rows = self.rows(name)
        return None if rows is None else rows.column_names

    def rows(self, name: str) -> pa.Table | None:
        """The rows of a frame."""
        return self.table(name) if name.lower() in self._frames else None

    def table(self, name: str) -> pa.Table:
        """The rows of a frame that was given."""
        key = name.lower()
        if key not in self._tables:
            self._tables[key] = arrow_table(*self._frames[key])
        return self._tables[key]


@dataclass(frozen=True)
class QuerySettings:
    """What the meaning of a statement depends on besides its text.

    - `zone`: the time zone of timestamps without an offset; `zone_name`: as Spark has it.
    - `reads_as_default`: whether quotes and literals mean what they mean in a session without settings of its own. If
      not, nothing is pushed into scans.
    - `session`: which branch of audited tables is read.
    - `case_sensitive`: whether names that differ in case are others (`spark.sql.caseSensitive`).
    - `shows_all`: whether `*` returns all columns that a scan has, metadata columns among them.
    - `is_ansi`: whether casts and arithmetic fail for values that do not fit (`spark.sql.ansi.enabled`).
    """

    zone: tzinfo = UTC
    zone_name: str = "UTC"
    is_ansi: bool = True
    case_sensitive: bool = False
    shows_all: bool = False
    reads_as_default: bool = True
    session: SessionSettings = NO_SESSION
