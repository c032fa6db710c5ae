"""An open Iceberg table: implements the `formats` protocols over table metadata and scans."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.common.retries import Attempts, RetryPolicy
from lakescan.common.schema import FieldMatching, Schema
from lakescan.common.timestamps import from_millis, to_millis
from lakescan.common.types import Field
from lakescan.errors import CorruptMetadata, InvalidOption, MissingFile, NoSuchSnapshot, UnsupportedFeature
from lakescan.formats.increments import (
    Commit,
    CommitChange,
    CommitPart,
    Increment,
    IncrementLimits,
    Offset,
    OffsetNames,
)
from lakescan.formats.metadata_table import MetadataTable, as_table
from lakescan.formats.snapshot_refs import RefKind, SnapshotRefs
from lakescan.formats.table_format import (
    AppendRange,
    CommitRequest,
    FileRequest,
    MetadataFacts,
    Snapshot,
    SnapshotSelector,
    StreamStart,
)
from lakescan.iceberg.maintenance.metadata_facts import metadata_facts
from lakescan.iceberg.manifests.manifest_list import read_manifest_list
from lakescan.iceberg.metadata.format_versions import VERSIONS
from lakescan.iceberg.metadata.metadata_location import FolderSource, MetadataSource
from lakescan.iceberg.metadata.name_mapping import field_matching
from lakescan.iceberg.metadata.snapshot_retention import snapshot_ref
from lakescan.iceberg.metadata.table_metadata import MAIN, IcebergSnapshot, TableMetadata, ancestors
from lakescan.iceberg.metadata.table_metadata_parser import load_metadata
from lakescan.iceberg.metadata_tables import METADATA_TABLES, OF_SNAPSHOT, metadata_table
from lakescan.iceberg.metadata_tables.snapshots import snapshot_log
from lakescan.iceberg.scan.incremental_scan import IncrementFiles, add_obstacles, as_commit, lineage, starting_point
from lakescan.iceberg.scan.server_side_planning import PlanningServer, PlanningSource, ServerPlan
from lakescan.iceberg.scan.snapshot_scan import IcebergState, IncrementState, LiveState, SnapshotScan
from lakescan.planning.candidates import Candidates
from lakescan.planning.file_table import FileTable
from lakescan.planning.scan_report import FormatTerms
from lakescan.storage import Storage

# On storage without atomic puts, the newest metadata file may be half written.
_READS = 5  # of a table whose current metadata file other writers remove meanwhile
_SNAPSHOT_ID = re.compile(r"-?[0-9]{1,30}")
_HALF_WRITTEN = RetryPolicy(attempts=6, first=0.02, factor=2.5, ceiling=0.5)


class IcebergTable:
    """One version of a table's metadata, and the storage that holds its files."""

    name = "iceberg"
    words: FormatTerms = FormatTerms(state="snapshot", metadata_files="manifests")
    offset_names: OffsetNames = OffsetNames("snapshot-id", "position", "scan-all-files")
    default_limits: IncrementLimits = IncrementLimits()

    def __init__(self, metadata: TableMetadata, storage: Storage, source: MetadataSource) -> None:
        self.metadata = metadata
        self.storage = storage
        self._source = source

    @staticmethod
    def open(location: str, storage: Storage) -> IcebergTable:
        """Open a table folder, or one metadata JSON; raises `NotATable`, `MissingFile` or `CorruptMetadata`."""
        return IcebergTable.load(FolderSource(location, storage), storage)

    @staticmethod
    def load(source: MetadataSource, storage: Storage, current: str | None = None) -> IcebergTable:
        """Open the table whose metadata file `source` names; `current`, if given, is used instead of asking it."""
        for number in range(_READS):
            location = current if current is not None and number == 0 else source.current()
            try:
                return IcebergTable(load_metadata(storage.read(location), location), storage, source)
            except MissingFile:  # a commit may have removed the file since (write.metadata.delete-after-commit)
                if number == _READS - 1 or source.current() == location:
                    raise
        raise AssertionError

    @property
    def identity(self) -> str | None:
        """The table's UUID; version 1 may have none."""
        return self.metadata.uuid

    def refresh(self) -> IcebergTable:
        """The table with its newest metadata. A table opened by metadata file never changes."""
        attempts = Attempts(_HALF_WRITTEN)
        while True:
            location = self._source.current()
            if location == self.metadata.source:
                return self
            try:
                return IcebergTable(load_metadata(self.storage.read(location), location), self.storage, self._source)
            except (CorruptMetadata, MissingFile):
                if not attempts.wait():
                    raise

    def reopen(self) -> IcebergTable:
        """The table with its newest metadata."""
        return self.refresh()

    @property
    def location(self) -> str:
        """The table's location, as recorded in its metadata."""
        return self.metadata.location

    @property
    def partitioning(self) -> str:
        """The default partition spec as text."""
        return self.metadata.specs[self.metadata.default_spec_id].describe(self.metadata.schema)

    @property
    def partition_names(self) -> Mapping[str, Collection[str]]:
        """The sources of identity fields in all specs: a field keeps its name when its column gets another."""
        names, found = self.metadata.schema.reference_of, dict[str, set[str]]()
        for spec in self.metadata.specs.values():
            for field in spec.fields:
                if field.transform.name == "identity" and field.source_id in names:
                    found.setdefault(names[field.source_id], set()).add(field.name)
        return found

    @property
    def comment(self) -> str | None:
        """The property `comment`."""
        return self.metadata.properties.get("comment")

    @property
    def format_version(self) -> str:
        """The format version."""
        return str(self.metadata.format_version)

    @property
    def sort_order(self) -> str:
        """The default sort order as text."""
        return self.metadata.sort_order.describe(self.metadata.schema)

    def snapshot(self, selector: SnapshotSelector) -> Snapshot:
        """The selected snapshot.

        A branch, like the current snapshot, is read with the table's current schema; a tag, a snapshot id or a
        timestamp with the snapshot's own schema. A timestamp selects the snapshot that was current then, by the
        snapshot log.
        """
        if selector.appends is not None:
            return self._read_range(selector.appends)
        name, tag = selector.branch, selector.tag
        if selector.wap_branch is not None:
            name = self._audit_branch(selector.wap_branch)
        version = selector.version
        if isinstance(version, str) and _SNAPSHOT_ID.fullmatch(version):
            version = int(version)
        if isinstance(version, str):
            name, tag = (version, None) if self._kind(version) == "branch" else (None, version)
        if name is not None or tag is not None:
            kind = "tag" if name is None else "branch"
            referenced = self._find_ref(str(tag if name is None else name), kind)
            return self._resolve_snapshot(referenced, own_schema=name is None)
        if isinstance(version, int):
            if version not in self.metadata.snapshots:
                raise self._no_snapshot(f"no snapshot {version}")
            return self._resolve_snapshot(self.metadata.snapshots[version], own_schema=True)
        if selector.timestamp is not None:
            return self._resolve_snapshot(self._as_of(to_millis(selector.timestamp)), own_schema=True)
        current = self.metadata.current_snapshot_id
        return self._resolve_snapshot(None if current is None else self.metadata.snapshots[current], own_schema=False)

    def _audit_branch(self, branch: str) -> str | None:
        """The branch of an audited table, if it is there; raises `InvalidOption` for a table that is not audited."""
        if not self.metadata.table_properties.is_audited:
            raise InvalidOption(
                f"wap-branch reads the audited rows of {self.location}, whose property write.wap.enabled is not true: "
                "read a branch with the option branch"
            )
        reference = self.metadata.refs.get(branch)
        return branch if reference is not None and reference.kind == RefKind.BRANCH else None

    def pin_snapshot(self, snapshot: Snapshot, selector: SnapshotSelector) -> tuple[str, SnapshotSelector]:
        """The location of the metadata file, which never changes, and the selector as given."""
        return self.metadata.source, selector

    def starting_point(self, start: StreamStart, branch: str | None = None) -> Offset:
        """The offset before the first snapshot that a stream reads; see `StreamStart`."""
        return starting_point(self.metadata, self._head(branch), start, self._tag_snapshot_id)

    def commits(self, request: CommitRequest, snapshot: Snapshot) -> Iterator[Commit]:
        """The commits of a branch after a given snapshot, oldest first."""
        line = lineage(self.metadata, self._head(request.branch), request.after)
        return add_obstacles(map(as_commit, line), self.metadata, snapshot.schema)

    def increment(self, snapshot: Snapshot, increment: Increment) -> Snapshot:
        """The snapshot with the files of an increment instead of its own."""
        if expired := [part.commit for part in increment.parts if part.commit not in self.metadata.snapshots]:
            raise self._no_snapshot(f"snapshot {expired[0]} has expired")
        return replace(snapshot, state=IncrementState(increment))

    def _read_range(self, wanted: AppendRange) -> Snapshot:
        """The rows added by the append snapshots of a range, as in Iceberg's append scans; or its changelog."""
        head, after = self._end_of(wanted.upto), self._end_of(wanted.after)
        head = self._head(wanted.branch) if head is None else head
        line = [as_commit(each) for each in lineage(self.metadata, head, after)]
        read = [
            c.id
            for c in line
            if c.change == CommitChange.APPEND or (wanted.changes and c.change != CommitChange.NOTHING)
        ]
        parts = tuple(CommitPart(commit, ordinal=n) for n, commit in enumerate(read))
        base = self._resolve_snapshot(None if head is None else self.metadata.snapshots[head], own_schema=False)
        base = self.with_changes(base) if wanted.changes else base
        return self.increment(base, Increment(parts, changes=wanted.changes))

    def changes_between(
        self, start: int | str | datetime | None, end: int | str | datetime | None, identity: Sequence[str]
    ) -> SnapshotSelector:
        """The changes after one snapshot, time or tag, up to another, computed from added and removed files."""
        return SnapshotSelector(appends=AppendRange(start, end, changes=True))

    def changes_from(self, start: int | str | datetime, end: int | str | datetime | None) -> SnapshotSelector:
        """The changes of the snapshots from one, the first since a time, or a tag's, to another."""
        head = self._end_of(end) if end is not None else self._head(None)
        if head is not None and head not in self.metadata.snapshots:
            raise self._no_snapshot(f"no snapshot {head}")
        line = lineage(self.metadata, head, None)
        if isinstance(start, datetime):
            found = [each for each in line if from_millis(each.timestamp_ms) >= start]
        else:
            found = [
                each for each in line if each.id == (self._tag_snapshot_id(start) if isinstance(start, str) else start)
            ]
        if not found:
            since = f"at or after {start}" if isinstance(start, datetime) else start
            raise self._no_snapshot(f"no snapshot {since} among those up to snapshot {head}")
        return SnapshotSelector(appends=AppendRange(found[0].parent_id, head, changes=True))

    def with_changes(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with the changelog columns added to its schema."""
        return replace(snapshot, schema=Schema(snapshot.schema.fields + m.CHANGELOG, snapshot.schema.id))

    def _end_of(self, end: int | str | datetime | None) -> int | None:
        """The snapshot id for one end of a range."""
        if isinstance(end, datetime):
            return self._as_of(to_millis(end)).id
        return self._tag_snapshot_id(end) if isinstance(end, str) else end

    def _tag_snapshot_id(self, name: str) -> int:
        snapshot = self._find_ref(name, "tag")
        assert snapshot is not None
        return snapshot.id

    def _head(self, branch: str | None) -> int | None:
        snapshot = self._find_ref(branch or MAIN, "branch")
        return None if snapshot is None else snapshot.id

    def history(self) -> pa.Table:
        """The rows of the metadata table `history`; if the snapshot log is damaged, of the snapshots instead."""
        return as_table(snapshot_log(self.metadata))

    def refs(self, kind: RefKind) -> SnapshotRefs:
        """The branches or tags by name, `main` first."""
        found = {name: ref for name, ref in self.metadata.refs.items() if ref.kind == kind}
        names = sorted(found, key=lambda each: (each != MAIN, each))
        return SnapshotRefs((name, snapshot_ref(found[name])) for name in names)

    def ancestors(self, snapshot: Snapshot) -> pa.Table:
        """A snapshot and its known ancestors, newest first."""
        line = list(ancestors(self.metadata.snapshots, snapshot.id))
        times = pa.array([each.timestamp_ms for each in line], pa.timestamp("ms", "UTC"))
        return pa.table({"snapshot_id": pa.array([each.id for each in line], pa.int64()), "committed_at": times})

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """The names that `metadata_table` accepts."""
        return tuple(METADATA_TABLES)

    def metadata_table(self, name: str, snapshot: Snapshot) -> MetadataTable:
        """One of the sixteen metadata tables; raises `InvalidOption` for an unknown name."""
        state = _state_of(snapshot)
        if isinstance(state, IncrementState) and name in OF_SNAPSHOT:
            raise InvalidOption(
                f"{self.location}: the metadata table {name!r} shows one snapshot, and the options select the commits "
                "of a range: inspect the table without them, or with version= or timestamp="
            )
        return metadata_table(
            name, self.metadata, self.storage, state.snapshot if isinstance(state, LiveState) else None
        )

    def matching(self, snapshot: Snapshot) -> FieldMatching:
        """Match columns by field id; in files without ids by the table's name mapping, or by position without one."""
        return field_matching(self.metadata)

    def metadata_bytes(self, snapshot: Snapshot) -> int:
        """The total size of the snapshot's manifests, from its manifest list; 0 for increments."""
        state = _state_of(snapshot)
        if not isinstance(state, LiveState) or state.snapshot is None:
            return 0
        manifests = read_manifest_list(state.snapshot, self.storage)
        return pc.sum(manifests["manifest_length"]).as_py() or 0

    def metadata_facts(self, snapshot: Snapshot, files: FileTable, now: datetime) -> MetadataFacts:
        """What the metadata file and the snapshot's manifest list say."""
        state = _state_of(snapshot)
        selected = state.snapshot if isinstance(state, LiveState) else None
        return metadata_facts(self.metadata, selected, files, self.storage, now)

    def plan_files(self, snapshot: Snapshot, request: FileRequest) -> Iterator[Candidates]:
        """The live files that partition and column statistics do not rule out, in batches of manifests."""
        match _state_of(snapshot):
            case LiveState(snapshot=None):
                return
            case LiveState(snapshot=IcebergSnapshot() as selected):
                if (server := self._planner(request.planned_by)) is not None:
                    plan = ServerPlan(server, self.metadata, snapshot.schema, request, self.storage)
                    yield from plan.plan(selected)
                    return
                yield from SnapshotScan(self.metadata, snapshot.schema, request, self.storage).plan(selected)
            case IncrementState(increment=increment):
                request = request.add_stats(increment.ordered_by)
                files = IncrementFiles(self.metadata, snapshot.schema, request, self.storage)
                yield from files.plan(increment)

    def _planner(self, mode: str | None) -> PlanningServer | None:
        """The server of the table's catalog, if it is to plan."""
        if isinstance(self._source, PlanningSource):
            return self._source.planner(mode)
        if mode == "server":
            raise UnsupportedFeature(
                f"scan-planning-mode=server for {self.location}, which was opened by its location",
                "A catalog plans scans of tables that are opened by their names.",
            )
        return None

    def _resolve_snapshot(self, snapshot: IcebergSnapshot | None, *, own_schema: bool) -> Snapshot:
        schema: Schema = self.metadata.schema
        if snapshot is None:
            properties = self.metadata.properties
            return Snapshot(None, None, "", schema, schema, self._metadata_columns(schema), properties, LiveState(None))
        if own_schema and snapshot.schema_id is not None:
            schema = self._schema_of(snapshot, snapshot.schema_id)
        return Snapshot(
            snapshot.id,
            from_millis(snapshot.timestamp_ms),
            snapshot.operation,
            schema,
            self._all_columns(schema),
            self._metadata_columns(schema),
            self.metadata.properties,
            LiveState(snapshot),
        )

    def _schema_of(self, snapshot: IcebergSnapshot, schema_id: int) -> Schema:
        if schema_id not in self.metadata.schemas:
            raise CorruptMetadata(
                f"{self.metadata.source}: snapshot {snapshot.id} has schema {schema_id}, which is not among the "
                f"table's schemas {sorted(self.metadata.schemas)}: its columns are unknown. Read it through a branch, "
                "which uses the table's current schema."
            )
        return self.metadata.schemas[schema_id]

    def _all_columns(self, schema: Schema) -> Schema:
        """The columns of a schema, followed by the columns that only other schemas of the table have."""
        columns = {f.id: f for f in schema.fields}
        for other in sorted(self.metadata.schemas.values(), key=lambda s: -s.id):  # the newest first
            for field in other.fields:
                columns.setdefault(field.id, field)
        return Schema(tuple(columns.values()), schema.id)

    def _metadata_columns(self, schema: Schema) -> tuple[Field, ...]:
        """The reserved columns; row lineage from format version 3 on."""
        partition = m.partition_column(self.metadata.partition_type.fields)
        lineage = (m.ROW_ID, m.LAST_UPDATED) if VERSIONS[self.metadata.format_version].row_lineage else ()
        columns = (m.FILE, m.POS, m.SPEC_ID, partition, m.DELETED, *lineage)
        return m.avoid_name_clashes(columns, schema.names)

    def _kind(self, name: str) -> str:
        reference = self.metadata.refs.get(name)
        return reference.kind if reference is not None else "branch"

    def _find_ref(self, name: str, kind: str) -> IcebergSnapshot | None:
        if name == MAIN and self.metadata.current_snapshot_id is None:
            return None
        reference = self.metadata.refs.get(name)
        if reference is None or reference.kind != kind:
            names = sorted(n for n, r in self.metadata.refs.items() if r.kind == kind)
            raise NoSuchSnapshot(
                f"{self.location} has no {kind} {name!r}; "
                + (f"its {kind} names are: {', '.join(names)}" if names else f"it has no {kind}")
            )
        return self.metadata.snapshots[reference.snapshot_id]

    def _as_of(self, milliseconds: int) -> IcebergSnapshot:
        self.metadata.check_log("snapshot-log")
        earlier = [snapshot_id for at, snapshot_id in self.metadata.snapshot_log if at <= milliseconds]
        if not earlier:
            raise self._no_snapshot(f"no snapshot was current at {from_millis(milliseconds)}")
        snapshot = self.metadata.snapshots.get(earlier[-1])  # the log is in the order of commits, as Java reads it
        if snapshot is None:
            raise self._no_snapshot(f"the snapshot that was current at {from_millis(milliseconds)} has expired")
        return snapshot

    def _no_snapshot(self, problem: str) -> NoSuchSnapshot:
        known = sorted(self.metadata.snapshots.values(), key=lambda s: s.timestamp_ms)
        if not known:
            return NoSuchSnapshot(f"{self.location}: {problem}; the table has no snapshot yet")
        first, last = (f"{from_millis(each.timestamp_ms)} (id {each.id})" for each in (known[0], known[-1]))
        has = f"one snapshot, of {first}" if len(known) == 1 else f"{len(known)} snapshots, from {first} to {last}"
        return NoSuchSnapshot(f"{self.location}: {problem}; it has {has}: see Table.history()")


def _state_of(snapshot: Snapshot) -> IcebergState:
    """The state of a snapshot that an Iceberg table resolved."""
    assert isinstance(snapshot.state, IcebergState)
    return snapshot.state
