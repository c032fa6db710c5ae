"""The interface of a table format to the layers above: snapshots, schemas, candidate files and commits."""

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
    """The commits whose changes are read (Delta): from a version or timestamp to another, both inclusive."""

    start_version: int | None = None
    start_timestamp: datetime | None = None
    end_version: int | None = None
    end_timestamp: datetime | None = None


@dataclass(frozen=True)
class AppendRange:
    """The commits whose appended rows, or with `changes` all changes, are read (Iceberg).

    `after` is exclusive, `upto` inclusive. Each is a snapshot id, a tag name, or a timestamp, which stands for the
    newest snapshot that is not later.
    """

    after: int | str | datetime | None = None
    upto: int | str | datetime | None = None
    branch: str | None = None
    changes: bool = False

    def __str__(self) -> str:
        after = "" if self.after is None else f" after {self.after}"
        upto = "" if self.upto is None else f" to {self.upto}"
        return f"of the commits{after}{upto}" if after or upto else "of all commits"


class StartAt(StrEnum):
    """Where a stream starts: with the whole table, with one of its commits, or with the commit after that one."""

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
    """The start of a stream.

    - `at`: the kind of start.
    - `commit`: the snapshot id, version or tag, for a start at or after a commit; else None.
    - `time`: for a start at or after a time; else None.
    """

    at: StartAt = StartAt.TABLE
    commit: int | str | None = None
    time: datetime | None = None


@dataclass(frozen=True)
class CommitRequest:
    """A request for the commits of a branch after the commit `after`, or for all retained commits if it is None.

    - `branch`: a branch; None for the current snapshot's.
    - `exclude`: a regular expression; files with a matching path are not counted (Delta).
    - `fail_on_loss`: whether missing commits are an error; else they are skipped (Delta).
    """

    after: int | None = None
    branch: str | None = None
    exclude: str | None = None
    fail_on_loss: bool = True


@dataclass(frozen=True)
class SnapshotSelector:
    """The snapshot, version or range to read. At most one field is set; without any, it is the current snapshot.

    `version` is a snapshot id or Delta version, or (as text, Iceberg) the name of a branch or tag. `wap_branch` is a
    branch of an audited table; if it does not exist, the current snapshot is read.
    """

    version: int | str | None = None
    timestamp: datetime | None = None
    branch: str | None = None
    wap_branch: str | None = None
    tag: str | None = None
    changes: ChangeRange | None = None
    appends: AppendRange | None = None

    def describe(self) -> str:
        """Return the selection as text for messages."""
        chosen = {k.replace("_", "-"): v for k, v in self.__dict__.items() if v is not None}
        if self.appends is not None and self.appends.changes:
            chosen = {"changes": chosen["appends"]}
        return ", ".join(f"{k} {v}" for k, v in chosen.items()) or "current"

    @property
    def ref_description(self) -> str:
        """The branch or tag to read, as text for reports; empty without one."""
        return "" if self.branch is self.wap_branch is self.tag is None else self.describe()


class SnapshotState:
    """A format's own data for planning a snapshot. Each format has subclasses, which are opaque to other code.

    There are subclasses for the rows of a snapshot, the changes of a range, and the files of some commits.
    """

    @property
    def computed_changes(self) -> Increment | None:
        """The commits whose row changes are computed from added and removed files and deletes.

        None for a snapshot of rows, and for changes that the table recorded.
        """
        return None

    @property
    def is_ordered(self) -> bool:
        """Whether planned files are in commit order, which reads in process keep."""
        return False


