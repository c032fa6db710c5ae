"""Read a plan made by the driver: its task groups are sent to Spark's workers as rows, one per Spark partition."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from lakescan.planning.plan import ScanPlan
from lakescan.reading.reader import read_group
from lakescan.spark.session import parallelism
from lakescan.spark.types import as_spark_batch, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakescan.scan_spec import ScanSpec


def read_planned(spark: SparkSession, scan: ScanSpec, plan: ScanPlan) -> DataFrame:
    """The rows of a plan, read through Arrow."""
    context, schema = scan.read_context(plan), schema_of(scan)
    shared = plan.groups.sharing_deletes(parallelism(spark))
    if not len(shared):
        return spark.createDataFrame([], schema)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column(0):
                for rows in read_group(pickle.loads(data.as_py()), context):
                    yield as_spark_batch(rows, context.output.fields, schema)

    packed = pa.array((pickle.dumps(group, protocol=5) for group in shared), pa.binary())
    groups = spark.createDataFrame(pa.table([packed], ["group"])).repartition(len(shared))
    frame = groups.mapInArrow(read, schema)
    return frame if plan.limit is None else frame.limit(plan.limit)
