"""Enabled sessions of Spark Connect, each in a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.spark.test_connect import run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_job_runs_on_an_enabled_connect_session(tmp_path: Path) -> None:
    script = Path(__file__).parent / "connect_jobs.py"
    path = os.pathsep.join([str(script.parents[3]), os.environ.get("PYTHONPATH", "")])
    found = run([str(script), str(tmp_path)], PYSPARK_PYTHON=sys.executable, PYTHONPATH=path)
    assert found.stdout.strip().endswith("fine"), found.stdout + found.stderr[-3000:]
