"""Decide whether a measure stays flat, by its median slope, which single peaks do not change."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Growth:
    """The growth of a measure over the judged time, and the allowed growth."""

    name: str
    grown: float
    allowed: float
    last: float

    @property
    def is_flat(self) -> bool:
        return self.grown <= self.allowed

    def __str__(self) -> str:
        verdict = "flat" if self.is_flat else "GROWS"
        return f"{self.name}: {verdict}, {self.grown:+.1f} (allowed {self.allowed:.1f}), {self.last:.1f} at the end"


def growth(name: str, seconds: Sequence[float], values: Sequence[float], allowed: float) -> Growth:
    """Return the growth of a measure by the median slope between all pairs of points (Theil-Sen).

    The first half warms up: caches fill, libraries are loaded, and the table reaches its steady state. The rest is
    judged in at most 60 medians, so that a peak counts once.
    """
    start = len(values) // 2
    times, levels = _medians(seconds[start:]), _medians(values[start:])
    if len(levels) < 3:
        raise ValueError(f"{name}: {len(values)} measurements are too few for a slope")
    pairs = combinations(range(len(levels)), 2)
    slope = statistics.median((levels[j] - levels[i]) / (times[j] - times[i]) for i, j in pairs)
    return Growth(name, slope * (times[-1] - times[0]), allowed, levels[-1])


def _medians(values: Sequence[float]) -> list[float]:
    size = max(1, len(values) // 60)
    return [statistics.median(values[at : at + size]) for at in range(0, len(values) - size + 1, size)]
