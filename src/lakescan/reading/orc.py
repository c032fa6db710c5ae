"""ORC data and delete files. They are not split, since Arrow does not expose stripe offsets; read by stripe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from lakescan.encryption import FileKey
from lakescan.errors import CorruptData
from lakescan.reading.batches import batch_of
from lakescan.reading.decoding import decoding
from lakescan.reading.file_schema import FileField
from lakescan.reading.projection import Projection, only_read
from lakescan.storage import Storage
from lakescan.storage.encrypted_stream import open_stream
from lakescan.storage.faults import shown


@dataclass(frozen=True)
class OrcData:
    """An open ORC file; field ids are in the column attribute `iceberg.id`."""

    file: orc.ORCFile
    path: str

    @property
    def schema(self) -> pa.Schema:
        """The file's Arrow schema."""
        return self.file.schema

    @property
    def rows(self) -> int:
        """The row count in the footer."""
        return int(self.file.nrows)

    def chunks(self, start: int, stop: int) -> list[int]:
        """All stripes, if the range starts at byte 0; otherwise none."""
        return list(range(self.file.nstripes)) if start == 0 else []

    def batches(
        self, chunks: list[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the projection's columns, each with the file position of its first row.

        Raises `CorruptData` if a stripe cannot be decoded, or the row count differs from the footer's.
        """
        position = 0
        for stripe in chunks:
            rows = self._read(stripe, projection.read)
            for start in range(0, rows.num_rows, batch_size):
                batch = rows.slice(start, batch_size)
                yield position, batch
                position += batch.num_rows
        if position != self.rows:
            raise CorruptData(
                f"{shown(self.path)}: its stripes have {position:,} rows, but its footer says {self.rows:,}. "
                "The file is damaged: restore it, or write its rows again."
            )

    def _read(self, stripe: int, fields: tuple[FileField, ...]) -> pa.RecordBatch:
        """Read columns of a stripe. Arrow takes a dot in a name for nesting, so such files are read in all columns."""
        dotted = any("." in name for name in _names(self.schema))
        with decoding(self.path, f"stripe {stripe}"):
            paths = [path for field in fields for path in _paths(field, "")]
            rows = self.file.read_stripe(stripe, columns=None if dotted or not paths else paths)
            rows = rows.select([rows.schema.get_field_index(field.name) for field in fields])
            if not dotted:
                return rows
            arrays = [only_read(column, field) for column, field in zip(rows.columns, fields, strict=True)]
            return batch_of(
                arrays, pa.schema([(f.name, a.type) for f, a in zip(fields, arrays, strict=True)]), rows.num_rows
            )


def _names(fields: Iterable[pa.Field]) -> Iterator[str]:
    """The names of the fields, and of the members of their structs at any depth."""
    for field in fields:
        yield field.name
        if pa.types.is_struct(field.type):
            yield from _names(field.type)


def _paths(field: FileField, parent: str) -> Iterator[str]:
    """What to name in `read_stripe` to read a field with its members; a path names all that is below it."""
    path = f"{parent}{field.name}"
    if not pa.types.is_struct(field.type) or not field.children:
        yield path
    else:
        for member in field.children:
            yield from _paths(member, f"{path}.")


@contextmanager
def open_orc(storage: Storage, path: str, key: FileKey | None = None) -> Iterator[OrcData]:
    """Open a data or delete file; raises `MissingFile`, and `CorruptData` if it is not ORC."""
    with open_stream(storage, path, key) as handle:
        with decoding(path, "its footer"):
            file = orc.ORCFile(handle)
        yield OrcData(file, path)
