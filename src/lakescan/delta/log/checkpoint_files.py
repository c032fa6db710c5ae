"""Parquet checkpoint files: some columns of their rows, and the few actions in them that are not about files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.delta.log.text import ADVICE, Action
from lakescan.errors import CorruptMetadata
from lakescan.reading.decoding import decoding
from lakescan.storage.storage import Storage

_BATCH_ROWS = 1 << 17
# Each row is an action of its own, with a path or an id that no other has. More rows a byte, or more bytes out of one,
# are not to be had of a checkpoint; so much is read whatever the file's size.
_ROWS_PER_BYTE, _FEW_ROWS = 16, 1 << 20
_BYTES_PER_BYTE, _FEW_BYTES = 400, 1 << 28
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


@dataclass(frozen=True)
class CheckpointFile:
    """A checkpoint, a part of one, or a sidecar, in Parquet."""

    location: str
    storage: Storage

    def where(self, row: int) -> str:
        """A row, counted from 0, as messages have it."""
        return f"{self.location}, row {row + 1}"

    def batches(self, column: str, members: Sequence[str]) -> Iterator[tuple[pa.ChunkedArray, int]]:
        """Some members of a column of structs, so many rows at a time, with the number of the first row.

        A file without the column has none, but that of `add` has to be there. Raises `CorruptMetadata`.
        """
        with self._opened() as file:
            kind = _struct_of(file, column)
            if kind is None and (column != "add" or not file.metadata.num_rows):
                return
            if kind is None or not _has_paths(kind):
                raise CorruptMetadata(
                    f"{self.location} is no checkpoint: it has no column {column}.path of texts. {ADVICE}"
                )
            wanted = [f"{column}.{name}" for name in members if kind.get_field_index(name) >= 0]
            start = 0
            for batch in file.iter_batches(_BATCH_ROWS, columns=wanted):
                _check_texts(batch[column])
                yield pa.chunked_array([batch[column]]), start
                start += batch.num_rows
            self._check_rows(start, file)

    def single(self, name: str, known_by: str) -> Iterator[Action]:
        """The actions of a name: rows in which its column is there, and has that member."""
        with self._opened() as file:
            kind = _struct_of(file, name)
            if kind is None or kind.get_field_index(known_by) < 0:
                return
            rows = file.read(columns=[name])[name]
            self._check_rows(len(rows), file)
            present = pc.and_(rows.is_valid(), pc.is_valid(pc.struct_field(rows, known_by)))
            nodes = rows.filter(present).to_pylist(maps_as_pydicts="lossy")
            at = pc.indices_nonzero(present).to_pylist()
        yield from (Action(name, node, self.where(row)) for row, node in zip(at, nodes, strict=True))

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        with decoding(self.location, "the checkpoint"), self.storage.open(self.location) as handle:
            file = pq.ParquetFile(handle)
            self._check_size(file.metadata, handle.size())
            yield file

    def _check_size(self, metadata: pq.FileMetaData, size: int) -> None:
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        if metadata.num_rows != sum(group.num_rows for group in groups):
            raise CorruptMetadata(
                f"{self.location} says that it has {metadata.num_rows:,} rows, and its row groups "
                f"{sum(group.num_rows for group in groups):,}: its footer is damaged. {ADVICE}"
            )
        unpacked = sum(group.total_byte_size for group in groups)
        if metadata.num_rows > max(_FEW_ROWS, size * _ROWS_PER_BYTE) or unpacked > max(
            _FEW_BYTES, size * _BYTES_PER_BYTE
        ):
            raise CorruptMetadata(
                f"{self.location} says that it has {metadata.num_rows:,} rows of {unpacked:,} bytes, in a file of "
                f"{size:,} bytes: no checkpoint packs so much into so little. {ADVICE}"
            )

    def _check_rows(self, found: int, file: pq.ParquetFile) -> None:
        if found != file.metadata.num_rows:
            raise CorruptMetadata(
                f"{self.location} gives {found:,} rows where its footer says {file.metadata.num_rows:,}: a page of it "
                f"is damaged. {ADVICE}"
            )


def _struct_of(file: pq.ParquetFile, column: str) -> pa.StructType | None:
    schema = file.schema_arrow
    kind = schema.field(column).type if column in schema.names else None
    return kind if kind is not None and pa.types.is_struct(kind) else None


def _has_paths(kind: pa.StructType) -> bool:
    index = kind.get_field_index("path")
    return index >= 0 and kind.field(index).type in _TEXTS


def _check_texts(rows: pa.StructArray) -> None:
    """Refuse texts that are not UTF-8, but in statistics, which may be anything."""
    for field in rows.type:
        if field.name not in ("stats", "stats_parsed"):
            pc.struct_field(rows, field.name).validate(full=True)
