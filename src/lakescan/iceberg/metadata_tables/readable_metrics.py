"""`readable_metrics`: a file's statistics by column name, with bounds in the column's type."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.iceberg.manifests.bounds import decode_values
from lakescan.planning.file_table import struct_of

READABLE_METRICS = 1_000_000  # the first field id, above the ids of all columns
_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_value_counts",
    "nan_value_count": "nan_value_counts",
}
_BOUNDS = {"lower_bound": "lower_bounds", "upper_bound": "upper_bounds"}


def _leaves(schema: Schema) -> list[tuple[str, t.Field]]:
    """The columns of primitive types, including nested ones, by full name."""
    named = sorted((path, schema.by_id[i]) for i, path in schema.path_of.items())
    return [(path, f) for path, f in named if not t.children(f.type) and f.type not in (t.VARIANT, t.UNKNOWN)]


def metrics_type(schema: Schema) -> t.Struct:
    """One struct per column: counts, and bounds in the column's type."""
    columns, next_id = [], READABLE_METRICS + 1
    for path, field in _leaves(schema):
        kinds = [*((n, t.LONG) for n in _COUNTS), *((n, field.type) for n in _BOUNDS)]
        members = tuple(t.Field(next_id + 1 + i, name, kind) for i, (name, kind) in enumerate(kinds))
        columns.append(t.Field(next_id, path, t.Struct(members)))
        next_id += 1 + len(members)
    return t.Struct(tuple(columns))


def metrics_column(files: pa.StructArray, schema: Schema, kind: t.Struct) -> pa.StructArray:
    """The statistics of files (a struct with the maps of manifest entries) by column; `kind` is from `metrics_type`."""
    leaves = _leaves(schema)
    ids = np.array([field.id for _, field in leaves], dtype=np.int64)
    counts = [_Values.of(files, name, ids) for name in _COUNTS.values()]
    bounds = [_Values.of(files, name, ids) for name in _BOUNDS.values()]
    columns = {}
    for place, (target, (path, field)) in enumerate(zip(kind.fields, leaves, strict=True)):
        members = [*(each.at(place) for each in counts), *(_bound(each, place, field.type) for each in bounds)]
        columns[path] = pa.StructArray.from_arrays(members, fields=list(target.type.arrow()))
    if not columns:
        return struct_of(columns, len(files))
    return pa.StructArray.from_arrays(list(columns.values()), fields=list(kind.arrow()))


@dataclass(frozen=True)
class _Values:
    """A statistic of files, sorted by key: the values of the n-th key are those from `low[n]` to `high[n]`.

    Sorting scans the key-value lists only once, independent of the number of columns.
    """

    rows: np.ndarray
    values: pa.Array
    low: np.ndarray
    high: np.ndarray
    files: int

    @staticmethod
    def of(files: pa.StructArray, name: str, keys: np.ndarray) -> _Values:
        maps = files.field(name)
        owner = pc.list_parent_indices(pa.ListArray.from_arrays(maps.offsets, maps.keys)).to_numpy()
        start = maps.offsets[0].as_py() if len(maps) else 0
        own, values = (each.slice(start, len(owner)) for each in (maps.keys, maps.items))
        order = np.argsort(own.to_numpy(), kind="stable")
        ordered = own.to_numpy()[order]
        low, high = (np.searchsorted(ordered, keys, side=side) for side in ("left", "right"))
        return _Values(owner[order], values.take(pa.array(order)), low, high, len(files))

    def has(self, place: int) -> bool:
        """Whether any file has a value for the key."""
        return bool(self.low[place] < self.high[place])

    def at(self, place: int) -> pa.Array:
        """Each file's value for the key, null if it has none."""
        if not self.has(place):
            return pa.nulls(self.files, self.values.type)
        index = np.full(self.files, -1, dtype=np.int64)
        index[self.rows[self.low[place] : self.high[place]]] = np.arange(self.low[place], self.high[place])
        return self.values.take(pa.array(index, mask=index < 0))


def _bound(statistic: _Values, place: int, kind: t.Type) -> pa.Array:
    arrow = kind.arrow()
    if not statistic.has(place):
        return pa.nulls(statistic.files, arrow)
    serialized = statistic.at(place)
    if kind == t.UUID:
        return pa.ExtensionArray.from_storage(arrow, serialized.cast(pa.binary(16)))
    if isinstance(kind, t.Geospatial):
        return serialized
    decoded = decode_values(serialized, kind)
    return pa.nulls(len(serialized), arrow) if decoded is None else decoded.cast(arrow)
