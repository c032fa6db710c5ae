"""Spark's types of intervals, which no column of a table has: DuckDB has them as numbers of microseconds or months."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lakescan.common import types as t

UNITS = ("year", "month", "day", "hour", "minute", "second")


@dataclass(frozen=True)
class Interval(t.Type):
    """Intervals from a unit to a unit: of years and months, or of days to seconds."""

    first: str
    last: str

    @property
    def has_months(self) -> bool:
        """Whether it is one of years and months."""
        return self.first in UNITS[:2]

    def arrow(self) -> pa.DataType:
        """Return the Arrow type of values: a duration in microseconds; one of months."""
        return pa.month_day_nano_interval() if self.has_months else pa.duration("us")

    def __str__(self) -> str:
        return f"interval {self.first}" if self.first == self.last else f"interval {self.first} to {self.last}"


DAY_TIME = Interval("day", "second")
YEAR_MONTH = Interval("year", "month")


def widest(left: t.Type, right: t.Type) -> Interval | None:
    """Return the type that holds the intervals of two; None for other types, and for months with days."""
    if not isinstance(left, Interval) or not isinstance(right, Interval) or left.has_months != right.has_months:
        return None
    places = [UNITS.index(each) for each in (left.first, left.last, right.first, right.last)]
    return Interval(UNITS[min(places)], UNITS[max(places)])
