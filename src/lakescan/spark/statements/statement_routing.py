"""Decide which statements about tables, namespaces and views are lakescan's, and which are Spark's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.catalogs.registry import catalog_names, is_known
from lakescan.errors import (
    InvalidOption,
    InvalidStatement,
    MissingDependency,
    NoSuchCatalog,
    UnsupportedFeature,
    nearest,
)
from lakescan.spark.session import create_frame
from lakescan.spark.statements.names import has_catalog, is_of_session, is_temporary
from lakescan.spark.statements.session_tables import qualify_statement
from lakescan.statements.rows.target import names_table
from lakescan.statements.syntax.commands import Call, Convert, Refresh
from lakescan.statements.syntax.grammar import TableStatement, parse_statement
from lakescan.statements.syntax.namespaces import (
    AlterNamespace,
    CreateCatalog,
    CreateNamespace,
    DropNamespace,
    Show,
    ShowKind,
)
from lakescan.statements.syntax.parse import Arguments, name_parameters
from lakescan.statements.syntax.tables_and_views import AlterView, CreateTable, CreateView, DropTable, DropView
from lakescan.statements.syntax.text import TableName, tokens
from lakescan.statements.syntax.types import text_literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def parse_own_statement(
    spark: SparkSession, text: str, args: Arguments, frames: Mapping[str, Any], within: tuple[str, ...]
) -> TableStatement | None:
    """Parse a statement about a table, namespace or view of lakescan; None if Spark has to run it.

    `within` is the catalog and namespace of unqualified names. Raises `InvalidStatement` and `UnsupportedFeature` only
    for statements that name lakescan's catalogs or table paths, and `NoSuchCatalog` for unknown catalogs.
    """
    try:
        plain, values = name_parameters(text, args)
        found = parse_statement(plain, values)
    except (InvalidStatement, UnsupportedFeature):
        if find_catalog(spark, text) is None and not _names_folder(text):
            return None
        raise
    if found is None:
        return None
    found, is_of_session_catalog = qualify_statement(spark, found)
    if not is_of_session_catalog and not _is_own(spark, found, frames, within):
        return None
    return found


def view_to_refresh(text: str) -> str | None:
    """Return the name in REFRESH TABLE if it is unqualified, like a temporary view's; None for other statements."""
    if text.lstrip()[:7].upper() != "REFRESH":
        return None
    try:
        found = parse_statement(text, {})
    except (InvalidStatement, UnsupportedFeature):
        return None
    return found.table.parts[0] if isinstance(found, Refresh) and len(found.table.parts) == 1 else None


def _table_name(found: TableStatement) -> TableName:
    """Return the table or view that a statement is about."""
    table = getattr(found, "table", None) or getattr(found, "view", None) or getattr(found, "name", None)
    assert isinstance(table, TableName)
    return table


def _names_folder(text: str) -> bool:
    lower = text.lower()
    return "delta.`" in lower or "iceberg.`" in lower


def _is_own(spark: SparkSession, found: TableStatement, frames: Mapping[str, Any], within: tuple[str, ...]) -> bool:
    match found:
        case Call(name=name) | CreateNamespace(name=name) | DropNamespace(name=name) | AlterNamespace(name=name):
            return _is_own_name(spark, name, within)
        case Show(what=ShowKind.CATALOGS) | CreateCatalog() | Convert():
            return True
        case Show(table=None, namespace=None):
            return bool(within)
        case Show(table=None, namespace=tuple() as name):
            return _is_own_name(spark, name, within)
    table = _table_name(found)
    parts = table.parts
    if len(parts) == 1 and not isinstance(found, CreateTable | CreateView) and not _is_given(parts[0], frames):
        if isinstance(found, AlterView | DropView | Refresh) and is_of_session(spark, parts[0]):
            return False
        if within and is_temporary(spark, parts[0]):
            return _hides(found, parts[0])
    if len(parts) > 1 and is_known(parts[0]) and has_catalog(spark, parts[0]):
        return False
    if not names_table(table, within, frames):
        _check_catalog(spark, parts, 3)
        return False
    return not (bool(within) and len(parts) > 1 and has_catalog(spark, parts[0]))


def _is_given(name: str, frames: Mapping[str, Any]) -> bool:
    return name.lower() in {each.lower() for each in frames}


def _hides(found: TableStatement, name: str) -> bool:
    """Return False if Spark is to run a statement on the temporary view `name`, as for SHOW COLUMNS or DROP TABLE.

    Raises `InvalidStatement` for statements that take a table.
    """
    of_views = (ShowKind.TABLE, ShowKind.COLUMNS, ShowKind.PROPERTIES, ShowKind.CREATE_TABLE)
    if isinstance(found, DropTable) or (isinstance(found, Show) and found.what in of_views):
        return False
    raise InvalidStatement(
        f"{name} is a temporary view of this session, and the statement takes a table: name the table with its "
        "namespace"
    )


