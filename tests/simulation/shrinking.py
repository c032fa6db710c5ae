"""Shrink a failing plan: drop actors, steps and faults while it still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulation.plan import Plan
from tests.simulation.run import Outcome

_VARIANTS = 3  # schedules tried for each smaller plan: without a step, the turns differ


def shrunk(outcome: Outcome, run: Callable[[Plan], Outcome], most: int = 200) -> Outcome:
    """Return the outcome of the smallest plan that fails with the same kind of error, within `most` runs."""
    best, left = outcome, most
    while left > 0:
        for smaller in _smaller(best):
            found = None
            for variant in range(_VARIANTS):
                left -= 1
                tried = run(replace(smaller, variant=variant))
                if tried.failure is not None and type(tried.failure) is type(best.failure):
                    found = tried
                    break
            if found is not None:
                best = found
                break
            if left <= 0:
                break
        else:
            break
    return best


def _smaller(outcome: Outcome) -> Iterator[Plan]:
    plan = outcome.plan
    for n in range(len(plan.actors)):
        if len(plan.actors) > 1:
            yield replace(plan, actors=plan.actors[:n] + plan.actors[n + 1 :])
    for n, actor in enumerate(plan.actors):
        for m in range(len(actor.steps)):
            fewer = replace(actor, steps=actor.steps[:m] + actor.steps[m + 1 :])
            if fewer.steps:
                yield replace(plan, actors=(*plan.actors[:n], fewer, *plan.actors[n + 1 :]))
    if any(actor.skew for actor in plan.actors):
        yield replace(plan, actors=tuple(replace(actor, skew=0) for actor in plan.actors))
    if plan.fault_rate:
        yield replace(plan, fault_rate=0)
    for step, call, _ in outcome.faults:
        if plan.fault_rate:
            yield replace(plan, spared=plan.spared | {(step, call)})
    if plan.jump_rate:
        yield replace(plan, jump_rate=0)
    if plan.switch_rate > 0.05:
        yield replace(plan, switch_rate=0.05)
    for pair in plan.properties:
        yield replace(plan, properties=tuple(each for each in plan.properties if each != pair))
    if plan.partitioned:
        yield replace(plan, partitioned=False)
