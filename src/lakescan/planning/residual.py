"""Residuals: what of the filter still has to run on the rows of each file.

A conjunct that a file's statistics prove for every row is left out there. Files that need the same conjuncts share one
residual, so a plan holds a handful of predicates, however many files it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.predicate import Predicate, conjunction, conjuncts
from lakescan.planning.prune import Stats, must_match

# One bit a conjunct; past this many the rest is always run.
_MOST_CONJUNCTS = 62


@dataclass(frozen=True)
class Residuals:
    """`predicates`, and for each file the number of its own."""

    predicates: tuple[Predicate, ...]
    index: pa.Array


def needed_conjuncts(predicate: Predicate, stats: Stats, exact: Stats, rows: int) -> np.ndarray:
    """For each of `rows` files, a bit a conjunct: whether it has to run on the file's rows.

    It need not where statistics, or the exact values of partitions, prove it for every row.
    """
    needed = np.zeros(rows, dtype=np.int64)
    for bit, part in enumerate(conjuncts(predicate)[:_MOST_CONJUNCTS]):
        proved = pc.or_(must_match(part, stats, rows), must_match(part, exact, rows))
        needed |= np.where(proved.to_numpy(zero_copy_only=False), 0, 1 << bit)
    return needed


def residuals(predicate: Predicate, needed: np.ndarray) -> Residuals:
    """The residual of each file, by the conjuncts that it needs."""
    parts = conjuncts(predicate)
    codes, index = np.unique(needed, return_inverse=True)
    always = parts[_MOST_CONJUNCTS:]
    predicates = tuple(
        conjunction([p for bit, p in enumerate(parts[:_MOST_CONJUNCTS]) if code & (1 << bit)] + always)
        for code in codes.tolist()
    )
    return Residuals(predicates, pa.array(index.reshape(-1), pa.int32()))
