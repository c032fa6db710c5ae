"""The read context shared by all tasks of a plan: output schema, column matching, residuals, storage.

Sent to workers once, alongside the task groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakescan.common.schema import FieldMatching, Schema
from lakescan.expressions.predicate import Predicate, leaves
from lakescan.storage import Storage
from lakescan.storage.locations import Places

BATCH_SIZE = 65_536
WHOLE_TABLE_BATCH_SIZE = 1 << 20  # when all rows are collected anyway: fewer calls, the same memory


@dataclass(frozen=True)
class ReadContext:
    """`output` is the schema of the batches; `table_schema` also has the columns that only filters or deletes need.

    `places` matches data files with the locations that deletes name, however they are spelled.
    With `verify`, the checksums of Parquet pages are checked.
    """

    storage: Storage
    output: Schema
    table_schema: Schema
    matching: FieldMatching
    residuals: tuple[Predicate, ...]
    batch_size: int = BATCH_SIZE
    verify: bool = False
    places: Places = field(default_factory=Places)

    def columns_for(self, residual: Predicate, compared: Iterable[int] = ()) -> Schema:
        """The columns to read: the output's, then those needed by `residual` or by the fields that deletes compare."""
        known = {f.id for f in self.output.fields}
        ids = {leaf.bound_id for leaf in leaves(residual)} | {i for i in compared if i in self.table_schema.by_id}
        needed = {self.table_schema.top_level_of[i].id for i in ids}
        extra = tuple(f for f in self.table_schema.fields if f.id in needed - known)
        return Schema(self.output.fields + extra, self.output.id)
