"""Streams: what a table gains commit by commit, between offsets, some files at a time.

Engines ask for the offset up to which to read, keep it, and then for the rows between two offsets: a plan that is made
again, in another process and later, has the same files.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakescan.changes import Changes
from lakescan.common import types as t
from lakescan.errors import InvalidOption, NoSuchSnapshot, RowsChanged, SchemaChanged
from lakescan.expressions.predicate import TRUE
from lakescan.formats.increments import ALL, BEFORE, Backlog, Budget, Commit, Increment, Limits, Offset, Part
from lakescan.formats.table_format import CommitRequest, FileRequest, Snapshot, Start, TableFormat
from lakescan.options.streaming import FEED, STREAM_OPTIONS, Policy, limits_from, reads_changes, start_from
from lakescan.planning.report import ScanMetrics
from lakescan.scan import Scan
from lakescan.scan_spec import ScanSpec
from lakescan.time_travel import SELECTING

# What offsets are called, as each format's own streams have it.
_ORDER = "watermark-column"
_NAMES = {"iceberg": ("snapshot-id", "position", "scan-all-files"), "delta": ("version", "index", "initial-snapshot")}


class TableStream:
    """The commits of a table, as a scan with the options of streams sees them. Not to be shared between threads."""

    def __init__(self, scan: ScanSpec) -> None:
        options = scan.options
        _check_no_state(scan)
        if "limit" in options:
            raise InvalidOption("a stream has no limit of rows: maxRowsPerTrigger is one of each batch")
        self._table: TableFormat = scan.table
        self._identity = self._table.identity
        self._start = start_from(options)
        self._limits = limits_from(options, self._table.name)
        self._policy = Policy.of(options)
        self.interval: float = options.get("monitor-interval", 1.0)
        self._branch = options.get("branch")
        self._request = CommitRequest(
            branch=self._branch,
            exclude=options.get("excludeRegex"),
            fail_on_loss=options.get("failOnDataLoss", True),
        )
        self._scan = without_stream_options(scan)
        self._schema: Snapshot = self._scan.snapshot
        self._ordered_by = _event_time(options.get("watermark-column"), self._schema)
        self._last: int | None = None

    @property
    def scan(self) -> ScanSpec:
        """The scan whose columns, filter and options the rows of all increments have."""
        return self._scan

    def initial_offset(self) -> Offset:
        """Where the stream begins, by its options; raises `NoSuchSnapshot`."""
        return self._table.starting_point(self._start, self._branch)

    @property
    def reads_changes(self) -> bool:
        """Whether rows are changes of rows."""
        return self._policy.changes

    @property
    def limits(self) -> Limits:
        """The most that a batch takes."""
        return self._limits

    def newest_offset(self) -> Offset:
        """The offset after everything that is there now."""
        self._refresh()
        return self._newest()

    def end_here(self) -> None:
        """Take no commit for there that is later than the newest one now."""
        self._refresh()
        self._last = self._newest().commit

    def latest_offset(self, start: Offset, *, limited: bool = True) -> Offset:
        """Up to where to read from an offset now: everything, or what the limits of the options let through.

        Commits that cannot be read are an error once all before them is read: `RowsChanged` where one removed rows and
        the options do not say what to do with it, `SchemaChanged` where it has another schema.
        """
        self._refresh()
        budget = Budget(self._limits if limited else Limits())
        at = start
        if not start.is_whole:
            at = self._advanced(start, budget)
            if not at.is_whole:
                return at
        for commit in self._after(at):
            match self._policy.action(commit):
                case "stop" if at == start:
                    raise self._refusal(commit)
                case "stop":
                    return at
                case "read" if self._policy.changes:  # those of a commit belong together
                    if not budget.takes_whole(commit, at_least=at == start):
                        return at
                case "read" if not budget.takes_whole(commit):
                    end = self._advanced(Offset(commit.id, 0), budget)
                    if not end.is_whole:
                        return end if end.files else at
            at = Offset(commit.id)
        return at

    def between(self, start: Offset, end: Offset) -> ScanSpec:
        """A scan of the rows from one offset up to another; the same whenever it is asked for.

        Raises `NoSuchSnapshot` where commits between them are not there any more.
        """
        parts, order = tuple(self._parts(start, end)), self._order_id
        increment = Increment(parts, self._request.exclude, self._policy.changes, order)
        state = self._table.increment(self._schema, increment)
        return self._scan.of_increment(self._table, replace(state, id=end.commit, timestamp=None))

    def read(self, start: Offset, end: Offset) -> Iterator[pa.RecordBatch]:
        """The rows, or the changes of rows, from one offset up to another."""
        scan = self.between(start, end)
        return Changes(scan).to_batches() if self._policy.changes else Scan(scan).to_batches()

    def backlog(self, start: Offset) -> Backlog:
        """What there is to read after an offset up to the newest one looked at, by what commits say of themselves."""
        found = [c for c in self._after(start) if self._policy.action(c) == "read"]
        files, rows, size = (sum(getattr(c, name) or 0 for c in found) for name in ("files", "rows", "size"))
        return Backlog(len(found), files, rows, size)

    def encode(self, offset: Offset) -> dict[str, Any]:
        """An offset as a small JSON object, in the words of the format's own streams."""
        commit, files, initial = _NAMES[self._table.name]
        found = {commit: offset.commit, files: offset.files, initial: offset.initial, "table": self._identity}
        return found if self._order(offset) is None else found | {_ORDER: self._order(offset)}

    def decode(self, node: Mapping[str, Any]) -> Offset:
        """An offset from what `encode` made; raises `InvalidOption` for one of another table."""
        commit, files, initial = _NAMES[self._table.name]
        try:
            found = Offset(int(node[commit]), int(node[files]), bool(node[initial]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidOption(f"{dict(node)} is no offset of a stream of {self._table.name}: {error}") from error
        if node.get("table") not in (None, self._identity):
            raise InvalidOption(
                f"the offset {dict(node)} is of another table than {self._table.location}, which was made anew "
                f"({self._identity}): start with a new checkpoint"
            )
        if node.get(_ORDER) != self._order(found):
            raise InvalidOption(
                f"the offset {dict(node)} is within a commit whose files were read by watermark-column="
                f"{node.get(_ORDER)}, and not {self._order(found)}: go on with the same until all of it is read"
            )
        return found

    @property
    def _order_id(self) -> int | None:
        return None if self._ordered_by is None else self._ordered_by.id

    def _order(self, offset: Offset) -> str | None:
        """What the order of files that an offset counts by is named."""
        return None if offset.is_whole or self._ordered_by is None else self._ordered_by.name

    def _parts(self, start: Offset, end: Offset) -> Iterator[Part]:
        if start == end:
            return
        if not start.is_whole:
            is_here = end.commit == start.commit
            yield Part(start.commit, start.files, end.files if is_here else ALL, start.initial)
            if is_here:
                return
        for ordinal, commit in enumerate(self._after(Offset(start.commit))):
            stop = end.files if commit.id == end.commit else ALL
            action = self._policy.action(commit)
            if action == "stop":
                raise self._refusal(commit)
            if action == "read":
                yield Part(commit.id, 0, stop, ordinal=ordinal)
            if commit.id == end.commit:
                return
        raise NoSuchSnapshot(f"{self._table.location}: commit {end.commit}, up to which to read, is not there any more")

    def _advanced(self, offset: Offset, budget: Budget) -> Offset:
        """The offset after the files of its commit that the budget lets through."""
        whole = (Part(offset.commit, initial=offset.initial),)
        one = Increment(whole, self._request.exclude, ordered_by=self._order_id)
        state = self._table.increment(self._schema, one)
        found = self._table.plan_files(state, FileRequest(predicate=TRUE, metrics=ScanMetrics()))
        sizes = [(each.table.files["size"], each.table.files["record_count"]) for each in found]
        taken, count = budget.take(sizes, offset.files)
        return offset.after(offset.files + taken, count)

    def _refresh(self) -> None:
        if self._last is None:
            self._table = self._table.refreshed()

    def _newest(self) -> Offset:
        return Offset(self._table.starting_point(Start(), self._branch).commit if self._last is None else self._last)

    def _after(self, offset: Offset) -> Iterator[Commit]:
        """The commits after an offset, up to the last one that is to be seen."""
        if self._last is not None and offset.commit == self._last:
            return
        after = None if offset.commit == BEFORE.commit else offset.commit
        for commit in self._table.commits(replace(self._request, after=after), self._schema):
            yield commit
            if commit.id == self._last:
                return

    def _refusal(self, commit: Commit) -> Exception:
        where = f"{self._table.location}, commit {commit.describe()}"
        if commit.obstacle:
            return SchemaChanged(f"{where}: {commit.obstacle}. Start the stream again to go on with the new schema.")
        return RowsChanged(
            f"{where}: it removed or rewrote rows, which a stream of added rows cannot show. Ways on: on-change=skip "
            "leaves such commits out; on-change=added-rows reads the rows that they add, those that they rewrote "
            f"again; skip-operations={commit.operation} leaves out commits of this kind."
        )


def _check_no_state(scan: ScanSpec) -> None:
    """Raise `InvalidOption` where a state is selected: streams go on from one state to the next."""
    given = [name for name in SELECTING if name != "branch" and name in scan.options]
    if given or scan.selector is not None:
        what = f"option {given[0]!r} selects" if given else f"{scan} is"
        raise InvalidOption(
            f"{what} one state of the table, and a stream follows all of them: say where it begins with "
            "startingVersion, startingTimestamp or start-snapshot-id"
        )


def _event_time(name: str | None, snapshot: Snapshot) -> t.Field | None:
    """The column by whose lower bounds files are taken, if any."""
    if name is None:
        return None
    found = snapshot.schema.field(name)
    if not isinstance(found.type, t.Timestamp) and found.type not in (t.DATE, t.LONG, t.INT):
        raise InvalidOption(f"watermark-column={name} is {found.type}: it takes a timestamp, a date, an int or a long")
    return found


def without_stream_options(scan: ScanSpec) -> ScanSpec:
    """The scan of the table, or of its newest changes, that a stream's scan is of."""
    options = scan.options
    plain = replace(scan, options=options.without((*STREAM_OPTIONS, *FEED)))
    table = scan.table
    plain = plain.as_of(branch=options["branch"]) if "branch" in options else plain
    return plain.of_increment(table, table.with_changes(plain.snapshot)) if reads_changes(options) else plain


class Follower:
    """An iterator of record batches: what a table has and then gains.

    `offset` is where to go on after the batches that were taken: those of one plan count together, once the next plan
    is begun.
    """

    def __init__(self, stream: TableStream, start: Mapping[str, Any] | None, *, wait: bool) -> None:
        self._stream, self._wait = stream, wait
        self._at = stream.initial_offset() if start is None else stream.decode(start)
        self._closed = threading.Event()
        self._batches = self._read()

    @property
    def offset(self) -> dict[str, Any]:
        """Where to go on: a small JSON object for `Table.follow(start=...)`."""
        return self._stream.encode(self._at)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._stream.scan.output.arrow()

    @property
    def backlog(self) -> Backlog:
        """What there is to read after the offset."""
        self._stream.newest_offset()
        return self._stream.backlog(self._at)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def close(self) -> None:
        """End the iterator; it may be called from another thread, to wake one that waits."""
        self._closed.set()

    def _read(self) -> Iterator[pa.RecordBatch]:
        if not self._wait:
            self._stream.end_here()
        while not self._closed.is_set():
            end = self._stream.latest_offset(self._at)
            if end != self._at:
                yield from self._stream.read(self._at, end)
                self._at = end
            elif not self._wait or self._closed.wait(self._stream.interval):
                return
