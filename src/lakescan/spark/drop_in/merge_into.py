"""`df.mergeInto` of lakescan's tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakescan.errors import InvalidOption, InvalidStatement, UnsupportedFeature
from lakescan.spark.column_sql.expressions import ExpressionWriter, check_clauses, free_name
from lakescan.spark.column_sql.source_names import SourceNames, scope_of
from lakescan.spark.drop_in.errors import ANALYSIS, RUNTIME, errors_of_format, raise_as_spark, with_class
from lakescan.spark.drop_in.interception import NOT_OURS, running
from lakescan.spark.drop_in.names import table_parts
from lakescan.spark.drop_in.sessions import EnabledSession, in_use
from lakescan.spark.drop_in.write import is_path
from lakescan.spark.session import is_connect
from lakescan.spark.statements.dml import run_dml
from lakescan.statements.rows.merge import SOURCE
from lakescan.statements.rows.target import changed_table
from lakescan.statements.syntax.dml import Clause, Merge, MergeAction, When
from lakescan.statements.syntax.text import Sql, TableName


@dataclass(frozen=True)
class _Clause:
    """A clause as the user gave it; `values` is None for all columns and for DELETE."""

    when: When
    action: MergeAction
    condition: Any
    values: dict[str, Any] | None = None


class EnabledMergeWriter:
    """A MERGE of a data frame into a table, as `df.mergeInto(table, condition)` returns it.

    Args:
        session: The enabled session.
        frame: The source.
        parts: The table's full name, or a format and a path.
        condition: The condition of a match, a `Column`.
    """

    def __init__(self, session: EnabledSession, frame: Any, parts: tuple[str, ...], condition: Any) -> None:
        self._session, self._frame, self._parts, self._condition = session, frame, parts, condition
        self._clauses: list[_Clause] = []
        self._evolves = False

    def whenMatched(self, condition: Any = None) -> MatchedRows:
        """Return the actions for rows of the table that match a source row and satisfy the condition."""
        return MatchedRows(self, When.MATCHED, condition)

    def whenNotMatched(self, condition: Any = None) -> NewRows:
        """Return the actions for source rows that match no row of the table and satisfy the condition."""
        return NewRows(self, condition)

    def whenNotMatchedBySource(self, condition: Any = None) -> MatchedRows:
        """Return the actions for rows of the table that match no source row and satisfy the condition."""
        return MatchedRows(self, When.NOT_MATCHED_BY_SOURCE, condition)

    def withSchemaEvolution(self) -> EnabledMergeWriter:
        """Add the source's columns that the table lacks."""
        self._evolves = True
        return self

    def merge(self) -> None:
        """Run the MERGE in one commit.

        Raises:
            SparkRuntimeException: There is no clause, or a row of the table matches several source rows.
            AnalysisException: The table or a column does not exist, or a value does not fit.
        """
        connect = is_connect(self._frame.sparkSession)
        with raise_as_spark(connect=connect), running(), in_use(self._session):
            if not self._clauses:
                raise with_class(
                    InvalidOption(
                        "mergeInto needs at least one of whenMatched, whenNotMatched and whenNotMatchedBySource"
                    ),
                    *(RUNTIME, "NO_MERGE_ACTION_SPECIFIED"),
                )
            self._run()

    def _run(self) -> None:
        found = changed_table(TableName(self._parts), (), {})
        with errors_of_format(found.table.format):
            try:
                run_dml(
                    self._frame.sparkSession,
                    self._statement(found.table),
                    None,
                    {SOURCE: self._frame},
                    counts_source=True,
                )
            except InvalidStatement as error:  # Spark has parsed the expressions: a name or a type is wrong
                raise with_class(error, ANALYSIS, "UNRESOLVED_COLUMN.WITH_SUGGESTION") from error.__cause__

    def _statement(self, table: Any) -> Merge:
        frame, parts = self._frame, self._parts
        names = SourceNames.of(frame)
        columns = (*frame.columns, *table.schema.names)
        own = free_name("target", columns) if is_path(parts) else parts[-1]
        source = names.alias or free_name("source", (*columns, own))
        alias = free_name("target", (*columns, source)) if source.lower() == own.lower() else own
        write = ExpressionWriter(frame.sparkSession, scope_of(frame, source, (), alias), names, source)
        target = SourceNames(None, _qualified(parts, table.schema.names))

        def sql(column: Any) -> Sql:
            return Sql(target.replace(write.sql(column).text, alias))

        def assignments(clause: _Clause) -> Any:
            if clause.action is MergeAction.DELETE:
                return ()
            if clause.values is None:
                return None
            return tuple(
                type(each)(_within(each.column, parts), Sql(target.replace(each.value.text, alias)))
                for each in write.assignments(clause.values)
            )

        clauses = tuple(
            Clause(each.when, each.action, None if each.condition is None else sql(each.condition), assignments(each))
            for each in self._clauses
        )
        whole = Merge(TableName(parts, alias), Sql(f"`{SOURCE}`"), source, sql(self._condition), clauses, self._evolves)
        check_clauses(whole)
        return whole

    def _add(self, clause: _Clause) -> EnabledMergeWriter:
        self._clauses.append(clause)
        return self


