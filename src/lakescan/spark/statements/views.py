"""Views of queries over tables that follow new commits: `lakescan.spark.create_view`.

Spark keeps the plan of a temporary view, and with it the snapshots of its tables. So the view's text is also stored in
the session's settings. `lakescan.spark.sql` replaces the view's name by the text, and reads the tables' current
snapshots. Spark's own `spark.sql` reads the snapshots of the last `create_view` or `refresh_view`.
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

VIEWS = "spark.lakescan.views"  # session setting: texts and marks of views by name, as JSON
_WHOLE = "SELECT * FROM "
_MARK = "lakescan.api.view"  # a key in the metadata of a view's first column, which identifies the view


def read_views(spark: SparkSession) -> dict[str, dict[str, str]]:
    """Return the views of `create_view` in this session by name in lower case, each with its `text` and `mark`.

    The mark is a unique id, also in the metadata of the view's first column.
    """
    found: dict[str, dict[str, str]] = json.loads(conf(spark, VIEWS) or "{}")
    return found


def find_view_text(spark: SparkSession, name: str) -> str | None:
    """Return the text of a view of `create_view`; None without one, or if it was dropped or replaced in Spark."""
    found = read_views(spark).get(name.lower())
    return found["text"] if found is not None and _is_there(spark, name, found["mark"]) else None


def _is_there(spark: SparkSession, name: str, mark: str) -> bool:
    if not spark.catalog.tableExists(backquote(name)):
        return False
    columns = spark.table(backquote(name)).schema.fields
    return bool(columns) and (columns[0].metadata or {}).get(_MARK) == mark


def query_of(source: str) -> str:
    """Return the query for the `source` of a view: the text itself, or a query of all rows of the table that it names.

    Raises `InvalidStatement` for other statements.
    """
    parts = split_name(source.strip()) if isinstance(source, str) else None
    if parts is not None:
        return f"{_WHOLE}{'.'.join(map(backquote, parts))}"
    statement = statement_of(source)
    if statement.kind is not StatementKind.QUERY:
        raise InvalidStatement(f"a view takes the name of a table, or a query, not {source!r}")
    return statement.text


def text_to_keep(name: str, source: str, found: QueryAnalysis) -> str:
    """Return the text to store for the view `name`: its query with fully qualified table names.

    So a later `USE` does not change its meaning. A view of a whole table is stored as the table's name, so that
    statements read only the columns that they need. Raises `InvalidOption` for a view that reads itself, and
    `InvalidStatement` for `table_changes` of an unqualified name.
    """
    if any(each.names[0].lower() == name.lower() for each in found.unknown if len(each.names) == 1):
        raise InvalidOption(f"the view {name!r} would read itself")
    edits = []
    for each, named in found.named.items():
        if not named.full or len(named.full) == len(each.names):
            continue
        if each.changes is not None:
            raise InvalidStatement(
                f"in a view, table_changes needs the full name with the catalog: {'.'.join(named.full)}"
            )
        parts = each.node.parts
        full = ".".join(map(backquote, named.full))
        edits.append((parts[0].meta["start"], parts[-1].meta["end"] + 1, full))
    text = apply_edits(found.text, edits)
    table = text.removeprefix(_WHOLE).strip()
    return table if split_name(source.strip()) is not None and split_name(table) is not None else text


def record_view(spark: SparkSession, name: str, text: str, frame: DataFrame, *, replace: bool) -> None:
    """Create the temporary view of a frame, and store its text in the session's settings.

    Raises `InvalidOption` if the frame has no columns, or two columns of the same name. Without `replace`, Spark raises
    an error for an existing view.
    """
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
    """Return the text of a view of `create_view`.

    Raises `NoSuchTable`, which suggests a similar name, for an unknown view.
    """
    text = find_view_text(spark, name)
    if text is None:
        known = read_views(spark)
        raise NoSuchTable(
            f"there is no view {name!r} of lakescan.spark.create_view in this session.{nearest(name, known)}"
        )
    return text


def check_name(name: str) -> None:
    """Raise `InvalidOption` for a name with several parts: a temporary view's name has one part."""
    parts = split_name(name) if isinstance(name, str) else None
    if parts is None or len(parts) != 1:
        raise InvalidOption(f"{name!r} is not the name of a temporary view: they have one part, such as orders")
