"""Candidate files, the input of planning: the files that remain after pruning by partition and statistics.

Formats yield them in parts (some manifests, a share of a log), so that planning overlaps with reading the next part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from lakescan.expressions.predicate import Predicate
from lakescan.planning.file_table import FileTable, concat_file_tables
from lakescan.planning.prune import Stats, might_match
from lakescan.planning.residual import needed_conjuncts


@dataclass(frozen=True)
class Candidates:
    """Files that may have matching rows; `needed` has each file's bit mask of filter conjuncts to run on its rows."""

    table: FileTable
    needed: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    skipped_by_partition: int = 0
    skipped_by_stats: int = 0

    @staticmethod
    def prune_table(table: FileTable, predicate: Predicate, exact: Stats, skipped_by_partition: int = 0) -> Candidates:
        """Prune a file table by its statistics.

        `exact` are the statistics of partition values, which may prove conjuncts that bounds cannot.
        """
        mask = might_match(predicate, table.stats, len(table))
        kept = table if pc.all(mask).as_py() else table.filter(mask)
        exact = {i: stats.filter(mask) for i, stats in exact.items()}
        needed = needed_conjuncts(predicate, kept.stats, exact, len(kept))
        return Candidates(kept, needed, skipped_by_partition, len(table) - len(kept))


def concat_candidates(parts: Sequence[Candidates]) -> Candidates:
    """Concatenate parts."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Candidates(FileTable.empty())
    return Candidates(
        concat_file_tables([part.table for part in parts]),
        np.concatenate([part.needed for part in parts]),
        sum(part.skipped_by_partition for part in parts),
        sum(part.skipped_by_stats for part in parts),
    )
