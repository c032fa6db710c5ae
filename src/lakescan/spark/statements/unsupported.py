"""Statements and names that only a catalog of Spark's could serve: said here, in words that help.

Spark looks for tables of lakescan's catalogs in its own, and complains about the number of parts of their names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from lakescan.catalogs.registry import is_known
from lakescan.errors import InvalidOption, InvalidStatement, MissingDependency, UnsupportedFeature
from lakescan.spark.statements.names import has_catalog
from lakescan.statements.syntax.statements import parse_statement
from lakescan.statements.syntax.text import tokens

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w+)", re.DOTALL)
_TARGET = re.compile(
    r"(?:create|drop|alter)\s+(?:or\s+replace\s+)?(?:table|schema|database|namespace)\s+(?:if\s+(?:not\s+)?exists\s+)?"
    r"`?(\w+)`?\.",
    re.IGNORECASE,
)
_OF_SETTINGS = ("set", "reset", "add", "list")
_VIEW = re.compile(r"create\b[^.]*?\bview\b", re.IGNORECASE)
_ADVICE = {
    "insert": "A query of lakescan's tables fills one of Spark's by lakescan.spark.sql(spark, query).write.",
    "delete": "Make a view of the query that the condition has: lakescan.spark.create_view(spark, name, query).",
    "update": "Make a view of the query that it has: lakescan.spark.create_view(spark, name, query).",
    "merge": "Make a view of the source: lakescan.spark.create_view(spark, name, query).",
    "show": "See Catalog.list_namespaces and Catalog.list_tables, and Table.inspect for metadata tables.",
    "describe": "See lakescan.table(name).schema, and Table.inspect for metadata tables.",
    "cache": "Cache the frame: lakescan.spark.table(spark, name).cache().",
    "refresh": "Each statement of lakescan.spark.sql reads the newest state.",
    "create": "A query of lakescan's tables fills one of Spark's: lakescan.spark.sql(spark, query).write.saveAsTable.",
    "view": "Use lakescan.spark.create_view(spark, name, query).",
}
_ADVICE["desc"] = _ADVICE["describe"]


def find_catalog(spark: SparkSession, text: str) -> str | None:
    """The first of lakescan's catalogs that a statement names, if Spark itself has no catalog of that name."""
    first = _WORD.match(text)
    if first is None or first[1].lower() in _OF_SETTINGS:
        return None
    try:
        words = tokens(text[first.end() :])  # sqlglot takes all behind some first words for one text
    except (InvalidStatement, MissingDependency):
        return None
    for at, (word, dot) in enumerate(pairwise(words)):
        is_first = at == 0 or words[at - 1].token_type.name != "DOT"
        is_text = word.token_type.name in ("STRING", "NATIONAL_STRING", "NUMBER")
        if is_first and not is_text and dot.token_type.name == "DOT" and is_known(word.text):
            return None if has_catalog(spark, word.text) else str(word.text)
    return None


def refuse(text: str, catalog: str) -> UnsupportedFeature:
    """The error for a statement that neither lakescan runs, nor Spark could; raises what parsing it raises."""
    first = _WORD.match(text)
    word = first[1] if first else text
    target = _TARGET.match(text, first.start(1) if first else 0)
    if target is not None and is_known(target[1]):
        parse_statement(text)  # raises what is wrong with it, or that it is none of those that lakescan runs
    advice = _ADVICE["view"] if _VIEW.match(text, first.start(1) if first else 0) else _ADVICE.get(word.lower(), "")
    return UnsupportedFeature(f"{word.upper()} with tables of lakescan's catalog {catalog!r}", advice)


def check_frames(frames: Mapping[str, Any]) -> None:
    """Raise `InvalidOption` for a name without a frame."""
    for name, frame in frames.items():
        if frame is None:
            raise InvalidOption(f"{name}=None holds no rows: give a table, a scan, or Spark, Arrow or pandas data")
