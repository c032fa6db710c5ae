"""Tombstones of deletion vector files, which keep them from writers that do not know deletion vectors.

Such a writer's VACUUM removes files of the folder that no action names by its path. Before a table loses the feature,
the vectors of files that were removed lately are therefore named by `remove` actions of their own.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from lakescan.common.timestamps import to_millis
from lakescan.delta.commit.file_changes import REMOVE, log_paths, table_of
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.maintenance.referenced_files import vectors_of_removed
from lakescan.storage import Storage


def vector_tombstones(version: DeltaVersion, storage: Storage) -> pa.Table:
    """The `remove` actions (`REMOVE`) that a version lacks; raises `CorruptMetadata` and `StorageError`."""
    now = datetime.now(UTC)
    cutoff = to_millis(now - version.metadata.properties.removed_file_retention)
    paths = log_paths(vectors_of_removed(version.segment.location, storage, cutoff))
    rows = len(paths)
    columns = {"path": paths, "deletionTimestamp": [to_millis(now)] * rows, "dataChange": [False] * rows}
    return table_of(columns, REMOVE, rows)
