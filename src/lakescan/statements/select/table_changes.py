"""`table_changes('catalog.namespace.table', start, end)`: the changes of a table's rows in a range of its commits.

The name and the arguments are Delta's. Both ends are included. Numbers are versions (Delta) or snapshot ids (Iceberg),
and strings are timestamps. `table_changes_by_path('/path', start, end)` reads the changes of the Delta table in a
folder.
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
    """Return whether a table in a FROM clause is a call of `table_changes` or `table_changes_by_path`."""
    from sqlglot import exp

    return (
        isinstance(node, exp.Table)
        and isinstance(node.this, exp.Anonymous)
        and node.this.name.lower() in (_BY_NAME, _BY_PATH)
        and not node.args.get("db")
    )


@dataclass(frozen=True)
class TableChangesRange:
    """The range of commits whose changes are read.

    `start` and `end` are the sqlglot expressions of the first and last commit. If `end` is None, the range extends to
    the newest commit. `values` are the statement's parameters, by name.
    """

    start: Any
    end: Any
    values: Mapping[str, Any]

    def changes_scan(self, spec: ScanSpec, zone: tzinfo) -> ScanSpec:
        """Return the scan of the table's changes in this range.

        `zone` is the time zone of timestamps without an offset. Raises `InvalidOption` if `spec` is not a scan of the
        whole table, and the errors of resolving the range.
        """
        is_whole = spec.selector is None and spec.condition == TRUE and spec.max_rows is None
        if not is_whole or spec.columns is not None or spec.options.columns:
            raise InvalidOption("table_changes takes a whole table: remove the time travel, or the scan's filters")
        start, end = (None if each is None else self._bound(each, zone) for each in (self.start, self.end))
        assert start is not None
        found = spec.at(spec.table.changes_from(start, end))
        found.snapshot  # noqa: B018  raises an error if the table does not have the range
        return found

    def _bound(self, node: Any, zone: tzinfo) -> int | str | datetime:
        """Return one end of the range: a version or snapshot id, a timestamp, or (Iceberg) the name of a tag.

        Raises `InvalidStatement` for other values, and for a parameter without a value.
        """
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
    """Read a call of `table_changes` from its sqlglot node.

    Returns the parts of the table's name, the range, and the start and end of the call in the text. Raises
    `InvalidStatement`, whose message underlines the call.
    """
    from sqlglot import exp

    call = node.this
    start, end = place_of_call(call, text)
    given = call.expressions
    problem = ""
    if not 2 <= len(given) <= 3:
        problem = f"takes a table, a start and perhaps an end: {_USAGE}"
    elif any(isinstance(each, exp.Kwarg) for each in given):
        problem = f"takes positional arguments only: {_USAGE}"
    elif node.args.get("version"):
        problem = "takes the range as arguments, not AS OF"
    names = None if problem else _names(given[0], values, call.name.lower() == _BY_PATH)
    if not problem and not names:
        problem = f"takes the name of a table as a string, not {given[0].sql('spark')}: {_USAGE}"
    if problem or names is None:
        raise InvalidStatement(f"{call.name} {problem}{underline_place(text, start, end)}")
    return names, TableChangesRange(given[1], given[2] if len(given) == 3 else None, values), start, end


def _names(node: Any, values: Mapping[str, Any], is_path: bool) -> tuple[str, ...] | None:
    """Return the parts of the table's name in the first argument: a string, a parameter, or the name itself.

    Returns None for other expressions. With `is_path`, the argument is the folder of a Delta table.
    """
    from sqlglot import exp

    text = text_of(node, values)
    if text is not None:
        return ("delta", text) if is_path else split_name(text.strip())
    if isinstance(node, exp.Column | exp.Dot) and all(isinstance(each, exp.Identifier) for each in node.parts):
        return None if is_path else tuple(each.name for each in node.parts)
    return None


def is_of_rows(predicate: Predicate, spec: ScanSpec) -> bool:
    """Return whether a condition uses only columns of the table, not the metadata columns of its changes.

    A row that a commit deletes and inserts unchanged cancels out. A condition may be evaluated before that only if it
    treats equal rows alike, whether they are deleted or inserted.
    """
    return _CHANGELOG.isdisjoint(each.bound_id for each in leaves(bind(predicate, spec.snapshot.schema)))
