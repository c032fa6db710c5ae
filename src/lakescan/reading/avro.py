"""Avro data and delete files. They have no row groups and are never split: batches come in file order."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import fastavro
import pyarrow as pa

from lakescan.reading.avro_records import arrow_field, column
from lakescan.reading.batches import batch_of
from lakescan.reading.decoding import decoding
from lakescan.reading.projection import Projection
from lakescan.storage import Storage


@dataclass(frozen=True)
class AvroData:
    """An open Avro file."""

    reader: Any
    schema: pa.Schema
    path: str

    @property
    def rows(self) -> None:
        """Not known before the last block: Avro has no footer."""
        return None

    def chunks(self, start: int, stop: int) -> list[int]:
        """The whole file as one chunk, in the split that begins it."""
        return [0] if start == 0 else []

    def batches(
        self, chunks: list[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the projection's columns, each with the position in the file of its first row."""
        fields = [self.schema.field(i) for i in projection.columns]
        position = 0
        records = iter(self.reader)
        while block := self._next(records, batch_size):
            arrays = [column([r[f.name] for r in block], f.type) for f in fields]
            yield position, batch_of(arrays, pa.schema(fields), len(block))
            position += len(block)

    def _next(self, records: Iterator[Any], count: int) -> list[Any]:
        with decoding(self.path, "a block"):
            return list(islice(records, count))


@contextmanager
def open_avro(storage: Storage, path: str) -> Iterator[AvroData]:
    """Open a data or delete file; raises `MissingFile`, and `CorruptData` for what is not Avro."""
    with storage.open(path) as handle:
        with decoding(path, "its header"):
            reader = fastavro.reader(io.BufferedReader(handle))
            fields = json.loads(reader.metadata["avro.schema"])["fields"]
            schema = pa.schema([arrow_field(f) for f in fields])
        yield AvroData(reader, schema, path)
