"""What stands for stores in tests, as `scripts/stores.sh` gets it: a small HDFS, Google's storage, Azure's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

STORES = Path(os.environ.get("LAKESCAN_STORES") or Path(__file__).parents[2] / "build" / "stores")


def needed(*paths: Path | str) -> None:
    """Skip the tests if a file or a program is not there."""
    for each in paths:
        if not (each.exists() if isinstance(each, Path) else shutil.which(each)):
            pytest.skip(f"{each} is not there: run scripts/stores.sh")
