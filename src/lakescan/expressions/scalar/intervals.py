"""Spark's types of intervals, which no column of a table has: they are numbers of microseconds, or of months, in DuckDB."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakescan.common import types as t


@dataclass(frozen=True)
class Interval(t.Type):
    """A type of intervals; Spark's narrower ones, such as INTERVAL HOUR, are the widest of their kind here."""

    name: str

    def arrow(self) -> pa.DataType:
        """Return the Arrow type of values: a duration in microseconds; one of months, or of both."""
        return pa.duration("us") if self.name == "interval day to second" else pa.month_day_nano_interval()

    def __str__(self) -> str:
        return self.name


DAY_TIME = Interval("interval day to second")
YEAR_MONTH = Interval("interval year to month")
CALENDAR = Interval("interval")
