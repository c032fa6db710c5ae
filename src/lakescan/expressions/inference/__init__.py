"""Predicate inference: predicates on single columns that an SQL condition implies, for pruning files.

`infer_predicate` interprets the condition as Spark does. A condition that it cannot interpret implies `TRUE`. Every row
that satisfies the condition also satisfies the inferred predicate, so a file without such a row can be skipped.
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
    """Infer a predicate on single columns that is satisfied by every row that satisfies an SQL condition.

    Conditions that lakescan cannot interpret never raise: they imply `TRUE`.

    Args:
        condition: SQL text, or its sqlglot tree (from `parse_expression` or the `spark` dialect, which drops a `+`
            before strings). Columns and struct members are not qualified with the table's name.
        schema: The table's schema.
        time_zone: The session time zone, `spark.sql.session.timeZone`.
        case_sensitive: Whether column names match case-sensitively.
        now: The value of `current_timestamp()`, with a time zone; None if unknown.
        now_is_exact: False if the engine may evaluate the condition later than `now`.
        ansi: `spark.sql.ansi.enabled`. If it is off, integer arithmetic implies little.

    Returns:
        The predicate, and whether it is exact.

    Example:
        >>> str(infer_predicate("year(day) = 2024 and price + 1 > 5", schema).predicate)
        "((day >= '2024-01-01' and day < '2025-01-01') and price > 4)"
    """
    utc = None if now is None else now.astimezone(UTC).replace(tzinfo=None)
    context = InferenceContext(schema, Zone.parse(time_zone), case_sensitive, utc, now_is_exact, ansi)
    try:
        tree = parse_condition(condition) if isinstance(condition, str) else condition
        return UNKNOWN_TRUTH if tree is None else infer_condition(tree, True, context)
    except RecursionError:  # nested too deeply
        return UNKNOWN_TRUTH
