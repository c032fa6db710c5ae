"""Serialize the statistics of a written file to JSON (protocol, "Per-file Statistics").

Delta's readers assume that bounds hold for all rows, including NaN, since they have no NaN count. So only bounds that
hold for all rows are written, and a column without such a bound gets none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

import numpy as np

from lakescan.common import types as t
from lakescan.delta.metadata.table_properties import DeltaProperties
from lakescan.writing.file_statistics import Extreme, FileStatistics, LeafColumn, LeafStatistics

_PREFIX = 32  # maximum number of characters of a bound
_HIGHEST = "\U0010ffff"
_NAME = re.compile(r"\s*(?:`((?:[^`]|``)*)`|([^.`]+?))\s*(?:\.|$)")
_DAYS = range(-719_162, 2_932_897)  # since 1970: the years 1 to 9999, which all readers can parse
_MILLIS = range(_DAYS.start * 86_400_000, _DAYS.stop * 86_400_000)


def is_indexed(leaves: Sequence[LeafColumn], properties: DeltaProperties) -> list[bool]:
    """Return for each leaf column whether it gets statistics.

    These are the columns in `delta.dataSkippingStatsColumns` if that is set, else the first
    `delta.dataSkippingNumIndexedCols` (by default 32). Columns inside lists and maps never get any.
    """
    names = properties.stats_columns
    if names is not None:
        configured = [path_of(name) for name in _names(names)]
        ways = [tuple(field.name.lower() for field in leaf.way) for leaf in leaves]
        return [
            not leaf.is_repeated and any(way[: len(path)] == path for path in configured)
            for leaf, way in zip(leaves, ways, strict=True)
        ]
    most = properties.columns_with_stats
    left = len(leaves) if most < 0 else most
    indexed = []
    for leaf in leaves:
        indexed.append(not leaf.is_repeated and left > 0)
        left -= not leaf.is_repeated
    return indexed


def _names(text: str) -> list[str]:
    """Split a list of column names at commas outside backticks."""
    return [each for each in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text) if each.strip()]


def path_of(name: str) -> tuple[str, ...]:
    """Return the names in a dotted column path such as ``a.`b.c` ``, in lower case and without backticks."""
    return tuple((one.replace("``", "`") if one else other).lower() for one, other in _NAME.findall(name))


def stats_text(
    statistics: FileStatistics, properties: DeltaProperties, clustering: Collection[tuple[str, ...]] = ()
) -> str:
    """Return a file's statistics as JSON text by physical column names.

    `clustering` are the physical paths of the clustering columns, which always have statistics.
    """
    stats: dict[str, Any] = {"numRecords": statistics.rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    indexed = is_indexed([each.leaf for each in statistics.leaves], properties)
    for each, has_stats in zip(statistics.leaves, indexed, strict=True):
        if has_stats or tuple(field.physical_name for field in each.leaf.way) in clustering:
            _add(stats, each)
    return json_text(stats)


def _add(stats: dict[str, Any], each: LeafStatistics) -> None:
    path, kind = [field.physical_name for field in each.leaf.way], each.leaf.field.type
    if each.nulls is not None:
        _insert_value(stats["nullCount"], path, each.nulls)
    if each.least is None or each.most is None:
        return
    if (lower := _bound(each.least, kind, upper=False)) is not None:
        _insert_value(stats["minValues"], path, lower)
    if not each.nans and (upper := _bound(each.most, kind, upper=True)) is not None:
        _insert_value(stats["maxValues"], path, upper)


def _insert_value(node: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        node = node.setdefault(name, {})
    node[path[-1]] = value


def _bound(value: Extreme, kind: t.Type, *, upper: bool) -> Any:
    """Return a lower or upper bound as a value for JSON, or None if it cannot be written.

    Texts are truncated and timestamps rounded to milliseconds: lower bounds down, upper bounds up. NaN, infinity, and
    dates and times outside the years 1 to 9999 cannot be written.
    """
    match kind:
        case t.STRING:
            return _cut(value, upper=upper)
        case t.Decimal():
            return _decimal_value(int(value), kind.scale)
        case t.DATE:
            return str(np.datetime64(int(value), "D")) if value in _DAYS else None
        case t.Timestamp():
            return _timestamp(int(value), kind, upper=upper)
        case t.FLOAT | t.DOUBLE:
            return value if isfinite(float(value)) else None
    return value if kind in t.INTEGRAL else None


def _decimal_value(number: int, scale: int) -> Decimal:
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale))


def _cut(value: Extreme, *, upper: bool) -> str | None:
    """Decode a text bound and truncate it to about 32 characters; None if it is not UTF-8.

    A truncated upper bound gets the highest character appended, so that it is not less than the whole text.
    """
    assert isinstance(value, bytes)
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    if len(text) <= _PREFIX:
        return text
    if not upper:
        return text[:_PREFIX]
    end = next((place for place in range(_PREFIX, len(text)) if text[place] != _HIGHEST), None)
    return text if end is None else text[:end] + _HIGHEST


def _timestamp(value: int, kind: t.Timestamp, *, upper: bool) -> str | None:
    millis = -(-value // 1000) if upper else value // 1000
    if millis not in _MILLIS:
        return None
    return f"{np.datetime64(millis, 'ms')}{'Z' if kind.zoned else ''}"


def json_text(value: Any) -> str:
    """Return a parsed JSON value as text; `Decimal` numbers keep all their digits."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json_text(name)}: {json_text(each)}" for name, each in value.items()) + "}"
    return f"{value:f}" if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=float)
