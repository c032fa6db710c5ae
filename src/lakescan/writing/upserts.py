"""Upserts without reading the table: writes new rows, and equality deletes for their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import UnsupportedFeature
from lakescan.writing.column_rules import RowCompleter
from lakescan.writing.conform import Fit
from lakescan.writing.parquet_writer import PartitionedWriter
from lakescan.writing.table_writes import TableWrites, WrittenFile

_TOGETHER = 1 << 16  # rows per written batch


@dataclass
class UpsertFiles:
    """The files of an upsert. Pickled by workers.

    - `files`: the data files with the new rows.
    - `deletes`: the equality delete files with the keys of the new rows and of rows to delete.
    """

    files: list[WrittenFile] = field(default_factory=list)
    deletes: list[WrittenFile] = field(default_factory=list)

    def add(self, other: UpsertFiles) -> None:
        """Append the files of another task to these lists."""
        self.files += other.files
        self.deletes += other.deletes

    @property
    def all(self) -> list[WrittenFile]:
        """All files, data files first."""
        return [*self.files, *self.deletes]


class UpsertWriter:
    """Writes upserted rows to data files, and their keys to equality delete files; `close` or `undo` ends it.

    Each key may occur only once over all tasks. `rows` writes the data files, and `keys` the delete files: its schema
    has the key columns. `deletes` names a boolean column of the batches that is true for rows to delete. Only the keys
    of these rows are written.
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

    def close(self) -> UpsertFiles:
        """Finish all files and return them."""
        return UpsertFiles(self._rows.close(), self._keys.close())

    def undo(self) -> None:
        """Delete all files that were written."""
        self._rows.undo()
        self._keys.undo()


def write_newest(
    rows: TableWrites, keys: TableWrites, batches: Iterable[pa.RecordBatch], write_id: str, task: int | None = None
) -> UpsertFiles:
    """Write the last row of each key to data files, and all keys to equality delete files; see `UpsertWriter`.

    All rows are held in memory. `task` is the number of the task, None for a write of one task. Raises `SchemaMismatch`
    for rows that do not fit the table. Written files are deleted if the write fails.
    """
    fitted = list(_conform_rows(rows, batches, task))
    if not fitted:
        return UpsertFiles()
    whole = pa.Table.from_batches(fitted)
    writer = UpsertWriter(rows, keys, write_id)
    try:
        for batch in whole.take(last_rows(whole, keys.schema.names)).to_batches(_TOGETHER):
            writer.take(batch)
        return writer.close()
    except BaseException:
        writer.undo()
        raise


def _conform_rows(rows: TableWrites, batches: Iterable[pa.RecordBatch], task: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows with all columns and types of the table, checked and completed by the table's column rules.

    Keys are then compared as the table stores them. Raises `SchemaMismatch`.
    """
    if rows.rules:
        yield from RowCompleter(rows.rules, rows.schema, {}, task).complete(batches)
        return
    for batch in batches:
        if batch.num_rows:
            yield from Fit.match_columns(rows.schema, batch.schema).pieces(batch)


def last_rows(rows: pa.Table, keys: Sequence[str]) -> pa.Array:
    """Return, in ascending order, the index of the last row of each distinct key; `keys` are the key columns."""
    columns = [_plain(rows[name]) for name in keys]
    names = [f"k{n}" for n in range(len(columns))]
    numbered = pa.table([*columns, pa.array(np.arange(rows.num_rows))], names=[*names, "row"])
    last = numbered.group_by(names).aggregate([("row", "max")])["row_max"]
    return pa.array(np.sort(last.to_numpy()))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.storage_type) if isinstance(column.type, pa.BaseExtensionType) else column


def merge_upserts(parts: Sequence[UpsertFiles], rows: TableWrites, keys: TableWrites, write_id: str) -> UpsertFiles:
    """Merge the files of several tasks. Each task wrote every key at most once.

    If no key occurs in two tasks, return all files. Otherwise the row of the last task in `parts` wins: all rows are
    read and written again under `write_id`, and the files of the tasks are deleted. In that case, raises
    `UnsupportedFeature` if the files are encrypted.
    """
    whole = UpsertFiles()
    for part in parts:
        whole.add(part)
    if sum(bool(part.files) for part in parts) < 2 or not _repeats(whole.deletes, keys):
        return whole
    if rows.new_key() is not None:
        raise UnsupportedFeature(
            "df.write of rows with the same key in several tasks, to an encrypted table", "Use Table.append."
        )
    again = write_newest(
        rows, keys, (each for file in whole.files for each in _read(rows, file).to_batches()), write_id
    )
    rows.storage.remove([file.location for file in whole.all])
    return again


def _repeats(files: Sequence[WrittenFile], keys: TableWrites) -> bool:
    """Return whether a key occurs twice in equality delete files, which are read for it."""
    whole = pa.concat_tables([_read(keys, file) for file in files])
    return len(last_rows(whole, whole.column_names)) < whole.num_rows


def _read(writes: TableWrites, file: WrittenFile) -> pa.Table:
    """Read a written Parquet file into a table with the column names of the schema of `writes`."""
    import pyarrow.parquet as pq

    with writes.storage.open(file.location) as handle:
        found = pq.ParquetFile(handle).read()
    return found.rename_columns([writes.schema.fields[place].name for place, _ in writes.file_columns()])
