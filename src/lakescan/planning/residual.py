"""Residuals: the part of the filter that must be evaluated on the rows of each file.

A conjunct that a file's statistics prove for every row is dropped for that file. Files that need the same conjuncts
share one residual, so a plan has few residuals, however many files it has.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.predicate import Predicate, conjunction, conjuncts
from lakescan.planning.prune import Stats, must_match

# One bit of an int64 per conjunct; further conjuncts are always evaluated.
MOST_CONJUNCTS = 62


@dataclass(frozen=True)
class Residuals:
    """The distinct residuals (`predicates`), and for each file the number of its residual in them (`index`)."""

    predicates: tuple[Predicate, ...]
    index: pa.Array


def needed_conjuncts(predicate: Predicate, stats: Stats, exact: Stats, rows: int) -> np.ndarray:
    """Return, for each of `rows` files, a bit mask of the conjuncts to evaluate on its rows.

    Bit 0 is the first conjunct. A conjunct is not needed if statistics, or exact partition values, prove that every row
    matches. Conjuncts beyond the first `MOST_CONJUNCTS` have no bit, and are always evaluated.
    """
    needed = np.zeros(rows, dtype=np.int64)
    for bit, part in enumerate(conjuncts(predicate)[:MOST_CONJUNCTS]):
        proved = pc.or_(must_match(part, stats, rows), must_match(part, exact, rows))
        needed |= np.where(proved.to_numpy(zero_copy_only=False), 0, 1 << bit)
    return needed


def residuals(predicate: Predicate, needed: np.ndarray) -> Residuals:
    """Return the residual of each file, given its bit mask of needed conjuncts (see `needed_conjuncts`)."""
    parts = conjuncts(predicate)
    if len(needed) and not needed.any():  # for example without a filter
        return Residuals((conjunction(parts[MOST_CONJUNCTS:]),), pa.array(np.zeros(len(needed), dtype=np.int32)))
    codes, index = np.unique(needed, return_inverse=True)
    always = parts[MOST_CONJUNCTS:]
    predicates = tuple(
        conjunction([p for bit, p in enumerate(parts[:MOST_CONJUNCTS]) if code & (1 << bit)] + always)
        for code in codes.tolist()
    )
    return Residuals(predicates, pa.array(index.reshape(-1), pa.int32()))