@dataclass(frozen=True)
class Snapshot:
    """A resolved snapshot of a table.

    - `id`: the snapshot id (Iceberg) or version (Delta); None for a table without snapshots.
    - `timestamp`: the commit time.
    - `operation`: the operation of the commit.
    - `schema`: the columns.
    - `all_columns`: the columns, followed by dropped ones, which equality deletes may still compare.
    - `metadata_columns`: further columns that can be selected and filtered by.
    - `properties`: the table properties.
    - `state`: the format's own data, to plan the snapshot.
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
        """Return HTML for notebooks: id, commit time, operation and number of columns."""
        facts = {
            "id": "none" if self.id is None else str(self.id),
            "committed": "" if self.timestamp is None else f"{self.timestamp:%Y-%m-%d %H:%M:%S} UTC",
            "operation": self.operation,
            "columns": f"{len(self.schema.fields):,}",
        }
        return section("Snapshot", facts_table({name: value for name, value in facts.items() if value}))


@dataclass(frozen=True)
class FileRequest:
    """A request to plan files. Planning increments the counters of `metrics`.

    - `predicate`: prunes files.
    - `limit`: files with this many rows are enough, if the format can prove that all of their rows match.
    - `stats`: ids of fields whose statistics are returned, besides those of the predicate.
    - `executor`: reads metadata, subject to the planning modes (see `lakescan.common.executors`).
    - `tested`: the filter that is applied to all rows. Deletes of other rows need not be planned.
    - `reads`: the ids of the fields that are read.
    - `planned_by`: 'client', or 'server' if the catalog's server may plan.
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
        """Return the request with the statistics of one more column; the same request if `field_id` is None."""
        return self if field_id is None else replace(self, stats=self.stats | {field_id})

    def columns(self, schema: Schema) -> dict[int, Field]:
        """Return the columns of a schema whose statistics are requested, by field id."""
        wanted = {leaf.bound_id for leaf in leaves(self.predicate)} | self.stats
        return {i: schema.by_id[i] for i in wanted if i in schema.by_id}


