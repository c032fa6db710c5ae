"""Statements that change rows, in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakescan.errors import UnsupportedFeature
from lakescan.statements.rows.execute import run
from lakescan.statements.rows.insert import insert
from lakescan.statements.rows.parse import parse
from lakescan.statements.rows.statements import Insert
from lakescan.statements.syntax.parse import Arguments, with_named_parameters
from lakescan.tables.results import ChangeResult, WriteResult


def run_statement(
    text: str, args: Arguments, frames: Mapping[str, Any], within: tuple[str, ...]
) -> WriteResult | ChangeResult:
    """Run INSERT, DELETE, UPDATE, MERGE or TRUNCATE TABLE; see `lakescan.sql`.

    Args:
        text: The statement.
        args: The values of its parameters.
        frames: Tables and rows by the names that it has for them.
        within: The catalog and namespace of short names.
    """
    text, values = with_named_parameters(text, args)
    statement = parse(text, values)
    if statement is None:
        raise UnsupportedFeature("INSERT OVERWRITE DIRECTORY", "Write the rows of the query: lakescan.sql(query).")
    if isinstance(statement, Insert):
        return insert(statement, values, frames, within, text)
    return run(statement, values, frames, within, text)
