"""Parse CREATE, REPLACE and DROP TABLE, and CREATE, ALTER and DROP VIEW."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakescan.common import types as t
from lakescan.common.references import dotted_path
from lakescan.definition.table_changes import Path, SetOrder
from lakescan.definition.table_definition import Term, assign_ids
from lakescan.errors import UnsupportedFeature
from lakescan.statements.syntax.alter_table import read_write_order
from lakescan.statements.syntax.columns import NO_COLUMNS, ColumnsText, read_columns
from lakescan.statements.syntax.layout import State, property_name, read_properties, read_state, read_term
from lakescan.statements.syntax.namespaces import read_table_or_path
from lakescan.statements.syntax.text import Sql, TableName
from lakescan.statements.syntax.token_reader import TokenReader
from lakescan.statements.syntax.types import read_type


@dataclass(frozen=True)
class CloneOf:
    """The source table of a SHALLOW CLONE, and the version or timestamp to clone; None for the current one."""

    table: TableName
    state: State | None = None


@dataclass(frozen=True)
class CreateTable:
    """CREATE [OR REPLACE] TABLE or REPLACE TABLE.

    - `columns`: the column list. Without one, the columns are those of the `query` of AS SELECT, or of another table
      (`like` or `clone`).
    - `format`: the format after USING in lower case, or None.
    - `order`: the sort order and distribution mode of WRITE. `cluster_by`: the column names of CLUSTER BY.
    - `properties`: the properties of TBLPROPERTIES and WITH.
    - `creates`: whether the table may be new. `replaces`: whether it may replace an existing table.
    """

    table: TableName
    columns: ColumnsText = NO_COLUMNS
    format: str | None = None
    partition_by: tuple[Term, ...] = ()
    order: SetOrder | None = None
    cluster_by: tuple[Path, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    comment: str | None = None
    creates: bool = True
    replaces: bool = False
    if_not_exists: bool = False
    query: Sql | None = None
    like: TableName | None = None
    clone: CloneOf | None = None

    @property
    def command(self) -> str:
        """CREATE TABLE, REPLACE TABLE or CREATE OR REPLACE TABLE."""
        if not self.replaces:
            return "CREATE TABLE"
        return "CREATE OR REPLACE TABLE" if self.creates else "REPLACE TABLE"


@dataclass(frozen=True)
class DropTable:
    """DROP TABLE [IF EXISTS] table [PURGE]."""

    table: TableName
    if_exists: bool = False
    purge: bool = False


def read_create_table(words: TokenReader, *, creates: bool = True, replaces: bool = False) -> CreateTable:
    """Read the part of a statement after CREATE TABLE, CREATE OR REPLACE TABLE or REPLACE TABLE.

    Raises `UnsupportedFeature` for DEEP CLONE and for clauses that lakescan does not run.
    """
    if_not_exists = words.takes("IF", "NOT", "EXISTS")
    if if_not_exists and replaces:
        raise words.error("REPLACE and IF NOT EXISTS exclude each other", words.at - 1)
    table = words.table_name("the name of a table")
    found = CreateTable(table, creates=creates, replaces=replaces, if_not_exists=if_not_exists)
    if words.takes("LIKE"):
        found = replace(found, like=words.table_name("the name of a table"))
    elif words.sees("DEEP", "CLONE") or words.sees("CLONE"):
        raise UnsupportedFeature("DEEP CLONE", "Use CREATE TABLE ... AS SELECT, or SHALLOW CLONE.")
    elif words.takes("SHALLOW", "CLONE"):
        source = read_table_or_path(words)
        found = replace(found, clone=CloneOf(source, read_state(words)))
    elif words.sees_symbol("("):
        found = replace(found, columns=read_columns(words, of_new_table=True))
    return _read_clauses(words, found)


def read_external_table(words: TokenReader) -> CreateTable:
    """Read the part of a statement after CREATE EXTERNAL TABLE; raises `InvalidStatement` without a LOCATION."""
    found = read_create_table(words)
    if found.location is None:
        raise words.unexpected_word("LOCATION")
    return found


def _read_clauses(words: TokenReader, found: CreateTable) -> CreateTable:
    """Read the clauses after the columns, in any order; raises `InvalidStatement` for a clause that occurs twice."""
    seen: set[str] = set()
    while not words.is_at_end:
        at = words.at
        clause, found = _read_clause(words, found)
        if clause == "AS":
            break
        if clause in seen:
            raise words.error(f"{clause} occurs twice", at)
        seen.add(clause)
    return found


def _read_clause(words: TokenReader, found: CreateTable) -> tuple[str, CreateTable]:
    if words.takes("USING"):
        return "USING", replace(found, format=words.name("a format").lower())
    if words.takes("PARTITIONED", "BY") or words.takes("PARTITION", "BY"):
        return "PARTITIONED BY", _read_partitioning(words, found)
    if words.takes("CLUSTERED", "BY"):
        return "CLUSTERED BY", _read_buckets(words, found)
    if words.takes("CLUSTER", "BY"):
        return "CLUSTER BY", replace(found, cluster_by=tuple(words.items(lambda: words.names("a column"))))
    if words.takes("WRITE"):
        return "WRITE", replace(found, order=read_write_order(words))
    if words.takes("LOCATION"):
        return "LOCATION", replace(found, location=words.text_literal("the folder, in quotes"))
    if words.takes("COMMENT"):
        return "COMMENT", replace(found, comment=words.text_literal("the comment"))
    if words.takes("TBLPROPERTIES"):
        return "TBLPROPERTIES", replace(found, properties={**found.properties, **read_properties(words)})
    if words.takes("WITH"):  # Flink's word for TBLPROPERTIES
        properties = read_properties(words)
        if connector := properties.get("connector"):
            raise UnsupportedFeature(
                f"'connector'='{connector}' in WITH",
                "Leave out the connector and its options: the first part of the table's name is its catalog.",
            )
        return "WITH", replace(found, properties={**found.properties, **properties})
    if words.sees("DISTRIBUTED"):
        raise UnsupportedFeature("DISTRIBUTED in CREATE TABLE", "Use PARTITIONED BY (bucket(n, column)).")
    if words.sees("LIKE"):
        raise UnsupportedFeature(
            "LIKE after the columns in CREATE TABLE",
            "Use CREATE TABLE ... LIKE without columns, then ALTER TABLE ... ADD COLUMNS.",
        )
    if found.like is not None and words.sees_symbol("("):
        raise UnsupportedFeature("INCLUDING and EXCLUDING of CREATE TABLE ... LIKE", "Leave them out.")
    if words.sees("OPTIONS") or words.sees("STORED") or words.sees("ROW", "FORMAT"):
        raise UnsupportedFeature(f"{words.words[words.at].text.upper()} in CREATE TABLE", "Use TBLPROPERTIES.")
    if words.sees("AS") or words.sees("SELECT") or (words.sees_symbol("(") and found.clone is None):
        words.takes("AS")
        start, words.at = words.at, len(words.words)
        return "AS", replace(found, query=words.between(start, words.at, "the query"))
    raise words.unexpected_word(
        "USING", "PARTITIONED BY", "CLUSTER BY", "WRITE", "LOCATION", "COMMENT", "TBLPROPERTIES", "WITH", "AS"
    )


def _read_partitioning(words: TokenReader, found: CreateTable) -> CreateTable:
    """Read the list after PARTITIONED BY: transforms, or (as in Hive) new columns with types, which are added last.

    Raises `InvalidStatement` for a mixture of both.
    """
    new: list[t.Field] = []

    def read() -> Term:
        is_column = words.is_name(words.at) and words.is_name(words.at + 1)
        if not is_column:
            return read_term(words)
        name = words.name("the name of a column")
        kind, comment = read_type(words), None
        if words.takes("COMMENT"):
            comment = words.text_literal("the comment")
        new.append(t.Field(0, name, kind, doc=comment))
        return Term(dotted_path([name]))

    at = words.at
    terms = tuple(words.items(read))
    if new and len(new) < len(terms):
        raise words.error("PARTITIONED BY takes new columns with types, or columns of the table", at, words.at - 1)
    columns = replace(found.columns, columns=assign_ids((*found.columns.columns, *new))) if new else found.columns
    return replace(found, columns=columns, partition_by=(*found.partition_by, *terms))


def _read_buckets(words: TokenReader, found: CreateTable) -> CreateTable:
    """Read the part after CLUSTERED BY, `(column) INTO n BUCKETS`, as the transform `bucket`.

    Raises `UnsupportedFeature` for several columns and SORTED BY.
    """
    columns = words.items(lambda: dotted_path(words.names("a column")))
    if len(columns) > 1 or words.sees("SORTED"):
        raise UnsupportedFeature(
            "CLUSTERED BY several columns, or SORTED BY", "Use PARTITIONED BY (bucket(n, column))."
        )
    words.needs("INTO")
    number = words.integer("a number of buckets")
    words.needs("BUCKETS")
    return replace(found, partition_by=(*found.partition_by, Term(columns[0], "bucket", number)))


def read_drop_table(words: TokenReader) -> DropTable:
    """Read the part of a statement after DROP TABLE: `[IF EXISTS] table [PURGE]`."""
    if_exists = words.takes("IF", "EXISTS")
    return DropTable(words.table_name("the name of a table"), if_exists, words.takes("PURGE"))


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW.

    `columns` are the names and comments of the view's columns; empty if they are not listed.
    """

    view: TableName
    query: Sql
    columns: tuple[tuple[str, str | None], ...] = ()
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    replaces: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropView:
    """DROP VIEW."""

    view: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class AlterView:
    """ALTER VIEW with a new `query`, a `new` name, `properties` to set, or names of properties to remove."""

    view: TableName
    query: Sql | None = None
    new: TableName | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


