"""Parse stream options: where a stream begins, the size of batches, and the handling of commits that remove rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakescan.common.timestamps import as_moment, from_millis
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.formats.increments import Commit, CommitChange, IncrementLimits
from lakescan.formats.table_format import StartAt, StreamStart
from lakescan.options.declaration import Group
from lakescan.options.read import ReadOptions

_STRATEGIES = {
    "TABLE_SCAN_THEN_INCREMENTAL": StartAt.TABLE,
    "INCREMENTAL_FROM_LATEST_SNAPSHOT": StartAt.LATEST,
    "INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE": StartAt.AFTER_LATEST,
    "INCREMENTAL_FROM_EARLIEST_SNAPSHOT": StartAt.EARLIEST,
    "INCREMENTAL_FROM_SNAPSHOT_ID": StartAt.COMMIT,
    "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP": StartAt.TIME,
}
# The options that name the commit or time of a strategy. The strategy includes that commit, as in Flink's source.
# Without a strategy, a stream begins after the commit of start-snapshot-id, start-tag or start-timestamp, as in reads.
_NAMED = {StartAt.COMMIT: "start-snapshot-id or start-tag", StartAt.TIME: "start-snapshot-timestamp"}
_INCLUDED = {StartAt.AFTER_COMMIT: StartAt.COMMIT, StartAt.AFTER_TIME: StartAt.TIME}
# Options for the start of a stream that batch reads also have.
_STARTS = ("start-timestamp", "start-snapshot-id", "start-tag", "startingVersion", "startingTimestamp")


def stream_start(options: ReadOptions) -> StreamStart:
    """Return where a stream begins; raises `InvalidOption` if options contradict each other."""
    starts = _starts(options)
    given = list(starts)
    if len(given) > 1:
        raise InvalidOption(f"options {given[0]!r} and {given[1]!r} both set where the stream begins: give only one")
    start = starts[given[0]] if given else StreamStart()
    strategy = options.starting_strategy
    if strategy is None:
        return start
    at = _STRATEGIES[strategy]
    start = replace(start, at=_INCLUDED.get(start.at, start.at))
    if at in _NAMED and start.at != at:
        raise InvalidOption(f"starting-strategy={strategy} needs the option {_NAMED[at]}")
    if at not in _NAMED and given:
        raise InvalidOption(
            f"starting-strategy={strategy} and option {given[0]!r} contradict each other: give only one"
        )
    return start if given else StreamStart(at)


def _starts(options: ReadOptions) -> dict[str, StreamStart]:
    """Return the start that each given option sets, by option name."""
    times = {
        "start-snapshot-timestamp": (StartAt.TIME, options.start_snapshot_timestamp),
        "stream-from-timestamp": (StartAt.TIME, options.stream_from_timestamp),
        "start-timestamp": (StartAt.AFTER_TIME, options.start_timestamp),
    }
    commits = {
        "start-snapshot-id": (StartAt.AFTER_COMMIT, options.start_snapshot_id),
        "start-tag": (StartAt.AFTER_COMMIT, options.start_tag),
        "startingVersion": (StartAt.COMMIT, options.starting_version),
    }
    starts = {name: StreamStart(at, time=from_millis(time)) for name, (at, time) in times.items() if time is not None}
    starts |= {name: StreamStart(at, commit=commit) for name, (at, commit) in commits.items() if commit is not None}
    if options.starting_version == "latest":  # instead of a version
        starts["startingVersion"] = StreamStart(StartAt.LATEST)
    if options.starting_timestamp is not None:
        starts["startingTimestamp"] = StreamStart(
            StartAt.TIME, time=as_moment(options.starting_timestamp, options.time_zone)
        )
    return starts


def batch_read_options(options: ReadOptions) -> ReadOptions:
    """Return the options for the batch reads of a stream: without the stream's start, branch and limits."""
    return options.exclude((*options.names_of_groups(Group.STREAM), *_STARTS, "branch", "readChangeFeed"))


def is_change_stream(options: ReadOptions) -> bool:
    """Return whether a stream reads row-level changes instead of appended rows."""
    return options.on_change == "changelog" or options.read_change_feed


def batch_limits(options: ReadOptions, default: IncrementLimits) -> IncrementLimits:
    """Return the size limits of a batch, each the strictest of its options; `default` if no limit is given."""
    limits = IncrementLimits(
        files=_least(options.max_files_per_trigger, options.streaming_max_files_per_micro_batch),
        rows=_least(options.max_rows_per_trigger, options.streaming_max_rows_per_micro_batch),
        size=options.max_bytes_per_trigger,
        commits=options.max_planning_snapshot_count,
    )
    return default if limits == IncrementLimits() else limits


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


@dataclass(frozen=True)
class StreamPolicy:
    """How a stream handles commits that remove or rewrite rows.

    `deletes` is for commits that only remove rows, `overwrites` for commits that rewrite rows; each is a value of
    `on-change`. `skipped` has the operations, in lower case, whose commits are skipped. A stream with `changes` reads
    all other commits as changes of rows.
    """

    deletes: str = "error"
    overwrites: str = "error"
    skipped: frozenset[str] = frozenset()
    changes: bool = False

    @staticmethod
    def parse(options: ReadOptions) -> StreamPolicy:
        """Return the policy that options set. The options of Iceberg and Delta take precedence over `on-change`.

        Raises `UnsupportedFeature` for `watermark-column` in a stream of changes.
        """
        deletes = overwrites = options.on_change
        if options.ignore_changes:
            deletes, overwrites = "skip", "added-rows"
        if options.ignore_deletes or options.streaming_skip_delete_snapshots or options.skip_change_commits:
            deletes = "skip"
        if options.streaming_skip_overwrite_snapshots or options.skip_change_commits:
            overwrites = "skip"
        if options.watermark_column is not None and is_change_stream(options):
            raise UnsupportedFeature(
                "watermark-column in streams of changes", "All changes of a commit are read in one batch."
            )
        skipped = frozenset(name.lower() for name in options.skip_operations)
        return StreamPolicy(deletes, overwrites, skipped, changes=is_change_stream(options))

    def action(self, commit: Commit) -> str:
        """Return what to do with a commit: 'read' it, 'pass' (skip it), or 'stop' before it."""
        if commit.obstacle:
            return "stop"
        if commit.change == CommitChange.NOTHING or commit.operation.lower() in self.skipped:
            return "pass"
        if commit.change == CommitChange.APPEND or self.changes:
            return "read"
        mode = {CommitChange.DELETE: self.deletes, CommitChange.OVERWRITE: self.overwrites}[commit.change]
        if mode == "added-rows":
            return "read" if commit.change == CommitChange.OVERWRITE else "pass"
        return "stop" if mode == "error" else "pass"
