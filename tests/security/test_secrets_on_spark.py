"""Spark shows no secret: in plans, its UI, event log, checkpoints, stream progress, errors and log lines."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.secrets_on_spark import SECRET

pytestmark = pytest.mark.spark


def test_spark_shows_no_secret_of_options_and_catalogs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.secrets_on_spark", str(tmp_path)]
    run = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    for shown in ("RelationV2", "sources", "spark.eventLog.dir", "planDescription", "Execution"):
        assert shown in run.stdout, shown
    for refused in ("cannot be looked up", "sent to no other", "is for opening a table"):
        assert refused in run.stderr, refused
    for text in (run.stdout, run.stderr):
        assert SECRET not in text
    files = [each for each in tmp_path.rglob("*") if each.is_file()]
    assert any("checkpoint" in each.parts for each in files)
    assert any("events" in each.parts and each.stat().st_size > 50_000 for each in files)
    assert [each for each in files if SECRET.encode() in each.read_bytes()] == []
