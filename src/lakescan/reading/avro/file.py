"""Avro data and delete files. They have no footer and are never split; batches come in file order."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from lakescan.encryption import FileKey
from lakescan.reading.avro.blocks import AvroBlocks, open_blocks
from lakescan.reading.avro.records import arrow_field, column
from lakescan.reading.batches import batch_of
from lakescan.reading.decoding import decoding
from lakescan.reading.file_schema import FileField
from lakescan.reading.projection import Projection
from lakescan.storage import Storage
from lakescan.storage.encrypted_stream import open_stream


@dataclass(frozen=True)
class AvroData:
    """An open Avro file."""

    blocks: AvroBlocks
    schema: pa.Schema
    path: str

    @property
    def rows(self) -> None:
        """None: Avro has no footer, so the row count is unknown until the last block is read."""
        return None

    def chunks(self, start: int, stop: int) -> list[int]:
        """The whole file as one chunk, if the range starts at byte 0; otherwise none."""
        return [0] if start == 0 else []

    def batches(
        self, chunks: list[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the projection's columns, each with the file position of its first row.

        Raises `CorruptData` if a block cannot be decoded, or its row count differs from the one it declares.
        """
        fields = [_only_read(self.schema.field(each.index), each) for each in projection.read]
        position = 0
        with decoding(self.path, "a block"):
            for records in self.blocks.records():
                for start in range(0, len(records), batch_size):
                    some = records[start : start + batch_size]
                    arrays = [column([r[f.name] for r in some], f.type) for f in fields]
                    yield position, batch_of(arrays, pa.schema(fields), len(some))
                    position += len(some)


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
            blocks = open_blocks(io.BufferedReader(handle), path, size)
            schema = pa.schema([arrow_field(f) for f in blocks.record["fields"]])
        yield AvroData(blocks, schema, path)
