"""`Table.merge`: a MERGE, clause by clause."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from lakescan.common.references import parse_reference
from lakescan.errors import InvalidStatement
from lakescan.statements.syntax.dml import Assignment, Clause, Merge, MergeAction, When
from lakescan.statements.syntax.text import Sql, TableName
from lakescan.tables.results import ChangeResult

SOURCE = "__lakescan_source"  # the name of the source's rows in the query


class MergeBuilder:
    """A MERGE of rows into a table, made by `Table.merge`: clauses are added, `execute` commits it.

    For each row of the target that matches, the first `when_matched` clause whose condition holds counts; so for rows
    of the source without a match, and rows of the target without one. Conditions and values are SQL expressions over
    the columns of both sides, by their aliases. Each method returns a new builder.

    Example:
        >>> orders.merge(changes, on="t.id = s.id") \\
        ...     .when_matched_delete("s.is_deleted") \\
        ...     .when_matched_update_all() \\
        ...     .when_not_matched_insert_all("NOT s.is_deleted") \\
        ...     .execute()
    """

    def __init__(self, statement: Merge, run: Callable[[Merge], ChangeResult]) -> None:
        self._statement, self._run = statement, run

    def when_matched_update(self, set: Mapping[str, str], condition: str | None = None) -> MergeBuilder:
        """Update rows that match.

        Args:
            set: By column (or member of a struct, `address.city`), the SQL expression of its new value.
            condition: Only rows for which it is true.

        Example:
            >>> merge.when_matched_update({"price": "s.price", "at": "current_timestamp()"}, "s.price <> t.price")
        """
        return self._with(When.MATCHED, MergeAction.UPDATE, condition, set)

    def when_matched_update_all(self, condition: str | None = None) -> MergeBuilder:
        """Update all columns of rows that match, by the source's columns of the same names.

        Args:
            condition: Only rows for which it is true.

        Example:
            >>> merge.when_matched_update_all("s.version > t.version")
        """
        return self._with(When.MATCHED, MergeAction.UPDATE, condition, None)

    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete rows that match.

        Args:
            condition: Only rows for which it is true.

        Example:
            >>> merge.when_matched_delete("s.kind = 'D'")
        """
        return self._with(When.MATCHED, MergeAction.DELETE, condition)

    def when_not_matched_insert(self, values: Mapping[str, str], condition: str | None = None) -> MergeBuilder:
        """Insert rows of the source that match no row of the table.

        Args:
            values: By column, the SQL expression of its value; other columns get their defaults, or null.
            condition: Only rows for which it is true.

        Example:
            >>> merge.when_not_matched_insert({"id": "s.id", "price": "s.price"})
        """
        return self._with(When.NOT_MATCHED, MergeAction.INSERT, condition, values)

    def when_not_matched_insert_all(self, condition: str | None = None) -> MergeBuilder:
        """Insert rows of the source that match no row of the table, by the columns' names.

        Args:
            condition: Only rows for which it is true.

        Example:
            >>> merge.when_not_matched_insert_all()
        """
        return self._with(When.NOT_MATCHED, MergeAction.INSERT, condition, None)

    def when_not_matched_by_source_update(self, set: Mapping[str, str], condition: str | None = None) -> MergeBuilder:
        """Update rows of the table that match no row of the source.

        Args:
            set: By column, the SQL expression of its new value, over columns of the table.
            condition: Only rows for which it is true.

        Example:
            >>> merge.when_not_matched_by_source_update({"is_active": "false"})
        """
        return self._with(When.NOT_MATCHED_BY_SOURCE, MergeAction.UPDATE, condition, set)

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete rows of the table that match no row of the source.

        Args:
            condition: Only rows for which it is true.

        Example:
            >>> merge.when_not_matched_by_source_delete("t.day = '2026-01-31'")
        """
        return self._with(When.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE, condition)

    def execute(self) -> ChangeResult:
        """Run the MERGE in one commit.

        Returns:
            How many rows were inserted, updated and deleted.

        Raises:
            AmbiguousMerge: A row of the table matches several rows of the source; nothing is committed.
            InvalidStatement: An expression does not parse, or there is no clause.
            SchemaMismatch: A value does not fit its column; nothing is committed.
            CommitConflict: Another writer changed what the statement read.

        Example:
            >>> print(merge.execute())
            3 rows inserted, 12 rows updated (2 files written, 18.2 KB)
        """
        if not self._statement.clauses:
            raise InvalidStatement("a MERGE without a clause changes nothing: add when_matched_update_all() or another")
        return self._run(self._statement)

    def _with(
        self, when: When, action: MergeAction, condition: str | None, values: Mapping[str, str] | None = None
    ) -> MergeBuilder:
        assignments = () if action is MergeAction.DELETE else None if values is None else assignments_of(values)
        clause = Clause(when, action, None if condition is None else Sql(condition), assignments)
        before = [each for each in self._statement.clauses if each.when == when]
        if before and before[-1].condition is None:
            raise InvalidStatement(
                f"a clause for rows that are {when} comes after one without a condition, and would never be used"
            )
        return MergeBuilder(replace(self._statement, clauses=(*self._statement.clauses, clause)), self._run)


def assignments_of(values: Mapping[str, Any]) -> tuple[Assignment, ...]:
    """Assignments by the names of columns, in which dots lead to members of structs."""
    if not values:
        raise InvalidStatement("no column is set")
    found = []
    for name, value in values.items():
        if not isinstance(value, str):
            raise InvalidStatement(f"{name}: the value is SQL text, such as 'price * 1.1' or \"'open'\", not {value!r}")
        found.append(Assignment(parse_reference(name), Sql(value)))
    return tuple(found)


def merge_of(on: str, target: str, source: str) -> Merge:
    """A MERGE without clauses, of the source that the engine has under the name `SOURCE`."""
    if target.lower() == source.lower():
        raise InvalidStatement(f"the aliases of target and source are both {target!r}")
    return Merge(TableName((target,), target), Sql(f"`{SOURCE}`"), source, Sql(on), ())
