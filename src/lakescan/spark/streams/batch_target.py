"""The table that a `foreachBatch` function changes, once per batch of a query.

A commit records the ids of the query and the batch, as the commits of `df.writeStream.format(...)` do. If Spark repeats
a batch that was committed, it is skipped; otherwise the whole batch is run again.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakescan.api.table import Table
from lakescan.catalogs.formats import FORMATS, exists, open_target
from lakescan.catalogs.lookup import identifier_of, location_or_name
from lakescan.catalogs.registry import CatalogConfiguration, all_configurations, register_catalogs
from lakescan.common.identifiers import location_of, split_name
from lakescan.common.retries import Attempts
from lakescan.errors import CommitConflict, InvalidOption, NoSuchTable
from lakescan.options.write import WriteOptions
from lakescan.spark.session import is_connect
from lakescan.spark.wap import settings_of_session
from lakescan.spark.writing.table_writer import NamedTable
from lakescan.tables.base import Target
from lakescan.tables.results import ChangeResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUERY = "sql.streaming.queryId"  # Spark's local property of the thread that runs a query


@dataclass(frozen=True)
class BatchTarget:
    """A table that batches change. Connect pickles it with the `foreachBatch` function.

    - `path`: the table's path or name. `format`: its format, if known.
    - `catalogs`: the properties of the known catalogs, by name.
    - `query`: a name for the stream; None for Spark's query id.
    """

    path: str
    format: str | None
    options: WriteOptions = field(repr=False)  # may hold secrets, as may `catalogs`
    catalogs: Mapping[str, CatalogConfiguration] = field(repr=False)
    query: str | None = None

    @staticmethod
    def resolve(
        target: str | os.PathLike[str] | Table,
        query: str | None,
        within: tuple[str, ...],
        options: Mapping[str, object],
    ) -> BatchTarget:
        """Resolve the table and parse the options; raises `InvalidOption` for options that a stream cannot have.

        Args:
            target: A name, a path, or an open table.
            query: A name for the stream; None for Spark's query id.
            within: The catalog and namespace of unqualified names.
            options: Write options.
        """
        path, format = _resolve_table(target, within)
        checked = WriteOptions.parse(options, format)
        checked.check_changes(upserts=True)
        if checked.txn_app_id is not None:
            raise InvalidOption("txnAppId and txnVersion are set for each batch: name the stream, query=...")
        return BatchTarget(path, format, checked, all_configurations(), query)

    def change(self, spark: SparkSession, batch_id: int | None, work: Callable[[Target], ChangeResult]) -> ChangeResult:
        """Apply `work` to the opened table, unless the batch is committed.

        Retry it after conflicting concurrent commits. With `batch_id` None, the change is made in any case, and no
        stream is recorded. Returns zero counts for a batch that is committed. Raises `NoSuchTable` without a table, and
        `InvalidOption` if the query has neither name nor id.
        """
        register_catalogs(self.catalogs)
        options = replace(self.options, session=settings_of_session(spark))
        if batch_id is not None:
            options = replace(options, txn_app_id=self._query_id(spark), txn_version=batch_id)
        attempts: Attempts | None = None
        while True:
            target = self._open(options)
            if target.has_committed():
                return ChangeResult()
            attempts = attempts or Attempts(target.retries)
            try:
                return work(target)
            except CommitConflict as error:
                attempts.wait_or_raise(target.name, error)

    def _open(self, options: WriteOptions) -> Target:
        settings = options.storage_options or {}
        if not exists(self.path, settings):
            raise NoSuchTable(f"there is no table {self.path} to change: create it first (lakescan.catalog, or save)")
        return open_target(self.path, self.format, options, settings)

    def _query_id(self, spark: SparkSession) -> str:
        """Return the name of the stream, or Spark's id of the query, which stays the same after a restart.

        Raises `InvalidOption` if Spark's id is not available.
        """
        if self.query is not None:
            return self.query
        if self.options.checkpoint_location is not None:
            from lakescan.spark.writing.sink import read_query_id  # it imports PySpark

            return read_query_id(self.options.checkpoint_location, self.options.storage_options or {})
        if not is_connect(spark) and (found := spark.sparkContext.getLocalProperty(_QUERY)):
            return str(found)
        raise InvalidOption(
            "the query of this batch is unknown here, so a repeated batch could not be recognized: name the stream, "
            "query=..., or its checkpoint, checkpoint_location=..."
        )


@dataclass(frozen=True)
class BatchSink(ABC):
    """A function for `foreachBatch` that merges each batch into a table exactly once, in one commit."""

    _target: BatchTarget

    def __call__(self, frame: DataFrame, batch_id: int | None = None) -> ChangeResult:
        """Merge the rows of a batch into the table, unless the batch was committed before.

        Args:
            frame: The rows of the batch.
            batch_id: The batch's number, by which a repeated batch is recognized. None merges the rows in any case.

        Returns:
            The numbers of inserted, updated and deleted rows; zero for a batch that was committed before.

        Raises:
            AmbiguousMerge: Rows of the batch have the same key and sequence, and differ; nothing is committed.
            SchemaMismatch: A row has no key or no sequence, or does not fit the table; or the table lacks a column that
                the function needs.
            CommitConflict, CommitStateUnknown: As for `Table.merge`.

        Example:
            >>> sink(frame)
        """
        return self._target.change(frame.sparkSession, batch_id, lambda target: self._merge(target, frame))

    @abstractmethod
    def _merge(self, target: Target, frame: DataFrame) -> ChangeResult:
        """Merge the rows of a batch into the table, in one commit; return the numbers of changed rows."""


def _resolve_table(table: str | os.PathLike[str] | Table, within: tuple[str, ...]) -> tuple[str, str | None]:
    """Return the path or full name of a table, and its format if known.

    `within` is the catalog and namespace of unqualified names.
    """
    if isinstance(table, Table):
        return str(table.name or table.location), table.format
    target = location_of(table)
    parts = split_name(target) or ()
    if identifier_of(target) is not None or "/" in target.split("`")[0]:
        return location_or_name(target), None
    if within or (len(parts) == 2 and parts[0].lower() in FORMATS):
        named = NamedTable.resolve(target, within)
        return str(named), named.format
    return target, None
