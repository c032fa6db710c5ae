"""Dataclasses for statements that change rows, whether written in SQL or built by Python methods.

Expressions are kept as SQL text in Spark's dialect. The engine that runs the statement parses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakescan.statements.syntax.text import Sql, TableName


@dataclass(frozen=True)
class Assignment:
    """`column = value` in UPDATE SET or MERGE.

    `column` holds the parts of the column's name as written: perhaps the table's name or alias, the column, and members
    of structs. A struct column may have the same name as the table, so `statements.rows.store_assignment` resolves the
    parts against the table's columns. `value` is the text `DEFAULT` for the column's default.
    """

    column: tuple[str, ...]
    value: Sql


class When(StrEnum):
    """The rows that a WHEN clause of a MERGE applies to: matched, only in the source, or only in the target."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class MergeAction(StrEnum):
    """The action of a WHEN clause of a MERGE."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True)
class Clause:
    """One WHEN clause of a MERGE.

    - `condition`: the condition after AND, or None.
    - `assignments`: the columns to set; None for `*`, which assigns all columns by name; empty for DELETE.
    """

    when: When
    action: MergeAction
    condition: Sql | None = None
    assignments: tuple[Assignment, ...] | None = ()


@dataclass(frozen=True)
class Delete:
    """`DELETE FROM target [WHERE where]`. Without `where` (and for TRUNCATE TABLE), all rows are deleted.

    `with_clause` is the text of a WITH before DELETE, whose queries may be used in subqueries of the condition.
    """

    target: TableName
    where: Sql | None = None
    with_clause: Sql | None = None


@dataclass(frozen=True)
class Update:
    """`UPDATE target SET assignments [WHERE where]`. `with_clause` is as in `Delete`."""

    target: TableName
    assignments: tuple[Assignment, ...]
    where: Sql | None = None
    with_clause: Sql | None = None


@dataclass(frozen=True)
class Merge:
    """`MERGE INTO target USING source ON on WHEN ...`.

    `source` is a table's name, perhaps with time travel, or a query in parentheses. Expressions refer to it as
    `source_alias`: its alias, or else the last part of the table's name, or None for a query without an alias.
    """

    target: TableName
    source: Sql
    source_alias: str | None
    on: Sql
    clauses: tuple[Clause, ...]
    with_schema_evolution: bool = False


@dataclass(frozen=True)
class Insert:
    """`INSERT INTO | OVERWRITE target [(columns)] [BY NAME] query`.

    `columns` is the column list in the order written, or None without a list. `with_clause` is the text of a WITH
    before INSERT, and `options` are the write options after the table's name.

    With `overwrite`, the rows of `partition` (column to value, None for a dynamic partition column) or of
    `replace_where` are replaced. With neither, the session's partition overwrite mode decides.
    """

    target: TableName
    query: Sql
    columns: tuple[str, ...] | None = None
    by_name: bool = False
    overwrite: bool = False
    partition: tuple[tuple[str, Sql | None], ...] = ()
    replace_where: Sql | None = None
    with_clause: Sql | None = None
    with_schema_evolution: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


DmlStatement = Delete | Update | Merge | Insert
