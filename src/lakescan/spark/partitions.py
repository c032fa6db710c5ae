"""Task groups as the partitions of Python data sources: each carries what reading it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from lakescan.planning.plan import TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.reader import read_group
from lakescan.scan import Scan
from lakescan.spark.types import as_spark_batch


@dataclass
class GroupPartition(InputPartition):
    """A task group, with what is needed to read it."""

    group: TaskGroup
    context: ReadContext


def group_partitions(scan: Scan, parallelism: int) -> list[InputPartition]:
    """The task groups of a scan, planned here."""
    plan = scan.plan(parallelism=parallelism)
    context = scan.read_context(plan)
    return [GroupPartition(group, context) for group in plan.groups.sharing_deletes(parallelism)]


def read_partition(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a group as batches of Spark's Arrow schema; none of Spark's stand-in for a plan without groups."""
    if isinstance(partition, GroupPartition):
        for batch in read_group(partition.group, partition.context):
            yield as_spark_batch(batch, partition.context.output.fields, schema)
