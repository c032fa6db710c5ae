"""Tables for tests of versions: created by one commit, and filled by the next."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

import lakescan


def save_in_two_commits(rows: pa.Table, location: Path | str, **options: Any) -> lakescan.WriteResult:
    """Save rows; a new table is version 0 without rows, and version 1 with them."""
    if not (Path(location) / "_delta_log").exists():
        lakescan.save(rows.slice(0, 0), location, **options)
        options = {"mode": "append"}
    return lakescan.save(rows, location, **options)
