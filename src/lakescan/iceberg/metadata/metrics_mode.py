"""Metrics modes: which counts and bounds of a column are recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MODE = re.compile(r"(none|counts|full)|truncate\(\s*(\d+)\s*\)", re.IGNORECASE)


@dataclass(frozen=True)
class MetricsMode:
    """The metrics to write for a column: `name` is none, counts, truncate or full; `length` is for truncate."""

    name: str
    length: int | None = None

    @staticmethod
    def parse(text: str) -> MetricsMode | None:
        """Parse a property value; None for an invalid one, which Iceberg ignores."""
        match = _MODE.fullmatch(text.strip())
        if match is None or (match[2] is not None and int(match[2]) == 0):
            return None
        return MetricsMode("truncate", int(match[2])) if match[1] is None else MetricsMode(match[1].lower())

    @staticmethod
    def parse_strictly(text: str) -> MetricsMode:
        """Parse the value of a new table; raises `ValueError`."""
        if (mode := MetricsMode.parse(text)) is None:
            raise ValueError("none, counts, truncate(16) with a number of characters, or full")
        return mode


NO_METRICS, DEFAULT_METRICS = MetricsMode("none"), MetricsMode("truncate", 16)
