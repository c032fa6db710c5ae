"""The rows of data files that a statement matched, as bitmaps of their positions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakescan.reading.deletes.deletion_vectors import bitmap_of


class DuplicateMatch(Exception):
    """The row at a position of the data file `path` was matched twice. Pickled by workers."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(path, position)
        self.path = path
        self.position = position


class RowPositions:
    """The target rows that a statement matched, as bitmaps of row positions by data file.

    - `changed`: the rows to delete because they are deleted or updated.
    - `matched`: all matched rows. Filled only if `is_unique`, to detect rows that are matched twice.
    - `is_unique`: whether it is an error if a row is matched twice.
    """

    def __init__(self, *, is_unique: bool) -> None:
        self._is_unique = is_unique
        self.changed: dict[str, BitMap64] = {}
        self.matched: dict[str, BitMap64] = {}

    def add(self, files: pa.Array, positions: pa.Array, is_changed: np.ndarray) -> None:
        """Add the rows of a batch. Rows to insert have a null file and are skipped.

        `is_changed` is a mask of the rows to delete. Raises `DuplicateMatch` if a row is matched twice and `is_unique`
        is set. The loop runs once per file in the batch.
        """
        there = files.is_valid() if files.null_count else None
        if there is not None:
            files, positions, is_changed = files.filter(there), positions.filter(there), is_changed[np.asarray(there)]
        if not len(files):
            return
        encoded = pc.dictionary_encode(files)
        codes, rows = np.asarray(encoded.indices), np.asarray(positions)
        order = np.lexsort((rows, codes))
        codes, rows, is_changed = codes[order], rows[order], is_changed[order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(codes)], strict=True):
            path = encoded.dictionary[int(codes[start])].as_py()
            self._add(path, rows[start:end], is_changed[start:end])

    def _add(self, path: str, rows: np.ndarray, is_changed: np.ndarray) -> None:
        if self._is_unique:
            again = np.flatnonzero(rows[1:] == rows[:-1])
            if len(again):
                raise DuplicateMatch(path, int(rows[again[0]]))
            unite_matches(self.matched, path, bitmap_of(rows))
        changed = rows if is_changed.all() else rows[is_changed]
        if len(changed):
            unite(self.changed, path, bitmap_of(changed))


def unite(found: dict[str, BitMap64], path: str, more: BitMap64) -> None:
    """Add row positions of the file `path` to the bitmaps in `found`."""
    known = found.get(path)
    if known is None:
        found[path] = more
    else:
        known |= more


def unite_matches(found: dict[str, BitMap64], path: str, more: BitMap64) -> None:
    """Add row positions of the file `path` to the bitmaps in `found`; raises `DuplicateMatch` for a known position."""
    known = found.get(path)
    if known is not None and (both := known & more):
        raise DuplicateMatch(path, int(both[0]))
    unite(found, path, more)
