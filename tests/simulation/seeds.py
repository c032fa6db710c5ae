"""Derive a plan from a seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.simulation.model import BANK
from tests.simulation.plan import ActorPlan, Plan, Step

FORMATS = ("delta", "iceberg 2", "iceberg 3")
_STREAMS = ("stream", "merging stream")
_KEYS = (11, 12, 13, 51, 52, 53)  # ids of upserts: existing rows, and others that no append adds
_SHARE_OF_NAMES = 0.25
_SKEWS = (0, 0, 0, 600_000, -600_000, 70_000)  # clock offsets, in milliseconds
_PARTS = ("a", "b", "c")
_KINDS = {
    "append": 5,
    "overwrite": 1,
    "overwrite part": 1,
    "delete": 2,
    "delete part": 1,
    "update": 1,
    "transfer": 1,
    "upsert": 1,
    "compact": 2,
    "read": 3,
    "follow": 2,
    "stream": 1,
    "merging stream": 1,
    "create": 1,
    "orphans": 1,
    "column": 0.5,
    "property": 0.5,
}
_OWN = {
    "delta": {"checkpoint": 2},
    "iceberg": {"equality": 2, "expire": 1, "manifests": 1, "deletes": 1, "convert": 1, "field": 0.5, "branch": 0.5},
}


_NAMED = {  # changes to table names, in a share of the seeds, so that they meet each other
    "delta": {"make": 2, "make if missing": 2},
    "iceberg": {"make": 2, "make if missing": 2, "replace": 1, "drop": 3, "rename": 2, "trail": 4},
}
_SHARE_OF_REPLAYS = 0.06  # a stream's batch is replayed after its snapshot has expired
_SHARE_OF_NEIGHBOURS = 0.08  # another table has the location of the first
_OF_NEIGHBOURS = {
    *("append", "compact", "delete", "delete part", "deletes", "expire", "manifests"),
    *("orphans", "overwrite", "overwrite part", "read", "update", "upsert"),
}
_FAULTS = ((), (), ("lost answer", "late"), ("killed", "killed after"), ("stalled",))


class _Seed:
    def __init__(self, seed: int) -> None:
        self.random = Random(f"{seed} plan")
        self.number = 0
        self.id = 100
        self.epoch, self.batch = 0, None

    def new_rows(self, least: int = 1, part: str | None = None) -> tuple[Any, ...]:
        made = []
        for _ in range(self.random.randint(least, 2)):
            self.id += 1
            made.append((self.id, part or self.random.choice(_PARTS), self.random.randrange(50)))
        return tuple(made)

    def rows_by_key(self) -> tuple[Any, ...]:
        keys = {self.random.choice(_KEYS), self.random.choice(_KEYS)}
        return tuple((each, self.random.choice(_PARTS), self.random.randrange(50)) for each in sorted(keys))

    def known(self) -> int:
        return self.random.choice([11, 12, 13, 14, 51, 52, *range(101, self.id + 1)])

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
            case "stream" | "merging stream":
                if self.batch is None or random.random() < 0.3:
                    self.epoch += 1
                    rows = self.new_rows() if kind == "stream" else self.rows_by_key()
                    self.batch = (kind, (self.epoch, *rows))
                kind, values = self.batch
            case "create":
                values = (random.randint(1, 2), *self.new_rows())
            case "make" | "make if missing" | "replace" | "trail":
                values = (random.randint(1, 2),)
            case "drop":
                values = (random.randint(1, 2), random.random() < 0.5)
            case "rename":
                values = tuple(random.sample([1, 2, 3], 2))
            case "transaction":
                values = self.new_rows()
            case "move":
                values = (self.known(), *self.new_rows())
            case "branch":
                values = self.new_rows()
            case "compact":
                values = (random.random() < 0.5,)
            case "expire":
                values = (random.randint(1, 3),)
            case "follow":
                values = (random.randint(1, 2),)
            case "upsert" | "equality":
                values = self.rows_by_key()
        return Step(self.number, kind, values)

    def replayed(self, actors: list[ActorPlan], forget: Step) -> list[ActorPlan]:
        """Let the last actor replay a batch that another actor writes, after other commits.

        `forget` is the maintenance before the replay, which must not forget the batch.
        """
        first, *between, last = actors
        found = [each for actor in (first, *between) for each in actor.steps if each.kind in _STREAMS]
        if not found:
            self.epoch += 1
            found = [Step(self._next(), "stream", (self.epoch, *self.new_rows()))]
            first = replace(first, steps=(*found, *first.steps))
        append = Step(self._next(), "append", self.new_rows())
        steps = (append, replace(forget, number=self._next()), replace(found[0], number=self._next()))
        return [first, *between, replace(last, steps=(*last.steps, *steps))]

    def beside(self, actors: list[ActorPlan], random: Random) -> list[ActorPlan]:
        """Turn some steps of the actors into steps of a table at the same location, with a clean-up at the end."""
        moved = [
            replace(
                each,
                steps=tuple(
                    replace(step, table="c") if step.kind in _OF_NEIGHBOURS and random.random() < 0.5 else step
                    for step in each.steps
                ),
            )
            for each in actors
        ]
        kinds = {"expire": (1,), "orphans": (), "purge": ()}
        for at, actor in enumerate(moved):
            if at == 0 or random.random() < 0.5:
                kind = random.choice([*kinds])
                table = "c" if kind == "purge" or random.random() < 0.5 else "t"
                moved[at] = replace(actor, steps=(*actor.steps, Step(self._next(), kind, kinds[kind], table=table)))
        return moved

    def _next(self) -> int:
        self.number += 1
        return self.number


def plan_of(seed: int, format: str, favoured: tuple[str, ...] = ()) -> Plan:
    """Return the plan of a seed in a format; most steps are of the favoured kinds, if any are given."""
    made = _Seed(seed)
    random = made.random
    name, _, version = format.partition(" ")
    kinds = {**_KINDS, **_OWN[name]}
    kinds.update({each: 20 for each in favoured if each in kinds})
    in_place = random.random() < 0.5
    properties: dict[str, str] = {}
    if name == "delta":
        if random.random() < 0.6:
            properties["delta.enableChangeDataFeed"] = "true"
        else:
            del kinds["follow"]
        if random.random() < 0.3:
            properties["delta.enableRowTracking"] = "true"
        if random.random() < 0.3:
            properties["delta.enableInCommitTimestamps"] = "true"
        properties["delta.enableDeletionVectors"] = "true" if in_place else "false"
        properties["delta.checkpointInterval"] = random.choice(["2", "10"])
        if random.random() < 0.5:
            properties["delta.isolationLevel"] = "Serializable"
    elif in_place:
        properties |= {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
    partitioned = random.random() < 0.4
    if version == "3" or (partitioned and name == "iceberg"):
        del kinds["equality"], kinds["convert"]
    catalog = random.choice(["sql", "rest"])
    if catalog == "rest" and name == "iceberg":
        kinds["transaction"] = 20 if "transaction" in favoured else 1
        if not favoured or "move" in favoured:
            kinds["move"] = 20 if favoured else 1
    if not _NAMED[name].keys().isdisjoint(favoured) if favoured else random.random() < _SHARE_OF_NAMES:
        kinds |= {each: 20 if each in favoured else rate for each, rate in {**_NAMED[name], "create": 4}.items()}
    actors, clocks = [], Random(f"{seed} clocks")
    for n in range(random.choice([2, 2, 3])):
        steps = tuple(made.step(kinds) for _ in range(random.choice([1, 2, 2])))
        actors.append(ActorPlan("ABCD"[n], steps, clocks.choice(_SKEWS)))
    neighbours, replays, neighbour = Random(f"{seed} neighbours"), Random(f"{seed} replays"), ""
    if "replay" in favoured or (not favoured and replays.random() < _SHARE_OF_REPLAYS):
        actors = made.replayed(actors, Step(0, "checkpoint") if name == "delta" else Step(0, "expire", (1,)))
    if name == "iceberg" and ("purge" in favoured or (not favoured and neighbours.random() < _SHARE_OF_NEIGHBOURS)):
        neighbour = neighbours.choice(["registered", "registered", "created"])
        actors = made.beside(actors, neighbours)
    return Plan(
        seed,
        format,
        tuple(actors),
        tuple(properties.items()),
        partitioned=partitioned,
        catalog=catalog,
        neighbour=neighbour,
        switch_rate=random.choice([0.05, 0.2, 0.5, 1.0]),
        fault_rate=random.choice([0, 0.01, 0.05]) if not (kinds_of_faults := random.choice(_FAULTS)) else 0.1,
        fault_kinds=kinds_of_faults,
        jump_rate=random.choice([0, 0, 0.02]),
    )
