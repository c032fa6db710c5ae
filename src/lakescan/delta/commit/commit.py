"""Commit to a Delta table with put-if-absent of the next log file; rebase on concurrent commits that do not conflict.

For catalog-managed tables, commits are proposed to the catalog instead (`delta/commit/staged_commits.py`). Every commit
has a unique id (`txnId` in commitInfo), which identifies it in the log if the store's response was lost.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.retries import APPENDS, Attempts, RetryPolicy
from lakescan.delta.commit.actions import CommitText, DeltaFileChanges, SetTransaction, json_text
from lakescan.delta.commit.commit_file import ID, commit_file, put_commit
from lakescan.delta.commit.conflicts import ROW_TRACKING, Intent, Reads, WinningCommit, row_id_mark
from lakescan.delta.commit.post_commit_hooks import run_post_commit_hooks
from lakescan.delta.commit.row_tracking import PRESERVED, assign_row_ids, needs_row_ids
from lakescan.delta.commit.staged_commits import check_managed_change, commit_staged
from lakescan.delta.data_files.delta_writes import DeltaWrites
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.catalog_managed import find_managed_table
from lakescan.delta.log.log_pieces import read_commits
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.log.replay import file_locations, has_vectors
from lakescan.delta.log.segment import LogFile, list_log, next_commits
from lakescan.delta.log.time_travel import has_in_commit_timestamp, in_commit_timestamp, modification_time
from lakescan.delta.metadata.protocol import Metadata, Protocol, check_columns
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.errors import (
    CommitConflict,
    ConflictCause,
    InvalidOption,
    MissingFile,
    NoSuchSnapshot,
    NotATable,
    StorageError,
)
from lakescan.options.write import WriteOptions
from lakescan.storage import FileEntry, Storage
from lakescan.tables.base import RewriteSettings
from lakescan.writing.table_writes import WrittenFile

_ENGINE = "lakescan"
_SINCE, _SINCE_TIME = DeltaProperties.in_commit_since.name, DeltaProperties.in_commit_since_time.name


# commitInfo fields that Delta defines: writers set them, or readers expect types other than text.
_OWN_MEMBERS = frozenset(
    [
        "inCommitTimestamp",
        "timestamp",
        "operation",
        "operationParameters",
        "operationMetrics",
        "isBlindAppend",
        "engineInfo",
        "readVersion",
        "isolationLevel",
        "txnId",
        "version",
        "job",
        "notebook",
        "tags",
    ]
)


def check_commit_properties(names: Iterable[str]) -> None:
    """Raise `InvalidOption` if a user's commitInfo property has the name of a field that Delta defines."""
    if own := sorted(_OWN_MEMBERS.intersection(names)):
        raise InvalidOption(f"snapshot-property.{own[0]}: Delta's commits already have a member {own[0]!r}")


@dataclass(frozen=True)
class Operation:
    """A commit's entry in the table's history: Delta's operation name, parameters and metrics.

    `is_blind_append` is whether the commit only adds files and depends on no others.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    is_blind_append: bool = False


def written_metrics(files: Sequence[WrittenFile]) -> dict[str, int]:
    """Return the metrics of data files that an operation adds, by Delta's names."""
    return {
        "numFiles": len(files),
        "numOutputRows": sum(each.rows for each in files),
        "numOutputBytes": sum(each.size for each in files),
    }


