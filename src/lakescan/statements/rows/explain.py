"""EXPLAIN of statements that change rows: the data that they would read, and the mode of the write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakescan.errors import UnsupportedFeature
from lakescan.planning.explain import plan_as_text
from lakescan.statements.rows.change_query import TARGET
from lakescan.statements.rows.delete_whole_files import plan_filter_delete
from lakescan.statements.rows.execute import Change, query_of
from lakescan.statements.rows.expressions import translate_error_places
from lakescan.statements.rows.insert import run_insert
from lakescan.statements.rows.target import changed_table
from lakescan.statements.select.query import Query, query
from lakescan.statements.syntax.dml import Delete, Insert, Merge, Update
from lakescan.statements.syntax.parse import Arguments, name_parameters
from lakescan.statements.syntax.parse_dml import parse
from lakescan.tables.base import Target


def explain_statement(text: str, args: Arguments, frames: Mapping[str, Any], within: tuple[str, ...]) -> str:
    """Explain INSERT, DELETE, UPDATE, MERGE or TRUNCATE TABLE without running it.

    Args:
        text: The statement, without EXPLAIN.
        args: The values of its parameters.
        frames: Tables and rows, by the names that the statement uses for them.
        within: The catalog and namespace of short names.

    Returns:
        The table and the write mode, then the scans with their filters and the files that they skip.

    Raises:
        The errors that the statement raises before it reads rows, and `UnsupportedFeature` for a MERGE that would add
        columns.

    Example:
        >>> print(explain_statement("DELETE FROM local.shop.orders WHERE id = 7", None, {}, ()))
        DELETE FROM local.shop.orders (copy-on-write)
        ...
    """
    text, values = name_parameters(text, args)
    statement = parse(text, values)
    if statement is None:
        raise UnsupportedFeature("EXPLAIN of INSERT OVERWRITE DIRECTORY", "Explain the query.")
    found = changed_table(statement.target, within, frames, text)
    lines: list[str] = []
    name = ".".join(statement.target.parts)
    if isinstance(statement, Insert):
        what = "OVERWRITE" if statement.overwrite else "INTO"

        def insertion(one: Any) -> Any:
            lines.append(f"INSERT {what} {name}")
            lines.append(query(one.query, values or None, frames, within).explain())

        run_insert(statement, found, values, insertion)
    else:
        found.run(
            {}, lambda target, _: lines.extend(_explain_change(target, statement, values or None, frames, within))
        )
    return "\n".join(lines)


def _explain_change(
    target: Target,
    statement: Delete | Update | Merge,
    values: Mapping[str, Any] | None,
    frames: Mapping[str, Any],
    within: tuple[str, ...],
) -> list[str]:
    one, name = Change(target, statement), ".".join(statement.target.parts)
    into = {Delete: "DELETE FROM", Update: "UPDATE", Merge: "MERGE INTO"}[type(statement)]
    lines = [f"{into} {name} ({one.mode})"]

    def run(text: str) -> Query:
        return query_of(one, frames, values, within, text)

    if isinstance(statement, Delete) and not values and (quick := plan_filter_delete(one, of_sql=True)) is not None:
        lines.append(f"files removed without being read: {len(quick.whole):,}, of {quick.rows:,} rows")
        lines.append(f"files that are read, where {quick.where}: {len(quick.others.table):,}")
        return [*lines, *(f"  {line}" for line in plan_as_text(quick.others).splitlines())]
    if isinstance(statement, Merge) and one.needs_source:
        text = f"SELECT * FROM {statement.source}\n"
        with translate_error_places(statement, text, ()):
            names = run(text).schema.names
        known = {name.lower() for name in target.writes.schema.names}
        if one.evolves and (new := [name for name in names if name.lower() not in known]):
            raise UnsupportedFeature(
                f"EXPLAIN of a MERGE that may add columns ({', '.join(new)})",
                "Explain it without WITH SCHEMA EVOLUTION.",
            )
        one = Change(target, statement, names)
    text = one.selecting.query().text
    with translate_error_places(one.statement, text, target.writes.schema.names):
        lines.append(run(text).explain().replace(TARGET, name))
    return lines
