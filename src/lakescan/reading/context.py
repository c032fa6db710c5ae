"""The read context shared by all tasks of a plan: output schema, column matching, residuals, storage.

Sent to workers once, alongside the task groups.
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
QUERY_BATCH_SIZE = 1 << 18  # for engines in this process, if the columns are few
_QUERY_BATCH_COLUMNS = 8
WHOLE_TABLE_BATCH_SIZE = 1 << 20  # when all rows are collected anyway: fewer calls, the same memory


def query_batch_size(schema: Schema) -> int:
    """The maximum of rows in a batch for an engine in this process, by the number of columns."""
    return QUERY_BATCH_SIZE if len(schema.fields) <= _QUERY_BATCH_COLUMNS else BATCH_SIZE


@dataclass(frozen=True)
class ReadContext:
    """`selection` has the columns of the batches; `table_schema` also those that only filters or deletes need.

    `places` matches data files with the locations that deletes name, however they are spelled.
    With `verify`, the checksums of Parquet pages are checked. With `keeps_deleted`, deleted rows are returned, too.
    With `keeps_dictionaries`, columns of texts and bytes may be dictionary arrays, if the file has them as such.
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
        """The schema of the batches."""
        return self.selection.output

    def columns_for(self, residual: Predicate, compared: Iterable[int] = ()) -> Schema:
        """The columns to read: the output's, then those needed by `residual` or by the fields that deletes compare.

        Structs have only the members that are needed.
        """
        paths = [each.path for each in self.selection.columns]
        paths += self._tested_paths(residual, compared)
        paths += [(DELETED,)] if self.keeps_deleted else []
        return Schema(prune_columns(paths), self.selection.schema_id)

    def tested_columns(self, residual: Predicate, compared: Iterable[int] = ()) -> Schema:
        """The columns, and members of structs, needed by `residual` or by the fields that deletes compare."""
        return Schema(prune_columns(self._tested_paths(residual, compared)), self.selection.schema_id)

    def _tested_paths(self, residual: Predicate, compared: Iterable[int]) -> list[tuple[t.Field, ...]]:
        ids = predicate_fields(residual) | {i for i in compared if i in self.table_schema.by_id}
        return [self.table_schema.struct_path(i) for i in sorted(ids)]

    def select_output(self, batch: pa.RecordBatch, columns: Schema) -> pa.RecordBatch:
        """The output columns of a batch of `columns` (see `columns_for`), which may be dictionary arrays.

        A member is null where its struct is.
        """
        if self.selection.is_plain:
            return batch.select(range(len(self.selection.columns)))
        return select_columns(batch, columns, self.selection)


def select_columns(batch: pa.RecordBatch, columns: Schema, selection: Selection) -> pa.RecordBatch:
    """The columns and members of a selection, from a batch of `columns` in any order."""
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
