"""Avro data and delete files, in blocks. They have no footer: rows are counted as blocks are passed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from lakescan.reading.avro.blocks import AvroBlocks, open_blocks
from lakescan.reading.avro.decode import ColumnsOfBlocks
from lakescan.reading.avro.records import arrow_field
from lakescan.reading.batches import batch_of
from lakescan.reading.decoding import decoding
from lakescan.reading.file_schema import FileField
from lakescan.reading.projection import Projection
from lakescan.storage import Storage
from lakescan.storage.encrypted_stream import open_stream
from lakescan.storage.encryption import FileKey

_BUFFER = 1 << 16  # bytes read at once while blocks are stepped over
_REMOTE_BUFFER = 1 << 23  # where each read is a request


@dataclass(frozen=True)
class AvroData:
    """An open Avro file. Its chunks are its bytes: a block is in the chunk where the sync marker before it begins."""

    blocks: AvroBlocks
    schema: pa.Schema
    path: str

    @property
    def rows(self) -> int | None:
        """The row count, once the last block was passed; None before."""
        return self.blocks.rows

    def chunks(self, start: int, stop: int) -> Sequence[int]:
        """The bytes of [start, stop) that the file has."""
        return range(start, min(stop, self.blocks.size))

    def batches(
        self, chunks: Sequence[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the projection's columns, each with the file position of its first row; `chunks` are a range.

        Raises `CorruptData` if a block cannot be decoded, or its row count differs from the one it declares.
        """
        if not chunks:
            return
        fields = [_only_read(self.schema.field(each.index), each) for each in projection.read]
        schema = pa.schema(fields)
        with decoding(self.path, "a block"):
            columns = ColumnsOfBlocks(self.blocks.record, self.blocks.schema.least, fields)
            for first, rows, arrays in columns.batches(self.blocks.within(chunks[0], chunks[-1] + 1)):
                batch = batch_of(arrays, schema, rows)
                for start in range(0, rows, batch_size):
                    yield first + start, batch.slice(start, batch_size)


def _only_read(field: pa.Field, read: FileField) -> pa.Field:
    """The column with only the members of its structs that are read: the others are not converted."""
    if not pa.types.is_struct(field.type):
        return field
    return field.with_type(pa.struct([_only_read(field.type.field(each.index), each) for each in read.children]))


@contextmanager
def open_avro(storage: Storage, path: str, key: FileKey | None = None) -> Iterator[AvroData]:
    """Open a data or delete file; raises `MissingFile`, and `CorruptData` if it is not Avro."""
    with open_stream(storage, path, key) as handle:
        with decoding(path, "its header"):
            size = int(handle.size())
            buffer = _REMOTE_BUFFER if storage.is_remote(path) else _BUFFER
            blocks = open_blocks(io.BufferedReader(handle, max(1, min(buffer, size))), path, size)
            schema = pa.schema([arrow_field(f) for f in blocks.record["fields"]])
        yield AvroData(blocks, schema, path)
