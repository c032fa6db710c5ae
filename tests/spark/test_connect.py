"""Spark Connect, tested through public session calls in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_tables_are_read_on_a_connect_session(shop) -> None:
    found = run_script("connect_session.py", shop.orders, shop.customers)
    assert found.stdout.strip().endswith("fine"), found.stdout + found.stderr[-3000:]


@pytest.mark.parametrize("script", ["connect_reads.py", "connect_totals.py", "connect_law.py"])
def test_reads_on_a_connect_session_are_replaced(tmp_path: Path, script: str) -> None:
    """By Spark's own reader of the needed files, or by values from metadata, with the same rows."""
    found = run_script(script, str(tmp_path))
    assert found.stdout.strip().endswith("fine"), found.stdout + found.stderr[-3000:]


_WRONG_PYTHON = """
import lakescan, lakescan.spark
from pyspark.sql import SparkSession
spark = SparkSession.builder.remote("local[1]").getOrCreate()
line = next(check for check in lakescan.doctor(spark).checks if check.subject == "executors")
assert not line.ok and "start the server with PYSPARK_PYTHON=" in line.advice, line
try:
    lakescan.spark.register(spark)
except lakescan.MissingDependency as error:
    print("refused:", error)
spark.stop()
"""


def test_a_server_whose_python_cannot_read_is_refused_in_one_line(tmp_path: Path) -> None:
    """The server was started before this process could choose its Python."""
    (tmp_path / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # nothing is installed there
    (tmp_path / "python3").chmod(0o755)
    found = run(["-c", _WRONG_PYTHON], PATH=f"{tmp_path}:{os.environ['PATH']}")
    (line,) = [line for line in found.stdout.splitlines() if line.startswith("refused:")]
    assert f"start the server with PYSPARK_PYTHON={sys.executable}" in line
    assert len(line) < 500


def run_script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of this folder, which may import tests, in a separate process."""
    script = Path(__file__).parent / name
    path = os.pathsep.join([str(script.parents[2]), os.environ.get("PYTHONPATH", "")])
    return run([str(script), *arguments], PYSPARK_PYTHON=sys.executable, PYTHONPATH=path)


def run(arguments: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a separate process whose Connect server uses a free port, which PySpark does only with SPARK_TESTING."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=900,
        env={**environment, "SPARK_TESTING": "1", **variables},
        check=False,
    )
