"""Streaming reads of a table, commit by commit, between offsets, in batches of limited size.

An engine asks for the end offset of a batch, checkpoints it, and asks for the rows between two offsets. Replanning the
same offset range is deterministic, in any process and at any later time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakescan.api.changes import Changes
from lakescan.api.scan import Scan
from lakescan.common import types as t
from lakescan.errors import InvalidOption, NoSuchSnapshot, RowsChanged, SchemaChanged, StorageError
from lakescan.expressions.predicate import TRUE
from lakescan.formats.increments import (
    ALL,
    BEFORE,
    Backlog,
    Budget,
    Commit,
    CommitPart,
    Increment,
    IncrementLimits,
    Offset,
)
from lakescan.formats.snapshot_refs import RefKind
from lakescan.formats.table_format import (
    CommitRequest,
    FileRequest,
    Snapshot,
    SnapshotSelector,
    StreamStart,
    TableFormat,
)
from lakescan.options.streaming import StreamPolicy, batch_limits, batch_read_options, is_change_stream, stream_start
from lakescan.planning.scan_report import ScanMetrics
from lakescan.tables.notebook import stream_as_html
from lakescan.tables.scan_spec import ScanSpec

_LOG = logging.getLogger("lakescan")
_ORDER = "watermark-column"  # also a key of an offset within a commit whose files it orders


class TableStream:
    """A stream of the commits of a table, with the columns, filter and stream options of a scan. Not thread-safe.

    - `interval`: the seconds between checks for new commits.
    - `allowed_failures`: the number of failed checks in a row that are retried; None for no limit.
    """

    def __init__(self, scan: ScanSpec) -> None:
        scan = _select_wap_branch(scan)
        options = scan.options
        _check_no_state(scan)
        if options.limit is not None:
            raise InvalidOption("limit does not apply to a stream: use maxRowsPerTrigger to limit the rows of a batch")
        self._table: TableFormat = scan.table
        self._identity = self._table.identity
        self._start = stream_start(options)
        self._limits = batch_limits(options, self._table.default_limits)
        self._policy = StreamPolicy.parse(options)
        self.interval: float = options.monitor_interval
        self.allowed_failures: int | None = options.max_allowed_planning_failures
        if options.streaming is False:
            raise InvalidOption("streaming=false is for batch reads, but this is a stream: remove the option")
        self._branch = options.branch
        self._request = CommitRequest(
            branch=self._branch,
            exclude=options.exclude_regex,
            fail_on_loss=options.fail_on_data_loss,
        )
        self._scan = batch_scan(scan)
        self._schema: Snapshot = self._scan.snapshot
        self._ordered_by = _event_time(options.watermark_column, self._schema)
        self._last: int | None = None

    @property
    def scan(self) -> ScanSpec:
        """The scan whose columns, filter and options all batches of the stream have."""
        return self._scan

    def initial_offset(self) -> Offset:
        """Return the offset where the stream begins according to its options; raises `NoSuchSnapshot`."""
        return self._table.starting_point(self._start, self._branch)

    @property
    def reads_changes(self) -> bool:
        """Whether the stream returns changes of rows (a changelog) rather than added rows."""
        return self._policy.changes

    @property
    def limits(self) -> IncrementLimits:
        """The limits of the files, rows, bytes and commits of one batch."""
        return self._limits

    def newest_offset(self) -> Offset:
        """Refresh the table, and return the offset after its newest commit.

        After `end_here`, return the offset where the stream ends.
        """
        self._refresh()
        return self._newest()

    def end_here(self) -> None:
        """End the stream at the commit that is newest now; later commits are ignored."""
        self._refresh()
        self._last = self._newest().commit

    def latest_offset(self, start: Offset, *, limited: bool = True) -> Offset:
        """Return the end offset of the next batch: after the newest commit, or earlier if limits are reached.

        The batch begins at `start`, which is returned if nothing is new. With `limited=False`, the limits do not apply.
        A commit that the stream cannot read ends the batch before it. If it is the first commit to read, this raises
        `RowsChanged` (it removed rows, and no option handles that) or `SchemaChanged` (its schema differs).
        """
        self._refresh()
        budget = Budget(self._limits if limited else IncrementLimits())
        at = start
        if not start.is_whole:
            at = self._advance(start, budget)
            if not at.is_whole:
                return at
        for commit in self._after(at):
            match self._policy.action(commit):
                case "stop" if at == start:
                    raise self._refusal(commit)
                case "stop":
                    return at
                case "read" if self._policy.changes:  # the changes of one commit must stay in one batch
                    if not budget.take_commit(commit, at_least=at == start):
                        return at
                case "read" if not budget.take_commit(commit):
                    end = self._advance(Offset(commit.id, 0), budget)
                    if not end.is_whole:
                        return end if end.files else at
            at = Offset(commit.id)
        return at

    def between(self, start: Offset, end: Offset) -> ScanSpec:
        """Return a scan of the rows between two offsets. The result is the same on every call.

        Raises `NoSuchSnapshot` if a commit between them was removed.
        """
        parts, order = tuple(self._parts(start, end)), self._order_id
        increment = Increment(parts, self._request.exclude, self._policy.changes, order)
        state = self._table.increment(self._schema, increment)
        return self._scan.select_increment(self._table, replace(state, id=end.commit, timestamp=None))

    def read(self, start: Offset, end: Offset) -> Iterator[pa.RecordBatch]:
        """Yield record batches of the rows, or changes of rows, between two offsets; raises the errors of `between`."""
        scan = self.between(start, end)
        return Changes(scan).to_batches() if self._policy.changes else Scan(scan).to_batches()

    def backlog(self, start: Offset) -> Backlog:
        """Return the number of unread commits after an offset, and totals of their files, rows and bytes.

        The totals are those that the commits record, of the commits that the last refresh found.
        """
        unread = [c for c in self._after(start) if self._policy.action(c) == "read"]
        files, rows, size = (sum(getattr(c, name) or 0 for c in unread) for name in ("files", "rows", "size"))
        return Backlog(len(unread), files, rows, size)

    def encode(self, offset: Offset) -> dict[str, Any]:
        """Encode an offset as a small JSON object, with the keys that the format's own streaming source uses."""
        names = self._table.offset_names
        position = {names.commit: offset.commit, names.files: offset.files, names.initial: offset.initial}
        node = {**position, "table": self._identity}
        return node if self._order(offset) is None else node | {_ORDER: self._order(offset)}

    def decode(self, node: Mapping[str, Any]) -> Offset:
        """Decode an offset that `encode` returned; raises `InvalidOption` for an offset of another table."""
        names = self._table.offset_names
        if not isinstance(node, Mapping):
            raise InvalidOption(f"{node!r} is not a stream offset: give `BatchStream.offset` of an earlier stream")
        try:
            offset = Offset(int(node[names.commit]), int(node[names.files]), bool(node[names.initial]))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidOption(f"{dict(node)} is not a valid {self._table.name} stream offset: {error}") from error
        if node.get("table") not in (None, self._identity):
            raise InvalidOption(
                f"the offset {dict(node)} belongs to another table than the one at {self._table.location}, which was "
                f"recreated (its id is {self._identity}): start with a new checkpoint"
            )
        if node.get(_ORDER) != self._order(offset):
            raise InvalidOption(
                f"the offset {dict(node)} is within a commit whose files were ordered by watermark-column="
                f"{node.get(_ORDER)}, not {self._order(offset)}: keep the old option until that commit is fully read"
            )
        return offset

    @property
    def _order_id(self) -> int | None:
        return None if self._ordered_by is None else self._ordered_by.id

    def _order(self, offset: Offset) -> str | None:
        """Return the name of the column that orders the files of a partly read commit.

        None for an offset between commits, or without the option `watermark-column`.
        """
        return None if offset.is_whole or self._ordered_by is None else self._ordered_by.name

    def _parts(self, start: Offset, end: Offset) -> Iterator[CommitPart]:
        if start == end:
            return
        if not start.is_whole:
            is_here = end.commit == start.commit
            yield CommitPart(start.commit, start.files, end.files if is_here else ALL, start.initial)
            if is_here:
                return
        for ordinal, commit in enumerate(self._after(Offset(start.commit))):
            stop = end.files if commit.id == end.commit else ALL
            action = self._policy.action(commit)
            if action == "stop":
                raise self._refusal(commit)
            if action == "read":
                yield CommitPart(commit.id, 0, stop, ordinal=ordinal)
            if commit.id == end.commit:
                return
        raise NoSuchSnapshot(f"{self._table.location}: commit {end.commit}, the end of the range to read, was removed")

    def _advance(self, offset: Offset, budget: Budget) -> Offset:
        """Return the offset after as many more files of its commit as the budget allows; plans the commit for it."""
        whole = (CommitPart(offset.commit, initial=offset.initial),)
        one = Increment(whole, self._request.exclude, ordered_by=self._order_id)
        state = self._table.increment(self._schema, one)
        planned = self._table.plan_files(state, FileRequest(predicate=TRUE, metrics=ScanMetrics()))
        sizes = [(each.table.files["size"], each.table.files["record_count"]) for each in planned]
        taken, count = budget.take_files(sizes, offset.files)
        return offset.advance(offset.files + taken, count)

    def _refresh(self) -> None:
        if self._last is not None:
            return
        fresh = self._table.refresh()
        if fresh.identity != self._identity:
            raise InvalidOption(
                f"{self._table.location} is another table than the one that the stream began with: it was recreated "
                f"(its id is {fresh.identity}): start with a new checkpoint"
            )
        self._table = fresh

    def _newest(self) -> Offset:
        return Offset(
            self._table.starting_point(StreamStart(), self._branch).commit if self._last is None else self._last
        )

    def _after(self, offset: Offset) -> Iterator[Commit]:
        """Yield the commits after an offset, oldest first, up to the end that `end_here` has set, if any."""
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
            return SchemaChanged(f"{where}: {commit.obstacle}.")
        return RowsChanged(
            f"{where}: it removed or rewrote rows, which a stream of added rows cannot show. Options: on-change=skip "
            "skips such commits; on-change=added-rows reads the rows that they add, which repeats rewritten rows; "
            f"skip-operations={commit.operation} skips commits of this operation."
        )


