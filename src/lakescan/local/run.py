"""Running a scan in this process, by a few threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from lakescan.local.reader import default_readers, read_batches
from lakescan.reading.context import BATCH_SIZE
from lakescan.tables.scan_spec import ScanSpec

_FEW = 4_096  # rows


def scan_batches(
    spec: ScanSpec, batch_size: int = BATCH_SIZE, *, keeps_dictionaries: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a scan as record batches, read while the rest is planned; `batch_size` is the maximum of rows.

    With `keeps_dictionaries`, columns of texts and bytes may be dictionary arrays, in some batches.
    """
    if spec.max_rows is not None:  # a batch is decoded as a whole
        batch_size = min(batch_size, max(spec.max_rows, _FEW))
    plans = spec.prune_deletes().plan_parts(default_readers())
    read = partial(spec.read_context, batch_size=batch_size, keeps_dictionaries=keeps_dictionaries)
    contexts = ((plan, read(plan)) for plan in plans)
    return read_batches(contexts, limit=spec.max_rows)
