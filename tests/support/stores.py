"""Stores for tests, installed by `scripts/stores.sh`: a small HDFS, Azure's blobs."""

from __future__ import annotations

import os
import shutil
import socket
import time
from contextlib import closing
from pathlib import Path

import pytest

STORES = Path(os.environ.get("LAKESCAN_STORES") or Path(__file__).parents[2] / "build" / "stores")


def skip_without(*paths: Path | str) -> None:
    """Skip the tests if a file or a program is missing."""
    for each in paths:
        if not (each.exists() if isinstance(each, Path) else shutil.which(each)):
            pytest.skip(f"{each} is missing: run scripts/stores.sh")


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def await_port(port: int, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while True:
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < end, "the server does not start"
        time.sleep(0.2)
