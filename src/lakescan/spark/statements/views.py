"""Views of queries over tables, which see the newest state of their tables: `lakescan.spark.create_view`.

Spark keeps the plan of a temporary view, and with it the states of its tables. The text of the view is therefore kept
beside it, in the session's settings: `lakescan.spark.sql` puts it in the place of the view's name, and reads the tables
as they are then. Spark's own `spark.sql` reads what `create_view` or `refresh_view` saw last.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

from lakescan.common.identifiers import split_name
from lakescan.common.references import backquote
from lakescan.errors import InvalidOption, InvalidStatement, NoSuchTable, nearest
from lakescan.spark.session import conf
from lakescan.statements.select.analysis import QueryAnalysis
from lakescan.statements.syntax.parse import StatementKind, statement_of
from lakescan.statements.syntax.text import apply_edits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEWS = "spark.lakescan.views"  # texts and marks of views by their names, as JSON
_WHOLE = "SELECT * FROM "
_MARK = "lakescan.api.view"  # in the metadata of a view's first column: whether it is still the one that was created


def read_views(spark: SparkSession) -> dict[str, dict[str, str]]:
    """The views that were created in this session, by their names in lower case."""
    found: dict[str, dict[str, str]] = json.loads(conf(spark, VIEWS) or "{}")
    return found


def find_view_text(spark: SparkSession, name: str) -> str | None:
    """The text of a view; None if there is none of this name, also if Spark dropped it or has another by now."""
    found = read_views(spark).get(name.lower())
    return found["text"] if found is not None and _is_there(spark, name, found["mark"]) else None


def _is_there(spark: SparkSession, name: str, mark: str) -> bool:
    if not spark.catalog.tableExists(backquote(name)):
        return False
    columns = spark.table(backquote(name)).schema.fields
    return bool(columns) and (columns[0].metadata or {}).get(_MARK) == mark


def query_of(source: str) -> str:
    """The query of a view: the text, or all rows of the table that it names."""
    parts = split_name(source.strip()) if isinstance(source, str) else None
    if parts is not None:
        return f"{_WHOLE}{'.'.join(map(backquote, parts))}"
    statement = statement_of(source)
    if statement.kind is not StatementKind.QUERY:
        raise InvalidStatement(f"a view takes the name of a table, or a query, not {source!r}")
    return statement.text


def text_to_keep(name: str, source: str, found: QueryAnalysis) -> str:
    """The query of a view with the names of its tables from their catalogs on, whatever `USE` says later.

    For a view that is a table it is the table's name, so that statements read only the columns that they need.
    """
    if any(each.names[0].lower() == name.lower() for each in found.unknown if len(each.names) == 1):
        raise InvalidOption(f"the view {name!r} would read itself")
    edits = []
    for each, named in found.named.items():
        if not named.full or len(named.full) == len(each.names):
            continue
        if each.changes is not None:
            raise InvalidStatement(f"in a view, table_changes takes a name from the catalog on: {'.'.join(named.full)}")
        parts = each.node.parts
        full = ".".join(map(backquote, named.full))
        edits.append((parts[0].meta["start"], parts[-1].meta["end"] + 1, full))
    text = apply_edits(found.text, edits)
    table = text.removeprefix(_WHOLE).strip()
    return table if split_name(source.strip()) is not None and split_name(table) is not None else text


def record_view(spark: SparkSession, name: str, text: str, frame: DataFrame, *, replace: bool) -> None:
    """Make the temporary view, and keep its text."""
    from pyspark.sql import functions as F

    if not frame.columns:
        raise InvalidOption(f"the view {name!r} has no columns")
    mark = uuid.uuid4().hex
    if len(set(map(str.lower, frame.columns))) < len(frame.columns):
        raise InvalidOption(f"two columns of the view {name!r} have one name: give them names by AS")
    first, columns = frame.schema.fields[0], [F.col(backquote(each)) for each in frame.columns]
    marked = frame.select(columns[0].alias(first.name, metadata={**first.metadata, _MARK: mark}), *columns[1:])
    if replace:
        marked.createOrReplaceTempView(name)
    else:
        marked.createTempView(name)
    views = read_views(spark) | {name.lower(): {"text": text, "mark": mark}}
    spark.conf.set(VIEWS, json.dumps(views))


def require_view_text(spark: SparkSession, name: str) -> str:
    """The text of a view; raises `NoSuchTable`."""
    text = find_view_text(spark, name)
    if text is None:
        known = read_views(spark)
        raise NoSuchTable(
            f"there is no view {name!r} of lakescan.spark.create_view in this session.{nearest(name, known)}"
        )
    return text


def check_name(name: str) -> None:
    """Raise `InvalidOption` for a name with several parts: temporary views have one."""
    parts = split_name(name) if isinstance(name, str) else None
    if parts is None or len(parts) != 1:
        raise InvalidOption(f"{name!r} is not the name of a temporary view: they have one part, such as orders")
