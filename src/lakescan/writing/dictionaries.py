"""Which columns of a Parquet file are encoded by a dictionary: all but those whose values hardly ever repeat.

Arrow builds a dictionary of each column and drops it when it grows past its limit (1 MiB). For keys, times and measures
that is most of the time of writing, and the part that is written before makes the file larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE = 1 << 14  # rows that are looked at
_DISTINCT = 0.97  # of the sample: then there are some 260,000 values, too many for a dictionary of any type


def dictionary_columns(rows: pa.Table) -> bool | list[str]:
    """Return the paths of the leaf columns that are encoded by a dictionary, or True for all.

    Args:
        rows: The first rows of the file. The same rows always have the same answer.

    Example:
        >>> dictionary_columns(pa.table({"id": range(100_000), "kind": [7] * 100_000}))
        ['kind']
    """
    if rows.num_rows < _SAMPLE:
        return True
    sample = pa.array(np.sort(np.random.default_rng(0).choice(rows.num_rows, _SAMPLE, replace=False)))
    plain = {n for n, column in enumerate(rows.columns) if _hardly_repeats(column, sample)}
    if not plain:
        return True
    others = (field for n, field in enumerate(rows.schema) if n not in plain)
    return [path for field in others for path in leaf_paths(field.name, field.type)]


def _hardly_repeats(column: pa.ChunkedArray, sample: pa.Array) -> bool:
    if column.type.num_fields or isinstance(column.type, pa.BaseExtensionType) or not _is_wide(column.type):
        return False
    values = column.take(sample)
    present = len(values) - values.null_count
    return present > _SAMPLE // 2 and pc.count_distinct(values).as_py() > _DISTINCT * present


def _is_wide(kind: pa.DataType) -> bool:
    """Whether a type has values of more than two bytes: the others have few values."""
    return kind not in (pa.null(), pa.bool_(), pa.int8(), pa.int16())


def leaf_paths(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths of the leaf columns of a field, as Arrow names them in Parquet files."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_struct(kind):
        for field in kind:
            yield from leaf_paths(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from leaf_paths(f"{path}.key_value.{kind.key_field.name}", kind.key_type)
        yield from leaf_paths(f"{path}.key_value.{kind.item_field.name}", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from leaf_paths(f"{path}.list.element", kind.value_type)
    else:
        yield path


def leaf_path(schema: pa.Schema, places: Sequence[int]) -> str:
    """The path of a leaf column inside of structs, by the positions of the fields from the root to it."""
    field = schema.field(places[0])
    names = [field.name]
    for place in places[1:]:
        field = field.type.field(place)
        names.append(field.name)
    return ".".join(names)