class TableFormat(Protocol):
    """An open table of one format."""

    @property
    def name(self) -> str:
        """The format's name: 'iceberg' or 'delta'."""

    @property
    def words(self) -> FormatTerms:
        """The format's terms, for messages and reports."""

    @property
    def location(self) -> str:
        """The table's root location."""

    @property
    def partitioning(self) -> str:
        """The partition spec as text, or `unpartitioned`."""

    @property
    def partition_names(self) -> Mapping[str, Collection[str]]:
        """The columns that files are partitioned by, under their current names, each with its partition fields."""

    @property
    def sort_order(self) -> str:
        """The sort order for writers as text, or `unsorted`."""

    @property
    def comment(self) -> str | None:
        """The table's description; None without one."""

    @property
    def format_version(self) -> str:
        """The format version: '2' (Iceberg), or the reader and writer versions, '3,7' (Delta)."""

    def snapshot(self, selector: SnapshotSelector) -> Snapshot:
        """Return the snapshot that a selector selects; raises `NoSuchSnapshot`."""

    def pin_snapshot(self, snapshot: Snapshot, selector: SnapshotSelector) -> tuple[str, SnapshotSelector]:
        """Return a location and a selector that open the same snapshot in another process, despite later commits.

        `selector` is the selector that found the snapshot.
        """

    def history(self) -> pa.Table:
        """Return the commits of the table as an Arrow table, oldest first."""

    def refs(self, kind: RefKind) -> Mapping[str, SnapshotRef]:
        """Return the branches or tags by name; raises `UnsupportedFeature` if the format has none."""

    def ancestors(self, snapshot: Snapshot) -> pa.Table:
        """Return a snapshot and its ancestors as an Arrow table (`snapshot_id`, `committed_at`), newest first."""

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """Names of the table's metadata tables."""

    def metadata_table(self, name: str, snapshot: Snapshot) -> MetadataTable:
        """Return a metadata table of a snapshot; raises `InvalidOption` for an unknown name."""

    def matching(self, snapshot: Snapshot) -> FieldMatching:
        """Return how the table's fields are matched to columns of data files: by field id, name or position."""

    def metadata_bytes(self, snapshot: Snapshot) -> int:
        """Estimate the bytes of metadata that planning a snapshot reads without pruning."""

    def metadata_facts(self, snapshot: Snapshot, files: FileTable, now: datetime) -> MetadataFacts:
        """Return the metadata's facts for a health report; `files` are the files of the snapshot, with deletes."""

    def plan_files(self, snapshot: Snapshot, request: FileRequest) -> Iterator[Candidates]:
        """Yield, in parts, the files of the snapshot that partition values and statistics do not rule out."""

    @property
    def identity(self) -> str | None:
        """The table's UUID, which distinguishes it from a table created later at the same location."""

    def refresh(self) -> TableFormat:
        """Return the table with the commits that were made since it was opened, for streams."""

    @property
    def knows_its_name(self) -> bool:
        """Whether `follow` asks the catalog for the table that has its name now; else it reads the same location."""

    def follow(self) -> TableFormat:
        """Return the newest state of the table that is now at the same location or name; this object if unchanged.

        Raises `NotATable` or `NoSuchTable`.
        """

    def reopen(self) -> TableFormat:
        """Return the table that is now at the same location or name; raises `NotATable` or `NoSuchTable`."""

    @property
    def offset_names(self) -> OffsetNames:
        """The JSON keys of offsets in checkpoints."""

    @property
    def default_limits(self) -> IncrementLimits:
        """The limits of a stream's batch if the options set none."""

    def starting_point(self, start: StreamStart, branch: str | None = None) -> Offset:
        """Return the offset at which a stream of a branch begins; raises `NoSuchSnapshot`."""

    def commits(self, request: CommitRequest, snapshot: Snapshot) -> Iterator[Commit]:
        """Yield the requested commits, oldest first. `Commit.obstacle` is relative to the schema of `snapshot`.

        Raises `NoSuchSnapshot` if the first requested commit was expired or removed.
        """

    def changes_between(
        self, start: int | str | datetime | None, end: int | str | datetime | None, identity: Sequence[str]
    ) -> SnapshotSelector:
        """Return the selector of the changes after `start`, up to and including `end`.

        Each is a snapshot id, a version, a time or a tag; None for the beginning, or for the current snapshot. Raises
        `UnsupportedFeature` if the format cannot pair changes by `identity` columns, `InvalidOption` for an argument
        that does not apply to the format.
        """

    def changes_from(self, start: int | str | datetime, end: int | str | datetime | None) -> SnapshotSelector:
        """Return the selector of the changes from `start` to `end`, both inclusive; `end=None` is the current snapshot.

        Each is a snapshot id, a version, a time or a tag. Raises `NoSuchSnapshot`, and `InvalidOption` for an argument
        that does not apply to the format.
        """

    def with_changes(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with the schema of a stream of changes, which has additional columns."""

    def increment(self, snapshot: Snapshot, increment: Increment) -> Snapshot:
        """Return a snapshot with only the files of an increment, and with the schema of `snapshot`."""


@dataclass(frozen=True)
class ManifestFacts:
    """The manifests of a snapshot.

    - `count`, `bytes`: their number and size.
    - `rewritable`, `rewritable_bytes`: the number and size of those that a rewrite would replace.
    - `rewritten`: about how many manifests would replace them.
    """

    count: int = 0
    bytes: int = 0
    rewritable: int = 0
    rewritable_bytes: int = 0
    rewritten: int = 0


@dataclass(frozen=True)
class LogFacts:
    """The log of a version: its newest checkpoint, and the commits after it.

    - `commits`, `commit_bytes`: the number and size of these commits.
    - `checkpoint`: the version of the checkpoint; None without one.
    - `checkpoint_at`, `checkpoint_bytes`: when it was written, and its size.
    - `interval`: the number of commits between checkpoints.
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

    - `count`, `oldest`: their number, and the time of the oldest.
    - `expirable`: how many would expire now by the table's properties; 0 if no command of the format expires them.
    - `files`, `bytes`: the number and size of data and delete files that the current snapshot no longer has, as far as
      metadata records them.
    - `removable_files`: the most files (including metadata) that expiry and clean-up would delete now.
    - `removable_bytes`: the size of the data and delete files among these.
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
    """Facts of a table's metadata for its health report.

    - `target_file_size`: the target size of data files in bytes.
    - `bytes`: the size of the metadata that is read before data: metadata file and manifests, or checkpoint and
      commits.
    - `kept`: the snapshots or versions that can still be read.
    - `manifests`, `log`: facts of Iceberg's manifests, or of Delta's log.
    - `rewritable_deletes`: the number and bytes of position delete files that a rewrite would replace.
    - `owns_files`: whether files may be deleted at all.
    - `clustering`: the columns that the table is clustered by, if any.
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
    """A path to a table: its location, a selector, and partition values (None for null), if the path has them."""

    location: str
    selector: SnapshotSelector | None = None
    partitions: tuple[tuple[str, str | None], ...] = ()
