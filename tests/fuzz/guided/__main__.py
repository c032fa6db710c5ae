"""Run every fuzz target in turn, guided by coverage.

python -m tests.fuzz.guided --minutes 10 all targets, each its share of the time python -m tests.fuzz.guided --minutes 2
--targets sql one

Failing inputs are stored in tests/fuzz/corpus/TARGET, where tests run them; the exit code is 1 if there are any. A
process that ends early (a crash, a hang of 25 s, more than 3 GB) counts as failed, and a new process continues for the
remaining time.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.guided.targets import TARGETS, Target

ROOT = Path(__file__).parents[3]
FOUND = ROOT / "tests/fuzz/corpus"
LIMITS = ("-timeout=25", "-rss_limit_mb=3072", "-max_len=16384", "-print_final_stats=1", "-verbosity=1")


def main() -> int:
    """Run the targets; return 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--kept", type=Path, default=ROOT / "build/fuzz-inputs", help="inputs that reach new code")
    given = parser.parse_args()
    names = given.targets.split(",")
    total = findings = 0
    for name in names:
        inputs, told = run(name, TARGETS[name], 60 * given.minutes / len(names), given.kept / name)
        total, findings = total + inputs, findings + len(told)
        print(f"{name}: {inputs:,} inputs, {len(told)} findings", flush=True)
        for line in told:
            print(f"    {line}", flush=True)
    print(f"{total:,} inputs, {findings} findings in {given.minutes:g} minutes")
    return 1 if findings else 0


def run(name: str, target: Target, seconds: float, kept: Path) -> tuple[int, list[str]]:
    """Fuzz one target; return the number of inputs and descriptions of the findings."""
    kept.mkdir(parents=True, exist_ok=True)
    deadline, inputs, told = time.monotonic() + seconds, 0, list[str]()
    with tempfile.TemporaryDirectory(prefix="lakescan-fuzz-") as folder:
        seeds, words, ended = Path(folder) / "seeds", Path(folder) / "words", Path(folder) / "ended"
        seeds.mkdir()
        ended.mkdir()
        for number, seed in enumerate(target.seeds()):
            (seeds / str(number)).write_bytes(seed)
        words.write_text("".join(f'"{_escaped(each)}"\n' for each in target.words))
        while (left := int(deadline - time.monotonic())) > 0:
            limits = (*LIMITS, f"-max_total_time={left}", f"-artifact_prefix={ended}/")
            if target.words:
                limits = (*limits, f"-dict={words}")
            done = subprocess.run(
                [sys.executable, "-m", "tests.fuzz.guided.one", name, str(FOUND / name), *limits, kept, seeds],
                cwd=ROOT,
                env={**os.environ, "PYTHONFAULTHANDLER": "1", "TMPDIR": folder},
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            stats = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
            inputs += int(stats[1]) if stats else 0
            told += [line for line in done.stdout.splitlines() if line.startswith("FOUND")]
            if done.returncode == 0:
                break
            ends = sorted(ended.iterdir())
            told.append(f"ended with {done.returncode}: {[each.name for each in ends]} {done.stderr[-1500:]}")
            for each in ends:
                (FOUND / name).mkdir(parents=True, exist_ok=True)
                each.replace(FOUND / name / each.name[:40])
            if not ends:
                break  # it does not start
    return inputs, told


def _escaped(word: str) -> str:
    return "".join(c if c.isalnum() else "".join(f"\\x{byte:02x}" for byte in c.encode()) for c in word)


if __name__ == "__main__":
    sys.exit(main())
