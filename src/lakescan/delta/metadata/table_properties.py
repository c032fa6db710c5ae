"""Check the properties of a new Delta table: keep those that lakescan's writers honour, refuse the others.

A property that demands something of writers is a promise to every reader of the table. deltalake records any property
unchanged, and adds the required table features for only a few of them; so all properties are checked here before it
creates the table. Unknown names that begin with `delta.` are refused; all other names are the user's own, and kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from lakescan.common import types as t
from lakescan.common.option_values import boolean, integer, one_of, parse_size, positive
from lakescan.delta.metadata.features import brought_by_type, of_new_table
from lakescan.errors import InvalidOption, UnsupportedFeature, nearest

_DURATION = re.compile(
    r"(?:interval\s+)?((?:\d+\s+(?:nanosecond|microsecond|millisecond|second|minute|hour|day|week)s?\s*)+)",
    re.IGNORECASE,
)
MAPPING, VECTORS, CHANGES = "delta.columnMapping.mode", "delta.enableDeletionVectors", "delta.enableChangeDataFeed"
_FEATURE, _CONSTRAINT = "delta.feature.", "delta.constraints."


def _flag(value: str) -> str:
    return str(boolean(value)).lower()


def _bytes(value: str) -> str:
    return str(parse_size(value))


def _duration(value: str) -> str:
    """A duration that deltalake understands: for others it silently uses its default."""
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


# Properties that writers honour, or that do not affect rows, with the functions that normalise their values.
_KNOWN: Mapping[str, Callable[[str], str]] = {
    "delta.appendOnly": _flag,
    "delta.autoOptimize": _flag,
    "delta.autoOptimize.autoCompact": one_of("true", "false", "auto", "legacy"),
    "delta.autoOptimize.optimizeWrite": _flag,
    "delta.checkpoint.writeStatsAsJson": _flag,
    "delta.checkpoint.writeStatsAsStruct": _flag,
    "delta.checkpointInterval": _number,
    "delta.checkpointRetentionDuration": _duration,
    MAPPING: one_of("none", "name"),
    "delta.dataSkippingNumIndexedCols": _columns,
    "delta.dataSkippingStatsColumns": str,
    "delta.deletedFileRetentionDuration": _duration,
    "delta.enableExpiredLogCleanup": _flag,
    "delta.enableFullRetentionRollback": _flag,
    CHANGES: _flag,
    VECTORS: _flag,
    "delta.isolationLevel": one_of("Serializable", "WriteSerializable"),
    "delta.logRetentionDuration": _duration,
    "delta.minReaderVersion": _version(1, 2),
    "delta.minWriterVersion": _version(1, 2, 3, 4, 5),
    "delta.parquet.compression.codec": one_of("snappy", "zstd", "gzip", "brotli", "uncompressed", "none"),
    "delta.randomPrefixLength": _number,
    "delta.randomizeFilePrefixes": _flag,
    "delta.sampleRetentionDuration": _duration,
    "delta.setTransactionRetentionDuration": _duration,
    "delta.targetFileSize": _bytes,
    "delta.tuneFileSizesForRewrites": _flag,
}
# Unsupported properties, with the only value that is accepted, and why others are not.
_UNSUPPORTED: Mapping[str, tuple[str, str]] = {
    "delta.checkpointPolicy": ("classic", "Only classic checkpoints are written."),
    "delta.compatibility.symlinkFormatManifest.enabled": ("false", "lakescan does not maintain symlink manifests."),
    "delta.enableIcebergCompatV1": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableIcebergCompatV2": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableIcebergCompatV3": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableIcebergWriterCompatV1": ("false", "lakescan does not maintain Iceberg metadata of Delta tables."),
    "delta.enableInCommitTimestamps": (
        "false",
        "deltalake commits have no in-commit timestamps, and the table would be unreadable.",
    ),
    "delta.enableRowTracking": ("false", "deltalake commits assign no row ids."),
    "delta.enableTypeWidening": ("false", "deltalake does not list the required table feature."),
    "delta.enableVariantShredding": ("false", "lakescan does not write shredded variants."),
    "delta.universalFormat.enabledFormats": ("", "lakescan does not maintain Iceberg or Hudi metadata."),
}


def checked_properties(properties: Mapping[str, str], columns: Iterable[t.Field]) -> dict[str, str]:
    """The properties to record, with Delta's spelling of their names and normalised values.

    Raises `InvalidOption` for unknown Delta properties and invalid values, and `UnsupportedFeature` for properties
    that lakescan's writers do not honour.
    """
    spelling = {name.lower(): name for name in (*_KNOWN, *_UNSUPPORTED)}
    checked: dict[str, str] = {}
    features = []
    for name, value in properties.items():
        if not name.lower().startswith("delta."):
            checked[name] = value
        elif name.lower().startswith(_FEATURE):
            features.append((name[len(_FEATURE) :], str(value)))
        elif name.lower().startswith(_CONSTRAINT):
            raise UnsupportedFeature(f"{name!r} for a new table", "Add the constraint with ALTER TABLE, as in Delta.")
        elif (known := spelling.get(name.lower())) is None:
            raise InvalidOption(f"Delta has no table property {name!r}.{nearest(name, [*_KNOWN, *_UNSUPPORTED])}")
        else:
            checked[known] = _value(known, str(value))
    _check_together(checked, columns)
    for feature, value in features:
        _check_feature(feature, value, checked)
    return checked


def _value(name: str, value: str) -> str:
    if name in _UNSUPPORTED:
        harmless, why = _UNSUPPORTED[name]
        if value.strip().lower() != harmless:
            raise UnsupportedFeature(f"'{name}'={value!r} for a new table", why)
        return value
    try:
        return _KNOWN[name](value)
    except ValueError as error:
        raise InvalidOption(f"'{name}'={value!r}: it takes {error}") from error


def _check_together(properties: Mapping[str, str], columns: Iterable[t.Field]) -> None:
    """Refuse column mapping together with listed features: deltalake would not list column mapping then."""
    if properties.get(MAPPING, "none") == "none":
        return
    listed = [f"column {c.name!r} of type {c.type}" for c in t.walk(tuple(columns)) if brought_by_type(c.type)]
    listed += [f"'{VECTORS}'='true'"] if properties.get(VECTORS) == "true" else []
    if listed:
        raise UnsupportedFeature(
            f"'{MAPPING}'='name' together with {listed[0]} for a new table",
            "deltalake would not list the table feature columnMapping then, and readers would not map columns.",
        )


def _check_feature(feature: str, value: str, properties: Mapping[str, str]) -> None:
    """Accept a feature only if the table has it anyway; like Delta, do not record the property."""
    if value.lower() not in ("supported", "enabled"):
        raise InvalidOption(f"'{_FEATURE}{feature}'={value!r}: it takes supported")
    features = of_new_table(properties)
    if feature not in features:
        raise UnsupportedFeature(
            f"'{_FEATURE}{feature}' for a new table",
            f"Set the property that needs the feature instead.{nearest(feature, features)}",
        )
