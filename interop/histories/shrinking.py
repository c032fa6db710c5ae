"""A failing history made short: steps are dropped while it still fails in the same words' kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interop.histories.steps import Step

Failing = Callable[[Sequence[Step]], str | None]  # how the steps fail; None where they do not


def shortened(steps: Sequence[Step], failing: Failing, most: int = 40) -> list[Step]:
    """The fewest steps found that still fail, in at most so many runs; the first, the creation, stays."""
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
    """The steps as a script to read and to run by hand."""
    return "\n".join(
        f"  {step.engine}{' (API)' if step.rows and step.engine == 'here' else ''}: {step.text}" for step in steps
    )
