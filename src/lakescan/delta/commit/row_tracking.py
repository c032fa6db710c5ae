"""Assign row ids to added files (protocol, "Row Tracking"): each file gets as many ids as it has rows.

Rows that are moved to another file keep their ids in columns of the new file (`DeltaWrites.lineage_writes`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.log.json_lines import parse_json_texts
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.errors import UnsupportedFeature

_ROWS = pa.schema([pa.field("numRecords", pa.int64())])

PRESERVED = {"delta.rowTracking.preserved": "true"}  # tags of a commit that keeps the ids of all rows


def needs_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Return whether new files get row ids.

    Like Delta, raises `UnsupportedFeature` if the properties both enable and suspend row tracking.
    """
    properties = metadata.properties
    if "rowTracking" not in protocol.features or not properties.suspends_row_tracking:
        return "rowTracking" in protocol.features
    if properties.row_tracking:
        raise UnsupportedFeature(
            "row tracking that is enabled and suspended",
            f"Set one of {type(properties).row_tracking.name} and {type(properties).suspends_row_tracking.name} "
            "to false.",
        )
    return False


def assign_row_ids(added: pa.Table, mark: int, version: int) -> tuple[pa.Table, int]:
    """Return add actions with `baseRowId` and `defaultRowCommitVersion`, and the highest row id in use after them.

    `mark` is the highest row id before, -1 for none. Files that have ids keep them. Raises `UnsupportedFeature` for
    files without a row count.
    """
    new = added["baseRowId"].is_null().combine_chunks()
    rows = parse_json_texts(added["stats"].combine_chunks(), _ROWS)["numRecords"].combine_chunks()
    if pc.any(pc.and_(new, rows.is_null())).as_py():
        raise UnsupportedFeature("adding files without statistics to a Delta table with row tracking")
    counts = pc.if_else(new, rows, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    first = mark + 1 + np.cumsum(counts) - counts
    ids = pc.if_else(new, pa.array(first, pa.int64()), added["baseRowId"].combine_chunks())
    versions = pc.fill_null(added["defaultRowCommitVersion"], version)
    names = added.column_names
    added = added.set_column(names.index("baseRowId"), "baseRowId", ids)
    added = added.set_column(names.index("defaultRowCommitVersion"), "defaultRowCommitVersion", versions)
    return added, mark + int(counts.sum())