def _is_own_name(spark: SparkSession, name: tuple[str, ...], within: tuple[str, ...]) -> bool:
    if has_catalog(spark, name[0]):
        return False
    if is_known(name[0]) or within:
        return True
    _check_catalog(spark, name, 2)
    return False


def _check_catalog(spark: SparkSession, name: tuple[str, ...], least: int) -> None:
    """Raise `NoSuchCatalog` for a name of at least `least` parts with an unknown catalog.

    Spark's own error would only complain about the number of parts.
    """
    if len(name) >= least and not has_catalog(spark, name[0]):
        raise NoSuchCatalog(
            f"{'.'.join(name)!r} does not begin with a known catalog.{nearest(name[0], catalog_names())} Known: "
            f"{', '.join(catalog_names()) or 'none'}; see lakescan.catalog."
        )


def add_spark_catalogs(spark: SparkSession, rows: pa.Table, pattern: str | None) -> pa.Table:
    """Return the rows of SHOW CATALOGS with the session's own catalogs that match `pattern` (None for all), sorted."""
    text = "SHOW CATALOGS" if pattern is None else f"SHOW CATALOGS LIKE {text_literal(pattern)}"
    own = {row[0] for row in spark.sql(text).collect()}
    return pa.table({"catalog": sorted(own.union(rows["catalog"].to_pylist()))})


def frame_of_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Convert the rows that a statement returns, an Arrow table, to a Spark frame."""
    if not rows.num_rows:  # PySpark cannot convert an empty table with structs
        from pyspark.sql.pandas.types import from_arrow_schema

        return spark.createDataFrame([], from_arrow_schema(rows.schema))
    return create_frame(spark, rows)


# Spark looks for tables of lakescan's catalogs in its own catalogs, and complains about the parts of their names.

_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w+)", re.DOTALL)
_TARGET = re.compile(
    r"(?:create|drop|alter)\s+(?:or\s+replace\s+)?(?:table|schema|database|namespace)\s+(?:if\s+(?:not\s+)?exists\s+)?"
    r"`?(\w+)`?\.",
    re.IGNORECASE,
)
_OF_SETTINGS = ("set", "reset", "add", "list")
_VIEW = re.compile(r"create\b[^.]*?\bview\b", re.IGNORECASE)
_ADVICE = {
    "insert": "Fill a table of Spark's by a query of lakescan's: lakescan.spark.sql(spark, query).write.",
    "delete": "Make a view of the query in the condition: lakescan.spark.create_view(spark, name, query).",
    "update": "Make a view of its query: lakescan.spark.create_view(spark, name, query).",
    "merge": "Make a view of the source: lakescan.spark.create_view(spark, name, query).",
    "show": "See Catalog.list_namespaces and Catalog.list_tables, and Table.inspect for metadata tables.",
    "describe": "See lakescan.table(name).schema, and Table.inspect for metadata tables.",
    "cache": "Cache the frame: lakescan.spark.table(spark, name).cache().",
    "refresh": "Each statement of lakescan.spark.sql reads the current snapshot.",
    "create": "Fill a table of Spark's by a query of lakescan's: lakescan.spark.sql(spark, query).write.saveAsTable.",
    "view": "Use lakescan.spark.create_view(spark, name, query).",
}
_ADVICE["desc"] = _ADVICE["describe"]


def find_catalog(spark: SparkSession, text: str) -> str | None:
    """Return the first lakescan catalog that a statement's text names as a qualifier.

    None without one, for statements of settings, and if Spark has a catalog of that name.
    """
    first = _WORD.match(text)
    if first is None or first[1].lower() in _OF_SETTINGS:
        return None
    try:
        words = tokens(text[first.end() :])  # after some first words, sqlglot takes the rest as one token
    except (InvalidStatement, MissingDependency):
        return None
    for at, (word, dot) in enumerate(pairwise(words)):
        is_first = at == 0 or words[at - 1].token_type.name != "DOT"
        is_text = word.token_type.name in ("STRING", "NATIONAL_STRING", "NUMBER")
        if is_first and not is_text and dot.token_type.name == "DOT" and is_known(word.text):
            return None if has_catalog(spark, word.text) else str(word.text)
    return None


def refuse(text: str, catalog: str) -> UnsupportedFeature:
    """Return the error for a statement that names a lakescan catalog, but that neither lakescan nor Spark can run.

    If the statement is one of lakescan's, the errors of parsing it are raised instead.
    """
    first = _WORD.match(text)
    word = first[1] if first else text
    target = _TARGET.match(text, first.start(1) if first else 0)
    if target is not None and is_known(target[1]):
        parse_statement(text)  # raises a specific error if it is invalid or not supported
    advice = _ADVICE["view"] if _VIEW.match(text, first.start(1) if first else 0) else _ADVICE.get(word.lower(), "")
    return UnsupportedFeature(f"{word.upper()} with tables of lakescan's catalog {catalog!r}", advice)


def check_frames(frames: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` if one of the frames that the user passed by name is None."""
    for name, frame in frames.items():
        if frame is None:
            raise InvalidOption(f"{name}=None holds no rows: give a table, a scan, or Spark, Arrow or pandas data")
