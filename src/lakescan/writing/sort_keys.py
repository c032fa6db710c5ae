"""Sort keys of rows: columns, or transforms of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.definition.table_definition import SortTerm, Term
from lakescan.errors import InvalidOption


@dataclass(frozen=True)
class SortKey:
    """One key that rows are sorted by.

    - `column`: the name of the top-level column.
    - `members`: the positions of nested struct members, from the column down to the value; empty for the column itself.
    - `transform`: a function that computes the key from the values; None for the values themselves.
    - `nulls_first`: whether nulls come first, in either direction.
    """

    column: str
    members: tuple[int, ...] = ()
    transform: Callable[[pa.Array], pa.Array] | None = None
    descending: bool = False
    nulls_first: bool = True

    def values(self, rows: pa.Table | pa.RecordBatch) -> pa.Array:
        """Return the key's value for each row."""
        values = value_at(rows, rows.schema.get_field_index(self.column), self.members)
        return values if self.transform is None else self.transform(values)

    def ranks(self, rows: pa.Table | pa.RecordBatch) -> np.ndarray:
        """Return the dense rank of each row by this key, from its order; see `ranks_of`."""
        return ranks_of(self.values(rows), descending=self.descending, nulls_first=self.nulls_first)

    def places(self, rows: pa.Table | pa.RecordBatch) -> np.ndarray:
        """Return the row indexes in the order of the key; rows with equal keys keep their order."""
        values = self.values(rows)
        if pa.types.is_floating(values.type):
            values = _as_integers(values)
        order, nulls = "descending" if self.descending else "ascending", "at_start" if self.nulls_first else "at_end"
        places: np.ndarray = pc.array_sort_indices(values, order, null_placement=nulls).to_numpy()
        return places


def ranks_of(values: pa.Array, *, descending: bool = False, nulls_first: bool = True) -> np.ndarray:
    """Return the dense rank of each value: equal values have the same rank, and ranks have no gaps.

    NaN is the greatest value, and -0.0 is less than 0.0, as in Iceberg. With `descending`, the greatest value has the
    least rank. Nulls have the least rank if `nulls_first`, else the greatest, in either direction.
    """
    if pa.types.is_floating(values.type):
        values = _as_integers(values)
    ranks: np.ndarray = pc.rank(values, "descending" if descending else "ascending", tiebreaker="dense").to_numpy()
    ranks = ranks.astype(np.int64)
    if nulls_first and values.null_count:
        ranks[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return ranks


def _as_integers(values: pa.Array) -> pa.Array:
    """Return 64-bit integers in the same order as floating-point values, with NaN as the greatest; nulls stay."""
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    floats = pc.fill_null(values.cast(pa.float64()), 0).to_numpy(zero_copy_only=False)
    bits = floats.view(np.int64)
    numbers = np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits)
    numbers[np.isnan(floats)] = 2**63 - 1
    return pa.array(numbers, mask=is_null)


def value_at(rows: pa.RecordBatch | pa.Table, place: int, members: Sequence[int]) -> pa.Array:
    """Return the column at index `place`, or a nested struct member of it, as one array.

    `members` are the indexes of members from the column down to the value. Extension arrays become their storage.
    """
    column = rows.column(place)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # has no chunks, or is too long for a single one
        column = pa.concat_arrays(column.chunks)
    if members:
        column = pc.struct_field(column, list(members))
    if pa.types.is_decimal(column.type):  # pyiceberg's transforms need 16-byte aligned buffers: copy
        column = column.take(pa.array(np.arange(len(column))))
    return column.storage if isinstance(column, pa.ExtensionArray) else column


def sort_order(keys: Sequence[SortKey], rows: pa.Table | pa.RecordBatch) -> np.ndarray:
    """Return the row indexes in the order of the keys, the first key first; rows with equal keys keep their order."""
    if len(keys) == 1:  # takes half of the time of ranks
        return keys[0].places(rows)
    result: np.ndarray = np.lexsort([key.ranks(rows) for key in reversed(keys)])
    return result


def sort_key(term: SortTerm, schema: Schema, transform: Callable[[pa.Array], pa.Array] | None = None) -> SortKey:
    """Return the sort key for a sort term of the table; `transform` computes the key from the values, if given.

    Raises `NoSuchColumn`, or `InvalidOption` for a column whose type has no order.
    """
    path = schema.struct_path(schema.field(term.term.column).id)
    kind = path[-1].type
    if isinstance(kind, t.Struct | t.ListOf | t.MapOf) or not _has_order(kind):
        raise InvalidOption(f"rows cannot be sorted by {term.term.column!r}: values of type {kind} have no order")
    members = []
    for outer, inner in pairwise(path):
        assert isinstance(outer.type, t.Struct)
        members.append(next(i for i, field in enumerate(outer.type.fields) if field.id == inner.id))
    return SortKey(path[0].name, tuple(members), transform, term.descending, term.nulls_first)


def _has_order(kind: t.Type) -> bool:
    arrow = kind.arrow()
    if isinstance(arrow, pa.ExtensionType):
        arrow = arrow.storage_type
    return not (pa.types.is_nested(arrow) or pa.types.is_null(arrow))


def plain_terms(names: Sequence[str]) -> list[SortTerm]:
    """Return sort terms in ascending order, nulls first, for columns given by name."""
    return [SortTerm(Term(name)) for name in names]
