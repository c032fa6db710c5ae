"""`DeltaOptimizeBuilder`: compact the files of a Delta table, or sort their rows along a Z-order curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakescan.common.references import dotted_path, parse_reference
from lakescan.errors import InvalidStatement
from lakescan.expressions.sql_condition import references
from lakescan.maintenance.zorder import check_zorder_columns
from lakescan.spark.delta_results import optimize_frame
from lakescan.spark.delta_tables.calls import delta_call
from lakescan.spark.delta_tables.opened import OpenedTable
from lakescan.spark.drop_in.errors import optimize_errors
from lakescan.spark.executor import SparkExecutor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DeltaOptimizeBuilder:
    """OPTIMIZE of a Delta table, made by `DeltaTable.optimize`.

    Example:
        >>> table.optimize().where("day = '2026-01-31'").executeZOrderBy("customer")
    """

    def __init__(self, spark: SparkSession, opened: OpenedTable, filters: tuple[str, ...] = ()) -> None:
        self._spark, self._opened, self._filters = spark, opened, filters

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Optimize only the partitions that match a condition.

        Args:
            partitionFilter: An SQL condition on the partition columns.
        """
        return DeltaOptimizeBuilder(self._spark, self._opened, (*self._filters, partitionFilter))

    @delta_call
    def executeCompaction(self) -> DataFrame:
        """Merge small files of each partition.

        Returns:
            A frame of one row with the table's path and metrics.
        """
        return self._run(())

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Rewrite the files of each partition with their rows along a Z-order curve.

        Args:
            cols: The columns, or one list of them.

        Returns:
            A frame of one row with the table's path and metrics.

        Raises:
            IllegalArgumentException: A column is a partition column.
        """
        given: Any = cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols
        for each in given:
            if type(each) is not str:
                raise TypeError(f"Z-order column must be str. Found {each} with type {type(each)}")
        return self._zorder(tuple(given))

    @delta_call
    def _zorder(self, columns: tuple[str, ...]) -> DataFrame:
        return self._run(columns)

    def _run(self, columns: tuple[str, ...]) -> DataFrame:
        table = self._opened.table.refresh()
        detail = table.detail().to_pylist()[0]
        partitions, clustering = list(detail["partitionColumns"] or []), list(detail["clusteringColumns"] or [])
        condition = self._condition(partitions, clustering)
        check_zorder_columns([dotted_path(parse_reference(each)) for each in columns], partitions)
        if clustering and columns:
            raise InvalidStatement(
                f"the table is clustered by {', '.join(clustering)}: OPTIMIZE clusters its rows without Z-order columns"
            )
        options: dict[str, Any] = {}
        if by := list(columns) or clustering:
            options = {"strategy": "zorder", "zorder_by": by}
        if columns:
            options["rewrite_all"] = True
        with optimize_errors():
            return optimize_frame(
                self._spark,
                table,
                lambda: table.compact(where=condition, executor=SparkExecutor(self._spark), **options),
                where=condition,
                zorders=bool(columns),
            )

    def _condition(self, partitions: list[str], clustering: list[str]) -> str | None:
        if not self._filters:
            return None
        if clustering:
            raise InvalidStatement(
                f"OPTIMIZE of a table that is clustered by {', '.join(clustering)} takes no partition filter"
            )
        known = {each.lower() for each in partitions}
        for text in self._filters:
            for reference in references(text):
                name = dotted_path(reference.names)
                if name.lower() not in known:
                    raise InvalidStatement(
                        f"Predicate references non-partition column '{name}'. Only the partition columns may be "
                        f"referenced: [{', '.join(partitions)}]"
                    )
        return " AND ".join(f"({text})" for text in self._filters)
