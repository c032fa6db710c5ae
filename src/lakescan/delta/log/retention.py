"""Retention of removed files in Delta tables, and the table features under which orphan files can be removed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.errors import UnsupportedFeature

_PROPERTY = "delta.deletedFileRetentionDuration"
_WEEK = timedelta(weeks=1)
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
# Features with which every file of the table is named by an action of the log.
_SUPPORTED = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "collations",
        "collations-preview",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "invariants",
        "materializePartitionColumns",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)


def retention_of(configuration: Mapping[str, str]) -> timedelta:
    """`delta.deletedFileRetentionDuration`, by default a week; raises `UnsupportedFeature` if it cannot be parsed."""
    text = configuration.get(_PROPERTY)
    if text is None:
        return _WEEK
    match = _INTERVAL.fullmatch(text)
    parts = [] if match is None else re.findall(r"(\d+)\s+([a-z]+?)s?\b", match[1].lower())
    if not parts or any(unit not in _UNITS for _, unit in parts):
        raise UnsupportedFeature(f"{_PROPERTY}={text!r}", "Write it like 'interval 7 days'.")
    return sum((int(number) * _UNITS[unit] for number, unit in parts), timedelta())


def check_vacuum(protocol: Protocol, location: str) -> None:
    """Raise `UnsupportedFeature` if the table may reference files in ways that lakescan does not know."""
    protocol.check_readable(location)
    if protocol.min_writer_version > 7:
        raise UnsupportedFeature(f"Delta writer version {protocol.min_writer_version}", f"{location} needs it.")
    for feature in sorted(protocol.features - _SUPPORTED):
        raise UnsupportedFeature(f"removing files of Delta tables with the feature {feature!r}", f"{location} has it.")


def has_uniform(metadata: Metadata) -> bool:
    """Whether the table also maintains Iceberg metadata (UniForm)."""
    return "iceberg" in metadata.configuration.get("delta.universalFormat.enabledFormats", "").lower()
