"""Write the rows of a Spark data frame: each task writes its own files, and the driver commits all of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.functions import arrow_udf, col

from lakescan.common.references import quoted
from lakescan.expressions.predicate import Predicate
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.types import schema_of_rows
from lakescan.spark.workers import task_number, use_this_python
from lakescan.transaction.base import Target
from lakescan.transaction.save import write_checked
from lakescan.write.clustering import partition_codes
from lakescan.write.table_writes import TableWrites, WrittenFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CODE = "__lakescan_partition"


class SparkRows:
    """The rows of a Spark data frame (`lakescan.transaction.rows.Rows`)."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches that workers get."""
        return schema_of_rows(self._frame.schema)

    @property
    def executor(self) -> SparkExecutor:
        """The workers of the frame's session."""
        return SparkExecutor(self._frame.sparkSession)

    def write(self, target: Target, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Write in Spark's tasks. A failed task removes its files; a killed one leaves orphan files."""
        use_this_python(self._frame.sparkSession)
        writes = target.writes

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            written = write_checked(writes, batches, write_id, where, task_number())
            files = [pickle.dumps(file, protocol=5) for file in written]
            yield pa.RecordBatch.from_pydict({"file": pa.array(files, pa.binary())})

        frame = _clustered(self._frame, writes) if writes.is_clustered else self._frame
        rows = frame.mapInArrow(write, "file binary").collect()
        return [pickle.loads(row["file"]) for row in rows]


def _clustered(frame: DataFrame, writes: TableWrites) -> DataFrame:
    """The frame, shuffled by partition; Spark merges small shuffle partitions and splits large ones."""
    columns_by_name = {name.lower(): name for name in frame.columns}
    names = [name for name in dict.fromkeys(writes.partition_sources) if name.lower() in columns_by_name]
    if not names:
        return frame

    def code(*columns: pa.Array) -> pa.Array:
        return partition_codes(writes, dict(zip(names, columns, strict=True)))

    sources = [col(quoted(columns_by_name[name.lower()])) for name in names]
    with_code = frame.withColumn(_CODE, arrow_udf(code, "long")(*sources))
    return with_code.hint("rebalance", _CODE).drop(_CODE)
