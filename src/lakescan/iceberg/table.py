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
from lakescan.iceberg.metadata.metadata_location import FolderSource, MetadataSource, is_catalog_name
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

_READS = 5  # attempts to open a table while concurrent commits remove its current metadata file
_SNAPSHOT_ID = re.compile(r"-?[0-9]{1,30}")
# On storage without atomic puts, the newest metadata file may be half written.
_HALF_WRITTEN = RetryPolicy(attempts=6, first=0.02, factor=2.5, ceiling=0.5)


class IcebergTable:
    """One version of a table's metadata, and the storage that holds its files.

    `words` are the format's terms for messages, `offset_names` the keys of stream offsets, and `default_limits` the
    limits of a stream's micro-batches without options.
    """

    name = "iceberg"
    knows_its_name = True
    words: FormatTerms = FormatTerms(state="snapshot", metadata_files="manifests")
    offset_names: OffsetNames = OffsetNames("snapshot-id", "position", "scan-all-files")
    default_limits: IncrementLimits = IncrementLimits()

    def __init__(self, metadata: TableMetadata, storage: Storage, source: MetadataSource) -> None:
        self.metadata = metadata
        self.storage = storage
        self._source = source

    @staticmethod
    def open(location: str, storage: Storage) -> IcebergTable:
        """Open a table folder or one metadata file; raises `NotATable`, `MissingFile` or `CorruptMetadata`."""
        return IcebergTable.load(FolderSource(location, storage), storage)

    @staticmethod
    def load(source: MetadataSource, storage: Storage, current: str | None = None) -> IcebergTable:
        """Open the table at the current metadata file of `source`.

        If `current` is given, the first attempt reads that metadata file instead of asking `source`. Raises
        `MissingFile` or `CorruptMetadata`.
        """
        for number in range(_READS):
            location = current if current is not None and number == 0 else source.current()
            try:
                return IcebergTable(load_metadata(storage.read(location), location), storage, source)
            except MissingFile:  # a concurrent commit may have removed it (write.metadata.delete-after-commit)
                if number == _READS - 1 or source.current() == location:
                    raise
        raise AssertionError

    @property
    def identity(self) -> str | None:
        """The table's UUID, or None for a format version 1 table without one."""
        return self.metadata.uuid

    def refresh(self) -> IcebergTable:
        """Return the table at its newest metadata; a table opened by metadata file never changes.

        A damaged or missing metadata file is read again a few times, because a writer may still be writing it. After
        that, raises `CorruptMetadata` or `MissingFile`.
        """
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

    def follow(self) -> IcebergTable:
        """Return the table at its newest metadata; this object if that is unchanged.

        A table that was created again in the same folder may have a metadata file of the same name, unless the name has
        a unique id. Such a file is read again.
        """
        found = self.refresh()
        if found is not self or is_catalog_name(self.metadata.source.rpartition("/")[2]):
            return found
        again = IcebergTable.load(self._source, self.storage)
        return self if again.metadata == self.metadata else again

    def reopen(self) -> IcebergTable:
        """Return the table at its newest metadata, as `refresh` does."""
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
        """The names of identity partition fields in all specs, by source column.

        One column can have several names, because a partition field keeps its name when its column is renamed.
        """
        names, found = self.metadata.schema.reference_of, dict[str, set[str]]()
        for spec in self.metadata.specs.values():
            for field in spec.fields:
                if field.transform.name == "identity" and field.source_id in names:
                    found.setdefault(names[field.source_id], set()).add(field.name)
        return found

    @property
    def comment(self) -> str | None:
        """The table property `comment`, or None."""
        return self.metadata.properties.get("comment")

    @property
    def format_version(self) -> str:
        """The format version, as text."""
        return str(self.metadata.format_version)

    @property
    def sort_order(self) -> str:
        """The default sort order as text."""
        return self.metadata.sort_order.describe(self.metadata.schema)

    def snapshot(self, selector: SnapshotSelector) -> Snapshot:
        """Return the snapshot that a selector names.

        A branch, like the current snapshot, is read with the table's current schema. A tag, a snapshot id or a
        timestamp is read with the snapshot's own schema. A timestamp selects the snapshot that was current at that
        time, by the snapshot log.

        Raises `NoSuchSnapshot` for an unknown snapshot, branch, tag or time, `InvalidOption` for `wap-branch` on a
        table without `write.wap.enabled`.
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
        """Return the branch of the option `wap-branch` if the table has it, else None, to read the current snapshot.

        Raises `InvalidOption` for a table without `write.wap.enabled`.
        """
        if not self.metadata.table_properties.is_audited:
            raise InvalidOption(
                f"{self.location} cannot be read with wap-branch, because its property write.wap.enabled is not true: "
                "read a branch with the option branch"
            )
        reference = self.metadata.refs.get(branch)
        return branch if reference is not None and reference.kind == RefKind.BRANCH else None

    def pin_snapshot(self, snapshot: Snapshot, selector: SnapshotSelector) -> tuple[str, SnapshotSelector]:
        """Return a location and a selector that open the same snapshot despite later commits.

        They are the metadata file, which never changes, and the unchanged selector.
        """
        return self.metadata.source, selector

    def starting_point(self, start: StreamStart, branch: str | None = None) -> Offset:
        """Return the offset before the first snapshot that a stream reads; see `starting_point` and `StreamStart`."""
        return starting_point(self.metadata, self._head(branch), start, self._tag_snapshot_id)

    def commits(self, request: CommitRequest, snapshot: Snapshot) -> Iterator[Commit]:
        """Yield the commits of the request's branch after its snapshot `after`, oldest first.

        If `after` is None, all commits that have not expired are yielded. Raises `NoSuchSnapshot` if `after` is not on
        the branch.
        """
        line = lineage(self.metadata, self._head(request.branch), request.after)
        return add_obstacles(map(as_commit, line), self.metadata, snapshot.schema)

    def increment(self, snapshot: Snapshot, increment: Increment) -> Snapshot:
        """Return the snapshot with an increment's files instead of its own; raises `NoSuchSnapshot` if one expired."""
        if expired := [part.commit for part in increment.parts if part.commit not in self.metadata.snapshots]:
            raise self._no_snapshot(f"snapshot {expired[0]} has expired")
        return replace(snapshot, state=IncrementState(increment))

    def _read_range(self, wanted: AppendRange) -> Snapshot:
        """Return the newest snapshot of a range of commits, but with the rows that its append commits added.

        If the range asks for changes, it has the changelog of all commits instead. Raises `NoSuchSnapshot`.
        """
        head, after = self._end_of(wanted.upto), self._end_of(wanted.after)
        head = self._head(wanted.branch) if head is None else head
        if head is not None and head not in self.metadata.snapshots:
            raise self._no_snapshot(f"no snapshot {head}")
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
        """Return a selector of the changelog after `start` up to `end`, computed from added and removed files.

        Both ends are a snapshot id, a tag or a time. None means the first or the current snapshot. They are checked
        when the snapshot is selected. `identity` is not used.
        """
        return SnapshotSelector(appends=AppendRange(start, end, changes=True))

    def changes_from(self, start: int | str | datetime, end: int | str | datetime | None) -> SnapshotSelector:
        """Return a selector of the changelog from the commit `start`, inclusive, to `end`.

        `start` is a snapshot id, a tag, or a time that selects the first snapshot at or after it. Raises
        `NoSuchSnapshot`.
        """
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
        """Return the snapshot with the changelog columns added to its schema."""
        return replace(snapshot, schema=Schema(snapshot.schema.fields + m.CHANGELOG, snapshot.schema.id))

    def _end_of(self, end: int | str | datetime | None) -> int | None:
        """Return the snapshot id of one end of a range, which is an id, a tag, or a time; None stays None.

        An id is not checked. Raises `NoSuchSnapshot` for an unknown tag, and a time before the first snapshot.
        """
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
        """Return the rows of the metadata table `history`, with operation and summary; see `snapshot_log`.

        If the snapshot log is missing or damaged, the rows are all snapshots by commit time.
        """
        return as_table(snapshot_log(self.metadata))

    def refs(self, kind: RefKind) -> SnapshotRefs:
        """Return the branches or tags by name, `main` first."""
        found = {name: ref for name, ref in self.metadata.refs.items() if ref.kind == kind}
        names = sorted(found, key=lambda each: (each != MAIN, each))
        return SnapshotRefs((name, snapshot_ref(found[name])) for name in names)

    def ancestors(self, snapshot: Snapshot) -> pa.Table:
        """Return a snapshot and its ancestors that have not expired, newest first, with their commit times."""
        line = list(ancestors(self.metadata.snapshots, snapshot.id))
        times = pa.array([each.timestamp_ms for each in line], pa.timestamp("ms", "UTC"))
        return pa.table({"snapshot_id": pa.array([each.id for each in line], pa.int64()), "committed_at": times})

    @property
    def metadata_tables(self) -> tuple[str, ...]:
        """The names that `metadata_table` accepts."""
        return tuple(METADATA_TABLES)

    def metadata_table(self, name: str, snapshot: Snapshot) -> MetadataTable:
        """Return a metadata table by name.

        Raises `InvalidOption` for an unknown name, and for a table of one snapshot while the options select a range of
        commits.
        """
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
        """Return how to match columns: by field id, and in files without ids by the name mapping, else by position."""
        return field_matching(self.metadata)

    def metadata_bytes(self, snapshot: Snapshot) -> int:
        """Return the total size in bytes of the snapshot's manifests, from its manifest list.

        It is 0 for increments and for a table without snapshots.
        """
        state = _state_of(snapshot)
        if not isinstance(state, LiveState) or state.snapshot is None:
            return 0
        manifests = read_manifest_list(state.snapshot, self.storage)
        return pc.sum(manifests["manifest_length"]).as_py() or 0

    def metadata_facts(self, snapshot: Snapshot, files: FileTable, now: datetime) -> MetadataFacts:
        """Return the facts for a table report that the metadata file and the snapshot's manifest list record."""
        state = _state_of(snapshot)
        selected = state.snapshot if isinstance(state, LiveState) else None
        return metadata_facts(self.metadata, selected, files, self.storage, now)

    def plan_files(self, snapshot: Snapshot, request: FileRequest) -> Iterator[Candidates]:
        """Yield the live files that partition values and column statistics do not rule out, in batches of manifests.

        The catalog's server plans instead if `request.planned_by` or the catalog selects it.
        """
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
        """Return the server that plans this scan, or None to plan in this process.

        `mode` is the reader's choice, 'client' or 'server', or None. Raises `UnsupportedFeature` for the mode `server`
        if the table was opened by its location, and the errors of `PlanningSource.planner`.
        """
        if isinstance(self._source, PlanningSource):
            return self._source.planner(mode)
        if mode == "server":
            raise UnsupportedFeature(
                f"scan-planning-mode=server for {self.location}, which was opened by its location",
                "A catalog plans only scans of tables that are opened by name: use the table's name in the catalog.",
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
                f"table's schemas {sorted(self.metadata.schemas)}. Read it through a branch, which uses the table's "
                "current schema."
            )
        return self.metadata.schemas[schema_id]

    def _all_columns(self, schema: Schema) -> Schema:
        """Return the columns of a schema, followed by columns that exist only in other schemas of the table."""
        columns = {f.id: f for f in schema.fields}
        for other in sorted(self.metadata.schemas.values(), key=lambda s: -s.id):  # the newest first
            for field in other.fields:
                columns.setdefault(field.id, field)
        return Schema(tuple(columns.values()), schema.id)

    def _metadata_columns(self, schema: Schema) -> tuple[Field, ...]:
        """Return the metadata columns (`_file`, `_pos`, ...), including row lineage from format version 3 on.

        They are renamed where `schema` has a column of the same name.
        """
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
        snapshot = self.metadata.snapshots.get(earlier[-1])  # the log is in commit order, as Java assumes too
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
    """Return the Iceberg state of a snapshot, which `IcebergTable.snapshot` attached."""
    assert isinstance(snapshot.state, IcebergState)
    return snapshot.state
