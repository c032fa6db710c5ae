"""`DeltaMergeBuilder`: a MERGE of a data frame into a Delta table, clause by clause."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.errors import NoSuchColumn
from lakescan.options.session_defaults import evolution_of_session
from lakescan.spark.column_sql.expressions import (
    Expression,
    ExpressionWriter,
    Values,
    check_clauses,
    check_condition,
    check_values,
    free_name,
)
from lakescan.spark.column_sql.source_names import SourceNames, scope_of
from lakescan.spark.delta_tables.calls import delta_call
from lakescan.spark.delta_tables.opened import OpenedTable
from lakescan.spark.drop_in.errors import with_class
from lakescan.spark.session import create_frame
from lakescan.spark.statements.dml import change
from lakescan.spark.wap import settings_of_session
from lakescan.statements.rows.merge import SOURCE
from lakescan.statements.syntax.dml import Clause, Merge, MergeAction, When
from lakescan.statements.syntax.text import Sql, TableName
from lakescan.tables.results import ChangeResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COUNTS = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")


@dataclass(frozen=True)
class _Clause:
    """One clause as the user gave it; `values` is None for all columns and for DELETE."""

    when: When
    action: MergeAction
    condition: Expression | None
    values: Values | None = None


@dataclass(frozen=True)
class _Merge:
    """A MERGE as the user gave it."""

    table: OpenedTable
    alias: str | None
    source: DataFrame
    condition: Expression
    clauses: tuple[_Clause, ...] = ()
    evolves: bool = False


class DeltaMergeBuilder:
    """A MERGE of a data frame into a Delta table, made by `DeltaTable.merge`.

    Each method for a clause returns a new builder. The first clause of a kind whose condition is true applies to a row.
    Conditions and values are SQL texts or Columns.

    Example:
        >>> (
        ...     table.alias("t")
        ...     .merge(updates.alias("s"), "t.id = s.id")
        ...     .whenMatchedUpdate(set={"amount": F.col("s.amount")})
        ...     .whenNotMatchedInsertAll()
        ...     .execute()
        ... )
    """

    def __init__(self, spark: SparkSession, merge: _Merge) -> None:
        self._spark, self._merge = spark, merge

    def whenMatchedUpdate(self, condition: Expression | None = None, set: Values | None = None) -> DeltaMergeBuilder:
        """Update matched rows.

        Args:
            condition: The condition that a row must satisfy.
            set: The new values by column.
        """
        check_values(set, "'set' in whenMatchedUpdate")
        return self._with(When.MATCHED, MergeAction.UPDATE, condition, set)

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Set all columns of matched rows to the source's columns of the same names.

        Args:
            condition: The condition that a row must satisfy.
        """
        return self._with(When.MATCHED, MergeAction.UPDATE, condition)

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete matched rows.

        Args:
            condition: The condition that a row must satisfy.
        """
        return self._with(When.MATCHED, MergeAction.DELETE, condition)

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Values | None = None
    ) -> DeltaMergeBuilder:
        """Insert source rows that match no row of the table.

        Args:
            condition: The condition that a row must satisfy.
            values: The values by column. Other columns get their defaults, or null.
        """
        check_values(values, "'values' in whenNotMatchedInsert")
        return self._with(When.NOT_MATCHED, MergeAction.INSERT, condition, values)

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Insert source rows that match no row of the table; columns are matched by name.

        Args:
            condition: The condition that a row must satisfy.
        """
        return self._with(When.NOT_MATCHED, MergeAction.INSERT, condition)

    def whenNotMatchedBySourceUpdate(
        self, condition: Expression | None = None, set: Values | None = None
    ) -> DeltaMergeBuilder:
        """Update rows of the table that match no source row.

        Args:
            condition: The condition that a row must satisfy.
            set: The new values by column, computed from the table's columns.
        """
        check_values(set, "'set' in whenNotMatchedBySourceUpdate")
        return self._with(When.NOT_MATCHED_BY_SOURCE, MergeAction.UPDATE, condition, set)

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Delete rows of the table that match no source row.

        Args:
            condition: The condition that a row must satisfy.
        """
        return self._with(When.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE, condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Add the source's columns that the table lacks."""
        return DeltaMergeBuilder(self._spark, replace(self._merge, evolves=True))

    @delta_call
    def execute(self) -> DataFrame:
        """Run the MERGE in one commit.

        Returns:
            A frame of one row with the numbers of affected, updated, deleted and inserted rows.

        Raises:
            UnsupportedOperationException: A row of the table matches several source rows. Nothing is committed.
            AnalysisException: An expression or a column does not exist, or does not fit.
        """
        result = run_merge(self._spark, self._merge)
        affected = result.inserted + result.updated + result.deleted
        counts = dict(zip(_COUNTS, (affected, result.updated, result.deleted, result.inserted), strict=True))
        rows = pa.table(
            [pa.array([value], pa.int64()) for value in counts.values()],
            schema=pa.schema([pa.field(name, pa.int64(), nullable=False) for name in counts]),
        )
        return create_frame(self._spark, rows)

    def _with(
        self, when: When, action: MergeAction, condition: Expression | None, values: Values | None = None
    ) -> DeltaMergeBuilder:
        check_condition(condition)
        clause = _Clause(when, action, condition, None if values is None else dict(values))
        return DeltaMergeBuilder(self._spark, replace(self._merge, clauses=(*self._merge.clauses, clause)))


