"""Hadoop's own S3 client reads, in Spark's Parquet reader, the files that lakescan wrote; in a separate process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_tables_with_deletes_of_all_kinds_are_read_from_s3() -> None:
    """Needs JARs from Maven, as `interop` does."""
    pytest.importorskip("moto")
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    found = subprocess.run(
        [sys.executable, "-m", "tests.spark.s3a_session"],
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert found.stdout.strip().endswith("fine"), found.stdout[-3000:] + found.stderr[-5000:]
