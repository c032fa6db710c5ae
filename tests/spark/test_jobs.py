"""Jobs written for the JARs print the same lines with `lakescan run` as with the JVM libraries.

`interop/record_jobs.py` records the expected lines. Do not edit them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOBS = Path(__file__).parent.parent / "jobs"


def printed_lines(job: Path, folder: Path) -> list[str]:
    """Run a job without the JARs, and return its lines that begin with `OUT `."""
    environment = {key: value for key, value in os.environ.items() if key != "PYSPARK_SUBMIT_ARGS"}
    done = subprocess.run(
        [sys.executable, "-m", "lakescan", "run", str(job), str(folder / "data")],
        cwd=folder,
        env={**environment, "TZ": "UTC", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [line for line in done.stdout.splitlines() if line.startswith("OUT ")]


# Jobs whose lines are known to differ in some places, and where.
DIFFERENT = {
    "06_delta_api": "the class of one error",
    "07_delta_change_feed": "empty micro-batches, how often a batch is read, and names of sources",
    "08_delta_schema_rules": "a column without a type, and conditions of errors",
    "11_cdc_stream": "a stream reads over an overwrite",
}


def _jobs() -> list[Any]:
    found = []
    for path in sorted(JOBS.glob("expected/*.txt")):
        reason = DIFFERENT.get(path.stem)
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=False)]
        found.append(pytest.param(path, id=path.stem, marks=marks))
    return found


@pytest.mark.parametrize("recorded", _jobs())
def test_a_job_prints_the_lines_of_the_jvm(recorded: Path, tmp_path: Path) -> None:
    assert printed_lines(JOBS / f"{recorded.stem}.py", tmp_path) == recorded.read_text().splitlines()