def _select_wap_branch(scan: ScanSpec) -> ScanSpec:
    """Return the scan with the option `branch` instead of `wap-branch`, or without both if the branch does not exist.

    Raises `InvalidOption` if both options are given, or if the table lacks `write.wap.enabled`.
    """
    wanted = scan.options.wap_branch
    if wanted is None:
        return scan
    if scan.options.branch is not None:
        raise InvalidOption("options 'branch' and 'wap-branch' both select what to read: give only one")
    scan.table.snapshot(SnapshotSelector(wap_branch=wanted))
    plain = replace(scan, options=scan.options.exclude(("wap-branch",)))
    return plain.with_options({"branch": wanted}) if wanted in scan.table.refs(RefKind.BRANCH) else plain


def _check_no_state(scan: ScanSpec) -> None:
    """Raise `InvalidOption` if the scan selects one snapshot or version: a stream follows all commits."""
    selecting = [name for name in scan.options.states if name != "branch"]
    if selecting or scan.selector is not None:
        what = f"option {selecting[0]!r} selects" if selecting else f"{scan} is"
        raise InvalidOption(
            f"{what} one snapshot of the table, but a stream follows all of them: set its start with "
            "startingVersion, startingTimestamp or start-snapshot-id"
        )


def _event_time(name: str | None, snapshot: Snapshot) -> t.Field | None:
    """Return the field of the column `name`, the option `watermark-column`, whose lower bounds order a commit's files.

    None without the option. Raises `NoSuchColumn`, and `InvalidOption` for a column that is not a timestamp, date, int
    or long.
    """
    if name is None:
        return None
    field = snapshot.schema.field(name)
    if not isinstance(field.type, t.Timestamp) and field.type not in (t.DATE, t.LONG, t.INT):
        raise InvalidOption(f"watermark-column={name} is {field.type}: it takes a timestamp, a date, an int or a long")
    return field