def read_create_view(words: TokenReader, *, replaces: bool = False) -> CreateView:
    """Read the part of a statement after CREATE VIEW: `[IF NOT EXISTS] name [(columns)]`, then clauses and `AS query`.

    The clauses are COMMENT and TBLPROPERTIES, in any order. `replaces` is whether OR REPLACE is set.
    """
    if_not_exists = words.takes("IF", "NOT", "EXISTS")
    view = words.table_name("the name of a view")
    columns: tuple[tuple[str, str | None], ...] = ()

    def read() -> tuple[str, str | None]:
        name = words.name("the name of a column")
        return name, words.text_literal("the comment") if words.takes("COMMENT") else None

    if words.sees_symbol("("):
        columns = tuple(words.items(read))
    comment, properties = None, {}
    while not words.takes("AS"):
        if words.takes("COMMENT"):
            comment = words.text_literal("the comment")
        elif words.takes("TBLPROPERTIES"):
            properties = read_properties(words)
        else:
            raise words.unexpected_word("COMMENT", "TBLPROPERTIES", "AS")
    return CreateView(view, _query(words), columns, comment, properties, replaces, if_not_exists)


def _query(words: TokenReader) -> Sql:
    start, words.at = words.at, len(words.words)
    return words.between(start, words.at, "the query")


def read_drop_view(words: TokenReader) -> DropView:
    """Read the part of a statement after DROP VIEW: `[IF EXISTS] name`."""
    if_exists = words.takes("IF", "EXISTS")
    return DropView(words.table_name("the name of a view"), if_exists)


def read_alter_view(words: TokenReader) -> AlterView:
    """Read the part of a statement after ALTER VIEW: `name`, then AS, RENAME TO, or SET or UNSET TBLPROPERTIES.

    Raises `UnsupportedFeature` for WITH SCHEMA.
    """
    view = words.table_name("the name of a view")
    if words.takes("AS"):
        return AlterView(view, _query(words))
    if words.takes("RENAME", "TO"):
        return AlterView(view, new=words.table_name("the new name"))
    if words.takes("SET", "TBLPROPERTIES"):
        return AlterView(view, properties=read_properties(words))
    if words.takes("UNSET", "TBLPROPERTIES"):
        words.takes("IF", "EXISTS")
        return AlterView(view, removed=tuple(words.items(lambda: property_name(words))))
    if words.sees("WITH"):
        raise UnsupportedFeature("ALTER VIEW ... WITH SCHEMA", "A view has the columns of its query.")
    raise words.unexpected_word("AS", "RENAME TO", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES")
