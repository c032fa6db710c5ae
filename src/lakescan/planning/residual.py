"""Residuals: what of the filter still has to run on the rows of each file.

A conjunct that a file's statistics prove for every row is left out there. Files that need the same conjuncts share one
residual, so a plan holds a handful of predicates, however many files it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakescan.expressions.predicate import Predicate, conjunction, conjuncts
from lakescan.planning.prune import Stats, must_match

# One bit a conjunct; past this many the rest is always run.
_MOST_CONJUNCTS = 62


@dataclass(frozen=True)
class Residuals:
    """`predicates`, and for each file the number of its own."""

    predicates: tuple[Predicate, ...]
    index: pa.Array


def residuals(predicate: Predicate, stats: Stats, rows: int, proven: list[pa.Array] | None = None) -> Residuals:
    """The residual of each of `rows` files.

    `proven` may add, a conjunct each, masks of the files for which partition values prove the conjunct.
    """
    parts = conjuncts(predicate)
    needed = np.zeros(rows, dtype=np.int64)
    for bit, part in enumerate(parts[:_MOST_CONJUNCTS]):
        proved = must_match(part, stats, rows).to_numpy(zero_copy_only=False)
        if proven is not None:
            proved = proved | proven[bit].to_numpy(zero_copy_only=False)
        needed |= np.where(proved, 0, 1 << bit)
    codes, index = np.unique(needed, return_inverse=True)
    always = parts[_MOST_CONJUNCTS:]
    predicates = tuple(
        conjunction([p for bit, p in enumerate(parts[:_MOST_CONJUNCTS]) if code & (1 << bit)] + always)
        for code in codes.tolist()
    )
    return Residuals(predicates, pa.array(index.reshape(-1), pa.int32()))
