"""Times that a statement has as constant expressions."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Any

import pyarrow as pa

from lakescan.errors import InvalidStatement, missing_dependency


def moment_of(expression: Any, zone: tzinfo, what: str = "TIMESTAMP AS OF") -> datetime | str:
    """The value of a constant expression of a time, such as `current_timestamp() - INTERVAL 1 DAY`.

    A literal text is returned as it is. `what` takes the time; messages name it. Raises `InvalidStatement`.
    """
    from sqlglot import exp

    if isinstance(expression, exp.Literal):
        try:
            return expression.name if expression.is_string else datetime.fromtimestamp(float(expression.name), UTC)
        except (ValueError, OverflowError, OSError) as error:
            raise InvalidStatement(f"{what} {expression.name}: {error}") from error
    try:
        import duckdb
    except ImportError as error:
        raise missing_dependency("duckdb", "sql", f"{what} an expression") from error
    try:
        with duckdb.connect() as connection:
            connection.execute(f"SET TimeZone = '{zone}'")
            connection.execute("SET enable_external_access = false")  # the expression may not read files
            query = f"SELECT CAST({expression.sql('duckdb')} AS TIMESTAMPTZ)::TIMESTAMPTZ AS moment"
            value = connection.sql(query).to_arrow_table()["moment"][0]
    except (duckdb.Error, pa.ArrowException) as error:
        raise InvalidStatement(f"{what} takes a constant time, not {expression.sql('spark')}: {error}") from error
    if not value.is_valid:
        raise InvalidStatement(f"{what} takes a time; {expression.sql('spark')} is null")
    moment: datetime = value.as_py()
    return moment.astimezone(UTC)