def batch_scan(scan: ScanSpec) -> ScanSpec:
    """Return a scan of a stream's branch as it is now, with the stream's columns and filter but no stream options.

    If the stream returns changes of rows, the scan also has the columns that describe them.
    """
    options = scan.options
    plain = replace(scan, options=batch_read_options(options))
    table = scan.table
    plain = plain if options.branch is None else plain.as_of(branch=options.branch)
    return plain.select_increment(table, table.with_changes(plain.snapshot)) if is_change_stream(options) else plain


class BatchStream:
    """An iterator over the record batches of a table: existing rows first, then those of new commits.

    `Table.stream` creates it. `offset` is the position to resume from. It advances only when all batches of a plan have
    been consumed and the next plan begins, so a resumed stream may repeat batches but never skips any.
    """

    def __init__(self, stream: TableStream, start: Mapping[str, Any] | None, *, wait: bool) -> None:
        self._stream, self._wait = stream, wait
        self._at = stream.initial_offset() if start is None else stream.decode(start)
        self._closed = threading.Event()
        self._batches = self._read()

    def __repr__(self) -> str:
        return f"BatchStream({self._stream.scan.location!r}, {self._state}, at {self.offset})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the table and the offset of the stream. Nothing is read for it."""
        return stream_as_html(self._stream.scan, self._state, self.offset)

    @property
    def _state(self) -> str:
        if self._closed.is_set():
            return "closed"
        return "waits for new commits" if self._wait else "ends with the newest commit"

    @property
    def offset(self) -> dict[str, Any]:
        """The position to resume from: a small JSON object, for `Table.stream(start=...)`."""
        return self._stream.encode(self._at)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches."""
        return self._stream.scan.output.arrow()

    @property
    def backlog(self) -> Backlog:
        """The number of commits after the offset that are still to be read, and totals of their files, rows and bytes.

        Refreshes the table.
        """
        self._stream.newest_offset()
        return self._stream.backlog(self._at)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def close(self) -> None:
        """Stop the stream. Another thread may call this to wake a stream that waits for commits."""
        self._closed.set()

    def _read(self) -> Iterator[pa.RecordBatch]:
        failures = 0  # in a row
        if not self._wait:
            self._stream.end_here()
        while not self._closed.is_set():
            try:
                end = self._stream.latest_offset(self._at)
            except (StorageError, OSError) as error:
                failures += 1
                if self._stream.allowed_failures is not None and failures > self._stream.allowed_failures:
                    raise
                _LOG.warning("%s: checking for new commits failed: %s", self._stream.scan.location, error)
                if self._closed.wait(self._stream.interval):
                    return
                continue
            failures = 0
            if end != self._at:
                yield from self._stream.read(self._at, end)
                self._at = end
            elif not self._wait or self._closed.wait(self._stream.interval):
                return
