"""The options of a scan, under the names that Iceberg, Delta and Spark use, validated and typed.

Names are compared without case, hyphens and underscores, so `snapshot-id`, `snapshot_id` and `snapshotId` are one
option (Spark passes option names in lower case). An unknown name raises `InvalidOption` with the nearest valid one; an
option of Iceberg or Delta that this version does not implement raises `UnsupportedFeature`; none is ignored.
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
    """One option: canonical name, formats that have it, parser, description, and what values it expects."""

    name: str
    formats: tuple[str, ...]
    parse: Callable[[Any], Any]
    doc: str
    expects: str = ""


OPTIONS: tuple[Option, ...] = (
    Option("versionAsOf", BOTH, str, "the version or snapshot id to read (Iceberg: also a branch or tag)"),
    Option("timestampAsOf", BOTH, str, "read the table as of that time: a date or timestamp"),
    Option("snapshot-id", _ICEBERG, integer, "the snapshot id to read", "a snapshot id"),
    Option("as-of-timestamp", _ICEBERG, integer, "read as of that time", "milliseconds since 1970"),
    Option("start-snapshot-id", _ICEBERG, integer, "read rows appended after it; a stream's start", "a snapshot id"),
    Option("end-snapshot-id", _ICEBERG, integer, "read rows appended up to it, inclusive", "a snapshot id"),
    Option("start-timestamp", _ICEBERG, integer, "read rows appended after the snapshot at that time", _MILLIS),
    Option("end-timestamp", _ICEBERG, integer, "read rows appended up to the snapshot at that time", _MILLIS),
    Option("start-tag", _ICEBERG, str, "read rows appended after its snapshot; a stream's start"),
    Option("end-tag", _ICEBERG, str, "read rows appended up to its snapshot, inclusive"),
    Option("branch", _ICEBERG, str, "the branch to read"),
    Option("tag", _ICEBERG, str, "the tag to read"),
    Option("readChangeFeed", _DELTA, boolean, "read row-level changes instead of rows", "true or false"),
    Option("readChangeData", _DELTA, boolean, "the old name of readChangeFeed", "true or false"),
    Option("startingVersion", _DELTA, version, "first version of a change feed or stream", "a version, or latest"),
    Option("startingTimestamp", _DELTA, str, "earliest time of a change feed or stream: a date or timestamp"),
    Option("endingVersion", _DELTA, whole, "last version of a change feed", "a version"),
    Option("endingTimestamp", _DELTA, str, "latest time of a change feed: a date or timestamp"),
    Option(
        "time-zone",
        BOTH,
        as_zone,
        "zone of timestamps without an offset: UTC, on Spark the session's",
        "a time zone, such as Europe/Paris or +02:00",
    ),
    Option("split-size", BOTH, parse_size, "target size of a split in bytes", _SIZE),
    Option("lookback", BOTH, positive, "bins kept open while packing splits", "a number above 0"),
    Option("file-open-cost", BOTH, parse_size, "minimum weight of a file in bytes when packing", "bytes, or 4m"),
    Option("parallelism", BOTH, positive, "number of readers that splits should keep busy", "a number above 0"),
    Option(
        "lane",
        BOTH,
        one_of("auto", "native", "arrow"),
        "how Spark reads data files: auto, native (its own Parquet reader) or arrow",
        "auto, native or arrow",
    ),
    Option("data-planning-mode", BOTH, planning_mode, "where metadata is read: auto, local or distributed"),
    Option("delete-planning-mode", _ICEBERG, planning_mode, "data-planning-mode for delete manifests"),
    Option("include-column-stats", BOTH, boolean, "keep the statistics of all columns in plans", "true or false"),
    Option("locality", _ICEBERG, no_locality, "schedule tasks on the hosts of blocks: false", "false"),
    Option(
        "verify",
        BOTH,
        boolean,
        "verify the checksums of the Parquet pages that lakescan decodes",
        "true or false",
    ),
    Option("cache-folder", BOTH, str, "a local folder that caches decoded metadata across processes"),
    Option("batch-size", BOTH, positive, "maximum rows of a record batch", "a number above 0"),
    Option("vectorization-enabled", _ICEBERG, boolean, "accepted without effect: Arrow decodes", "true or false"),
    Option("case-sensitive", BOTH, boolean, "whether column names are case-sensitive", "true or false"),
    Option("columns", BOTH, names, "columns and members to read, as in `select`: `a, b.c, d as e`, or a JSON list"),
    Option("where", BOTH, str, "filter on rows: SQL text, or an expression as JSON"),
    Option("filter", BOTH, str, "another name of where; both apply if both are given"),
    Option("limit", BOTH, whole, "maximum number of rows", "a number, 0 or more"),
    Option("nanosAsLong", BOTH, boolean, "on Spark, read nanosecond timestamps as BIGINT", "true or false"),
    Option("key-manager", BOTH, str, "key manager for encrypted files, as package.module:attribute"),
    Option("relocate", BOTH, mapping, "maps old location prefixes to new ones", "a JSON object of strings"),
    Option("storage-options", BOTH, mapping, "settings of the filesystem", "a JSON object"),
    Option("starting-strategy", _ICEBERG, one_of(*STRATEGIES), "where a stream begins", ", ".join(STRATEGIES)),
    Option("start-snapshot-timestamp", _ICEBERG, integer, "a stream begins at the first snapshot since", _MILLIS),
    Option("stream-from-timestamp", _ICEBERG, integer, "a stream begins at the first snapshot since", _MILLIS),
    Option("streaming-skip-delete-snapshots", _ICEBERG, boolean, "streams skip delete snapshots", "true or false"),
    Option("streaming-skip-overwrite-snapshots", _ICEBERG, boolean, "streams skip overwrites", "true or false"),
    Option("streaming-max-files-per-micro-batch", _ICEBERG, positive, "maximum files of a batch", "a number above 0"),
    Option("streaming-max-rows-per-micro-batch", _ICEBERG, positive, "maximum rows of a batch", "a number above 0"),
    Option("max-planning-snapshot-count", _ICEBERG, positive, "maximum commits of a batch", "a number above 0"),
    Option("ignoreDeletes", _DELTA, boolean, "streams skip commits that only remove files", "true or false"),
    Option("ignoreChanges", _DELTA, boolean, "streams read the files added by rewriting commits", "true or false"),
    Option("ignoreFileDeletion", _DELTA, boolean, "the old name of ignoreChanges", "true or false"),
    Option("skipChangeCommits", _DELTA, boolean, "streams skip commits that remove rows", "true or false"),
    Option("failOnDataLoss", _DELTA, boolean, "whether missing commits fail a stream: true", "true or false"),
    Option("excludeRegex", _DELTA, str, "streams skip files whose path matches it"),
    Option("maxFilesPerTrigger", BOTH, positive, "maximum files of a batch: 1000 (Delta)", "a number above 0"),
    Option("maxBytesPerTrigger", BOTH, parse_size, "maximum bytes of a batch", _SIZE),
    Option("maxRowsPerTrigger", BOTH, positive, "maximum rows of a batch", "a number above 0"),
    Option(
        "on-change",
        BOTH,
        one_of(*ON_CHANGE),
        "what streams do with commits that remove rows: error",
        ", ".join(ON_CHANGE),
    ),
    Option("watermark-column", BOTH, str, "streams order the files of a commit by this column's lower bounds"),
    Option("skip-operations", BOTH, names, "operations whose commits streams skip: a, b, c or a JSON list"),
    Option(
        "monitor-interval",
        BOTH,
        duration,
        "how often Table.follow polls for commits: 1s",
        "seconds, or 500ms, 10s, 5m",
    ),
    Option("format", BOTH, str, "iceberg or delta, instead of detecting it"),
    Option("path", BOTH, str, "the table's location"),
)

# Options of Iceberg and Delta that affect reads and are not implemented.
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


# Options of Iceberg, Delta and Spark that do not apply to reads, with advice.
ELSEWHERE = {
    "dataChange": "it marks writes that only rearrange rows; a stream skips such commits with skip-operations",
    "queryName": "it names a streaming query: spark.readStream, then writeStream.queryName(...)",
    "checkpointLocation": "it stores the state of a streaming query: give it to writeStream, or to Table.follow",
}


def normalised(name: str) -> str:
    """Return an option's name without case, hyphens and underscores, for comparison."""
    return name.lower().replace("-", "").replace("_", "")


