"""The simulation itself: it is reproducible, seeds pass, injected bugs are found, and failures are shrunk."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, find, forgotten_records, offsets_of_any_table
from tests.simulation.plan import ActorPlan, Plan, Step
from tests.simulation.run import run
from tests.simulation.seeds import FORMATS, plan_of
from tests.simulation.shrinking import shrunk
from tests.simulation.world import Broken

SEEDS = int(os.environ.get("SIMULATION_SEEDS", "5"))  # seeds of each format


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", [4, 11])
def test_a_seed_has_one_history(format: str, seed: int) -> None:
    plan = plan_of(seed, format)
    first, again = run(plan), run(plan)
    assert first.history == again.history
    assert len(first.history) > 5
    assert run(replace(plan, variant=1, switch_rate=1.0)).history != first.history


@pytest.mark.parametrize("format", FORMATS)
def test_no_seed_breaks_an_invariant(format: str) -> None:
    for seed in range(SEEDS):
        outcome = run(plan_of(seed, format))
        if outcome.failure is not None:
            raise AssertionError("\n".join([f"seed {seed}", *outcome.history])) from outcome.failure


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_an_injected_bug_is_found(mutant: Mutant) -> None:
    assert find(mutant, range(1000, 1000 + mutant.seeds), run) is not None


def test_a_failing_plan_is_shrunk() -> None:
    lost = next(each for each in MUTANTS if each.name == "a commit of Delta replaces another's")
    appends = [Step(n, "append", ((100 + n, "a", n),)) for n in range(1, 5)]
    actors = tuple(ActorPlan(name, tuple(appends[at : at + 2])) for name, at in (("A", 0), ("B", 2)))
    reader = ActorPlan("C", (Step(5, "read"), Step(6, "read")))
    plan = Plan(1, "delta", (*actors, reader), switch_rate=1.0, fault_rate=0.0)
    with lost.put_in():
        whole = run(plan)
        assert isinstance(whole.failure, Broken)
        small = shrunk(whole, run, most=60)
    assert isinstance(small.failure, Broken)
    assert [len(each.steps) for each in small.plan.actors] == [1, 1]
    assert len(small.history) < len(whole.history)


def test_a_follower_learns_that_another_table_has_the_name() -> None:
    kinds = ("create", "trail", "drop", "create", "trail", "trail")
    values = {"create": ((101, "a", 1),), "drop": (False,)}
    steps = tuple(Step(n, kind, (1, *values.get(kind, ()))) for n, kind in enumerate(kinds, 1))
    plan = Plan(1, "iceberg 2", (ActorPlan("A", steps),), fault_rate=0.0)
    assert run(plan).failure is None
    with offsets_of_any_table():
        assert "NoSuchSnapshot" in str(run(plan).failure)


@pytest.mark.parametrize("format", ["iceberg 2", "iceberg 3"])
def test_a_stream_batch_is_committed_once_even_after_its_snapshot_expired(format: str) -> None:
    batch = (1, (101, "a", 1))
    kinds = (("stream", batch), ("append", ((102, "a", 1),)), ("expire", (1,)), ("stream", batch))
    steps = tuple(Step(n, kind, values) for n, (kind, values) in enumerate(kinds, 1))
    plan = Plan(1, format, (ActorPlan("A", steps),), fault_rate=0.0)
    assert run(plan).failure is None
    with forgotten_records():
        assert isinstance(run(plan).failure, Broken)