def new_merge(
    spark: SparkSession, table: OpenedTable, alias: str | None, source: Any, condition: Expression
) -> DeltaMergeBuilder:
    """Return a builder without clauses; raises `ValueError` and `TypeError` for wrong arguments."""
    from pyspark.sql import DataFrame

    if source is None:
        raise ValueError("'source' in merge cannot be None")
    if not isinstance(source, DataFrame):
        raise TypeError("Type of 'source' in merge must be DataFrame.")
    if condition is None:
        raise ValueError("'condition' in merge cannot be None")
    check_condition(condition)
    return DeltaMergeBuilder(spark, _Merge(table, alias, source, condition))


def run_merge(spark: SparkSession, merge: _Merge) -> ChangeResult:
    """Run a MERGE, and return the numbers of changed rows."""
    names = SourceNames.of(merge.source)
    columns = (*merge.source.columns, *merge.table.columns)
    alias = merge.alias or free_name("target", (*columns, names.alias or ""))
    source_alias = names.alias or free_name("source", (*columns, alias))
    if source_alias.lower() == alias.lower():  # as in Spark, such a name is ambiguous only if an expression uses it
        source_alias = free_name("source", (*columns, alias))
    write = ExpressionWriter(
        spark, scope_of(merge.source, source_alias, merge.table.frames, alias), names, source_alias
    )
    clauses = tuple(
        Clause(each.when, each.action, write.condition(each.condition), _assignments(write, each))
        for each in merge.clauses
    )
    session = settings_of_session(spark)
    evolves = merge.evolves or bool(evolution_of_session(session, "delta"))
    statement = Merge(
        TableName((alias,), alias), Sql(f"`{SOURCE}`"), source_alias, write.sql(merge.condition), clauses, evolves
    )
    check_clauses(statement)
    try:
        return merge.table.table.changed_by(
            {},
            lambda target: change(spark, target, statement, {SOURCE: merge.source}, counts_source=True),
            session=session,
        )
    except NoSuchColumn as error:
        raise with_class(error, "AnalysisException", "DELTA_MERGE_UNRESOLVED_EXPRESSION") from error.__cause__


def _assignments(write: ExpressionWriter, clause: _Clause) -> Any:
    if clause.action is MergeAction.DELETE:
        return ()
    return None if clause.values is None else write.assignments(clause.values)
