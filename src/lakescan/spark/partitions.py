"""Task groups as partitions of Python data sources. Each partition is self-contained: it carries its read context."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from lakescan.changes import Changes, compared, has_both
from lakescan.common.metadata_columns import CHANGE
from lakescan.common.selection import Selection
from lakescan.planning.task_groups import TaskGroup
from lakescan.reading.context import ReadContext, selected_columns
from lakescan.reading.net_changes import without_carry_overs
from lakescan.reading.reader import read_group
from lakescan.scan_spec import ScanSpec
from lakescan.spark.types import as_spark_batch


@dataclass
class GroupPartition(InputPartition):
    """A task group, with the context to read it."""

    group: TaskGroup
    context: ReadContext


@dataclass
class CommitPartition(InputPartition):
    """All changes of one commit that deletes and inserts rows: changes that cancel out must meet in one task.

    `context` reads all columns: changes that are equal in `columns` cancel out. `selection` is what is returned.
    """

    groups: list[TaskGroup]
    context: ReadContext
    columns: tuple[str, ...]
    selection: Selection


@dataclass
class LimitedPartition(InputPartition):
    """All task groups of a scan with a limit, read in turn until the limit is reached."""

    groups: list[TaskGroup]
    context: ReadContext
    rows: int


def group_partitions(scan: ScanSpec, parallelism: int, changes: Changes | None = None) -> list[InputPartition]:
    """Plan a scan and return a partition per task group.

    A scan with a limit, and a commit whose deletes and inserts may cancel out (`changes`), become one partition.
    """
    scan = replace(scan.in_few_groups(), engine=("spark", pyspark.__version__))
    plan = (scan if changes is not None else scan.for_reading()).plan(parallelism)
    context = scan.read_context(plan)
    groups = plan.groups.sharing_deletes(parallelism).joining_splits()
    if plan.limit is not None:
        return [LimitedPartition(list(groups), context, plan.limit)]
    if changes is not None and has_both(plan):
        whole = compared(scan).read_context(plan)
        return [CommitPartition(list(groups), whole, changes.data_columns, scan.selection)]
    return [GroupPartition(group, context) for group in groups]


def read_partition(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a partition as batches in Spark's Arrow schema.

    For a plan without groups, Spark passes a placeholder partition, which has no rows.
    """
    if isinstance(partition, GroupPartition):
        batches = read_group(partition.group, partition.context)
    elif isinstance(partition, CommitPartition):
        batches = _net(partition)
    elif isinstance(partition, LimitedPartition):
        batches = _first_rows(partition)
    else:
        return
    output = partition.selection.output if isinstance(partition, CommitPartition) else partition.context.output
    for batch in batches:
        yield as_spark_batch(batch, output.fields, schema)


def _first_rows(partition: LimitedPartition) -> Iterator[pa.RecordBatch]:
    remaining = partition.rows
    for group in partition.groups:
        for batch in read_group(group, partition.context):
            if not remaining:
                return
            yield batch.slice(0, remaining)
            remaining -= min(remaining, batch.num_rows)


def _net(partition: CommitPartition) -> Iterator[pa.RecordBatch]:
    batches = chain.from_iterable(read_group(group, partition.context) for group in partition.groups)
    whole = partition.context.output
    rows = pa.Table.from_batches(batches, schema=whole.arrow())
    for batch in without_carry_overs(rows, CHANGE.name, partition.columns).to_batches():
        yield selected_columns(batch, whole, partition.selection)
