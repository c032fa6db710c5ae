"""Damage tables and read them.

python -m tests.fuzz --seed 3 --cases 2000 a run: kinds and tables in turn python -m tests.fuzz --seed 3 --case
bytes:delta-log:17 one case again python -m tests.fuzz --seed 3 --case bytes:delta-log:17 --keep folder and its damaged
table kept

Each failing case prints one line; the exit code is 1 if any case failed.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import random
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.fuzz import child, corpus, reading
from tests.fuzz.damage import KINDS, Case, Damage, NothingToDamage
from tests.fuzz.tables import SAMPLES, Sample
from tests.support.faulty import install


class Run:
    """The cases of a seed, with the undamaged tables and their answers."""

    def __init__(self, folder: Path, seed: int, samples: tuple[Sample, ...], seconds: float) -> None:
        self.folder, self.seed, self.seconds = folder, seed, seconds
        self.samples = {sample.name: sample for sample in samples}
        self._before: dict[str, dict[str, Any]] = {}

    def case(self, kind: str, name: str, number: int) -> tuple[list[str], str]:
        """Run one case; return its failures and the damage done, which is empty if the table had nothing to damage."""
        sample = self.samples[name]
        before = self._answers_before(sample)
        self._copy(sample)
        made = child.run(self._damaging(sample, kind, number), self.seconds, limited=False)
        if not made.sent or made.how != "done" or "broken" in made.sent[0]:
            return ([], "") if made.how == "done" and not made.sent else ([f"the fuzz is broken: {made}"], "?")
        damage = Damage(**made.sent[0])
        ending = self._read(sample, damage)
        now = {each["call"]: each["answer"] for each in ending.sent if "call" in each}
        found = reading.failures(damage, before, now)
        if ending.how != "done":
            call = next((c for c in reading.CALLS if c not in now), "rows")
            stack = [line.strip() for line in ending.stack.splitlines() if "lakescan/" in line]
            found.append(f"{call}: {ending.how} {stack[:1]}")
        return found, damage.told

    def _answers_before(self, sample: Sample) -> dict[str, Any]:
        if sample.name not in self._before:
            self._copy(sample)
            ending = self._read(sample, Damage("nothing"))
            found = {each["call"]: each["answer"] for each in ending.sent if "call" in each}
            if not found or any("error" in each and not each["ours"] for each in found.values()):
                raise SystemExit(f"{sample.name} cannot be read as it is: {ending.how} {found or ending.sent}")
            self._before[sample.name] = found
        return self._before[sample.name]

    def _damaging(self, sample: Sample, kind: str, number: int) -> Callable[[Callable[[Any], None]], None]:
        """Return work that damages the copy and sends a description of the damage, or nothing if there is nothing to
        damage.
        """

        def work(send: Callable[[Any], None]) -> None:
            seeded = random.Random(f"{self.seed}/{kind}/{sample.name}/{number}")
            with contextlib.suppress(NothingToDamage):
                damage = KINDS[kind](Case(sample, self.folder / "case", seeded))
                told = damage.told.encode(errors="backslashreplace").decode()
                send({"told": told, "allows": damage.allows, "faults": damage.faults})

        return work

    def _read(self, sample: Sample, damage: Damage) -> child.Ending:
        def work(send: Callable[[Any], None]) -> None:
            if damage.faults:
                install(**damage.faults)
            for call in reading.CALLS:
                send({"call": call, "answer": reading.answer(sample, self.folder / "case", call)})

        return child.run(work, self.seconds)

    def _copy(self, sample: Sample) -> None:
        made, case = self.folder / "made" / sample.name.replace("/", "-"), self.folder / "case"
        if not made.exists():
            made.parent.mkdir(exist_ok=True)
            child.run(lambda _: sample.make(made), self.seconds, limited=False)
        remove(case)
        shutil.copytree(made, case, symlinks=True)


def remove(folder: Path) -> None:
    """Remove the folder of a damaged table."""
    shutil.rmtree(folder, ignore_errors=True)


def keep(folder: Path, kept: Path) -> None:
    """Copy a damaged table, without its pipes."""

    def pipes(at: str, names: list[str]) -> list[str]:
        return [n for n in names if not (Path(at) / n).is_symlink() and stat.S_ISFIFO((Path(at) / n).lstat().st_mode)]

    shutil.copytree(folder, kept, symlinks=True, ignore=pipes)


def chosen(kinds: list[str], names: list[str]) -> Iterator[tuple[str, str, int]]:
    """Yield cases endlessly: every kind and table in turn."""
    return ((kind, name, number) for number in itertools.count() for kind in kinds for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--tables", default="", help="only tables whose name has this part")
    parser.add_argument("--corpus", action="store_true", help="tables of the corpus instead of our own")
    parser.add_argument("--seconds", type=float, default=60, help="for one case")
    parser.add_argument("--case", help="kind:table:number")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    samples = tuple(s for s in (corpus.samples() if given.corpus else SAMPLES) if given.tables in s.name)
    if not samples:  # the endless loop would never yield a case
        parser.error(f"there is no table with {given.tables!r} in its name")
    if unknown := set(given.kinds.split(",")) - set(KINDS):
        parser.error(f"--kinds {', '.join(sorted(unknown))}: there are {', '.join(KINDS)}")
    _load()
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), given.seed, samples, given.seconds)
        if given.case:
            kind, rest = given.case.split(":", 1)
            name, number = rest.rsplit(":", 1)
            cases = iter([(kind, name, int(number))])
        else:
            cases = itertools.islice(chosen(given.kinds.split(","), list(run.samples)), given.cases)
        return _report(run, cases, given)


def _report(run: Run, cases: Iterator[tuple[str, str, int]], given: argparse.Namespace) -> int:
    started, done, failed = time.monotonic(), collections.Counter[str](), 0
    for kind, name, number in cases:
        found, told = run.case(kind, name, number)
        done[kind] += bool(told)
        if found:
            failed += 1
            print(f"FAILED --seed {given.seed} --case {kind}:{name}:{number}  {told}", flush=True)
            for each in found:
                print(f"    {each}", flush=True)
        elif given.case:
            print(told or "nothing to damage")
        if given.keep:
            keep(run.folder / "case", given.keep)
    total = ", ".join(f"{kind} {count}" for kind, count in done.items())
    print(f"{sum(done.values())} cases ({total}) in {time.monotonic() - started:.0f} s; {failed} failed")
    return 1 if failed else 0


def _load() -> None:
    """Import the modules that reading imports: children are forked, and no thread may run before."""
    import fastavro  # noqa: F401
    import pandas  # noqa: F401
    import polars  # noqa: F401
    import pyarrow.compute
    import pyarrow.dataset
    import pyarrow.json
    import pyarrow.orc
    import pyarrow.parquet  # noqa: F401


if __name__ == "__main__":
    sys.exit(main())
