"""Session time zones: bounds for conversions between instants and wall-clock times.

All times are whole microseconds since 1970. Where clocks change, or where the time zone databases of Python and the JVM
may differ (before 1970), the bounds are wider than necessary, and never too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo

from lakescan.common.timestamps import as_zone

DAY = 86_400 * 10**6
EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_NEAR = 2 * DAY
_UTC_NAMES = ("UTC", "GMT", "Z", "Etc/UTC")


@dataclass(frozen=True)
class Zone:
    """A time zone, by the rules that Python has for it; `fixed` if its offset from UTC never changes."""

    rules: tzinfo
    fixed: bool

    @staticmethod
    def parse(name: str) -> Zone | None:
        """Return the zone for a Spark session time zone; None if Python may interpret the name differently."""
        if name in _UTC_NAMES:
            return Zone(UTC, True)
        try:
            rules = as_zone(name)
        except ValueError:
            return None
        fixed = isinstance(rules, timezone)
        # Java and Python may read abbreviations differently.
        return Zone(rules, fixed) if fixed or "/" in name else None

    @property
    def is_utc(self) -> bool:
        """Whether wall-clock time is UTC."""
        return self.rules is UTC

    def _offset(self, wall: int, fold: int) -> int:
        offset = plain_time(wall).replace(tzinfo=self.rules, fold=fold).utcoffset()
        assert offset is not None
        return offset // _MICROSECOND

    def _slack(self, wall: int) -> int:
        return DAY if not self.fixed and wall < DAY else 0

    def first(self, wall: int) -> int:
        """Return an instant before which all wall-clock times are earlier than `wall`."""
        return wall - max(self._offset(wall, 0), self._offset(wall, 1)) - self._slack(wall)

    def last(self, wall: int) -> int:
        """Return an instant after which all wall-clock times are later than `wall`.

        The wall-clock time of the instant itself is not earlier than `wall`.
        """
        return wall - min(self._offset(wall, 0), self._offset(wall, 1)) + self._slack(wall)

    def instant(self, wall: int) -> tuple[int, int]:
        """Return the instant of a wall-clock time (the first of two), and by how many microseconds Spark may differ."""
        before, after = self._offset(wall, 0), self._offset(wall, 1)
        return wall - before, DAY if before < after else self._slack(wall)

    def local(self, instant: int) -> int:
        """Return the wall-clock time of an instant."""
        shown = plain_time(instant).replace(tzinfo=UTC).astimezone(self.rules)
        return micros_of(shown.replace(tzinfo=None))

    def is_certain(self, instant: int, *, steady: bool) -> bool:
        """Return whether Spark is certain to have the same wall-clock time as `local` for an instant.

        With `steady`, also require that clocks do not change within two days of it.
        """
        first, last = self.walls(instant)
        return first == last or (not steady and not self._slack(self.local(instant)))

    def walls(self, instant: int) -> tuple[int, int]:
        """Return bounds of the wall-clock times that Spark may convert to an instant.

        Later instants have wall-clock times after the first bound, and earlier instants have times before the second
        bound.
        """
        wall = self.local(instant)
        near = {self.local(instant + by) - by for by in (-_NEAR, 0, _NEAR)}
        slack = DAY if len(near) > 1 else self._slack(wall)
        return wall - slack, wall + slack


def plain_time(micros: int) -> datetime:
    """Convert microseconds since 1970 to a `datetime` without a zone; raises `OverflowError` beyond years 1-9999."""
    return EPOCH + timedelta(microseconds=micros)


def micros_of(wall: datetime) -> int:
    """Convert a `datetime` without a zone to microseconds since 1970."""
    return (wall - EPOCH) // _MICROSECOND
