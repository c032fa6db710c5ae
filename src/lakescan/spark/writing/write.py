"""Write the rows of a Spark data frame: each task writes its own files, and the driver commits all of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakescan.common.references import backquote
from lakescan.expressions.predicate import Predicate
from lakescan.options.session_settings import SessionSettings
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.source.audit import settings_of_session
from lakescan.spark.types import schema_of_rows
from lakescan.spark.workers import task_number, translate_worker_errors, use_one_task, use_this_python
from lakescan.spark.writing.arrow_batches import ArrowTransfer
from lakescan.spark.writing.distribution import cluster_rows
from lakescan.tables.save import check_and_write
from lakescan.writing.table_writes import TableWrites, WrittenFile
from lakescan.writing.upserts import UpsertFiles, write_newest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_ROW, _RANK = "__lakescan_row", "__lakescan_rank"


class SparkRows:
    """The rows of a Spark data frame (`lakescan.tables.rows.Rows`)."""

    can_repeat = True

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches that workers get."""
        return schema_of_rows(self._frame.schema)

    @property
    def session(self) -> SessionSettings:
        """How the frame's session stages rows."""
        return settings_of_session(self._frame.sparkSession)

    @property
    def executor(self) -> SparkExecutor:
        """The workers of the frame's session."""
        return SparkExecutor(self._frame.sparkSession)

    def write(self, writes: TableWrites, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Write in Spark's tasks. A failed task removes its files; a killed one leaves orphan files."""
        use_this_python(self._frame.sparkSession)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            written = check_and_write(writes, batches, write_id, where, task_number())
            files = [pickle.dumps(file, protocol=5) for file in written]
            yield pa.RecordBatch.from_pydict({"file": pa.array(files, pa.binary())})

        with translate_worker_errors():
            handed = ArrowTransfer(self._frame)
            frame = cluster_rows(self._frame, writes)
            frame = use_one_task(self._frame.sparkSession, frame) if writes.rules else frame
            rows = handed.run(handed.map_in_arrow(frame, write, "file binary"), lambda files: files.collect())
        return [pickle.loads(row["file"]) for row in rows]

    def write_newest(self, writes: TableWrites, keys: TableWrites, write_id: str) -> UpsertFiles:
        """Write the last row of each key in Spark's tasks, each of which gets all rows of its keys.

        Rows have the order of the frame's partitions, and in these their own.
        """
        use_this_python(self._frame.sparkSession)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            written = write_newest(writes, keys, batches, write_id, task_number())
            yield pa.RecordBatch.from_pydict({"files": pa.array([pickle.dumps(written, protocol=5)], pa.binary())})

        whole = UpsertFiles()
        with translate_worker_errors():
            handed = ArrowTransfer(self._frame)
            frame = last_rows(self._frame, keys.schema.names)
            frame = use_one_task(self._frame.sparkSession, frame) if writes.rules else frame
            for row in handed.run(handed.map_in_arrow(frame, write, "files binary"), lambda files: files.collect()):
                whole.add(pickle.loads(row["files"]))
        return whole


def last_rows(frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The rows of a frame of which no later row has the same key."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    by_name = {name.lower(): name for name in frame.columns}
    columns = [F.col(backquote(by_name[key.lower()])) for key in keys if key.lower() in by_name]
    if len(columns) < len(keys):  # the writer raises an error for columns that are missing
        return frame.coalesce(1)
    names = [F.col(backquote(name)) for name in frame.columns]
    numbered = frame.select(*names, F.monotonically_increasing_id().alias(_ROW))
    window = Window.partitionBy(*columns).orderBy(F.col(_ROW).desc())
    ranked = numbered.withColumn(_RANK, F.row_number().over(window))
    return ranked.where(F.col(_RANK) == 1).select(*names)
