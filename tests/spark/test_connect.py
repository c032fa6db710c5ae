"""Spark Connect: the same, through public session calls only. In a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_tables_are_read_on_a_connect_session(shop) -> None:
    script = Path(__file__).parent / "connect_session.py"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_GATEWAY"))}
    found = subprocess.run(
        [sys.executable, str(script), shop.orders, shop.customers],
        capture_output=True,
        text=True,
        timeout=300,
        env={**environment, "PYSPARK_PYTHON": sys.executable},
        check=False,
    )
    assert found.stdout.strip().endswith("fine"), found.stdout + found.stderr[-3000:]
