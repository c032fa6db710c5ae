"""What the properties of a new Delta table ask for: kept where writers here obey it, refused where they do not.

A property that asks writers for something is a promise to every reader of the table. deltalake records any property as
it is given, and adds the table features that it knows for a few of them only; so all are checked here before it makes
the table. Names of `delta.` that nobody knows are refused; others are the user's own, and kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from lakescan.common import types as t
from lakescan.common.option_values import boolean, integer, one_of, parse_size, positive
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
    """As deltalake reads it, which takes its own default for what it does not understand."""
    found = _DURATION.fullmatch(value.strip())
    if found is None:
        raise ValueError("a duration such as 'interval 30 days', in weeks or less")
    return f"interval {' '.join(found[1].lower().split())}"


def _columns(value: str) -> str:
    number = integer(value)
    if number < -1:
        raise ValueError("a number of columns, or -1 for all")
    return str(number)


def _version(*known: int) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.strip() not in map(str, known):
            raise ValueError(
                f"one of {', '.join(map(str, known))}; later ones list table features: set the property that needs one"
            )
        return value.strip()

    return parse


def _number(value: str) -> str:
    return str(positive(value))


# Properties that are obeyed, or that ask for nothing that rows depend on, and how their values are written.
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
# Properties that ask for what is not done, unless they say that it need not be.
_NOT_DONE: Mapping[str, tuple[str, str]] = {
    "delta.checkpointPolicy": ("classic", "Checkpoints are classic ones."),
    "delta.compatibility.symlinkFormatManifest.enabled": ("false", "Writers here keep no manifest of links."),
    "delta.enableIcebergCompatV1": ("false", "Writers here do not keep Iceberg's metadata."),
    "delta.enableIcebergCompatV2": ("false", "Writers here do not keep Iceberg's metadata."),
    "delta.enableIcebergCompatV3": ("false", "Writers here do not keep Iceberg's metadata."),
    "delta.enableIcebergWriterCompatV1": ("false", "Writers here do not keep Iceberg's metadata."),
    "delta.enableInCommitTimestamps": (
        "false",
        "Commits through deltalake have none, and the table could not be read.",
    ),
    "delta.enableRowTracking": ("false", "Commits through deltalake give rows no ids."),
    "delta.enableTypeWidening": ("false", "deltalake does not list the table feature."),
    "delta.enableVariantShredding": ("false", "Variants are not written."),
    "delta.universalFormat.enabledFormats": ("", "Writers here do not keep Iceberg's or Hudi's metadata."),
}
_ALWAYS = ("appendOnly", "invariants")  # features that protocol version 2 of writers means


def checked_properties(properties: Mapping[str, str], columns: Iterable[t.Field]) -> dict[str, str]:
    """The properties as they are recorded, under Delta's own spelling of their names.

    Raises `InvalidOption` for names that Delta does not have and values that a property cannot be, and
    `UnsupportedFeature` for what writers here do not do.
    """
    own = {name.lower(): name for name in (*_KNOWN, *_NOT_DONE)}
    found: dict[str, str] = {}
    features = []
    for name, value in properties.items():
        if not name.lower().startswith("delta."):
            found[name] = value
        elif name.lower().startswith(_FEATURE):
            features.append((name[len(_FEATURE) :], str(value)))
        elif name.lower().startswith(_CONSTRAINT):
            raise UnsupportedFeature(f"{name!r} for a new table", "Add the constraint with ALTER TABLE, as in Delta.")
        elif (known := own.get(name.lower())) is None:
            raise InvalidOption(f"Delta has no table property {name!r}.{nearest(name, [*_KNOWN, *_NOT_DONE])}")
        else:
            found[known] = _value(known, str(value))
    _check_together(found, columns)
    for feature, value in features:
        _check_feature(feature, value, found)
    return found


def _value(name: str, value: str) -> str:
    if name in _NOT_DONE:
        harmless, why = _NOT_DONE[name]
        if value.strip().lower() != harmless:
            raise UnsupportedFeature(f"'{name}'={value!r} for a new table", why)
        return value
    try:
        return _KNOWN[name](value)
    except ValueError as error:
        raise InvalidOption(f"'{name}'={value!r}: it takes {error}") from error


def _check_together(properties: Mapping[str, str], columns: Iterable[t.Field]) -> None:
    """Column mapping is a feature to be listed where any is, and deltalake does not list it."""
    if properties.get(MAPPING, "none") == "none":
        return
    listed = [f"column {c.name!r} of type {c.type}" for c in t.walk(tuple(columns)) if _is_feature(c.type)]
    listed += [f"'{VECTORS}'='true'"] if properties.get(VECTORS) == "true" else []
    if listed:
        raise UnsupportedFeature(
            f"'{MAPPING}'='name' together with {listed[0]} for a new table",
            "deltalake leaves the table feature columnMapping out then, and readers would not map columns.",
        )


def _is_feature(kind: t.Type) -> bool:
    return kind is t.VARIANT or (isinstance(kind, t.Timestamp) and not kind.zoned)


def _check_feature(feature: str, value: str, properties: Mapping[str, str]) -> None:
    """A feature may be named where the table has it anyway; Delta does not record such properties either."""
    if value.lower() not in ("supported", "enabled"):
        raise InvalidOption(f"'{_FEATURE}{feature}'={value!r}: it takes supported")
    there = [*_ALWAYS]
    there += ["changeDataFeed"] if properties.get(CHANGES) == "true" else []
    there += ["columnMapping"] if properties.get(MAPPING) == "name" else []
    there += ["deletionVectors"] if properties.get(VECTORS) == "true" else []
    if feature not in there:
        raise UnsupportedFeature(
            f"'{_FEATURE}{feature}' for a new table",
            f"Features come with the property that needs them.{nearest(feature, there)}",
        )
