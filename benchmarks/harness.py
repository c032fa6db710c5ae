"""Side-by-side timing: contenders take turns, and the ratio of their medians is reported."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One measurement: a task, the two contenders, their medians in seconds, and the ratio to aim for."""

    task: str
    name: str
    seconds: float
    peer: str
    peer_seconds: float
    aim: float | None = None

    @property
    def ratio(self) -> float:
        """Our time over the peer's time: below 1, we are faster."""
        return self.seconds / self.peer_seconds


def compare(
    task: str,
    ours: tuple[str, Callable[[], object]],
    peer: tuple[str, Callable[[], object]],
    *,
    runs: int = 5,
    aim: float | None = None,
) -> Result:
    """Time both in turn, `runs` times after one warm-up each."""
    medians = side_by_side({"ours": ours[1], "peer": peer[1]}, runs=runs)
    return Result(task, ours[0], medians["ours"], peer[0], medians["peer"], aim)


def side_by_side(contenders: Mapping[str, Callable[[], object]], *, runs: int = 5) -> dict[str, float]:
    """Time contenders in turn, `runs` times after one warm-up each: the median seconds of each."""
    for each in contenders.values():
        each()
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, each in contenders.items():
            started = time.perf_counter()
            each()
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(some) for name, some in seconds.items()}


def in_own_process(script: str, *arguments: str) -> dict[str, float]:
    """What a Python script prints last, as JSON, run in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    found: dict[str, float] = json.loads(printed.splitlines()[-1])
    return found


def as_markdown(results: Sequence[Result]) -> str:
    """A table of results."""
    lines = ["| task | lakescan | seconds | peer | seconds | ratio | aim |", "|---|---|---|---|---|---|---|"]
    for r in results:
        aim = "" if r.aim is None else f"<= {r.aim:g}"
        if math.isnan(r.peer_seconds):
            lines.append(f"| {r.task} | {r.name} | {r.seconds:.2f} | {r.peer} | not measured | | {aim} |")
            continue
        lines.append(
            f"| {r.task} | {r.name} | {r.seconds:.2f} | {r.peer} | {r.peer_seconds:.2f} | {r.ratio:.2f} | {aim} |"
        )
    return "\n".join(lines)
