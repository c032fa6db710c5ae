"""Values as literals of Spark's SQL."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakescan.errors import UnsupportedFeature


def literal(value: Any) -> str:
    """A value as a literal of Spark's SQL; raises `UnsupportedFeature` for a struct, list or map."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL({max(_digits(value), 1)}, {_scale(value)}))"
        case str():
            return text_literal(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"{'TIMESTAMP_NTZ' if value.tzinfo is None else 'TIMESTAMP'}'{value}'"
        case date():
            return f"DATE'{value}'"
    raise UnsupportedFeature(f"a value of type {type(value).__name__} in the text of a statement")


def _scale(value: Decimal) -> int:
    return max(-int(value.as_tuple().exponent), 0)


def _digits(value: Decimal) -> int:
    found = value.as_tuple()
    return max(len(found.digits) + max(int(found.exponent), 0), _scale(value))


def text_literal(text: str) -> str:
    """A text as a literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
