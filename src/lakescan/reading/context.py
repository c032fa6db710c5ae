"""The read context shared by all tasks of a plan: output schema, column matching, residuals, storage.

It is sent to workers once, together with the task groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.metadata_columns import DELETED
from lakescan.common.schema import FieldMatching, Schema
from lakescan.common.selection import Selection, prune_columns
from lakescan.expressions.predicate import Predicate, predicate_fields
from lakescan.reading.record_batches import as_encoded, batch_of
from lakescan.storage import Storage
from lakescan.storage.locations import LocationMatcher

BATCH_SIZE = 65_536
QUERY_BATCH_SIZE = 1 << 18  # for engines in this process, if there are few columns
_QUERY_BATCH_COLUMNS = 8
WHOLE_TABLE_BATCH_SIZE = 1 << 20  # when all rows are collected anyway: fewer calls, the same memory


def query_batch_size(schema: Schema) -> int:
    """Return the maximum number of rows in a batch for an engine in this process, such as DuckDB.

    It is larger for schemas of at most eight columns.
    """
    return QUERY_BATCH_SIZE if len(schema.fields) <= _QUERY_BATCH_COLUMNS else BATCH_SIZE


@dataclass(frozen=True)
class ReadContext:
    """The context to read a plan's tasks.

    - `selection` has the columns of the batches; `table_schema` also those that only filters or deletes need.
    - `matching` finds the table's columns in a data file.
    - `residuals` are the filters that remain for the rows, by `FileScanTask.residual`.
    - `batch_size` is the maximum number of rows in a batch.
    - `places` matches data files with the locations in delete files, in any notation.
    - `verify`: check the checksums of Parquet pages.
    - `keeps_deleted`: also return deleted rows.
    - `keeps_dictionaries`: string and binary columns may be dictionary arrays, if the file has dictionaries.
    """

    storage: Storage
    selection: Selection
    table_schema: Schema
    matching: FieldMatching
    residuals: tuple[Predicate, ...]
    batch_size: int = BATCH_SIZE
    verify: bool = False
    places: LocationMatcher = field(default_factory=LocationMatcher)
    keeps_deleted: bool = False
    keeps_dictionaries: bool = False

    @property
    def output(self) -> Schema:
        """The schema of the batches: the columns of `selection`."""
        return self.selection.output

    def columns_for(self, residual: Predicate, compared: Iterable[int] = ()) -> Schema:
        """Return the columns to read: those of the output, of `residual`, and of the fields that deletes compare.

        `compared` are the ids of these fields. Structs have only the members that are needed.
        """
        paths = [each.path for each in self.selection.columns]
        paths += self._tested_paths(residual, compared)
        paths += [(DELETED,)] if self.keeps_deleted else []
        return Schema(prune_columns(paths), self.selection.schema_id)

    def tested_columns(self, residual: Predicate, compared: Iterable[int] = ()) -> Schema:
        """Return the columns, and members of structs, that `residual` and the fields that deletes compare need.

        `compared` are the ids of these fields. Dropped fields are left out.
        """
        return Schema(prune_columns(self._tested_paths(residual, compared)), self.selection.schema_id)

    def _tested_paths(self, residual: Predicate, compared: Iterable[int]) -> list[tuple[t.Field, ...]]:
        ids = predicate_fields(residual) | {i for i in compared if i in self.table_schema.by_id}
        return [self.table_schema.struct_path(i) for i in sorted(ids)]

    def select_output(self, batch: pa.RecordBatch, columns: Schema) -> pa.RecordBatch:
        """Return the output columns of a batch with the columns `columns` (see `columns_for`).

        Columns may be dictionary arrays. A member is null if its struct is null.
        """
        if self.selection.is_plain:
            return batch.select(range(len(self.selection.columns)))
        return select_columns(batch, columns, self.selection)


def select_columns(batch: pa.RecordBatch, columns: Schema, selection: Selection) -> pa.RecordBatch:
    """Return the columns and struct members of a selection from a batch, whose schema is `columns`.

    The result is in the order of the selection. Columns may be dictionary arrays.
    """
    place = {field.id: i for i, field in enumerate(columns.fields)}
    arrays = []
    for each in selection.columns:
        at = place[each.path[0].id]
        array, within = batch.column(at), columns.fields[at]
        for member in each.path[1:]:
            assert isinstance(within.type, t.Struct)
            index = next(i for i, f in enumerate(within.type.fields) if f.id == member.id)
            array, within = pc.struct_field(array, [index]), within.type.fields[index]
        arrays.append(array)
    return batch_of(arrays, as_encoded(selection.output.arrow(), arrays), batch.num_rows)
