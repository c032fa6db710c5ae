"""A whole statement: parsed as its expressions are (`expressions.scalar.parse`), and translated."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidFilter, InvalidStatement, UnsupportedFeature
from lakescan.expressions.scalar.functions import FUNCTIONS
from lakescan.expressions.scalar.parse import parse_query
from lakescan.expressions.scalar.time_functions import clock_values
from lakescan.expressions.scalar.typed import TypedSql, literal, unsupported_error
from lakescan.statements.duckdb.aggregates import AGGREGATES
from lakescan.statements.duckdb.grouping import MissingAggregation
from lakescan.statements.duckdb.queries import QueryTable, QueryTranslator
from lakescan.statements.duckdb.windows import WINDOW_FUNCTIONS

_ADVICE = (
    "It is not evaluated here, or might have another result than in Spark. Run the statement with lakescan.spark.sql."
)
_DEEP = "Split it into several statements, or run it with lakescan.spark.sql."


@dataclass(frozen=True)
class DuckDBQuery:
    """A query for DuckDB, and the columns of its result with their types in Spark.

    `computes_times`: whether it computes with columns of dates or timestamps, which must be ones that DuckDB has.
    """

    sql: str
    columns: Sequence[tuple[str, t.Type]]
    computes_times: bool


def translate_query(
    text: str, tables: Callable[[Any], QueryTable], values: Mapping[str, Any], now: datetime | None = None
) -> DuckDBQuery:
    """Translate a query. `tables` says what a table (sqlglot's node) means; `values` are those of its parameters.

    Raises `InvalidStatement`, and `UnsupportedFeature` with the name of what is not evaluated here.
    """
    constants = clock_values(now or datetime.now(UTC))
    try:
        parameters = {name: parameter(value) for name, value in values.items()}
        queries = QueryTranslator(text, tables, constants, parameters)
        sql, outputs = queries.query(parse_query(text), None, is_final=True)
    except UnsupportedFeature as error:
        feature = error.feature.removesuffix(" in an SQL expression")
        raise UnsupportedFeature(
            f"{feature} in SQL that runs in this process", _suggest_function(feature) + _ADVICE
        ) from error
    except (InvalidFilter, MissingAggregation) as error:
        raise InvalidStatement(str(error)) from error
    except RecursionError:
        raise UnsupportedFeature("a statement of this depth in SQL that runs in this process", _DEEP) from None
    return DuckDBQuery(sql, [(each.name, each.value.type) for each in outputs], queries.computes_times)


def _suggest_function(feature: str) -> str:
    """Which function was meant, where the name of one that is not known is nearly that of another."""
    called = re.fullmatch(r"the function (\w+)\(\)", feature)
    known = {*FUNCTIONS, *AGGREGATES, *WINDOW_FUNCTIONS}
    alike = difflib.get_close_matches(called[1].lower(), sorted(known), n=1, cutoff=0.85) if called else []
    return f"Did you mean {alike[0]}()? " if alike else ""


def parameter(value: Any) -> TypedSql:
    """The literal that a parameter's value is."""
    match value:
        case None:
            return literal(None, t.UNKNOWN)
        case bool():
            return literal(value, t.BOOLEAN)
        case int():
            if not -(2**63) <= value < 2**63:
                raise unsupported_error(f"the parameter {value}, which is no BIGINT,")
            return literal(value, t.INT if -(2**31) <= value < 2**31 else t.LONG)
        case float():
            return literal(value, t.DOUBLE)
        case str():
            return literal(value, t.STRING)
        case Decimal() if value.is_finite():
            scale = max(-int(value.as_tuple().exponent), 0)
            digits = max(len(value.as_tuple().digits) + max(int(value.as_tuple().exponent), 0), scale)
            return literal(value, t.Decimal(digits, scale))
        case datetime():
            is_zoned = value.tzinfo is not None
            plain = value.astimezone(UTC).replace(tzinfo=None) if is_zoned else value
            return TypedSql(f"CAST('{plain}' AS TIMESTAMP)", t.Timestamp(zoned=True))
        case date():
            return TypedSql(f"CAST('{value}' AS DATE)", t.DATE)
    raise unsupported_error(f"a parameter of type {type(value).__name__}")
