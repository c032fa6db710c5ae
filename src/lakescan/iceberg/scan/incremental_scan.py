"""Incremental scans: a branch's lineage as commits, starting points of streams, and the files of increments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import takewhile

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.common.schema import Schema
from lakescan.common.timestamps import from_millis, to_millis
from lakescan.errors import CorruptMetadata, NoSuchSnapshot
from lakescan.expressions.predicate import TRUE, leaves
from lakescan.formats.increments import (
    BEFORE,
    RESTART,
    Commit,
    CommitChange,
    CommitPart,
    Increment,
    Offset,
    files_of_part,
    order_by_lower_bound,
)
from lakescan.formats.table_format import FileRequest, StreamStart
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata, ancestors
from lakescan.iceberg.metadata.type_promotion import find_unreadable_column
from lakescan.iceberg.scan.delete_index import DeleteIndex
from lakescan.iceberg.scan.snapshot_scan import SnapshotScan, add_other_names, attach_deletes, match_deletes
from lakescan.planning.candidates import Candidates
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.file_table import FileTable, concat_file_tables, struct_of
from lakescan.reading.net_changes import DELETE, INSERT
from lakescan.storage import Storage

# Specification, "Snapshots": how each operation changes rows. Version 1 may omit it: then assume an overwrite.
_CHANGES = {
    "append": CommitChange.APPEND,
    "replace": CommitChange.NOTHING,
    "delete": CommitChange.DELETE,
    "overwrite": CommitChange.OVERWRITE,
}


def lineage(metadata: TableMetadata, head: int | None, after: int | None) -> list[IcebergSnapshot]:
    """Return the snapshots after `after` (exclusive) up to `head` (inclusive), oldest first.

    If `after` is None, all ancestors that have not expired are returned. Raises `NoSuchSnapshot` if `after` is not an
    ancestor of `head`, `CorruptMetadata` for a cycle of parents.
    """
    line = list(takewhile(lambda each: each.id != after, ancestors(metadata.snapshots, head)))
    at = line[-1].parent_id if line else head
    if at in {each.id for each in line}:
        raise CorruptMetadata(
            f"{metadata.source or metadata.location}: snapshot {at} is its own ancestor by parent-snapshot-id, so "
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
    """Return the offset before the first snapshot that a stream reads, or at the start of an initial table scan.

    `tagged` resolves a tag to a snapshot id. A start at a commit, at a time or at the latest commit includes that
    commit, as in the strategies of Flink's source. A start after it excludes it, as in incremental batch reads. Raises
    `NoSuchSnapshot`.
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
    """Return a snapshot as a `Commit`, with the counts of added files, rows and bytes from its summary."""
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
    """Yield the commits of a stream, with an `obstacle` for those whose rows it cannot read.

    They were written with a column type that cannot be promoted to that in `schema`. The obstacle is a text for the
    error.
    """
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
        """Yield the files of an increment, or of its changelog, that statistics do not rule out.

        The position of a file within its commit counts all files of the commit.
        """
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
        """Return the files of a commit sorted by the lower bounds of column `field_id`; unchanged if that is None."""
        if field_id is None or not (some := list(tables)):
            return tables
        whole = concat_file_tables(some)
        return [whole.take(order_by_lower_bound(whole.stats.get(field_id, ColumnStats()).lower, len(whole)))]


# Inserted rows are the rows of the data files that a snapshot added, without those deleted in the same commit. Deleted
# rows are the rows of the data files that it removed, and the rows of retained files that its new deletes match. Only
# rows that were live before the commit count as deleted. A row that a commit copies to another file appears twice, as
# deleted and as inserted.


