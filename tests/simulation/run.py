"""Run a plan: its table, its actors, and the invariants after every commit."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pyarrow as pa

import lakescan
from lakescan.errors import (
    CommitConflict,
    CommitStateUnknown,
    InvalidOption,
    InvalidStatement,
    LakescanError,
    MissingFile,
    NoSuchSnapshot,
    NoSuchTable,
    NotATable,
    QueryFailed,
    SchemaChanged,
    SchemaMismatch,
    StorageError,
    TableExists,
    UnsupportedFeature,
)
from tests.simulation import catalog as catalogs
from tests.simulation.actors import ACTIONS
from tests.simulation.files import DeltaFiles, Files, IcebergFiles, check_there
from tests.simulation.model import BANK, NAMED, Model, Record, State, applied, difference, state_of
from tests.simulation.patches import inside
from tests.simulation.plan import Plan, Step
from tests.simulation.store import Store
from tests.simulation.warming import warming
from tests.simulation.world import Actor, Broken, Killed, World

_RUNS, _WARM = count(), set[str]()
GONE = (NoSuchSnapshot, SchemaChanged)  # errors of a stream whose next commit has expired, or has other columns
_CLEANING = ("expire", "orphans", "purge")
_OF_NEIGHBOUR = 91  # the first row of the table c
TRANSACTIONS = ("transaction", "move")
_DONE = (", but cannot be opened", "is dropped, and its files are kept", "was recreated while it was dropped")
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("amount", pa.int64())])
BEGINNING: State = {**dict.fromkeys(BANK, ("bank", 100)), 11: ("a", 1), 12: ("b", 2)}
FIRST: State = {**BEGINNING, 13: ("a", 3), 14: ("b", 4)}


@dataclass
class Outcome:
    """The outcome of a run."""

    plan: Plan
    history: list[str]
    faults: list[tuple[int, int, str]]
    failure: BaseException | None
    commits: int
    steps: dict[str, int]


def _table(state: State) -> pa.Table:
    return pa.Table.from_pylist([{"id": k, "part": v[0], "amount": v[1]} for k, v in state.items()], SCHEMA)


class Run:
    """The run of a plan on one table."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan)
        self.store = Store(self.world)
        self.store.root = "sim"
        self.pointer = catalogs.Pointer(self.store, plan.catalog)
        self.model = Model(
            [dict(BEGINNING), dict(FIRST)],
            is_serializable=plan.format != "delta" or ("delta.isolationLevel", "Serializable") in plan.properties,
        )
        is_delta = plan.format == "delta"
        self.files: Files = DeltaFiles(self.store, "sim/db/t") if is_delta else IcebergFiles(self.store)
        self.neighbours: dict[str, IcebergFiles] = {}  # models of tables that share the location of t
        self.others: dict[str, Model] = {}  # models of the other tables, by name; each exists from its first version on
        self.followers: dict[str, tuple[Any, State]] = {}  # the offset, and the replica made by the changes
        self.trails: dict[str, int] = {}  # for each follower of a name, the version it has seen
        self.has_expired = False

    @property
    def name(self) -> str:
        return self.name_of("t")

    def name_of(self, table: str) -> str:
        catalog = catalogs.OTHER if table == "c" else catalogs.NAME
        return f"s3://sim/db/{table}" if self.plan.format == "delta" else f"{catalog}.db.{table}"

    def models_of(self, step: Step) -> list[Model]:
        """Return the models of the tables that a step changes."""
        if step.table != "t":
            return [self.model_of(step.table)]
        if step.kind == "rename":
            return [self.model_of(f"n{each}") for each in step.values]
        if step.kind in (*NAMED, "create", "trail"):
            return [self.model_of(f"n{step.values[0]}")]
        return [self.model, self.model_of("u")] if step.kind in TRANSACTIONS else [self.model]

    def model_of(self, table: str) -> Model:
        """Return the model of a name. Except for one table of transactions, the names have no table at first."""
        first = {} if table == "u" else None
        return self.model if table == "t" else self.others.setdefault(table, Model([first], name=table, has_bank=False))

    def table(self, table: str = "t", **options: Any) -> lakescan.Table:
        return lakescan.table(self.name_of(table), **options)

    def rows(self, table: lakescan.Table | None = None) -> list[tuple[int, str | None, int]]:
        found = (table or self.table()).scan().select("id", "part", "amount").to_arrow()
        return list(zip(*(found[name].to_pylist() for name in SCHEMA.names), strict=True))

    def trail(self, table: str, began: int) -> None:
        """Follow a table name: if another table has replaced its table, the stream must report it and starts again."""
        model = self.model_of(table)
        try:
            self.catch_up(f"trail of {table}", began, table)
        except (NoSuchTable, NotATable):
            if not model.was_missing(began):
                raise
        except InvalidOption as error:
            if "was recreated" not in str(error) or not model.was_missing(self.trails[table]):
                raise
            del self.followers[f"trail of {table}"]
        self.trails[table] = began

    def catch_up(self, name: str, began: int, table: str = "t") -> State:
        """Read a change stream from the follower's offset, each change once; return its replica."""
        offset, replica = self.followers.get(name, (None, {}))
        replica = dict(replica)
        how: dict[str, Any] = {"readChangeFeed": True} if self.plan.format == "delta" else {"on_change": "changelog"}
        stream = lakescan.table(self.name_of(table)).stream(start=offset, wait=False, **how)
        changes = [row for batch in stream for row in batch.to_pylist()]
        for row in sorted(changes, key=_order_of(changes)):
            kind, own = row["_change_type"].lower(), (row["part"], row["amount"])
            if kind in ("delete", "update_preimage", "update_before"):
                if replica.pop(row["id"], None) != own:
                    raise Broken(f"a stream reports that the row {row['id']} {own} went, which it had not reported")
            else:
                if row["id"] in replica:
                    raise Broken(f"a stream reports twice the row {row['id']}")
                replica[row["id"]] = own
        self.followers[name] = stream.offset, replica
        if replica not in [each.state for each in self.model_of(table).versions[began:]]:
            raise Broken(f"the changes of a stream lead to rows of no version: {replica}")
        return replica

    def execute(self) -> Outcome:
        failure: BaseException | None = None
        catalogs.install(self.pointer)
        with inside(self.world, self.store):
            try:
                self._make()
                self.store.on_put, self.store.on_delete = self._on_put, self._on_delete
                self.pointer.on_commit = self._committed
                self.pointer.on_drop, self.pointer.on_rename = self._dropped, self._renamed
                self.world.run(self._work)
                self._last_checks()
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                failure = error
        ended: dict[str, int] = {}
        models = [self.model, *self.others.values()]
        for record in {number: each for model in models for number, each in model.records.items()}.values():
            ended[record.outcome] = ended.get(record.outcome, 0) + 1
        commits = sum(each.step is not None for model in models for each in model.versions)
        return Outcome(self.plan, self.world.history, self.world.faults, failure, commits, ended)

    def _make(self) -> None:
        """Make a table of two files, or of more with one per partition, so that there is something to compact."""
        properties = dict(self.plan.properties)
        parts = ["part"] if self.plan.partitioned else []
        is_delta = self.plan.format == "delta"
        log = "s3://sim/db/t/_delta_log/{:020d}.json"
        if is_delta:
            lakescan.save(_table(BEGINNING), self.name, format="delta", partition_by=parts, properties=properties)
        else:
            properties["format-version"] = self.plan.format.rpartition(" ")[2]
            found = lakescan.catalog(catalogs.NAME)
            found.create_table("db.t", SCHEMA, partition_by=parts, properties=properties).append(_table(BEGINNING))
        self.files.note(self.pointer.location or log.format(0))
        if self.plan.neighbour:
            self._make_neighbour(parts, properties)
        self.table().append(_table({k: v for k, v in FIRST.items() if k not in BEGINNING}))
        self.files.note(self.pointer.location or log.format(1))
        if any(step.kind in TRANSACTIONS for actor in self.plan.actors for step in actor.steps):
            lakescan.catalog(catalogs.NAME).create_table("db.u", SCHEMA, properties=properties)

    def _make_neighbour(self, parts: list[str], properties: dict[str, str]) -> None:
        """Make a table c at the location of t in another catalog: a copy, or a table created there.

        Both tables get a commit of their own afterwards: nothing in storage shows that a copy without a commit exists.
        """
        catalog, state = lakescan.catalog(catalogs.OTHER), {}
        if self.plan.neighbour == "registered":
            catalog.register_table("db.c", self.pointer.location)
            state = dict(BEGINNING)
        else:
            location = "s3://sim/db/t"
            catalog.create_table("db.c", SCHEMA, location=location, partition_by=parts, properties=properties)
        self.table("c").append(_table({_OF_NEIGHBOUR: ("c", 0)}))
        files = self.neighbours["c"] = IcebergFiles(self.store)
        files.note(self.pointer.locations[("db", "c")])
        self.others["c"] = Model([{**state, _OF_NEIGHBOUR: ("c", 0)}], name="c", has_bank=False)

    def _work(self, actor: Actor, step: Step) -> None:
        world, models = self.world, self.models_of(step)
        records = [each.begin(step) for each in models]
        record = records[0]
        world.tell(actor, f"begins {step}")
        try:
            ACTIONS[step.kind](self, step, record)
            outcome, said = "made", ""
        except CommitStateUnknown as error:
            outcome, said = "unknown", str(error)
        except (NoSuchTable, TableExists) as error:
            if actor.is_dead:
                raise Killed from None
            if not self._is_true(error, models, records):
                raise Broken(f"{step} failed without a cause: {type(error).__name__}: {error}") from error
            said = f"{type(error).__name__}: {error}"
            outcome = "made" if any(each in said for each in _DONE) else "refused"
            if step.table != "t" and "dropped by another writer" in said:  # a commit whose answer was lost came before
                outcome = "unknown"
        except (CommitConflict, StorageError, QueryFailed) as error:
            if actor.is_dead:
                raise Killed from None
            if not self._has_cause(error, record):
                raise Broken(f"{step} failed without a cause: {type(error).__name__}: {error}") from error
            outcome, said = "refused", f"{type(error).__name__}: {error}"
            if step.kind in NAMED and any(each in said for each in _DONE):
                outcome = "made"
        except GONE as error:
            if step.kind != "follow" or not self._is_gone(error):
                raise Broken(f"{step} raised {type(error).__name__}: {error}") from error
            outcome, said = "refused", f"{type(error).__name__}: {error}"
        except UnsupportedFeature as error:
            if actor.is_dead:
                raise Killed from None
            is_partitioned = step.kind in ("equality", "convert") and self._has_made("field")
            if not is_partitioned and not self._has_left_over(step, error):
                raise Broken(f"{step} raised {type(error).__name__}: {error}") from error
            outcome, said = "refused", f"{type(error).__name__}: {error}"
        except (SchemaMismatch, InvalidStatement) as error:
            if actor.is_dead:
                raise Killed from None
            is_new = "no column 'c" in str(error) and self._has_made("column")
            if step.kind not in ("upsert", "equality", "merging stream") or not is_new:
                raise Broken(f"{step} raised {type(error).__name__}: {error}") from error
            outcome, said = "refused", f"{type(error).__name__}: {error}"
        except LakescanError as error:
            if actor.is_dead:
                raise Killed from None
            raise Broken(f"{step} raised {type(error).__name__}: {error}") from error
        if actor.is_dead:
            raise Killed
        world.tell(actor, f"{step.kind} is {outcome} {said[:300]}")
        for model, each in zip(models, records, strict=True):
            model.end(each, outcome)

    def _is_true(self, error: LakescanError, models: list[Model], records: list[Record]) -> bool:
        """Return whether an error about the existence of a table was true at some time during the step."""
        if records[0].step.kind not in (*NAMED, "create", "trail") and records[0].step.table == "t":
            return False
        if isinstance(error, NoSuchTable):
            return any(model.was_missing(each.began) for model, each in zip(models, records, strict=True))
        return any(model.was_there(each.began) for model, each in zip(models, records, strict=True))

    def _has_cause(self, error: LakescanError, record: Record) -> bool:
        """Return whether an error has a cause: a fault in the step, a concurrent commit, or expired files."""
        step = record.step
        has_fault = any(each[0] == step.number for each in self.world.faults)
        if isinstance(error, CommitConflict):
            models = self.models_of(step)
            since = [each.step for model in models for each in model.versions[model.records[step.number].began + 1 :]]
            return has_fault or any(each != step for each in since)
        return has_fault or (isinstance(error, MissingFile) and self.has_expired)

    def _is_gone(self, error: LakescanError) -> bool:
        """Return whether a stream has a reason to stop: its commits have expired, or the columns changed."""
        return self.has_expired if isinstance(error, NoSuchSnapshot) else self._has_made("column")

    def _has_made(self, kind: str) -> bool:
        """Return whether a step of this kind was committed."""
        return any(each.step is not None and each.step.kind == kind for each in self.model.versions)

    # Notifications from the store and the catalog

    def _on_put(self, key: str, data: bytes) -> None:
        folder, _, name = key.rpartition("/")
        if self.plan.format == "delta" and folder.endswith("_delta_log") and name.removesuffix(".json").isdigit():
            self._committed(("db", folder.split("/")[-2]), f"s3://{key}")

    def _committed(self, name: tuple[str, ...], location: str) -> None:
        _, step = self.world.author
        assert step is not None
        table = name[-1]
        model = self.model_of(table)
        self.world.tell(None, f"version {model.newest + 1} of {table} by {step.kind}")

        def check() -> None:
            files = self.files if model is self.model else self.neighbours.get(table)
            if files is not None:
                files.note(location)
                check_there(files, self.store)
            model.commit(step, self.rows(lakescan.table(self.name_of(table))))

        self.world.waiting.append(check)

    def _dropped(self, name: tuple[str, ...]) -> None:
        _, step = self.world.author
        assert step is not None
        self.world.tell(None, f"{name[-1]} is gone by {step.kind}")
        model = self.model_of(name[-1])
        self.neighbours.pop(name[-1], None)
        self.world.waiting.append(
            lambda: model.change(step, None, [applied(step, model.versions[-1].state, model.name)])
        )

    def _renamed(self, name: tuple[str, ...], new: tuple[str, ...]) -> None:
        _, step = self.world.author
        assert step is not None
        self.world.tell(None, f"{name[-1]} is {new[-1]} by {step.kind}")
        old, now = self.model_of(name[-1]), self.model_of(new[-1])

        def check() -> None:
            state, before = old.versions[-1].state, now.versions[-1].state
            found = state_of(self.rows(lakescan.table(self.name_of(new[-1]))), has_bank=False)
            if before is not None:
                raise Broken(f"{step} took the place of another table")
            old.change(step, None, [applied(step, state, old.name)])
            now.change(step, found, [state])

        self.world.waiting.append(check)

    def _has_left_over(self, step: Step, error: UnsupportedFeature) -> bool:
        """Return whether a clean-up met metadata of a purged table, or of a failed commit, whose files are gone."""
        is_possible = self.plan.neighbour and ("c" not in self.neighbours or self.world.faults)
        return bool(is_possible) and step.kind in _CLEANING and "cannot be read" in str(error)

    def _on_delete(self, key: str) -> None:
        reasons = [(each, files.why_kept(key)) for each, files in [("t", self.files), *self.neighbours.items()]]
        if why := "; ".join(f"of {table}: {reason}" for table, reason in reasons if reason):

            def check() -> None:
                raise Broken(f"the file {key} is removed, but {why}")

            self.world.waiting.append(check)

    def _last_checks(self) -> None:
        newest = self.model.versions[-1].state
        if state_of(self.rows()) != newest:
            raise Broken("the table differs from the result of its last commit")
        for files in (self.files, *self.neighbours.values()):
            check_there(files, self.store)
        self._read_earlier()
        self._check_others()
        for name in self.followers:
            if name.startswith("trail"):
                continue
            try:
                replica = self.catch_up(name, 0)
            except GONE as error:
                if not self._is_gone(error):
                    raise Broken(f"{name} cannot go on: {type(error).__name__}: {error}") from error
                continue
            if replica != newest:
                raise Broken(f"{name} did not get all changes: {difference(replica, newest)}")

    def _check_others(self) -> None:
        """Check that committed other tables exist, and that transactions are in all of their tables or none."""
        for table, model in self.others.items():
            try:
                found = state_of(self.rows(lakescan.table(self.name_of(table))), has_bank=False)
            except (NoSuchTable, NotATable):
                found = None
            expected = model.versions[-1].state
            if found != expected:
                raise Broken(f"the table {table} has the rows {found}, not {expected}")
            for number, record in model.records.items():
                if record.step.kind in TRANSACTIONS and not self._is_whole(record, self.model.records[number]):
                    raise Broken(f"{record.step} was committed to only one of its tables")

    def _is_whole(self, other: Record, own: Record) -> bool:
        """Return whether a transaction is in both tables or in neither; a missing row leaves a table unchanged."""
        if own.step.kind == "move" and other.commits and not own.commits:
            return any(own.step.values[0] not in (each.state or {}) for each in self.model.versions[own.began :])
        return bool(other.commits) == bool(own.commits)

    def _read_earlier(self) -> None:
        """Check that each version that has not expired is unchanged."""
        option = "versionAsOf" if self.plan.format == "delta" else "snapshot_id"
        read: dict[int, State] = {}
        for place, number in list(self.files.readable().items())[:-1]:
            if number not in read:
                read[number] = state_of(self.rows(self.table(**{option: number})))
            if read[number] != self.model.versions[place].state:
                raise Broken(
                    f"version {place} was changed: {difference(read[number], self.model.versions[place].state)}"
                )


def _order_of(changes: list[dict[str, Any]]) -> Callable[[dict[str, Any]], Any]:
    """Order changes by commit; within a commit, deletes before inserts. Ordinals restart in each batch."""
    by = "_commit_version" if changes and "_commit_version" in changes[0] else "_commit_snapshot_id"
    places = {commit: place for place, commit in enumerate(dict.fromkeys(row[by] for row in changes))}
    going = ("delete", "update_preimage", "update_before")
    return lambda row: (places[row[by]], row["_change_type"].lower() not in going)


def run(plan: Plan) -> Outcome:
    """Run a plan."""
    if plan.format not in _WARM:  # imports during the first steps of a process use random numbers
        _WARM.add(plan.format)
        Run(warming(plan.format)).execute()
    outcome = Run(plan).execute()
    if next(_RUNS) % 20 == 0:
        gc.collect()
    return outcome
