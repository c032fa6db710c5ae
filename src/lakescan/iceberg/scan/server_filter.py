"""A filter as a catalog's server takes it: it is true of all rows that the scan wants, and maybe of others.

Only what the specification's expressions say exactly is sent. The rest of the filter is left to the reader, as is all
of it once the files are planned: comparisons of floating point (NaN), of nanoseconds, SQL conditions.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from lakescan.common.schema import Schema
from lakescan.expressions.codec import PredicateEncoder
from lakescan.expressions.instants import plain_value
from lakescan.expressions.predicate import (
    TRUE,
    ColumnComparison,
    ColumnTest,
    In,
    IsNaN,
    Like,
    Predicate,
    SqlCondition,
    conjuncts,
    leaves,
    replace_sql,
)


class _NotExpressible(Exception):
    """The specification has no such expression, or another meaning of it."""


def server_filter(predicate: Predicate, schema: Schema) -> Any:
    """The part of a bound filter that the specification can say, as JSON; None if that is nothing."""
    found = [said for part in conjuncts(replace_sql(predicate)) if (said := _encode_part(part, schema)) is not None]
    if not found:
        return None
    whole = found[0]
    for each in found[1:]:
        whole = {"type": "and", "left": whole, "right": each}
    return whole


def server_names(ids: Any, schema: Schema) -> list[str]:
    """The names of fields as the specification writes them, sorted; those that have no such name are left out."""
    return sorted(name for each in ids if (name := _name(each, schema)) is not None)


def _encode_part(part: Predicate, schema: Schema) -> Any:
    if part == TRUE:
        return None
    try:
        return _Encoder(schema).encode(_check_names(part, schema))
    except _NotExpressible:
        return None


def _name(field_id: int, schema: Schema) -> str | None:
    """A field's path, joined by dots; None for a metadata column, and for names that have dots themselves."""
    if field_id not in schema.path_of:
        return None
    name = schema.path_of[field_id]
    return name if schema.reference_of[field_id].replace("`", "") == name and "`" not in name else None


def _check_names(part: Predicate, schema: Schema) -> Predicate:
    if any(isinstance(each, ColumnTest) and _name(each.bound_id, schema) is None for each in leaves(part)):
        raise _NotExpressible
    return part


class _Encoder(PredicateEncoder):
    """Encodes what the specification's expressions mean alike; raises `_NotSaid` for others."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def encode(self, predicate: Predicate) -> Any:
        if isinstance(predicate, IsNaN):
            raise _NotExpressible
        found = super().encode(predicate)
        return (
            {**found, "term": _name(predicate.bound_id, self._schema)} if isinstance(predicate, ColumnTest) else found
        )

    def constant(self, value: bool | None) -> Any:
        raise _NotExpressible

    def literal(self, value: Any) -> Any:
        if not isinstance(value, pa.Scalar):
            raise _NotExpressible
        return _text_of(value)

    def values(self, predicate: In) -> list[Any]:
        if not predicate.values or (predicate.has_null and predicate.negate):  # a list has a value, and no null
            raise _NotExpressible
        return [self.literal(value) for value in predicate.values]

    def like(self, predicate: Like) -> Any:
        if not predicate.is_prefix_match or predicate.negate:
            raise _NotExpressible
        return super().like(predicate)

    def columns(self, predicate: ColumnComparison) -> Any:
        raise _NotExpressible

    def sql(self, predicate: SqlCondition) -> Any:
        raise _NotExpressible


def _text_of(scalar: pa.Scalar) -> Any:
    """A literal as the specification has values of its type in JSON (appendix C, "JSON single-value serialization")."""
    kind = scalar.type
    if pa.types.is_floating(kind) or (pa.types.is_timestamp(kind) and kind.unit != "us"):
        raise _NotExpressible
    value = plain_value(scalar)
    match value:
        case bool() | int() | str():
            return value
        case datetime():
            return value.isoformat(timespec="microseconds")
        case date():
            return value.isoformat()
        case time():
            return value.isoformat(timespec="microseconds")
        case Decimal() | UUID():
            return str(value)
    raise _NotExpressible
