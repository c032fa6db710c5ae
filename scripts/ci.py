"""Run all parts of CI, the most informative ones first, within a time limit.

The first parts always run, until the last minute. Each other part runs if the remaining time is enough for it on this
machine. A part that was left out or cut short is reported as not run, never as passed. Any failure fails the run.
Failed tests run again on their own, because tests that wait for a process may fail on a busy machine. At the end, the
last lines of each failed part are repeated, and the last line counts the tests of all parts.

    CI_MINUTES=48 CI_LAST_MINUTE=78 python3 scripts/ci.py
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import IO

PYTEST = ("-m", "pytest", "-q", "--hypothesis-profile=ci")
TWO_AT_A_TIME = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
FAILED_TESTS, NO_TESTS = 1, 5  # pytest's exit codes: all tests ran and some failed; none ran
MOST_REPEATED, REPEAT_SECONDS = 10, 600
LAST_LINES = 30  # to repeat of a failed part
_SUMMARY = re.compile(r"(?:=+ )?(?:\d+ [a-z]+, )*\d+ [a-z]+ in \d[\d.]*s\b")  # pytest's last line


@dataclass(frozen=True)
class Part:
    """One command. `minutes` is its time on two idle cores; `tests` marks pytest runs, whose failures are repeated."""

    name: str
    minutes: float
    command: tuple[str, ...]
    always: bool = False
    tests: bool = False


def _tests(name: str, minutes: float, *selection: str, always: bool = False, environment: str = ".venv") -> Part:
    return Part(name, minutes, (f"{environment}/bin/python", *PYTEST, *selection), always, tests=True)


PARTS = (
    Part("lint", 1.5, ("make", "lint"), always=True),
    Part(
        "simulation",
        3,
        (".venv/bin/python", "-m", "tests.simulation", "--seeds", "1000", "--processes", "2"),
        always=True,
    ),
    _tests("tests without Spark", 20, "-m", "not spark and not slow", always=True),
    _tests(
        "Spark, the main paths",
        4,
        "-m",
        "not slow",
        "tests/spark/test_smoke.py",
        "tests/spark/test_one_state.py",
        "tests/spark/test_row_changes.py",
        "tests/spark/test_statements.py",
        always=True,
    ),
    _tests("Spark: streams and writes", 5, "-m", "spark and not slow", "tests/tables", "tests/api/streams"),
    _tests("Spark: reading", 15, "-m", "spark and not slow", "--ignore=tests/tables", "--ignore=tests/api/streams"),
    Part("the wheel", 4, ("make", "test-wheel")),
    Part("the site", 1.5, ("make", "site")),
    Part("the soak, shortened", 2, (".venv/bin/python", "-m", "tests.soak", "--minutes", "1.5")),
    Part("PySpark 4.1", 2, ("make", "smoke-4.1")),
    Part("Sail", 2, ("make", "smoke-sail")),
    _tests("the JVM's readers and writers", 28, "interop", environment=".venv-spark41"),
    _tests("faults, kills, laws and TPC", 26, "-m", "slow"),
)


def main() -> int:
    """Run the parts and return the exit code."""
    began = time.monotonic()
    limit = 60 * float(os.environ.get("CI_MINUTES", "48"))
    end = 60 * float(os.environ.get("CI_LAST_MINUTE", "78"))
    expected, failed, left_out = 0.0, dict[str, deque[str]](), []
    tests: Counter[str] = Counter()
    for part in PARTS:
        elapsed = time.monotonic() - began
        slowness = max(1.0, elapsed / (60 * expected)) if expected else 1.0
        if not part.always and elapsed + 60 * part.minutes * slowness > limit:
            left_out.append(f"{part.name}: not run, it takes about {part.minutes * slowness:.0f} minutes here")
            continue
        say(f"{part.name} (after {elapsed / 60:.0f} minutes)")
        last = deque[str](maxlen=LAST_LINES)
        passed = run(part, max(60.0, (end if part.always else limit) - elapsed), tests, last)
        if passed is None:
            left_out.append(f"{part.name}: not run to the end, its time was over")
        elif not passed:
            failed[part.name] = last
            tests["failed"] += not part.tests
        expected += part.minutes
    for name, last in failed.items():
        say(f"{name}: its last lines")
        print("\n".join(last), flush=True)
    say(f"the end, after {(time.monotonic() - began) / 60:.0f} minutes")
    for line in (*left_out, *(f"{name}: FAILED" for name in failed)):
        print(line, flush=True)
    print(f"{tests['passed']} passed, {tests['failed']} failed, {tests['skipped']} skipped", flush=True)
    return 1 if failed else 0


def run(part: Part, seconds: float, tests: Counter[str], last: deque[str]) -> bool | None:
    """Return whether the part passed; None if its time ended before anything failed.

    Adds its tests to the counts, and its lines to the last ones.
    """
    code, counts = call((*part.command, *TWO_AT_A_TIME) if part.tests else part.command, seconds, last)
    if not part.tests or code not in (None, FAILED_TESTS):
        if part.tests:
            tests.update(counts)
            tests["failed"] += code != 0 and not counts["failed"]
        return None if code is None else code == 0
    say(f"{part.name}: once more, alone, what failed")
    again = ("--last-failed", "--last-failed-no-failures=none", f"--maxfail={MOST_REPEATED}")
    repeated, repeated_counts = call((*part.command, *again), REPEAT_SECONDS, last)
    if repeated not in (0, NO_TESTS):
        tests.update(counts)
        tests["failed"] += not counts["failed"]
        return False
    tests.update({"passed": counts["passed"] + repeated_counts["passed"], "skipped": counts["skipped"]})
    return None if code is None else True


def call(command: tuple[str, ...], seconds: float, last: deque[str]) -> tuple[int | None, Counter[str]]:
    """Run a command, print its output as it arrives, and add its lines to the last ones.

    Returns:
        The exit code, None if the command was ended for its time; and how many tests passed, failed and were skipped,
        by the summary of pytest. Errors count as failed.
    """
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    counts: Counter[str] = Counter()
    printing = threading.Thread(target=print_and_count, args=(process.stdout, counts, last))
    printing.start()
    try:
        code: int | None = process.wait(seconds)
    except subprocess.TimeoutExpired:
        code = None
        process.send_signal(signal.SIGINT)  # pytest reports and records the failures so far
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
    with contextlib.suppress(ProcessLookupError):  # all processes have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    printing.join(10)
    return code, counts


def print_and_count(output: IO[bytes], counts: Counter[str], last: deque[str]) -> None:
    """Print lines, keep the last ones, and read the counts from pytest's summary."""
    for line in iter(output.readline, b""):
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        text = line.decode(errors="replace").strip()
        last.append(text)
        if _SUMMARY.match(text):
            for number, what in re.findall(r"(\d+) (passed|failed|skipped|error)", text):
                counts["failed" if what == "error" else what] += int(number)


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n=== {text} ===", flush=True)


if __name__ == "__main__":
    sys.exit(main())
