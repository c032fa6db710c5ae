"""One run of a plan: its table, its actors, and the invariants after every commit."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa

import lakescan
from lakescan.errors import CommitConflict, CommitStateUnknown, LakescanError, MissingFile, QueryFailed, StorageError
from tests.simulation import catalog as catalogs
from tests.simulation.actors import ACTIONS
from tests.simulation.model import BANK, Model, Record, State
from tests.simulation.patches import inside
from tests.simulation.plan import Plan, Step
from tests.simulation.store import Store
from tests.simulation.world import Actor, Broken, Killed, World

_RUNS = count()
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("amount", pa.int64())])
FIRST: State = {**{i: ("bank", 100) for i in BANK}, 11: ("a", 1), 12: ("b", 2), 13: ("a", 3), 14: ("b", 4)}


@dataclass
class Outcome:
    """How a run ended."""

    plan: Plan
    history: list[str]
    faults: list[tuple[int, int, str]]
    failure: BaseException | None
    commits: int
    steps: dict[str, int]


class Run:
    """The table of one run."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan)
        self.store = Store(self.world)
        self.store.root = "sim"
        self.pointer = catalogs.Pointer(self.store, plan.catalog)
        self.model = Model(dict(FIRST), is_serializable=plan.format != "delta")
        self.live: set[str] = set()
        self.memory: dict[str, Any] = {}  # of followers

    @property
    def name(self) -> str:
        return "s3://sim/db/t" if self.plan.format == "delta" else f"{catalogs.NAME}.db.t"

    def table(self, **options: Any) -> lakescan.Table:
        return lakescan.table(self.name, **options)

    def rows(self, table: lakescan.Table | None = None) -> list[tuple[int, str | None, int]]:
        found = (table or self.table()).scan().select("id", "part", "amount").to_arrow()
        return list(zip(*(found[name].to_pylist() for name in SCHEMA.names), strict=True))

    def execute(self) -> Outcome:
        failure: BaseException | None = None
        catalogs.install(self.pointer)
        with inside(self.world, self.store):
            self._make()
            self.store.on_put, self.store.on_delete = self._on_put, self._on_delete
            self.pointer.on_commit = lambda location: self._committed()
            try:
                self.world.run(self._work)
                self._last_checks()
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failure = error
        ended: dict[str, int] = {}
        for each in self.model.records.values():
            ended[each.outcome] = ended.get(each.outcome, 0) + 1
        return Outcome(self.plan, self.world.history, self.world.faults, failure, self.model.newest, ended)

    def _make(self) -> None:
        rows = pa.Table.from_pylist([{"id": k, "part": v[0], "amount": v[1]} for k, v in FIRST.items()], SCHEMA)
        properties = dict(self.plan.properties)
        if self.plan.format != "delta":
            properties["format-version"] = self.plan.format.rpartition(" ")[2]
        lakescan.save(
            rows,
            self.name,
            format=self.plan.format.partition(" ")[0],
            partition_by=["part"] if self.plan.partitioned else None,
            properties=properties,
        )
        self._note_live()

    def _work(self, actor: Actor, step: Step) -> None:
        world, model = self.world, self.model
        record = model.begin(step)
        world.tell(actor, f"begins {step}")
        try:
            ACTIONS[step.kind](self, step, record)
            outcome, said = "made", ""
        except CommitStateUnknown as error:
            outcome, said = "unknown", str(error)
        except (CommitConflict, StorageError, QueryFailed) as error:
            if isinstance(error, QueryFailed | MissingFile) and not actor.is_dead and not self._may(error, step):
                raise Broken(f"{step} failed without a cause: {type(error).__name__}: {error}") from error
            if actor.is_dead:
                raise Killed from None
            outcome, said = "refused", f"{type(error).__name__}: {error}"
        except LakescanError as error:
            if actor.is_dead:
                raise Killed from None
            raise Broken(f"{step} raised {type(error).__name__}: {error}") from error
        if actor.is_dead:
            raise Killed
        world.tell(actor, f"{step.kind} is {outcome} {said[:300]}")
        model.end(record, outcome)

    def _may(self, error: LakescanError, step: Step) -> bool:
        """Whether an error has a cause: a fault of the step, or files that were removed by the rules."""
        return any(each[0] == step.number for each in self.world.faults) or isinstance(error, MissingFile)

    # What the store and the catalog tell

    def _on_put(self, key: str, data: bytes) -> None:
        if self.plan.format == "delta" and "/_delta_log/" in key and key.endswith(".json"):
            if key.rpartition("/")[2].removesuffix(".json").isdigit():
                self._committed()

    def _committed(self) -> None:
        _, step = self.world.author
        assert step is not None
        self.world.tell(None, f"version {self.model.newest + 1} by {step.kind}")

        def check() -> None:
            self.model.commit(step, self.rows())
            self._note_live()

        self.world.waiting.append(check)

    def _note_live(self) -> None:
        plan = self.table().scan().plan()
        self.live = {each.partition("://")[2] for each in plan.files["path"].to_pylist()}

    def _on_delete(self, key: str) -> None:
        if key in self.live:
            raise Broken(f"a live file is removed: {key}")

    def _last_checks(self) -> None:
        if self.rows() != self.rows(self.table()):
            raise Broken("two reads of one state differ")
        if dict(zip((r[0] for r in self.rows()), ((r[1], r[2]) for r in self.rows()), strict=True)) != self.model.versions[-1].state:
            raise Broken("the table is not what its last commit made")


def run(plan: Plan) -> Outcome:
    """Run a plan."""
    outcome = Run(plan).execute()
    if next(_RUNS) % 20 == 0:
        gc.collect()
    return outcome
