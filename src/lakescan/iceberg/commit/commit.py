"""Commit to an Iceberg table through its catalog: appends, overwrites, rewrites and row-level changes.

If a commit returns an error, or its response is lost, the table is checked for the snapshot id. Then the commit has
succeeded, has definitely failed, or its state is unknown. Files written for a failed commit are removed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import compress
from time import perf_counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.retries import APPENDS, COMMITS, Attempts, RetryPolicy
from lakescan.errors import CommitConflict
from lakescan.formats.snapshot_refs import RefKind
from lakescan.iceberg.alter.schema_evolution import SchemaEvolution
from lakescan.iceberg.commit.commit_base import CommitBase
from lakescan.iceberg.commit.commit_collector import register_redo
from lakescan.iceberg.commit.commit_snapshot import commit_snapshot, record_updates
from lakescan.iceberg.commit.conflicts import Rebase, Validation
from lakescan.iceberg.commit.file_changes import DELETE_FILES, SnapshotChanges, added_files
from lakescan.iceberg.commit.not_null_checks import check_required
from lakescan.iceberg.commit.outcomes import FailedCommit, check_refusal, raise_refusal, reload_table, wait_before_retry
from lakescan.iceberg.commit.reachable_files import files_since
from lakescan.iceberg.commit.rewrite_manifests import ManifestRewrite
from lakescan.iceberg.commit.row_delta import check_row_delta, row_delta_operation, row_delta_validation
from lakescan.iceberg.commit.snapshot_producer import NewSnapshot, SnapshotProducer
from lakescan.iceberg.data_files.table_writes import IcebergWrites
from lakescan.iceberg.metadata.application_transactions import EPOCH, QUERY, has_transaction
from lakescan.iceberg.metadata.table_metadata import MAIN, TableMetadata
from lakescan.iceberg.table import IcebergTable
from lakescan.storage.removal import discard
from lakescan.writing.table_writes import WrittenDeletes, WrittenFile

if TYPE_CHECKING:
    from pyiceberg.table import Table

REPLACES_PARTITIONS = "replace-partitions"  # the summary key of dynamic overwrites
STAGED_ID = "wap.id"  # the summary key of a staged snapshot, as in Iceberg's Spark writer


@dataclass(frozen=True)
class IcebergCommit:
    """One commit, based on the snapshot of the table when it was opened.

    - `table`: pyiceberg's table; `opened` is the same table as read by lakescan.
    - `properties`: additions to the new snapshot's summary.
    - `epoch`: the application (or streaming query) id and the number of its transaction, which is committed only once.
    - `wap_id`: the snapshot is staged under this id, and the branch does not move until the snapshot is published.
    - `adds`: columns that the commit adds to the table.
    - `on_commit`: called with the new snapshot, the number of attempts, and their duration in seconds.
    """

    table: Table
    writes: IcebergWrites
    opened: IcebergTable
    branch: str = MAIN
    properties: Mapping[str, str] = field(default_factory=dict)
    epoch: tuple[str, int] | None = None
    wap_id: str | None = None
    adds: SchemaEvolution | None = None
    on_commit: Callable[[NewSnapshot, int, float], None] | None = field(default=None, compare=False)
    _committed: list[NewSnapshot] = field(default_factory=list, compare=False, repr=False)

    def append(self, files: Iterable[WrittenFile]) -> None:
        """Append files; the commit is retried after concurrent commits.

        Raises `CommitConflict` if the attempts run out or another writer has committed the epoch, and
        `CommitStateUnknown`.
        """
        written = list(files)
        self._commit("append", lambda base, _: SnapshotChanges(added_files(written, base)), None, APPENDS)

    def replace(
        self,
        removed: Collection[str],
        files: Iterable[WrittenFile],
        validation: Validation,
        *,
        is_dynamic: bool = False,
    ) -> None:
        """Replace data files; with `is_dynamic`, the removed files are all files in the partitions of the new files.

        The commit is retried after concurrent commits that do not conflict with it. Raises `CommitConflict` if one
        conflicts or the attempts run out, and `CommitStateUnknown`.
        """
        written, gone = list(files), pa.array(list(removed), pa.string())
        properties = {**self.properties, REPLACES_PARTITIONS: "true"} if is_dynamic else self.properties
        commit = replace(self, properties=properties)
        commit._commit(
            "overwrite", lambda base, _: SnapshotChanges(added_files(written, base), gone), validation, COMMITS
        )

    def rewrite(
        self,
        removed: Collection[str],
        files: Iterable[WrittenFile],
        validation: Validation,
        deletes: Sequence[tuple[str, int | None]] = (),
        *,
        keeps_sequence_number: bool = False,
    ) -> None:
        """Replace data files with others that have the same rows, in a `replace` snapshot, which streams skip.

        `deletes` are delete files (with the offset of a vector, or None) to remove as well if they still exist. With
        `keeps_sequence_number`, new files have the last sequence number of the opened table. See `replace`.
        """
        written, gone = list(files), pa.array(list(removed), pa.string())
        start = self.base.sequence_number - 1 if keeps_sequence_number and self.base.format_version > 1 else None
        paths, offsets = [path for path, _ in deletes], [offset for _, offset in deletes]
        unused = pa.table([paths, offsets], schema=DELETE_FILES)

        def changes(base: CommitBase, _: Rebase | None) -> SnapshotChanges:
            return SnapshotChanges(added_files(written, base), gone, unused_deletes=unused, sequence_number=start)

        self._commit("replace", changes, validation, COMMITS)

    def row_delta(self, changes: SnapshotChanges, validation: Validation) -> None:
        """Commit a row delta: data files and delete files, added and removed (Java's `RowDelta`).

        `validation` describes the rows that were read. The data files of added delete files and vectors are added to
        it. For delete files with an unknown `referenced_data_file`, their data files must be in
        `validation.referenced`. Raises the errors of `replace`, and `UnsupportedFeature` for delete files that the
        table's format version does not have.
        """
        whole = row_delta_validation(changes, validation)

        def check_changes(base: CommitBase, rebase: Rebase | None) -> SnapshotChanges:
            check_row_delta(changes, whole, base.format_version, self._where)
            return changes

        self._commit(row_delta_operation(changes), check_changes, whole, COMMITS)

    def upsert(self, files: Iterable[WrittenFile], deletes: Iterable[WrittenFile]) -> None:
        """Commit new data files, and equality deletes that apply to all rows that the table had before; see `append`.

        No concurrent commit conflicts, except that `CommitConflict` is raised if one changed the partitioning, because
        equality deletes apply only to files of their own partition spec.
        """
        written, keys, spec = list(files), list(deletes), self.opened.metadata.default_spec_id

        def changes(base: CommitBase, rebase: Rebase | None) -> SnapshotChanges:
            if base.metadata.default_spec_id != spec and not base.metadata.specs[spec].is_unpartitioned:
                raise CommitConflict(f"{self._where}: another writer changed the partitioning. Upsert the rows again.")
            return SnapshotChanges(added_files(written, base), added_deletes=added_files(keys, base))

        known = changes(self.base, None)
        self._commit(row_delta_operation(known), changes, None, APPENDS)

    def change(
        self,
        removed: Collection[str],
        deletes: Sequence[WrittenDeletes],
        files: Iterable[WrittenFile],
        validation: Validation,
        empty_operation: str = "overwrite",
    ) -> None:
        """Commit row-level changes: data files to remove, position deletes of others, and new data files.

        `empty_operation` is the operation of a snapshot without any of these.

        With `validation.ignores_deletes`, data files that concurrent commits removed with all their rows are left out
        of the commit, and delete files that apply only to these are discarded. Raises the errors of `replace`.
        """
        whole = RowChange(tuple(removed), tuple(deletes), tuple(files))
        made = whole
        checked = replace(validation, referenced=whole.delete_targets, vectors=whole.vectors)

        def changes(base: CommitBase, rebase: Rebase | None) -> SnapshotChanges:
            if deletes:
                self._check_version(base)
            nonlocal made
            made = whole
            if rebase is not None and validation.ignores_deletes:
                made = whole.exclude(rebase.deleted_whole)
            found = made.file_changes(base)
            check_row_delta(found, checked, base.format_version, self._where)
            return found

        is_empty = not (removed or deletes or whole.files)
        self._commit(empty_operation if is_empty else whole.operation, changes, checked, COMMITS)
        needless = sorted({each.location for each in whole.deletes} - {each.location for each in made.deletes})
        storage, known = self.writes.storage, set(self.opened.metadata.snapshots)
        discard(storage, needless, lambda: files_since(reload_table(copy(self.table), storage)[1], known))

    def rewrite_deletes(
        self, removed: Sequence[str], deletes: Sequence[WrittenDeletes], sequence_number: int | None
    ) -> None:
        """Replace position delete files with deletes of the same rows, which get this data sequence number.

        Raises `CommitConflict` if a concurrent commit removed one of the files, or changed rows of data files with new
        vectors. See `replace`.
        """
        whole = RowChange((), tuple(deletes), ())
        read = Validation.create(self.base, referenced=whole.vectors, vectors=whole.vectors)
        gone = pa.table([list(removed), [None] * len(removed)], schema=DELETE_FILES)

        def changes(base: CommitBase, _: Rebase | None) -> SnapshotChanges:
            self._check_version(base)
            return SnapshotChanges(
                added_deletes=whole.added_deletes(base), removed_deletes=gone, deletes_sequence_number=sequence_number
            )

        self._commit("replace", changes, read, COMMITS)

    def _check_version(self, base: CommitBase) -> None:
        if base.format_version != self.base.format_version:
            raise CommitConflict(
                f"{self._where}: another writer upgraded the table to format version {base.format_version}, which "
                "writes deletes differently. Run the statement again."
            )

    def replace_equality(self, deletes: Sequence[WrittenDeletes], gone: Sequence[str]) -> None:
        """Commit position deletes instead of the equality delete files `gone`, in a `replace` snapshot.

        The data files of the position deletes must still exist. No concurrent commit may have added a data file that is
        as old as the equality deletes, because they would apply to its rows too. Raises the errors of `replace`.
        """
        whole, base = RowChange((), tuple(deletes), ()), self.base
        unused = pa.table([pa.array(list(gone), pa.string()), pa.nulls(len(gone), pa.int64())], schema=DELETE_FILES)
        read = Validation.create(base, referenced=whole.delete_targets, vectors=whole.vectors)

        def changes(now: CommitBase, rebase: Rebase | None) -> SnapshotChanges:
            numbers = (
                [] if rebase is None or not rebase.since else rebase.since.all_added["sequence_number"].to_pylist()
            )
            if any(number is None or number < base.sequence_number for number in numbers):
                raise CommitConflict(
                    f"{self._where}: another writer rewrote rows that these equality deletes apply to. Run the "
                    "conversion again."
                )
            found = replace(whole.file_changes(now), unused_deletes=unused)
            check_row_delta(found, read, now.format_version, self._where)
            return found

        self._commit("replace", changes, read, COMMITS)

    @property
    def base(self) -> CommitBase:
        """The branch as it was when the table was opened."""
        return self._base(self.table, self.opened)

    def rewrite_manifests(self) -> Mapping[str, str] | None:
        """Rewrite manifests; the commit is retried after concurrent commits.

        Returns the new snapshot's summary, or None if there is nothing to rewrite. Raises `CommitConflict` if the
        attempts run out, and `CommitStateUnknown`.
        """
        made: list[ManifestRewrite] = []

        def attempt(table: Table, now: IcebergTable) -> FailedCommit | None:
            producer = ManifestRewrite(
                self._base(table, now), self.writes.storage, "replace", SnapshotChanges(), self._summary
            )
            made[:] = [producer] if producer.is_needed else []
            return self._publish(table, now, producer) if made else None

        self._retry(attempt, COMMITS)
        return made[0].summary if made else None

    def _commit(
        self,
        operation: str,
        changes: Callable[[CommitBase, Rebase | None], SnapshotChanges],
        validation: Validation | None,
        retries: RetryPolicy,
    ) -> None:
        """Produce a snapshot and commit it, and retry after each concurrent commit that does not conflict with it.

        `changes` returns the file changes for a base. If `validation` is None, no concurrent commit conflicts.
        """

        def attempt(table: Table, now: IcebergTable) -> FailedCommit | None:
            base, storage = self._base(table, now), self.writes.storage
            rebase = None if validation is None else Rebase.create(validation, base, storage)
            found = changes(base, rebase)
            # The first snapshot of a branch replaces nothing, so it is an append.
            is_append = operation == "overwrite" and base.head is None and bool(found.added)
            done = "append" if is_append else operation
            if operation != "replace":  # a `replace` snapshot adds no new rows
                check_required(self.opened.metadata.schema, now.metadata.schema, self._where)
            return self._publish(table, now, SnapshotProducer(base, storage, done, found, self._summary, rebase))

        self._retry(attempt, retries, fits_any=validation is None and self.adds is None)

    def _retry(
        self,
        attempt: Callable[[Table, IcebergTable], FailedCommit | None],
        retries: RetryPolicy,
        *,
        fits_any: bool = False,
    ) -> None:
        def redo(table: Table, now: IcebergTable) -> None:
            self._check_epoch(now)
            if (failed := attempt(table, now)) is not None:
                raise failed.error

        policy = self.opened.metadata.table_properties.retry_policy(retries)
        attempts, table, now = Attempts(policy), copy(self.table), self.opened
        started, number = perf_counter(), 0
        while True:
            number += 1
            with register_redo(table, redo, fits_any=fits_any):
                failed = attempt(table, now)
            if failed is None:
                if self.on_commit is not None and self._committed:
                    self.on_commit(self._committed[-1], number, perf_counter() - started)
                return
            self._check_epoch(failed.now)
            if self.adds is not None:
                check_refusal(failed, self._where)
            wait_before_retry(attempts, self._where, failed)
            table, now = failed.table, failed.now

    def _check_epoch(self, now: IcebergTable) -> None:
        if self.epoch is not None and has_transaction(now.metadata, self.branch, *self.epoch):
            raise CommitConflict(f"{self._where}: another writer has committed batch {self.epoch[1]}")

    def _base(self, table: Table, now: IcebergTable) -> CommitBase:
        if self.branch != MAIN:
            self._check_branch(now.metadata)
        if self.adds is not None:
            made = self.adds.apply(table, now)
            return CommitBase(made.metadata, made.given, self.branch)
        return CommitBase(now.metadata, table.metadata, self.branch)

    def _check_branch(self, now: TableMetadata) -> None:
        """Raise `CommitConflict` if the branch was removed or is now a tag, or main got rows before a new branch."""
        before, reference = self.opened.metadata, now.refs.get(self.branch)
        if reference is not None and reference.kind != RefKind.BRANCH:
            raise CommitConflict(f"{self._where}: {self.branch!r} is now a tag. Choose another branch.")
        if reference is None and self.branch in before.refs:
            raise CommitConflict(
                f"{self._where}: another writer removed the branch {self.branch!r}. Write to it again."
            )
        if self.branch not in before.refs and now.current_snapshot_id is not None:
            raise CommitConflict(
                f"{self._where}: another writer wrote the table's first rows, which the branch {self.branch!r} must "
                "include. Write to it again."
            )

    def _publish(self, table: Table, now: IcebergTable, producer: SnapshotProducer) -> FailedCommit | None:
        known, storage, is_staged = set(self.opened.metadata.snapshots), self.writes.storage, self.wap_id is not None
        then = record_updates(producer, self.epoch)
        if self.adds is None:
            return commit_snapshot(
                table, producer, known, storage, then, is_staged=is_staged, committed=self._committed
            )
        made = self.adds.apply(table, now)
        with raise_refusal():
            return commit_snapshot(
                *(table, producer, known, storage, then, made.requirements),
                first=made.updates,
                is_staged=is_staged,
                committed=self._committed,
            )

    @property
    def _summary(self) -> dict[str, str]:
        epoch = {} if self.epoch is None else {QUERY: self.epoch[0], EPOCH: str(self.epoch[1])}
        staged = {} if self.wap_id is None else {STAGED_ID: self.wap_id}
        return {**self.properties, **epoch, **staged}

    @property
    def _where(self) -> str:
        return ".".join(self.table.name())


@dataclass(frozen=True)
class RowChange:
    """A row-level change: locations of data files to remove, position deletes of other files, and new data files."""

    removed: tuple[str, ...]
    deletes: tuple[WrittenDeletes, ...]
    files: tuple[WrittenFile, ...]

    @property
    def operation(self) -> str:
        """The operation of the snapshot, as in Java's `BaseRowDelta` and `BaseOverwriteFiles`.

        It is append without removed files and deletes, delete without new files, else overwrite.
        """
        if not self.removed and not self.deletes:
            return "append"
        return "overwrite" if self.files else "delete"

    @property
    def delete_targets(self) -> pa.Array:
        """The locations of the data files that the deletes apply to, one for each delete."""
        return pa.array([each.path for each in self.deletes], pa.string())

    @property
    def vectors(self) -> pa.Array:
        """The locations of the data files whose deletes are deletion vectors, rather than in position delete files."""
        files = (each.details["file"].details for each in self.deletes)
        is_vector = pa.array(["content_offset" in each for each in files], pa.bool_())
        return self.delete_targets.filter(is_vector)

    def exclude(self, is_gone: Callable[[pa.Array], pa.Array]) -> RowChange:
        """Return the change without the data files that concurrent commits removed, as `is_gone` returns.

        These are not removed again, and need no deletes. `is_gone` maps locations to a mask.
        """
        removed = pc.invert(is_gone(pa.array(self.removed, pa.string()))).to_pylist()
        stays = pc.invert(is_gone(self.delete_targets)).to_pylist()
        return replace(
            self, removed=tuple(compress(self.removed, removed)), deletes=tuple(compress(self.deletes, stays))
        )

    def file_changes(self, base: CommitBase) -> SnapshotChanges:
        """Return the file changes on a base; raises `CommitConflict` if the base lacks the partition spec of a file."""
        return SnapshotChanges(
            added_files(self.files, base),
            pa.array(self.removed, pa.string()),
            self.added_deletes(base),
            self._old_deletes,
            replaces_positions=True,
        )

    def added_deletes(self, base: CommitBase) -> dict[int, pa.Table]:
        """Return the added delete files by partition spec id.

        A file is included only once, although it may have deletes of several data files.
        """
        files = (each.details["file"] for each in self.deletes)
        by_place = {(each.location, each.details.get("content_offset")): each for each in files}
        return added_files(by_place.values(), base)

    @property
    def _old_deletes(self) -> pa.Table:
        places = dict.fromkeys(place for each in self.deletes for place in each.details["replaced"])
        paths, offsets = [path for path, _ in places], [offset for _, offset in places]
        return pa.table([paths, offsets], schema=DELETE_FILES)
