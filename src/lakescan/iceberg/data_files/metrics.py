"""Metrics of a data file for its manifest entry: counts, and bounds by each column's metrics mode.

See the specification, "Manifests" (`lower_bounds`, `upper_bounds`) and appendix D, "Binary single-value serialization".
Bounds hold for all rows. If no valid bound is known, none is written.
"""

from __future__ import annotations

from typing import Any

from lakescan.common import types as t
from lakescan.iceberg.manifests.bounds import encode_value
from lakescan.iceberg.metadata.table_properties import DEFAULT_METRICS, NO_METRICS, IcebergProperties, MetricsMode
from lakescan.writing.file_statistics import Extreme, FileStatistics, LeafStatistics

_NUMBERS = (t.BOOLEAN, *t.INTEGRAL, *t.FLOATING, t.DATE, t.TIME)
_LAST, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)


def metrics_mode(properties: IcebergProperties, column: str, number: int) -> MetricsMode:
    """Return the metrics mode of a column by its dotted name: that of its property, else the table's default property.

    Without either, the first columns (100 by default; `number` counts from 0) have `truncate(16)`, the others `none`.
    """
    if (mode := properties.metrics_of(column) or properties.default_metrics) is not None:
        return mode
    return DEFAULT_METRICS if number < properties.columns_with_metrics else NO_METRICS


def file_metrics(statistics: FileStatistics, properties: IcebergProperties) -> dict[str, Any]:
    """Return the metrics for a manifest's `data_file`, by field id; columns inside lists and maps have only sizes."""
    metrics: dict[str, Any] = {
        "record_count": statistics.rows,
        "split_offsets": list(statistics.split_offsets),
        "column_sizes": {each.leaf.field.id: each.size for each in statistics.leaves if each.size is not None},
        **{name: {} for name in ("value_counts", "null_value_counts", "nan_value_counts")},
        **{name: {} for name in ("lower_bounds", "upper_bounds")},
    }
    for number, each in enumerate(statistics.leaves):
        if not each.leaf.is_repeated:
            mode = metrics_mode(properties, ".".join(field.name for field in each.leaf.way), number)
            _add(metrics, each, mode)
    return metrics


def _add(metrics: dict[str, Any], each: LeafStatistics, mode: MetricsMode) -> None:
    if mode.name == "none":
        return
    field = each.leaf.field
    metrics["value_counts"][field.id] = each.values
    if each.nulls is not None:
        metrics["null_value_counts"][field.id] = each.nulls
    if field.type in t.FLOATING and each.nans is not None:
        metrics["nan_value_counts"][field.id] = each.nans
    if mode.name == "counts" or each.least is None or each.most is None:
        return
    if (lower := _lower(each.least, field.type, mode.length)) is not None:
        metrics["lower_bounds"][field.id] = lower
    # Engines that order NaN above all values would prune the file by an upper bound that excludes NaN.
    has_no_nan = each.nans == 0 or field.type not in t.FLOATING
    if has_no_nan and (upper := _upper(each.most, field.type, mode.length)) is not None:
        metrics["upper_bounds"][field.id] = upper


def _lower(value: Extreme, kind: t.Type, length: int | None) -> bytes | None:
    if length is None or not isinstance(value, bytes):
        return _single_value(value, kind)
    if kind == t.STRING:
        text = _text(value)
        return None if text is None else text[:length].encode()
    return value[:length] if kind == t.BINARY else _single_value(value, kind)


def _upper(value: Extreme, kind: t.Type, length: int | None) -> bytes | None:
    if length is None or not isinstance(value, bytes):
        return _single_value(value, kind)
    if kind == t.STRING:
        text = _text(value)
        return None if text is None else _text_above(text, length)
    return _bytes_above(value, length) if kind == t.BINARY else _single_value(value, kind)


def _single_value(value: Extreme, kind: t.Type) -> bytes | None:
    """Return a value as bytes of a bound; None for types without bounds, and for UUIDs, whose order is disputed."""
    if kind in (t.STRING, t.BINARY) or isinstance(kind, t.Fixed):
        return value if isinstance(value, bytes) else None
    is_number = kind in _NUMBERS or isinstance(kind, (t.Decimal, t.Timestamp))
    return encode_value(value, kind) if is_number else None


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _text_above(text: str, length: int) -> bytes | None:
    """Return a short text unchanged, else the least greater text of at most `length` characters; None if impossible."""
    if len(text) <= length:
        return text.encode()
    for place in range(length - 1, -1, -1):
        following = ord(text[place]) + 1
        if following in _SURROGATES:  # not valid characters
            following = _SURROGATES.stop
        if following <= _LAST:
            return (text[:place] + chr(following)).encode()
    return None


def _bytes_above(value: bytes, length: int) -> bytes | None:
    if len(value) <= length:
        return value
    kept = value[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
