"""Session time zones: what is known of the instants that have a wall-clock time, and the other way round.

All times are whole microseconds since 1970. Where clocks are changed, or the databases of Python and of the JVM may
differ (before 1970), the bounds are wider than the truth, and never narrower.
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
    """A time zone by what Python knows of it; `fixed` if it has one offset from UTC for ever."""

    rules: tzinfo
    fixed: bool

    @staticmethod
    def parse(name: str) -> Zone | None:
        """Return the zone that Spark's session calls so; None for a name that Python does not surely read alike."""
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
        """Whether wall-clock times are instants."""
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
        """Return an instant after which all wall-clock times are later than `wall`; at it, they are not earlier."""
        return wall - min(self._offset(wall, 0), self._offset(wall, 1)) + self._slack(wall)

    def instant(self, wall: int) -> tuple[int, int]:
        """Return the instant of a wall-clock time, the first of two, and by how much Spark's may differ from it."""
        before, after = self._offset(wall, 0), self._offset(wall, 1)
        return wall - before, DAY if before < after else self._slack(wall)

    def local(self, instant: int) -> int:
        """Return the wall-clock time of an instant."""
        shown = plain_time(instant).replace(tzinfo=UTC).astimezone(self.rules)
        return micros_of(shown.replace(tzinfo=None))

    def is_certain(self, instant: int, *, steady: bool) -> bool:
        """Return whether `local` is as in Spark; with `steady`, also whether clocks are not changed about then."""
        first, last = self.walls(instant)
        return first == last or (not steady and not self._slack(self.local(instant)))

    def walls(self, instant: int) -> tuple[int, int]:
        """Return bounds of the wall-clock times that Spark may convert to an instant.

        Later instants have wall-clock times after the first bound, earlier instants before the second.
        """
        wall = self.local(instant)
        near = {self.local(instant + by) - by for by in (-_NEAR, 0, _NEAR)}
        slack = DAY if len(near) > 1 else self._slack(wall)
        return wall - slack, wall + slack


def plain_time(micros: int) -> datetime:
    """Return microseconds since 1970 as a `datetime` without a zone; raises `OverflowError` outside of years 1-9999."""
    return EPOCH + timedelta(microseconds=micros)


def micros_of(wall: datetime) -> int:
    """Return a `datetime` without a zone as microseconds since 1970."""
    return (wall - EPOCH) // _MICROSECOND
