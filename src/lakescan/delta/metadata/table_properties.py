"""The table properties of Delta: their names, their meaning, and how their values are parsed and validated."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any

from lakescan.common.option_values import boolean, integer, one_of, parse_size, positive
from lakescan.common.properties import Properties, Property, is_true
from lakescan.delta.metadata.features import FEATURES, Support
from lakescan.errors import CorruptMetadata, InvalidOption, UnsupportedFeature, nearest

_DURATION = re.compile(
    r"(?:interval\s+)?((?:\d+\s+(?:nanosecond|microsecond|millisecond|second|minute|hour|day|week)s?\s*)+)",
    re.IGNORECASE,
)
_INTERVAL = re.compile(r"\s*(?:interval\s+)?((?:\d+\s+[a-z]+\s*)+)", re.IGNORECASE)
_UNITS = {
    "week": timedelta(weeks=1),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1),
    "microsecond": timedelta(microseconds=1),
}
_VERSION = re.compile(r"\d{1,19}")
CONSTRAINT = "delta.constraints."


def _flag(value: str) -> str:
    return str(boolean(value)).lower()


def _bytes(value: str) -> str:
    return str(parse_size(value))


def _duration(value: str) -> str:
    """Normalize a duration such as "interval 30 days".

    Raises `ValueError` for units longer than weeks: with these, some writers silently use the property's default.
    """
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        raise ValueError("a duration such as 'interval 30 days', in weeks or smaller units")
    return f"interval {' '.join(match[1].lower().split())}"


def _columns(value: str) -> str:
    number = integer(value)
    if number < -1:
        raise ValueError("a number of columns, or -1 for all")
    return str(number)


def _version(*known: int) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.strip() not in map(str, known):
            raise ValueError(
                f"one of {', '.join(map(str, known))}; higher versions list table features: set the property that "
                "needs the feature instead"
            )
        return value.strip()

    return parse


def _number(value: str) -> str:
    return str(positive(value))


def _interval(text: str) -> timedelta:
    """Parse a duration such as "interval 7 days", in units from microseconds to weeks; raises `ValueError`."""
    match = _INTERVAL.fullmatch(text)
    parts = [] if match is None else re.findall(r"(\d+)\s+([a-z]+?)s?\b", match[1].lower())
    if not parts or any(unit not in _UNITS for _, unit in parts):
        raise ValueError("a duration such as 'interval 7 days'")
    return sum((int(number) * _UNITS[unit] for number, unit in parts), timedelta())


def _since(text: str) -> int:
    if _VERSION.fullmatch(text) is None:
        raise ValueError("a version")
    return int(text)


def _lower(text: str) -> str:
    return text.strip().lower()


class DeltaProperties(Properties):
    """The properties of a Delta table (`configuration`), each parsed, or its default if not set."""

    # Rules for writers
    append_only: Property[bool] = Property(
        "delta.appendOnly", False, is_true, "whether rows may only be added", check=_flag
    )
    change_feed: Property[bool] = Property(
        "delta.enableChangeDataFeed", False, is_true, "whether commits record changes of rows", check=_flag
    )
    deletion_vectors: Property[bool] = Property(
        "delta.enableDeletionVectors", False, is_true, "whether deletes may mark rows in vectors", check=_flag
    )
    column_mapping: Property[str] = Property(
        "delta.columnMapping.mode",
        "none",
        str.lower,
        "how columns are found in data files: by logical name (none), physical name (name) or id",
        check=one_of("none", "name"),
    )
    max_column_id: Property[int] = Property(
        "delta.columnMapping.maxColumnId",
        0,
        integer,
        "the highest id of a mapped column",
        is_internal=True,
        error=CorruptMetadata,
    )
    type_widening: Property[bool] = Property(
        "delta.enableTypeWidening", False, is_true, "whether types of columns may be widened", check=_flag
    )
    row_tracking: Property[bool] = Property(
        "delta.enableRowTracking", False, is_true, "whether rows keep ids and commit versions", check=_flag
    )
    row_id_column: Property[str | None] = Property(
        "delta.rowTracking.materializedRowIdColumnName",
        None,
        str,
        "the file column with moved rows' ids",
        is_internal=True,
    )
    row_version_column: Property[str | None] = Property(
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        None,
        str,
        "the file column with moved rows' commit versions",
        is_internal=True,
    )
    suspends_row_tracking: Property[bool] = Property(
        "delta.rowTrackingSuspended", False, is_true, "whether new rows get no ids", is_internal=True
    )
    in_commit_timestamps: Property[bool] = Property(
        "delta.enableInCommitTimestamps", False, is_true, "whether commits record their time", check=_flag
    )
    in_commit_since: Property[int] = Property(
        "delta.inCommitTimestampEnablementVersion",
        0,
        _since,
        "the first version whose commit records its time",
        is_internal=True,
        error=CorruptMetadata,
    )
    in_commit_since_time: Property[str | None] = Property(
        "delta.inCommitTimestampEnablementTimestamp", None, str, "the time of that version", is_internal=True
    )
    universal_formats: Property[str] = Property(
        "delta.universalFormat.enabledFormats", "", str.lower, "other table formats whose metadata is maintained"
    )
    # Data files
    target_file_size: Property[int] = Property(
        "delta.targetFileSize",
        128 * 2**20,
        parse_size,
        "target size of a data file in bytes",
        check=_bytes,
    )
    codec: Property[str] = Property(
        "delta.parquet.compression.codec",
        "snappy",
        _lower,
        "codec of data files",
        check=one_of("snappy", "zstd", "gzip", "brotli", "uncompressed", "none"),
    )
    optimizes_writes: Property[bool] = Property(
        "delta.autoOptimize.optimizeWrite",
        False,
        lambda text: text.lower() not in ("false", "none"),
        "whether rows of a Spark frame are shuffled by partition before they are written",
        check=_flag,
    )
    stats_columns: Property[str | None] = Property(
        "delta.dataSkippingStatsColumns", None, str, "the columns with statistics, separated by commas"
    )
    columns_with_stats: Property[int] = Property(
        "delta.dataSkippingNumIndexedCols", 32, integer, "how many columns have statistics; -1: all", check=_columns
    )
    # The log
    removed_file_retention: Property[timedelta] = Property(
        "delta.deletedFileRetentionDuration",
        timedelta(weeks=1),
        _interval,
        "how long removed data files are kept",
        check=_duration,
        error=UnsupportedFeature,
    )
    log_retention: Property[timedelta] = Property(
        "delta.logRetentionDuration",
        timedelta(days=30),
        _interval,
        "how long commits are kept",
        check=_duration,
        error=UnsupportedFeature,
    )
    truncated_retention: Property[timedelta] = Property(
        "delta.dropFeatureTruncateHistory.retentionDuration",
        timedelta(hours=24),
        _interval,
        "how long commits are kept when a feature is dropped with TRUNCATE HISTORY",
        check=_duration,
        error=UnsupportedFeature,
    )
    checkpoint_interval: Property[int] = Property(
        "delta.checkpointInterval", 10, positive, "commits from one checkpoint to the next", check=_number
    )
    checkpoint_policy: Property[str] = Property(
        "delta.checkpointPolicy",
        "classic",
        _lower,
        "whether checkpoints are classic, or v2 with sidecars",
        check=one_of("classic", "v2"),
    )
    checkpoint_retention: Property[str] = Property(
        "delta.checkpointRetentionDuration",
        "",
        str,
        "how long checkpoints are kept",
        check=_duration,
        is_kept=True,
    )
    protected_before: Property[int] = Property(
        "delta.requireCheckpointProtectionBeforeVersion",
        0,
        _since,
        "commits before this version are only removed all together",
        is_internal=True,
        error=CorruptMetadata,
    )
    cleans_log: Property[bool] = Property(
        "delta.enableExpiredLogCleanup", True, boolean, "whether old commits are removed", check=_flag
    )
    json_stats: Property[bool] = Property(
        "delta.checkpoint.writeStatsAsJson",
        True,
        boolean,
        "whether checkpoints have statistics as JSON text",
        check=_flag,
    )
    struct_stats: Property[bool] = Property(
        "delta.checkpoint.writeStatsAsStruct",
        True,
        boolean,
        "whether checkpoints have statistics as columns",
        check=_flag,
    )
    transaction_retention: Property[timedelta | None] = Property(
        "delta.setTransactionRetentionDuration",
        None,
        _interval,
        "how long transaction ids of applications are kept",
        check=_duration,
        error=UnsupportedFeature,
    )
    reader_version: Property[str] = Property(
        "delta.minReaderVersion", "1", str, "reader version of the protocol", check=_version(1, 2)
    )
    writer_version: Property[str] = Property(
        "delta.minWriterVersion", "2", str, "writer version of the protocol", check=_version(1, 2, 3, 4, 5, 6)
    )
    # For other writers: validated and stored, without effect here
    auto_optimize: Property[str] = Property(
        "delta.autoOptimize",
        "false",
        str,
        "whether writers lay out files as they write",
        check=_flag,
        is_kept=True,
    )
    auto_compact: Property[str] = Property(
        "delta.autoOptimize.autoCompact",
        "false",
        str,
        "whether writers compact small files",
        check=one_of("true", "false", "auto", "legacy"),
        is_kept=True,
    )
    full_rollback: Property[str] = Property(
        "delta.enableFullRetentionRollback",
        "true",
        str,
        "whether all versions can be restored",
        check=_flag,
        is_kept=True,
    )
    isolation: Property[str] = Property(
        "delta.isolationLevel",
        "Serializable",
        str,
        "which concurrent commits are conflicts",
        check=one_of("Serializable", "WriteSerializable"),
    )
    prefix_length: Property[int] = Property(
        "delta.randomPrefixLength", 2, positive, "length of random prefixes", check=_number
    )
    random_prefixes: Property[bool] = Property(
        "delta.randomizeFilePrefixes", False, is_true, "whether files have random prefixes", check=_flag
    )
    sample_retention: Property[str] = Property(
        "delta.sampleRetentionDuration",
        "",
        str,
        "how long samples are kept",
        check=_duration,
        is_kept=True,
    )
    tunes_file_sizes: Property[str] = Property(
        "delta.tuneFileSizesForRewrites",
        "false",
        str,
        "whether rewrites make smaller files",
        check=_flag,
        is_kept=True,
    )

    @property
    def constraints(self) -> dict[str, str]:
        """The CHECK constraints of the table as SQL, by name."""
        return {n[len(CONSTRAINT) :]: sql for n, sql in self.texts.items() if n.lower().startswith(CONSTRAINT)}

    @property
    def has_iceberg_metadata(self) -> bool:
        """True if Iceberg metadata is maintained for the same files (UniForm)."""
        return "iceberg" in self.universal_formats


# Readers of a table rely on properties that set rules for writers. So unknown names that start with `delta.` are
# refused. All other names belong to the user and are stored.

FEATURE = "delta.feature."
_OF_CATALOG = "Only its catalog can make such a table: create it in a catalog of type unity."
# Features that cannot be requested by name, and advice for the user.
_INSTEAD = {
    "catalogManaged": _OF_CATALOG,
    "catalogOwned-preview": _OF_CATALOG,
    "clustering": "Set the clustering columns: ALTER TABLE ... CLUSTER BY.",
    "checkpointProtection": "ALTER TABLE ... DROP FEATURE adds it when it drops a reader feature.",
}
# Unsupported properties, with the only accepted value, and the reason for refusing others.
_UNSUPPORTED: Mapping[str, tuple[str, str]] = {
    "delta.compatibility.symlinkFormatManifest.enabled": ("false", "lakescan does not maintain symlink manifests."),
    "delta.enableIcebergCompatV1": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableIcebergCompatV2": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableIcebergCompatV3": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableIcebergWriterCompatV1": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableVariantShredding": ("false", "lakescan does not write shredded variants."),
    "delta.universalFormat.enabledFormats": ("", "lakescan does not maintain Iceberg or Hudi metadata."),
}


# Properties that users can set: lakescan's writer obeys them, or they do not affect rows.
SETTABLE: Mapping[str, Property[Any]] = {
    name: each
    for name, each in DeltaProperties.declarations().items()
    if not each.is_internal and name not in _UNSUPPORTED
}
_SPELLING = {name.lower(): name for name in (*SETTABLE, *_UNSUPPORTED)}


def checked_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties to store for a new table, with Delta's spelling of their names and normalized values.

    Names that start with `delta.feature.` are left out, since features are stored in the protocol. Raises
    `InvalidOption` for unknown Delta properties and invalid values, and `UnsupportedFeature` for CHECK constraints and
    for properties that lakescan's writer does not obey.
    """
    checked: dict[str, str] = {}
    for name, value in properties.items():
        if not name.lower().startswith("delta."):
            checked[name] = value
        elif name.lower().startswith(FEATURE):
            continue  # stored in the protocol, see `asked_features`
        elif name.lower().startswith(CONSTRAINT):
            raise UnsupportedFeature(f"{name!r} for a new table", "Add the constraint with ALTER TABLE, as in Delta.")
        else:
            known = canonical_name(name)
            checked[known] = checked_value(known, str(value), "for a new table")
    return checked


