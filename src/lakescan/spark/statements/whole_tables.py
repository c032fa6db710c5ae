"""Run statements of Spark over frames of whole tables of lakescan, which Spark's optimizer narrows.

A query, and the query in a statement of Spark's own (CREATE TEMPORARY VIEW, CREATE TABLE ... AS, INSERT INTO, CACHE
TABLE ... AS, EXPLAIN, DESCRIBE QUERY), may name tables of lakescan next to Spark's tables and views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakescan.common.references import backquote
from lakescan.errors import InvalidStatement, LakescanError
from lakescan.spark.session import is_connect
from lakescan.spark.statements.names import current_namespace, has_catalog
from lakescan.spark.statements.queries import (
    SparkNames,
    run_over_whole_tables,
    session_settings,
    translate_positions,
)
from lakescan.statements.select.analysis import QueryAnalysis, analyze
from lakescan.statements.syntax.parse import Arguments
from lakescan.statements.syntax.text import TableName, apply_edits
from lakescan.statements.syntax.token_reader import TokenReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUERY_WORDS = ("SELECT", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
_CURRENT = ("CURRENT_CATALOG", "CURRENT_SCHEMA", "CURRENT_DATABASE")
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "WINDOW", "LATERAL")


@dataclass(frozen=True)
class SparkStatement:
    """A statement of Spark's with a query: its text, the position at which the query begins, and the table it fills.

    - `is_view`: whether it is CREATE TEMPORARY VIEW.
    - `is_cache`: whether it is CACHE TABLE ... AS.
    """

    text: str
    query_at: int
    target: TableName | None = None
    is_view: bool = False
    is_cache: bool = False

    @property
    def before(self) -> str:
        """The text before the query."""
        return self.text[: self.query_at]

    @property
    def query(self) -> str:
        """The text of the query."""
        return self.text[self.query_at :]


def analyze_own_query(
    spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]
) -> QueryAnalysis | None:
    """Resolve the tables of a query; None for a query that reads no table of lakescan, which Spark can run itself.

    Raises the errors of opening lakescan's tables; `NoSuchTable` for a name that neither lakescan nor Spark has, if the
    query also reads a table of lakescan; and `InvalidStatement` for a text that cannot be parsed.
    """
    views = SparkNames(spark, frames)
    within = current_namespace(spark)
    found = analyze(text, args, views.tables, within, session_settings(spark), views)
    if not found.named:
        return None
    for each in found.unknown:
        is_missing = len(each.names) > 2 and not has_catalog(spark, each.names[0])
        if is_missing or (len(each.names) == 1 and not views.has(each.names[0])):
            raise found.tables.not_found_error(each, lambda: [view.name for view in spark.catalog.listTables()])
    return found


def run_query(
    spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any], before: str = ""
) -> DataFrame | None:
    """Return the frame of a query over whole tables; None for a query that reads no table of lakescan.

    Args:
        spark: The session.
        text: The query.
        args: The values of its parameters.
        frames: Data frames, tables and scans, by their names in the text.
        before: The text before the query, for a statement of Spark's with a query.

    Raises:
        The errors of `analyze_own_query`, and Spark's, with positions in the user's text.
    """
    named = name_current(text, current_namespace(spark)) if not before else text
    found = analyze_own_query(spark, named, args, frames)
    if found is None:
        if named == text:
            return None
        return spark.sql(named, args) if args else spark.sql(named)
    return run_over_whole_tables(spark, found, frames, before)


def read_spark_statement(text: str) -> SparkStatement | None:
    """Find the query in CREATE TEMPORARY VIEW, CACHE TABLE, CREATE TABLE ... AS and INSERT.

    None for other statements. Raises `InvalidStatement` for a text that cannot be split into words.
    """
    words = TokenReader(text)
    is_view = is_cache = False
    target: TableName | None = None
    if words.takes("CREATE") or words.takes("REPLACE"):
        words.takes("OR", "REPLACE")
        words.takes("GLOBAL")
        if words.takes("TEMPORARY") or words.takes("TEMP"):
            if not words.takes("VIEW"):
                return None
            is_view = True
        else:
            words.takes("EXTERNAL")
            if not words.takes("TABLE"):
                return None
        words.takes("IF", "NOT", "EXISTS")
        target = words.table_name("a name")
    elif words.takes("CACHE"):
        words.takes("LAZY")
        if not words.takes("TABLE"):
            return None
        is_cache, target = True, words.table_name("a name")
    elif words.takes("INSERT"):
        words.takes("WITH", "SCHEMA", "EVOLUTION")
        if not (words.takes("INTO") or words.takes("OVERWRITE")):
            return None
        words.takes("TABLE")
        if not words.takes("DIRECTORY") and not (words.sees("LOCAL", "DIRECTORY")):
            target = words.table_name("a name")
    else:
        return None
    at = _query_at(words)
    return None if at is None else SparkStatement(text, words.words[at].start, target, is_view, is_cache)


def _query_at(words: TokenReader) -> int | None:
    """Return the index of the first word of the query in the rest of a statement; None without a query."""
    at = words.at
    while at < len(words.words):
        if words.words[at].text == "(" and at + 1 < len(words.words):
            begins = (
                any(words.spells(at + 1, each) for each in (*_QUERY_WORDS, "WITH")) or words.words[at + 1].text == "("
            )
            if begins and (words.spells(at - 1, "AS") or words.behind(at) >= len(words.words)):
                return at
        elif not words.is_member(at):
            is_with = words.spells(at, "WITH") and not words.spells(at, "WITH", "SERDEPROPERTIES")
            if is_with or any(words.spells(at, each) for each in _QUERY_WORDS):
                return at
        at = words.behind(at)
    return None


def create_temporary_view(
    spark: SparkSession, found: SparkStatement, args: Arguments, frames: Mapping[str, Any]
) -> bool:
    """Run CREATE TEMPORARY VIEW of a query over lakescan's tables; return False if the query reads none.

    Spark keeps the text of a view, and not the frames of its tables; so the view is made of a frame.
    """
    frame = run_query(spark, found.query, args, frames)
    if frame is None:
        return False
    words = TokenReader(found.text)
    words.needs("CREATE")
    replaces = words.takes("OR", "REPLACE")
    is_global = words.takes("GLOBAL")
    words.at += 2  # TEMPORARY VIEW
    keeps = words.takes("IF", "NOT", "EXISTS")
    name = words.names("the name of a view")[-1]
    columns = _view_columns(words)
    if columns:
        if len(columns) != len(frame.columns):
            raise InvalidStatement(
                f"the view {name} has {len(columns)} columns in its list, and its query {len(frame.columns)}"
            )
        frame = _with_names(frame, columns)
    if keeps and spark.catalog.tableExists(f"global_temp.{backquote(name)}" if is_global else backquote(name)):
        return True
    getattr(frame, f"create{'OrReplace' if replaces else ''}{'Global' if is_global else ''}TempView")(name)
    return True


def _view_columns(words: TokenReader) -> list[tuple[str, str | None]]:
    """Read the columns of a view, in parentheses, each with its comment; empty without a list."""

    def read() -> tuple[str, str | None]:
        column = words.name("the name of a column")
        return column, words.text_literal("the comment") if words.takes("COMMENT") else None

    return words.items(read) if words.sees_symbol("(") else []


def _with_names(frame: DataFrame, columns: list[tuple[str, str | None]]) -> DataFrame:
    from pyspark.sql import functions as F

    numbered = frame.toDF(*(f"c{n}" for n in range(len(columns))))
    given = [
        F.col(f"c{n}").alias(name, metadata={"comment": comment}) if comment is not None else F.col(f"c{n}").alias(name)
        for n, (name, comment) in enumerate(columns)
    ]
    return numbered.select(*given)


def check_syntax(spark: SparkSession, text: str) -> None:
    """Raise Spark's `ParseException`, with its position in `text`, if Spark cannot parse a statement.

    The statement is not run.
    """
    from pyspark.errors import ParseException, PySparkException

    if not is_connect(spark):
        session: Any = spark
        session._jsparkSession.sessionState().sqlParser().parsePlan(text)
        return
    words = text.split(None, 1)
    before = "" if not words or words[0].upper() == "EXPLAIN" else "EXPLAIN "
    try:
        with translate_positions(text, [(0, 0, before)]):
            spark.sql(before + text)
    except ParseException:
        raise
    except PySparkException:
        return


def name_current(text: str, within: tuple[str, ...]) -> str:
    """Replace `current_catalog()`, `current_schema()` and `current_database()` by the names that USE set.

    Spark itself knows nothing of lakescan's catalogs. A column that consists of the call keeps its name.
    """
    if not within or "current_" not in text.lower():
        return text
    try:
        words = TokenReader(text)
    except LakescanError:
        return text
    edits = []
    for n, word in enumerate(words.words):
        if not any(words.spells(n, each) for each in _CURRENT) or words.is_member(n):
            continue
        if n + 2 >= len(words.words) or (words.words[n + 1].text, words.words[n + 2].text) != ("(", ")"):
            continue
        is_catalog = word.text.lower() == "current_catalog"
        value = within[0] if is_catalog else ".".join(within[1:])
        shown = "current_catalog()" if is_catalog else "current_schema()"
        literal = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        end = n + 3
        alias = f" AS `{shown}`" if _is_column(words, n, end) else ""
        edits.append((word.start, words.words[end - 1].end + 1, literal + alias))
    return apply_edits(text, edits)


def _is_column(words: TokenReader, start: int, end: int) -> bool:
    """Return whether the words from `start` to `end` are a whole column of a SELECT list, without an alias."""
    if end < len(words.words):
        behind = words.words[end].text
        if behind not in (",", ")") and behind.upper() not in (*_CLAUSES, "UNION", "EXCEPT", "INTERSECT", "|>"):
            return False
    before = words.words[start - 1].text if start else ""
    if before.upper() in ("SELECT", "DISTINCT", "ALL"):
        return True
    if before != ",":
        return False
    depth, at = 0, start - 1
    while at >= 0:  # back to the word that begins the list
        text = words.words[at].text.upper()
        depth += (text == ")") - (text == "(")
        if depth < 0 or (depth == 0 and text in _CLAUSES):
            return False
        if depth == 0 and text == "SELECT":
            return True
        at -= 1
    return False
