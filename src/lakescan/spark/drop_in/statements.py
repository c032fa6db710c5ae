"""`spark.sql` in enabled sessions: statements about lakescan's tables run here, all others on Spark, unchanged."""

from __future__ import annotations

import re
import string
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from lakescan.api.scan import Scan
from lakescan.api.table import Table
from lakescan.catalogs.registry import is_known
from lakescan.common.references import backquote
from lakescan.errors import (
    InvalidStatement,
    NoSuchCatalog,
    NoSuchTable,
    NotATable,
    UnsupportedFeature,
)
from lakescan.spark.drop_in.errors import ANALYSIS, branch_errors, procedure_errors, with_class
from lakescan.spark.drop_in.interception import NOT_OURS
from lakescan.spark.drop_in.results import (
    as_in_spark,
    empty_frame,
    frame_of_change,
    frame_of_statement,
    show,
    text_frame,
)
from lakescan.spark.drop_in.session_catalog import convert_table, create_view, may_name_table, set_location
from lakescan.spark.drop_in.sessions import EnabledSession, find_session
from lakescan.spark.session import is_connect
from lakescan.spark.statements.dml import change_rows, changes_own_table
from lakescan.spark.statements.names import (
    NAMESPACE,
    current_namespace,
    has_catalog,
    is_temporary,
    run_use,
    with_default_namespace,
)
from lakescan.spark.statements.session_tables import full_name
from lakescan.spark.statements.sql import run_table_statement, statement_context
from lakescan.spark.statements.statement_routing import (
    find_catalog,
    parse_own_statement,
    refuse,
    view_to_refresh,
)
from lakescan.spark.statements.whole_tables import (
    SparkStatement,
    check_syntax,
    create_temporary_view,
    read_spark_statement,
    run_query,
)
from lakescan.statements.rows.explain import explain_statement
from lakescan.statements.rows.target import names_table
from lakescan.statements.syntax.grammar import parse_statement
from lakescan.statements.syntax.parse import Arguments, SqlStatement, StatementKind, statement_of
from lakescan.statements.syntax.text import TableName, underline_place
from lakescan.statements.syntax.token_reader import TokenReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ALWAYS = (
    r"\b(?:delta|iceberg)`?\s*\.\s*`"
    r"|\btable_changes(?:_by_path)?\s*\("
    r"|\A\s*(?:optimize|vacuum|restore|convert\s+to\s+delta|reorg|generate|call)\b"
    r"|\A\s*desc(?:ribe)?\s+(?:history|detail)\b"
    r"|\A\s*show\s+catalogs\b"
    r"|\A\s*execute\s+immediate\b"
)
_COMMANDS = re.compile(
    r"\s*(?:optimize|vacuum|restore|reorg|generate|desc(?:ribe)?\s+(?:history|detail))\b", re.IGNORECASE
)
_FIRST_COMMENTS = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)+", re.DOTALL)
_FUNCTIONS = re.compile(
    r"\s*(show\s+(?:\w+\s+)?functions)\s+(?:from|in)\s+`?(\w+)`?(?:\s*\.\s*[\w`]+)*(.*)", re.I | re.S
)
_SETS_VARIABLE = re.compile(r"\s*set\s+var(?:iable)?\b", re.IGNORECASE)
_SET_CATALOG = re.compile(r"\s*set\s+catalog\s+(?:`([^`]+)`|'([^']+)'|(\w+))\s*;?\s*", re.IGNORECASE)
_STATISTICS = re.compile(r"\s*(analyze\s+table|load\s+data|msck\s+repair\s+table|repair\s+table)\b", re.IGNORECASE)
_AS = re.compile(r"\bas\s*\Z", re.IGNORECASE)
_BRANCH = re.compile(r"\.\s*`?branch_", re.IGNORECASE)
_BY_PATH = re.compile(_ALWAYS, re.IGNORECASE)
_Found = TypeVar("_Found")
_GIVEN = "lakescan_frame_"  # the beginning of the names of frames in a statement


