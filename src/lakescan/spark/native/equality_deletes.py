"""Equality deletes as joins: every deleted key with the newest sequence number that deletes it, made once a query.

Each delete file is decoded once, by one task; a row goes where its key was deleted after its file was written. The cost
grows with the keys and the rows, not with pairs of files, whatever number of commits they came in.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from lakescan.common.schema import Schema
from lakescan.planning.file_table import EQUALITY, key_texts
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import ReadContext
from lakescan.reading.deletes.equality import read_deleted_keys
from lakescan.spark.types import as_spark_batch, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_SCOPE, _SEQUENCE = "__lakescan_scope", "__lakescan_sequence"
_FILES_A_TASK = 64


class DeletedKeys:
    """The equality deletes of a plan, by the columns that they compare."""

    def __init__(self, spark: SparkSession, plan: ScanPlan, context: ReadContext) -> None:
        self._spark, self._context = spark, context
        self._deletes = plan.deletes.filter(pc.equal(plan.deletes["kind"], EQUALITY))
        self.keys = sorted({tuple(ids) for ids in self._deletes["equality_ids"].to_pylist()})

    @property
    def compared(self) -> set[int]:
        """The field ids of all keys."""
        return {field_id for ids in self.keys for field_id in ids}

    def scopes(self, plan: ScanPlan, ids: tuple[int, ...]) -> pa.Array:
        """For each file of the plan, the partition in which deletes by these columns apply to it; null for none."""
        lists = plan.files["deletes"].combine_chunks()
        owner, referenced = pc.list_parent_indices(lists), lists.flatten()
        mine = pc.and_(_by(plan.deletes, ids), pc.not_equal(plan.deletes["scope"].combine_chunks(), ""))
        chosen = pc.fill_null(mine, False).take(referenced)
        found = pa.table({"file": owner.filter(chosen), "scope": plan.deletes["scope"].take(referenced.filter(chosen))})
        first = found.group_by("file").aggregate([("scope", "min")])
        place = pc.index_in(pa.array(range(len(plan.table)), owner.type), value_set=first["file"].combine_chunks())
        return first["scope_min"].combine_chunks().take(place)

    def without_deleted(
        self, frame: DataFrame, ids: tuple[int, ...], columns: dict[int, Column], scope: Column, sequence: Column
    ) -> DataFrame:
        """The rows of the frame whose keys were not deleted after their file was written."""
        named = self._deletes.filter(_by(self._deletes, ids))
        everywhere = pc.equal(named["scope"], "")
        for some, is_everywhere in ((named.filter(everywhere), True), (named.filter(pc.invert(everywhere)), False)):
            if some.num_rows:
                deleted = self._newest(some, ids)
                same = [columns[i].eqNullSafe(deleted[_key(i)]) for i in ids]
                if not is_everywhere:
                    same.append(scope == deleted[_SCOPE])
                frame = frame.join(deleted, [*same, deleted[_SEQUENCE] > sequence], "left_anti")
        return frame

    def _newest(self, files: pa.Table, ids: tuple[int, ...]) -> DataFrame:
        """Each deleted key in each place, with the newest sequence number that deletes it there."""
        context = self._context
        schema = Schema(tuple(context.table_schema.by_id[i] for i in ids))
        target = spark_schema(schema)
        names = [_key(i) for i in ids]
        columns = [f"{name} {field.dataType.simpleString()}" for name, field in zip(names, target.fields, strict=True)]

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for data in batch.column(0):
                    for file in pickle.loads(data.as_py()):
                        for rows in read_deleted_keys(context, file, schema):
                            yield _with_origin(as_spark_batch(rows, schema.fields, target), names, file)

        rows = files.to_pylist()
        tasks = [pickle.dumps(rows[n : n + _FILES_A_TASK]) for n in range(0, len(rows), _FILES_A_TASK)]
        sent = self._spark.createDataFrame(pa.table({"files": pa.array(tasks, pa.binary())})).repartition(len(tasks))
        found = sent.mapInArrow(read, ", ".join([*columns, f"{_SCOPE} string", f"{_SEQUENCE} long"]))
        return found.groupBy(_SCOPE, *names).agg(F.max(_SEQUENCE).alias(_SEQUENCE))


def _with_origin(keys: pa.RecordBatch, names: list[str], file: dict[str, Any]) -> pa.RecordBatch:
    """Keys with the place and sequence number of the file that they are of."""
    scope = pa.repeat(pa.scalar(file["scope"], pa.string()), keys.num_rows)
    sequence = pa.repeat(pa.scalar(file["sequence_number"], pa.int64()), keys.num_rows)
    return pa.RecordBatch.from_arrays([*keys.columns, scope, sequence], names=[*names, _SCOPE, _SEQUENCE])


def _key(field_id: int) -> str:
    return f"__lakescan_key_{field_id}"


def _by(deletes: pa.Table, ids: tuple[int, ...]) -> pa.Array:
    """Which deletes compare just these fields."""
    return pc.equal(key_texts(deletes), ",".join(map(str, ids)))