def write_operation(
    options: WriteOptions,
    mode: str,
    files: Sequence[WrittenFile],
    *,
    removed: int = 0,
    removed_bytes: int = 0,
    predicate: str | None = None,
    dynamic: bool = False,
    is_blind_append: bool = False,
) -> Operation:
    """Return the operation of a write, as Delta on Spark records it.

    Args:
        options: The options of the write. A micro-batch of a stream is recorded as STREAMING UPDATE.
        mode: Spark's save mode.
        files: The data files that the write adds.
        removed: The number of data files that it removes.
        removed_bytes: The size of these in bytes.
        predicate: The condition of the rows that it replaces; None for all rows.
        dynamic: Whether it replaces the partitions of its rows.
        is_blind_append: Whether it only adds files and depends on no others.
    """
    metrics = written_metrics(files)
    if options.output_mode is not None and options.transaction is not None:
        query, epoch = options.transaction
        stream = {"outputMode": options.output_mode, "queryId": query, "epochId": str(epoch)}
        metrics = {"numRemovedFiles": removed, "numAddedFiles": metrics.pop("numFiles"), **metrics}
        return Operation("STREAMING UPDATE", stream, metrics, is_blind_append)
    given: dict[str, Any] = {
        "mode": mode,
        "partitionBy": json_text(list(options.partition_by)),
        "predicate": predicate,
        "isDynamicPartitionOverwrite": dynamic or None,
        "canOverwriteSchema": options.overwrite_schema or None,
        "canMergeSchema": options.merge_schema or None,
    }
    if removed:
        metrics |= {"numRemovedFiles": removed, "numRemovedBytes": removed_bytes}
    parameters = {name: value for name, value in given.items() if value is not None}
    return Operation("WRITE", parameters, metrics, is_blind_append)


def rewrite_operation(
    how: RewriteSettings, writes: DeltaWrites, live: pa.Table, files: Sequence[WrittenFile]
) -> Operation:
    """Return the operation of a rewrite, OPTIMIZE or REORG, as Delta on Spark records it.

    Args:
        how: The settings of the rewrite.
        writes: The settings of the new files.
        live: The replaced files, rows of `live_adds`.
        files: The new files.
    """
    predicate = json_text([] if how.where is None else [how.where])
    metrics = rewritten_metrics(live, files)
    if how.purges:
        return Operation("REORG", {"predicate": predicate, "applyPurge": "true"}, metrics)
    columns = json_text(list(how.zorder_by))
    clustered, ordered = (columns, "[]") if writes.clustering else ("[]", columns)
    parameters = {"predicate": predicate, "zOrderBy": ordered, "clusterBy": clustered, "auto": "false"}
    if writes.clustering:
        parameters["isFull"] = json_text(how.is_full)
    return Operation("OPTIMIZE", parameters, metrics)


