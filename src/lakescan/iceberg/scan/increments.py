"""Snapshots as commits: the line of a branch, what each did to rows, and the files that parts of them have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from lakescan.common.schema import Schema
from lakescan.common.timestamps import from_millis, to_millis
from lakescan.errors import CorruptMetadata, NoSuchSnapshot
from lakescan.expressions.predicate import TRUE, leaves
from lakescan.formats.increments import (
    APPEND,
    BEFORE,
    DELETE,
    NOTHING,
    OVERWRITE,
    Commit,
    Increment,
    Offset,
    by_lower_bound,
    rows_of,
)
from lakescan.formats.table_format import FileRequest, Start
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.scan.changelog import Changelog
from lakescan.iceberg.scan.scan_files import ScanFiles
from lakescan.planning.candidates import Candidates
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.file_table import FileTable, joined_tables
from lakescan.storage.storage import Storage

# Specification, "Snapshots": what an operation says of rows. Version 1 may leave it out: then anything may be.
_CHANGES = {"append": APPEND, "replace": NOTHING, "delete": DELETE, "overwrite": OVERWRITE}


def lineage(metadata: TableMetadata, head: int | None, after: int | None) -> list[IcebergSnapshot]:
    """The snapshots from one that is left out up to the head, oldest first; all that are known where `after` is None.

    Raises `NoSuchSnapshot` where the head does not come from that snapshot, `CorruptMetadata` for one that comes from
    itself.
    """
    found, at, seen = [], head, set()
    while at is not None and at != after and at in metadata.snapshots:
        if at in seen:
            raise CorruptMetadata(
                f"{metadata.source or metadata.location}: snapshot {at} is among those that it came from, by their "
                "parent-snapshot-id: the order of commits cannot be told. Restore the file, or open an older one."
            )
        seen.add(at)
        found.append(metadata.snapshots[at])
        at = metadata.snapshots[at].parent_id
    if after is not None and at != after:
        raise NoSuchSnapshot(_why_not(metadata, head, after, found))
    return found[::-1]


def _why_not(metadata: TableMetadata, head: int | None, after: int, line: list[IcebergSnapshot]) -> str:
    if not line:
        return f"{metadata.location} has no snapshot: it was at {after} before. Was the table made anew?"
    oldest = line[-1]
    where = f"the oldest one left is {oldest.id} of {from_millis(oldest.timestamp_ms)}"
    if after in metadata.snapshots:
        problem = f"snapshot {after} is not one that the current snapshot {head} came from: the table was rolled back"
    else:
        problem = f"snapshot {after} has expired, and what was committed after it cannot be told; {where}"
    return (
        f"{metadata.location}: {problem}. To go on, start anew: from the whole table "
        "(starting-strategy=TABLE_SCAN_THEN_INCREMENTAL) or from the oldest snapshot left "
        "(starting-strategy=INCREMENTAL_FROM_EARLIEST_SNAPSHOT), with a new checkpoint."
    )


def starting_point(metadata: TableMetadata, head: int | None, start: Start, tagged: Callable[[str], int]) -> Offset:
    """The offset before the first snapshot that a stream reads, or at the beginning of the whole table.

    A commit to start from counts, and so does the latest one: as in the strategies of Flink's source.
    """
    line = lineage(metadata, head, None)
    match start.at:
        case "table":
            return BEFORE if head is None else Offset(head, 0, initial=True)
        case "latest":
            first = line[-1:]
        case "earliest":
            first = line[:1]
        case "commit":
            wanted = tagged(start.commit) if isinstance(start.commit, str) else start.commit
            first = [each for each in line if each.id == wanted]
            if not first:
                raise NoSuchSnapshot(f"{metadata.location}: snapshot {wanted} is not one of the branch's to start from")
        case _:
            assert start.time is not None
            first = [each for each in line if each.timestamp_ms >= to_millis(start.time)][:1]
            if not first:
                return BEFORE if head is None else Offset(head)
    if not first or first[0].parent_id is None:
        return BEFORE
    return Offset(first[0].parent_id)


def as_commit(snapshot: IcebergSnapshot) -> Commit:
    """A snapshot as its summary describes it."""
    said = snapshot.summary
    return Commit(
        id=snapshot.id,
        timestamp=from_millis(snapshot.timestamp_ms),
        operation=snapshot.operation or "unknown",
        change=_CHANGES.get(snapshot.operation, OVERWRITE),
        files=_number(said, "added-data-files"),
        rows=_number(said, "added-records"),
        size=_number(said, "added-files-size"),
        summary=said,
    )


class IncrementFiles:
    """The files of parts of snapshots, in an order that stays: that of manifest lists and manifests."""

    def __init__(self, metadata: TableMetadata, schema: Schema, request: FileRequest, storage: Storage) -> None:
        self._metadata, self._request = metadata, request
        stats = request.stats | {leaf.bound_id for leaf in leaves(request.predicate)}
        whole = replace(request, predicate=TRUE, limit=None, stats=frozenset(stats))
        self._scan = ScanFiles(metadata, schema, whole, storage)

    def plan(self, increment: Increment) -> Iterator[Candidates]:
        """The files that statistics do not rule out. Places in a commit count all of its files."""
        changelog = Changelog(self._metadata, self._scan)
        tables = changelog.tables(increment.parts) if increment.changes else self._added(increment)
        for table in tables:
            yield Candidates.pruned(table, self._request.predicate, {})

    def _added(self, increment: Increment) -> Iterator[FileTable]:
        for is_whole, parts in increment.runs():
            snapshots = [self._metadata.snapshots[part.commit] for part in parts]
            if is_whole:
                yield from (found.table for found in self._scan.added(snapshots))
                continue
            found = self._scan.plan(*snapshots) if parts[0].initial else self._scan.added(snapshots)
            yield from rows_of(parts[0], self._in_order((each.table for each in found), increment.ordered_by))

    @staticmethod
    def _in_order(tables: Iterable[FileTable], field_id: int | None) -> Iterable[FileTable]:
        """The files of a commit, by the lower bounds of a column where that is asked for."""
        if field_id is None or not (some := list(tables)):
            return tables
        whole = joined_tables(some)
        return [whole.take(by_lower_bound(whole.stats.get(field_id, ColumnStats()).lower, len(whole)))]


def _number(summary: Mapping[str, str], name: str) -> int | None:
    text = summary.get(name, "")
    return int(text) if text.isdigit() else None
