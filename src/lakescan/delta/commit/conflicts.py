"""Decide whether a commit conflicts with concurrent commits to the table.

The rules are those of Delta on Spark, with one restriction more: any change of the metadata or the protocol is a
conflict, since the files were written for the old ones. A commit without conflicts is rebased: nothing is read or
written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.log_text import Action, LogText, parse_object, single_actions
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.replay import canonical_paths, file_locations
from lakescan.delta.scan.scan_files import DeltaScanFiles
from lakescan.errors import CommitConflict, ConflictCause
from lakescan.expressions.bind import bind_columns_only
from lakescan.expressions.predicate import TRUE, Predicate, leaves
from lakescan.tables.scan_spec import ScanSpec

_OTHERS = ("commitInfo", "metaData", "protocol", "txn", "domainMetadata")
ROW_TRACKING = "delta.rowTracking"
_Problem = tuple[ConflictCause, str]


def _nothing(files: pa.Table | pa.Array) -> pa.Array:
    return pa.repeat(pa.scalar(False), len(files))


@dataclass(frozen=True)
class Reads:
    """The files that a commit depends on, in addition to the files that it removes.

    - `may_have_read`: takes files that concurrent commits added (rows of `ActionReader.changes`); returns a mask of
      those that the commit would have read. By default no file: for an append, or for a rewrite of the same rows.
    - `has_read`: takes canonical locations of files; returns a mask of those that the commit read. A concurrent commit
      that removes one conflicts even if it only moves the rows, since they may change again before this commit.
    - `everything`: whether the commit read the whole table, so that any file whose rows are removed conflicts.
    - `never`: takes changed files (rows of `ActionReader.changes`); returns a mask of those that must not be in the
      table after the commit, whoever adds them.
    """

    may_have_read: Callable[[pa.Table], pa.Array] = _nothing
    everything: bool = False
    has_read: Callable[[pa.Array], pa.Array] = _nothing
    never: Callable[[pa.Table], pa.Array] = _nothing

    @staticmethod
    def whole_table() -> Reads:
        """Return the reads of a commit that depends on all rows of the table."""
        return Reads(lambda files: pa.repeat(pa.scalar(True), files.num_rows), everything=True)


@dataclass(frozen=True)
class Intent:
    """The properties of a commit that decide whether it conflicts with concurrent commits.

    - `removed`: the locations of files that it removes, or adds again with another deletion vector or other row ids.
    - `changes_data`: whether it changes rows, rather than moving them.
    - `app_id`: the application id of its `txn` action, or None.
    - `domains`: the metadata domains that it changes.
    - `passes_blind_appends`: whether blind appends do not conflict.
    """

    reads: Reads
    removed: pa.Array
    changes_data: bool
    app_id: str | None = None
    domains: frozenset[str] = frozenset()
    passes_blind_appends: bool = False  # isolation level WriteSerializable

    @property
    def depends_on_files(self) -> bool:
        """True if files that concurrent commits add or remove may conflict; False for an append."""
        return len(self.removed) > 0 or self.reads != Reads()


@dataclass(frozen=True)
class WinningCommit:
    """A concurrent commit with the version that this commit tried to take.

    Its properties raise `CorruptMetadata` if the commit is damaged.
    """

    text: LogText
    reader: ActionReader

    @property
    def version(self) -> int:
        """The version of the commit."""
        return self.text.version

    @cached_property
    def files(self) -> pa.Table:
        """The file actions of the commit (see `ActionReader.changes`)."""
        return self.reader.changes([self.text])

    @cached_property
    def others(self) -> Mapping[str, list[Action]]:
        """The non-file actions of the commit, by name."""
        others: dict[str, list[Action]] = {}
        for action in single_actions(self.text, _OTHERS):
            others.setdefault(action.name, []).append(action)
        return others

    @property
    def info(self) -> Mapping[str, object]:
        """The fields of the commit's commitInfo; empty without one."""
        return next((each.members for each in self.others.get("commitInfo", ())), {})

    @property
    def row_ids(self) -> int | None:
        """The high-water mark of row ids that the commit sets, or None."""
        return next((row_id_mark(each) for each in self._domains() if each.get("domain") == ROW_TRACKING), None)

    def _domains(self) -> list[Action]:
        return self.others.get("domainMetadata", [])

    def check(self, intent: Intent, location: str) -> None:
        """Raise `CommitConflict` if the intended commit to the table at `location` conflicts with this one."""
        found = self._table_conflict(intent)
        if found is None and intent.depends_on_files:
            found = self._file_conflict(intent, location)
        if found is not None:
            cause, problem = found
            operation = self.info.get("operation")
            by = f"version {self.version}{f' ({operation})' if isinstance(operation, str) else ''}"
            raise CommitConflict(f"{location}: the concurrent commit of {by} {problem}").because(cause)

    def _table_conflict(self, intent: Intent) -> _Problem | None:
        for name, cause, what in (
            ("protocol", ConflictCause.PROTOCOL, "protocol"),
            ("metaData", ConflictCause.METADATA, "columns or properties"),
        ):
            if self.others.get(name):
                return cause, f"changed the table's {what}. Retry the write."
        apps = {each.get("appId") for each in self.others.get("txn", ())}
        if intent.app_id is not None and intent.app_id in apps:
            return ConflictCause.TRANSACTION, f"has the same application id, {intent.app_id!r}"
        domains = {each.get("domain") for each in self._domains()} - {ROW_TRACKING}
        if both := sorted(domains & intent.domains, key=str):
            return ConflictCause.WRITE, f"changed the same domain metadata, {both[0]!r}"
        return None

    def _file_conflict(self, intent: Intent, location: str) -> _Problem | None:
        kinds, paths = self.files["action"], self.files["path"].combine_chunks()
        places = canonical_paths(file_locations(paths, location))
        # A file that was added again, with another deletion vector or row ids, is not the file that would be removed.
        touched = pc.and_(pc.is_in(places, value_set=canonical_paths(intent.removed)), pc.not_equal(kinds, "cdc"))
        if (place := pc.index(touched, True).as_py()) >= 0:
            return ConflictCause.DELETE_DELETE, f"removed or changed {places[place].as_py()}, which this commit removes"
        wrong = pc.and_(pc.equal(kinds, "add"), intent.reads.never(self.files))
        if (place := pc.index(wrong, True).as_py()) >= 0:
            return (
                ConflictCause.APPEND,
                f"added {places[place].as_py()}, which cannot be in the table after this commit",
            )
        if not intent.changes_data and intent.reads == Reads():
            return None  # snapshot isolation: the same rows in other files
        is_removed = pc.equal(kinds, "remove")
        removed = places.filter(is_removed)
        was_read = (
            self.files["data_change"].filter(is_removed) if intent.reads.everything else intent.reads.has_read(removed)
        )
        if (place := pc.index(was_read, True).as_py()) >= 0:
            return ConflictCause.DELETE_READ, f"removed or changed {removed[place].as_py()}, which this commit read"
        if intent.passes_blind_appends and self.info.get("isBlindAppend") is True:
            return None
        added = self.files.filter(pc.and_(pc.equal(kinds, "add"), self.files["data_change"]))
        read = intent.reads.may_have_read(added) if added.num_rows else pa.array([], pa.bool_())
        if (place := pc.index(read, True).as_py()) >= 0:
            path = file_locations(added["path"].combine_chunks(), location)[place].as_py()
            return ConflictCause.APPEND, f"added {path}, whose rows this commit may depend on"
        return None


