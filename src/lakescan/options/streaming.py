"""What options say of a stream: where it begins, how much a batch takes, what becomes of commits that remove rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC

from lakescan.common.timestamps import as_moment, from_millis
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.formats.increments import APPEND, DELETE, NOTHING, OVERWRITE, Commit, Limits
from lakescan.formats.table_format import Start
from lakescan.options.read import Options

# Options that a batch refuses.
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
    "TABLE_SCAN_THEN_INCREMENTAL": "table",
    "INCREMENTAL_FROM_LATEST_SNAPSHOT": "latest",
    "INCREMENTAL_FROM_EARLIEST_SNAPSHOT": "earliest",
    "INCREMENTAL_FROM_SNAPSHOT_ID": "commit",
    "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP": "time",
}
_DELTA_FILES = 1000  # of a batch, where nothing is said: Delta's own default


def start_from(options: Options) -> Start:
    """Where a stream begins; raises `InvalidOption` where options contradict each other."""
    given = [name for name in _STARTS if name in options]
    if len(given) > 1:
        raise InvalidOption(f"options {given[0]!r} and {given[1]!r} both say where the stream begins: give one")
    found = _start(given[0], options) if given else Start()
    strategy = options.get("starting-strategy")
    if strategy is None:
        return found
    at = _STRATEGIES[strategy]
    if at in ("commit", "time") and found.at != at:
        needed = {"commit": "start-snapshot-id or start-tag", "time": "start-snapshot-timestamp"}[at]
        raise InvalidOption(f"starting-strategy={strategy} needs the option {needed}")
    if at not in ("commit", "time") and given:
        raise InvalidOption(f"starting-strategy={strategy} and option {given[0]!r} contradict each other: give one")
    return found if given else Start(at)


def _start(name: str, options: Options) -> Start:
    value = options[name]
    if name in _TIMES:
        return Start("time", time=from_millis(value))
    if name == "startingTimestamp":
        return Start("time", time=as_moment(value, options.get("time-zone", UTC)))
    return Start("latest") if value == "latest" else Start("commit", commit=value)


def reads_changes(options: Options) -> bool:
    """Whether a stream is of changes of rows instead of added rows."""
    return options.get("on-change") == "changelog" or any(options.get(name) for name in FEED)


def limits_from(options: Options, format_name: str) -> Limits:
    """The most that a batch takes: the strictest of what is said."""

    def least(*names: str) -> int | None:
        return min((options[name] for name in names if name in options), default=None)

    found = Limits(
        files=least("maxFilesPerTrigger", "streaming-max-files-per-micro-batch"),
        rows=least("maxRowsPerTrigger", "streaming-max-rows-per-micro-batch"),
        size=least("maxBytesPerTrigger"),
        commits=least("max-planning-snapshot-count"),
    )
    return Limits(files=_DELTA_FILES) if format_name == "delta" and found == Limits() else found


@dataclass(frozen=True)
class Policy:
    """What becomes of commits that only remove rows, of those that rewrite some, and of certain operations.

    Readers of `changes` read them all.
    """

    deletes: str = "error"
    overwrites: str = "error"
    skipped: frozenset[str] = frozenset()
    changes: bool = False

    @staticmethod
    def of(options: Options) -> Policy:
        """The policy of both ecosystems' options, which say more than `on-change` where they are set."""

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
            raise UnsupportedFeature("watermark-column in streams of changes", "All changes of a commit go together.")
        skipped = frozenset(name.lower() for name in options.get("skip-operations", ()))
        return Policy(deletes, overwrites, skipped, changes=reads_changes(options))

    def action(self, commit: Commit) -> str:
        """What to do with a commit: 'read' the rows that it adds, 'pass' it over, or 'stop' before it."""
        if commit.obstacle:
            return "stop"
        if commit.change == NOTHING or commit.operation.lower() in self.skipped:
            return "pass"
        if commit.change == APPEND or self.changes:
            return "read"
        mode = {DELETE: self.deletes, OVERWRITE: self.overwrites}[commit.change]
        if mode == "added-rows":
            return "read" if commit.change == OVERWRITE else "pass"
        return "stop" if mode == "error" else "pass"
