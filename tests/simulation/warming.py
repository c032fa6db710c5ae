"""Warm up a process before its first run: imports and cached computations must not be part of a history."""

from __future__ import annotations

from typing import Any

from tests.simulation.plan import ActorPlan, Plan, Step

_ICEBERG = (
    *("manifests", "deletes", "expire", "field", "branch", "transaction", "move"),
    *("make", "make if missing", "replace", "trail", "rename", "drop"),
)


def warming(format: str) -> Plan:
    """Return a plan of one actor with each kind of step, without faults."""
    kinds = ["compact", "orphans", "column", "property", "read", "follow"]
    kinds += ["checkpoint", "make", "make if missing"] if format == "delta" else [*_ICEBERG]
    values: dict[str, Any] = {"compact": (True,), "follow": (1,), "expire": (1,), "branch": ((103, "a", 1),)}
    values |= {"transaction": ((107, "b", 1),), "move": (107, (108, "b", 1)), "make": (3,), "make if missing": (4,)}
    values |= {"replace": (4,), "trail": (4,), "rename": (3, 5), "drop": (4, True)}
    first = [
        Step(1, "append", ((101, "a", 1),)),
        Step(2, "delete", (12,)),
        Step(3, "update", (1, 11)),
        Step(4, "upsert", ((13, "b", 1), (51, "b", 1))),
        Step(5, "overwrite part", ("a", (102, "a", 1))),
        Step(6, "stream", (1, (104, "a", 1))),
        Step(7, "merging stream", (2, (13, "a", 2), (52, "a", 2))),
        Step(8, "create", (1, (105, "a", 1))),
        Step(9, "create", (1, (106, "a", 1))),
    ]
    more = [Step(number, kind, values.get(kind, ())) for number, kind in enumerate(kinds, 10)]
    properties = (("delta.enableChangeDataFeed", "true"),) if format == "delta" else ()
    return Plan(0, format, (ActorPlan("A", (*first, *more)),), properties, catalog="rest", fault_rate=0)
