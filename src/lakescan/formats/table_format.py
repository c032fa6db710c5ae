"""The interface of a table format to the layers above: snapshots, schemas, candidate files, commits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Protocol

import pyarrow as pa

from lakescan.common.executors import PlanningExecutor
from lakescan.common.html import facts_table, section
from lakescan.common.schema import FieldMatching, Schema
from lakescan.common.types import Field
from lakescan.expressions.predicate import TRUE, Predicate, leaves
from lakescan.formats.increments import Commit, Increment, IncrementLimits, Offset, OffsetNames
from lakescan.formats.metadata_table import MetadataTable
from lakescan.formats.snapshot_refs import RefKind, SnapshotRef
from lakescan.planning.candidates import Candidates
from lakescan.planning.file_table import FileTable
from lakescan.planning.scan_report import FormatTerms, ScanMetrics


@dataclass(frozen=True)
class ChangeRange:
    """The commits whose changes to read (Delta): from a version or timestamp to another, both inclusive."""

    start_version: int | None = None
    start_timestamp: datetime | None = None
    end_version: int | None = None
    end_timestamp: datetime | None = None


@dataclass(frozen=True)
class AppendRange:
    """The commits whose appended rows, or with `changes` all changes, to read (Iceberg).

    `after` is exclusive, `upto` inclusive. Each is a snapshot id, a tag name, or a timestamp, which means the latest
    snapshot not after it.
    """

    after: int | str | datetime | None = None
    upto: int | str | datetime | None = None
    branch: str | None = None
    changes: bool = False


class StartAt(StrEnum):
    """Where a stream begins: with the whole table, or with one of its commits."""

    TABLE = "table"
    LATEST = "latest"
    EARLIEST = "earliest"
    COMMIT = "commit"
    TIME = "time"
    AFTER_LATEST = "after latest"
    AFTER_COMMIT = "after commit"
    AFTER_TIME = "after time"


@dataclass(frozen=True)
class StreamStart:
    """Where a stream begins. `commit` is set for a start at or after a commit, `time` for one at or after a time."""

    at: StartAt = StartAt.TABLE
    commit: int | str | None = None
    time: datetime | None = None


@dataclass(frozen=True)
class CommitRequest:
    """A request for the commits of a branch after `after`, or all retained commits if it is None.

    Files whose path matches `exclude` are not counted (Delta). Missing commits are an error, or are skipped without
    `fail_on_loss` (Delta).
    """

    after: int | None = None
    branch: str | None = None
    exclude: str | None = None
    fail_on_loss: bool = True


@dataclass(frozen=True)
class SnapshotSelector:
    """Which state of a table to read: at most one field is set; without any, the current state.

    `version` is a snapshot id or Delta version, or (as text, Iceberg) the name of a branch or tag. `wap_branch` is a
    branch of a table that is audited, if it is there, else the current state.
    """

    version: int | str | None = None
    timestamp: datetime | None = None
    branch: str | None = None
    wap_branch: str | None = None
    tag: str | None = None
    changes: ChangeRange | None = None
    appends: AppendRange | None = None

    def describe(self) -> str:
        """Return a description for messages."""
        chosen = {k.replace("_", "-"): v for k, v in self.__dict__.items() if v is not None}
        return ", ".join(f"{k} {v}" for k, v in chosen.items()) or "current"

    @property
    def ref_description(self) -> str:
        """The branch or tag that is read, for reports; empty for another state."""
        return "" if self.branch is self.wap_branch is self.tag is None else self.describe()


class SnapshotState:
    """What a format needs to plan a snapshot; each format has subclasses, and only they look inside.

    They differ in what the snapshot selects: rows of a state, changes of a range, or files of some commits.
    """

    @property
    def computed_changes(self) -> Increment | None:
        """The commits whose changes of rows are computed from added and removed files and deletes.

        None for a snapshot of rows, and for changes that the table recorded.
        """
        return None

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the planned files is that of their commits, which reads in process keep."""
        return False


@dataclass(frozen=True)
class Snapshot:
    """A resolved snapshot: its id (Iceberg snapshot id, Delta version), commit time, schema and table properties.

    - `id`: None for a table without snapshots.
    - `all_columns`: the schema's columns, then dropped ones, which equality deletes may still compare.
    - `metadata_columns`: can be selected and filtered by, too.
    - `state`: what the format plans it by.
    """

    id: int | None
    timestamp: datetime | None
    operation: str
    schema: Schema
    all_columns: Schema
    metadata_columns: tuple[Field, ...]
    properties: Mapping[str, str]
    state: SnapshotState

    def _repr_html_(self) -> str:
        """The snapshot as notebooks show it."""
        facts = {
            "id": "none" if self.id is None else str(self.id),
            "committed": "" if self.timestamp is None else f"{self.timestamp:%Y-%m-%d %H:%M:%S} UTC",
            "operation": self.operation,
            "columns": f"{len(self.schema.fields):,}",
        }
        return section("Snapshot", facts_table({name: value for name, value in facts.items() if value}))


