"""The options of a scan: the ecosystems' own names, checked, typed and given their defaults.

Names are compared without case, hyphens and underscores, so `snapshot-id`, `snapshot_id` and `snapshotId` are one
option (Spark itself hands option names over in lower case). An unknown name is refused with the nearest valid one; a
name that the ecosystem has and this version does not obey yet is refused as `UnsupportedFeature`, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakescan.common.option_values import (
    boolean,
    duration,
    integer,
    mapping,
    names,
    no_locality,
    one_of,
    parse_size,
    planning_mode,
    positive,
    version,
    whole,
)
from lakescan.common.timestamps import as_zone
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest

BOTH = ("iceberg", "delta")
_ICEBERG, _DELTA = ("iceberg",), ("delta",)
_MILLIS = "milliseconds since 1970"
_SIZE = "bytes, or 128m"
STRATEGIES = (
    "TABLE_SCAN_THEN_INCREMENTAL",
    "INCREMENTAL_FROM_LATEST_SNAPSHOT",
    "INCREMENTAL_FROM_EARLIEST_SNAPSHOT",
    "INCREMENTAL_FROM_SNAPSHOT_ID",
    "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP",
)
ON_CHANGE = ("error", "skip", "added-rows", "changelog")


@dataclass(frozen=True)
class Option:
    """One option: its canonical name, the formats that have it, how its value is read, and what it does."""

    name: str
    formats: tuple[str, ...]
    parse: Callable[[Any], Any]
    doc: str
    expects: str = ""


OPTIONS: tuple[Option, ...] = (
    Option("versionAsOf", BOTH, str, "the version or snapshot id (Iceberg: also a branch or tag) to read"),
    Option("timestampAsOf", BOTH, str, "read the table as it was at that time: a date, a timestamp"),
    Option("snapshot-id", _ICEBERG, integer, "the snapshot id to read", "a snapshot id"),
    Option("as-of-timestamp", _ICEBERG, integer, "read as of that time", "milliseconds since 1970"),
    Option("start-snapshot-id", _ICEBERG, integer, "rows appended after it; a stream begins with it", "a snapshot id"),
    Option("end-snapshot-id", _ICEBERG, integer, "rows appended up to it, itself included", "a snapshot id"),
    Option("start-timestamp", _ICEBERG, integer, "rows appended after the snapshot of that time", _MILLIS),
    Option("end-timestamp", _ICEBERG, integer, "rows appended up to the snapshot of that time", _MILLIS),
    Option("start-tag", _ICEBERG, str, "rows appended after its snapshot; a stream begins with it"),
    Option("end-tag", _ICEBERG, str, "rows appended up to its snapshot, itself included"),
    Option("branch", _ICEBERG, str, "the branch to read"),
    Option("tag", _ICEBERG, str, "the tag to read"),
    Option("readChangeFeed", _DELTA, boolean, "read changes of rows instead of rows", "true or false"),
    Option("readChangeData", _DELTA, boolean, "an old name of readChangeFeed", "true or false"),
    Option("startingVersion", _DELTA, version, "the first version of changes, or of a stream", "a version, or latest"),
    Option("startingTimestamp", _DELTA, str, "the earliest time of a change feed: a date, a timestamp"),
    Option("endingVersion", _DELTA, whole, "the last version of a change feed", "a version"),
    Option("endingTimestamp", _DELTA, str, "the latest time of a change feed: a date, a timestamp"),
    Option("time-zone", BOTH, as_zone, "the zone of times without an offset: UTC, on Spark the session's", "a zone"),
    Option("split-size", BOTH, parse_size, "bytes a split aims at", "bytes, or 128m"),
    Option("lookback", BOTH, positive, "bins kept open while packing", "a number above 0"),
    Option("file-open-cost", BOTH, parse_size, "bytes that opening a file is worth", "bytes, or 4m"),
    Option("parallelism", BOTH, positive, "readers that splits should keep busy", "a number above 0"),
    Option(
        "lane",
        BOTH,
        one_of("auto", "native", "arrow"),
        "how Spark reads data files: auto, native (as its own Parquet) or arrow",
        "auto, native or arrow",
    ),
    Option("data-planning-mode", BOTH, planning_mode, "where metadata is read: auto, local or distributed"),
    Option("delete-planning-mode", _ICEBERG, planning_mode, "the same for manifests of delete files"),
    Option("include-column-stats", BOTH, boolean, "keep the statistics of all columns in plans", "true or false"),
    Option("locality", _ICEBERG, no_locality, "place tasks by the hosts of blocks: false", "false"),
    Option(
        "verify",
        BOTH,
        boolean,
        "check the checksums of Parquet pages that lakescan decodes",
        "true or false",
    ),
    Option("cache-folder", BOTH, str, "a local folder that keeps decoded metadata for other processes and later ones"),
    Option("batch-size", BOTH, positive, "rows a record batch holds at most", "a number above 0"),
    Option("vectorization-enabled", _ICEBERG, boolean, "taken, and without effect: Arrow decodes", "true or false"),
    Option("case-sensitive", BOTH, boolean, "whether column names are matched with case", "true or false"),
    Option("columns", BOTH, names, "the columns to read: a, b, c or a JSON list"),
    Option("where", BOTH, str, "rows to read: SQL text, or an expression as JSON"),
    Option("filter", BOTH, str, "another name of where; rows are of both"),
    Option("limit", BOTH, whole, "rows to return at most", "a number"),
    Option("nanosAsLong", BOTH, boolean, "on Spark, timestamps of nanoseconds as BIGINT", "true or false"),
    Option("key-manager", BOTH, str, "who has the keys of encrypted files, as package.module:attribute"),
    Option("relocate", BOTH, mapping, "old location prefix to new one", "a JSON object of texts"),
    Option("storage-options", BOTH, mapping, "settings of the filesystem", "a JSON object"),
    Option("starting-strategy", _ICEBERG, one_of(*STRATEGIES), "where a stream begins", ", ".join(STRATEGIES)),
    Option("start-snapshot-timestamp", _ICEBERG, integer, "a stream begins with the first snapshot since", _MILLIS),
    Option("stream-from-timestamp", _ICEBERG, integer, "a stream begins with the first snapshot since", _MILLIS),
    Option("streaming-skip-delete-snapshots", _ICEBERG, boolean, "streams leave deletes out", "true or false"),
    Option("streaming-skip-overwrite-snapshots", _ICEBERG, boolean, "streams leave overwrites out", "true or false"),
    Option("streaming-max-files-per-micro-batch", _ICEBERG, positive, "files of a batch at most", "a number above 0"),
    Option("streaming-max-rows-per-micro-batch", _ICEBERG, positive, "rows of a batch at most", "a number above 0"),
    Option("max-planning-snapshot-count", _ICEBERG, positive, "commits of a batch at most", "a number above 0"),
    Option("ignoreDeletes", _DELTA, boolean, "streams leave out commits that only remove files", "true or false"),
    Option("ignoreChanges", _DELTA, boolean, "streams read what commits add that rewrite files", "true or false"),
    Option("ignoreFileDeletion", _DELTA, boolean, "the old name of ignoreChanges", "true or false"),
    Option("skipChangeCommits", _DELTA, boolean, "streams leave out commits that remove rows", "true or false"),
    Option("failOnDataLoss", _DELTA, boolean, "whether missing commits end a stream: true", "true or false"),
    Option("excludeRegex", _DELTA, str, "streams leave out files whose path matches it"),
    Option("maxFilesPerTrigger", BOTH, positive, "files of a batch at most: 1000 (Delta)", "a number above 0"),
    Option("maxBytesPerTrigger", BOTH, parse_size, "bytes of a batch at most", _SIZE),
    Option("maxRowsPerTrigger", BOTH, positive, "rows of a batch at most", "a number above 0"),
    Option(
        "on-change",
        BOTH,
        one_of(*ON_CHANGE),
        "what streams do with commits that remove rows: error",
        ", ".join(ON_CHANGE),
    ),
    Option("watermark-column", BOTH, str, "streams take the files of a commit by the lower bounds of a time"),
    Option("skip-operations", BOTH, names, "operations whose commits streams leave out: a, b, c or a JSON list"),
    Option(
        "monitor-interval",
        BOTH,
        duration,
        "how often Table.follow looks for commits: 1s",
        "seconds, or 500ms, 10s, 5m",
    ),
    Option("format", BOTH, str, "iceberg or delta, where it should not be detected"),
    Option("path", BOTH, str, "the table's location"),
)

# Options of the peers that change what is read and that this version does not obey yet.
NOT_YET: dict[str, tuple[str, ...]] = {
    "iceberg": (
        "max-allowed-planning-failures",
        "watermark-column-time-unit",
        "async-micro-batch-planning-enabled",
        "streaming-snapshot-polling-interval-ms",
        "async-queue-preload-file-limit",
        "async-queue-preload-row-limit",
        "aggregate-push-down-enabled",
    ),
    "delta": (
        "schemaTrackingLocation",
        "schemaLocation",
        "streamingSourceTrackingId",
        "withEventTimeOrder",
        "allowSourceColumnDrop",
        "allowSourceColumnRename",
        "allowSourceColumnTypeChange",
    ),
}


# Options of the peers that a read does not have, and where they belong.
ELSEWHERE = {
    "dataChange": "it is for writes that only rearrange rows; reads leave such commits out by skip-operations",
    "queryName": "it names a streaming query: spark.readStream, then writeStream.queryName(...)",
    "checkpointLocation": "it is where a streaming query keeps its state: give it to writeStream, or to Table.follow",
}


def normalised(name: str) -> str:
    """An option's name without case, hyphens and underscores: what names are compared by."""
    return name.lower().replace("-", "").replace("_", "")


