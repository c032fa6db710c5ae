"""What every task of a plan shares: the schema to return, how columns are found in files, the residuals, the storage.

Sent to workers once, beside the task groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lakescan.common.schema import FieldMatching, Schema
from lakescan.expressions.predicate import Predicate, leaves
from lakescan.storage.locations import Places
from lakescan.storage.storage import Storage

BATCH_SIZE = 65_536
WHOLE_TABLE_BATCH_SIZE = 1 << 20  # where all rows are wanted at once anyway: fewer calls, the same memory


@dataclass(frozen=True)
class ReadContext:
    """`output` is what batches have; `table_schema` has all columns, those that only filters or deletes need too.

    `places` tells where data files are, in whatever spelling deletes name them.
    With `verify`, the checksums of Parquet pages have to hold.
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
        """The columns to read: the output's, then those that `residual`, or deletes that compare fields, need."""
        known = {f.id for f in self.output.fields}
        ids = {leaf.bound_id for leaf in leaves(residual)} | {i for i in compared if i in self.table_schema.by_id}
        needed = {self.table_schema.top_level_of[i].id for i in ids}
        extra = tuple(f for f in self.table_schema.fields if f.id in needed - known)
        return Schema(self.output.fields + extra, self.output.id)
