"""Task groups as partitions of Python data sources.

Tasks also need a read context, which grows with the number of columns. A batch reader carries it once for all of its
partitions (`SharedContext`). Where Spark pickles the reader before there is a plan, as for streams, each partition
carries it.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql import types as s
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from lakescan.api.changes import Changes, all_columns_scan, has_both
from lakescan.common.metadata_columns import CHANGE, FILE
from lakescan.common.selection import Selection
from lakescan.planning.plan import ScanPlan
from lakescan.planning.task_group_rows import PLACE, GroupRows
from lakescan.planning.task_groups import TaskGroup
from lakescan.reading.context import ReadContext, select_columns
from lakescan.reading.net_changes import drop_carry_overs
from lakescan.reading.reader import read_group
from lakescan.spark.session import create_frame, parallelism
from lakescan.spark.types import as_spark_batch, schema_of
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakescan.tables.scan_spec import ScanSpec


class SharedContext:
    """The read context that the partitions of a plan share, pickled once and compressed.

    With `by_reader`, partitions carry only its `number`, a unique id, and the reader carries the context.
    """

    def __init__(self, context: ReadContext, *, by_reader: bool = False) -> None:
        self.number, self.by_reader = uuid4().hex, by_reader
        self._packed = zlib.compress(pickle.dumps(context))

    def __getstate__(self) -> dict[str, Any]:
        return {"number": self.number, "by_reader": self.by_reader, "_packed": b"" if self.by_reader else self._packed}

    def reader_payload(self) -> tuple[str, bytes]:
        """Return the context's id and its pickled bytes, for the reader to carry."""
        return self.number, self._packed

    def restore(self, carried: tuple[str, bytes] | None) -> ReadContext:
        """Return the context; `carried` is the `reader_payload` of the reader, needed if partitions have only its id.

        Raises `RuntimeError` if the payload is missing or belongs to another plan.
        """
        if not self.by_reader:
            return _unpickle_context(self._packed)
        if carried is None or carried[0] != self.number:
            raise RuntimeError("the reader and the partitions of this task are of different plans")
        return _unpickle_context(carried[1])


@lru_cache(maxsize=4)
def _unpickle_context(packed: bytes) -> ReadContext:
    context: ReadContext = pickle.loads(zlib.decompress(packed))
    return context


@dataclass
class GroupPartition(InputPartition):
    """A task group, with the context to read it."""

    group: TaskGroup
    context: SharedContext


@dataclass
class CommitPartition(InputPartition):
    """All changes of one commit that deletes and inserts rows: changes that cancel out must be in one task.

    `context` reads all columns, and changes that are equal in `columns` cancel out. `selection` selects the columns to
    return from the others.
    """

    groups: list[TaskGroup]
    context: SharedContext
    columns: tuple[str, ...]
    selection: Selection


@dataclass
class LimitedPartition(InputPartition):
    """All task groups of a scan with a limit, read in turn until the limit of `rows` is reached."""

    groups: list[TaskGroup]
    context: SharedContext
    rows: int


def group_partitions(
    scan: ScanSpec, parallelism: int, changes: Changes | None = None, *, by_reader: bool = False
) -> tuple[list[InputPartition], SharedContext]:
    """Plan a scan, and return one partition per task group and the context that they share.

    A scan with a limit becomes one partition, as does a commit whose deletes and inserts may cancel out: `changes` is
    set if the scan reads a commit's computed changes. With `by_reader`, the reader carries the context instead of each
    partition.
    """
    scan = replace(scan.pack_few_groups(), engine=("spark", pyspark.__version__))
    plan = (scan if changes is not None else scan.prune_deletes()).plan(parallelism)
    context = SharedContext(scan.read_context(plan), by_reader=by_reader)
    groups = plan.groups.merge_groups(parallelism).join_splits()
    if plan.limit is not None:
        return [LimitedPartition(list(groups), context, plan.limit)], context
    if changes is not None and has_both(plan):
        whole = SharedContext(all_columns_scan(scan).read_context(plan), by_reader=by_reader)
        return [CommitPartition(list(groups), whole, changes.data_columns, scan.selection)], whole
    return [GroupPartition(group, context) for group in groups], context


def read_partition(
    partition: InputPartition, schema: StructType, carried: tuple[str, bytes] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition as batches in Spark's Arrow schema; `carried` is the reader's payload, if any.

    For a plan without groups, Spark passes a placeholder partition, which has no rows.
    """
    if not isinstance(partition, GroupPartition | CommitPartition | LimitedPartition):
        return
    context = partition.context.restore(carried)
    output = context.output
    if isinstance(partition, GroupPartition):
        batches = read_group(partition.group, context)
    elif isinstance(partition, CommitPartition):
        batches, output = _net_changes(partition, context), partition.selection.output
    else:
        batches = _first_rows(partition, context)
    for batch in batches:
        yield as_spark_batch(batch, output.fields, schema)


def _first_rows(partition: LimitedPartition, context: ReadContext) -> Iterator[pa.RecordBatch]:
    remaining = partition.rows
    for group in partition.groups:
        for batch in read_group(group, context):
            if not remaining:
                return
            yield batch.slice(0, remaining)
            remaining -= min(remaining, batch.num_rows)


def _net_changes(partition: CommitPartition, context: ReadContext) -> Iterator[pa.RecordBatch]:
    batches = chain.from_iterable(read_group(group, context) for group in partition.groups)
    whole = context.output
    rows = pa.Table.from_batches(batches, schema=whole.arrow())
    for batch in drop_carry_overs(rows, CHANGE.name, partition.columns).to_batches():
        yield select_columns(batch, whole, partition.selection)


def read_plan(spark: SparkSession, scan: ScanSpec, plan: ScanPlan, numbered: pa.Array | None = None) -> DataFrame:
    """Return a frame of the rows of a plan, which Python workers read through Arrow.

    With paths in `numbered` (an Arrow array), the column `_file` is an index in them.
    """
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

    # Repartitioning one partition assigns rows round-robin, so that each new partition gets one group.
    sent = create_frame(spark, table).coalesce(1).repartition(len(shared))
    frame = sent.mapInArrow(lakescan_read, returned)
    return frame if plan.limit is None else frame.limit(plan.limit)
