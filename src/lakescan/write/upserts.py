"""Writes rows that replace those with their keys, and the keys of what they replace, without reading the table."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.write.partitioned_writer import PartitionedWriter
from lakescan.write.table_writes import TableWrites, WrittenFile


@dataclass
class Upserted:
    """Files of new rows, and files of keys whose older rows are deleted. Pickled by workers."""

    files: list[WrittenFile] = field(default_factory=list)
    deletes: list[WrittenFile] = field(default_factory=list)

    def add(self, other: Upserted) -> None:
        """Add those of another task."""
        self.files += other.files
        self.deletes += other.deletes

    @property
    def all(self) -> list[WrittenFile]:
        """All files."""
        return [*self.files, *self.deletes]


class UpsertWriter:
    """Takes batches of rows, each key once over all tasks; `close` or `undo` ends it.

    `keys` is the table to write the keys of deleted rows to. Rows are deletes where the column `deletes` says so.
    """

    def __init__(self, rows: TableWrites, keys: TableWrites, write_id: str, deletes: str | None = None) -> None:
        self._deletes, self._names = deletes, {name.lower() for name in keys.schema.names}
        self._rows, self._keys = PartitionedWriter(rows, write_id), PartitionedWriter(keys, write_id)

    def take(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch; raises `SchemaMismatch` for rows that do not fit the table."""
        if not batch.num_rows:
            return
        self._keys.write(batch.select([name for name in batch.schema.names if name.lower() in self._names]))
        if self._deletes is not None:
            stays = pc.invert(batch.column(self._deletes))
            batch = batch.filter(stays).drop_columns([self._deletes])
        if batch.num_rows:
            self._rows.write(batch)

    def close(self) -> Upserted:
        """Finish all files."""
        return Upserted(self._rows.close(), self._keys.close())

    def undo(self) -> None:
        """Remove all files that were written."""
        self._rows.undo()
        self._keys.undo()
