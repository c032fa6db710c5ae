"""Upserts that do not read the table, by Spark's workers."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.spark.workers import use_this_python
from lakescan.spark.writing.arrow_batches import HandedRows
from lakescan.statements.rows.equality_upserts import check_whole, commit_upserts
from lakescan.tables.base import Target
from lakescan.tables.results import ChangeResult
from lakescan.writing.partitioned_writer import new_write_id, remove_written
from lakescan.writing.table_writes import TableWrites
from lakescan.writing.upserts import Upserted, UpsertWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def upsert_rows(target: Target, frame: DataFrame, keys: Sequence[str], deletes: str, *others: str) -> ChangeResult:
    """Upsert rows, each key once; those where the column `deletes` is true delete their keys.

    The columns `others` are not written.
    """
    check_whole(target, frame.columns)
    use_this_python(frame.sparkSession)
    writes, of_keys, write_id = target.writes, target.key_writes(keys), new_write_id()
    frame, written = frame.drop(*others), Upserted()
    try:
        handed = HandedRows(frame)
        files = handed.in_arrow(frame, _writing(writes, of_keys, write_id, deletes), "files binary")
        for row in handed.run(files, lambda files: files.collect()):
            written.add(pickle.loads(row["files"]))
    except BaseException:
        remove_written(writes, write_id)
        raise
    return commit_upserts(target, written)


def _writing(rows: TableWrites, keys: TableWrites, write_id: str, deletes: str) -> Any:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = UpsertWriter(rows, keys, write_id, deletes)
        try:
            for batch in batches:
                writer.take(batch)
            files = writer.close()
        except BaseException:
            writer.undo()
            raise
        yield pa.RecordBatch.from_pydict({"files": pa.array([pickle.dumps(files, protocol=5)], pa.binary())})

    return write
