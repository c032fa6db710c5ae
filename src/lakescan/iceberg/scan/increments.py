"""Incremental scans: a branch's lineage as commits, starting points of streams, and the files of increments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import takewhile

from lakescan.common.schema import Schema
from lakescan.common.timestamps import from_millis, to_millis
from lakescan.errors import CorruptMetadata, NoSuchSnapshot
from lakescan.expressions.predicate import TRUE, leaves
from lakescan.formats.increments import (
    BEFORE,
    RESTART,
    Commit,
    CommitChange,
    Increment,
    Offset,
    files_of_part,
    order_by_lower_bound,
)
from lakescan.formats.table_format import FileRequest, StreamStart
from lakescan.iceberg.alter.columns import find_unreadable_column
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata, ancestors
from lakescan.iceberg.scan.changelog import Changelog
from lakescan.iceberg.scan.scan_files import SnapshotScan
from lakescan.planning.candidates import Candidates
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.file_table import FileTable, concat_file_tables
from lakescan.storage import Storage

# Specification, "Snapshots": how each operation changes rows. Version 1 may omit it: then assume an overwrite.
_CHANGES = {
    "append": CommitChange.APPEND,
    "replace": CommitChange.NOTHING,
    "delete": CommitChange.DELETE,
    "overwrite": CommitChange.OVERWRITE,
}


def lineage(metadata: TableMetadata, head: int | None, after: int | None) -> list[IcebergSnapshot]:
    """The snapshots after `after` (exclusive) up to `head` (inclusive), oldest first; all known ancestors if None.

    Raises `NoSuchSnapshot` if `after` is not an ancestor of `head`, `CorruptMetadata` for a cycle of parents.
    """
    line = list(takewhile(lambda each: each.id != after, ancestors(metadata.snapshots, head)))
    at = line[-1].parent_id if line else head
    if at in {each.id for each in line}:
        raise CorruptMetadata(
            f"{metadata.source or metadata.location}: snapshot {at} is its own ancestor, by parent-snapshot-id: "
            "the order of commits is unknown. Restore the file, or open an older one."
        )
    if after is not None and at != after:
        raise NoSuchSnapshot(_lineage_error(metadata, head, after, line))
    return line[::-1]


def _lineage_error(metadata: TableMetadata, head: int | None, after: int, line: list[IcebergSnapshot]) -> str:
    if not line:
        return f"{metadata.location} has no snapshot, but was at snapshot {after} before. Was the table recreated?"
    oldest = line[-1]
    where = f"the oldest one left is {oldest.id}, committed at {from_millis(oldest.timestamp_ms)}"
    if after in metadata.snapshots:
        problem = f"snapshot {after} is not an ancestor of the current snapshot {head}: the table was rolled back"
    else:
        problem = f"snapshot {after} has expired, so the commits after it are unknown; {where}"
    return (
        f"{metadata.location}: {problem}. To continue, restart: from the whole table "
        "(starting-strategy=TABLE_SCAN_THEN_INCREMENTAL) or from the oldest snapshot left "
        "(starting-strategy=INCREMENTAL_FROM_EARLIEST_SNAPSHOT), with a new checkpoint."
    )


def starting_point(
    metadata: TableMetadata, head: int | None, start: StreamStart, tagged: Callable[[str], int]
) -> Offset:
    """The offset before the first snapshot that a stream reads, or at the start of an initial table scan.

    A start at a commit, at a time or at the latest commit includes it, as in the strategies of Flink's source. A start
    after it does not, as in incremental batch reads.
    """
    line = lineage(metadata, head, None)
    match start.at:
        case "table":
            return BEFORE if head is None else Offset(head, 0, initial=True)
        case "after latest":
            return BEFORE if head is None else Offset(head)
        case "latest":
            first = line[-1:]
        case "earliest":
            first = line[:1]
        case "commit" | "after commit":
            wanted = tagged(start.commit) if isinstance(start.commit, str) else start.commit
            first = [each for each in line if each.id == wanted]
            if not first:
                raise NoSuchSnapshot(f"{metadata.location}: starting snapshot {wanted} is not on the branch")
            if start.at == "after commit":
                return Offset(first[0].id)
        case _:
            assert start.time is not None
            time = to_millis(start.time) + (start.at == "after time")
            first = [each for each in line if each.timestamp_ms >= time][:1]
            if not first:
                return BEFORE if head is None else Offset(head)
    if not first or first[0].parent_id is None:
        return BEFORE
    return Offset(first[0].parent_id)


def as_commit(snapshot: IcebergSnapshot) -> Commit:
    """A snapshot as a commit, with the counts of its summary."""
    return Commit(
        id=snapshot.id,
        timestamp=from_millis(snapshot.timestamp_ms),
        operation=snapshot.operation or "unknown",
        change=_CHANGES.get(snapshot.operation, CommitChange.OVERWRITE),
        files=snapshot.count("added-data-files"),
        rows=snapshot.count("added-records"),
        size=snapshot.count("added-files-size"),
        summary=snapshot.summary,
    )


def add_obstacles(commits: Iterable[Commit], metadata: TableMetadata, schema: Schema) -> Iterator[Commit]:
    """The commits; those that were written with wider columns than `schema` has cannot be read with it."""
    known: dict[int | None, str | None] = {}
    for commit in commits:
        written = metadata.snapshots[commit.id].schema_id
        if written not in known:
            found = None if written is None else metadata.schemas.get(written)
            known[written] = None if found is None else find_unreadable_column(found, schema)
        problem = known[written]
        has_rows = commit.change != CommitChange.NOTHING
        yield replace(commit, obstacle=f"its schema has {problem}. {RESTART}") if problem and has_rows else commit


class IncrementFiles:
    """The files of an increment, in the order of manifest lists and manifests, which makes offsets deterministic."""

    def __init__(self, metadata: TableMetadata, schema: Schema, request: FileRequest, storage: Storage) -> None:
        self._metadata, self._request = metadata, request
        stats = request.stats | {leaf.bound_id for leaf in leaves(request.predicate)}
        whole = replace(request, predicate=TRUE, limit=None, stats=frozenset(stats))
        self._scan = SnapshotScan(metadata, schema, whole, storage)

    def plan(self, increment: Increment) -> Iterator[Candidates]:
        """The files that statistics do not rule out. File positions within a commit count all of its files."""
        changelog = Changelog(self._metadata, self._scan)
        tables = changelog.tables(increment.parts) if increment.changes else self._increment_tables(increment)
        for table in tables:
            yield Candidates.prune_table(table, self._request.predicate, {})

    def _increment_tables(self, increment: Increment) -> Iterator[FileTable]:
        for is_whole, parts in increment.runs():
            snapshots = [self._metadata.snapshots[part.commit] for part in parts]
            if is_whole:
                yield from (candidates.table for candidates in self._scan.plan_added_files(snapshots))
                continue
            files = self._scan.plan(*snapshots) if parts[0].initial else self._scan.plan_added_files(snapshots)
            yield from files_of_part(parts[0], self._sort_tables((each.table for each in files), increment.ordered_by))

    @staticmethod
    def _sort_tables(tables: Iterable[FileTable], field_id: int | None) -> Iterable[FileTable]:
        """The files of a commit, sorted by the lower bounds of column `field_id` unless it is None."""
        if field_id is None or not (some := list(tables)):
            return tables
        whole = concat_file_tables(some)
        return [whole.take(order_by_lower_bound(whole.stats.get(field_id, ColumnStats()).lower, len(whole)))]
