"""Intervals of values, and functions whose preimage of an interval is an interval.

Numbers are `int` and `Fraction`. Dates and timestamps are microseconds since 1970, of the wall clock, or in UTC for
timestamps with a zone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from lakescan.expressions.inference.time_zones import DAY, Zone, micros_of, plain_time


@dataclass(frozen=True)
class ValueInterval:
    """The values between two bounds, which are included unless `low_open` or `high_open`; None means unbounded.

    `exact` is False if the interval may have more values than those that it stands for.
    """

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False
    exact: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether the interval contains no value."""
        if self.low is None or self.high is None:
            return False
        return self.low > self.high or (self.low == self.high and (self.low_open or self.high_open))

    @property
    def is_point(self) -> bool:
        """Whether the interval contains exactly one value."""
        return self.low is not None and self.low == self.high and not self.is_empty


EVERYTHING = ValueInterval(exact=False)
NOTHING = ValueInterval(0, 0, True, True)


class ChainStep(Protocol):
    """A function of one value. It is described by its preimage: the values that it maps into an interval of results."""

    def preimage(self, results: ValueInterval) -> ValueInterval:
        """Return an interval that contains all values whose results are in the given interval."""
        ...


@dataclass(frozen=True)
class Linear:
    """The function `factor * x + offset`, with a factor other than 0."""

    factor: Any = 1
    offset: Any = 0

    def preimage(self, results: ValueInterval) -> ValueInterval:
        """Return the interval of x; a negative factor exchanges the bounds."""
        low, high = (
            None if each is None else (each - self.offset) / self.factor for each in (results.low, results.high)
        )
        if self.factor > 0:
            return replace(results, low=low, high=high)
        return ValueInterval(high, low, results.high_open, results.low_open, results.exact)


@dataclass(frozen=True)
class TimeShift:
    """The function that adds `by` microseconds to a time."""

    by: int

    def preimage(self, results: ValueInterval) -> ValueInterval:
        """Return the interval of results moved back by the same time."""
        low, high = (None if each is None else each - self.by for each in (results.low, results.high))
        return replace(results, low=low, high=high)


@dataclass(frozen=True)
class WholeQuotient:
    """The function that divides a number by `divisor`, and rounds towards zero, or down with `floor`."""

    divisor: int = 1
    floor: bool = False

    def preimage(self, results: ValueInterval) -> ValueInterval:
        """Return the interval of the dividends whose quotients are in the interval."""
        low = high = None
        low_open = high_open = False
        if results.low is not None:
            least = math.floor(results.low) + 1 if results.low_open else math.ceil(results.low)
            low_open = least <= 0 and not self.floor
            low = (least - 1 if low_open else least) * self.divisor
        if results.high is not None:
            most = math.ceil(results.high) - 1 if results.high_open else math.floor(results.high)
            high_open = most >= 0 or self.floor
            high = (most + 1 if high_open else most) * self.divisor
        return ValueInterval(low, high, low_open, high_open, results.exact)


@dataclass(frozen=True)
class StartOf:
    """The function that returns the start of the year, month, week, day, ... (`unit`) of a wall-clock time."""

    unit: str

    def preimage(self, results: ValueInterval) -> ValueInterval:
        """Return the times of all units whose starts are in the interval."""
        low = high = None
        if results.low is not None:
            low = self._following(results.low, results.low_open)
        if results.high is not None:
            high = self._following(results.high, not results.high_open)
        return ValueInterval(low, high, False, high is not None, results.exact)

    def _following(self, wall: int, after: bool) -> int:
        """Return the start of the first unit that begins at or after a time, or strictly after it with `after`."""
        begin = start_of(self.unit, wall)
        return begin if begin == wall and not after else _next(self.unit, begin)


@dataclass(frozen=True)
class YearOf:
    """The function that returns the year of a wall-clock time."""

    def preimage(self, results: ValueInterval) -> ValueInterval:
        """Return the times of all years in the interval; raises `ValueError` beyond the years 1 to 9999."""
        years = WholeQuotient(floor=True).preimage(results)
        low, high = (None if each is None else micros_of(datetime(int(each), 1, 1)) for each in (years.low, years.high))
        return replace(years, low=low, high=high)


@dataclass(frozen=True)
class WallOf:
    """The function that converts an instant to wall-clock time in a time zone."""

    zone: Zone

    def preimage(self, results: ValueInterval) -> ValueInterval:
        """Return the interval of instants; it has extra instants where clocks change."""
        low = None if results.low is None else self.zone.first(results.low)
        high = None if results.high is None else self.zone.last(results.high)
        fixed = self.zone.fixed
        return ValueInterval(low, high, results.low_open and fixed, results.high_open, results.exact and fixed)


@dataclass(frozen=True)
class InstantOf:
    """The function that converts wall-clock time in a time zone to an instant."""

    zone: Zone

    def preimage(self, results: ValueInterval) -> ValueInterval:
        """Return the interval of wall-clock times; it has extra times where clocks change."""
        low, low_open, high, high_open = None, False, None, False
        if results.low is not None:
            low, latest = self.zone.walls(results.low)
            low_open = results.low_open and low == latest
        if results.high is not None:
            earliest, high = self.zone.walls(results.high)
            high_open = results.high_open and high == earliest
        return ValueInterval(low, high, low_open, high_open, results.exact and self.zone.fixed)


_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_LENGTHS = {"microsecond": 1, "millisecond": 10**3, "second": 10**6, "minute": 60 * 10**6, "hour": 3600 * 10**6}
_LENGTHS |= {"day": DAY, "week": 7 * DAY}
_FIRST_MONDAY = 4 * DAY
UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    **dict.fromkeys(("day", "dd"), "day"),
    **{each: each for each in ("quarter", "week", "hour", "minute", "second", "millisecond", "microsecond")},
}
DATE_UNITS = ("year", "quarter", "month", "week")  # units that `trunc` accepts


def start_of(unit: str, wall: int) -> int:
    """Return the start of the unit (a value of `UNITS`) that contains a wall-clock time in microseconds since 1970."""
    if (months := _MONTHS.get(unit)) is not None:
        day = plain_time(wall)
        return micros_of(datetime(day.year, (day.month - 1) // months * months + 1, 1))
    since = _FIRST_MONDAY if unit == "week" else 0
    return wall - (wall - since) % _LENGTHS[unit]


def _next(unit: str, start: int) -> int:
    if (months := _MONTHS.get(unit)) is not None:
        return start_of(unit, start + (31 * months + 1) * DAY)
    return start + _LENGTHS[unit]
