"""What an SQL condition of any shape implies of single columns: tests that planning can prune by.

`implied` reads the condition as Spark does in its ANSI mode. What it does not understand implies nothing; what it
returns is true of every row for which the condition is true, so that a file without such a row may be left out.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lakescan.common.schema import Schema
from lakescan.expressions.inference.comparisons import UNKNOWN_TRUTH, Inference
from lakescan.expressions.inference.conditions import infer_condition
from lakescan.expressions.inference.context import InferenceContext, parse_condition
from lakescan.expressions.inference.time_zones import Zone

__all__ = ["Inference", "infer_predicate"]


def infer_predicate(
    condition: Any,
    schema: Schema,
    *,
    time_zone: str = "UTC",
    case_sensitive: bool = False,
    now: datetime | None = None,
    now_is_exact: bool = True,
    ansi: bool = True,
) -> Inference:
    """Return tests of single columns that are true for every row for which an SQL condition is true.

    - `condition`: text, or its sqlglot tree (of `parse_expression`, or of the dialect `spark`, which leaves out a sign
      `+` before texts), over names of columns and of members of structs without the name of the table.
    - `time_zone`: the session's, `spark.sql.session.timeZone`.
    - `now`: the value of `current_timestamp()`, with a time zone; None if it is not known. If not `now_is_exact`, it is
      a time at or before that at which the engine will evaluate the condition.
    - `ansi`: `spark.sql.ansi.enabled`; if it is off, arithmetic of whole numbers implies little.

    Never raises for a condition that it does not understand: that implies `TRUE`.

    Example:
        >>> str(infer_predicate("year(day) = 2024 and price + 1 > 5", schema).predicate)
        "((day >= '2024-01-01' and day < '2025-01-01') and price > 4)"
    """
    utc = None if now is None else now.astimezone(UTC).replace(tzinfo=None)
    context = InferenceContext(schema, Zone.parse(time_zone), case_sensitive, utc, now_is_exact, ansi)
    try:
        tree = parse_condition(condition) if isinstance(condition, str) else condition
        return UNKNOWN_TRUTH if tree is None else infer_condition(tree, True, context)
    except RecursionError:  # nested too deep
        return UNKNOWN_TRUTH
