"""Row counts from metadata, for files of which every row matches the filter and the number of deleted rows is known."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.expressions.predicate import TRUE
from lakescan.planning.delete_file import DeleteKind
from lakescan.planning.plan import ScanPlan


def rows_by_metadata(plan: ScanPlan) -> tuple[int, pa.Array]:
    """Return the number of rows in files that metadata can count, and a mask of the files that must be read instead.

    Metadata can count a file without a residual whose record count is known and whose deletes are all deletion vectors
    of known cardinality. Position deletes may name a row twice, and equality deletes may match no row.
    """
    files, deletes = plan.files, plan.deletes
    counts = pc.fill_null(files["record_count"], -1).to_numpy()
    unknown = counts < 0
    is_true = np.array([residual == TRUE for residual in plan.residuals], dtype=bool)
    splits = plan.splits
    unknown[splits["file"].to_numpy()[~is_true[splits["residual"].to_numpy()]]] = True
    references = plan.table.references
    cardinality = pc.fill_null(deletes["record_count"], -1).to_numpy()
    is_vector = pc.equal(deletes["kind"], DeleteKind.VECTOR).to_numpy(zero_copy_only=False)
    # A cardinality of 0 is not plausible: writers write no empty vectors.
    unknown |= references.has_equality | references.has(~is_vector | (cardinality <= 0))
    deleted = references.sums(cardinality)
    # More deleted rows than rows: one of the counts is wrong, so read the files.
    unknown |= deleted > counts
    return int((counts - deleted)[~unknown].sum()), pa.array(unknown)
