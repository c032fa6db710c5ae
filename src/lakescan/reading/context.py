"""What every task of a plan shares: the schema to return, how columns are found in files, the residuals, the storage.

Sent to workers once, beside the task groups.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakescan.expressions.predicate import Predicate, leaves
from lakescan.schema import FieldMatching, Schema
from lakescan.storage import Storage

BATCH_SIZE = 65_536
WHOLE_TABLE_BATCH_SIZE = 1 << 20  # where all rows are wanted at once anyway: fewer calls, the same memory


@dataclass(frozen=True)
class ReadContext:
    """`output` is what batches have; `table_schema` is where the columns of the residuals are looked up too."""

    storage: Storage
    output: Schema
    table_schema: Schema
    matching: FieldMatching
    residuals: tuple[Predicate, ...]
    batch_size: int = BATCH_SIZE

    def columns_for(self, residual: Predicate) -> Schema:
        """The columns to read where `residual` has to run: the output's, then those that only it needs."""
        names = {f.id for f in self.output.fields}
        needed = {self.table_schema.top_level_of[leaf.bound_id].id for leaf in leaves(residual)}
        extra = tuple(f for f in self.table_schema.fields if f.id in needed - names)
        return Schema(self.output.fields + extra, self.output.id)
