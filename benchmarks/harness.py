"""Side-by-side timing: contenders take turns, and the ratio of their medians is reported."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
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
    contenders = [ours[1], peer[1]]
    for each in contenders:
        each()
    seconds: list[list[float]] = [[], []]
    for _ in range(runs):
        for i, each in enumerate(contenders):
            started = time.perf_counter()
            each()
            seconds[i].append(time.perf_counter() - started)
    medians = [statistics.median(s) for s in seconds]
    return Result(task, ours[0], medians[0], peer[0], medians[1], aim)


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
