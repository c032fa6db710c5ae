"""`DeltaTable`: Delta's Python interface over lakescan's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakescan.api.convert import convert_to_delta
from lakescan.common.identifiers import split_name
from lakescan.errors import (
    InvalidOption,
    InvalidStatement,
    NoSuchNamespace,
    NoSuchTable,
    NotATable,
    TableExists,
    UnsupportedFeature,
)
from lakescan.spark.column_sql.expressions import (
    Expression,
    ExpressionWriter,
    Values,
    check_condition,
    check_values,
    free_name,
)
from lakescan.spark.column_sql.source_names import scope_of
from lakescan.spark.delta_results import detail_frame, history_frame, restore_frame
from lakescan.spark.delta_tables.builders import CreateMode, DeltaColumnBuilder, DeltaTableBuilder, type_text
from lakescan.spark.delta_tables.calls import delta_call
from lakescan.spark.delta_tables.merge import DeltaMergeBuilder, new_merge
from lakescan.spark.delta_tables.opened import OpenedTable, open_name, open_path
from lakescan.spark.delta_tables.optimize import DeltaOptimizeBuilder
from lakescan.spark.drop_in.errors import restore_errors, with_class
from lakescan.spark.executor import SparkExecutor
from lakescan.spark.session import reason_for_young_files
from lakescan.spark.statements.dml import change
from lakescan.spark.wap import settings_of_session
from lakescan.statements.rows.change_query import ChangeStatement
from lakescan.statements.syntax.dml import Delete, Update
from lakescan.statements.syntax.text import TableName
from lakescan.storage.locations import absolute

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class DeltaTable:
    """A Delta table in a Spark session, opened by `forPath` or `forName`, or created by a builder.

    The methods have the names, arguments and results of `delta.tables.DeltaTable`.

    Example:
        >>> table = DeltaTable.forPath(spark, "/lake/orders")
        >>> table.update("status = 'open'", {"status": "'closed'"})
    """

    def __init__(self, spark: SparkSession, opened: OpenedTable, alias: str | None = None) -> None:
        self._spark, self._opened, self._alias = spark, opened, alias

    @classmethod
    @delta_call
    def forPath(
        cls,
        sparkSession: SparkSession,
        path: str,
        hadoopConf: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Open the table in a folder.

        Args:
            sparkSession: The session.
            path: The folder.
            hadoopConf: Settings of the file system.

        Raises:
            AnalysisException: The folder has no Delta table.
        """
        options = dict(hadoopConf or {})
        with _missing_delta_table():
            return cls(sparkSession, open_path(path, options))

    @classmethod
    @delta_call
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """Open a table by its name.

        Args:
            sparkSession: The session.
            tableOrViewName: The name, or ``delta.`path` ``.

        Raises:
            AnalysisException: There is no such table, or it is not a Delta table.
        """
        with _missing_delta_table():
            return cls(sparkSession, open_name(sparkSession, tableOrViewName))

    @classmethod
    @delta_call
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Return whether a folder has a Delta table.

        Args:
            sparkSession: The session.
            identifier: The folder.
        """
        try:
            open_path(identifier, {})
        except NotATable:
            return False
        return True

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that creates a table, and fails if it exists."""
        return cls._builder(sparkSession, CreateMode.CREATE)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that creates a table if it does not exist."""
        return cls._builder(sparkSession, CreateMode.CREATE_IF_NOT_EXISTS)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that replaces a table, and fails if it does not exist."""
        return cls._builder(sparkSession, CreateMode.REPLACE)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Return a builder that creates a table or replaces it."""
        return cls._builder(sparkSession, CreateMode.CREATE_OR_REPLACE)

    @classmethod
    def _builder(cls, spark: SparkSession | None, mode: CreateMode) -> DeltaTableBuilder:
        session = _session(spark)
        return DeltaTableBuilder(session, mode, lambda opened: cls(session, opened))

    @classmethod
    def columnBuilder(cls, sparkSession: SparkSession, colName: str) -> DeltaColumnBuilder:
        """Return a builder of a column for `DeltaTableBuilder.addColumn`."""
        return DeltaColumnBuilder(_session(sparkSession), colName)

    @classmethod
    @delta_call
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | StructType | None = None,
    ) -> DeltaTable:
        """Turn a folder of Parquet files into a Delta table in place.

        Args:
            sparkSession: The session.
            identifier: The folder, as ``parquet.`path` ``.
            partitionSchema: The partition columns with their types.

        Raises:
            UnsupportedOperationException: The identifier is not a folder of Parquet files.
        """
        parts = split_name(identifier.strip())
        if parts is None or len(parts) != 2 or parts[0].lower() != "parquet":
            raise UnsupportedFeature(f"CONVERT TO DELTA {identifier}", "Name the folder: parquet.`/path`.")
        columns = partitionSchema or ""
        if not isinstance(columns, str):
            columns = ", ".join(f"`{each.name}` {type_text(each.dataType)}" for each in columns.fields)
        convert_to_delta(absolute(parts[1]), partition_by=columns)
        return cls(sparkSession, open_path(parts[1], {}))

    @delta_call
    def toDF(self) -> DataFrame:
        """Return the table's rows as a data frame."""
        frame = self._opened.to_frame(self._spark)
        return frame if self._alias is None else frame.alias(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """Return this table with a name for conditions and values."""
        return DeltaTable(self._spark, self._opened, aliasName)

    @delta_call
    def delete(self, condition: Expression | None = None) -> None:
        """Delete the rows that match a condition, or all rows.

        Args:
            condition: SQL text or a Column.
        """
        check_condition(condition)
        name, write = self._writer()
        self._change(Delete(name, write.condition(condition)))

    @delta_call
    def update(self, condition: Expression | None = None, set: Values | None = None) -> None:
        """Update the rows that match a condition, or all rows.

        Args:
            condition: SQL text or a Column.
            set: The new values by column, as SQL texts or Columns.
        """
        check_values(set, "'set'")
        check_condition(condition)
        assert set is not None
        if not set:
            return
        name, write = self._writer()
        self._change(Update(name, write.assignments(set), write.condition(condition)))

    def merge(self, source: DataFrame, condition: Expression) -> DeltaMergeBuilder:
        """Merge a data frame into this table.

        Args:
            source: The data frame.
            condition: The condition that matches its rows with rows of this table, as SQL text or a Column.

        Returns:
            A builder with a method for each kind of clause. Its method `execute` commits the merge.
        """
        return new_merge(self._spark, self._opened, self._alias, source, condition)

    @delta_call
    def history(self, limit: int | None = None) -> DataFrame:
        """Return the table's commits, newest first.

        Args:
            limit: The maximum number of commits.
        """
        return history_frame(self._spark, self._opened.table.refresh(), limit)

    @delta_call
    def detail(self) -> DataFrame:
        """Return one row with the table's format, name, size and other details."""
        return detail_frame(self._spark, self._opened.table.refresh(), self._opened.name)

    @delta_call
    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that the table no longer references.

        Args:
            retentionHours: Keep files that are younger than this. By default the table's retention, a week.

        Returns:
            A data frame without rows and columns.

        Raises:
            IllegalArgumentException: The time is shorter than the table's retention, and the session's setting
                `spark.databricks.delta.retentionDurationCheck.enabled` is not false.
        """
        older, table = None, self._opened.table.refresh()
        if retentionHours is not None:
            now = datetime.now().astimezone()
            older = now - timedelta(hours=float(retentionHours))
        reason = None if older is None else reason_for_young_files(self._spark)
        table.remove_orphans(older, ignore_retention=reason, executor=SparkExecutor(self._spark), in_history=True)
        return _empty_frame(self._spark)

    @delta_call
    def generate(self, mode: str) -> None:
        """Write manifests, by which Presto and Athena read the table.

        Args:
            mode: 'symlink_format_manifest'.
        """
        self._opened.table.refresh().generate(mode.lower())

    @delta_call
    def restoreToVersion(self, version: int) -> DataFrame:
        """Restore an earlier version.

        Returns:
            A frame of one row with the numbers and sizes of files.
        """
        _check(version, int, "version", "an int")
        with restore_errors():
            return restore_frame(self._spark, self._opened.table.refresh(), version, None)

    @delta_call
    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restore the version that was current at a time.

        Args:
            timestamp: The time in the session's time zone, such as '2026-01-31 12:00:00'.

        Returns:
            A frame of one row with the numbers and sizes of files.
        """
        _check(timestamp, str, "timestamp", "a string")
        moment = self._moment(timestamp)
        with restore_errors():
            return restore_frame(self._spark, self._opened.table.refresh(), None, moment)

    def optimize(self) -> DeltaOptimizeBuilder:
        """Return a builder that compacts or sorts the table's files."""
        return DeltaOptimizeBuilder(self._spark, self._opened)

    @delta_call
    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Upgrade the table's protocol; versions below the current ones change nothing."""
        _check(readerVersion, int, "The readerVersion", "an integer")
        _check(writerVersion, int, "The writerVersion", "an integer")
        detail = self._opened.table.refresh().detail().to_pylist()[0]
        given = {"delta.minReaderVersion": readerVersion, "delta.minWriterVersion": writerVersion}
        now = {
            "delta.minReaderVersion": detail["minReaderVersion"],
            "delta.minWriterVersion": detail["minWriterVersion"],
        }
        if any(value > now[name] for name, value in given.items()):
            wanted = {name: str(max(value, now[name])) for name, value in given.items()}
            self._opened.table.alter().set_properties(wanted).commit()

    @delta_call
    def addFeatureSupport(self, featureName: str) -> None:
        """Add a feature to the table's protocol."""
        _check(featureName, str, "featureName", "a string")
        changes = {f"delta.feature.{featureName}": "supported"}
        self._opened.table.refresh().alter().set_properties(changes).commit()

    @delta_call
    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Drop a feature from the table's protocol.

        Args:
            featureName: The feature.
            truncateHistory: Whether to delete the history that uses it.
        """
        _check(featureName, str, "featureName", "a string")
        if truncateHistory is not None:
            _check(truncateHistory, bool, "truncateHistory", "a boolean")
        table = self._opened.table.refresh()
        table.alter().drop_feature(featureName, truncate_history=bool(truncateHistory)).commit()

    @delta_call
    def clone(
        self,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Create a table with the rows and metadata of this one.

        Args:
            target: The folder of the new table.
            isShallow: Whether the new table refers to the files of this one. Only True is supported.
            replace: Whether a table in the folder is replaced.
            properties: Table properties that are set in the new table.
        """
        return self._clone(target, isShallow, replace, properties)

    @delta_call
    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Create a table with the rows and metadata of a version of this one; see `clone`."""
        _check(version, int, "version", "an int")
        return self._clone(target, isShallow, replace, properties, version=version)

    @delta_call
    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Create a table with the rows and metadata that this one had at a time; see `clone`."""
        _check(timestamp, str, "timestamp", "a string")
        return self._clone(target, isShallow, replace, properties, timestamp=self._moment(timestamp))

    def _clone(
        self,
        target: str,
        is_shallow: bool,
        replace: bool,
        properties: Mapping[str, str] | None,
        **state: Any,
    ) -> DeltaTable:
        _check(target, str, "target", "a string")
        _check(is_shallow, bool, "isShallow", "a boolean")
        _check(replace, bool, "replace", "a boolean")
        if properties is not None:
            _check(properties, dict, "properties", "a dict")
            for key, value in properties.items():
                _check(key, str, f"All property keys including {key}", "a string")
                _check(value, str, f"All property values including {value}", "a string")
        if not is_shallow:
            raise UnsupportedFeature("a deep clone", "Write the rows to a new table, or clone with isShallow=True.")
        location = split_name(target)
        folder = location[1] if location is not None and len(location) == 2 and location[0] == "delta" else target
        try:
            self._opened.table.refresh().clone(absolute(folder), properties=properties, replace=replace, **state)
        except TableExists as error:
            condition = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
            raise with_class(error, "AnalysisException", condition) from error.__cause__
        return DeltaTable(self._spark, open_path(folder, {}))

    def _writer(self) -> tuple[TableName, ExpressionWriter]:
        """Return the table's name in a statement, and the writer of the statement's expressions."""
        alias = self._alias or free_name("target", self._opened.columns)
        scope = scope_of(None, "", self._opened.frames, alias)
        return TableName((alias,), alias), ExpressionWriter(self._spark, scope)

    def _change(self, statement: ChangeStatement) -> None:
        self._opened.table.changed_by(
            {}, lambda target: change(self._spark, target, statement, {}), session=settings_of_session(self._spark)
        )

    def _moment(self, text: str) -> datetime:
        """Return the time that Spark reads from text in the session's time zone."""
        found = self._spark.sql("SELECT try_cast(:t AS TIMESTAMP) AS t", {"t": text}).toArrow()["t"][0].as_py()
        if found is None:
            raise InvalidStatement(f"The provided timestamp ({text!r}) cannot be converted to a valid timestamp.")
        moment: datetime = found
        return moment


def _session(spark: SparkSession | None) -> SparkSession:
    from pyspark.sql import SparkSession

    found = SparkSession.getActiveSession() if spark is None else spark
    if found is None:
        raise InvalidOption("there is no active Spark session: pass one")
    return found


@contextmanager
def _missing_delta_table() -> Iterator[None]:
    """Context manager: a table that is missing, or is not a Delta table, raises Delta's own error."""
    try:
        yield
    except (NoSuchTable, NoSuchNamespace, NotATable) as error:
        raise with_class(error, "AnalysisException", "DELTA_MISSING_DELTA_TABLE") from error.__cause__


def _check(value: object, kind: type, name: str, wanted: str) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        verb = "needs to be"
        raise ValueError(f"{name} {verb} {wanted} but got '{type(value)}'.")


def _empty_frame(spark: SparkSession) -> DataFrame:
    from pyspark.sql.types import StructType

    return spark.createDataFrame([], StructType([]))
