"""What a statement that changes rows says, whether it was written in SQL or in Python.

Expressions stay SQL text in Spark's dialect: the engine that runs the statement reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakescan.statements.syntax.text import Sql, TableName


@dataclass(frozen=True)
class Assignment:
    """`column = value`: the parts of the column's name, as they were written; members of structs follow.

    The table's name or alias may come first. A struct may have that name, too: `statements.rows.store_assignment`
    decides by the table's columns. The value is the text `DEFAULT` for the column's default.
    """

    column: tuple[str, ...]
    value: Sql


class When(StrEnum):
    """Which rows a clause of a MERGE is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class MergeAction(StrEnum):
    """What a clause of a MERGE does."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True)
class Clause:
    """One clause of a MERGE. `assignments` None: all columns (`*`), by their names."""

    when: When
    action: MergeAction
    condition: Sql | None = None
    assignments: tuple[Assignment, ...] | None = ()


@dataclass(frozen=True)
class Delete:
    """`DELETE FROM target WHERE where`; without `where`, all rows (`TRUNCATE TABLE`, too).

    `with_clause` is the text of a WITH before it, whose queries subqueries of the condition may name.
    """

    target: TableName
    where: Sql | None = None
    with_clause: Sql | None = None


@dataclass(frozen=True)
class Update:
    """`UPDATE target SET assignments WHERE where`; `with_clause` as in `Delete`."""

    target: TableName
    assignments: tuple[Assignment, ...]
    where: Sql | None = None
    with_clause: Sql | None = None


@dataclass(frozen=True)
class Merge:
    """`MERGE INTO target USING source ON on WHEN ...`.

    `source` is a table's name with what may follow it (time travel), or a query in parentheses; `source_alias` the name
    by which expressions refer to it: without an alias the last part of its name, None for a query.
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

    `columns` are those that were listed, in their order; None for all. `with_clause` is the text of a WITH before the
    INSERT, `options` those of the write, behind the table's name. With `overwrite`, rows are replaced: those of
    `partition` (column to value; None for a dynamic one), of `replace_where`, or, without either, as the session's mode
    says.
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
