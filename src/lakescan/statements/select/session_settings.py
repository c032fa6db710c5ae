"""Settings of the session in which a statement runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, tzinfo

from lakescan.options.session_settings import NO_SESSION, SessionSettings


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
