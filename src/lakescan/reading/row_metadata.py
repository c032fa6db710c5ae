"""Metadata columns of a batch (`_file`, `_pos`, `_row_id`, ...), from its task and the position of its first row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.common import types as t
from lakescan.planning.task_groups import FileScanTask


def metadata_values(field: t.Field, stored: pa.Array, task: FileScanTask, first: int) -> pa.Array:
    """The values of one metadata column for a batch whose first row is at position `first`.

    `stored` is the column in the file: only row lineage is ever stored, null where a row inherits it from the file
    (Iceberg specification, "Row Lineage").
    """
    rows = len(stored)
    match field.id:
        case m.FILE.id:
            return pa.repeat(pa.scalar(task.path), rows)
        case m.POS.id:
            return pa.array(np.arange(first, first + rows, dtype=np.int64))
        case m.SPEC_ID.id:
            return pa.repeat(pa.scalar(task.spec_id, pa.int32()), rows)
        case m.DELETED.id:
            return pa.repeat(False, rows)
        case m.ROW_ID.id if task.first_row_id is not None:
            start = task.first_row_id + first
            return pc.coalesce(stored, pa.array(np.arange(start, start + rows, dtype=np.int64)))
        case m.LAST_UPDATED.id if task.first_row_id is not None:
            return pc.fill_null(stored, pa.scalar(task.sequence_number, pa.int64()))
        case m.PARTITION_ID:
            return _partition(field.type, task.partition, rows)
    return stored


def _partition(kind: t.Type, values: pa.Scalar, rows: int) -> pa.Array:
    """The partition as a struct of the fields of all partition specs, null for those that the file's spec lacks."""
    assert isinstance(kind, t.Struct)
    present = {f.name for f in values.type}
    members = [
        pa.repeat(values[f.name].cast(f.type.arrow()), rows) if f.name in present else pa.nulls(rows, f.type.arrow())
        for f in kind.fields
    ]
    if not members:
        return pa.array([{}] * rows, pa.struct([]))
    return pa.StructArray.from_arrays(members, fields=[f.arrow() for f in kind.fields])
