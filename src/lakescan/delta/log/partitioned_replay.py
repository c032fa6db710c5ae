"""Log replay by partition: workers reconcile and prune a log that is larger than the driver's memory.

The log is partitioned by file path into shares. All actions on a file are in one share, so shares are independent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.hashing import hashes
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.log_pieces import LogPiece, read_piece
from lakescan.delta.log.replay import canonical_paths, file_locations, live_files
from lakescan.delta.scan.scan_files import DeltaScanFiles
from lakescan.planning.candidates import Candidates

_SHARE_BYTES = 1 << 24  # bytes of log files per share; parsed, they take several times as much memory


@dataclass(frozen=True)
class LogShare:
    """The result for one share of a log.

    `candidates` are its files after pruning; `files` and `size` are the number and total bytes of its live files.
    """

    candidates: Candidates
    files: int
    size: int


@dataclass(frozen=True)
class LogShares:
    """The split and merge functions of a shuffling executor over the pieces of a log.

    - `location`: the table's folder.
    - `planner`: prunes the live files of each share.
    - `count`: the number of shares.
    """

    reader: ActionReader
    location: str
    planner: DeltaScanFiles
    count: int

    def split(self, piece: LogPiece) -> Iterator[tuple[int, pa.Table]]:
        """Read a piece and yield its file actions, split by share, each with the share's number."""
        actions = read_piece(self.reader, piece)
        paths = canonical_paths(file_locations(actions["path"].combine_chunks(), self.location))
        share = shares_of(paths, self.count)
        for number in np.unique(share).tolist():
            yield number, actions.filter(pa.array(share == number))

    def merge(self, tables: list[pa.Table]) -> LogShare:
        """Reconcile and prune all actions of a share; `tables` are the results of `split` for it."""
        live = live_files(tables, self.location)
        return LogShare(self.planner.candidates(live), live.num_rows, pc.sum(live["size"]).as_py() or 0)


def share_count(log_bytes: int, least: int = 4, most: int = 1000) -> int:
    """Return the number of shares for a log of `log_bytes`: one per 16 MiB, but at least `least` and at most `most`."""
    return min(most, max(least, log_bytes // _SHARE_BYTES))


def shares_of(paths: pa.Array, count: int) -> np.ndarray:
    """Return the share number of each path, from a hash of its bytes that is stable across processes."""
    return (hashes(paths) % np.uint64(count)).astype(np.int64)
