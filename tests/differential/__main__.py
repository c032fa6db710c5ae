"""Run the laws that compare two ways to compute one answer, repeatedly with new seeds.

python -m tests.differential --minutes 30 all laws in process, in rounds until the time is over python -m
tests.differential --minutes 30 --spark those on Spark, too python -m tests.differential --seed 17 --rounds 1 one round
again

Each round prints its seed first. A share of each round reads the damaged tables of `tests.fuzz` with the same seed.
pytest prints the failures; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import argparse
import random
import re
import secrets
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The pairs and the test files with their laws.
LAWS = {
    "statements and queries, DuckDB's rows": ("tests/differential", "tests/statements/rows/test_laws.py"),
    "what scans are told of a query, whole tables": ("tests/statements/select/test_pushdown_law.py",),
    "filters on files and statistics, all rows": (
        "tests/iceberg/test_filters.py",
        "tests/planning/test_prune.py",
        "tests/planning/test_statistics_law.py",
        "tests/expressions",
        "tests/reading/test_tested_first.py",
    ),
    "streams, batches": ("tests/api/streams/test_follow.py",),
    "changes, states": ("tests/api/streams/test_changes.py", "tests/delta/test_change_feed.py"),
    "commits, checkpoints and caches, the log replayed": (
        "tests/delta/test_replay.py",
        "tests/delta/test_checkpoints_written.py",
        "tests/delta/test_known_states.py",
        "tests/iceberg/test_known_metadata.py",
        "tests/common/test_cache.py",
    ),
    "writers that meet, writers in turn": (
        "tests/tables/test_laws.py",
        "tests/tables/test_histories.py",
        "tests/tables/test_compact_laws.py",
        "tests/iceberg/test_serial_commits.py",
    ),
}
ON_SPARK = ("tests/spark/test_sql_law.py", "tests/spark/test_row_changes.py", "tests/spark/test_histories.py")
_COUNT = re.compile(r"(\d+) (passed|failed|error)")


def main() -> int:
    """Run rounds and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=0, help="at most so many; 0 for no end but the time's")
    parser.add_argument("--seed", type=int, help="the first round's; by default drawn")
    parser.add_argument("--fuzz", type=int, default=100, help="damaged tables a round")
    parser.add_argument("--spark", action="store_true")
    given = parser.parse_args()
    end, number = time.monotonic() + 60 * given.minutes, 0
    totals = {"passed": 0, "failed": 0, "error": 0}
    while time.monotonic() < end and (not given.rounds or number < given.rounds):
        seed = given.seed + number if given.seed is not None else secrets.randbelow(1 << 32)
        number += 1
        print(f"round {number}: --seed {seed}", flush=True)
        paths = [path for files in LAWS.values() for path in files] + list(ON_SPARK if given.spark else ())
        random.Random(seed).shuffle(paths)  # the last round is cut short, each time at another law
        for path in paths:
            if time.monotonic() >= end:
                break
            for word, count in _laws(path, seed, end - time.monotonic(), spark=given.spark).items():
                totals[word] += count
        if given.fuzz and time.monotonic() < end:
            command = ("-m", "tests.fuzz", "--seed", str(seed), "--cases", str(given.fuzz))
            totals["failed"] += bool(subprocess.run([sys.executable, *command], cwd=ROOT, check=False).returncode)
    told = ", ".join(f"{count} {word}" for word, count in totals.items())
    print(f"{number} rounds: {told} (laws, each of many examples)", flush=True)
    if not totals["passed"]:
        print("no law ran to its end: nothing is shown; give it more --minutes", flush=True)
    return exit_code(totals)


def cut_short(marks: bytes) -> dict[str, int]:
    """Count the marks that pytest printed until it was killed: one character for each finished law."""
    return {"passed": marks.count(b"."), "failed": marks.count(b"F"), "error": marks.count(b"E")}


def exit_code(totals: dict[str, int]) -> int:
    """Return 1 if something failed or nothing ran."""
    return 1 if totals["failed"] + totals["error"] or not totals["passed"] else 0


def _laws(path: str, seed: int, seconds: float, *, spark: bool) -> dict[str, int]:
    """Count the laws of a path that passed and failed with a seed; print pytest's output if any failed."""
    options = ("-q", "-p", "no:cacheprovider", "--hypothesis-profile=differential", f"--hypothesis-seed={seed}")
    chosen = () if spark else ("-m", "not spark")
    command = [sys.executable, "-m", "pytest", *options, *chosen, path]
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        marks = b"" if error.stdout is None else error.stdout
        found = cut_short(marks)
        told = ", ".join(f"{count} {word}" for word, count in found.items())
        print(f"  {path}: {told} until the time was over", flush=True)
        if found["failed"] + found["error"]:
            print(marks.decode(errors="replace"), flush=True)
        return found
    found = dict.fromkeys(("passed", "failed", "error"), 0)
    for count, word in _COUNT.findall(run.stdout.strip().rpartition("\n")[2]):
        found[word] = int(count)
    if run.returncode:  # also 5: the path no longer has tests
        found["error"] += not found["failed"] + found["error"]
        print(run.stdout, run.stderr, sep="\n", flush=True)
    summary = ", ".join(f"{count} {word}" for word, count in found.items() if count)
    print(f"  {path}: {summary or 'no laws'}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
