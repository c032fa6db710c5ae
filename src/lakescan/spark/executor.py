"""Distributed planning: Spark's workers read and prune manifests and logs, and return only the remaining entries."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lakescan.spark.session import create_frame, parallelism
from lakescan.spark.workers import use_this_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
R = TypeVar("R")

_ITEMS, _SHARES = "number long, data binary", "share long, data binary"
_ITEM_COLUMNS, _SHARE_COLUMNS = ["number", "data"], ["share", "data"]
_TASKS, _TASKS_A_SLOT = 16, 8
MIN_BYTES = 128 * 2**20


class SparkExecutor:
    """Run planning as Spark jobs, in a classic or Connect session. The workers need lakescan, as for reading.

    >>> lakescan.table(path).scan().plan_with(lakescan.spark.SparkExecutor(spark)).plan()

    Metadata smaller than `min_bytes` is planned by threads of this process, unless the planning mode is 'distributed'.
    """

    def __init__(self, spark: SparkSession, *, min_bytes: int = MIN_BYTES) -> None:
        self._spark = spark
        self.min_bytes = min_bytes

    def map(self, work: Callable[[T], R], items: Iterable[T], /) -> Iterator[R]:
        """Apply a function to items in one Spark job.

        Args:
            work: The function to call for each item on the workers. It is pickled, as are the items.
            items: The items. Many items share the tasks of the job, one after the other.

        Returns:
            The results, in the order of the items.

        Example:
            >>> list(lakescan.spark.SparkExecutor(spark).map(abs, [-1, 2]))
            [1, 2]
        """

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number, data in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    result = pickle.dumps(work(pickle.loads(data)), protocol=5)
                    yield pa.record_batch([[number], pa.array([result], pa.binary())], _ITEM_COLUMNS)

        if (frame := self._distribute(items)) is not None:
            results = frame.mapInArrow(run, _ITEMS).toArrow().sort_by("number")
            for value in results["data"]:
                yield pickle.loads(value.as_py())

    def shuffle(
        self,
        split: Callable[[T], Iterable[tuple[int, pa.Table]]],
        items: Iterable[T],
        merge: Callable[[list[pa.Table]], R],
        /,
    ) -> Iterator[R]:
        """Split items into numbered tables, shuffle the tables by number, and merge the tables of each number.

        Args:
            split: Makes pairs of a number and a table from an item, on the workers.
            items: The items to split.
            merge: Makes a result from all tables of one number, on the workers.

        Returns:
            The results, in the order of the numbers.

        Example:
            >>> list(executor.shuffle(split_by_path, log_pieces, reconcile))
        """

        def merge_share(group: pa.Table) -> pa.Table:
            result = merge([pickle.loads(data.as_py()) for data in group["data"]])
            data = pa.array([pickle.dumps(result, protocol=5)], pa.binary())
            return pa.table([group["share"][:1].combine_chunks(), data], _SHARE_COLUMNS)

        if (frame := self._distribute(items)) is not None:
            shares = (
                frame.mapInArrow(_make_splitter(split), _SHARES).groupBy("share").applyInArrow(merge_share, _SHARES)
            )
            for value in shares.toArrow().sort_by("share")["data"]:
                yield pickle.loads(value.as_py())

    def exchange(
        self,
        split: Callable[[T], Iterable[tuple[int, pa.Table]]],
        items: Iterable[T],
        take: Callable[[Iterator[pa.Table]], R],
        shares: int,
        /,
    ) -> Iterator[R]:
        """Split items into tables of numbered shares, shuffle the tables by share, and process each share as a stream.

        Unlike `shuffle`, a worker holds only one table at a time; Spark keeps the shuffled tables on disk.

        Args:
            split: Makes pairs of a share's number and a table from an item, on the workers.
            items: The items to split.
            take: Makes a result from the tables of one share, on the workers. It must consume all of them.
            shares: The number of shares, which are numbered from 0.

        Returns:
            The results, in no particular order.

        Example:
            >>> list(executor.exchange(divide_by_range, task_groups, sort_and_write, 100))
        """

        def take_shares(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            pairs = ((share.as_py(), data) for batch in batches for share, data in zip(*batch.columns, strict=True))
            for share, some in groupby(pairs, key=itemgetter(0)):
                result = take(pickle.loads(data.as_py()) for _, data in some)
                packed = pa.array([pickle.dumps(result, protocol=5)], pa.binary())
                yield pa.record_batch([[share], packed], _SHARE_COLUMNS)

        if (frame := self._distribute(items)) is not None:
            divided = frame.mapInArrow(_make_splitter(split), _SHARES).repartition(max(shares, 1), "share")
            taken = divided.sortWithinPartitions("share").mapInArrow(take_shares, _SHARES)
            for value in taken.toArrow()["data"]:
                yield pickle.loads(value.as_py())

    def _distribute(self, items: Iterable[Any]) -> DataFrame | None:
        """Return the pickled items as rows of number and data, one or a few per Spark partition; None without items."""
        packed = [pickle.dumps(item, protocol=5) for item in items]
        if not packed:
            return None
        use_this_python(self._spark)
        table = pa.table([pa.array(range(len(packed)), pa.int64()), pa.array(packed, pa.binary())], _ITEM_COLUMNS)
        # A task costs some 50 ms, so small items share tasks. Each slot gets several tasks, to balance the load.
        tasks = max(_TASKS, _TASKS_A_SLOT * parallelism(self._spark))
        return create_frame(self._spark, table).repartition(min(len(packed), tasks))


def _make_splitter(split: Callable[[Any], Iterable[tuple[int, pa.Table]]]) -> Any:
    """Return a `mapInArrow` function that splits pickled items into rows of share number and pickled table."""

    def split_items(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for data in batch.column(1).to_pylist():
                for share, table in split(pickle.loads(data)):
                    packed = pickle.dumps(table, protocol=5)
                    yield pa.record_batch([[share], pa.array([packed], pa.binary())], _SHARE_COLUMNS)

    return split_items
