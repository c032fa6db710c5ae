"""Column statistics of many containers (files, row groups, manifests, partitions), one array element per container."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class ColumnStats:
    """Bounds and counts of one column; a null element, or `None` instead of an array, means unknown.

    `lower` and `upper` have the column's Arrow type. They need not be the minimum and maximum: every value that is
    neither null nor NaN is between them, inclusive. Counts are of rows; `value_count` includes nulls. `exact` is true
    where the known bounds occur as values in the column (before deletes).
    """

    lower: pa.Array | None = None
    upper: pa.Array | None = None
    null_count: pa.Array | None = None
    nan_count: pa.Array | None = None
    value_count: pa.Array | None = None
    exact: pa.Array | None = None

    def filter(self, mask: pa.Array) -> ColumnStats:
        """Return the statistics of the containers that `mask` selects."""
        return self._map_arrays(lambda array: array.filter(mask))

    def take(self, rows: pa.Array) -> ColumnStats:
        """Return the statistics of the containers with these indices, in this order."""
        return self._map_arrays(lambda array: array.take(rows))

    def keep_where(self, mask: pa.Array) -> ColumnStats:
        """Return the statistics, unknown where `mask` is false."""
        return self._map_arrays(lambda array: pc.if_else(mask, array, pa.scalar(None, array.type)))

    def _map_arrays(self, change: Callable[[pa.Array], pa.Array]) -> ColumnStats:
        arrays = (getattr(self, each.name) for each in fields(self))
        return ColumnStats(*(None if array is None else change(array) for array in arrays))

    def as_struct(self, rows: int) -> pa.StructArray:
        """Return the statistics without `exact` as a struct array of `rows` elements; unknown ones are of type null."""
        members = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "exact"}
        filled = [pa.nulls(rows) if a is None else a for a in members.values()]
        return pa.StructArray.from_arrays(filled, names=list(members))

    @staticmethod
    def constant_column(values: pa.Array) -> ColumnStats:
        """Return the statistics of a column with a single value per container, such as a partition column.

        `values` has the value of each container, which may be null or NaN.
        """
        nulls = pc.cast(pc.is_null(values), pa.int64())
        nan = None
        if pa.types.is_floating(values.type):
            nan = pc.cast(pc.fill_null(pc.is_nan(values), False), pa.int64())
            values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        ones = pa.repeat(pa.scalar(1, pa.int64()), len(values))
        return ColumnStats(values, values, nulls, nan, ones, pa.repeat(pa.scalar(True), len(values)))


def concat_stats(parts: Sequence[ColumnStats], lengths: Sequence[int]) -> ColumnStats:
    """Concatenate the statistics of parts, whose numbers of containers are `lengths`; unknown ones become nulls."""

    def join(name: str) -> pa.Array | None:
        arrays = [getattr(part, name) for part in parts]
        kind = next((a.type for a in arrays if a is not None), None)
        if kind is None:
            return None
        filled = [pa.nulls(n, kind) if a is None else a.cast(kind) for a, n in zip(arrays, lengths, strict=True)]
        return pa.concat_arrays(filled)

    return ColumnStats(*(join(each.name) for each in fields(ColumnStats)))
