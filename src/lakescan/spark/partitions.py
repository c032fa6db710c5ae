"""Task groups as the partitions of Python data sources: each carries what reading it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from lakescan.changes import Changes, has_both
from lakescan.common.metadata_columns import CHANGE
from lakescan.planning.plan import TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.net_changes import without_carry_overs
from lakescan.reading.reader import read_group
from lakescan.scan_spec import ScanSpec
from lakescan.spark.types import as_spark_batch


@dataclass
class GroupPartition(InputPartition):
    """A task group, with what is needed to read it."""

    group: TaskGroup
    context: ReadContext


@dataclass
class CommitPartition(InputPartition):
    """The changes of one commit that deletes and inserts rows: those that cancel each other have to meet."""

    groups: list[TaskGroup]
    context: ReadContext
    columns: tuple[str, ...]


@dataclass
class LimitedPartition(InputPartition):
    """Task groups that are read one after the other, until there are as many rows as the scan may return."""

    groups: list[TaskGroup]
    context: ReadContext
    rows: int


def group_partitions(scan: ScanSpec, parallelism: int, changes: Changes | None = None) -> list[InputPartition]:
    """The task groups of a scan, planned here; of the changes of a commit one, where rows may cancel each other."""
    plan = scan.plan(parallelism)
    context = scan.read_context(plan)
    groups = plan.groups.sharing_deletes(parallelism)
    if plan.limit is not None:
        return [LimitedPartition(list(groups), context, plan.limit)]
    if changes is not None and has_both(plan):
        return [CommitPartition(list(groups), context, changes.data_columns)]
    return [GroupPartition(group, context) for group in groups]


def read_partition(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a group as batches of Spark's Arrow schema; none of Spark's stand-in for a plan without groups."""
    if isinstance(partition, GroupPartition):
        batches = read_group(partition.group, partition.context)
    elif isinstance(partition, CommitPartition):
        batches = _net(partition)
    elif isinstance(partition, LimitedPartition):
        batches = _first_rows(partition)
    else:
        return
    for batch in batches:
        yield as_spark_batch(batch, partition.context.output.fields, schema)


def _first_rows(partition: LimitedPartition) -> Iterator[pa.RecordBatch]:
    left = partition.rows
    for group in partition.groups:
        for batch in read_group(group, partition.context):
            if not left:
                return
            yield batch.slice(0, left)
            left -= min(left, batch.num_rows)


def _net(partition: CommitPartition) -> Iterator[pa.RecordBatch]:
    found = chain.from_iterable(read_group(group, partition.context) for group in partition.groups)
    rows = pa.Table.from_batches(found, schema=partition.context.output.arrow())
    yield from without_carry_overs(rows, CHANGE.name, partition.columns).to_batches()
