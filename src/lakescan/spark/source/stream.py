"""Spark's Python streaming source: offsets, limits and partitions of micro-batches.

Spark runs the reader in one process per query. It asks for the end offset of a micro-batch, then for the partitions
between two offsets. PySpark 4.1 passes neither a start offset nor a limit, so a micro-batch reads everything there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from lakescan.api.changes import Changes, are_computed, commits_of
from lakescan.api.stream import TableStream
from lakescan.formats.increments import Offset
from lakescan.spark.source.partitions import group_partitions, read_partition
from lakescan.spark.wap import StagedReads, settings_in_task
from lakescan.tables.scan_spec import ScanSpec

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1

    class ReadAllAvailable:  # type: ignore[no-redef]
        """Placeholder for a class that PySpark 4.1 does not have."""

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Placeholder for a class that PySpark 4.1 does not have."""


_FIRST, _FROM = "first", "from"


class TableStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the commits of a table as micro-batches."""

    def __init__(self, scan: ScanSpec, schema: StructType, parallelism: int, staged: StagedReads | None = None) -> None:
        self._scan: ScanSpec | None = scan
        self._schema, self._parallelism, self._staged = schema, parallelism, staged
        self._done: Offset | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that `read` needs, to be pickled; partitions carry the rest."""
        own = {"_schema": self._schema, "_parallelism": self._parallelism, "_staged": self._staged}
        return {"_scan": None, **own}

    @cached_property
    def _planner(self) -> TableStream:
        """The stream, opened on first use, as Spark also creates readers that only read partitions."""
        assert self._scan is not None
        stream, names = TableStream(self._scan), self._schema.names
        if stream.scan.output.names == names:
            return stream
        return TableStream(self._scan.select(*stream.scan.selection.texts(names)))

    def initialOffset(self) -> dict[str, Any]:
        """Return the start offset of a new query.

        After a crash in the first micro-batch, Spark asks for the start offset again, when the table may have new
        commits. So this offset is only marked as the first one. The end offset of the first micro-batch, which is in
        the checkpoint, records the real start.
        """
        return self._planner.encode(self._planner.initial_offset()) | {_FIRST: True}

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Return the end offset of the next micro-batch: `start` if there is nothing new.

        `limit` is Spark's read limit; only a limit of all available data is used, in place of the limits of the
        options. PySpark 4.1 passes neither argument.
        """
        planner = self._planner
        if start is None:  # PySpark 4.1: this may be the first batch
            first = planner.encode(planner.initial_offset()) if self._done is None else None
            return planner.encode(planner.newest_offset()) | ({} if first is None else {_FROM: first})
        begin = planner.decode(start)
        end = planner.latest_offset(begin, limited=not isinstance(limit, ReadAllAvailable))
        if end == begin:
            return start
        return planner.encode(end) | ({_FROM: planner.encode(begin)} if start.get(_FIRST) else {})

    def getDefaultReadLimit(self) -> Any:
        """Return the file limit of the options for Spark; `latestOffset` itself applies all limits of the options."""
        from pyspark.sql.streaming.datasource import ReadMaxFiles

        return ReadMaxFiles(self._planner.limits.files or 2**31 - 1)

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the newest commit as an offset, with the backlog from the committed offset, for progress reports."""
        planner = self._planner
        newest = planner.encode(planner.newest_offset())
        return newest if self._done is None else newest | {"backlog": asdict(planner.backlog(self._done))}

    def prepareForTriggerAvailableNow(self) -> None:
        """Read only up to the commit that is the newest one now."""
        self._planner.end_here()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return partitions for the rows between two offsets.

        Changes that must be computed are planned commit by commit.
        """
        planner = self._planner
        begin = end[_FROM] if start.get(_FIRST) and _FROM in end else start
        scan = planner.between(planner.decode(begin), planner.decode(end))
        parallelism = scan.options.parallelism or self._parallelism
        if not planner.reads_changes or not are_computed(scan):
            return group_partitions(scan, parallelism)[0]
        changes = Changes(scan)
        return [each for commit in commits_of(scan) for each in group_partitions(commit, parallelism, changes)[0]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, as batches in Spark's Arrow schema.

        Raises `InvalidOption` if the session's staging settings have changed.
        """
        if self._staged is not None:
            self._staged.check(settings_in_task())
        return read_partition(partition, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Record the offset that the query has committed, to compute the backlog."""
        self._done = self._planner.decode(end)
