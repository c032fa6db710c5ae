"""Translate DuckDB's messages about values into plain words with the names of Spark's errors."""

from __future__ import annotations

import re
from collections.abc import Callable

_RAISED = re.compile(r"^Conversion Error: Could not convert string ['\"](.*)['\"] to INT8$", re.DOTALL)  # by error()
_TYPES = {
    "INT8": "TINYINT",
    "INT16": "SMALLINT",
    "INT32": "INT",
    "INT64": "BIGINT",
    "INT128": "DECIMAL(38, 0)",
    "VARCHAR": "STRING",
}
_IN_PYTHON = re.compile(r"Python exception occurred while executing the UDF: \w+: (.*)$", re.DOTALL)
_BY_ZERO = "division by zero"


def _type(name: str) -> str:
    return _TYPES.get(name, name)


def _overflow(found: re.Match[str]) -> str:
    doing, kind, values = found.groups()
    return f"ARITHMETIC_OVERFLOW: {doing} of {_type(kind)} ({values}) is out of range. CAST an operand to a wider type"


def _out_of_range(found: re.Match[str]) -> str:
    kind, value, target = found.groups()
    return f"CAST_OVERFLOW: {value} ({_type(kind)}) is out of range for {_type(target)}. try_cast returns null for it"


def _not_cast(found: re.Match[str]) -> str:
    value, target = found.groups()
    return f"CAST_OVERFLOW: {value} is out of range for {_type(target)}. try_cast returns null for it"


def _invalid(found: re.Match[str]) -> str:
    value, target = found.groups()
    return f"CAST_INVALID_INPUT: the text {value!r} is no {_type(target)}. try_cast returns null for it"


_KNOWN: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"Overflow in (\w+) of (\w+(?:\(\d+\))?) \(([^()]*)\)"), _overflow),
    (re.compile(r"Overflow on (\w+)()\(([^()]*)\)"), lambda m: f"ARITHMETIC_OVERFLOW: {m[1]}({m[3]}) is out of range"),
    (
        re.compile(r"Type (\w+) with value (\S+) can't be cast because .* out of range .* type (\w+)"),
        _out_of_range,
    ),
    (re.compile(r"Could not cast value (\S+) to (\w+(?:\([\d, ]*\))?)"), _not_cast),
    (re.compile(r"Casting value \"([^\"]*)\" to type (\w+(?:\([\d, ]*\))?) failed: value is out of range"), _not_cast),
    (re.compile(r"Could not convert string ['\"](.*)['\"] to (\w+(?:\([\d, ]*\))?)", re.DOTALL), _invalid),
)


def spark_error_message(message: str) -> str | None:
    """Translate DuckDB's message about a value that cannot be computed: a cast, an overflow, or an error in a function.

    Returns None for other messages. A name in capitals is the name of Spark's error (ANSI mode).

    Example:
        >>> spark_error_message("Out of Range Error: Overflow in addition of INT32 (2147483647 + 1)!")
        'ARITHMETIC_OVERFLOW: addition of INT (2147483647 + 1) is out of range. CAST an operand to a wider type'
    """
    message = message.split("\n\nLINE")[0].strip()
    if (raised := _RAISED.match(message)) is not None:
        said = raised[1]
        return f"DIVIDE_BY_ZERO: {said}. try_divide returns null for it" if said == _BY_ZERO else said
    if (failed := _IN_PYTHON.search(message)) is not None:
        return failed[1]
    for pattern, said_of in _KNOWN:
        if (found := pattern.search(message)) is not None:
            return said_of(found)
    return None
