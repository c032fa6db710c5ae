"""Read a plan made by the driver: its task groups are sent to Spark's workers as rows, one per Spark partition."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as s

from lakescan.common.metadata_columns import FILE
from lakescan.planning.plan import ScanPlan
from lakescan.planning.task_groups import TaskGroup
from lakescan.reading.reader import read_group
from lakescan.spark.session import parallelism
from lakescan.spark.types import as_spark_batch, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakescan.scan_spec import ScanSpec


def read_planned(spark: SparkSession, scan: ScanSpec, plan: ScanPlan, numbered: pa.Array | None = None) -> DataFrame:
    """The rows of a plan, read through Arrow; the column `_file` is a place in `numbered`, if these paths are given."""
    context, schema = scan.read_context(plan), schema_of(scan)
    shared = plan.groups.sharing_deletes(parallelism(spark))
    numbers = [] if numbered is None else [n for n, each in enumerate(context.output.fields) if each.id == FILE.id]
    returned = s.StructType(
        [s.StructField(each.name, s.IntegerType()) if n in numbers else each for n, each in enumerate(schema.fields)]
    )
    if not len(shared):
        return spark.createDataFrame([], returned)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data, places in zip(batch.column(0), batch.column(1), strict=True):
                group = pickle.loads(data.as_py())
                for rows in read_group(group, context):
                    found = as_spark_batch(rows, context.output.fields, schema)
                    for n in numbers:
                        number = places.values.take(pc.index_in(rows.column(n), value_set=_paths_of(group)))
                        found = found.set_column(n, found.schema.field(n).name, number)
                    yield found

    packed = pa.array((pickle.dumps(group, protocol=5) for group in shared), pa.binary())
    at: list[Any] = [pc.index_in(_paths_of(group), value_set=numbered) if numbers else None for group in shared]
    rows = pa.table([packed, pa.array(at, pa.list_(pa.int32()))], ["group", "places"])
    frame = spark.createDataFrame(rows).repartition(len(shared)).mapInArrow(read, returned)
    return frame if plan.limit is None else frame.limit(plan.limit)


def _paths_of(group: TaskGroup) -> pa.Array:
    return group.splits["path"].combine_chunks().unique()
