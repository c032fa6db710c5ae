"""Equality deletes as anti joins with the deleted keys (Iceberg spec, "Equality Delete Files").

Each delete file is decoded once, by one task, and each key keeps the newest sequence number that deletes it. A row is
deleted if its key was deleted with a newer sequence number than that of its data file. The cost grows with the number
of keys and rows, not with pairs of files, regardless of the number of commits.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakescan.common.schema import Schema
from lakescan.planning.delete_files import DeleteFile, DeleteKind, delete_files
from lakescan.planning.file_table import key_texts
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import ReadContext
from lakescan.reading.deletes.equality_deletes import read_deleted_keys
from lakescan.spark.types import as_spark_batch, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SCOPE, _SEQUENCE = "__lakescan_scope", "__lakescan_sequence"
_FILES_A_TASK = 64


class EqualityDeleteKeys:
    """The equality deletes of a plan, applied as joins.

    `keys` has the distinct tuples of field ids that delete files compare.
    """

    def __init__(self, spark: SparkSession, plan: ScanPlan, context: ReadContext) -> None:
        self._spark, self._context = spark, context
        self._deletes = plan.deletes.filter(pc.equal(plan.deletes["kind"], DeleteKind.EQUALITY))
        self.keys: list[tuple[int, ...]] = sorted({tuple(ids) for ids in self._deletes["equality_ids"].to_pylist()})

    @property
    def compared_ids(self) -> set[int]:
        """The field ids of all keys."""
        return {field_id for ids in self.keys for field_id in ids}

    def scopes(self, plan: ScanPlan, ids: tuple[int, ...]) -> pa.Array:
        """Return an Arrow array with the scope (partition) of each file's equality deletes on the fields `ids`.

        Null for files without such deletes, or only with deletes that apply to all partitions.
        """
        mine = pc.and_(_key_mask(plan.deletes, ids), pc.not_equal(plan.deletes["scope"].combine_chunks(), ""))
        references = plan.table.references
        chosen = pc.fill_null(mine, False).to_numpy(zero_copy_only=False)[references.first]
        delete = np.full(len(plan.table), -1, dtype=np.int64)
        delete[references.range_file[chosen]] = references.first[chosen]
        return plan.deletes["scope"].combine_chunks().take(pa.array(delete, mask=delete < 0))

    def drop_deleted_rows(
        self, frame: DataFrame, ids: tuple[int, ...], columns: dict[int, Column], scope: Column, sequence: Column
    ) -> DataFrame:
        """Remove the rows of a frame whose keys (the fields `ids`) were deleted with a newer sequence number.

        `columns` are the Spark columns by field id. `scope` and `sequence` are Spark columns with the delete scope and
        the sequence number of the row's data file.
        """
        deletes = self._deletes.filter(_key_mask(self._deletes, ids))
        is_global = pc.equal(deletes["scope"], "")
        for files, in_all_partitions in (
            (deletes.filter(is_global), True),
            (deletes.filter(pc.invert(is_global)), False),
        ):
            if files.num_rows:
                deleted = self._newest_deletes(files, ids)
                same = [columns[i].eqNullSafe(deleted[_key(i)]) for i in ids]
                if not in_all_partitions:
                    same.append(scope == deleted[_SCOPE])
                frame = frame.join(deleted, [*same, deleted[_SEQUENCE] > sequence], "left_anti")
        return frame

    def _newest_deletes(self, files: pa.Table, ids: tuple[int, ...]) -> DataFrame:
        """Return a frame of the keys that the delete files `files` delete, read by Spark's workers.

        Each key of a scope has one row, with the newest sequence number that deletes it.
        """
        context = self._context
        schema = Schema(tuple(context.table_schema.by_id[i] for i in ids))
        target = spark_schema(schema)
        names = [_key(i) for i in ids]
        columns = [f"{name} {field.dataType.simpleString()}" for name, field in zip(names, target.fields, strict=True)]

        def lakescan_read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for data in batch.column(0):
                    for file in pickle.loads(data.as_py()):
                        for rows in read_deleted_keys(context, file, schema):
                            yield _add_origin(as_spark_batch(rows, schema.fields, target), names, file)

        rows = delete_files(files)
        tasks = [pickle.dumps(rows[n : n + _FILES_A_TASK]) for n in range(0, len(rows), _FILES_A_TASK)]
        sent = self._spark.createDataFrame(pa.table({"files": pa.array(tasks, pa.binary())})).repartition(len(tasks))
        keys = sent.mapInArrow(lakescan_read, ", ".join([*columns, f"{_SCOPE} string", f"{_SEQUENCE} long"]))
        return keys.groupBy(_SCOPE, *names).agg(F.max(_SEQUENCE).alias(_SEQUENCE))


def _add_origin(keys: pa.RecordBatch, names: list[str], file: DeleteFile) -> pa.RecordBatch:
    """Append columns with the scope and sequence number of a delete file to its keys, whose columns get `names`."""
    scope = pa.repeat(pa.scalar(file.scope, pa.string()), keys.num_rows)
    sequence = pa.repeat(pa.scalar(file.age, pa.int64()), keys.num_rows)
    return pa.RecordBatch.from_arrays([*keys.columns, scope, sequence], names=[*names, _SCOPE, _SEQUENCE])


def _key(field_id: int) -> str:
    return f"__lakescan_key_{field_id}"


def _key_mask(deletes: pa.Table, ids: tuple[int, ...]) -> pa.Array:
    """Return a mask (an Arrow array) of the deletes that compare exactly the fields `ids`."""
    return pc.equal(key_texts(deletes), ",".join(map(str, ids)))