def rewritten_metrics(live: pa.Table, files: Sequence[WrittenFile]) -> dict[str, int]:
    """Return the metrics of an operation that replaces the files `live`, rows of `live_adds`; sizes in bytes."""
    metrics = {
        "numRemovedFiles": live.num_rows,
        "numRemovedBytes": pc.sum(live["size"]).as_py() or 0,
        "numDeletionVectorsRemoved": pc.sum(has_vectors(live)).as_py() or 0,
        "numAddedFiles": len(files),
        "numAddedBytes": sum(each.size for each in files),
    }
    if files:
        sizes = sorted(each.size for each in files)
        metrics |= {"minFileSize": sizes[0], "maxFileSize": sizes[-1]}
        metrics |= {f"p{percent}FileSize": sizes[len(sizes) * percent // 100] for percent in (25, 50, 75)}
    return metrics


@dataclass(frozen=True)
class DeltaCommit:
    """One commit to a table that was read at the version `base`.

    - `reads`: the files that the commit depends on, to detect conflicts.
    - `metadata`, `protocol`: the new ones, or None if unchanged.
    - `domains`: the changed metadata domains, as JSON text; None for a removed domain.
    - `properties`: commitInfo fields that the user adds.
    - `stamped`: a property of the new metadata that is set to the version of the commit.
    - `policy`: how often and how fast the commit is retried after concurrent commits.
    - `id`: the commit's unique id.
    """

    base: DeltaVersion
    storage: Storage
    operation: Operation
    files: DeltaFileChanges = field(default_factory=DeltaFileChanges)
    reads: Reads = field(default_factory=Reads)
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    transaction: SetTransaction | None = None
    domains: Mapping[str, str | None] = field(default_factory=dict, kw_only=True)
    properties: Mapping[str, Any] = field(default_factory=dict, kw_only=True)
    stamped: str | None = field(default=None, kw_only=True)
    policy: RetryPolicy = APPENDS
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def commit(self) -> int:
        """Commit and return the version; the data files must be written already. Then run post-commit hooks.

        Raises `CommitConflict` if a concurrent commit conflicts, `CommitStateUnknown` if the outcome cannot be
        determined, and `UnsupportedFeature` for a store without atomic creation or columns that a table cannot have.
        """
        self._check_same_table()
        before = self.base.protocol, self.base.metadata
        check_managed_change(self._location, self.storage, before, (self.protocol or before[0], self._final_metadata))
        if self.metadata is not None:
            check_columns(self.metadata)
        version, mark, attempts = self.base.segment.version + 1, self._row_id_mark(), Attempts(self.policy)
        last = next(iter(self.base.segment.commits[-1:]), None)
        while True:
            text = self._text(version, mark, last)
            if self._is_made(version, text):
                run_post_commit_hooks(self._location, version, text, before, self.storage)
                return version
            for file, winner in self._winners(version):
                if winner.info.get(ID) == self.id:
                    return winner.version
                winner.check(self._intent, self._location)
                last = file
                version, mark = winner.version + 1, mark if winner.row_ids is None else winner.row_ids
            attempts.wait_or_raise(
                self._location,
                CommitConflict(f"version {version - 1} is taken by another writer").because(ConflictCause.WRITE),
            )

    def _is_made(self, version: int, text: CommitText) -> bool:
        """Try to make the commit as this version; return False if the version already has a commit."""
        table = find_managed_table(self._location, self.storage)
        if table is None:
            return put_commit(self.storage, self._location, version, text.encode(), self.id)
        return commit_staged(table, self.storage, version, text, (self.base.protocol, self.base.metadata))

    @property
    def _location(self) -> str:
        return self.base.segment.location

    def _check_same_table(self) -> None:
        """Raise `CommitConflict` if the log no longer has the base's last file, since the table was then recreated.

        A commit after the versions of the recreated table would leave a gap in its log. For catalog-managed tables, the
        catalog makes this check. A checkpoint that another writer wrote again does not count as a recreated table.
        """
        if find_managed_table(self._location, self.storage) is not None:
            return
        segment = self.base.segment
        last = segment.commits[-1].entry if segment.commits else segment.checkpoint and segment.checkpoint.parts[0]
        if last and self.storage.look_up([last.location])[0] != last and not self._is_checkpoint_rewritten():
            raise CommitConflict(f"{self._location} was dropped and recreated since it was opened: open it again")

    def _is_checkpoint_rewritten(self) -> bool:
        """Return whether the base is only a checkpoint, and the log has that version of a table with the same id."""
        segment = self.base.segment
        if segment.commits:
            return False
        try:
            now = list_log(self._location, self.storage).segment(segment.version)
        except (NotATable, NoSuchSnapshot):
            return False
        return LogReader(self._location, self.storage).version(now).metadata.id == self.base.metadata.id

    @property
    def _final_metadata(self) -> Metadata:
        return self.metadata or self.base.metadata

    @cached_property
    def _intent(self) -> Intent:
        gone = self.files.removed, self.files.replaced
        return Intent(
            self.reads,
            file_locations(
                pa.concat_tables([each.select(["path"]) for each in gone])["path"].combine_chunks(), self._location
            ),
            self.files.changes_data,
            None if self.transaction is None else self.transaction.app_id,
            frozenset(self.domains),
            passes_blind_appends=self._final_metadata.properties.isolation == "WriteSerializable"
            and self.metadata is None,
        )

    def _text(self, version: int, mark: int | None, last: LogFile | None) -> CommitText:
        """Return the content of the commit as this version.

        Row ids continue after `mark`; None if files get no row ids. An in-commit timestamp is later than that of
        `last`, the previous commit; None if the base has it only in a checkpoint.
        """
        now = int(time.time() * 1000)
        times = {**self._in_commit_timestamp(version, now, last), "timestamp": now}
        more = {"readVersion": self.base.segment.version, "isolationLevel": self._isolation, **self.properties}
        if mark is not None and self._final_metadata.properties.row_tracking:
            more["tags"] = PRESERVED
        info = commit_info_of(replace(self.operation, is_blind_append=self._is_blind_append), self.id, times, more)
        text = CommitText(info, self.protocol, self._metadata(version, times), self.transaction, self.domains)
        if mark is None:
            return replace(text, files=self.files)
        added, mark_after = assign_row_ids(self.files.added, mark, version)
        marks = {ROW_TRACKING: f'{{"rowIdHighWaterMark":{mark_after}}}'} if mark_after != mark else {}
        return replace(text, files=replace(self.files, added=added), domains={**self.domains, **marks})

    @property
    def _is_blind_append(self) -> bool:
        """Whether the commit depends on no files, and at most adds some, as a commit that only changes metadata."""
        files = self.files
        is_empty = not any(each.num_rows for each in (files.added, files.removed, files.replaced, files.changes))
        return self.operation.is_blind_append or (is_empty and self.reads == Reads())

    def _metadata(self, version: int, times: Mapping[str, int]) -> Metadata | None:
        """Return the new metadata as this version commits it, or None if unchanged.

        Sets the property `stamped`, and the version and time at which in-commit timestamps were enabled.
        """
        if self.metadata is None:
            return None
        more = {} if self.stamped is None else {self.stamped: str(version)}
        if "inCommitTimestamp" in times:
            before, since = self.base.metadata, {_SINCE: str(version), _SINCE_TIME: str(times["inCommitTimestamp"])}
            if before.properties.in_commit_timestamps:
                since = {name: before.configuration[name] for name in since if name in before.configuration}
            more |= since
        return replace(self.metadata, configuration={**self.metadata.configuration, **more})

    @property
    def _isolation(self) -> str:
        return self._final_metadata.properties.isolation if self.files.changes_data else "SnapshotIsolation"

    def _in_commit_timestamp(self, version: int, now: int, last: LogFile | None) -> dict[str, int]:
        """Return the commitInfo field with an in-commit timestamp after the previous version's, or an empty dict."""
        if not self._final_metadata.properties.in_commit_timestamps:
            return {}
        before = last or LogFile(version - 1, self._entry(version - 1))
        if not has_in_commit_timestamp(before, self.base.metadata.properties):
            return {"inCommitTimestamp": max(now, modification_time(before) + 1)}
        return {"inCommitTimestamp": max(now, in_commit_timestamp(before, self.storage) + 1)}

    def _entry(self, version: int) -> FileEntry:
        location = commit_file(self._location, version)
        entry = self.storage.look_up([location])[0]
        if entry is None:
            raise MissingFile(f"{location} is missing: its time is needed for the next commit. Restore the file.")
        return entry

    def _row_id_mark(self) -> int | None:
        """Return the highest row id in use, -1 without any, or None if files get no row ids."""
        if not needs_row_ids(self.protocol or self.base.protocol, self._final_metadata):
            return None
        action = LogReader(self._location, self.storage).domain(self.base.segment, ROW_TRACKING)
        return -1 if action is None else row_id_mark(action)

    def _winners(self, version: int) -> list[tuple[LogFile, WinningCommit]]:
        """Return the commits starting at this version, oldest first, with their log files.

        They are other writers', or this one if its response was lost. Raises `StorageError` if none can be found.
        """
        columns = tuple(each.physical_name for each in self.base.partition_fields(self.base.schema()))
        commits = next_commits(self._location, version, self.storage)
        if not commits:
            raise StorageError(f"{commit_file(self._location, version)} exists, but cannot be found. Retry the write.")
        reader = ActionReader(self.storage, columns)
        texts = read_commits(commits, self.storage)
        return [(commit, WinningCommit(text, reader)) for commit, text in zip(commits, texts, strict=True)]


def commit_info_of(
    operation: Operation, own_id: str, times: Mapping[str, int], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of commitInfo; those of `times` come first, as an in-commit timestamp must.

    `own_id` becomes `txnId`, and `more` are additional fields.
    """
    return {
        **times,
        "operation": operation.name,
        "operationParameters": dict(operation.parameters),
        "isBlindAppend": operation.is_blind_append,
        "operationMetrics": {name: str(number) for name, number in operation.metrics.items()},
        "engineInfo": _ENGINE,
        **more,
        ID: own_id,
    }
