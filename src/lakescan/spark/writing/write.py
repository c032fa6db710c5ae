"""Write the rows of a Spark data frame: each task writes its own files, and the driver commits all of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from lakescan.common.references import backquote
from lakescan.expressions.predicate import Predicate
from lakescan.options.session_settings import SessionSettings
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.types import schema_of_rows
from lakescan.spark.wap import settings_of_session
from lakescan.spark.workers import task_number, translate_worker_errors, use_one_task, use_this_python
from lakescan.spark.writing.arrow_batches import ArrowTransfer
from lakescan.spark.writing.row_widths import row_width
from lakescan.statements.rows.change_query import ACTION_AT, FILE_AT, ChangeQuery
from lakescan.statements.syntax.dml import MergeAction
from lakescan.tables.commit_files import check_and_write
from lakescan.writing.partition_key import partition_codes
from lakescan.writing.table_writes import TableWrites, WrittenFile
from lakescan.writing.upserts import UpsertFiles, write_newest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ROW, _RANK = "__lakescan_row", "__lakescan_rank"


class SparkRows:
    """The rows of a Spark data frame to write (implements `lakescan.tables.rows.Rows`)."""

    can_repeat = True

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the batches that workers get.

        Raises `UnsupportedFeature` for types that cannot be written.
        """
        return schema_of_rows(self._frame.schema)

    @property
    def session(self) -> SessionSettings:
        """The staging settings of the frame's session."""
        return settings_of_session(self._frame.sparkSession)

    @property
    def executor(self) -> SparkExecutor:
        """An executor on the workers of the frame's session."""
        return SparkExecutor(self._frame.sparkSession)

    def write(self, writes: TableWrites, write_id: str, where: Predicate | None) -> Sequence[WrittenFile]:
        """Write the rows in Spark tasks; return the written files.

        Raises `SchemaMismatch` for a row that does not match `where`. A failed task removes its files, a killed one
        does not.
        """
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
        """Write the last row of each key in Spark tasks, and the deletes of the keys (`keys`); return the files.

        The order of rows is that of the frame's partitions, and the order within these. A task gets all rows of its
        keys.
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
    """Return the last row of each key in a frame, in the order of its partitions and of rows within these.

    If a key column is missing, the frame becomes one partition, and the writer raises the error.
    """
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


_CODE = "__lakescan_partition"
_SHORT = 256  # bytes; longer values are null when partitions are computed


def cluster_rows(frame: DataFrame, writes: TableWrites) -> DataFrame:
    """Shuffle new rows by their partition, if the table's distribution mode requires it.

    Else return the frame unchanged.
    """
    if not writes.is_clustered:
        return frame
    by_name = {name.lower(): column for name, column in zip(frame.columns, _short_values(frame), strict=True)}
    sources = {name: by_name[name.lower()] for name in writes.partition_sources if name.lower() in by_name}
    if not sources:
        return frame
    return _rebalance(frame, _partition_code(writes, sources))


def cluster_changes(frame: DataFrame, query: ChangeQuery, writes: TableWrites) -> DataFrame:
    """Shuffle the rows of a statement's query (`query`) if the table's distribution mode requires it.

    New and changed rows are shuffled by their partition, rows that are only deleted by their file.
    """
    if not writes.is_clustered:
        return frame
    writing = {n: each for n, each in query.actions.items() if each.action != MergeAction.DELETE}
    columns, short = [F.col(backquote(name)) for name in frame.columns], _short_values(frame)
    sources = {}
    for name in writes.partition_sources:
        values = [(n, short[each.values[name]]) for n, each in writing.items() if name in each.values]
        if values:
            sources[name] = F.coalesce(*(F.when(columns[ACTION_AT] == n, value) for n, value in values))
    if not sources:
        return frame
    # Rows that are only deleted are not written: they are distributed by their files.
    is_written = columns[ACTION_AT].isin(*writing)
    return _rebalance(
        frame, F.when(is_written, _partition_code(writes, sources)).otherwise(F.xxhash64(columns[FILE_AT]))
    )


def _short_values(frame: DataFrame) -> list[Column]:
    """Return the frame's columns with long values replaced by null, so that batches of partition sources stay small.

    So all rows with long values go to the same task.
    """
    found = []
    for field in frame.schema.fields:
        name = backquote(field.name)
        width = row_width([field.dataType], [name])
        is_short = F.expr(f"{' + '.join(width.variable)} <= {_SHORT}") if width is not None and width.variable else None
        found.append(F.col(name) if is_short is None else F.when(is_short, F.col(name)))
    return found


def _partition_code(writes: TableWrites, sources: Mapping[str, Column]) -> Column:
    """Return a Spark column with a number that is equal for all rows of a partition.

    `sources` are its columns by name.
    """
    names = list(sources)

    def lakescan_code(*columns: pa.Array) -> pa.Array:
        return partition_codes(writes, dict(zip(names, columns, strict=True)))

    return F.arrow_udf(lakescan_code, "long")(*sources.values())


def _rebalance(frame: DataFrame, code: Column) -> DataFrame:
    """Shuffle rows by the number `code`; Spark merges small shuffle partitions and splits large ones."""
    return frame.withColumn(_CODE, code).hint("rebalance", _CODE).drop(_CODE)
