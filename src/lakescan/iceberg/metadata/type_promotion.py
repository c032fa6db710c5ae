"""Type promotion: the types that a column may get without rewriting its files."""

from __future__ import annotations

from lakescan.common import types as t
from lakescan.common.schema import Schema

FROM_DATE = (t.Timestamp("us", zoned=False), t.Timestamp("ns", zoned=False))
_PLAIN: dict[t.Type, tuple[t.Type, ...]] = {t.INT: (t.LONG,), t.FLOAT: (t.DOUBLE,)}


def can_promote(old: t.Type, new: t.Type) -> bool:
    """Return whether the specification allows changing a column's type from `old` to a different type `new`."""
    if isinstance(old, t.Decimal) and isinstance(new, t.Decimal):
        return new.scale == old.scale and new.precision >= old.precision
    return old == t.UNKNOWN or new in _PLAIN.get(old, ()) or (old == t.DATE and new in FROM_DATE)


def find_unreadable_column(written: Schema, read: Schema) -> str | None:
    """Return a description of the first column whose written type cannot be promoted to its type in `read`, or None.

    Columns are matched by field id. Those that `read` lacks do not count.
    """
    types = {each.id: each.type for each in t.walk(read.fields)}
    nested = t.Struct | t.ListOf | t.MapOf
    for each in t.walk(written.fields):
        kind = types.get(each.id, each.type)
        if kind != each.type and not isinstance(kind, nested) and not can_promote(each.type, kind):
            name = written.reference_of.get(each.id, each.name)
            return f"a column {name!r} of type {each.type}, which is {kind} in the read schema"
    return None
