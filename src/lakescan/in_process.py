"""Running a scan in this process, by a few threads."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakescan.local.reader import default_readers, read_batches
from lakescan.reading.context import BATCH_SIZE
from lakescan.scan_spec import ScanSpec


def batches(spec: ScanSpec, batch_size: int = BATCH_SIZE) -> Iterator[pa.RecordBatch]:
    """The rows of a scan as record batches, read while the rest is planned; `batch_size` is the maximum of rows."""
    plans = spec.for_reading().plan_parts(default_readers())
    contexts = ((plan, spec.read_context(plan, batch_size=batch_size)) for plan in plans)
    return read_batches(contexts, limit=spec.max_rows)
