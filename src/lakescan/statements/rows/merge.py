"""`Table.merge`: build a MERGE clause by clause."""

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
    """A MERGE of rows into a table, created by `Table.merge`. Add clauses, then commit with `execute`.

    For each matched row, the first `when_matched` clause whose condition is true applies. The same holds for source
    rows without a match (`when_not_matched`) and for target rows without a match (`when_not_matched_by_source`).
    Conditions and values are SQL expressions over the columns of both sides, qualified by the sides' aliases.

    Each method for a clause returns a new builder. It raises `InvalidStatement` for a clause that never applies,
    because an earlier clause for the same rows has no condition.

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
        """Update matched rows.

        Args:
            set: The SQL expression of the new value, by column or struct member (`address.city`).
            condition: An SQL condition that a row must satisfy to be updated.

        Example:
            >>> merge.when_matched_update({"price": "s.price", "at": "current_timestamp()"}, "s.price <> t.price")
        """
        return self._with(When.MATCHED, MergeAction.UPDATE, condition, set)

    def when_matched_update_all(self, condition: str | None = None) -> MergeBuilder:
        """Set all columns of matched rows to the source's columns of the same names.

        Args:
            condition: An SQL condition that a row must satisfy to be updated.

        Example:
            >>> merge.when_matched_update_all("s.version > t.version")
        """
        return self._with(When.MATCHED, MergeAction.UPDATE, condition, None)

    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete matched rows.

        Args:
            condition: An SQL condition that a row must satisfy to be deleted.

        Example:
            >>> merge.when_matched_delete("s.kind = 'D'")
        """
        return self._with(When.MATCHED, MergeAction.DELETE, condition)

    def when_not_matched_insert(self, values: Mapping[str, str], condition: str | None = None) -> MergeBuilder:
        """Insert source rows that match no row of the table.

        Args:
            values: The SQL expression of the value, by column. Other columns get their defaults, or null.
            condition: An SQL condition that a row must satisfy to be inserted.

        Example:
            >>> merge.when_not_matched_insert({"id": "s.id", "price": "s.price"})
        """
        return self._with(When.NOT_MATCHED, MergeAction.INSERT, condition, values)

    def when_not_matched_insert_all(self, condition: str | None = None) -> MergeBuilder:
        """Insert source rows that match no row of the table. Columns are matched by name.

        Args:
            condition: An SQL condition that a row must satisfy to be inserted.

        Example:
            >>> merge.when_not_matched_insert_all()
        """
        return self._with(When.NOT_MATCHED, MergeAction.INSERT, condition, None)

    def when_not_matched_by_source_update(self, set: Mapping[str, str], condition: str | None = None) -> MergeBuilder:
        """Update rows of the table that match no source row.

        Args:
            set: The SQL expression of the new value over the table's columns, by column.
            condition: An SQL condition that a row must satisfy to be updated.

        Example:
            >>> merge.when_not_matched_by_source_update({"is_active": "false"})
        """
        return self._with(When.NOT_MATCHED_BY_SOURCE, MergeAction.UPDATE, condition, set)

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete rows of the table that match no source row.

        Args:
            condition: An SQL condition that a row must satisfy to be deleted.

        Example:
            >>> merge.when_not_matched_by_source_delete("t.day = '2026-01-31'")
        """
        return self._with(When.NOT_MATCHED_BY_SOURCE, MergeAction.DELETE, condition)

    def execute(self) -> ChangeResult:
        """Run the MERGE in one commit.

        Returns:
            The numbers of rows inserted, updated and deleted.

        Raises:
            AmbiguousMerge: A row of the table matches several source rows. Nothing is committed.
            InvalidStatement: An expression cannot be parsed, or the MERGE has no clause.
            SchemaMismatch: A value does not fit its column. Nothing is committed.
            CommitConflict: A concurrent commit changed data that the MERGE read.

        Example:
            >>> print(merge.execute())
            3 rows inserted, 12 rows updated (2 files written, 18.2 KB)
        """
        if not self._statement.clauses:
            raise InvalidStatement("the MERGE has no clause: add one, such as when_matched_update_all()")
        return self._run(self._statement)

    def _with(
        self, when: When, action: MergeAction, condition: str | None, values: Mapping[str, str] | None = None
    ) -> MergeBuilder:
        assignments = () if action is MergeAction.DELETE else None if values is None else assignments_of(values)
        clause = Clause(when, action, None if condition is None else Sql(condition), assignments)
        before = [each for each in self._statement.clauses if each.when == when]
        if before and before[-1].condition is None:
            raise InvalidStatement(
                f"a clause for rows that are {when} follows one without a condition and would never apply: remove one, "
                "or add a condition to the first"
            )
        return MergeBuilder(replace(self._statement, clauses=(*self._statement.clauses, clause)), self._run)


def assignments_of(values: Mapping[str, Any]) -> tuple[Assignment, ...]:
    """Return assignments from SQL values by column name. Dots in a name lead to struct members.

    Raises `InvalidStatement` for an empty mapping, and for a value that is not text.
    """
    if not values:
        raise InvalidStatement("no column is set: name at least one column and its value")
    found = []
    for name, value in values.items():
        if not isinstance(value, str):
            raise InvalidStatement(f"{name}: the value is SQL text, such as 'price * 1.1' or \"'open'\", not {value!r}")
        found.append(Assignment(parse_reference(name), Sql(value)))
    return tuple(found)


def merge_of(on: str, target: str, source: str) -> Merge:
    """Return a MERGE without clauses; raises `InvalidStatement` if the aliases are the same.

    `on` is the SQL join condition. `target` and `source` are the aliases. The engine reads the source's rows under the
    name `SOURCE`.
    """
    if target.lower() == source.lower():
        raise InvalidStatement(f"the aliases of target and source are both {target!r}")
    return Merge(TableName((target,), target), Sql(f"`{SOURCE}`"), source, Sql(on), ())
