"""Frames, temporary views and settings that a statement can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.errors import InvalidOption
from lakescan.options.session_settings import NO_SESSION, SessionSettings
from lakescan.tables.rows import convert_pandas, open_arrow_stream

if TYPE_CHECKING:
    from lakescan.catalogs.views import StoredView


class SessionNames:
    """The engine's own tables, views and frames, by short name. This base class has no names."""

    def has(self, name: str) -> bool:
        """Return whether the engine has a table, view or frame of this name."""
        return False

    def has_catalog(self, name: str) -> bool:
        """Return whether the engine resolves names of several parts that begin with this one."""
        return False

    def full_name(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the full name of a lakescan table in the engine's own catalog; None for any other name."""
        return None

    def columns(self, name: str) -> Sequence[str] | None:
        """Return the column names of a table, view or frame; None if they are unknown."""
        return None

    @property
    def has_queries(self) -> bool:
        """Whether `query` may return a query for some name."""
        return False

    def query(self, name: str) -> str | None:
        """Return the query or table name that a view's name stands for; None for other names."""
        return None

    def stored_view(self, names: tuple[str, ...]) -> StoredView | None:
        """Return a persistent view of the engine's own catalog that reads lakescan's tables; None for other names."""
        return None

    def frame_names(self) -> Sequence[str]:
        """Return the names of frames, in lower case."""
        return ()

    def rows(self, name: str) -> pa.Table | None:
        """Return the rows of a frame if they are in memory; otherwise None."""
        return None


def arrow_table(name: str, frame: Any) -> pa.Table:
    """Convert Arrow, pandas, Polars, DuckDB or Spark data to an Arrow table.

    Raises `InvalidOption` for an object of another type. `name` is used in the message.
    """
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
        f"{name}={type(frame).__name__} holds no rows: pass a table, a scan, or Arrow, pandas, Polars or DuckDB data"
    )


def may_have_rounded(frames: Mapping[str, Any]) -> bool:
    """Return whether a frame comes from a library that may store integers as floats, as pandas does with nulls.

    Lakescan's tables and scans have the types of their table, and Spark's frames the types of Spark. All other data
    counts.
    """
    return any(
        isinstance(each, pa.Table | pa.RecordBatch) or not type(each).__module__.startswith(("lakescan", "pyspark"))
        for each in frames.values()
    )


class GivenFrames(SessionNames):
    """Frames that the user passed by name, which ignores case. They are converted to Arrow once, when first needed."""

    def __init__(self, frames: Mapping[str, Any]) -> None:
        self._frames = {name.lower(): (name, frame) for name, frame in frames.items()}
        self._tables: dict[str, pa.Table] = {}

    def has(self, name: str) -> bool:
        """Return whether a frame of that name was passed."""
        return name.lower() in self._frames

    def columns(self, name: str) -> Sequence[str] | None:
        """Return the column names of a frame; None if no frame has this name."""
        rows = self.rows(name)
        return None if rows is None else rows.column_names

    def rows(self, name: str) -> pa.Table | None:
        """Return the rows of a frame; None if no frame has this name."""
        return self.table(name) if name.lower() in self._frames else None

    def table(self, name: str) -> pa.Table:
        """Return the rows of a frame, which must exist."""
        key = name.lower()
        if key not in self._tables:
            self._tables[key] = arrow_table(*self._frames[key])
        return self._tables[key]


@dataclass(frozen=True)
class QuerySettings:
    """The settings that the meaning of a statement depends on.

    - `zone`: the time zone of timestamps without an offset. `zone_name`: its name in Spark.
    - `reads_as_default`: whether quotes and literals mean the same as in a session with default settings. If not,
      nothing is pushed into scans.
    - `session`: the session's settings, such as the branch that write-audit-publish reads.
    - `case_sensitive`: whether names that differ only in case are different (`spark.sql.caseSensitive`).
    - `shows_all`: whether `*` returns all columns of a scan, including metadata columns.
    - `is_ansi`: whether casts and arithmetic fail for values that do not fit (`spark.sql.ansi.enabled`).
    """

    zone: tzinfo = UTC
    zone_name: str = "UTC"
    is_ansi: bool = True
    case_sensitive: bool = False
    shows_all: bool = False
    reads_as_default: bool = True
    session: SessionSettings = NO_SESSION
