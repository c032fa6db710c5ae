"""The row order of a compaction: sorted by terms, or along a Z-order curve through several columns.

The curve interleaves the bits of the columns' positions among quantiles of a sample, so that each column has the same
weight whatever its range and distribution. Nulls come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakescan.definition.table_definition import SortTerm
from lakescan.errors import InvalidOption
from lakescan.options.compact import CompactOptions
from lakescan.writing.sort_keys import SortKey, plain_terms, ranks_of
from lakescan.writing.table_writes import TableWrites

Ranking = Callable[
    [pa.Table], list[np.ndarray]
]  # rows -> keys, the most significant first; comparable only within one call
_BITS, _WORD = 16, 63  # maximum bits of a column's position; maximum bits of an interleaved key
_ZORDER = "zorder"


@dataclass(frozen=True)
class CompactionOrder:
    """The row order of a compaction: by `terms`, or along the Z-order curve through the columns `zorder_by`.

    It can be pickled.
    """

    terms: tuple[SortTerm, ...] = ()
    zorder_by: tuple[str, ...] = ()

    @staticmethod
    def resolve(options: CompactOptions, writes: TableWrites, name: str) -> CompactionOrder | None:
        """Return the order that options request, by default the table's sort order; None for the strategy `binpack`.

        Raises `InvalidOption` if there is nothing to sort by, and `NoSuchColumn`. `name` is the table's name, for
        messages.
        """
        if options.strategy == "binpack":
            return None
        columns = options.zorder_by
        texts = options.sort_order
        if len(texts) == 1 and texts[0].lower().replace(" ", "").startswith(f"{_ZORDER}("):  # as in Iceberg's procedure
            inside = texts[0].strip().partition("(")[2].removesuffix(")")
            columns, texts = tuple(each.strip() for each in inside.split(",")), ()
        terms = tuple(SortTerm.parse(each) for each in texts)
        found = CompactionOrder((), columns) if columns else CompactionOrder(terms or writes.own_order)
        if not found.terms and not found.zorder_by:
            raise InvalidOption(f"{name} has no sort order: give one, such as sort_order='a, b DESC'")
        if len(found.zorder_by) > _WORD:
            raise InvalidOption(f"zorder-by has {len(found.zorder_by)} columns, of at most {_WORD}; a few are useful")
        found.keys(writes)  # raises
        return found

    def keys(self, writes: TableWrites) -> Sequence[SortKey]:
        """Return the sort keys of the terms, or of the Z-order columns."""
        return writes.sort_keys(self.terms or plain_terms(self.zorder_by))

    def columns(self, writes: TableWrites) -> list[str]:
        """Return the names of the table's columns that the keys are computed from."""
        return list(dict.fromkeys(key.column for key in self.keys(writes)))

    def ranking(self, writes: TableWrites, sample: pa.Table) -> Ranking:
        """Return the function that computes comparable keys of rows, given a sample of all rows."""
        keys = self.keys(writes)
        if self.terms:
            return lambda rows: [key.ranks(rows) for key in keys]
        bits = min(_BITS, _WORD // len(keys))
        quantiles = [_quantiles(key.values(sample), (1 << bits) - 1) for key in keys]

        def curve(rows: pa.Table) -> list[np.ndarray]:
            places = [_position(key.values(rows), bounds, bits) for key, bounds in zip(keys, quantiles, strict=True)]
            return [interleave_bits(places, bits)]

        return curve


def check_zorder_columns(columns: Sequence[str], partition_columns: Sequence[str]) -> None:
    """Raise `InvalidOption` for a Z-order column that is a partition column: all rows of a file have its value."""
    partitions = {each.lower() for each in partition_columns}
    for each in columns:
        if each.lower() in partitions:
            raise InvalidOption(f"{each} is a partition column. Z-Ordering can only be performed on data columns")


def _quantiles(values: pa.Array, most: int) -> pa.Array:
    """Return at most `most` distinct values, in order, that divide all values into ranges of about the same count."""
    values = values.drop_null()
    order = np.argsort(ranks_of(values), kind="stable")
    places = np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).astype(np.int64)) if len(order) else order
    chosen = values.take(pa.array(order[places]))
    _, first = np.unique(ranks_of(chosen), return_index=True)
    return chosen.take(pa.array(first))


def _position(values: pa.Array, bounds: pa.Array, bits: int) -> np.ndarray:
    """Return the position of each value among the bounds, scaled to this number of bits; nulls are 0."""
    ranks = ranks_of(pa.concat_arrays([bounds, values]))
    place = np.searchsorted(ranks[: len(bounds)], ranks[len(bounds) :], side="right")
    result: np.ndarray = place * ((1 << bits) - 1) // max(len(bounds), 1)
    return result


def interleave_bits(places: Sequence[np.ndarray], bits: int) -> np.ndarray:
    """Return numbers that interleave the lowest `bits` bits of `places`, one array per column; below 2 ** 63.

    The highest bit of the first column is the most significant.
    """
    result = np.zeros(len(places[0]), dtype=np.int64)
    for bit in reversed(range(bits)):
        for place in places:
            result = (result << 1) | ((place >> bit) & 1)
    return result
