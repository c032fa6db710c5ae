"""Stream options: where a stream begins, the size of batches, and the handling of commits that remove rows.

`StreamOptions` declares them; `ReadOptions` inherits them, because a stream takes the options of reads, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakescan.common.option_values import (
    ValueParser,
    any_text,
    boolean,
    duration,
    milliseconds,
    names,
    one_of,
    parse_size,
    pattern,
    positive,
)
from lakescan.common.timestamps import as_moment, from_millis
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.formats.increments import Commit, CommitChange, IncrementLimits
from lakescan.formats.table_format import StartAt, StreamStart
from lakescan.options.declaration import DELTA, ICEBERG, Group, OptionSet, option

if TYPE_CHECKING:
    from lakescan.options.read import ReadOptions

STREAM = Group.STREAM

_STARTS_OF_STRATEGIES = {
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


def _failures(value: Any) -> int | None:
    number = int(str(value).strip())
    if number < -1:
        raise ValueError(value)
    return None if number == -1 else number


_STRATEGIES = one_of(
    "TABLE_SCAN_THEN_INCREMENTAL",
    "INCREMENTAL_FROM_LATEST_SNAPSHOT",
    "INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE",
    "INCREMENTAL_FROM_EARLIEST_SNAPSHOT",
    "INCREMENTAL_FROM_SNAPSHOT_ID",
    "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP",
)
_ON_CHANGE = one_of("error", "skip", "added-rows", "changelog")
_FAILURES: ValueParser[int | None] = ValueParser(_failures, "a number of failures, or -1 for any number", "int | str")


@dataclass(frozen=True, repr=False, kw_only=True)
class StreamOptions(OptionSet):
    """The parsed options that only streams take; None for an option that was not passed and has no default."""

    starting_strategy: str | None = option(
        "starting-strategy",
        _STRATEGIES,
        "Where a stream begins.",
        STREAM,
        ICEBERG,
        unset="TABLE_SCAN_THEN_INCREMENTAL, or the start that another option gives",
    )
    start_snapshot_timestamp: int | None = option(
        "start-snapshot-timestamp",
        milliseconds,
        "Begin at the first snapshot committed at or after this time.",
        STREAM,
        ICEBERG,
    )
    stream_from_timestamp: int | None = option(
        "stream-from-timestamp",
        milliseconds,
        "Begin at the first snapshot committed at or after this time.",
        STREAM,
        ICEBERG,
    )
    on_change: str = option(
        "on-change",
        _ON_CHANGE,
        "What a stream does with commits that remove or rewrite rows: fail, skip them, read the rows that they add, or "
        "read all commits as changes of rows.",
        STREAM,
        default="error",
    )
    streaming_skip_delete_snapshots: bool = option(
        "streaming-skip-delete-snapshots", boolean, "Skip snapshots that delete rows.", STREAM, ICEBERG, default=False
    )
    streaming_skip_overwrite_snapshots: bool = option(
        "streaming-skip-overwrite-snapshots",
        boolean,
        "Skip snapshots that overwrite rows.",
        STREAM,
        ICEBERG,
        default=False,
    )
    ignore_deletes: bool = option(
        "ignoreDeletes", boolean, "Skip commits that only remove files.", STREAM, DELTA, default=False
    )
    ignore_changes: bool = option(
        "ignoreChanges",
        boolean,
        "Read the files that rewriting commits add, which repeats rows. Skip commits that only remove files.",
        STREAM,
        DELTA,
        default=False,
        aliases={"ignoreFileDeletion": DELTA},
    )
    skip_change_commits: bool = option(
        "skipChangeCommits", boolean, "Skip commits that remove or rewrite rows.", STREAM, DELTA, default=False
    )
    skip_operations: tuple[str, ...] = option(
        "skip-operations", names, "Skip commits of these operations.", STREAM, default=(), unset="none"
    )
    fail_on_data_loss: bool = option(
        "failOnDataLoss",
        boolean,
        "Fail if commits are missing, rather than read on after them.",
        STREAM,
        DELTA,
        default=True,
    )
    exclude_regex: str | None = option(
        "excludeRegex",
        pattern,
        "Skip files whose path contains a match.",
        STREAM,
        DELTA,
    )
    max_files_per_trigger: int | None = option(
        "maxFilesPerTrigger",
        positive,
        "The maximum number of files of a batch.",
        STREAM,
        unset="Delta: 1000, if there is no other limit",
    )
    max_bytes_per_trigger: int | None = option(
        "maxBytesPerTrigger", parse_size, "The maximum size of a batch, in bytes.", STREAM
    )
    max_rows_per_trigger: int | None = option(
        "maxRowsPerTrigger", positive, "The maximum number of rows of a batch.", STREAM
    )
    streaming_max_files_per_micro_batch: int | None = option(
        "streaming-max-files-per-micro-batch", positive, "The maximum number of files of a batch.", STREAM, ICEBERG
    )
    streaming_max_rows_per_micro_batch: int | None = option(
        "streaming-max-rows-per-micro-batch", positive, "The maximum number of rows of a batch.", STREAM, ICEBERG
    )
    max_planning_snapshot_count: int | None = option(
        "max-planning-snapshot-count", positive, "The maximum number of snapshots of a batch.", STREAM, ICEBERG
    )
    watermark_column: str | None = option(
        "watermark-column",
        any_text.describe("a column"),
        "Read the files of a commit in the order of this column's lower bounds.",
        STREAM,
    )
    max_allowed_planning_failures: int | None = option(
        "max-allowed-planning-failures",
        _FAILURES,
        "How many times in a row `Table.stream` may fail to look for new commits before it raises; -1 for no limit. It "
        "retries after the monitor interval.",
        STREAM,
        default=0,
        unset="0; Flink's default is 3",
    )
    streaming: bool | None = option(
        "streaming",
        boolean,
        "Whether the table is streamed, as in Flink's hints: true is for `Table.stream` and `spark.readStream`, "
        "false for reads.",
        STREAM,
        ICEBERG,
    )
    monitor_interval: float = option(
        "monitor-interval",
        duration,
        "How often `Table.stream` looks for new commits.",
        STREAM,
        default=1.0,
        unset="1s",
    )


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
    at = _STARTS_OF_STRATEGIES[strategy]
    start = replace(start, at=_INCLUDED.get(start.at, start.at))
    if at in _NAMED and start.at != at:
        raise InvalidOption(f"starting-strategy={strategy} needs the option {_NAMED[at]}")
    if at not in _NAMED and given:
        raise InvalidOption(
            f"starting-strategy={strategy} and option {given[0]!r} contradict each other: give only one"
        )
    return start if given else StreamStart(at)


def _starts(options: ReadOptions) -> dict[str, StreamStart]:
    """Return the starts of a stream that options set, by option name; empty if none does."""
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
    """Return the options for the batch reads of a stream: without those of streams, and without start and branch."""
    return options.exclude((*options.names_of_groups(Group.STREAM), *_STARTS, "branch", "readChangeFeed"))


def is_change_stream(options: ReadOptions) -> bool:
    """Return whether a stream reads row-level changes instead of appended rows."""
    return options.on_change == "changelog" or options.read_change_feed


def batch_limits(options: ReadOptions, default: IncrementLimits) -> IncrementLimits:
    """Return the limits of a micro-batch: files, rows, bytes and commits, each the strictest of its options.

    Without any of these options, `default` is returned.
    """
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
