"""Read a plan made by the driver: its task groups are sent to Spark's workers as rows, one per Spark partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as s

from lakescan.common.metadata_columns import FILE
from lakescan.planning.group_rows import PLACE, GroupRows
from lakescan.planning.plan import ScanPlan
from lakescan.reading.reader import read_group
from lakescan.spark.session import parallelism
from lakescan.spark.types import as_spark_batch, schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakescan.tables.scan_spec import ScanSpec


def read_plan(spark: SparkSession, scan: ScanSpec, plan: ScanPlan, numbered: pa.Array | None = None) -> DataFrame:
    """The rows of a plan, read through Arrow; the column `_file` is a place in `numbered`, if these paths are given."""
    context, schema = scan.read_context(plan), schema_of(scan)
    shared = plan.groups.merge_groups(parallelism(spark)).join_splits()
    numbers = [] if numbered is None else [n for n, each in enumerate(context.output.fields) if each.id == FILE.id]
    returned = s.StructType(
        [s.StructField(each.name, s.IntegerType()) if n in numbers else each for n, each in enumerate(schema.fields)]
    )
    if not len(shared):
        return spark.createDataFrame([], returned)

    table, rows_of = GroupRows.encode_groups(shared, numbered if numbers else None)

    def lakescan_read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for group in rows_of.groups(batch):
                for rows in read_group(group, context):
                    found = as_spark_batch(rows, context.output.fields, schema)
                    for n in numbers:
                        place = pc.index_in(rows.column(n), value_set=group.splits["path"])
                        number = group.splits[PLACE].combine_chunks().take(place)
                        found = found.set_column(n, found.schema.field(n).name, number)
                    yield found

    # From one partition, rows go round the others in turn: each gets one group.
    sent = spark.createDataFrame(table).coalesce(1).repartition(len(shared))
    frame = sent.mapInArrow(lakescan_read, returned)
    return frame if plan.limit is None else frame.limit(plan.limit)
