"""A log split by path into shares, each reconciled and pruned apart: what a driver cannot hold, workers do.

All actions on a file fall into the same share, so shares need nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.actions import ActionReader
from lakescan.delta.log_pieces import LogPiece, read_piece
from lakescan.delta.replay import canonical_paths, file_locations, reconcile
from lakescan.delta.scan_files import ScanFiles
from lakescan.planning.candidates import Candidates

_SHARE_BYTES = 1 << 24  # of log files, which hold several times as much once they are parsed
_ROWS = 1 << 16
_PRIME = 1_099_511_628_211


@dataclass(frozen=True)
class LogShare:
    """The files of a share that may have matching rows; how many live files it has, and their bytes."""

    candidates: Candidates
    files: int
    size: int


@dataclass(frozen=True)
class LogShares:
    """The work on a log: `split` takes a piece of it apart, `merge` makes a share of what pieces have for it."""

    reader: ActionReader
    location: str
    planner: ScanFiles
    count: int

    def split(self, piece: LogPiece) -> Iterator[tuple[int, pa.Table]]:
        """The file actions of a piece, by share."""
        actions = read_piece(self.reader, piece)
        paths = canonical_paths(file_locations(actions["path"].combine_chunks(), self.location))
        share = shares_of(paths, self.count)
        for number in np.unique(share).tolist():
            yield number, actions.filter(pa.array(share == number))

    def merge(self, tables: list[pa.Table]) -> LogShare:
        """The share that these actions make."""
        live = reconcile(tables, self.location)
        return LogShare(self.planner.candidates(live), live.num_rows, pc.sum(live["size"]).as_py() or 0)


def share_count(log_bytes: int, least: int = 4, most: int = 1000) -> int:
    """Into how many shares to split a log of so many bytes."""
    return min(most, max(least, log_bytes // _SHARE_BYTES))


def shares_of(paths: pa.Array, count: int) -> np.ndarray:
    """The share of each path, by a hash of its bytes that is the same in every process."""
    chunks = [paths.slice(start, _ROWS) for start in range(0, len(paths), _ROWS)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *(_hashes(c) % np.uint64(count) for c in chunks)]).astype(int)


def _hashes(paths: pa.Array) -> np.ndarray:
    """A polynomial in the bytes of each path, modulo 2^64, its upper bits mixed into the lower ones."""
    values = pc.binary_join_element_wise(paths, "\x00", "").cast(pa.large_binary())  # none is empty
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(values.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    powers = np.full(int(lengths.max(initial=1)), _PRIME, dtype=np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    place = np.arange(len(data)) - np.repeat(starts, lengths)
    found = np.add.reduceat(data.astype(np.uint64) * powers[place], starts)
    found = (found ^ (found >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    result: np.ndarray = found ^ (found >> np.uint64(33))
    return result