def row_id_mark(action: Action) -> int | None:
    """Return the row id high-water mark in the domainMetadata action of row tracking.

    Raises `CorruptMetadata` without one.
    """
    text = action.text("configuration") or ""
    inner = Action("rowIdHighWaterMark", parse_object(text, action.where), action.where)
    mark = inner.whole_number("rowIdHighWaterMark")
    if mark is None:
        raise inner.wrong("rowIdHighWaterMark", "a whole number")
    return mark


def planner_of(scan: ScanSpec, version: DeltaVersion, predicate: Predicate = TRUE) -> DeltaScanFiles:
    """Return a `DeltaScanFiles` that selects file actions of a version by a predicate bound to its columns."""
    schema = scan.snapshot.schema
    ids = {leaf.bound_id for leaf in leaves(predicate)}.intersection(schema.by_id)
    columns = {each: schema.by_id[each] for each in ids}
    fields = version.partition_fields(schema)
    return DeltaScanFiles(version.segment.location, schema, fields, predicate, columns, {}, {})


def overwrite_reads(scan: ScanSpec, version: DeltaVersion, where: Predicate | None) -> Reads:
    """Return the reads of an overwrite: a concurrently added file with rows that match `where` conflicts.

    `where` is None for an overwrite of the whole table.
    """
    return Reads.whole_table() if where is None else Reads(_may_match(scan, version, where))


def statement_reads(scan: ScanSpec, version: DeltaVersion, read: Predicate | None) -> Reads:
    """Return the reads of a DELETE, UPDATE or MERGE that read rows matching `read`, or all rows if that is None.

    They are those of an overwrite, and the base's files that may have rows that match `read`. The base's files are
    planned only if a concurrent commit has to be compared with them.
    """
    if read is None:
        return Reads.whole_table()

    @cache
    def files() -> pa.Array:
        return canonical_paths(scan.where(read).plan().table.files["path"].combine_chunks())

    return replace(overwrite_reads(scan, version, read), has_read=lambda paths: pc.is_in(paths, value_set=files()))


def _may_match(scan: ScanSpec, version: DeltaVersion, where: Predicate) -> Callable[[pa.Table], pa.Array]:
    planner = planner_of(scan, version, bind_columns_only(where, scan.snapshot.schema))

    def may_match(files: pa.Table) -> pa.Array:
        kept = planner.candidates(files).table.files["path"]
        return pc.is_in(files["path"].combine_chunks(), value_set=kept.combine_chunks())

    return may_match
