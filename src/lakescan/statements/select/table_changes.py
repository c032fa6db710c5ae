"""`table_changes('catalog.namespace.table', start, end)`: the changes of a table's rows in a range of its commits.

The name, the arguments and what they mean are Delta's: both ends are included, numbers are versions (Delta) or snapshot
ids (Iceberg), texts are times. `table_changes_by_path('/path', start, end)` is the same for a Delta table's folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import Any

from lakescan.common.identifiers import split_name
from lakescan.common.metadata_columns import CHANGELOG
from lakescan.common.timestamps import as_moment
from lakescan.errors import InvalidOption, InvalidStatement
from lakescan.expressions.bind import bind
from lakescan.expressions.predicate import TRUE, Predicate, leaves
from lakescan.statements.select.timestamps import moment_of
from lakescan.statements.syntax.spark_syntax import place_of_call
from lakescan.statements.syntax.text import text_of, underline_place
from lakescan.tables.scan_spec import ScanSpec

_BY_NAME, _BY_PATH = "table_changes", "table_changes_by_path"
_USAGE = "table_changes('catalog.namespace.table', start) or table_changes('catalog.namespace.table', start, end)"
_CHANGELOG = {each.id for each in CHANGELOG}


def is_call(node: Any) -> bool:
    """Whether a table of a FROM is a call of `table_changes`."""
    from sqlglot import exp

    return (
        isinstance(node, exp.Table)
        and isinstance(node.this, exp.Anonymous)
        and node.this.name.lower() in (_BY_NAME, _BY_PATH)
        and not node.args.get("db")
    )


@dataclass(frozen=True)
class TableChangesRange:
    """The commits whose changes are read: expressions of the first and of the last; without the last, up to now."""

    start: Any
    end: Any
    values: Mapping[str, Any]

    def changes_scan(self, spec: ScanSpec, zone: tzinfo) -> ScanSpec:
        """The scan of the changes in this range; raises `InvalidOption` and what resolving the range raises."""
        is_whole = spec.selector is None and spec.condition == TRUE and spec.max_rows is None
        if not is_whole or spec.columns is not None or spec.options.columns:
            raise InvalidOption("table_changes reads the changes of a whole table, not those of a state or of a scan")
        start, end = (None if each is None else self._bound(each, zone) for each in (self.start, self.end))
        assert start is not None
        found = spec.at(spec.table.changes_from(start, end))
        found.snapshot  # noqa: B018  raises for a range that the table does not have
        return found

    def _bound(self, node: Any, zone: tzinfo) -> int | str | datetime:
        """One end: a version or snapshot id, a time, or (Iceberg) the name of a tag."""
        from sqlglot import exp

        value: Any = node
        if isinstance(node, exp.Placeholder):
            if node.name not in self.values:
                raise InvalidStatement(f"the parameter :{node.name} has no value in args")
            value = self.values[node.name]
        elif isinstance(node, exp.Literal):
            value = node.name if node.is_string else int(node.name) if node.name.isdecimal() else node
        if isinstance(value, bool) or value is None or not isinstance(value, int | str | date | exp.Expression):
            raise InvalidStatement(f"table_changes takes a version or a time, not {value!r}")
        if isinstance(value, int):
            return value
        if isinstance(value, exp.Expression):
            is_number = isinstance(value, exp.Literal | exp.Neg | exp.Null | exp.Boolean)
            if is_number:
                raise InvalidStatement(f"table_changes takes a version or a time, not {value.sql('spark')}")
            value = moment_of(value, zone, "table_changes")
        try:
            return as_moment(value, zone)
        except InvalidOption:
            if isinstance(value, str):
                return value
            raise


def read_call(node: Any, text: str, values: Mapping[str, Any]) -> tuple[tuple[str, ...], TableChangesRange, int, int]:
    """The parts of the table's name, the range, and the place of the call in the text.

    Raises `InvalidStatement`; the message underlines the call.
    """
    from sqlglot import exp

    call = node.this
    start, end = place_of_call(call, text)
    given = call.expressions
    problem = ""
    if not 2 <= len(given) <= 3:
        problem = f"takes a table, a start and perhaps an end: {_USAGE}"
    elif any(isinstance(each, exp.Kwarg) for each in given):
        problem = f"takes its arguments by their positions: {_USAGE}"
    elif node.args.get("version"):
        problem = "takes the range as arguments, not AS OF"
    names = None if problem else _names(given[0], values, call.name.lower() == _BY_PATH)
    if not problem and not names:
        problem = f"takes the name of a table as text, not {given[0].sql('spark')}: {_USAGE}"
    if problem or names is None:
        raise InvalidStatement(f"{call.name} {problem}{underline_place(text, start, end)}")
    return names, TableChangesRange(given[1], given[2] if len(given) == 3 else None, values), start, end


def _names(node: Any, values: Mapping[str, Any], is_path: bool) -> tuple[str, ...] | None:
    """The parts of the name that is the first argument: a text, a parameter, or the name itself."""
    from sqlglot import exp

    text = text_of(node, values)
    if text is not None:
        return ("delta", text) if is_path else split_name(text.strip())
    if isinstance(node, exp.Column | exp.Dot) and all(isinstance(each, exp.Identifier) for each in node.parts):
        return None if is_path else tuple(each.name for each in node.parts)
    return None


def is_of_rows(predicate: Predicate, spec: ScanSpec) -> bool:
    """Whether a condition is about columns of the table alone.

    Rows that a commit deletes and inserts unchanged cancel out: a condition may be evaluated before only if equal rows
    are alike to it, whether they are deleted or inserted.
    """
    return _CHANGELOG.isdisjoint(each.bound_id for each in leaves(bind(predicate, spec.snapshot.schema)))
