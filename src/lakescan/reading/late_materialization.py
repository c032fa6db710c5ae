"""Late materialization: the columns that a filter tests are decoded first, the others only where rows remain.

A piece is some consecutive row groups of a Parquet file. Its row groups without a matching row are left out when the
other columns are read, and reading ends at the last match. pyarrow decodes whole pages in order, so that pages before
a match are decoded, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakescan.common.schema import Schema
from lakescan.reading.data_file import TaskRows
from lakescan.reading.parquet.file import ParquetData, runs
from lakescan.reading.record_batches import as_encoded, batch_of, filter_rows

PIECE = 1 << 17  # rows from which on the first piece gets no further row group
_GROWTH, _MOST = 4, 16  # later pieces have so many times the rows of the one before, and at most so many of the first
FEW = 1_000  # rows that may always be kept of a piece
SHARE = 4  # of larger ones, one row in so many

Keep = Callable[[int, pa.RecordBatch, Schema], pa.Array | None]


@dataclass(frozen=True)
class LateMaterialization:
    """Reads `columns`, of which `tested` are decoded first: at least those that `keep` needs.

    `keep` takes the position of a batch's first row, the batch and its schema, which has at least the tested columns.
    It returns the mask of the rows to keep, or None for all of them.
    """

    rows: TaskRows
    data: ParquetData
    columns: Schema
    tested: Schema
    keep: Keep

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that are kept, as batches of `columns`, of which some may be dictionary arrays.

        If a piece keeps many rows, its columns are read together, and so are those of all later pieces of the file.
        """
        if all(field in self.tested.fields for field in self.columns.fields):
            yield from self._read_together(self.rows.chunks)
            return
        pieces = list(self._pieces())
        for number, piece in enumerate(pieces):
            found = self._matching_rows(piece)
            if found is None:
                yield from self._read_together([group for each in pieces[number:] for group in each])
                return
            yield from self._read_rest(piece, *found)

    def _pieces(self) -> Iterator[list[int]]:
        """The row groups to read, as pieces: the first is small, in case many rows match. One step per row group."""
        first, scale = self.data.footer.first_rows, 1
        for run in runs(self.rows.chunks):
            piece: list[int] = []
            for group in run:
                piece.append(group)
                if first[group + 1] - first[piece[0]] >= PIECE * scale:
                    yield piece
                    piece, scale = [], min(scale * _GROWTH, _MOST)
            if piece:
                yield piece

    def _matching_rows(self, piece: list[int]) -> tuple[np.ndarray, list[pa.RecordBatch]] | None:
        """The positions of the rows of a piece that are kept, and their tested columns; None if they are many."""
        first = self.data.footer.first_rows
        rows = int(first[piece[-1] + 1] - first[piece[0]])
        left = min(max(FEW, rows // SHARE), self.rows.context.batch_size)
        positions, batches = [np.empty(0, np.int64)], []
        for start, batch in self.rows.batches(self.tested, piece, encoded=True):
            mask = self.keep(start, batch, self.tested)
            at = np.arange(batch.num_rows) if mask is None else np.flatnonzero(mask.to_numpy(zero_copy_only=False))
            left -= len(at)
            if left < 0:
                return None
            if len(at):
                positions.append(at + start)
                batches.append(batch.take(pa.array(at)))
        return np.concatenate(positions), batches

    def _read_rest(
        self, piece: list[int], positions: np.ndarray, found: list[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Read the other columns of a piece's rows at these positions, and add them to the tested ones."""
        if not len(positions):
            return
        known = {field.id: place for place, field in enumerate(self.tested.fields) if field in self.columns.fields}
        others = Schema(tuple(f for f in self.columns.fields if f.id not in known), self.columns.id)
        first = self.data.footer.first_rows
        counts = np.diff(np.searchsorted(positions, first[piece[0] : piece[-1] + 2]))
        groups = [group for group, count in zip(piece, counts, strict=True) if count]
        tested, done = pa.Table.from_batches(found), 0
        needed = (
            int(positions[-1]) + 1 - int(first[groups[0]])
        )  # a batch is decoded as a whole: not past the last match
        for start, batch in self.rows.batches(others, groups, encoded=True, most_rows=needed):
            stop = int(np.searchsorted(positions, start + batch.num_rows))
            if stop == done:
                continue
            taken = batch.take(pa.array(positions[done:stop] - start))
            yield from self._join_columns(tested.slice(done, stop - done), known, taken, others)
            done = stop
            if done == len(positions):
                return

    def _join_columns(
        self, tested: pa.Table, known: dict[int, int], taken: pa.RecordBatch, others: Schema
    ) -> Iterator[pa.RecordBatch]:
        """The columns in their order, of rows that may come from several batches of tested ones."""
        places = {field.id: place for place, field in enumerate(others.fields)}
        row = 0
        for part in tested.to_batches():
            some = taken.slice(row, part.num_rows)
            row += part.num_rows
            arrays = [
                part.column(known[field.id]) if field.id in known else some.column(places[field.id])
                for field in self.columns.fields
            ]
            yield batch_of(arrays, as_encoded(self.columns.arrow(), arrays), part.num_rows)

    def _read_together(self, groups: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The rows that are kept of row groups, all columns of which are read at once."""
        for start, batch in self.rows.batches(self.columns, groups, encoded=True):
            mask = self.keep(start, batch, self.columns)
            yield batch if mask is None else filter_rows(batch, mask)