_BY_NAME = {normalised(option.name): option for option in OPTIONS}


class Options(Mapping[str, Any]):
    """Validated options by canonical name; immutable."""

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
        """Return these options updated with `values`, which take precedence; raises `InvalidOption`."""
        merged = Options(values)
        merged._values = {**self._values, **merged._values}
        return merged

    def without(self, names: Iterable[str]) -> Options:
        """Return these options without those in `names`."""
        copy = Options()
        copy._values = {n: v for n, v in self._values.items() if n not in names}
        return copy

    def check_format(self, format_name: str) -> None:
        """Raise `InvalidOption` for an option that the table's format does not have."""
        for name in self._values:
            if format_name not in _BY_NAME[normalised(name)].formats:
                theirs = " or ".join(_BY_NAME[normalised(name)].formats)
                raise InvalidOption(f"option {name!r} is for {theirs} tables; this is a {format_name} table")


def _lookup(name: str) -> Option:
    if (option := _BY_NAME.get(normalised(name))) is not None:
        return option
    for format_name, theirs_all in NOT_YET.items():
        for theirs in theirs_all:
            if normalised(theirs) == normalised(name):
                raise UnsupportedFeature(f"{format_name} option {theirs!r}", "Remove the option to read without it.")
    for theirs, where in ELSEWHERE.items():
        if normalised(theirs) == normalised(name):
            raise InvalidOption(f"option {theirs!r} does not apply to reads: {where}")
    known = [option.name for option in OPTIONS]
    suggestion = nearest(name, [*known, *NOT_YET["iceberg"], *NOT_YET["delta"]])
    raise InvalidOption(f"unknown option {name!r}.{suggestion} Valid: {', '.join(known)}")


def _parse(option: Option, value: Any) -> Any:
    try:
        return option.parse(value)
    except (TypeError, ValueError) as error:
        raise InvalidOption(
            f"option {option.name!r} has the invalid value {value!r}; expected: {option.expects or error}"
        ) from error
