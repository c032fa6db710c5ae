"""Parse statements about namespaces and catalogs: CREATE, ALTER and DROP NAMESPACE, SHOW, DESCRIBE, COMMENT ON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from lakescan.statements.syntax.layout import property_name, property_value, read_properties
from lakescan.statements.syntax.text import TableName
from lakescan.statements.syntax.token_reader import TokenReader

Names = tuple[str, ...]


@dataclass(frozen=True)
class CreateNamespace:
    """CREATE NAMESPACE, or its synonyms CREATE DATABASE and CREATE SCHEMA."""

    name: Names
    if_not_exists: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DropNamespace:
    """DROP NAMESPACE. With `cascade`, its tables are dropped too."""

    name: Names
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AlterNamespace:
    """ALTER NAMESPACE ... SET or UNSET PROPERTIES, or SET LOCATION (the property `location`).

    - `properties`: the properties to set.
    - `removed`: the names of properties to remove.
    """

    name: Names
    properties: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommentOn:
    """COMMENT ON a table (`is_table`) or a namespace. A `comment` of None removes the comment."""

    name: TableName
    comment: str | None
    is_table: bool = True


class ShowKind(StrEnum):
    """The object that SHOW or DESCRIBE shows."""

    CATALOGS = "catalogs"
    NAMESPACES = "namespaces"
    TABLES = "tables"
    VIEWS = "views"
    PROCEDURES = "procedures"
    CREATE_TABLE = "create table"
    COLUMNS = "columns"
    PROPERTIES = "properties"
    PARTITIONS = "partitions"
    BRANCHES = "branches"
    TAGS = "tags"
    CURRENT_NAMESPACE = "current namespace"
    NAMESPACE = "namespace"
    TABLE = "table"
    HISTORY = "history"
    DETAIL = "detail"


@dataclass(frozen=True)
class Show:
    """SHOW or DESCRIBE of a table, or SHOW of the objects in a namespace.

    - `what`: the object to show.
    - `table`: the table. `namespace`: the namespace, or None for the current one.
    - `pattern`: a pattern of Spark's SHOW, with `*` and `|`.
    - `extended`: whether EXTENDED or FORMATTED is set.
    - `column`: the parts of the column's name in DESCRIBE, or the key of SHOW TBLPROPERTIES.
    - `limit`: the number of rows of DESCRIBE HISTORY.
    - `partition`: the values in SHOW PARTITIONS by column, as text; None values mean null.
    """

    what: ShowKind
    table: TableName | None = None
    namespace: Names | None = None
    pattern: str | None = None
    extended: bool = False
    column: Names | None = None
    limit: int | None = None
    partition: Mapping[str, str | None] | None = None


@dataclass(frozen=True)
class CreateCatalog:
    """CREATE CATALOG with the properties that open the catalog."""

    name: str
    properties: Mapping[str, str]
    if_not_exists: bool = False


def read_create_catalog(words: TokenReader) -> CreateCatalog:
    """Read the part of a statement after CREATE CATALOG: `[IF NOT EXISTS] name WITH (...)`."""
    if_not_exists = words.takes("IF", "NOT", "EXISTS")
    name = words.name("the name of a catalog")
    words.needs("WITH")
    return CreateCatalog(name, read_properties(words), if_not_exists)


def read_show_partitions(words: TokenReader) -> Show:
    """Read the part of a statement after SHOW PARTITIONS: `table [PARTITION (column = value, ...)]`."""
    table, values = words.table_name("the name of a table"), {}

    def read() -> None:
        name = words.name("the name of a partition column")
        words.needs_symbol("=")
        values[name] = None if words.takes("NULL") else _partition_value(words, name)

    if words.takes("PARTITION"):
        words.items(read)
    return Show(ShowKind.PARTITIONS, table, partition=values or None)


def _partition_value(words: TokenReader, name: str) -> str:
    words.takes("DATE") or words.takes("TIMESTAMP")
    return property_value(words, name)


def read_create_namespace(words: TokenReader) -> CreateNamespace:
    """Read the part of a statement after CREATE NAMESPACE: `[IF NOT EXISTS] name` and other clauses.

    The clauses are COMMENT, LOCATION and WITH PROPERTIES, in any order. The comment and the location become the
    properties `comment` and `location`.
    """
    if_not_exists = words.takes("IF", "NOT", "EXISTS")
    name = words.names("the name of a namespace")
    properties: dict[str, str] = {}
    while not words.is_at_end:
        if words.takes("COMMENT"):
            properties["comment"] = words.text_literal("the comment")
        elif words.takes("LOCATION"):
            properties["location"] = words.text_literal("the folder, in quotes")
        elif words.takes("WITH", "DBPROPERTIES") or words.takes("WITH", "PROPERTIES"):
            properties |= read_properties(words)
        else:
            raise words.unexpected_word("COMMENT", "LOCATION", "WITH PROPERTIES")
    return CreateNamespace(name, if_not_exists, properties)


def read_drop_namespace(words: TokenReader) -> DropNamespace:
    """Read the part of a statement after DROP NAMESPACE: `[IF EXISTS] name [RESTRICT | CASCADE]`."""
    if_exists = words.takes("IF", "EXISTS")
    name = words.names("the name of a namespace")
    cascade = words.takes("CASCADE")
    if not cascade:
        words.takes("RESTRICT")
    return DropNamespace(name, if_exists, cascade)


def read_alter_namespace(words: TokenReader) -> AlterNamespace:
    """Read the part of a statement after ALTER NAMESPACE: `name`, then SET or UNSET PROPERTIES, or SET LOCATION."""
    name = words.names("the name of a namespace")
    if words.takes("SET", "PROPERTIES") or words.takes("SET", "DBPROPERTIES"):
        return AlterNamespace(name, read_properties(words))
    if words.takes("SET", "LOCATION"):
        return AlterNamespace(name, {"location": words.text_literal("the folder, in quotes")})
    if words.takes("UNSET", "PROPERTIES") or words.takes("UNSET", "DBPROPERTIES"):
        return AlterNamespace(name, {}, tuple(words.items(lambda: property_name(words))))
    raise words.unexpected_word("SET PROPERTIES", "UNSET PROPERTIES", "SET LOCATION")


def read_comment_on(words: TokenReader) -> CommentOn:
    """Read the part of a statement after COMMENT ON: `TABLE | NAMESPACE name IS 'text' | NULL`."""
    is_table = words.takes("TABLE")
    if not is_table and not any(words.takes(each) for each in ("NAMESPACE", "DATABASE", "SCHEMA")):
        raise words.unexpected_word("TABLE", "NAMESPACE")
    name = words.table_name("a name")
    words.needs("IS")
    if words.sees_parameter:
        comment = words.parameter("the comment, or NULL", str, type(None))
    else:
        comment = None if words.takes("NULL") else words.text_literal("the comment, or NULL")
    return CommentOn(name, comment, is_table)


def read_show_in(words: TokenReader, what: ShowKind) -> Show:
    """Read the part of a SHOW statement after the keywords: `[FROM | IN namespace] [[LIKE] 'pattern']`."""
    namespace = words.names("the name of a namespace") if words.takes("FROM") or words.takes("IN") else None
    pattern = words.text_literal("a pattern, in quotes") if words.takes("LIKE") or not words.is_at_end else None
    return Show(what, namespace=namespace, pattern=pattern)


def read_show_columns(words: TokenReader) -> Show:
    """Read the part of a statement after SHOW COLUMNS: `FROM | IN table [FROM | IN namespace]`."""
    if not (words.takes("FROM") or words.takes("IN")):
        raise words.unexpected_word("FROM", "IN")
    table = words.table_name("the name of a table")
    if words.takes("FROM") or words.takes("IN"):
        table = TableName((*words.names("the name of a namespace"), *table.parts), None, table.start, table.end)
    return Show(ShowKind.COLUMNS, table)


def read_show_properties(words: TokenReader) -> Show:
    """Read the part of a statement after SHOW TBLPROPERTIES: `table [('name')]`."""
    table, column = words.table_name("the name of a table"), None
    if words.takes_symbol("("):
        column = (property_name(words),)
        words.needs_symbol(")")
    return Show(ShowKind.PROPERTIES, table, column=column)


def read_show_table(words: TokenReader, what: ShowKind) -> Show:
    """Read the part of a SHOW statement about one table after the keywords: `[FROM | IN] table`."""
    words.takes("FROM") or words.takes("IN")
    return Show(what, words.table_name("the name of a table"))


def read_describe(words: TokenReader) -> Show:
    """Read the part of a statement after DESCRIBE: a table or one of its columns, a namespace, HISTORY or DETAIL."""
    for name, what in (("HISTORY", ShowKind.HISTORY), ("DETAIL", ShowKind.DETAIL)):
        if words.sees(name) and words.at + 1 < len(words.words) and words.words[words.at + 1].text != ".":
            words.at += 1
            table = read_table_or_path(words)
            limit = words.integer("a number of commits") if words.takes("LIMIT") else None
            return Show(what, table, limit=limit)
    if any(words.takes(each) for each in ("NAMESPACE", "DATABASE", "SCHEMA")):
        extended = words.takes("EXTENDED")
        return Show(ShowKind.NAMESPACE, namespace=words.names("the name of a namespace"), extended=extended)
    words.takes("TABLE")
    extended = words.takes("EXTENDED") or words.takes("FORMATTED")
    table = words.table_name("the name of a table")
    column = None if words.is_at_end else words.names("the name of a column")
    return Show(ShowKind.TABLE, table, extended=extended, column=column)


def read_table_or_path(words: TokenReader) -> TableName:
    """Read the name of a table, or the path of a Delta table in quotes (as Delta's commands accept it)."""
    at = words.at
    if not words.is_at_end and words.words[at].token_type.name == "STRING":
        path = words.text_literal("the path of a table")
        return TableName(("delta", path), None, words.words[at].start, words.words[at].end + 1)
    return words.table_name("the name of a table")