_BY_NAME = {normalised(option.name): option for option in OPTIONS}


class Options(Mapping[str, Any]):
    """Checked options by canonical name; immutable, `merged` returns a new set."""

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values: dict[str, Any] = {}
        for name, value in (values or {}).items():
            option = _lookup(name)
            self._values[option.name] = _parse(option, value)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Options({self._values})"

    def merged(self, values: Mapping[str, Any]) -> Options:
        """These options with others over them."""
        merged = Options(values)
        merged._values = {**self._values, **merged._values}
        return merged

    def without(self, names: Iterable[str]) -> Options:
        """These options less some."""
        copy = Options()
        copy._values = {n: v for n, v in self._values.items() if n not in names}
        return copy

    def check_format(self, format_name: str) -> None:
        """Refuse an option that the table's format does not have."""
        for name in self._values:
            if format_name not in _BY_NAME[normalised(name)].formats:
                theirs = " or ".join(_BY_NAME[normalised(name)].formats)
                raise InvalidOption(f"option {name!r} is for {theirs} tables; this is a {format_name} table")


def _lookup(name: str) -> Option:
    if (found := _BY_NAME.get(normalised(name))) is not None:
        return found
    for format_name, theirs_all in NOT_YET.items():
        for theirs in theirs_all:
            if normalised(theirs) == normalised(name):
                raise UnsupportedFeature(f"{format_name} option {theirs!r}", "Remove the option to read without it.")
    for theirs, where in ELSEWHERE.items():
        if normalised(theirs) == normalised(name):
            raise InvalidOption(f"option {theirs!r} is none of a read: {where}")
    known = [option.name for option in OPTIONS]
    suggestion = nearest(name, [*known, *NOT_YET["iceberg"], *NOT_YET["delta"]])
    raise InvalidOption(f"unknown option {name!r}.{suggestion} Valid: {', '.join(known)}")


def _parse(option: Option, value: Any) -> Any:
    try:
        return option.parse(value)
    except (TypeError, ValueError) as error:
        raise InvalidOption(
            f"option {option.name!r} has the value {value!r}; it takes {option.expects or error}"
        ) from error
