"""Views of catalogs: CREATE, ALTER and DROP VIEW."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakescan.errors import UnsupportedFeature
from lakescan.statements.syntax.layout import property_name, read_properties
from lakescan.statements.syntax.names import Sql, TableName
from lakescan.statements.syntax.words import TokenReader


@dataclass(frozen=True)
class CreateView:
    """CREATE [OR REPLACE] VIEW; `columns` are new names and comments of the query's columns."""

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
    """ALTER VIEW: a new query, a new name, or properties."""

    view: TableName
    query: Sql | None = None
    new: TableName | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()


def read_create_view(words: TokenReader, *, replaces: bool = False) -> CreateView:
    """Read what follows CREATE VIEW."""
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
    """Read what follows DROP VIEW."""
    if_exists = words.takes("IF", "EXISTS")
    return DropView(words.table_name("the name of a view"), if_exists)


def read_alter_view(words: TokenReader) -> AlterView:
    """Read what follows ALTER VIEW."""
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
        raise UnsupportedFeature("ALTER VIEW ... WITH SCHEMA", "A view takes the columns that its query has.")
    raise words.unexpected_word("AS", "RENAME TO", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES")
