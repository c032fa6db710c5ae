"""Stream options: where a stream begins, the size limits of a batch, the handling of commits that remove rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

from lakescan.common.timestamps import as_moment, from_millis
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.formats.increments import Commit, CommitChange, Limits
from lakescan.formats.table_format import Start, StartAt
from lakescan.options.read import Options

# Options that batch reads refuse.
STREAM_ONLY = (
    "starting-strategy",
    "start-snapshot-timestamp",
    "stream-from-timestamp",
    "streaming-skip-delete-snapshots",
    "streaming-skip-overwrite-snapshots",
    "streaming-max-files-per-micro-batch",
    "streaming-max-rows-per-micro-batch",
    "max-planning-snapshot-count",
    "ignoreDeletes",
    "ignoreChanges",
    "ignoreFileDeletion",
    "skipChangeCommits",
    "failOnDataLoss",
    "excludeRegex",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
    "maxRowsPerTrigger",
    "on-change",
    "skip-operations",
    "watermark-column",
    "monitor-interval",
)
FEED = ("readChangeFeed", "readChangeData")
_TIMES = ("start-snapshot-timestamp", "stream-from-timestamp", "start-timestamp")
_STARTS = (*_TIMES, "start-snapshot-id", "start-tag", "startingVersion", "startingTimestamp")
STREAM_OPTIONS = (*STREAM_ONLY, *_STARTS, "branch")
_STRATEGIES = {
    "TABLE_SCAN_THEN_INCREMENTAL": StartAt.TABLE,
    "INCREMENTAL_FROM_LATEST_SNAPSHOT": StartAt.LATEST,
    "INCREMENTAL_FROM_EARLIEST_SNAPSHOT": StartAt.EARLIEST,
    "INCREMENTAL_FROM_SNAPSHOT_ID": StartAt.COMMIT,
    "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP": StartAt.TIME,
}
# The options that say at which commit, and at which time.
_NAMED = {StartAt.COMMIT: "start-snapshot-id or start-tag", StartAt.TIME: "start-snapshot-timestamp"}


def start_from(options: Options) -> Start:
    """Return where a stream begins; raises `InvalidOption` if options contradict each other."""
    given = [name for name in _STARTS if name in options]
    if len(given) > 1:
        raise InvalidOption(f"options {given[0]!r} and {given[1]!r} both set where the stream begins: give only one")
    start = _start(given[0], options) if given else Start()
    strategy = options.get("starting-strategy")
    if strategy is None:
        return start
    at = _STRATEGIES[strategy]
    if at in _NAMED and start.at != at:
        raise InvalidOption(f"starting-strategy={strategy} needs the option {_NAMED[at]}")
    if at not in _NAMED and given:
        raise InvalidOption(
            f"starting-strategy={strategy} and option {given[0]!r} contradict each other: give only one"
        )
    return start if given else Start(at)


def _start(name: str, options: Options) -> Start:
    value = options[name]
    if name in _TIMES:
        return Start(StartAt.TIME, time=from_millis(value))
    if name == "startingTimestamp":
        return Start(StartAt.TIME, time=as_moment(value, options.get("time-zone", UTC)))
    return Start(StartAt.LATEST) if value == "latest" else Start(StartAt.COMMIT, commit=value)


def reads_changes(options: Options) -> bool:
    """Whether a stream reads row-level changes instead of appended rows."""
    return options.get("on-change") == "changelog" or any(options.get(name) for name in FEED)


def limits_from(options: Options, default: Limits) -> Limits:
    """Return the size limits of a batch: the strictest of the options for each; `default` without any."""

    def least(*names: str) -> int | None:
        return min((options[name] for name in names if name in options), default=None)

    limits = Limits(
        files=least("maxFilesPerTrigger", "streaming-max-files-per-micro-batch"),
        rows=least("maxRowsPerTrigger", "streaming-max-rows-per-micro-batch"),
        size=least("maxBytesPerTrigger"),
        commits=least("max-planning-snapshot-count"),
    )
    return default if limits == Limits() else limits


@dataclass(frozen=True)
class Policy:
    """How a stream handles commits that only remove rows, commits that rewrite rows, and certain operations.

    A stream of `changes` reads all of them.
    """

    deletes: str = "error"
    overwrites: str = "error"
    skipped: frozenset[str] = frozenset()
    changes: bool = False

    @staticmethod
    def of(options: Options) -> Policy:
        """Return the policy set by options; the options of Iceberg and Delta take precedence over `on-change`."""

        def is_set(*names: str) -> bool:
            return any(options.get(name) for name in names)

        deletes = overwrites = options.get("on-change", "error")
        if is_set("ignoreChanges", "ignoreFileDeletion"):
            deletes, overwrites = "skip", "added-rows"
        if is_set("ignoreDeletes", "streaming-skip-delete-snapshots", "skipChangeCommits"):
            deletes = "skip"
        if is_set("streaming-skip-overwrite-snapshots", "skipChangeCommits"):
            overwrites = "skip"
        if "watermark-column" in options and reads_changes(options):
            raise UnsupportedFeature(
                "watermark-column in streams of changes", "All changes of a commit are read in one batch."
            )
        skipped = frozenset(name.lower() for name in options.get("skip-operations", ()))
        return Policy(deletes, overwrites, skipped, changes=reads_changes(options))

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
