"""Run the parts of a set, the most informative ones first, and end with a line that counts all tests.

    python3 scripts/ci.py [push|tests|all]

`push` is `make test`: the tests to run before a push. `tests` is `make test-all`: every test. `all` is CI (`.ci/run`):
also lint, the wheel, the site and the smoke tests. Failed tests run again on their own, because tests that wait for a
process may fail on a busy machine. At the end, the last lines of each failed part are repeated. A part that would not
end before the minute CI_LAST_MINUTE (80 by default, as CI stops after 90) is listed as skipped, never as passed.
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
# Three processes on two cores: many tests wait for a server, a process or Spark.
THREE_AT_A_TIME = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
FAILED_TESTS, NO_TESTS = 1, 5  # pytest's exit codes: all tests ran and some failed; none ran
MOST_REPEATED, REPEAT_SECONDS = 10, 600
LAST_LINES = 30  # to repeat of a failed part
_SUMMARY = re.compile(r"(?:=+ )?(?:\d+ [a-z]+, )*\d+ [a-z]+ in \d[\d.]*s\b")  # pytest's last line


@dataclass(frozen=True)
class Part:
    """One command. `minutes` is its time on two idle cores; `is_pytest` marks pytest runs, whose failures are repeated.

    `sets` are the smaller sets that the part belongs to; all parts are in `all`.
    """

    name: str
    minutes: float
    command: tuple[str, ...]
    sets: tuple[str, ...] = ()
    is_pytest: bool = False


def _tests(name: str, minutes: float, *selection: str, sets: str = "tests", environment: str = ".venv") -> Part:
    command = (f"{environment}/bin/python", *PYTEST, *selection)
    return Part(name, minutes, command, tuple(sets.split()), is_pytest=True)


_MAIN = tuple(f"tests/spark/test_{each}.py" for each in ("smoke", "one_state", "row_changes", "statements"))
_REST = tuple(f"--ignore={each}" for each in ("tests/tables", "tests/api/streams", *_MAIN))
PARTS = (
    Part("lint", 1.5, ("make", "lint")),
    Part("simulation", 3, (".venv/bin/python", "-m", "tests.simulation", "--seeds", "1000", "--processes", "2")),
    _tests("tests without Spark", 12, "-m", "not spark and not slow", sets="push tests"),
    _tests("Spark: main paths", 3, "-m", "not slow", *_MAIN, sets="push tests"),
    _tests("Spark: streams and writes", 4, "-m", "spark and not slow", "tests/tables", "tests/api/streams"),
    _tests("Spark: reading", 12, "-m", "spark and not slow", *_REST),
    Part("the wheel", 4, ("make", "test-wheel")),
    Part("the site", 1.5, ("make", "site")),
    Part("a short soak", 2, (".venv/bin/python", "-m", "tests.soak", "--minutes", "1.5")),
    Part("PySpark 4.1", 2, ("make", "smoke-4.1"), ("tests",)),
    Part("Sail", 2, ("make", "smoke-sail")),
    _tests("faults, kills, laws and TPC", 20, "-m", "slow"),
    _tests("JVM readers and writers", 28, "interop", environment=".venv-spark41"),
)


def main(chosen: str = "all") -> int:
    """Run the parts of a set and return the exit code."""
    if chosen not in ("push", "tests", "all"):
        print(f"there is no set {chosen!r}: push, tests or all", file=sys.stderr)
        return 2
    began = time.monotonic()
    end = 60 * float(os.environ.get("CI_LAST_MINUTE", "80"))
    failed, skipped = dict[str, deque[str]](), []
    tests: Counter[str] = Counter()
    for part in PARTS:
        if chosen != "all" and chosen not in part.sets:
            continue
        elapsed = time.monotonic() - began
        if elapsed + 60 * part.minutes > end:
            skipped.append(f"{part.name}: skipped, it takes {part.minutes:g} minutes, and the limit is near")
            continue
        say(f"{part.name} (after {elapsed / 60:.0f} minutes)")
        last = deque[str](maxlen=LAST_LINES)
        passed = run(part, max(60.0, end - elapsed), tests, last)
        if passed is None:
            skipped.append(f"{part.name}: skipped before its end, at the time limit")
        elif not passed:
            failed[part.name] = last
            tests["failed"] += not part.is_pytest
    for name, last in failed.items():
        say(f"{name}: its last lines")
        print("\n".join(last), flush=True)
    say(f"the end, after {(time.monotonic() - began) / 60:.0f} minutes")
    for line in (*skipped, *(f"{name}: FAILED" for name in failed)):
        print(line, flush=True)
    print(f"{tests['passed']} passed, {tests['failed']} failed, {tests['skipped']} skipped", flush=True)
    return 1 if failed else 0


def run(part: Part, seconds: float, tests: Counter[str], last: deque[str]) -> bool | None:
    """Return whether the part passed; None if its time ended before anything failed.

    Adds its tests to the counts, and its lines to the last ones.
    """
    began = time.monotonic()
    code, counts = call((*part.command, *THREE_AT_A_TIME) if part.is_pytest else part.command, seconds, last)
    if not part.is_pytest or code not in (None, FAILED_TESTS):
        if part.is_pytest:
            tests.update(counts)
            tests["failed"] += code != 0 and not counts["failed"]
        return None if code is None else code == 0
    say(f"{part.name}: once more, alone, what failed")
    again = ("--last-failed", "--last-failed-no-failures=none", f"--maxfail={MOST_REPEATED}")
    left = max(60.0, seconds - (time.monotonic() - began))
    repeated, repeated_counts = call((*part.command, *again), min(REPEAT_SECONDS, left), last)
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
    sys.exit(main(*sys.argv[1:2]))
