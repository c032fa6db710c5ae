"""One write task: rows in, data files out. If it fails, it removes all files that it wrote."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from itertools import count

import pyarrow as pa

from lakescan.errors import UnsupportedFeature
from lakescan.writing.conform import Fit, retype
from lakescan.writing.parquet import GROUP_ROWS, ParquetPartitionWriter
from lakescan.writing.partition_key import exact_key, split_by_partition
from lakescan.writing.statistics import leaves_of
from lakescan.writing.table_writes import Key, TableWrites, WrittenFile

_KEPT = 128 * 2**20  # bytes of rows buffered over all partitions
_OPEN = 128  # maximum number of partitions with an open file
_TOGETHER = 1 << 16  # rows that are split by partition at once: each partition in a batch costs microseconds
_TOGETHER_BYTES = 32 * 2**20


def new_write_id() -> str:
    """A random prefix for the file names of one write."""
    return uuid.uuid4().hex[:16]


def remove_written(writes: TableWrites, write_id: str) -> Sequence[str]:
    """Remove all files of a write, whichever task wrote them; return those that could not be removed."""
    return writes.storage.remove(writes.storage.find(writes.data_folder, write_id))


def write_rows(
    writes: TableWrites, batches: Iterable[pa.RecordBatch], write_id: str, group_rows: int = GROUP_ROWS
) -> list[WrittenFile]:
    """Write rows of any partitions, in any order; the name of each file contains `write_id`.

    `group_rows` is the most that a row group has: its rows are held until it is written. Raises `SchemaMismatch` if the
    rows do not fit the table.
    """
    writer = PartitionedWriter(writes, write_id, group_rows)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.undo()
        raise


class PartitionedWriter:
    """Writes batches of rows of any partitions, one after the other; `close` or `undo` ends it."""

    def __init__(self, writes: TableWrites, write_id: str, group_rows: int = GROUP_ROWS) -> None:
        self._writes, self._group_rows = writes, group_rows
        self._fit: tuple[pa.Schema, Fit] | None = None
        columns = writes.file_columns()
        if not columns:  # a file without columns would have no rows
            raise UnsupportedFeature(f"writing to {writes.data_folder}, which has no columns for data files")
        self._places, self._schema = [place for place, _ in columns], pa.schema([field for _, field in columns])
        self._leaves = leaves_of([writes.schema.fields[place] for place in self._places])
        self._is_split = bool(writes.partition_names) and writes.is_fanned_out
        self._unsplit: list[pa.RecordBatch] = []
        self._unsplit_rows = self._unsplit_bytes = 0
        self._open: dict[Key, ParquetPartitionWriter] = {}  # in order of use, the latest last
        self._done: list[WrittenFile] = []
        self._locations: list[str] = []
        stem, number = f"{write_id}-{uuid.uuid4().hex[:12]}", count()
        self._new_name = lambda: f"{stem}-{next(number):05d}.parquet"

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows; raises `SchemaMismatch` if they do not fit the table."""
        if self._fit is None or self._fit[0] != batch.schema:
            self._fit = batch.schema, Fit.match_columns(self._writes.schema, batch.schema)
        for rows in self._fit[1].pieces(batch):
            if self._is_split:
                self._collect(rows)
            else:
                self._write_fitted(rows)

    def _collect(self, rows: pa.RecordBatch) -> None:
        """Hold rows back until there are enough to split: Spark's batches have 10,000 rows or fewer."""
        self._unsplit.append(rows)
        self._unsplit_rows += rows.num_rows
        self._unsplit_bytes += rows.nbytes
        if self._unsplit_rows >= _TOGETHER or self._unsplit_bytes >= _TOGETHER_BYTES:
            self._split()

    def _split(self) -> None:
        batches, self._unsplit, self._unsplit_rows, self._unsplit_bytes = self._unsplit, [], 0, 0
        if len(batches) == 1:
            self._write_fitted(batches[0])
        elif batches:
            for rows in pa.Table.from_batches(batches).combine_chunks().to_batches():
                self._write_fitted(rows)

    def _write_fitted(self, rows: pa.RecordBatch) -> None:
        in_file = pa.RecordBatch.from_arrays([rows.column(place) for place in self._places], names=self._schema.names)
        for key, mine in split_by_partition(self._writes.partition_keys(rows), self._rename_columns(in_file)):
            self._writer(key).write(mine)
        while sum(each.kept_bytes for each in self._open.values()) > _KEPT:
            max(self._open.values(), key=lambda each: each.kept_bytes).flush()

    def close(self) -> list[WrittenFile]:
        """Finish all files, and return them."""
        self._split()
        for writer in self._open.values():
            self._done += writer.close()
        return self._done

    def undo(self) -> None:
        """Remove all files that were written, unfinished ones included."""
        for writer in self._open.values():
            with contextlib.suppress(OSError, pa.ArrowException):
                writer.abandon()
            self._locations += writer.locations
        self._writes.storage.remove([*self._locations, *(file.location for file in self._done)])

    def _rename_columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Rows under the column names and field ids that files use."""
        arrays = [retype(column, field.type) for column, field in zip(rows.columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _writer(self, key: Key) -> ParquetPartitionWriter:
        exact = exact_key(key)
        writer = self._open.pop(exact, None)
        if writer is None:
            if len(self._open) >= (_OPEN if self._writes.is_fanned_out else 1):
                oldest = next(iter(self._open))
                self._done += self._open.pop(oldest).close()
            writer = ParquetPartitionWriter(
                self._writes, key, self._schema, self._leaves, self._new_name, self._group_rows
            )
        self._open[exact] = writer
        return writer