class MatchedRows:
    """The actions of `whenMatched` and `whenNotMatchedBySource`."""

    def __init__(self, writer: EnabledMergeWriter, when: When, condition: Any) -> None:
        self._writer, self._when, self._condition = writer, when, condition

    def updateAll(self) -> EnabledMergeWriter:
        """Set all columns to the source's columns of the same names."""
        if self._when is When.NOT_MATCHED_BY_SOURCE:
            with raise_as_spark():
                raise UnsupportedFeature(
                    "whenNotMatchedBySource().updateAll()", "There is no source row: use update() with values."
                )
        return self._writer._add(_Clause(self._when, MergeAction.UPDATE, self._condition))

    def update(self, assignments: dict[str, Any]) -> EnabledMergeWriter:
        """Set columns to values, by the columns' names."""
        return self._writer._add(_Clause(self._when, MergeAction.UPDATE, self._condition, dict(assignments)))

    def delete(self) -> EnabledMergeWriter:
        """Delete the rows."""
        return self._writer._add(_Clause(self._when, MergeAction.DELETE, self._condition))


class NewRows:
    """The actions of `whenNotMatched`."""

    def __init__(self, writer: EnabledMergeWriter, condition: Any) -> None:
        self._writer, self._condition = writer, condition

    def insertAll(self) -> EnabledMergeWriter:
        """Insert the rows; columns are matched by name."""
        return self._writer._add(_Clause(When.NOT_MATCHED, MergeAction.INSERT, self._condition))

    def insert(self, assignments: dict[str, Any]) -> EnabledMergeWriter:
        """Insert rows of values, by the columns' names."""
        return self._writer._add(_Clause(When.NOT_MATCHED, MergeAction.INSERT, self._condition, dict(assignments)))


def merge_into(session: EnabledSession, frame: Any, table: str, condition: Any) -> Any:
    """Run `df.mergeInto`."""
    parts = table_parts(session, table)
    return NOT_OURS if parts is None else EnabledMergeWriter(session, frame, parts, condition)


def _qualified(parts: tuple[str, ...], columns: list[str]) -> dict[tuple[str, ...], str]:
    """Return the names that expressions can have for the table's columns: with the table, its namespace and catalog."""
    if is_path(parts):
        return {}
    names = [each.lower() for each in parts]
    return {(*names[start:], column.lower()): column for start in range(len(names)) for column in columns}


def _within(column: tuple[str, ...], parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the name of a column to set without the names of its table."""
    names = tuple(each.lower() for each in parts)
    lower = tuple(each.lower() for each in column)
    for start in range(len(names) - 1):  # the engine knows the table's own name
        if len(lower) > len(names) - start and lower[: len(names) - start] == names[start:]:
            return column[len(names) - start :]
    return column


__all__ = ["EnabledMergeWriter", "MatchedRows", "NewRows", "merge_into"]
