"""A seed as a plan."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.simulation.model import BANK
from tests.simulation.plan import ActorPlan, Plan, Step

FORMATS = ("delta", "iceberg 2", "iceberg 3")
_PARTS = ("a", "b", "c")
_KINDS = {"append": 4, "overwrite": 1, "overwrite part": 1, "delete": 2, "delete part": 1, "update": 2, "transfer": 3, "upsert": 2, "compact": 2, "read": 3}


class _Seed:
    def __init__(self, seed: int) -> None:
        self.random = Random(f"{seed} plan")
        self.number = 0
        self.id = 100

    def new_rows(self, least: int = 1, part: str | None = None) -> tuple[Any, ...]:
        made = []
        for _ in range(self.random.randint(least, 2)):
            self.id += 1
            made.append((self.id, part or self.random.choice(_PARTS), self.random.randrange(50)))
        return tuple(made)

    def known(self) -> int:
        return self.random.choice([11, 12, 13, 14, *range(101, self.id + 1)])

    def step(self, kinds: dict[str, int]) -> Step:
        random = self.random
        kind = random.choices([*kinds], [*kinds.values()])[0]
        self.number += 1
        values: tuple[Any, ...] = ()
        match kind:
            case "append":
                values = self.new_rows()
            case "overwrite":
                values = self.new_rows()
            case "overwrite part":
                part = random.choice(_PARTS)
                values = (part, *self.new_rows(part=part))
            case "delete":
                values = tuple(sorted({self.known(), self.known()}))
            case "delete part":
                values = (random.choice(_PARTS),)
            case "update":
                values = (random.randint(1, 9), *sorted({self.known(), self.known()}))
            case "transfer":
                values = (*random.sample(BANK, 2), random.randint(1, 30))
            case "upsert" | "equality":
                keys = {self.known(), self.known()}
                values = tuple((each, random.choice(_PARTS), random.randrange(50)) for each in sorted(keys))
        return Step(self.number, kind, values)


def plan_of(seed: int, format: str) -> Plan:
    """The plan of a seed, in a format."""
    made = _Seed(seed)
    random = made.random
    actors = []
    for n in range(random.choice([2, 2, 3])):
        steps = tuple(made.step(_KINDS) for _ in range(random.choice([1, 2, 3])))
        actors.append(ActorPlan("ABCD"[n], steps))
    return Plan(
        seed,
        format,
        tuple(actors),
        partitioned=random.random() < 0.4,
        catalog=random.choice(["sql", "rest"]),
        switch_rate=random.choice([0.05, 0.2, 0.5, 1.0]),
        fault_rate=random.choice([0, 0.01, 0.05]),
        jump_rate=random.choice([0, 0, 0.02]),
    )
