"""Streams on Spark: offsets, limits and partitions of micro-batches, for Spark's Python data source of streams.

Spark keeps one process a query for the reader, and asks it for the offset up to which to read, then for the partitions
between two offsets. On PySpark 4.1, which hands over neither a start nor a limit, a batch takes all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lakescan.changes import Changes, are_computed, commits_of
from lakescan.formats.increments import Offset
from lakescan.scan_spec import ScanSpec
from lakescan.spark.partitions import group_partitions, read_partition
from lakescan.streaming.stream import TableStream

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1

    class ReadAllAvailable:  # type: ignore[no-redef]
        """Stands for a class that this PySpark has not."""

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stands for a class that this PySpark has not."""


_FIRST, _FROM = "first", "from"


class CommitReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The commits of a table as micro-batches."""

    def __init__(self, scan: ScanSpec, schema: StructType, parallelism: int) -> None:
        self._scan: ScanSpec | None = scan
        self._schema, self._parallelism = schema, parallelism
        self._done: Offset | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What reading needs: partitions carry the rest."""
        return {"_scan": None, "_schema": self._schema, "_parallelism": self._parallelism}

    @cached_property
    def _planner(self) -> TableStream:
        """Opened where offsets are asked for: Spark makes readers that only read, too."""
        assert self._scan is not None
        stream, names = TableStream(self._scan), self._schema.names
        return stream if stream.scan.output.names == names else TableStream(self._scan.select(*names))

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins.

        Spark asks again for the partitions of the first batch, and once more after a crash, when the table may have
        gone on. So it is marked, and the end of the first batch says where that began.
        """
        return self._planner.encode(self._planner.initial_offset()) | {_FIRST: True}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Up to where the next batch reads."""
        planner = self._planner
        if start is None:  # PySpark 4.1: this may be the first batch
            began = planner.encode(planner.initial_offset()) if self._done is None else None
            return planner.encode(planner.newest_offset()) | ({} if began is None else {_FROM: began})
        begin = planner.decode(start)
        end = planner.latest_offset(begin, limited=not isinstance(limit, ReadAllAvailable))
        if end == begin:
            return start
        return planner.encode(end) | ({_FROM: planner.encode(begin)} if start.get(_FIRST) else {})

    def getDefaultReadLimit(self) -> Any:
        """A limit of files, which stands for all limits of the options."""
        from pyspark.sql.streaming.datasource import ReadMaxFiles

        return ReadMaxFiles(self._planner.limits.files or 2**31 - 1)

    def reportLatestOffset(self) -> dict[str, Any]:
        """The newest commit, and what there is to read up to it: Spark shows it as the source's latest offset."""
        planner = self._planner
        found = planner.encode(planner.newest_offset())
        return found if self._done is None else found | {"backlog": asdict(planner.backlog(self._done))}

    def prepareForTriggerAvailableNow(self) -> None:
        """See no commit that is later than the newest one now."""
        self._planner.end_here()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The task groups of the rows between two offsets."""
        planner = self._planner
        begin = end[_FROM] if start.get(_FIRST) and _FROM in end else start
        scan = planner.between(planner.decode(begin), planner.decode(end))
        parallelism = int(scan.options.get("parallelism", self._parallelism))
        if not planner.reads_changes or not are_computed(scan):
            return group_partitions(scan, parallelism)
        changes = Changes(scan)
        return [each for commit in commits_of(scan) for each in group_partitions(commit, parallelism, changes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a group."""
        return read_partition(partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Remember how far the query has come, for the backlog."""
        self._done = self._planner.decode(end)
