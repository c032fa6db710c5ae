"""Encode task groups as rows of an Arrow table of plain types, which engines can send to workers as their own rows.

A row has the group's index, its splits and its deletes, as lists of structs. Plain types are numbers, text, bytes,
lists and structs with members. Times become numbers, and structs without members become nulls. Members are named by
position.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.planning.task_groups import TaskGroup, TaskGroups

_PLAIN = (
    pa.bool_(),
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
)

PLACE = "place"  # column of splits: the index of the file in a given array of paths


@dataclass(frozen=True)
class GroupRows:
    """Decodes task groups from the rows of `encode_groups`.

    It has the schemas of splits and deletes, and the constant fields of each partition spec.
    """

    splits: pa.Schema
    deletes: pa.Schema
    constant_fields: dict[int, tuple[int, ...]]

    @staticmethod
    def encode_groups(groups: TaskGroups, numbered: pa.Array | None = None) -> tuple[pa.Table, GroupRows]:
        """Return a table with one row per group, of at least one group, and the `GroupRows` that decodes the rows.

        With `numbered`, an array of paths, splits have the additional column `PLACE` with the index of their path.
        """
        parts, rows = [], None
        for start, splits, bounds, deletes, owned in groups.columns():
            if numbered is not None:
                splits = splits.append_column(PLACE, pc.index_in(splits["path"], value_set=numbered))
            rows = GroupRows(splits.schema, deletes.schema, groups.constant_fields)
            lists = [_lists(splits, bounds), _lists(deletes, owned)]
            index = pa.array(np.arange(start, start + len(bounds) - 1), pa.int32())
            parts.append(pa.table([index, *lists], names=["index", "splits", "deletes"]))
        assert rows is not None, "there are no groups"
        return pa.concat_tables(parts), rows

    def groups(self, rows: pa.RecordBatch) -> Iterator[TaskGroup]:
        """Yield the groups in a batch of rows that `encode_groups` made."""
        splits, deletes = (_decode_table(rows.column(n), s) for n, s in ((1, self.splits), (2, self.deletes)))
        bounds, owned = (_bounds(rows.column(n)).tolist() for n in (1, 2))
        for n, index in enumerate(rows.column(0).to_pylist()):
            yield TaskGroup(
                index,
                splits.slice(bounds[n], bounds[n + 1] - bounds[n]),
                deletes.slice(owned[n], owned[n + 1] - owned[n]),
                self.constant_fields,
            )


def _lists(table: pa.Table, bounds: np.ndarray) -> pa.ListArray:
    """Return lists of the rows of a table, as structs of plain types; each list has the rows up to the next bound."""
    columns = [encode_plain(column.combine_chunks()) for column in table.columns]
    fields = [pa.field(f"m{n}", column.type) for n, column in enumerate(columns)]
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), pa.StructArray.from_arrays(columns, fields=fields))


def _decode_table(lists: pa.ListArray, schema: pa.Schema) -> pa.Table:
    rows = lists.flatten()
    return pa.table([decode_plain(rows.field(n), each.type) for n, each in enumerate(schema)], schema=schema)


def _bounds(lists: pa.ListArray) -> np.ndarray:
    """Return where each list begins in the flattened values, and where the last one ends."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    return np.concatenate([[0], np.cumsum(lengths)])


def _replace_values(lists: pa.ListArray, values: pa.Array) -> pa.ListArray:
    """Return lists of the same lengths and nulls, with `values` instead of `lists.flatten()`."""
    mask = lists.is_null() if lists.null_count else None
    return pa.ListArray.from_arrays(pa.array(_bounds(lists), pa.int32()), values, mask=mask)


def encode_plain(values: pa.Array) -> pa.Array:
    """Convert an Arrow array to one of a plain type (see the module). `decode_plain` restores it."""
    kind = values.type
    if kind in _PLAIN:
        return values
    if isinstance(values, pa.ExtensionArray):
        return encode_plain(values.storage)
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return pa.nulls(len(values), pa.int8())
        members = [encode_plain(values.field(n)) for n in range(kind.num_fields)]
        fields = [pa.field(f"m{n}", member.type) for n, member in enumerate(members)]
        return pa.StructArray.from_arrays(members, fields=fields, mask=values.is_null() if values.null_count else None)
    if pa.types.is_list(kind):
        return _replace_values(values, encode_plain(values.flatten()))
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.int8())
    if pa.types.is_dictionary(kind):
        return encode_plain(values.dictionary_decode())
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return values.view(pa.int32())
    if pa.types.is_temporal(kind):
        return values.view(pa.int64())
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind):
        return values.cast(pa.binary())
    return values.cast(pa.string())  # decimals and large strings


def decode_plain(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Restore an array of the type `kind` from the plain array that `encode_plain` made."""
    if values.type == kind:
        return values
    if isinstance(kind, pa.ExtensionType):
        return pa.ExtensionArray.from_storage(kind, decode_plain(values, kind.storage_type))
    if pa.types.is_struct(kind):
        if not kind.num_fields:
            return pa.array([{}] * len(values), kind)
        members = [decode_plain(values.field(n), kind.field(n).type) for n in range(kind.num_fields)]
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)
    if pa.types.is_list(kind):
        return _replace_values(values, decode_plain(values.flatten(), kind.value_type)).cast(kind)
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if pa.types.is_dictionary(kind):
        return decode_plain(values, kind.value_type).dictionary_encode().cast(kind)
    if pa.types.is_temporal(kind):
        return values.view(kind)
    return values.cast(kind)
