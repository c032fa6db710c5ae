"""Shorten a failing history: drop steps while it still fails with the same kind of message."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interop.histories.steps import Step

Failing = Callable[[Sequence[Step]], str | None]  # how the steps fail; None if they pass


def shortened(steps: Sequence[Step], failing: Failing, most: int = 40) -> list[Step]:
    """Return the shortest failing list of steps found within `most` runs; the first step, the creation, stays."""
    best, tried = list(steps), 0
    size = max(1, len(best) // 2)
    while size and tried < most:
        at = 1
        while at < len(best) and tried < most:
            fewer = best[:at] + best[at + size :]
            tried += 1
            if failing(fewer) is not None:
                best = fewer
            else:
                at += size
        size //= 2
    return best


def script(steps: Sequence[Step]) -> str:
    """Return the steps as a script to read and to run by hand."""
    return "\n".join(
        f"  {step.engine}{' (API)' if step.rows and step.engine == 'here' else ''}: {step.text}" for step in steps
    )
