"""The plan of one seed: the table, the actors and their steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One operation; its number stays the same when other steps are dropped."""

    number: int
    kind: str
    values: tuple[Any, ...] = ()
    may_fail: bool = True
    table: str = "t"

    def __str__(self) -> str:
        where = "" if self.table == "t" else f" in {self.table}"
        return f"{self.kind}({', '.join(map(str, self.values))}){where}"


@dataclass(frozen=True)
class ActorPlan:
    name: str
    steps: tuple[Step, ...]
    skew: int = 0  # how many milliseconds its clock is ahead


@dataclass(frozen=True)
class Plan:
    """Everything that determines a run."""

    seed: int
    format: str  # delta, iceberg 2, iceberg 3
    actors: tuple[ActorPlan, ...]
    properties: tuple[tuple[str, str], ...] = ()
    partitioned: bool = False
    catalog: str = "sql"  # which side writes metadata files: the client (sql) or the server (rest)
    neighbour: str = ""  # how a table c shares the location of t: registered (a copy), or created; none if empty
    variant: int = 0  # the seed of the schedule
    switch_rate: float = 0.3
    fault_rate: float = 0.02
    fault_kinds: tuple[str, ...] = ()  # the kinds of faults; all kinds if empty
    jump_rate: float = 0.0
    spared: frozenset[tuple[int, int]] = field(default_factory=frozenset)  # calls that never fail
