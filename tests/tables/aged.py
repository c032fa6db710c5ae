"""Make files old, so that only references to them protect them from removal."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

LONG_AGO = datetime.now(UTC) - timedelta(days=400)


def make_old(folder: Path) -> None:
    """Make all files under a folder a year old."""
    for file in folder.rglob("*"):
        if file.is_file():
            os.utime(file, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))


def write_stray_files(*files: Path) -> None:
    """Write old files that no table references."""
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"left behind")
        os.utime(file, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))


def folder_of(location: str) -> Path:
    """Return a local location as a path."""
    return Path(location.removeprefix("file://"))
