"""Write Parquet files row group by row group, rolling over to a new file at the target size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakescan.encryption.table_keys import NewKey
from lakescan.errors import missing_dependency
from lakescan.storage.faults import storage_boundary
from lakescan.write.dictionaries import dictionary_columns
from lakescan.write.statistics import FileStatistics, Leaf, count_nans
from lakescan.write.table_writes import Key, TableWrites, WrittenFile

GROUP_ROWS = 1 << 20  # maximum per row group
_NO_LIMIT = 1 << 62


def encrypting(key: NewKey | None) -> dict[str, Any]:
    """The argument of `pyarrow.parquet.ParquetWriter` for a file with a key: all of it encrypted, as Java writes it."""
    if key is None:
        return {}
    try:
        from pyarrow.parquet.encryption import create_encryption_properties
    except ImportError as error:
        raise missing_dependency("pyarrow >= 24 with encryption", "all", "writing encrypted Parquet files") from error
    properties = create_encryption_properties(key.key, aad_prefix=key.aad_prefix, store_aad_prefix=False)
    return {"encryption_properties": properties}


class PartitionWriter:
    """Writes the files of one partition; buffers rows until they make a row group."""

    def __init__(
        self,
        writes: TableWrites,
        key: Key,
        schema: pa.Schema,
        leaves: Sequence[Leaf],
        new_name: Callable[[], str],
        group_rows: int = GROUP_ROWS,
    ) -> None:
        self._group_rows = group_rows
        self._writes, self._key, self._schema, self._leaves, self._new_name = writes, key, schema, leaves, new_name
        self._nans = [0] * len(leaves)  # of the open file
        self._kept: list[pa.RecordBatch] = []
        self._rows = 0
        self._written = 0  # rows of the open file
        self.kept_bytes: int = 0
        self._location = ""
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._encryption: NewKey | None = None  # of the open file
        self.locations: list[str] = []
        self.done: list[WrittenFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Buffer rows of the partition; write row groups and roll files over as limits are reached."""
        while (room := self._room()) < rows.num_rows:
            self._take(rows.slice(0, room))
            self.flush()
            self._end()
            rows = rows.slice(room)
        self._take(rows)
        if self._rows >= self._group_rows or self.kept_bytes >= self._writes.target_size:
            self.flush()

    def _room(self) -> int:
        """How many more rows the open file may take."""
        most = self._writes.max_rows
        return _NO_LIMIT if most is None else most - self._written - self._rows

    def _take(self, rows: pa.RecordBatch) -> None:
        self._kept.append(rows)
        self._rows += rows.num_rows
        self.kept_bytes += rows.nbytes

    def flush(self) -> None:
        """Write the buffered rows as a row group; finish the file if it has reached its target size."""
        if not self._rows:
            return
        table = pa.Table.from_batches(self._kept, self._schema)
        writer, sink = self._opened(table)
        self._nans = [old + new for old, new in zip(self._nans, count_nans(table, self._leaves), strict=True)]
        ordered = self._writes.in_order(table)
        with storage_boundary("written", self._location, passing=pa.ArrowException):
            writer.write_table(ordered, row_group_size=self._group_rows)
            size = sink.tell()
        self._written += self._rows
        self._kept, self._rows, self.kept_bytes = [], 0, 0
        if size >= self._writes.target_size:
            self._end()

    def close(self) -> list[WrittenFile]:
        """Finish the last file; return all files of the partition."""
        self.flush()
        self._end()
        return self.done

    def abandon(self) -> None:
        """Close the open file unfinished, ignoring errors; the caller removes it."""
        if self._sink is not None:
            with suppress(OSError):
                self._sink.close()

    def _opened(self, first: pa.Table) -> tuple[pq.ParquetWriter, pa.NativeFile]:
        """The open file; a new one is made for its `first` rows."""
        if self._writer is None or self._sink is None:
            self._location = self._writes.new_location(self._key, self._new_name())
            self.locations.append(self._location)
            self._sink = self._writes.storage.create(self._location)
            self._encryption = self._writes.new_key()
            options = {**self._writes.parquet_options, **encrypting(self._encryption)}
            with storage_boundary("written", self._location, passing=pa.ArrowException):
                self._writer = pq.ParquetWriter(
                    self._sink,
                    self._schema,
                    store_decimal_as_integer=True,
                    use_dictionary=dictionary_columns(first),
                    **options,
                )
        return self._writer, self._sink

    def _end(self) -> None:
        if self._writer is None or self._sink is None:
            return
        writer, sink = self._writer, self._sink
        with storage_boundary("written", self._location, passing=pa.ArrowException):
            writer.close()
            size = sink.tell()
            sink.close()
        metadata = writer.writer.metadata
        details = dict(self._writes.describe(FileStatistics.of(metadata, self._leaves, self._nans)))
        if self._encryption is not None:
            details["key_metadata"] = self._encryption.metadata(size)
        self.done.append(WrittenFile(self._location, self._key, metadata.num_rows, size, details))
        self._writer = self._sink = None
        self._written, self._nans = 0, [0] * len(self._leaves)
