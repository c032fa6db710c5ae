"""An open Delta table: implements the table format protocol on top of the transaction log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

import pyarrow as pa

from lakescan.common import metadata_columns as m
from lakescan.common import types as t
from lakescan.common.cache import METADATA
from lakescan.common.executors import ShufflingExecutor, executor_for
from lakescan.common.references import dotted_path
from lakescan.common.schema import FieldMatching, Schema
from lakescan.common.timestamps import from_millis, to_millis
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.catalog_managed import find_managed_table
from lakescan.delta.log.log_text import single_actions
from lakescan.delta.log.reader import DeltaVersion, LogReader
from lakescan.delta.log.segment import LogFile, LogListing, LogSegment, list_log, newest_log, next_commits
from lakescan.delta.log.time_travel import (
    commit_info,
    commit_times,
    has_in_commit_timestamp,
    in_commit_timestamp,
    version_at,
)
from lakescan.delta.maintenance.metadata_facts import metadata_facts
from lakescan.delta.metadata.protocol import CLUSTERING, Metadata, Protocol
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.delta.metadata_tables import (
    DETAIL,
    HISTORY,
    DeltaPartitionsTable,
    FilesTable,
    clustering_columns,
    detail_row,
    history_row,
)
from lakescan.delta.scan.change_feed import COLUMNS as CHANGE_COLUMNS
from lakescan.delta.scan.change_feed import (
    check_recorded,
    check_schemas,
    difference,
    first_since,
    range_after,
    range_from,
    resolve_range,
)
from lakescan.delta.scan.increments import (
    DeltaCommitReader,
    DeltaState,
    IncrementState,
    RangeChanges,
    SeenCommits,
    VersionRows,
    actions_of,
    as_inserts,
    is_feed,
    whole_state,
)
from lakescan.delta.scan.scan_files import DeltaScanFiles
from lakescan.errors import InvalidOption, NoSuchSnapshot, UnsupportedFeature
from lakescan.expressions.predicate import Comparison, IsNull, Predicate, conjunction
from lakescan.formats.increments import Commit, Increment, IncrementLimits, Offset, OffsetNames
from lakescan.formats.metadata_table import InMemoryMetadataTable, MetadataTable, as_table, no_such_table
from lakescan.formats.snapshot_refs import RefKind, SnapshotRef
from lakescan.formats.table_format import (
    ChangeRange,
    CommitRequest,
    FileRequest,
    MetadataFacts,
    Snapshot,
    SnapshotSelector,
    StartAt,
    StreamStart,
)
from lakescan.planning.candidates import Candidates
from lakescan.planning.file_table import FileTable
from lakescan.planning.scan_report import FormatTerms, ScanMetrics
from lakescan.storage import Storage

_METADATA_TABLES = ("history", "detail", "files", "partitions")
_READERS = 8
# Columns of the change data feed that are constant per file: in all files, and in all but cdc files.
_ALWAYS_CONSTANT = {m.COMMIT_VERSION.id: "version", m.COMMIT_TIMESTAMP.id: "commit_timestamp"}
_CONSTANT_BUT_IN_CDC = {m.CHANGE_TYPE.id: "change_type"}


class DeltaTable:
    """An open Delta table, whose log was listed once; versions committed later are not seen.

    `end` is the log as listed: the whole log if `is_whole`, else a checkpoint and the commits from its version on.
    """

    name = "delta"
    knows_its_name = False
    words: FormatTerms = FormatTerms(state="version", metadata_files="log files")
    offset_names: OffsetNames = OffsetNames("version", "index", "initial-snapshot")
    default_limits: IncrementLimits = IncrementLimits(files=1000)  # Delta's default

    def __init__(
        self, location: str, storage: Storage, end: LogListing, *, is_whole: bool, seen: SeenCommits | None = None
    ) -> None:
        self._location = location
        self.storage = storage
        self._end = end
        self._is_whole = is_whole
        self._seen = seen
        self._log = LogReader(location, storage)
        self._planned: tuple[Protocol, Metadata] | None = None

    @staticmethod
    def open(location: str, storage: Storage) -> DeltaTable:
        """Open the table in a folder; raises `NotATable`."""
        end, is_whole = newest_log(location, storage)
        return DeltaTable(location, storage, end, is_whole=is_whole)

    @cached_property
    def identity(self) -> str | None:
        """The table's id, from its metaData action."""
        return self._log.version(self._segment()).metadata.id

    def refresh(self) -> DeltaTable:
        """Return the table with the commits made since it was listed; returns this one without such commits.

        If its newest commit's file has changed, the log belongs to another table, which is then opened instead.
        """
        new = next_commits(self._location, self._end.latest + 1, self.storage)
        if not new:
            return self
        if find_managed_table(self._location, self.storage) is None and not self._has_its_end():
            return self.reopen()
        end = replace(self._end, commits=(*self._end.commits, *new))
        made = DeltaTable(self._location, self.storage, end, is_whole=self._is_whole, seen=self._seen)
        made.identity = self.identity
        return made

    def _has_its_end(self) -> bool:
        """Return whether the newest commit, or else the checkpoint, is still the file that was listed."""
        parts = [part for checkpoint in self._end.checkpoints[-1:] for part in checkpoint.parts]
        listed = [each.entry for each in self._end.commits[-1:]] or parts
        return self.storage.look_up([each.location for each in listed]) == listed

    def with_metadata(self, protocol: Protocol, metadata: Metadata) -> DeltaTable:
        """Return the table with the protocol and metadata that a commit will set.

        Existing rows have nulls in new columns.
        """
        made = copy(self)
        made._planned = (protocol, metadata)
        return made

    def follow(self) -> DeltaTable:
        """Return the newest version of the table that is now in the folder; this object if it is the same version."""
        found = self.reopen()
        is_same = found._end.latest == self._end.latest and found._end.commits[-1:] == self._end.commits[-1:]
        return self if is_same and (found._end.commits or found._end == self._end) else found

    def reopen(self) -> DeltaTable:
        """Open the table in the folder again; it may be another table now."""
        return DeltaTable.open(self._location, self.storage)

    def continues(self, before: DeltaTable) -> bool:
        """Return whether this log continues the table opened as `before`, rather than being that of a replacement.

        Compares table ids. If no metadata of `before` was read yet, checks that its last commit is the same file. For
        catalog-managed tables, compares the catalog's ids.
        """
        table, other = (
            find_managed_table(self._location, self.storage),
            find_managed_table(before._location, before.storage),
        )
        if table is not None and other is not None:
            return table.identity == other.identity and self._end.latest >= before._end.latest
        if before._log.known_id is not None:
            return self.identity == before._log.known_id and self._end.latest >= before._end.latest
        listed = before._end.commits[-1:]
        now = self.storage.look_up([each.entry.location for each in listed])
        return all(entry is None or entry == each.entry for entry, each in zip(now, listed, strict=True))

    def starting_point(self, start: StreamStart, branch: str | None = None) -> Offset:
        """Return the offset before a stream's first version; raises `NoSuchSnapshot`.

        `latest` starts after the newest version, like Delta's `startingVersion`. `branch` is ignored.
        """
        match start.at:
            case StartAt.TABLE:
                return Offset(self._end.latest, 0, initial=True)
            case StartAt.LATEST:
                return Offset(self._end.latest)
            case StartAt.EARLIEST:
                return Offset(self._listing.commits[0].version - 1 if self._listing.commits else self._end.latest)
            case StartAt.COMMIT:
                version = _version_number(start.commit if start.commit is not None else 0)
                if not 0 <= version <= self._end.latest + 1:
                    raise NoSuchSnapshot(f"{self._location} has no version {version}: its newest is {self._end.latest}")
                return Offset(version - 1)
        assert start.time is not None
        return Offset(first_since(self._times, start.time, self._location) - 1)

    def commits(self, request: CommitRequest, snapshot: Snapshot) -> Iterator[Commit]:
        """Yield the commits after `request.after`, oldest first.

        Raises `NoSuchSnapshot` if the log has lost some of them, unless `request.fail_on_loss` is False.
        """
        start = 0 if request.after is None else request.after + 1
        if not request.fail_on_loss:
            known = [c.version for c in self._listing.commits if c.version >= start]
            start = min(known, default=start)
        reader = self._commit_reader(snapshot, request.exclude)
        if self._seen is None or self._seen.reader != reader:
            self._seen = SeenCommits(reader)
        if start > self._end.latest:
            return
        files = self._commits(start, self._end.latest)
        obstacle = self._seen.start_obstacle(start, lambda: self._obstacle_at(start, snapshot))
        for commit in self._seen.commits(files):
            yield commit if obstacle is None or commit.id > start else replace(commit, obstacle=obstacle)

    def _obstacle_at(self, start: int, snapshot: Snapshot) -> str | None:
        """Return why a stream with the snapshot's schema cannot start at version `start`, or None if it can.

        That is because files before a change of the column mapping mode do not fit the schema. Later changes are in the
        metadata of later commits, and not checked here. Raises `UnsupportedFeature` for a stream of changes that starts
        before the table recorded them.
        """
        try:
            before = self._read_version(start).metadata
        except NoSuchSnapshot:  # the log has no earlier checkpoint
            return None
        if is_feed(_state_of(snapshot)) and not before.properties.change_feed:
            check_recorded(start, self._end.latest, self._metadata_between(start, self._end.latest), self._location)
        if before.column_mapping_mode == _state_of(snapshot).version.metadata.column_mapping_mode:
            return None
        problem = difference(before.schema(), snapshot.schema)
        return problem and f"its schema has {problem}, before column mapping changed: start after that change"

    def changes_between(
        self, start: int | str | datetime | None, end: int | str | datetime | None, identity: Sequence[str]
    ) -> SnapshotSelector:
        """Return a selector of the recorded changes after one version or time, up to another.

        Raises `InvalidOption` for text, and `UnsupportedFeature` for `identity` columns, since the feed records updates
        as such.
        """
        if identity:
            raise UnsupportedFeature("identity columns for Delta's changes", "Its feed records updates as such.")
        return SnapshotSelector(changes=range_after(start, end))

    def changes_from(self, start: int | str | datetime, end: int | str | datetime | None) -> SnapshotSelector:
        """Return a selector of the recorded changes from `start` to `end`, both inclusive; raises `InvalidOption`."""
        return SnapshotSelector(changes=range_from(start, end))

    def with_changes(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot whose rows are the recorded changes of the newest version; `snapshot` is ignored."""
        return self._changes(ChangeRange(start_version=self._end.latest))

    def increment(self, snapshot: Snapshot, increment: Increment) -> Snapshot:
        """Return the snapshot, restricted to the files of an increment (a batch of a stream)."""
        return replace(snapshot, state=IncrementState(whole_state(_state_of(snapshot)), increment))

    def _commit_reader(self, snapshot: Snapshot, exclude: str | None) -> DeltaCommitReader:
        state = _state_of(snapshot)
        fields = state.version.partition_fields(snapshot.schema)
        reader = ActionReader(self.storage, tuple(f.physical_name for f in fields))
        return DeltaCommitReader(self._location, reader, snapshot.schema, exclude, feed=is_feed(state))

    def _increment(
        self, snapshot: Snapshot, wanted: Increment, planner: DeltaScanFiles, metrics: ScanMetrics
    ) -> Iterator[pa.Table]:
        """Yield the file actions of an increment: added files or, for a change data feed, files with changes."""
        reader = self._commit_reader(snapshot, wanted.exclude)
        names, properties = reader.reader.partition_columns, self.version_of(snapshot).metadata.properties

        def live(version: int) -> pa.Table:
            segment = self._segment(version)
            newest = (*segment.parts, *(each.entry for each in segment.commits))[
                -1
            ]  # differs for another table in this folder
            key = (self._location, version, newest.size, newest.modified, names, self.storage.identity)
            files = METADATA.get(key, lambda: self._log.live_files(segment, names, metrics))
            if reader.feed:
                commit = next((c for c in self._end.commits if c.version == version), None)
                files = as_inserts(files, version, self._time_of(version, commit, properties))
            return reader.sort_live_files(files)

        def changes(versions: list[int]) -> Iterator[pa.Table]:
            selected = set(versions)
            commits = tuple(c for c in self._commits(versions[0], versions[-1]) if c.version in selected)
            if not reader.feed:
                yield from reader.read_adds(commits)
                return
            times = {each.version: self._time_of(each.version, each, properties) for each in commits}
            yield self._log.changed_files(commits, times, names, metrics)

        def sort_files(actions: pa.Table) -> pa.Table:
            assert wanted.ordered_by is not None
            return planner.sort_actions(actions, wanted.ordered_by)

        return actions_of(wanted, changes, live, sort_files)

    def _time_of(self, version: int, commit: LogFile | None, properties: DeltaProperties) -> int:
        """Return a version's commit time in milliseconds since 1970; 0 if it is not in the log.

        With in-commit timestamps, reads only its commit.
        """
        if commit is not None and has_in_commit_timestamp(commit, properties):
            return in_commit_timestamp(commit, self.storage)
        return self._times.get(version, 0)

    @cached_property
    def _listing(self) -> LogListing:
        """The whole log, up to the newest version when the table was opened."""
        if self._is_whole:
            return self._end
        listing = list_log(self._location, self.storage)
        return LogListing(
            self._location,
            tuple(c for c in listing.commits if c.version <= self._end.latest),
            tuple(c for c in listing.checkpoints if c.version <= self._end.latest),
        )

    def _segment(self, version: int | None = None) -> LogSegment:
        """Return the log segment of a version.

        Lists the whole log only for versions that were not listed on opening.
        """
        near = version is None or self._end.first <= version <= self._end.latest
        return (self._end if near else self._listing).segment(version)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The newest version's partition columns."""
        return self._log.version(self._segment()).metadata.partition_columns

    def partition_filter(self, partitions: Sequence[tuple[str, str | None]]) -> Predicate:
        """Return a predicate for the rows of partitions, given by column and value as text (None for null).

        Raises `InvalidOption` for a column that is not a partition column of the newest version.
        """
        columns = self.partition_columns if partitions else ()
        if wrong := [name for name, _ in partitions if name not in columns]:
            raise InvalidOption(
                f"the path has {wrong[0]!r}, which is not a partition column of {self._location}. It has: "
                f"{', '.join(columns) or 'none'}"
            )
        texts = [(dotted_path([name]), value) for name, value in partitions]
        return conjunction(
            [IsNull(name) if value is None else Comparison(name, op="=", value=value) for name, value in texts]
        )

    @property
    def location(self) -> str:
        """The table's folder."""
        return self._location

    @property
    def partitioning(self) -> str:
        """The partition columns as text, or `unpartitioned`."""
        return ", ".join(dotted_path((name,)) for name in self.partition_columns) or "unpartitioned"

    @property
    def partition_names(self) -> Mapping[str, Collection[str]]:
        """The partition columns, each mapped to itself as its only partition field."""
        return {name: (name,) for name in self.partition_columns}

    @property
    def comment(self) -> str | None:
        """The description in the newest metadata."""
        return self._newest.metadata.description

    @property
    def format_version(self) -> str:
        """The reader and writer versions of the protocol, as text."""
        protocol = self._newest.protocol
        return f"{protocol.min_reader_version},{protocol.min_writer_version}"

    @property
    def _newest(self) -> DeltaVersion:
        return self.version_of(self.snapshot(SnapshotSelector()))

    @property
    def sort_order(self) -> str:
        """Always `unsorted`: Delta tables have no sort order."""
        return "unsorted"

    def snapshot(self, selector: SnapshotSelector) -> Snapshot:
        """Return the selected version, by default the newest, or the selected range of changes.

        Raises `NoSuchSnapshot`, `InvalidOption` for an invalid range, and `UnsupportedFeature` for a branch or tag, an
        unsupported protocol, or changes that were not recorded.
        """
        if selector.branch is not None or selector.tag is not None:
            raise UnsupportedFeature(
                "branches and tags of Delta tables", "The format has none: use a version or a timestamp."
            )
        if selector.changes is not None:
            return self._changes(selector.changes)
        version: int | None = None
        if selector.version is not None:
            version = _version_number(selector.version)
        elif selector.timestamp is not None:
            version = version_at(self._listing, self._times, selector.timestamp)
        selected = self._read_version(version)
        schema = selected.schema()
        return Snapshot(
            selected.segment.version,
            self._committed_at(selected),
            "",
            schema,
            schema,
            _metadata_columns(selected.metadata.properties, schema),
            selected.metadata.configuration,
            VersionRows(selected),
        )

    def _changes(self, wanted: ChangeRange) -> Snapshot:
        """Return the changes of a version range.

        Rows have the newest schema or, with column mapping, the last version's.

        Raises `UnsupportedFeature` if changes were not recorded, or the schema changed incompatibly, in the range.
        """
        start, end = resolve_range(wanted, self._location, self._end.latest, lambda: self._times)
        newest = self._read_version(None)
        first, last = (self._read_version(start), self._read_version(end)) if end >= start else (newest, newest)
        mapped = any(each.metadata.column_mapping_mode != "none" for each in (first, last, newest))
        read = last if mapped else newest
        metadata = list(self._metadata_between(start, end))
        check_recorded(start, end, metadata, self._location)
        schema = read.schema()
        check_schemas(schema, metadata, self._location)
        full = Schema(schema.fields + CHANGE_COLUMNS)
        state = RangeChanges(read, start, end)
        committed = from_millis(self._times[end]) if end in self._times else None
        return Snapshot(end, committed, "changes", full, full, (m.FILE, m.POS), read.metadata.configuration, state)

    def _metadata_between(self, start: int, end: int) -> Iterator[tuple[int, Metadata]]:
        """Yield pairs of version and metadata in a range of versions, both ends inclusive; nothing for an empty range.

        The first pair is that of version `start`; others are those of commits that changed the metadata.
        """
        if end < start:
            return
        yield start, self._read_version(start).metadata
        for commit in self._commits(start + 1, end):
            for action in single_actions(self._log.read(commit), ("metaData",)):
                yield commit.version, Metadata.parse(action)

    def _commits(self, start: int, end: int) -> tuple[LogFile, ...]:
        """Return the commits from `start` to `end`, both inclusive; raises `NoSuchSnapshot` if the log has lost one."""
        near = bool(self._end.commits) and self._end.commits[0].version <= start
        listing = self._end if near else self._listing
        commits = tuple(c for c in listing.commits if start <= c.version <= end)
        if [c.version for c in commits] != list(range(start, end + 1)):
            raise NoSuchSnapshot(
                f"{self._location}: some commits of versions {start} to {end} were removed from the log"
            )
        return commits

    def _read_version(self, version: int | None) -> DeltaVersion:
        """Return a version, by default the newest; its protocol and metadata are those of `with_metadata`, if set.

        Raises `NoSuchSnapshot`, and `UnsupportedFeature` for an unsupported protocol.
        """
        found = self._log.version(self._segment(version))
        if self._planned is not None:
            found = replace(found, protocol=self._planned[0], metadata=self._planned[1])
        found.protocol.check_readable(self._location)
        return found

    @staticmethod
    def version_of(snapshot: Snapshot) -> DeltaVersion:
        """Return the log segment, protocol and metadata of a snapshot.

        For changes, of the version whose schema they have.
        """
        return _state_of(snapshot).version

    def pin_snapshot(self, snapshot: Snapshot, selector: SnapshotSelector) -> tuple[str, SnapshotSelector]:
        """Return the table's location, and a selector of exactly the snapshot's version or range of changes.

        `selector` is ignored.
        """
        selected = whole_state(_state_of(snapshot))
        if isinstance(selected, VersionRows):
            return self._location, SnapshotSelector(version=snapshot.id)
        changes = ChangeRange(start_version=selected.start, end_version=selected.end)
        return self._location, SnapshotSelector(changes=changes)

    def history(self) -> pa.Table:
        """Return the rows of the metadata table `history`."""
        return as_table(self._history())

    def _history(self) -> InMemoryMetadataTable:
        """Return the commits still in the log, oldest first, with the columns of `DESCRIBE HISTORY`."""
        return InMemoryMetadataTable(HISTORY, tuple(history_row(*each) for each in self._commit_infos()))

    def _commit_infos(self) -> list[tuple[int, datetime, Mapping[str, Any]]]:
        """Return version, commit time and commitInfo of the commits still in the log, oldest first."""
        with ThreadPoolExecutor(_READERS) as pool:
            infos = pool.map(lambda commit: commit_info(self._log.read(commit)), self._listing.commits)
            versions = [commit.version for commit in self._listing.commits]
            return [(v, from_millis(self._times[v]), info) for v, info in zip(versions, infos, strict=True)]

    def refs(self, kind: RefKind) -> Mapping[str, SnapshotRef]:
        """Raise `UnsupportedFeature`: Delta has no branches and tags."""
        raise no_refs(self.location)

    def ancestors(self, snapshot: Snapshot) -> pa.Table:
        """Raise `UnsupportedFeature`: Delta versions have no parent snapshots."""
        raise no_refs(self.location)

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """The names of the metadata tables."""
        return _METADATA_TABLES

    def metadata_table(self, name: str, snapshot: Snapshot) -> MetadataTable:
        """Return `history`, `detail`, `files` or `partitions`; raises `InvalidOption` for another name."""
        if name == "history":
            return self._history()
        if name not in _METADATA_TABLES:
            raise no_such_table(name, _METADATA_TABLES)
        version = self.version_of(snapshot)
        fields = version.partition_fields(snapshot.schema)
        files = self._log.live_files(version.segment, tuple(f.physical_name for f in fields), ScanMetrics())
        if name == "files":
            return FilesTable(files, fields)
        if name == "partitions":
            return DeltaPartitionsTable(files, fields)
        clustering = clustering_columns(self._log.domain(version.segment, CLUSTERING), snapshot.schema)
        row = detail_row(self._location, snapshot.timestamp, version.metadata, version.protocol, clustering, files)
        return InMemoryMetadataTable(DETAIL, (row,))

    def matching(self, snapshot: Snapshot) -> FieldMatching:
        """Return how fields of data files are matched: by id in column mapping mode `id`, else by physical name."""
        by_id = self.version_of(snapshot).metadata.column_mapping_mode == "id"
        return FieldMatching(by_id=by_id, ids_required=by_id, legacy_calendar=True)

    def metadata_bytes(self, snapshot: Snapshot) -> int:
        """Return the total bytes of the log segment, or of a change data feed's commits."""
        state = whole_state(_state_of(snapshot))
        if isinstance(state, RangeChanges):
            return sum(commit.entry.size for commit in self._range_commits(state))
        return state.version.segment.size

    def metadata_facts(self, snapshot: Snapshot, files: FileTable, now: datetime) -> MetadataFacts:
        """Return facts about the log for health reports; lists the whole log."""
        version = self.version_of(snapshot)
        clustering = clustering_columns(self._log.domain(version.segment, CLUSTERING), snapshot.schema)
        facts = metadata_facts(version, self._listing, files, self.storage, now)
        return replace(facts, clustering=tuple(clustering))

    def plan_files(self, snapshot: Snapshot, request: FileRequest) -> Iterator[Candidates]:
        """Yield the data files of a version or of changes that partition values and statistics do not prune."""
        state = _state_of(snapshot)
        fields = state.version.partition_fields(snapshot.schema)
        if isinstance(state, IncrementState):
            request = request.add_stats(state.increment.ordered_by)
        always, sometimes = (_ALWAYS_CONSTANT, _CONSTANT_BUT_IN_CDC) if is_feed(state) else ({}, {})
        schema, columns = snapshot.schema, request.columns(snapshot.schema)
        planner = DeltaScanFiles(self._location, schema, fields, request.predicate, columns, always, sometimes)
        for candidates in self._candidates(snapshot, planner, request):
            request.metrics.count_indexed(candidates.table.deletes["kind"])
            yield candidates

    def _candidates(self, snapshot: Snapshot, planner: DeltaScanFiles, request: FileRequest) -> Iterator[Candidates]:
        state, metrics = _state_of(snapshot), request.metrics
        names = tuple(f.physical_name for f in planner.partition_fields)
        match state:
            case IncrementState():
                yield from map(planner.candidates, self._increment(snapshot, state.increment, planner, metrics))
            case RangeChanges():
                files = self._log.changed_files(self._range_commits(state), self._times, names, metrics)
                yield planner.candidates(files)
            case VersionRows():
                segment = state.version.segment
                executor = executor_for(request.executor, request.data_mode, segment.size)
                if isinstance(executor, ShufflingExecutor):
                    yield from self._log.live_shares(segment, planner, metrics, executor)
                else:
                    yield planner.candidates(self._log.live_files(segment, names, metrics, executor))

    def _range_commits(self, state: RangeChanges) -> tuple[LogFile, ...]:
        """Return the commits of a range; empty for an empty range."""
        return self._commits(state.start, state.end) if state.end >= state.start else ()

    def _committed_at(self, version: DeltaVersion) -> datetime | None:
        """Return the version's commit time, or None if its commit is no longer in the log."""
        known = (*self._end.commits, *version.segment.commits)
        commit = next((c for c in known if c.version == version.segment.version), None)
        if commit is not None and has_in_commit_timestamp(commit, version.metadata.properties):
            return from_millis(in_commit_timestamp(commit, self.storage))
        modified = None if commit is None else commit.entry.modified
        return None if modified is None else from_millis(to_millis(modified))

    @cached_property
    def _times(self) -> dict[int, int]:
        latest = self._log.version(self._segment())
        return commit_times(self._listing, latest.metadata.properties, self.storage)


def no_refs(table: str) -> UnsupportedFeature:
    """Return the error for operations on branches, tags and snapshots; `table` is the table's name or location."""
    return UnsupportedFeature(
        f"branches, tags and snapshots of the Delta table {table}",
        "Its versions are linear, see Table.history: read one with scan().as_of(version=...), and go back to one "
        "with Table.restore(version=...). Use a shallow clone instead of a branch.",
    )


def _state_of(snapshot: Snapshot) -> DeltaState:
    """Return the state of a snapshot that a Delta table resolved."""
    assert isinstance(snapshot.state, DeltaState)
    return snapshot.state


def _metadata_columns(properties: DeltaProperties, schema: Schema) -> tuple[t.Field, ...]:
    """Return the metadata columns: file and position of each row, and the row tracking columns if enabled."""
    if not properties.row_tracking:
        return m.avoid_name_clashes((m.FILE, m.POS), schema.names)
    tracking = m.row_tracking_columns(properties.row_id_column, properties.row_version_column)
    return m.avoid_name_clashes((m.FILE, m.POS, *tracking), schema.names)


def _version_number(version: int | str) -> int:
    try:
        return int(version)
    except ValueError as error:
        raise NoSuchSnapshot(f"{version!r} is not a Delta version: versions are whole numbers from 0") from error
