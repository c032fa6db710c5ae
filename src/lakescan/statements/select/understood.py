"""What a condition of a statement says about the rows of one table, as far as planning understands it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from lakescan.common.schema import Schema
from lakescan.errors import LakescanError
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import keep
from lakescan.expressions.implied import Implied, implied
from lakescan.expressions.predicate import TRUE, Predicate, leaves
from lakescan.statements.select.session_settings import Settings


def understood(condition: Any, schema: Schema, settings: Settings) -> Implied:
    """What a condition, a sqlglot tree whose columns are paths of the schema, says about single columns.

    The statement may be evaluated later than it is planned: the present time is known as the earliest possible.
    """
    found = implied(
        condition,
        schema,
        time_zone=settings.zone_name,
        now=datetime.now(UTC),
        now_is_exact=False,
        ansi=settings.is_ansi,
    )
    try:
        bind(found.predicate, schema)
    except LakescanError:
        return Implied(TRUE)
    return found


def is_true_of_nulls(predicate: Predicate, schema: Schema) -> bool:
    """Whether a predicate is true of a row of nulls, as outer joins add them."""
    bound = bind(predicate, schema)
    nulls = {each.bound_id: schema.by_id[each.bound_id].type.arrow() for each in leaves(bound)}
    return bool(keep(bound, lambda each: pa.nulls(1, nulls[each]), 1)[0].as_py())