def canonical_name(name: str) -> str:
    """Return Delta's spelling of a property name, whose case is ignored.

    Raises `InvalidOption` for an unknown name; its message suggests the nearest one.
    """
    known = _SPELLING.get(name.lower())
    if known is None:
        raise InvalidOption(f"Delta has no table property {name!r}.{nearest(name, _SPELLING.values())}")
    return known


def checked_value(name: str, value: str, where: str) -> str:
    """Return a property's normalized value, as it is stored; `name` is in Delta's spelling (see `canonical_name`).

    Raises `InvalidOption` for an invalid value, and `UnsupportedFeature` for one that lakescan's writer does not obey,
    whose message ends with `where`, such as "for a new table".
    """
    if name in _UNSUPPORTED:
        harmless, why = _UNSUPPORTED[name]
        if value.strip().lower() != harmless:
            raise UnsupportedFeature(f"'{name}'={value!r} {where}", why)
        return value
    try:
        return str(SETTABLE[name].check(value))
    except ValueError as error:
        raise InvalidOption(f"'{name}'={value!r}: it takes {error}") from error


def asked_features(properties: Mapping[str, str], has: Collection[str]) -> set[str]:
    """Return the features that a new table's properties `delta.feature.<name>` request.

    `has` are the features that the table has anyway. Raises the errors of `asked_feature`.
    """
    named = ((name, str(value)) for name, value in properties.items() if name.lower().startswith(FEATURE))
    return {asked_feature(name[len(FEATURE) :], value, has, "a new table") for name, value in named}


def asked_feature(name: str, value: str, has: Collection[str], where: str) -> str:
    """Return Delta's spelling of the feature that a property `delta.feature.<name>` requests.

    Args:
        name: The feature, in any case.
        value: The value of the property.
        has: The features that the table has already, which are not checked.
        where: The table, for messages.

    Raises:
        InvalidOption: The feature or value is unknown.
        UnsupportedFeature: lakescan cannot write tables with the feature.
    """
    known = {each.lower(): each for each in FEATURES}.get(name.lower())
    if value.strip().lower() not in ("supported", "enabled"):
        raise InvalidOption(f"'{FEATURE}{name}'={value!r}: it takes supported")
    if known is None:
        raise InvalidOption(f"Delta has no table feature {name!r}.{nearest(name, FEATURES)}")
    if known not in has and (known in _INSTEAD or Support.WRITE not in FEATURES[known].support):
        raise UnsupportedFeature(
            f"the feature {known!r} for {where}",
            _INSTEAD.get(known, "lakescan does not support it and could no longer write to the table."),
        )
    return known
