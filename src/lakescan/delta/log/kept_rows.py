"""Filter arrays of which most rows are kept, in long runs, as in logs: copy whole runs instead of single rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_SHORT = 32  # average rows per run below which Arrow's own filter is faster


def keep_values(array: pa.Array, mask: np.ndarray) -> pa.Array:
    """The values for which the mask is true."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    if len(edges) == 2 and edges[1] - edges[0] == len(array):
        return array
    if len(edges) * _SHORT > len(array):
        return array.filter(pa.array(mask))
    runs = [array.slice(start, stop - start) for start, stop in edges.reshape(-1, 2).tolist()]
    return pa.concat_arrays(runs) if runs else array.slice(0, 0)


def keep_rows(table: pa.Table, mask: np.ndarray) -> pa.Table:
    """The rows for which the mask is true, chunk by chunk, so that large texts are never concatenated."""
    if mask.all():
        return table
    if not mask.any():
        return table.slice(0, 0)
    return pa.table([_keep_chunks(column, mask) for column in table.columns], schema=table.schema)


def _keep_chunks(column: pa.ChunkedArray, mask: np.ndarray) -> pa.ChunkedArray:
    starts = np.cumsum([0, *(len(c) for c in column.chunks)]).tolist()
    chunks = [keep_values(c, mask[s : s + len(c)]) for c, s in zip(column.chunks, starts[:-1], strict=True)]
    return pa.chunked_array(chunks, column.type)
