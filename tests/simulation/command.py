"""Run seeds and print the shortest history of each failing one.

python -m tests.simulation --seeds 1000 --from 0 --format delta --processes 2
"""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.simulation.run import Outcome, run
from tests.simulation.seeds import FORMATS, plan_of
from tests.simulation.shrinking import shrunk

_SHARE = 20  # seeds of one task


def told(outcome: Outcome) -> str:
    """Describe how a seed ended: the violation, if any, the plan, and the history."""
    failure, plan = outcome.failure, outcome.plan
    lines = [
        "nothing is wrong" if failure is None else f"{type(failure).__name__}: {failure}",
        f"{plan.format}, catalog {plan.catalog}, {dict(plan.properties)}",
    ]
    lines += [f"{each.name}: {', '.join(map(str, each.steps))}" for each in plan.actors]
    return "\n".join([*lines, *outcome.history])


def _share(task: tuple[tuple[int, str], ...]) -> tuple[Counter[str], list[str], float]:
    logging.disable(logging.WARNING)
    began, counts, failures = time.process_time(), Counter[str](), []
    for seed, format in task:
        outcome = run(plan_of(seed, format))
        counts.update(outcome.steps)
        counts.update(seeds=1, commits=outcome.commits, faults=len(outcome.faults), calls=len(outcome.history))
        if outcome.failure is not None:
            counts["failed"] += 1
            failures.append(f"--- seed {seed}, {format}\n{told(shrunk(outcome, run))}")
    return counts, failures, time.process_time() - began


def _tasks(first: int, count: int, formats: list[str]) -> Iterator[tuple[tuple[int, str], ...]]:
    """Split the seeds into tasks. Each seed runs with one format, in turn, or with the requested one."""
    seeds = [(seed, formats[seed % len(formats)]) for seed in range(first, first + count)]
    return (tuple(seeds[at : at + _SHARE]) for at in range(0, count, _SHARE))


def _histories(seeds: Iterable[tuple[int, str]]) -> int:
    """Print the history of each seed and return the exit code."""
    failed = False
    for seed, format in seeds:
        outcome = run(plan_of(seed, format))
        failed |= outcome.failure is not None
        print(f"--- seed {seed}, {format}\n{told(outcome)}")
    return int(failed)


def main() -> int:
    """Return the exit code: 1 if a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--format", choices=FORMATS, help="by default each seed has one of all in turn")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--history", action="store_true", help="print the history of each seed")
    given = parser.parse_args()
    formats = [given.format] if given.format else list(FORMATS)
    if given.history:
        return _histories(each for task in _tasks(given.first, given.seeds, formats) for each in task)
    began, counts, failed, seconds = time.monotonic(), Counter[str](), 0, 0.0
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        for found, failures, spent in pool.map(_share, _tasks(given.first, given.seeds, formats)):
            counts += found
            seconds += spent
            for text in failures:
                failed += 1
                print(text, flush=True)
            if counts["seeds"] % 1000 < _SHARE:
                print(f"{counts['seeds']} seeds after {time.monotonic() - began:.0f} s", flush=True)
    print(f"{dict(counts)}; {counts['seeds'] / seconds:.1f} seeds a second of processor time", flush=True)
    return 1 if failed else 0
