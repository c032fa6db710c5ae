"""Record the lines that the jobs in `tests/jobs` print with the JVM libraries.

    PYTHONPATH=FOLDER .venv-spark41/bin/python interop/record_jobs.py [--replace] [JOB ...]

FOLDER holds Delta's Python module: `pip install --no-deps --target FOLDER delta-spark==4.4.0`. A job without recorded
lines is recorded. For the others, the script prints how their lines differ from the recorded lines. So a second run
shows which jobs are not stable.
"""

from __future__ import annotations

import argparse
import difflib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGES = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,io.delta:delta-spark_4.1_2.13:4.4.0"
SETTINGS = (  # they save time, and no result depends on them
    "spark.ui.enabled=false",
    "spark.ui.showConsoleProgress=false",
    "spark.log.level=ERROR",
    "spark.databricks.delta.snapshotPartitions=1",
)
JOBS = Path(__file__).parent.parent / "tests" / "jobs"


def run_job(job: Path) -> list[str]:
    """Run a job with the JARs, in a process of its own and in a fresh folder.

    Sessions of one JVM are not independent: after a job with Delta's extension, a job without it failed in its rules.

    Returns:
        The lines that begin with `OUT `.

    Raises:
        RuntimeError: the job failed. The message is the end of its error output.
    """
    settings = " ".join(f"--conf {setting}" for setting in SETTINGS)
    environment = {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": f"--master local[2] {settings} --packages {PACKAGES} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
        "TZ": "UTC",
    }
    with tempfile.TemporaryDirectory(prefix=f"{job.stem}-") as folder:
        command = [sys.executable, str(job), f"{folder}/data"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    return [line for line in done.stdout.splitlines() if line.startswith("OUT ")]


def record(job: Path, replace: bool) -> bool:
    """Run a job; write its lines to `expected`, or compare them. Return False if the job failed or its lines differ."""
    recorded = JOBS / "expected" / f"{job.stem}.txt"
    try:
        lines = run_job(job)
    except RuntimeError as error:
        print(job.stem, "FAILED", error, sep="\n", flush=True)
        return False
    if replace or not recorded.exists():
        recorded.write_text("\n".join(lines) + "\n")
        print(job.stem, "recorded", flush=True)
        return True
    difference = list(
        difflib.unified_diff(recorded.read_text().splitlines(), lines, "recorded", "now", n=0, lineterm="")
    )
    print(job.stem, "DIFFERENT" if difference else "same", *difference, sep="\n", flush=True)
    return not difference


def main() -> int:
    """Record or compare the named jobs, or all. Return the number of jobs that failed or differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replace", action="store_true", help="record again the jobs that are recorded")
    parser.add_argument("jobs", nargs="*", help="beginnings of file names; default: all")
    options = parser.parse_args()
    jobs = [job for job in sorted(JOBS.glob("*.py")) if not options.jobs or job.name.startswith(tuple(options.jobs))]
    return sum(not record(job, options.replace) for job in jobs)


if __name__ == "__main__":
    sys.exit(main())
