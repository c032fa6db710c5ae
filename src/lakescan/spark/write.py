"""Write the rows of a Spark data frame: each task writes its own files, and the driver commits all of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakescan.expressions.predicate import Predicate
from lakescan.options.staging import Staging
from lakescan.spark.audit import staging
from lakescan.spark.distribution import clustered
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.types import schema_of_rows
from lakescan.spark.workers import in_arrow, in_one_task, own_errors, task_number, use_this_python
from lakescan.transaction.save import write_checked
from lakescan.write.table_writes import TableWrites, WrittenFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkRows:
    """The rows of a Spark data frame (`lakescan.transaction.rows.Rows`)."""

    can_repeat = True

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches that workers get."""
        return schema_of_rows(self._frame.schema)

    @property
    def session(self) -> Staging:
        """How the frame's session stages rows."""
        return staging(self._frame.sparkSession)

    @property
    def executor(self) -> SparkExecutor:
        """The workers of the frame's session."""
        return SparkExecutor(self._frame.sparkSession)

    def write(self, writes: TableWrites, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Write in Spark's tasks. A failed task removes its files; a killed one leaves orphan files."""
        use_this_python(self._frame.sparkSession)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            written = write_checked(writes, batches, write_id, where, task_number())
            files = [pickle.dumps(file, protocol=5) for file in written]
            yield pa.RecordBatch.from_pydict({"file": pa.array(files, pa.binary())})

        with own_errors():
            frame = clustered(self._frame, writes)
            frame = in_one_task(self._frame.sparkSession, frame) if writes.rules else frame
            rows = in_arrow(frame, write, "file binary").collect()
        return [pickle.loads(row["file"]) for row in rows]
