"""Compute how many bytes a row takes in an Arrow batch; for most types SQL does so without reading the values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import types as s

_VALIDITY, _OFFSET = 1, 4
_FIXED = {
    "boolean": 1,
    "byte": 1,
    "date": 4,
    "daytimeinterval": 8,
    "decimal": 16,
    "double": 8,
    "float": 4,
    "integer": 4,
    "interval": 16,
    "long": 8,
    "short": 2,
    "time": 8,
    "timestamp": 8,
    "timestamp_ntz": 8,
    "void": 0,
    "yearmonthinterval": 4,
}


class _NoExpression(Exception):
    """Raised for a type whose bytes in Arrow no cheap SQL expression computes."""


@dataclass(frozen=True)
class RowWidth:
    """The maximum bytes of a row in an Arrow batch.

    - `fixed`: the bytes that each row takes.
    - `variable`: SQL expressions of type BIGINT, never null, for the bytes that depend on the row's values.
    - `columns`: the positions of the columns with such bytes.
    - `fields`: the number of fields as Spark counts them before it compiles a plan.
    """

    fixed: int
    variable: tuple[str, ...] = ()
    columns: frozenset[int] = frozenset()
    fields: int = 1


def row_width(types: Sequence[s.DataType], names: Sequence[str]) -> RowWidth | None:
    """Compute the width of rows from their types.

    Args:
        types: The type of each column.
        names: The name of each column in SQL, quoted if necessary.

    Returns:
        The width; None if no cheap SQL expression computes the bytes of a column: variants, binary values in arrays and
        maps, and arrays and maps within other arrays and maps.
    """
    fixed, variable, columns = 0, [], set()
    try:
        for n, (kind, name) in enumerate(zip(types, names, strict=True)):
            width, terms = _width(kind, name)
            fixed += width
            variable += terms
            if terms:
                columns.add(n)
    except _NoExpression:
        return None
    return RowWidth(fixed, tuple(variable), frozenset(columns), sum(map(_fields, types)))


def _fields(kind: s.DataType) -> int:
    if isinstance(kind, s.StructType):
        return sum(_fields(field.dataType) for field in kind.fields)
    if isinstance(kind, s.ArrayType):
        return _fields(kind.elementType)
    return _fields(kind.keyType) + _fields(kind.valueType) if isinstance(kind, s.MapType) else 1


def _width(kind: s.DataType, value: str) -> tuple[int, list[str]]:
    """Return the fixed bytes of a value of a type, and SQL expressions for its other bytes; `value` is SQL.

    Raises `_NoExpression` if no cheap expression computes them.
    """
    if isinstance(kind, s.StringType | s.BinaryType):
        return _VALIDITY + _OFFSET, [_bytes(value)]
    if isinstance(kind, s.StructType):
        return _sum(_width(field.dataType, _member(value, field.name)) for field in kind.fields)
    if isinstance(kind, s.ArrayType):
        return _VALIDITY + _OFFSET, _elements(kind.elementType, value)
    if isinstance(kind, s.MapType):
        keys = _elements(kind.keyType, f"map_keys({value})")
        return _VALIDITY + _OFFSET, [*keys, *_elements(kind.valueType, f"map_values({value})")]
    return _fixed_bytes(kind), []


def _elements(kind: s.DataType, array: str) -> list[str]:
    """Return SQL expressions for the bytes of all elements of an array, of the type `kind`; `array` is SQL."""
    width, terms = _element(kind, array)
    return [f"coalesce(CAST(array_size({array}) AS BIGINT), 0L) * {width}L", *terms]


def _element(kind: s.DataType, array: str) -> tuple[int, list[str]]:
    """Return the fixed bytes of one element of an array, and SQL expressions for the other bytes of all elements."""
    if isinstance(kind, s.StringType):
        return _VALIDITY + _OFFSET, [_bytes(f"array_join({array}, '')")]
    if isinstance(kind, s.StructType):
        return _sum(_element(field.dataType, _member(array, field.name)) for field in kind.fields)
    return _fixed_bytes(kind), []


def _sum(members: Iterator[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    fixed, terms = _VALIDITY, []
    for width, more in members:
        fixed += width
        terms += more
    return fixed, terms


def _fixed_bytes(kind: s.DataType) -> int:
    if kind.typeName() not in _FIXED:
        raise _NoExpression
    return _FIXED[kind.typeName()] + _VALIDITY


def _bytes(text: str) -> str:
    return f"coalesce(CAST(octet_length({text}) AS BIGINT), 0L)"


def _member(value: str, name: str) -> str:
    return f"{value}.`{name.replace('`', '``')}`"