@dataclass(frozen=True)
class FileRequest:
    """A request to plan files; planning increments `metrics`.

    The files come with statistics of the filter's columns and of those in `stats` (field ids). Where the format knows
    that every row of the files matches, files with `limit` rows are enough. `executor` reads metadata, subject to the
    planning modes (see `lakescan.common.executors`). `tested` is the filter that all rows are tested by: deletes of
    other rows need not be planned. `reads` are the fields that are read (their ids). `planned_by` is who is asked to
    plan: 'client' or, in a catalog whose server can, 'server'.
    """

    predicate: Predicate
    metrics: ScanMetrics
    limit: int | None = None
    stats: frozenset[int] = frozenset()
    executor: PlanningExecutor | None = None
    data_mode: str = "auto"
    delete_mode: str = "auto"
    tested: Predicate = TRUE
    reads: frozenset[int] = frozenset()
    planned_by: str | None = None

    def add_stats(self, field_id: int | None) -> FileRequest:
        """Return the request with the statistics of one more column; unchanged if `field_id` is None."""
        return self if field_id is None else replace(self, stats=self.stats | {field_id})

    def columns(self, schema: Schema) -> dict[int, Field]:
        """Return the columns of a schema whose statistics are requested, by id."""
        wanted = {leaf.bound_id for leaf in leaves(self.predicate)} | self.stats
        return {i: schema.by_id[i] for i in wanted if i in schema.by_id}


