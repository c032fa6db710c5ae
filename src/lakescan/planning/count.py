"""Counting rows by metadata: exact where every row of a file is known to match, and its deletes to be so many."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.predicate import TRUE
from lakescan.planning.file_table import VECTOR
from lakescan.planning.plan import ScanPlan


def rows_by_metadata(plan: ScanPlan) -> tuple[int, pa.Array]:
    """The rows of files that need not be read to be counted, and a mask of the files that have to be.

    A file is counted if no residual is left for it, its record count is known, and it has no deletes but deletion
    vectors of known cardinality: position deletes may name a row twice, equality deletes may hit none.
    """
    files, deletes = plan.files, plan.deletes
    counts = pc.fill_null(files["record_count"], -1).to_numpy()
    unknown = counts < 0
    is_true = np.array([residual == TRUE for residual in plan.residuals], dtype=bool)
    splits = plan.splits
    unknown[splits["file"].to_numpy()[~is_true[splits["residual"].to_numpy()]]] = True
    lists = files["deletes"].combine_chunks()
    owner = pc.list_parent_indices(lists).to_numpy()
    referenced = lists.flatten()
    cardinality = pc.fill_null(deletes["record_count"].take(referenced), -1).to_numpy()
    is_vector = pc.equal(deletes["kind"].take(referenced), VECTOR).to_numpy()
    unknown[owner[~is_vector | (cardinality <= 0)]] = True  # a vector that deletes nothing is not written
    deleted = np.bincount(owner, weights=cardinality, minlength=len(counts)).astype(np.int64)
    # One of the two is wrong where a vector deletes more than there is: what is in the files tells.
    unknown |= deleted > counts
    return int((counts - deleted)[~unknown].sum()), pa.array(unknown)
