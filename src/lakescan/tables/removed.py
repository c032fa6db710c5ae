"""Data files that a commit removes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RemovedFile:
    """A data file to remove: its location, its partition values, its size in bytes."""

    location: str
    partition: Mapping[str, Any]
    size: int
