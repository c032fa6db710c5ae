"""Retention of removed files in Delta tables, and the table features under which orphan files can be removed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

from lakescan.delta.metadata.features import Support
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
    protocol.check_supports(Support.VACUUM, "removing files of", location)


def has_uniform(metadata: Metadata) -> bool:
    """Whether the table also maintains Iceberg metadata (UniForm)."""
    return "iceberg" in metadata.configuration.get("delta.universalFormat.enabledFormats", "").lower()