class Changelog:
    """The data files with rows that snapshots inserted or deleted, with the changelog columns as constants."""

    def __init__(self, metadata: TableMetadata, scan: SnapshotScan) -> None:
        self._metadata, self._scan = metadata, scan

    def tables(self, parts: tuple[CommitPart, ...]) -> Iterator[FileTable]:
        """Yield the changed files of an increment's parts, snapshot by snapshot."""
        for part in parts:
            snapshot = self._metadata.snapshots[part.commit]
            for change, tables in self._changes(snapshot, part):
                yield from (
                    _add_changelog_columns(table, change, part.ordinal, snapshot.id) for table in tables if len(table)
                )

    def _changes(self, snapshot: IcebergSnapshot, part: CommitPart) -> Iterator[tuple[str, Iterator[FileTable]]]:
        """Yield the change type and the files of a snapshot: those with deleted rows, then those with inserted rows.

        The initial scan of a stream has only inserts.
        """
        if part.initial:
            yield INSERT, files_of_part(part, (candidates.table for candidates in self._scan.plan(snapshot)))
            return
        yield DELETE, self._deleted_rows(snapshot)
        yield INSERT, (candidates.table for candidates in self._scan.plan_added_files([snapshot]))

    def _deleted_rows(self, snapshot: IcebergSnapshot) -> Iterator[FileTable]:
        if snapshot.parent_id is None:
            return
        parent = self._metadata.snapshots.get(snapshot.parent_id)
        if parent is None:
            raise NoSuchSnapshot(
                f"{self._metadata.location}: the parent of snapshot {snapshot.id}, {snapshot.parent_id}, has expired, "
                f"so the rows that {snapshot.id} deleted are unknown. Start with a later snapshot."
            )
        own_data, own_deletes = self._scan.manifests(snapshot, only_its_own=True)
        removes = pc.fill_null(pc.greater(own_data["deleted_files_count"], 0), True)
        removed_from = own_data.filter(removes)
        new = self._scan.build_index(own_deletes)
        if not removed_from.num_rows and not new.table.num_rows:
            return
        data, deletes = self._scan.manifests(parent)
        old = self._scan.build_index(deletes)
        removed_paths: list[pa.ChunkedArray] = []
        for candidates in attach_deletes(
            self._scan.scan_manifests(removed_from, old, changed_by=(snapshot.id,), removed=True), old
        ):
            table = candidates.table
            removed_paths.append(table.files["path"])
            yield table
        if new.table.num_rows:
            removed = pa.array([path for chunk in removed_paths for path in chunk.to_pylist()], pa.string())
            yield from self._newly_deleted(data, old, new, removed)

    def _newly_deleted(
        self, data: pa.Table, old: DeleteIndex, new: DeleteIndex, removed: pa.Array
    ) -> Iterator[FileTable]:
        """Yield the files with rows that a snapshot's new deletes delete, without the files that it removed.

        `data` are data manifests, `removed` locations, and `old` and `new` the indexes of older and new deletes. `kept`
        marks the new deletes in the files, because the rows that they delete are read. Rows that older deletes had
        already deleted are left out.
        """
        marked = new.table.set_column(new.table.schema.get_field_index("kept"), "kept", pa.repeat(True, len(new.table)))
        both = pa.concat_tables([old.table, marked])
        for scanned, (before, hits) in match_deletes(self._scan.scan_manifests(data, old, new), old, new):
            assert before is not None
            assert hits is not None
            files = add_other_names(scanned)
            stays = pc.invert(pc.is_in(files.files["path"].combine_chunks(), value_set=removed))
            mask = pc.and_(pa.array(hits.counts > 0), stays)
            yield files.with_deletes(before.merge(hits.shift(old.table.num_rows)), both).filter(mask)


def _add_changelog_columns(table: FileTable, change: str, ordinal: int, snapshot: int) -> FileTable:
    """Return the files with constants for the changelog columns: change type, ordinal of the commit and snapshot id."""
    values = {m.CHANGE: change, m.CHANGE_ORDINAL: ordinal, m.COMMIT_SNAPSHOT: snapshot}
    constants = table.files["constants"].combine_chunks()
    members = {f.name: constants.field(i) for i, f in enumerate(constants.type)}
    members |= {str(f.id): pa.repeat(pa.scalar(v, f.type.arrow()), len(table)) for f, v in values.items()}
    place = table.files.schema.get_field_index("constants")
    files = table.files.set_column(place, "constants", struct_of(members, len(table)))
    ids = tuple(f.id for f in values)
    return replace(table, files=files, constant_fields={s: (*c, *ids) for s, c in table.constant_fields.items()})
