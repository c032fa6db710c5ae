"""Record the lines that the jobs in `tests/jobs` print with the JVM libraries.

    PYTHONPATH=FOLDER .venv-spark41/bin/python interop/record_jobs.py [--replace] [JOB ...]

FOLDER holds Delta's Python module: `pip install --no-deps --target FOLDER delta-spark==4.4.0`. All jobs run in one
process, each with a session of its own and in a fresh folder. A job without recorded lines is recorded. For the others,
the script prints how their lines differ from the recorded lines. So a second run shows which jobs are not stable.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import io
import os
import runpy
import sys
import tempfile
import time
import traceback
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
    """Run a job with the JARs in a fresh folder, and stop its session.

    Returns:
        The lines that begin with `OUT `.

    Raises:
        Exception: the error that ended the job.
    """
    from pyspark.sql import SparkSession

    printed = io.StringIO()
    before, arguments = os.getcwd(), sys.argv
    with tempfile.TemporaryDirectory(prefix=f"{job.stem}-") as folder:
        os.chdir(folder)
        sys.argv = [str(job), f"{folder}/data"]
        try:
            with contextlib.redirect_stdout(printed):
                runpy.run_path(str(job), run_name="__main__")
        finally:
            os.chdir(before)
            sys.argv = arguments
            if (session := SparkSession.getActiveSession()) is not None:
                session.stop()
    return [line for line in printed.getvalue().splitlines() if line.startswith("OUT ")]


def record(job: Path, replace: bool) -> bool:
    """Run a job; write its lines to `expected`, or compare them. Return False if the job failed or its lines differ."""
    recorded = JOBS / "expected" / f"{job.stem}.txt"
    try:
        lines = run_job(job)
    except Exception:
        traceback.print_exc()
        print(job.stem, "FAILED", flush=True)
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
    settings = " ".join(f"--conf {setting}" for setting in SETTINGS)
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--master local[2] {settings} --packages {PACKAGES} pyspark-shell"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["TZ"] = "UTC"
    time.tzset()
    jobs = [job for job in sorted(JOBS.glob("*.py")) if not options.jobs or job.name.startswith(tuple(options.jobs))]
    return sum(not record(job, options.replace) for job in jobs)


if __name__ == "__main__":
    sys.exit(main())
