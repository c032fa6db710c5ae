"""The options of a scan: the ecosystems' own names, checked, typed and given their defaults.

Names are compared without case, hyphens and underscores, so `snapshot-id`, `snapshot_id` and `snapshotId` are one
option (Spark itself hands option names over in lower case). An unknown name is refused with the nearest valid one; a
name that the ecosystem has and this version does not obey yet is refused as `UnsupportedFeature`, never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakescan.errors import InvalidOption, UnsupportedFeature, nearest
from lakescan.moments import as_zone

BOTH = ("iceberg", "delta")
_SIZE_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return text == "true"


def _positive(value: Any) -> int:
    number = int(str(value).strip())
    if number <= 0:
        raise ValueError("a whole number above 0")
    return number


def _whole(value: Any) -> int:
    number = int(str(value).strip())
    if number < 0:
        raise ValueError("a whole number, 0 or more")
    return number


def _integer(value: Any) -> int:
    return int(str(value).strip())


def parse_size(value: Any) -> int:
    """A size in bytes from a number or text such as '128m', '10 GB', '1g'."""
    text = str(value).strip().lower().replace(" ", "")
    digits = text.rstrip("bkmgti")
    unit = text[len(digits) :].removesuffix("b").removesuffix("i")
    if unit not in _SIZE_UNITS or not digits.isdigit() or int(digits) == 0:
        raise ValueError("a size above 0: bytes, or a number with k, m, g or t")
    return int(digits) * _SIZE_UNITS[unit]


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = json.loads(value) if value.lstrip().startswith("[") else value.split(",")
    return tuple(str(v).strip() for v in value)


def _mapping(value: Any) -> dict[str, Any]:
    found = json.loads(value) if isinstance(value, str) else dict(value)
    if not isinstance(found, dict):
        raise ValueError("a JSON object")
    return found


def planning_mode(value: Any) -> str:
    """Where metadata is read, as Iceberg names it; raises `InvalidOption` for other names."""
    mode = str(value).strip().lower()
    if mode not in ("auto", "local", "distributed"):
        raise InvalidOption(f"planning mode {value!r} is not known: it is auto, local or distributed")
    return mode


def _lane(value: Any) -> str:
    lane = str(value).strip().lower()
    if lane not in ("auto", "native", "arrow"):
        raise ValueError("auto, native or arrow")
    return lane


def _no_locality(value: Any) -> bool:
    if _boolean(value):
        raise UnsupportedFeature(
            "locality", "Neither Spark's Python data sources nor Arrow's filesystems know the hosts of a file's blocks."
        )
    return False


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
    Option("snapshot-id", ("iceberg",), _integer, "the snapshot id to read", "a snapshot id"),
    Option("as-of-timestamp", ("iceberg",), _integer, "read as of that time", "milliseconds since 1970"),
    Option("branch", ("iceberg",), str, "the branch to read"),
    Option("tag", ("iceberg",), str, "the tag to read"),
    Option("readChangeFeed", ("delta",), _boolean, "read changes of rows instead of rows", "true or false"),
    Option("readChangeData", ("delta",), _boolean, "an old name of readChangeFeed", "true or false"),
    Option("startingVersion", ("delta",), _whole, "the first version of a change feed", "a version"),
    Option("startingTimestamp", ("delta",), str, "the earliest time of a change feed: a date, a timestamp"),
    Option("endingVersion", ("delta",), _whole, "the last version of a change feed", "a version"),
    Option("endingTimestamp", ("delta",), str, "the latest time of a change feed: a date, a timestamp"),
    Option("time-zone", BOTH, as_zone, "the zone of times without an offset: UTC, on Spark the session's", "a zone"),
    Option("split-size", BOTH, parse_size, "bytes a split aims at", "bytes, or 128m"),
    Option("lookback", BOTH, _positive, "bins kept open while packing", "a number above 0"),
    Option("file-open-cost", BOTH, parse_size, "bytes that opening a file is worth", "bytes, or 4m"),
    Option("parallelism", BOTH, _positive, "readers that splits should keep busy", "a number above 0"),
    Option(
        "lane",
        BOTH,
        _lane,
        "how Spark reads data files: auto, native (as its own Parquet) or arrow",
        "auto, native or arrow",
    ),
    Option("data-planning-mode", BOTH, planning_mode, "where metadata is read: auto, local or distributed"),
    Option("delete-planning-mode", ("iceberg",), planning_mode, "the same for manifests of delete files"),
    Option("include-column-stats", BOTH, _boolean, "keep the statistics of all columns in plans", "true or false"),
    Option("locality", ("iceberg",), _no_locality, "place tasks by the hosts of blocks: false", "false"),
    Option("verify", BOTH, _boolean, "check that delete files have as many rows as recorded", "true or false"),
    Option("cache-folder", BOTH, str, "a local folder that keeps decoded metadata for other processes and later ones"),
    Option("batch-size", BOTH, _positive, "rows a record batch holds at most", "a number above 0"),
    Option("case-sensitive", BOTH, _boolean, "whether column names are matched with case", "true or false"),
    Option("columns", BOTH, _names, "the columns to read: a, b, c or a JSON list"),
    Option("filter", BOTH, str, "rows to read: SQL text, or an expression as JSON"),
    Option("limit", BOTH, _whole, "rows to return at most", "a number"),
    Option("nanosAsLong", BOTH, _boolean, "on Spark, timestamps of nanoseconds as BIGINT", "true or false"),
    Option("key-manager", BOTH, str, "who has the keys of encrypted files, as package.module:attribute"),
    Option("relocate", BOTH, _mapping, "old location prefix to new one", "a JSON object of texts"),
    Option("storage-options", BOTH, _mapping, "settings of the filesystem", "a JSON object"),
    Option("format", BOTH, str, "iceberg or delta, where it should not be detected"),
    Option("path", BOTH, str, "the table's location"),
)

# Options of the peers that change what is read and that this version does not obey yet.
NOT_YET: dict[str, tuple[str, ...]] = {
    "iceberg": (
        "start-snapshot-id",
        "end-snapshot-id",
        "start-timestamp",
        "end-timestamp",
        "start-tag",
        "end-tag",
        "starting-strategy",
        "start-snapshot-timestamp",
        "stream-from-timestamp",
        "streaming",
        "streaming-skip-delete-snapshots",
        "streaming-skip-overwrite-snapshots",
        "streaming-max-files-per-micro-batch",
        "streaming-max-rows-per-micro-batch",
        "max-planning-snapshot-count",
        "max-allowed-planning-failures",
        "monitor-interval",
        "watermark-column",
        "watermark-column-time-unit",
        "async-micro-batch-planning-enabled",
        "streaming-snapshot-polling-interval-ms",
        "async-queue-preload-file-limit",
        "async-queue-preload-row-limit",
        "aggregate-push-down-enabled",
        "vectorization-enabled",
    ),
    "delta": (
        "maxFilesPerTrigger",
        "maxBytesPerTrigger",
        "excludeRegex",
        "ignoreFileDeletion",
        "ignoreChanges",
        "ignoreDeletes",
        "skipChangeCommits",
        "failOnDataLoss",
        "schemaTrackingLocation",
        "schemaLocation",
        "streamingSourceTrackingId",
        "allowSourceColumnDrop",
        "allowSourceColumnRename",
        "allowSourceColumnTypeChange",
    ),
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
    for format_name, names in NOT_YET.items():
        for theirs in names:
            if normalised(theirs) == normalised(name):
                raise UnsupportedFeature(f"{format_name} option {theirs!r}", "Remove the option to read without it.")
    known = [option.name for option in OPTIONS]
    suggestion = nearest(name, [*known, *NOT_YET["iceberg"], *NOT_YET["delta"]])
    raise InvalidOption(f"unknown option {name!r}.{suggestion} Valid: {', '.join(known)}")


def _parse(option: Option, value: Any) -> Any:
    try:
        return option.parse(value)
    except ValueError as error:
        raise InvalidOption(
            f"option {option.name!r} has the value {value!r}; it takes {option.expects or error}"
        ) from error
