"""`spark.sql` in enabled sessions: statements about lakescan's tables run here, all others on Spark, unchanged."""

from __future__ import annotations

import re
from typing import Any

from lakescan.spark.drop_in.interception import NOT_OURS
from lakescan.spark.drop_in.results import as_frame
from lakescan.spark.drop_in.sessions import EnabledSession
from lakescan.spark.statements.names import current_namespace
from lakescan.spark.statements.sql import run_sql

_PATH = re.compile(r"\b(?:delta|iceberg)\s*\.\s*`|\btable_changes(?:_by_path)?\s*\(", re.IGNORECASE)
_ONLY_OURS = re.compile(
    r"\s*(?:optimize|vacuum|restore|convert\s+to\s+delta|merge|update|delete|reorg|call|(?:describe|desc)\s+(?:history|detail))\b",
    re.IGNORECASE,
)


def sql(session: EnabledSession, spark: Any, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
    """Run `spark.sql`."""
    if not isinstance(sqlQuery, str) or not may_be_ours(session, sqlQuery):
        return NOT_OURS
    return as_frame(session, sqlQuery, run_sql(session.spark, sqlQuery, args, **kwargs))


def may_be_ours(session: EnabledSession, text: str) -> bool:
    """Return whether a statement may name a table of lakescan: a quick look at its words, without parsing it."""
    if _PATH.search(text) or _ONLY_OURS.match(text) or current_namespace(session.spark):
        return True
    return any(_name(catalog).search(text) for catalog in session.catalogs)


def _name(catalog: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.`])`?{re.escape(catalog)}`?(?![\w`])", re.IGNORECASE)
