"""What a format offers to the layers above it: snapshots, schemas and candidate files. Nothing else of it is seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from lakescan.common.schema import FieldMatching, Schema
from lakescan.common.types import Field
from lakescan.executors import PlanningExecutor
from lakescan.expressions.predicate import Predicate, leaves
from lakescan.formats.increments import Commit, Increment, Offset
from lakescan.formats.metadata_table import MetadataTable
from lakescan.planning.candidates import Candidates
from lakescan.planning.report import ScanMetrics


@dataclass(frozen=True)
class ChangeRange:
    """Which commits to read the changes of: from a version or time, up to one; both ends count."""

    start_version: int | None = None
    start_timestamp: datetime | None = None
    end_version: int | None = None
    end_timestamp: datetime | None = None


@dataclass(frozen=True)
class AppendRange:
    """The commits whose added rows, or all changes, to read (Iceberg): after one, up to another, which counts.

    Each end is a snapshot id, the name of a tag, or a time: of the last snapshot not after it.
    """

    after: int | str | datetime | None = None
    upto: int | str | datetime | None = None
    branch: str | None = None
    changes: bool = False


@dataclass(frozen=True)
class Start:
    """Where a stream begins: `at` is table, latest, earliest, commit or time; the last two say which."""

    at: str = "table"
    commit: int | str | None = None
    time: datetime | None = None


@dataclass(frozen=True)
class CommitRequest:
    """The commits after one (all that are known where it is None), of a branch.

    Files whose path matches `exclude` are not counted (Delta). Commits that are missing are an error, or are passed
    over without `fail_on_loss` (Delta).
    """

    after: int | None = None
    branch: str | None = None
    exclude: str | None = None
    fail_on_loss: bool = True


@dataclass(frozen=True)
class SnapshotSelector:
    """Which state of a table to read: at most one of these; none of them is the current one.

    `version` is a snapshot id or Delta version, or (as text, Iceberg) the name of a branch or tag.
    """

    version: int | str | None = None
    timestamp: datetime | None = None
    branch: str | None = None
    tag: str | None = None
    changes: ChangeRange | None = None
    appends: AppendRange | None = None

    def describe(self) -> str:
        """The selection in words, for messages."""
        chosen = {k: v for k, v in self.__dict__.items() if v is not None}
        return ", ".join(f"{k} {v}" for k, v in chosen.items()) or "current"


@dataclass(frozen=True)
class Snapshot:
    """A resolved state of the table: its id (Iceberg snapshot id, Delta version), commit time, schema and properties.

    `all_columns` has the schema's columns, then those dropped before, which equality deletes may still compare.
    `metadata_columns` can be selected and filtered by, too.
    `state` is the format's own. `id` is None for a table without any snapshot.
    """

    id: int | None
    timestamp: datetime | None
    operation: str
    schema: Schema
    all_columns: Schema
    metadata_columns: tuple[Field, ...]
    properties: Mapping[str, str]
    state: Any = None


@dataclass(frozen=True)
class FileRequest:
    """What to plan files for. `metrics` is counted up on the way.

    Statistics of the filter's columns, and of those in `stats` (field ids), come with the files. Files for `limit` rows
    are enough, where the format knows that all of their rows count. `executor` reads metadata, as the modes have it:
    see `lakescan.executors`.
    """

    predicate: Predicate
    metrics: ScanMetrics
    limit: int | None = None
    stats: frozenset[int] = frozenset()
    executor: PlanningExecutor | None = None
    data_mode: str = "auto"
    delete_mode: str = "auto"

    def with_stats_of(self, field_id: int | None) -> FileRequest:
        """The same, with the statistics of one more column, if any."""
        return self if field_id is None else replace(self, stats=self.stats | {field_id})

    def columns(self, schema: Schema) -> dict[int, Field]:
        """The columns of a schema whose statistics are wanted, by id."""
        wanted = {leaf.bound_id for leaf in leaves(self.predicate)} | self.stats
        return {i: schema.by_id[i] for i in wanted if i in schema.by_id}


class TableFormat(Protocol):
    """An open table of one format."""

    @property
    def name(self) -> str:
        """'iceberg' or 'delta'."""

    @property
    def location(self) -> str:
        """Where the table is."""

    @property
    def partitioning(self) -> str:
        """How the table is partitioned, in words."""

    @property
    def sort_order(self) -> str:
        """How writers are asked to sort rows, in words."""

    def snapshot(self, selector: SnapshotSelector) -> Snapshot:
        """The selected state; raises `NoSuchSnapshot`."""

    def pinned(self, snapshot: Snapshot, selector: SnapshotSelector) -> tuple[str, SnapshotSelector]:
        """A location and selector that open the same state again elsewhere, whatever is committed meanwhile."""

    def history(self) -> pa.Table:
        """The commits of the table, newest last."""

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """The names of its metadata tables."""

    def metadata_table(self, name: str, snapshot: Snapshot) -> MetadataTable:
        """One of them, of a state of the table; raises `InvalidOption` for a name that it does not have."""

    def matching(self, snapshot: Snapshot) -> FieldMatching:
        """How the table's fields are found in data files."""

    def metadata_bytes(self, snapshot: Snapshot) -> int:
        """The bytes of metadata that planning a state reads, where nothing is pruned, about."""

    def plan_files(self, snapshot: Snapshot, request: FileRequest) -> Iterator[Candidates]:
        """The live files that partitions and statistics do not rule out, in parts."""

    @property
    def identity(self) -> str | None:
        """What tells the table from another one that is made later in its place."""

    def refreshed(self) -> TableFormat:
        """The table with the commits since, for a stream that follows it."""

    def reopened(self) -> TableFormat:
        """The table that is now at the same place, or has the same name; raises `NotATable` and `NoSuchTable`."""

    def starting_point(self, start: Start, branch: str | None = None) -> Offset:
        """The offset at which a stream begins; raises `NoSuchSnapshot`."""

    def commits(self, request: CommitRequest, snapshot: Snapshot) -> Iterator[Commit]:
        """Commits, oldest first, as readers of a snapshot's schema see them.

        Raises `NoSuchSnapshot` where the first of them has gone.
        """

    def with_changes(self, snapshot: Snapshot) -> Snapshot:
        """The schema that streams of changes have, where those of added rows have the snapshot's."""

    def increment(self, snapshot: Snapshot, increment: Increment) -> Snapshot:
        """A state that has just the files of an increment, read with the schema of a snapshot."""