def sql(session: EnabledSession, spark: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
    """Run `spark.sql`."""
    if not isinstance(sqlQuery, str):
        return NOT_OURS
    own = [each for each in kwargs.values() if isinstance(each, Table | Scan)]
    text = blank_first_comments(sqlQuery)
    if not own and not may_be_ours(session, text):
        return NOT_OURS
    text, frames = insert_values(session.spark, text, kwargs)
    found = run_statement(session.spark, text, args, frames)
    return NOT_OURS if found is None else found


def blank_first_comments(text: str) -> str:
    """Return a statement with spaces in place of comments before its first word, as dbt writes them.

    Positions in the text stay the same.

    Example:
        >>> blank_first_comments("/* dbt */ VACUUM t")
        '          VACUUM t'
    """
    found = _FIRST_COMMENTS.match(text)
    if found is None or text.startswith("*/", found.end()):  # a comment within a comment
        return text
    return re.sub(r"[^\n]", " ", found[0]) + text[found.end() :]


def may_be_ours(session: EnabledSession, text: str) -> bool:
    """Return whether a statement may name a table of lakescan: a quick look at its words, without parsing it."""
    if _pattern(tuple(session.catalogs)).search(text) or current_namespace(session.spark):
        return True
    return may_name_table(session, text)


@cache
def _pattern(catalogs: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(re.escape(each) for each in catalogs if each != "spark_catalog")
    of_catalogs = rf"|(?<![\w.`])(?:{names})(?!\w)|`(?:{names})`" if names else ""
    return re.compile(_ALWAYS + of_catalogs, re.IGNORECASE)


def insert_values(spark: SparkSession, text: str, given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Replace `{name}` in a text by values and columns as PySpark does, and by the names of frames.

    Args:
        spark: The session.
        text: The statement. Without values, braces have no meaning.
        given: Frames, tables, scans, columns and plain values by name.

    Returns:
        The text, and the frames by their names in the text.
    """
    from pyspark.sql import DataFrame

    if not given:
        return text, {}
    formatter: Any = _formatter(spark)
    parts, frames = [], {}
    for before, field, spec, conversion in string.Formatter().parse(text):
        parts.append(before)
        if field is None:
            continue
        value = given.get(field)
        if isinstance(value, DataFrame | Table | Scan):
            name = f"{_GIVEN}{'_' * text.lower().count(_GIVEN)}{list(given).index(field)}"
            frames[name] = value
            parts.append(backquote(name))
        else:
            kind = f"!{conversion}" if conversion else ""
            parts.append(formatter.vformat(f"{{{field}{kind}{f':{spec}' if spec else ''}}}", (), dict(given)))
    formatter.clear()
    return "".join(parts), frames


def _formatter(spark: SparkSession) -> Any:
    if is_connect(spark):
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter as ConnectFormatter

        formatter: Any = ConnectFormatter(spark)
        if not hasattr(formatter, "clear"):
            formatter.clear = lambda: None
        return formatter
    from pyspark.sql.sql_formatter import SQLStringFormatter

    return SQLStringFormatter(spark)


def run_statement(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> DataFrame | None:
    """Run one statement once, and return its result; None if Spark has to run it."""
    statement = statement_of(text)
    match statement.kind:
        case StatementKind.QUERY:
            with branch_errors() if _BRANCH.search(text) else nullcontext():
                return _checked(spark, text, lambda: run_query(spark, statement.text, args, frames))
        case StatementKind.DESCRIBE:
            before = "DESCRIBE QUERY "
            return _checked(spark, text, lambda: run_query(spark, statement.text, args, frames, before))
        case StatementKind.EXPLAIN:
            return _explain(spark, statement, args, frames)
        case StatementKind.USE:
            return _use(spark, statement.text, args)
    if statement.kind.changes_rows:
        truncates = statement.kind is StatementKind.TRUNCATE
        return _change_rows(spark, statement.text, args, frames, truncates=truncates)
    return _run_other(spark, statement.text, args, frames)


def _change_rows(
    spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any], *, truncates: bool
) -> DataFrame | None:
    with branch_errors() if _BRANCH.search(text) else nullcontext():
        done = _checked(spark, text, lambda: change_rows(spark, text, args, frames))
    if done is not None:
        return frame_of_change(spark, done, truncates=truncates)
    found = read_spark_statement(text)
    if found is None:  # WITH ... INSERT and FROM ... INSERT
        return _checked(spark, text, lambda: run_query(spark, text, args, frames))
    return _run_spark_statement(spark, found, args, frames)


def _explain(
    spark: SparkSession, statement: SqlStatement, args: Arguments, frames: Mapping[str, Any]
) -> DataFrame | None:
    before = f"EXPLAIN {statement.mode} " if statement.mode else "EXPLAIN "
    inner = statement_of(statement.text)
    if inner.kind is StatementKind.QUERY:
        return _checked(spark, statement.text, lambda: run_query(spark, statement.text, args, frames, before))
    is_change = inner.kind.changes_rows
    if is_change and _checked(spark, statement.text, lambda: changes_own_table(spark, statement.text, args, frames)):
        return text_frame(spark, "plan", explain_statement(statement.text, args, frames, current_namespace(spark)))
    found = read_spark_statement(statement.text)
    if found is not None and not _names_own(spark, found) and not found.is_view:
        return run_query(spark, found.query, args, frames, before + found.before)
    if (catalog := find_catalog(spark, statement.text)) is not None:
        raise UnsupportedFeature(
            f"EXPLAIN of a statement about tables of the catalog {catalog!r}", "Explain the query."
        )
    return None


def _use(spark: SparkSession, text: str, args: Arguments) -> DataFrame | None:
    if not current_namespace(spark) and find_use(spark, text) is None:
        return None
    found = run_use(spark, text, args)
    return empty_frame(spark) if found is None else found


def find_use(spark: SparkSession, text: str) -> str | None:
    """Return the catalog of lakescan that USE names; None for another catalog, and for a text that is not valid."""
    try:
        words = TokenReader(text)
        words.needs("USE")
        first = words.name("a catalog")
    except InvalidStatement:
        return None
    return first if is_known(first) and not has_catalog(spark, first) else None


def _run_other(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> DataFrame | None:
    """Run a statement that is no query and changes no rows; None if it is Spark's."""
    if (match := _SET_CATALOG.fullmatch(text)) is not None:
        return _set_catalog(spark, next(each for each in match.groups() if each))
    if (match := _FUNCTIONS.fullmatch(text)) is not None and is_known(match[2]) and not has_catalog(spark, match[2]):
        return spark.sql(f"{match[1]} {match[3]}")
    if (view := view_to_refresh(text)) is not None and is_temporary(spark, view):
        return None
    first = text.split(None, 1)[0].upper() if text.strip() else ""
    if first in ("CACHE", "UNCACHE"):
        return _cache(spark, text, args, frames)
    if first == "EXECUTE":
        return _execute_immediate(spark, text, args)
    if _SETS_VARIABLE.match(text):
        return _set_variables(spark, text, args, frames)
    within = current_namespace(spark)
    if (first == "CREATE" and create_view(spark, text)) or (first == "CONVERT" and convert_table(spark, text)):
        return empty_frame(spark)
    if first in ("CREATE", "REPLACE"):
        found = read_spark_statement(text)
        if found is not None and found.is_view:
            made = _checked(spark, text, lambda: create_temporary_view(spark, found, args, frames))
            return empty_frame(spark) if made else None
    if first == "SHOW" and (shown := show(spark, text, within)) is not None:
        return shown
    ours = parse_own_statement(spark, text, args, frames, within)
    if ours is not None and set_location(spark, ours):
        return empty_frame(spark)
    if ours is not None:
        ours = as_in_spark(spark, ours)
        context = statement_context(spark, text, args, frames)
        with procedure_errors() if first == "CALL" else nullcontext():
            return frame_of_statement(spark, ours, context, lambda: run_table_statement(spark, ours, context))
    if first in ("CREATE", "REPLACE"):
        return _run_spark_statement(spark, read_spark_statement(text), args, frames)
    _check_is_delta(spark, text)
    catalog = find_catalog(spark, text)
    if catalog is not None or _BY_PATH.search(text):
        _refuse_statistics(text)
    if catalog is not None:
        check_syntax(spark, text)
        raise refuse(text, catalog)
    return None


def _execute_immediate(spark: SparkSession, text: str, args: Arguments) -> DataFrame | None:
    """Run EXECUTE IMMEDIATE of a statement about lakescan's tables; None for other statements.

    Spark evaluates the text of the statement, its arguments and the variables.
    """
    from pyspark.errors import PySparkException

    session, words = find_session(spark), TokenReader(text)
    words.needs("EXECUTE")
    if session is None or not words.takes("IMMEDIATE"):
        return None
    using = words.find(lambda n: words.spells(n, "USING"))
    into = words.find(lambda n: words.spells(n, "INTO"), end=using)
    try:
        found = _evaluate(spark, [_text_of(words, words.at, into)], args)
        if len(found) != 1 or not isinstance(found[0], str):
            return None
        statement = blank_first_comments(found[0])
        if not may_be_ours(session, statement):
            return None
        given = _arguments_of(spark, words, using + 1, args)
    except PySparkException:  # Spark raises it again, with the place in the user's text
        return None
    if into < using and statement_of(statement).kind is not StatementKind.QUERY:
        raise InvalidStatement("EXECUTE IMMEDIATE ... INTO takes a query, whose row becomes the variables' values")
    result = run_statement(spark, statement, given, {})
    if result is None or into == using:
        return result
    _assign(spark, f"({_text_of(words, into + 1, using)})", result)
    return empty_frame(spark)


def _arguments_of(spark: SparkSession, words: TokenReader, first: int, args: Arguments) -> Arguments:
    """Return the values of the list after USING, which begins at the word `first`, by position or by name."""
    last = len(words.words)
    if first >= last:
        return None
    if words.words[first].text == "(" and words.behind(first) == last:
        first, last = first + 1, last - 1
    names, values = [], []
    for start, stop in words.split_items(first, last):
        is_named = stop - start > 2 and words.spells(stop - 2, "AS")
        names.append(words.words[stop - 1].text if is_named else "")
        values.append(_text_of(words, start, stop - 2 if is_named else stop))
    found = _evaluate(spark, values, args)
    return dict(zip(names, found, strict=True)) if all(names) else list(found)


def _set_variables(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> DataFrame | None:
    """Run SET VARIABLE with a query over lakescan's tables; None for other statements."""
    session, words = find_session(spark), TokenReader(text)
    words.at = 2  # behind SET VARIABLE
    if session is None:
        return None
    names, values = [], []
    for start, stop in words.split_items(words.at, len(words.words)):
        at = words.find(lambda n: words.words[n].text == "=", start, stop)
        names.append(_text_of(words, start, at))
        values.append(_text_of(words, at + 1, stop))
    if not all(values) or not any(may_be_ours(session, each) for each in values):
        return None
    is_row = len(names) == 1 and names[0].startswith("(")  # SET VARIABLE (a, b) = (SELECT ...)
    query = values[0] if is_row else f"SELECT {', '.join(values)}"
    frame = _checked(spark, text, lambda: run_query(spark, query, args, frames))
    if frame is None:
        return None
    _assign(spark, names[0] if is_row else f"({', '.join(names)})", frame)
    return empty_frame(spark)


def _text_of(words: TokenReader, start: int, stop: int) -> str:
    """Return the text of the words with these numbers, without `stop`."""
    return words.text[words.words[start].start : words.words[stop - 1].end + 1] if start < stop else ""


def _evaluate(spark: SparkSession, expressions: Sequence[str], args: Arguments) -> tuple[Any, ...]:
    """Return the values of expressions without columns; they may use Spark's variables."""
    row = spark.sql(f"SELECT {', '.join(expressions)}", args or None).first() if all(expressions) else None
    return () if row is None else tuple(row)


def _assign(spark: SparkSession, names: str, frame: DataFrame) -> None:
    """Set Spark's variables to the columns of a frame's only row."""
    view = f"lakescan_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(view)
    try:
        spark.sql(f"SET VARIABLE {names} = (SELECT * FROM {view})")
    finally:
        spark.catalog.dropTempView(view)


def _check_is_delta(spark: SparkSession, text: str) -> None:
    """Raise `NoSuchTable` or `NotATable` for a command of Delta's that names another table of Spark's own catalog."""
    session = find_session(spark)
    command = _COMMANDS.match(text)
    if command is None or session is None or session.session_catalog != "delta":
        return
    found = parse_statement(text)
    name = getattr(found, "table", None)
    if not isinstance(name, TableName):
        return
    shown = ".".join(name.parts)
    if spark.catalog.tableExists(".".join(map(backquote, name.parts))):
        words = command[0].strip().upper()
        raise with_class(NotATable(f"{words}: {shown} is not a Delta table"), ANALYSIS, "DELTA_TABLE_ONLY_OPERATION")
    raise NoSuchTable(f"there is no table {shown!r}{underline_place(text, name.start, name.end)}")


def _refuse_statistics(text: str) -> None:
    """Raise an error that is also PySpark's for statements that the JARs refuse, too."""
    from pyspark.errors import AnalysisException

    from lakescan.spark.drop_in.errors import error_of_class

    if (match := _STATISTICS.match(text)) is not None:
        name = " ".join(match[1].upper().split())
        advice = "Iceberg: CALL catalog.system.compute_table_stats." if name == "ANALYZE TABLE" else ""
        raise error_of_class(
            UnsupportedFeature(f"{name} of a table of lakescan", advice),
            AnalysisException,
            "NOT_SUPPORTED_COMMAND_FOR_V2_TABLE",
        )


def _set_catalog(spark: SparkSession, name: str) -> DataFrame | None:
    if is_known(name) and not has_catalog(spark, name):
        spark.conf.set(NAMESPACE, "\0".join(with_default_namespace(spark, [name])))
        return empty_frame(spark)
    if current_namespace(spark):
        if not has_catalog(spark, name):
            raise NoSuchCatalog(f"no catalog {name!r} is known")
        found = spark.sql(f"SET CATALOG {backquote(name)}")
        spark.conf.unset(NAMESPACE)
        return found
    return None


def _cache(spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any]) -> DataFrame | None:
    """Run CACHE TABLE and UNCACHE TABLE; None if they are Spark's.

    Rows of lakescan's tables are not cached, so that each statement reads the current ones. A view of a query is made,
    and Spark caches it.
    """
    found = read_spark_statement(text)
    if found is not None:
        assert found.target is not None
        frame = run_query(spark, found.query, args, frames)
        if frame is None:
            return None
        name = backquote(found.target.parts[-1])
        frame.createTempView(found.target.parts[-1])
        words = TokenReader(found.before)
        words.needs("CACHE")
        lazy = "LAZY " if words.takes("LAZY") else ""
        words.needs("TABLE")
        words.names("a name")
        options = found.before[words.words[words.at].start :] if words.sees("OPTIONS") else ""
        return spark.sql(f"CACHE {lazy}TABLE {name} {_AS.sub('', options)}")
    words = TokenReader(text)
    words.at = 1
    words.takes("LAZY")
    if not words.takes("TABLE"):
        return None
    words.takes("IF", "EXISTS")
    table = words.table_name("the name of a table")
    if full_name(spark, table.parts) is None:  # not a table of Spark's own catalog
        if not names_table(table, current_namespace(spark), frames):
            return None
        if len(table.parts) == 1 and is_temporary(spark, table.parts[0]):
            return None
        if len(table.parts) > 1 and has_catalog(spark, table.parts[0]):
            return None
    statement_context(spark, text, args, frames)
    run_query(spark, f"SELECT * FROM {text[table.start : table.end]}", None, frames)  # raises if it does not exist
    return empty_frame(spark)


def _names_own(spark: SparkSession, found: SparkStatement) -> bool:
    """Return whether a statement creates or fills a table of lakescan."""
    if found.target is None:
        return False
    parts = found.target.parts
    is_own = names_table(found.target, current_namespace(spark), {})
    return is_own and not (len(parts) > 1 and has_catalog(spark, parts[0]))


def _run_spark_statement(
    spark: SparkSession, found: SparkStatement | None, args: Arguments, frames: Mapping[str, Any]
) -> DataFrame | None:
    """Run a statement of Spark's whose query reads lakescan's tables; None if it reads none."""
    if found is None:
        return None
    return _checked(spark, found.text, lambda: run_query(spark, found.query, args, frames, found.before))


def _checked(spark: SparkSession, text: str, run: Callable[[], _Found]) -> _Found | None:
    """Run a statement, and return its result; None for a text that cannot be parsed and names no table of lakescan.

    Raises Spark's error, with its position in the text, for a text that Spark cannot parse either.
    """
    try:
        return run()
    except InvalidStatement as error:
        if not _names_tables(spark, text):
            return None
        check_syntax(spark, text)
        error.__dict__["is_parsed"] = True
        raise


def _names_tables(spark: SparkSession, text: str) -> bool:
    if current_namespace(spark) or _BY_PATH.search(text) or find_catalog(spark, text) is not None:
        return True
    session = find_session(spark)
    return session is not None and may_name_table(session, text)