class TableFormat(Protocol):
    """An open table of one format."""

    @property
    def name(self) -> str:
        """'iceberg' or 'delta'."""

    @property
    def words(self) -> FormatTerms:
        """The format's own words, for people."""

    @property
    def location(self) -> str:
        """The table's root location."""

    @property
    def partitioning(self) -> str:
        """Description of the partition spec, for people."""

    @property
    def partition_names(self) -> Mapping[str, Collection[str]]:
        """The columns whose values partition files, by their names now, with the names of their partition fields."""

    @property
    def sort_order(self) -> str:
        """Description of the sort order that writers should follow, for people."""

    @property
    def comment(self) -> str | None:
        """What the table is about."""

    @property
    def format_version(self) -> str:
        """The version of the format: '2' (Iceberg), or what readers and writers must support, '3,7' (Delta)."""

    def snapshot(self, selector: SnapshotSelector) -> Snapshot:
        """Resolve a selector; raises `NoSuchSnapshot`."""

    def pin_snapshot(self, snapshot: Snapshot, selector: SnapshotSelector) -> tuple[str, SnapshotSelector]:
        """Return a location and selector that open the same snapshot in another process, despite later commits."""

    def history(self) -> pa.Table:
        """Return the commits of the table, newest last."""

    def refs(self, kind: RefKind) -> Mapping[str, SnapshotRef]:
        """Return the branches or tags by name; raises `UnsupportedFeature` if the format has none."""

    def ancestors(self, snapshot: Snapshot) -> pa.Table:
        """Return a snapshot and those that it was made from (`snapshot_id`, `committed_at`), newest first."""

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """Names of the table's metadata tables."""

    def metadata_table(self, name: str, snapshot: Snapshot) -> MetadataTable:
        """Return a metadata table of a snapshot; raises `InvalidOption` for an unknown name."""

    def matching(self, snapshot: Snapshot) -> FieldMatching:
        """Return how the table's fields are matched with the columns of data files."""

    def metadata_bytes(self, snapshot: Snapshot) -> int:
        """Estimate the bytes of metadata that planning a snapshot reads without pruning."""

    def metadata_facts(self, snapshot: Snapshot, files: FileTable, now: datetime) -> MetadataFacts:
        """Return what the metadata says of the table's upkeep; `files` are the snapshot's, with deletes."""

    def plan_files(self, snapshot: Snapshot, request: FileRequest) -> Iterator[Candidates]:
        """Yield, in parts, the live files that partition values and statistics do not rule out."""

    @property
    def identity(self) -> str | None:
        """The table's UUID or equivalent, which distinguishes it from a table created later at the same location."""

    def refresh(self) -> TableFormat:
        """Return the table refreshed with new commits; used by streams."""

    def reopen(self) -> TableFormat:
        """Open the table now at the same location or under the same name; raises `NotATable` or `NoSuchTable`."""

    @property
    def offset_names(self) -> OffsetNames:
        """The names of an offset's members in checkpoints."""

    @property
    def default_limits(self) -> IncrementLimits:
        """The limits of a stream's batch where the options set none."""

    def starting_point(self, start: StreamStart, branch: str | None = None) -> Offset:
        """Return the offset at which a stream begins; raises `NoSuchSnapshot`."""

    def commits(self, request: CommitRequest, snapshot: Snapshot) -> Iterator[Commit]:
        """Yield commits, oldest first; `Commit.obstacle` is relative to the schema of `snapshot`.

        Raises `NoSuchSnapshot` if the first requested commit was expired or removed.
        """

    def changes_between(
        self, start: int | str | datetime | None, end: int | str | datetime | None, identity: Sequence[str]
    ) -> SnapshotSelector:
        """Return the selector of the changes after the state `start`, up to and including `end`.

        Each is a snapshot id, a version, a time or the name of a tag; None is the beginning, or the current state.
        Raises `UnsupportedFeature` if columns of the `identity` of rows cannot be taken into account, `InvalidOption`
        for a state that the format does not have.
        """

    def changes_from(self, start: int | str | datetime, end: int | str | datetime | None) -> SnapshotSelector:
        """Return the selector of the changes from a state to another, both included; None is the current state.

        Each is a snapshot id, a version, a time or the name of a tag. Raises `NoSuchSnapshot`, and `InvalidOption` for
        a state that the format does not have.
        """

    def with_changes(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the schema of a stream of changes, which has extra columns."""

    def increment(self, snapshot: Snapshot, increment: Increment) -> Snapshot:
        """Return a snapshot that has only the files of an increment, with the schema of `snapshot`."""


@dataclass(frozen=True)
class ManifestFacts:
    """The manifests of a snapshot.

    - `rewritable`: how many of them a rewrite would replace, and `rewritable_bytes` their size.
    - `rewritten`: about how many would replace them.
    """

    count: int = 0
    bytes: int = 0
    rewritable: int = 0
    rewritable_bytes: int = 0
    rewritten: int = 0


@dataclass(frozen=True)
class LogFacts:
    """The log of a version: its newest checkpoint, and the commits since.

    - `checkpoint`: the version of the checkpoint, None without one; `checkpoint_at`: when it was written.
    - `interval`: after how many commits writers should write the next.
    """

    commits: int
    commit_bytes: int
    checkpoint: int | None
    checkpoint_at: datetime | None
    checkpoint_bytes: int
    interval: int


@dataclass(frozen=True)
class KeptStates:
    """The snapshots or versions that can still be read, and the files that only they need.

    - `expirable`: how many expire now by the table's own properties; 0 where the format expires none by a command.
    - `files`, `bytes`: files of data and deletes that the current state has no more, as far as the metadata tells.
    - `removable_files`: the files that expiry and clean-up would remove now, at most: those of them, and metadata.
    - `removable_bytes`: the bytes of those of data and deletes.
    """

    count: int
    oldest: datetime | None = None
    expirable: int = 0
    files: int = 0
    bytes: int = 0
    removable_files: int = 0
    removable_bytes: int = 0


@dataclass(frozen=True)
class MetadataFacts:
    """What metadata says of upkeep.

    - `target_file_size`: bytes of a data file that writers aim at.
    - `bytes`: what is read before the first data file: metadata file and manifests, or checkpoint and commits.
    - `manifests`, `log`: the one that the format has.
    - `rewritable_deletes`: how many files of position deletes a rewrite would replace, and their bytes.
    - `owns_files`: whether files may be removed at all.
    - `clustering`: the columns that the table is clustered by; none if it is not.
    """

    target_file_size: int
    bytes: int
    kept: KeptStates
    manifests: ManifestFacts | None = None
    log: LogFacts | None = None
    rewritable_deletes: tuple[int, int] = (0, 0)
    owns_files: bool = True
    clustering: tuple[str, ...] = ()


@dataclass(frozen=True)
class TablePath:
    """A table's location, and what else its path selects: a state, and values of partition columns (None for null)."""

    location: str
    selector: SnapshotSelector | None = None
    partitions: tuple[tuple[str, str | None], ...] = ()
