"""A log split by path into shares, each reconciled and pruned apart: what a driver cannot hold, workers do.

All actions on a file fall into the same share, so shares need nothing of each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.hashing import hashes
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.pieces import LogPiece, read_piece
from lakescan.delta.log.replay import canonical_paths, file_locations, live_files
from lakescan.delta.scan.scan_files import ScanFiles
from lakescan.planning.candidates import Candidates

_SHARE_BYTES = 1 << 24  # of log files, which hold several times as much once they are parsed


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
        live = live_files(tables, self.location)
        return LogShare(self.planner.candidates(live), live.num_rows, pc.sum(live["size"]).as_py() or 0)


def share_count(log_bytes: int, least: int = 4, most: int = 1000) -> int:
    """Into how many shares to split a log of so many bytes."""
    return min(most, max(least, log_bytes // _SHARE_BYTES))


def shares_of(paths: pa.Array, count: int) -> np.ndarray:
    """The share of each path, by a hash of its bytes that is the same in every process."""
    return (hashes(paths) % np.uint64(count)).astype(np.int64)
