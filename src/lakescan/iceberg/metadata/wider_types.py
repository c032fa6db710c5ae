"""Which types hold all values of another (specification, "Schema Evolution")."""

from __future__ import annotations

from lakescan.common import types as t
from lakescan.common.schema import Schema

FROM_DATE = (t.Timestamp("us", zoned=False), t.Timestamp("ns", zoned=False))
_PLAIN: dict[t.Type, tuple[t.Type, ...]] = {t.INT: (t.LONG,), t.FLOAT: (t.DOUBLE,)}


def widens(old: t.Type, new: t.Type) -> bool:
    """Whether a column of the type `old` may become one of the type `new`, another one."""
    if isinstance(old, t.Decimal) and isinstance(new, t.Decimal):
        return new.scale == old.scale and new.precision >= old.precision
    return old == t.UNKNOWN or new in _PLAIN.get(old, ()) or (old == t.DATE and new in FROM_DATE)


def too_wide(written: Schema, read: Schema) -> str | None:
    """The first column that was written with a type whose values do not fit that by which it is read, for messages."""
    types = {each.id: each.type for each in t.walk(read.fields)}
    nested = t.Struct | t.ListOf | t.MapOf
    for each in t.walk(written.fields):
        kind = types.get(each.id, each.type)
        if kind != each.type and not isinstance(kind, nested) and not widens(each.type, kind):
            name = written.reference_of.get(each.id, each.name)
            return f"a column {name!r} of type {each.type}, which is {kind} in the read schema"
    return None
