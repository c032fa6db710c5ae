"""Validate table properties: settings that writes here would violate or ignore are refused.

The specification allows any property. Properties that only configure other writers are kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lakescan.common.option_values import boolean, integer, one_of, positive, whole
from lakescan.errors import InvalidOption, UnsupportedFeature

_METRICS = re.compile(r"none|counts|full|truncate\(\s*[1-9][0-9]*\s*\)", re.IGNORECASE)
_LEVELS = re.compile(r"null|-?[0-9]+")


def _metrics(value: str) -> None:
    if _METRICS.fullmatch(value.strip()) is None:
        raise ValueError("none, counts, truncate(16) with a number of characters, or full")


def _level(value: str) -> None:
    if _LEVELS.fullmatch(value.strip()) is None:
        raise ValueError("a whole number")


def _path(value: str) -> None:
    if not value.strip():
        raise ValueError("a folder's location")


# Supported properties and the checks of their values.
_VALUES: Mapping[str, Callable[[str], object]] = {
    "commit.manifest-merge.enabled": boolean,
    "commit.manifest.min-count-to-merge": positive,
    "commit.manifest.target-size-bytes": positive,
    "commit.retry.max-wait-ms": whole,
    "commit.retry.min-wait-ms": whole,
    "commit.retry.num-retries": whole,
    "commit.retry.total-timeout-ms": whole,
    "gc.enabled": boolean,
    "history.expire.max-ref-age-ms": positive,
    "history.expire.max-snapshot-age-ms": positive,
    "history.expire.min-snapshots-to-keep": positive,
    "read.split.metadata-target-size": positive,
    "read.split.open-file-cost": whole,
    "read.split.planning-lookback": positive,
    "read.split.target-size": positive,
    "write.distribution-mode": one_of("none", "hash", "range"),
    "write.metadata.compression-codec": one_of("none", "gzip"),
    "write.metadata.delete-after-commit.enabled": boolean,
    "write.metadata.metrics.default": _metrics,
    "write.metadata.metrics.max-inferred-column-defaults": integer,
    "write.data.path": _path,
    "write.metadata.path": _path,
    "write.metadata.previous-versions-max": positive,
    "write.parquet.compression-codec": one_of("zstd", "snappy", "gzip", "brotli", "lz4", "uncompressed", "none"),
    "write.parquet.compression-level": _level,
    "write.parquet.page-size-bytes": positive,
    "write.parquet.row-group-limit": positive,
    "write.summary.partition-limit": whole,
    "write.target-file-size-bytes": positive,
}
# The properties that every write uses; also checked on tables created by other writers.
_OF_WRITES = (
    "commit.manifest.min-count-to-merge",
    "commit.manifest.target-size-bytes",
    "write.data.path",
    "write.metadata.metrics.max-inferred-column-defaults",
    "write.parquet.compression-codec",
    "write.parquet.compression-level",
    "write.parquet.page-size-bytes",
    "write.summary.partition-limit",
    "write.target-file-size-bytes",
)
_PROVIDERS = ("write.location-provider.impl", "write.py-location-provider.impl")
_COLUMN_METRICS = "write.metadata.metrics.column."
# Metadata fields that the Java implementation exposes as properties; they cannot be set.
_RESERVED = frozenset(
    {
        "uuid",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)


def check_properties(properties: Mapping[str, str]) -> None:
    """Check a new table's properties: `InvalidOption` for invalid values, `UnsupportedFeature` for missing support."""
    for name, value in properties.items():
        if name.startswith("encryption."):
            raise UnsupportedFeature(f"'{name}' for a new table", "Encrypted tables are read, not written.")
        if name in _RESERVED:
            raise InvalidOption(f"{name!r} cannot be set as a property: Iceberg keeps it in the table's metadata")
        if name == "write.format.default" and str(value).lower() != "parquet":
            raise UnsupportedFeature(f"'{name}'={value!r} for a new table", "Files are written as Parquet.")
        if name in _PROVIDERS:
            raise UnsupportedFeature(f"'{name}' for a new table", "Only Iceberg's own providers are supported.")
        check = _metrics if name.startswith(_COLUMN_METRICS) else _VALUES.get(name)
        if check is not None:
            _check(name, str(value), check)


def check_obeyed(properties: Mapping[str, str], location: str) -> None:
    """Raise `InvalidOption` for an existing table's property, or a write option, with an invalid value."""
    for name in _OF_WRITES:
        if name in properties:
            try:
                _check(name, properties[name], _VALUES[name])
            except InvalidOption as error:
                raise InvalidOption(f"{location} cannot be written to: {error}") from error


def _check(name: str, value: str, check: Callable[[str], object]) -> None:
    try:
        check(value)
    except ValueError as error:
        raise InvalidOption(f"'{name}'={value!r}: expected {error}") from error
