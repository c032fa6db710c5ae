"""ORC data and delete files. They are read whole, a stripe at a time: Arrow does not say where stripes start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from lakescan.errors import CorruptData
from lakescan.reading.decoding import decoding
from lakescan.reading.projection import Projection
from lakescan.storage.faults import shown
from lakescan.storage.storage import Storage


@dataclass(frozen=True)
class OrcData:
    """An open ORC file; field ids are in the attribute `iceberg.id`."""

    file: orc.ORCFile
    path: str

    @property
    def schema(self) -> pa.Schema:
        """Its Arrow schema."""
        return self.file.schema

    @property
    def rows(self) -> int:
        """The rows that it has, as its footer says."""
        return int(self.file.nrows)

    def chunks(self, start: int, stop: int) -> list[int]:
        """All stripes, in the split that begins the file."""
        return list(range(self.file.nstripes)) if start == 0 else []

    def batches(
        self, chunks: list[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the projection's columns, each with the position in the file of its first row.

        Raises `CorruptData` where stripes cannot be decoded, or have other rows than the footer says.
        """
        names = [self.schema.names[i] for i in projection.columns]
        position = 0
        for stripe in chunks:
            rows = self._read(stripe, names)
            for start in range(0, rows.num_rows, batch_size):
                batch = rows.slice(start, batch_size)
                yield position, batch
                position += batch.num_rows
        if position != self.rows:
            raise CorruptData(
                f"{shown(self.path)}: its stripes have {position:,} rows, and its footer says {self.rows:,}. "
                "The file is damaged: restore it, or write its rows again."
            )

    def _read(self, stripe: int, names: list[str]) -> pa.RecordBatch:
        """One stripe's columns. Arrow takes a dot in a name for nesting: such files are read whole."""
        dotted = any("." in name for name in self.schema.names)
        with decoding(self.path, f"stripe {stripe}"):
            found = self.file.read_stripe(stripe, columns=None if dotted or not names else names)
            return found.select([found.schema.get_field_index(name) for name in names])


@contextmanager
def open_orc(storage: Storage, path: str) -> Iterator[OrcData]:
    """Open a data or delete file; raises `MissingFile`, and `CorruptData` for what is not ORC."""
    with storage.open(path) as handle:
        with decoding(path, "its footer"):
            file = orc.ORCFile(handle)
        yield OrcData(file, path)
