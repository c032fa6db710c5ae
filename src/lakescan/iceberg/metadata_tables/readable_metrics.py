"""`readable_metrics`: a file's statistics by column name, bounds in the column's own type."""

from __future__ import annotations

import pyarrow as pa

from lakescan import types as t
from lakescan.iceberg.bounds import decode_values, value_of_key
from lakescan.planning.file_table import struct_of
from lakescan.schema import Schema

READABLE_METRICS = 1_000_000  # ids from here on, above those of any column
_COUNTS = {
    "column_size": "column_sizes",
    "value_count": "value_counts",
    "null_value_count": "null_value_counts",
    "nan_value_count": "nan_value_counts",
}
_BOUNDS = {"lower_bound": "lower_bounds", "upper_bound": "upper_bounds"}


def _leaves(schema: Schema) -> list[tuple[str, t.Field]]:
    """The columns of primitive types, nested ones too, by full name."""
    named = sorted((path, schema.by_id[i]) for i, path in schema.path_of.items())
    return [(path, f) for path, f in named if not t.children(f.type) and f.type not in (t.VARIANT, t.UNKNOWN)]


def metrics_type(schema: Schema) -> t.Struct:
    """One struct a column: counts, and bounds of the column's type."""
    columns, next_id = [], READABLE_METRICS + 1
    for path, field in _leaves(schema):
        kinds = [*((n, t.LONG) for n in _COUNTS), *((n, field.type) for n in _BOUNDS)]
        members = tuple(t.Field(next_id + 1 + i, name, kind) for i, (name, kind) in enumerate(kinds))
        columns.append(t.Field(next_id, path, t.Struct(members)))
        next_id += 1 + len(members)
    return t.Struct(tuple(columns))


def metrics_column(files: pa.StructArray, schema: Schema) -> pa.StructArray:
    """The statistics of files (a struct with the maps of manifest entries) by column."""
    kind = metrics_type(schema)
    columns = {}
    for target, (path, field) in zip(kind.fields, _leaves(schema), strict=True):
        counts = [value_of_key(files, name, field.id) for name in _COUNTS.values()]
        bounds = [_bound(value_of_key(files, name, field.id), field.type) for name in _BOUNDS.values()]
        columns[path] = pa.StructArray.from_arrays([*counts, *bounds], fields=list(target.type.arrow()))
    return struct_of(columns, len(files)).cast(kind.arrow())


def _bound(serialized: pa.Array, kind: t.Type) -> pa.Array:
    arrow = kind.arrow()
    if kind == t.UUID:
        return pa.ExtensionArray.from_storage(arrow, serialized.cast(pa.binary(16)))
    if isinstance(kind, t.Geospatial):
        return serialized
    decoded = decode_values(serialized, kind)
    return pa.nulls(len(serialized), arrow) if decoded is None else decoded.cast(arrow)
