"""Late materialization: decodes the columns of a filter first, and the others only where rows remain.

Files are processed in splits of consecutive row groups of a Parquet file. When the other columns are read, row groups
without a matching row are skipped, and reading ends at the last match. pyarrow decodes whole pages in order, so that
pages before a match are decoded, too.
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

PIECE = 1 << 17  # minimum rows of the first split
_GROWTH, _MOST = 4, 16  # growth factor of the next splits, and the limit relative to the first
# The columns of a split are read separately if at most `FEW` rows, or one row in `SHARE`, are kept.
FEW = 1_000
SHARE = 4

Keep = Callable[[int, pa.RecordBatch, Schema], pa.Array | None]


@dataclass(frozen=True)
class LateMaterialization:
    """Reads the table's columns `columns` of a Parquet file (`data`), for the rows that a filter keeps.

    `tested` are decoded first, and must include the columns that `keep` needs. `keep` takes the position of a batch's
    first row, the batch, and its schema, which includes the tested columns. It returns the mask of the rows to keep, or
    None for all of them.
    """

    rows: TaskRows
    data: ParquetData
    columns: Schema
    tested: Schema
    keep: Keep

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the kept rows as batches of `columns`. Some columns may be dictionary arrays.

        For each split, the tested columns are decoded first. If many rows of a split are kept, all columns of it and of
        all later splits of the file are read together. Raises `CorruptData`.
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
        """Yield the splits, as lists of consecutive row groups. Takes one Python step per row group.

        The first split is small, in case many rows match.
        """
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
        """Return the file positions and the tested columns of the kept rows of a split (`piece`, its row groups).

        Returns None if more rows are kept than are worth reading separately.
        """
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
        """Read the other columns of a split's rows at these positions; yield batches of all columns.

        `piece` are the split's row groups, and `found` the tested columns of the same rows.
        """
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
        )  # batches are decoded as a whole, so they must end at the last match
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
        """Yield batches of all columns in order, one for each batch of tested columns.

        `known` maps the field ids of output columns to their indices in `tested`. `taken` has the columns `others` of
        the same rows.
        """
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
        """Read all columns of these row groups together; yield the kept rows. Columns may be dictionary arrays."""
        for start, batch in self.rows.batches(self.columns, groups, encoded=True):
            mask = self.keep(start, batch, self.columns)
            yield batch if mask is None else filter_rows(batch, mask)
