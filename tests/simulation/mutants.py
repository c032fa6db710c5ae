"""Deliberate bugs, each of which the simulation must find."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

from pyroaring import BitMap64

from lakescan.api.stream import TableStream
from lakescan.delta.commit import commit_file as put
from lakescan.delta.commit import conflicts
from lakescan.delta.commit.commit import DeltaCommit
from lakescan.delta.data_files import deletion_vector_writer as vector_files
from lakescan.delta.log import reader
from lakescan.delta.target import DeltaTarget
from lakescan.errors import LakescanError, NoSuchSnapshot, SchemaChanged, StorageError
from lakescan.iceberg import target as iceberg_target
from lakescan.iceberg.commit import commit as iceberg_commit
from lakescan.iceberg.commit import commit_snapshot as publish
from lakescan.iceberg.commit import outcomes
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.conflicts import Validation
from lakescan.iceberg.data_files import position_deletes as row_deletes
from lakescan.iceberg.data_files.position_deletes import ExistingDeletes
from lakescan.iceberg.maintenance import expire_snapshots as expire
from lakescan.iceberg.metadata import pyiceberg_metadata as write
from lakescan.maintenance import orphans, purge
from lakescan.storage import put_if_absent
from tests.simulation.catalog import Pointer
from tests.simulation.plan import Plan
from tests.simulation.run import Outcome
from tests.simulation.seeds import plan_of


@dataclass(frozen=True)
class Mutant:
    """A bug: its description, its formats, and how it is injected."""

    name: str
    formats: tuple[str, ...]
    put_in: Callable[[], Any]
    kinds: tuple[str, ...] = ()  # kinds of steps that are more frequent in the search for it
    fault_rate: float | None = None  # if the bug depends on one kind of fault: how many calls fail
    fault_kind: str = "lost answer"
    seeds: int = 60  # the number of seeds within which it must be found


_DELTA, _ICEBERG = ("delta",), ("iceberg 2", "iceberg 3")


def _overwriting_put() -> Any:
    real = put_if_absent.put_if_absent

    def put_anyway(storage: Any, location: str, data: bytes) -> bool:
        if not real(storage, location, data):
            with storage.create(location) as file:
                file.write(data)
        return True

    return patch.object(put, "put_if_absent", put_anyway)


@contextmanager
def _forgotten_ids() -> Iterator[None]:
    """Disable both checks that recognize an earlier commit."""
    real = conflicts.WinningCommit.info.fget
    info = property(lambda self: {name: value for name, value in real(self).items() if name != put.ID})
    with patch.object(put, "_is_own", lambda *_: False), patch.object(conflicts.WinningCommit, "info", info):
        yield


def _repeated_offsets() -> Any:
    return patch.object(TableStream, "decode", lambda self, node: self.initial_offset())


def offsets_of_any_table() -> Any:
    """Let a stream continue with another table of the same name."""
    real = TableStream.encode
    return patch.object(TableStream, "encode", lambda self, offset: {**real(self, offset), "table": None})


def _streams_that_always_fail(error: type[LakescanError]) -> Any:
    """Let every resumed stream raise the error."""

    def decode(self: Any, node: Any) -> Any:
        raise error("the table is gone")

    return patch.object(TableStream, "decode", decode)


def _no_looks() -> Any:
    def outcome_of(name: str, error: Exception, *_: Any, **__: Any) -> Any:
        raise StorageError(str(error)) from error

    return patch.object(put, "outcome_of", outcome_of)


def _young_orphans() -> Any:
    return patch.object(orphans, "store_time", lambda storage, folder: datetime.now(UTC) + timedelta(days=3650))


@contextmanager
def _no_batches_remembered() -> Iterator[None]:
    with (
        patch.object(DeltaTarget, "has_committed", lambda self: False),
        patch.object(iceberg_commit, "has_transaction", lambda *_: False),
        patch("lakescan.iceberg.target.has_transaction", lambda *_: False),
    ):
        yield


def _overtaken() -> Any:
    return patch.object(Validation, "check", lambda *_: None)


def _forgotten_deletes() -> Any:
    def of(*arguments: Any, real: Any = ExistingDeletes.read) -> ExistingDeletes:
        return replace(real(*arguments), replaced_rows=BitMap64(), deleted=BitMap64())

    return patch.object(row_deletes.ExistingDeletes, "read", staticmethod(of))


def _same_number() -> Any:
    return patch.object(CommitBase, "sequence_number", property(lambda self: max(1, self.given.last_sequence_number)))


def _own_branch_alone() -> Any:
    real = publish._same_branches

    def same_branches(table: Any, branch: str, head: int | None) -> list[Any]:
        return [each for each in real(table, branch, head) if each.ref == branch]

    return patch.object(publish, "_same_branches", same_branches)


def _blind_to_removals() -> Any:
    real = conflicts.WinningCommit._file_conflict

    def of_files(self: Any, intent: Any, location: str) -> Any:
        return real(self, replace(intent, removed=intent.removed.slice(0, 0)), location)

    return patch.object(conflicts.WinningCommit, "_file_conflict", of_files)


def _without_applications() -> Any:
    real = conflicts.WinningCommit._table_conflict
    return patch.object(
        conflicts.WinningCommit, "_table_conflict", lambda self, intent: real(self, replace(intent, app_id=None))
    )


def _rows_of_old_vectors_forgotten() -> Any:
    """Drop the rows of a replaced vector from the new one."""
    real = vector_files.VectorWriter._existing

    def existing(self: Any, files: Any) -> Any:
        return {at: (key, BitMap64()) for at, (key, _) in real(self, files).items()}

    return patch.object(vector_files.VectorWriter, "_existing", existing)


def _swapped_anyway() -> Any:
    def swap(self: Any, name: Any, before: Any, after: str) -> bool:
        self.locations[name] = after
        self.on_commit(name, after)
        return True

    return patch.object(Pointer, "swap", swap)


@contextmanager
def _neighbours_overlooked() -> Iterator[None]:
    """Remove files as if no other table had metadata in the folder."""
    with (
        patch.object(iceberg_target, "neighbour_files", lambda *_: iter(())),
        patch.object(purge, "copy_files", lambda *_: iter(())),
    ):
        yield


def _checkpoints_without_transactions() -> Any:
    real = reader.checkpoint_actions

    def actions(location: str, storage: Any, names: tuple[str, ...]) -> Any:
        return iter(()) if names == ("txn",) else real(location, storage, names)

    return patch.object(reader, "checkpoint_actions", actions)


@contextmanager
def forgotten_records() -> Iterator[None]:
    """Forget transactions once their snapshots expire."""
    with (
        patch.object(iceberg_commit, "record_updates", lambda *_: ()),
        patch.object(expire, "move_records", lambda *_: ({}, [])),
    ):
        yield


@contextmanager
def _unordered_times() -> Iterator[None]:
    with (
        patch.object(publish, "next_time", lambda _: int(time.time() * 1000)),
        patch.object(write, "advance_snapshot_times", lambda updates, _: tuple(updates)),
        patch.object(write, "order_commit_times", lambda _, updated: updated),
    ):
        yield


def _unordered_versions() -> Any:
    return patch.object(
        DeltaCommit,
        "_in_commit_timestamp",
        lambda self, version, now, last: (
            {"inCommitTimestamp": now} if self._final_metadata.properties.in_commit_timestamps else {}
        ),
    )


_BOTH = (*_DELTA, *_ICEBERG)
_CHANGES = ("delete", "update", "overwrite part", "compact")
MUTANTS = (
    Mutant(
        "Delta's conflicts are not looked for",
        _DELTA,
        lambda: patch.object(conflicts.WinningCommit, "check", lambda *_: None),
        _CHANGES,
    ),
    Mutant("a commit of Delta replaces another's", _DELTA, _overwriting_put, ("append",)),
    Mutant("a commit is not known again after a lost answer", _DELTA, _forgotten_ids, ("append",), 0.3),
    Mutant("an error of the store counts as a failure", _DELTA, _no_looks, ("append",), 0.3),
    Mutant(
        "a branch may have moved on",
        _ICEBERG,
        lambda: patch.object(publish, "_same_branches", lambda *_: []),
        ("append",),
    ),
    Mutant("the catalog swaps without comparing", _ICEBERG, _swapped_anyway, ("append",)),
    Mutant("Iceberg's validation is left out", _ICEBERG, _overtaken, ("append", "delete part")),
    Mutant("files that others removed are not missed", _DELTA, _blind_to_removals, ("compact", "append")),
    Mutant(
        "a new vector of Delta forgets the rows of the old one", _DELTA, _rows_of_old_vectors_forgotten, ("delete",)
    ),
    Mutant(
        "a new vector of Delta takes the old one for none",
        _DELTA,
        lambda: patch.object(vector_files.VectorWriter, "_existing", lambda self, files: {}),
        ("delete",),
    ),
    Mutant(
        "an application's transaction is committed twice",
        _DELTA,
        _without_applications,
        ("stream",),
    ),
    Mutant("a sequence number is used twice", _ICEBERG, _same_number, ("equality",)),
    Mutant("other branches may have moved on", _ICEBERG, _own_branch_alone, ("branch", "delete")),
    Mutant(
        "every error of a catalog is a refusal",
        _ICEBERG,
        lambda: patch.object(outcomes, "is_refusal", lambda *_: True),
        ("append",),
        0.3,
        "late",
    ),
    Mutant(
        "deletes of rewritten files are not looked for",
        _ICEBERG,
        lambda: patch.object(Validation, "check_deletes", lambda *_: False),
        ("compact", "delete", "update"),
    ),
    # Transfers repeatedly change the same four rows of one file.
    Mutant("new deletes forget the old ones", ("iceberg 3",), _forgotten_deletes, ("transfer", "delete")),
    Mutant("files are orphans at once", _BOTH, _young_orphans, ("orphans", "append")),
    Mutant("a stream begins anew", _BOTH, _repeated_offsets, ("follow", "append")),
    Mutant(
        "a stream says that commits have expired",
        _BOTH,
        lambda: _streams_that_always_fail(NoSuchSnapshot),
        ("follow", "append"),
    ),
    Mutant(
        "a stream says that columns have changed",
        _BOTH,
        lambda: _streams_that_always_fail(SchemaChanged),
        ("follow", "append"),
    ),
    Mutant("times of commits are those of clocks", _ICEBERG, _unordered_times, ("append", "property")),
    Mutant("in-commit timestamps are those of clocks", _DELTA, _unordered_versions, ("append",), seeds=120),
    Mutant("transactions are forgotten as their snapshots expire", _ICEBERG, forgotten_records, ("replay", "append")),
    Mutant("checkpoints forget transactions", _DELTA, _checkpoints_without_transactions, ("replay", "append")),
    Mutant("files of a table at the same location are not looked for", _ICEBERG, _neighbours_overlooked, ("purge",)),
    Mutant("batches of streams are not remembered", _BOTH, _no_batches_remembered, ("stream",)),
)


def find(mutant: Mutant, seeds: range, run: Callable[[Plan], Outcome]) -> tuple[int, Outcome] | None:
    """Return the number of seeds until the bug is found, and the outcome; None if it is not found."""
    for number, seed in enumerate(seeds, 1):
        plan = plan_of(seed, mutant.formats[seed % len(mutant.formats)], mutant.kinds)
        if mutant.fault_rate is not None:
            plan = replace(plan, fault_rate=mutant.fault_rate, fault_kinds=(mutant.fault_kind,))
        with mutant.put_in():
            outcome = run(plan)
        if outcome.failure is not None:
            return number, outcome
    return None
