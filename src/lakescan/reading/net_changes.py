"""Net changes: removes carry-over rows, and pairs deletes with inserts as updates. Pure functions on Arrow tables.

A commit that rewrites a file (copy-on-write) deletes and reinserts the rows that it does not change. These carry-over
rows cancel each other one by one. A deleted and an inserted row with the same identity are the pre- and post-image of
an update.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import as_array
from lakescan.common.arrays import row_numbers as numbers_of

INSERT, DELETE, BEFORE, AFTER = "INSERT", "DELETE", "UPDATE_BEFORE", "UPDATE_AFTER"


def drop_carry_overs(rows: pa.Table, change: str, columns: Sequence[str]) -> pa.Table:
    """Remove pairs of a deleted and an inserted row that are equal in `columns`.

    `change` names the column with "INSERT" or "DELETE". Other columns are not compared.
    """
    is_insert = _is_insert(rows, change)
    if is_insert.all() or not is_insert.any():
        return rows
    number = row_numbers([rows[name] for name in columns])
    inserted, deleted = _counts(number, is_insert)
    rank = _rank(number * 2 + is_insert)
    return rows.filter(pa.array(rank >= np.minimum(inserted, deleted)[number]))


def drop_round_trips(rows: pa.Table, change: str, ordinal: str, columns: Sequence[str]) -> pa.Table:
    """Return the net changes of several commits: rows that end as they began are removed.

    Rows that are equal in `columns` are counted in the order of commits, deletes first. What remains at the end are
    copies of the first row after the count was last zero, as in Iceberg's `net_changes`.

    Args:
        rows: Changes of all commits.
        change: The name of the column with "INSERT" or "DELETE".
        ordinal: The name of the column with the number of the commit.
        columns: The columns to compare.

    Returns:
        The rows that remain, in their order in `rows`.
    """
    if not rows.num_rows:
        return rows
    is_insert = _is_insert(rows, change)
    number = row_numbers([rows[name] for name in columns])
    order = np.lexsort((is_insert, rows[ordinal].to_numpy(), number))
    counted = np.cumsum(np.where(is_insert, 1, -1)[order])
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    ends = np.append(starts[1:], len(order)) - 1
    before = np.append(0, counted[ends[:-1]])  # the count at the start of each group
    is_zero = counted == np.repeat(before, ends - starts + 1)
    last_zero = np.maximum.reduceat(np.where(is_zero, np.arange(len(order)), -1), starts)
    first_left = np.where(last_zero < 0, starts, last_zero + 1)
    left = np.abs(counted[ends] - before)
    kept = np.repeat(order[first_left[left > 0]], left[left > 0])
    return rows.take(pa.array(np.sort(kept)))


def pair_updates(rows: pa.Table, change: str, identity: Sequence[str]) -> pa.Table:
    """Sort rows by identity, and mark an identity's only delete and only insert as an update.

    `change` names the column with "INSERT" or "DELETE": these become "UPDATE_AFTER" and "UPDATE_BEFORE". `identity`
    names the columns that identify a row. A delete is sorted before inserts of the same identity.
    """
    is_insert = _is_insert(rows, change)
    number = row_numbers([rows[name] for name in identity])
    inserted, deleted = _counts(number, is_insert)
    is_update = ((inserted == 1) & (deleted == 1))[number]
    kinds = np.where(is_insert, np.where(is_update, AFTER, INSERT), np.where(is_update, BEFORE, DELETE))
    place = rows.schema.get_field_index(change)
    changed = rows.set_column(place, rows.schema.field(place), pa.array(kinds, pa.string()))
    return changed.take(pa.array(np.lexsort((is_insert, number))))


def row_numbers(columns: Sequence[pa.ChunkedArray | pa.Array]) -> np.ndarray:
    """Return a number for each row, from 0 on, equal for rows that are equal in all columns.

    Columns may have any types. 0.0 equals -0.0, null equals null, and NaN equals NaN.
    """
    return numbers_of(map(_hashable, columns))


def _hashable(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Convert values to ones that Arrow can hash, equal for equal values. Takes a Python step per list or map."""
    values = as_array(column)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_struct(values.type):
        members = [pc.struct_field(values, [i]) for i in range(values.type.num_fields)]
        return pa.array(row_numbers([values.is_valid(), *members]))
    if pa.types.is_nested(values.type):  # lists and maps: Arrow cannot hash them, so one Python step per value
        values = pa.array([repr(value) for value in values.to_pylist()], pa.string())
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0, values.type))  # turns -0.0 into 0.0
    return values


def _is_insert(rows: pa.Table, change: str) -> np.ndarray:
    result: np.ndarray = pc.equal(rows[change], INSERT).to_numpy()
    return result


def _counts(number: np.ndarray, is_insert: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, by number from `row_numbers`, how many rows are inserted, and how many are deleted."""
    count = int(number.max(initial=-1)) + 1
    return np.bincount(number[is_insert], minlength=count), np.bincount(number[~is_insert], minlength=count)


def _rank(keys: np.ndarray) -> np.ndarray:
    """Return for each row how many earlier rows have the same key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.searchsorted(ordered, ordered, side="left")
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = np.arange(len(keys)) - starts
    return rank
