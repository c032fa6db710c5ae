"""Whether a commit still fits a table to which another writer has committed since it was read.

The rules are those of Delta on Spark, with one more restriction: any change of the metadata or the protocol is a
conflict, since files are written by them. What fits is rebased: nothing is read or written again.
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
from lakescan.errors import CommitConflict
from lakescan.expressions.bind import bind_columns_only
from lakescan.expressions.predicate import TRUE, Predicate, leaves
from lakescan.tables.scan_spec import ScanSpec

_OTHERS = ("commitInfo", "metaData", "protocol", "txn", "domainMetadata")
ROW_TRACKING = "delta.rowTracking"


def _nothing(files: pa.Table | pa.Array) -> pa.Array:
    return pa.repeat(pa.scalar(False), len(files))


@dataclass(frozen=True)
class Reads:
    """What a commit depends on, beside the files that it removes.

    - `may_have_read`: of added files (rows of `ActionReader.changes`), which the commit would have read, had they been
      there before: a mask. Nothing for an append, or a rewrite of the same rows.
    - `has_read`: of files by their canonical locations, those of its base that it read: a mask. Another commit that
      removes one conflicts, even if it only moves the rows: where they are then may change again before this commit.
    - `everything`: it read the whole table: all files whose rows another writer removed count.
    - `never`: of changed files (rows of `ActionReader.changes`) those that may not be in the table after the commit,
      whoever adds them and whatever for: a mask.
    """

    may_have_read: Callable[[pa.Table], pa.Array] = _nothing
    everything: bool = False
    has_read: Callable[[pa.Array], pa.Array] = _nothing
    never: Callable[[pa.Table], pa.Array] = _nothing

    @staticmethod
    def whole_table() -> Reads:
        """A commit that depends on all rows of the table."""
        return Reads(lambda files: pa.repeat(pa.scalar(True), files.num_rows), everything=True)


@dataclass(frozen=True)
class Intent:
    """What a commit is about to do, as far as conflicts are concerned; `removed` are locations."""

    reads: Reads
    removed: pa.Array
    changes_data: bool
    app_id: str | None = None
    domains: frozenset[str] = frozenset()
    passes_blind_appends: bool = False  # isolation level WriteSerializable

    @property
    def depends_on_files(self) -> bool:
        """Whether files that other writers add or remove may conflict; not those of an append."""
        return len(self.removed) > 0 or self.reads != Reads()


@dataclass(frozen=True)
class WinningCommit:
    """A commit by another writer. What is read of it raises `CorruptMetadata` where it is damaged."""

    text: LogText
    reader: ActionReader

    @property
    def version(self) -> int:
        """Its version."""
        return self.text.version

    @cached_property
    def files(self) -> pa.Table:
        """Its file actions (see `ActionReader.changes`)."""
        return self.reader.changes([self.text])

    @cached_property
    def others(self) -> Mapping[str, list[Action]]:
        """Its other actions, by name."""
        others: dict[str, list[Action]] = {}
        for action in single_actions(self.text, _OTHERS):
            others.setdefault(action.name, []).append(action)
        return others

    @property
    def info(self) -> Mapping[str, object]:
        """The members of its commitInfo; empty without one."""
        return next((each.members for each in self.others.get("commitInfo", ())), {})

    @property
    def row_ids(self) -> int | None:
        """Its high-water mark of row ids, if it has changed it."""
        return next((row_id_mark(each) for each in self._domains() if each.get("domain") == ROW_TRACKING), None)

    def _domains(self) -> list[Action]:
        return self.others.get("domainMetadata", [])

    def check(self, intent: Intent, location: str) -> None:
        """Raise `CommitConflict` if the commit does not fit the table after this one."""
        problem = self._table_conflict(intent)
        if not problem and intent.depends_on_files:
            problem = self._file_conflict(intent, location)
        if problem:
            operation = self.info.get("operation")
            by = f"version {self.version}{f' ({operation})' if isinstance(operation, str) else ''}"
            raise CommitConflict(f"{location}: {by}, which another writer committed meanwhile, {problem}")

    def _table_conflict(self, intent: Intent) -> str | None:
        for name, what in (("protocol", "protocol"), ("metaData", "columns or properties")):
            if self.others.get(name):
                return f"changed the table's {what}: repeat the write"
        apps = {each.get("appId") for each in self.others.get("txn", ())}
        if intent.app_id is not None and intent.app_id in apps:
            return f"is of the same application, {intent.app_id!r}"
        domains = {each.get("domain") for each in self._domains()} - {ROW_TRACKING}
        if both := sorted(domains & intent.domains, key=str):
            return f"changed the same domain metadata, {both[0]!r}"
        return None

    def _file_conflict(self, intent: Intent, location: str) -> str | None:
        kinds, paths = self.files["action"], self.files["path"].combine_chunks()
        places = canonical_paths(file_locations(paths, location))
        # A file that is added again, with another vector or with row ids, is not the one that would be removed.
        touched = pc.and_(pc.is_in(places, value_set=canonical_paths(intent.removed)), pc.not_equal(kinds, "cdc"))
        if (place := pc.index(touched, True).as_py()) >= 0:
            return f"removed or changed {places[place].as_py()}, which this commit removes"
        wrong = pc.and_(pc.equal(kinds, "add"), intent.reads.never(self.files))
        if (place := pc.index(wrong, True).as_py()) >= 0:
            return f"added {places[place].as_py()}, which cannot be in the table after this commit"
        if not intent.changes_data and intent.reads == Reads():
            return None  # snapshot isolation: the same rows in other files
        is_removed = pc.equal(kinds, "remove")
        removed = places.filter(is_removed)
        was_read = (
            self.files["data_change"].filter(is_removed) if intent.reads.everything else intent.reads.has_read(removed)
        )
        if (place := pc.index(was_read, True).as_py()) >= 0:
            return f"removed or changed {removed[place].as_py()}, which this commit read"
        if intent.passes_blind_appends and self.info.get("isBlindAppend") is True:
            return None
        added = self.files.filter(pc.and_(pc.equal(kinds, "add"), self.files["data_change"]))
        read = intent.reads.may_have_read(added) if added.num_rows else pa.array([], pa.bool_())
        if (place := pc.index(read, True).as_py()) >= 0:
            path = file_locations(added["path"].combine_chunks(), location)[place].as_py()
            return f"added {path}, whose rows this commit may depend on"
        return None


def row_id_mark(action: Action) -> int | None:
    """The high-water mark in domain metadata of row tracking; raises `CorruptMetadata` if it has none."""
    text = action.text("configuration") or ""
    inner = Action("rowIdHighWaterMark", parse_object(text, action.where), action.where)
    mark = inner.whole_number("rowIdHighWaterMark")
    if mark is None:
        raise inner.wrong("rowIdHighWaterMark", "a whole number")
    return mark


def planner_of(scan: ScanSpec, version: DeltaVersion, predicate: Predicate = TRUE) -> DeltaScanFiles:
    """Return what plans file actions of a version, by a predicate that is bound to its columns."""
    schema = scan.snapshot.schema
    ids = {leaf.bound_id for leaf in leaves(predicate)}.intersection(schema.by_id)
    columns = {each: schema.by_id[each] for each in ids}
    fields = version.partition_fields(schema)
    return DeltaScanFiles(version.segment.location, schema, fields, predicate, columns, {}, {})


def overwrite_reads(scan: ScanSpec, version: DeltaVersion, where: Predicate | None) -> Reads:
    """Return what an overwrite has read: it would have replaced matching rows of files that others added, too."""
    return Reads.whole_table() if where is None else Reads(_may_match(scan, version, where))


def statement_reads(scan: ScanSpec, version: DeltaVersion, read: Predicate | None) -> Reads:
    """Return what a DELETE, UPDATE or MERGE has read: also the files of its base that may have matching rows.

    These are planned only if another commit has to be compared with them.
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
