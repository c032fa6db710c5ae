"""Run histories by seed in one session; print the differences and a summary of the comparisons."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from interop.histories.history import Difference, History, Tally
from interop.histories.shrinking import script, shortened
from interop.histories.sides import session
from interop.histories.steps import Step


def main() -> int:
    """Run the command; return 1 if something differs."""
    parser = argparse.ArgumentParser(prog="python -m interop.histories", description=__doc__)
    parser.add_argument("--format", choices=["delta", "iceberg", "both"], default="both")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--minutes", type=float, default=600, help="begin no seed after so many")
    parser.add_argument("--runs", type=int, default=25, help="runs to shorten a failing history; 0 prints it whole")
    parser.add_argument("--on-spark", action="store_true", help="lakescan takes steps on Spark, too")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="histories"))
    tally, failed, started = Tally(), 0, time.monotonic()
    jvm = session(folder)
    for seed in range(given.first, given.first + given.seeds):
        if time.monotonic() - started > given.minutes * 60:
            break
        for format in ["delta", "iceberg"] if given.format == "both" else [given.format]:
            failure = run(jvm, format, seed, folder, tally, given.runs, given.on_spark)
            failed += bool(failure)
            print(failure or f"{format} {seed}: the same, {time.monotonic() - started:.0f} s", flush=True)
    print(summary(tally))
    jvm.stop()
    shutil.rmtree(folder, ignore_errors=True)
    return exit_code(failed, tally)


def exit_code(failed: int, tally: Tally) -> int:
    """Return 1 if something differs, or if no rows were compared."""
    return int(failed > 0 or not tally.counts["rows"])


def run(jvm: Any, format: str, seed: int, folder: Path, tally: Tally, runs: int = 25, on_spark: bool = False) -> str:
    """Run a seed's history. Return its failure and the shortest failing script, or an empty text."""
    try:
        History(jvm, format, seed, folder, tally, on_spark).grown()
    except Difference as error:
        words, steps = str(error), list(getattr(error, "steps", ()))
    else:
        return ""
    number = 0
    kind = words.partition(":")[0]

    def failing(fewer: Sequence[Step]) -> str | None:
        nonlocal number
        number += 1
        try:
            History(jvm, format, seed, folder, Tally()).replayed(fewer, f"s{seed}_{number}")
        except Difference as error:
            return str(error) if str(error).partition(":")[0] == kind else None
        except Exception:
            return None
        return None

    short = shortened(steps, failing, runs) if runs else steps
    return f"SEED {seed} of {format} FAILS: {words}\n{len(short)} of {len(steps)} steps:\n{script(short)}\n"


def summary(tally: Tally) -> str:
    """Summarize the comparisons and the refusals, with counts and an example of each."""
    lines = [", ".join(f"{count} {what}" for what, count in sorted(tally.counts.items()) if "refused" not in what)]
    lines += [f"{count} {what}" for what, count in sorted(tally.counts.items()) if "refused" in what]
    for words, texts in sorted(tally.refused.items(), key=lambda each: -len(each[1])):
        lines.append(f"  {len(texts)} x {words}\n      {texts[0]}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
