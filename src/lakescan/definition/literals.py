"""Python values as SQL literals, for defaults of columns."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from lakescan.definition.table_changes import Default
from lakescan.errors import InvalidOption


def default_of(value: Any) -> Default:
    """The default of a column that is a Python value; raises `InvalidOption` for values that SQL has no literal for.

    Example:
        >>> default_of("open").text
        "'open'"
    """
    return Default(_literal(value), value)


def _literal(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return str(value)
        case float():
            return f"double('{value}')" if value != value or abs(value) == float("inf") else f"{value!r}D"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            kind = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{kind} '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"TIME '{value.isoformat()}'"
    raise InvalidOption(f"{value!r} is not the default of a column: give a number, a text, a date, a time or a boolean")
