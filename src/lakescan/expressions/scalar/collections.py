"""Elements of lists, values of maps and members of structs, as Spark takes them in ANSI mode."""

from __future__ import annotations

from lakescan.common import types as t
from lakescan.expressions.scalar.casts import implicit
from lakescan.expressions.scalar.intervals import Interval
from lakescan.expressions.scalar.nested import member_names
from lakescan.expressions.scalar.typed import Typed, common_type, converted, quoted, unsupported
from lakescan.expressions.scalar.udf import python

_PLAIN = (*t.INTEGRAL, *t.FLOATING, t.BOOLEAN, t.STRING, t.BINARY, t.UNKNOWN)


def check_inside(kind: t.Type) -> None:
    """Raise `UnsupportedFeature` for a collection with values that are not read here."""
    inner = [each.type for each in t.children(kind)]
    is_time = kind == t.DATE or (isinstance(kind, t.Timestamp) and kind.unit == "us") or isinstance(kind, Interval)
    if not inner and not (kind in _PLAIN or is_time or (isinstance(kind, t.Decimal) and kind.scale >= 0)):
        raise unsupported(f"a value of type {kind} inside a list, map or struct")
    for each in inner:
        check_inside(each)


def list_of(kind: t.Type) -> t.ListOf:
    """Return the type of a list with elements of a type."""
    return t.ListOf(t.Field(0, "element", kind))


def element(of: Typed, at: Typed) -> Typed:
    """Return `of[at]`: an element of a list, counted from 0, which must be there, or the value of a key, or null."""
    if isinstance(of.type, t.MapOf):
        return _value(of, at, of.type)
    if not isinstance(of.type, t.ListOf):
        raise unsupported(f"an element of {of.type}")
    place = _place(at)
    is_there = f"{place} >= 0 AND {place} < len({of.sql})"
    return _if_there(is_there, f"list_extract({of.sql}, {place} + 1)", of, at, of.type.element.type)


def element_at(of: Typed, at: Typed) -> Typed:
    """Return `element_at(of, at)`: elements of lists are counted from 1, or from the end."""
    if not isinstance(of.type, t.ListOf):
        return element(of, at)
    place = _place(at)
    is_there = f"{place} <> 0 AND abs({place}) <= len({of.sql})"
    return _if_there(is_there, f"list_extract({of.sql}, {place})", of, at, of.type.element.type)


def element_or_null(of: Typed, at: Typed) -> Typed:
    """Return `get(of, at)`: an element of a list, counted from 0, or null."""
    if not isinstance(of.type, t.ListOf):
        raise unsupported(f"the function get() of {of.type}")
    place = _place(at)
    sql = f"CASE WHEN {place} >= 0 AND {place} < len({of.sql}) THEN list_extract({of.sql}, {place} + 1) END"
    return Typed(sql, of.type.element.type, of.raises or at.raises)


def _place(at: Typed) -> str:
    return f"CAST({implicit(at, t.LONG, 'a place in a list').sql} AS BIGINT)"


def _if_there(is_there: str, sql: str, of: Typed, at: Typed, kind: t.Type) -> Typed:
    known = f"({of.sql}) IS NULL OR ({at.sql}) IS NULL OR ({is_there})"
    # As a condition, it needs no type; without a column in it, DuckDB would evaluate it before there are rows.
    failure = f"error('no element at this place of a list of ' || CAST(len({of.sql}) AS VARCHAR)) IS NOT NULL"
    return Typed(f"CASE WHEN {known} THEN {sql} WHEN {failure} THEN NULL END", kind, True)


def _value(of: Typed, key: Typed, kind: t.MapOf) -> Typed:
    wanted = kind.key.type
    if common_type(key, Typed("", wanted), "a key") != wanted:
        raise unsupported(f"a key of type {key.type} in {kind}")
    if wanted not in (*t.INTEGRAL, t.STRING):
        return python("arrays.map_value", [of, converted(key, wanted)], kind.value.type)
    found = f"list_extract(map_extract({of.sql}, {converted(key, wanted).sql}), 1)"
    return Typed(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {found} END", kind.value.type, of.raises or key.raises)


def member(of: Typed, name: str) -> Typed:
    """Return `of.name`, a member of a struct; case is ignored if no name is the same."""
    fields = of.type.fields if isinstance(of.type, t.Struct) else ()
    found = [n for n, each in enumerate(fields) if each.name == name]
    found = found or [n for n, each in enumerate(fields) if each.name.lower() == name.lower()]
    if len(found) != 1:
        raise unsupported(f"the member {name!r} of {of.type}")
    return member_at(of, found[0])


def member_at(of: Typed, place: int) -> Typed:
    """Return the member of a struct at a place, from 0."""
    name = member_names(of.type)[place]
    return Typed(f"struct_extract({of.sql}, {quoted(name)})", t.children(of.type)[place].type, of.raises)


def members_of(of: Typed, name: str) -> Typed:
    """Return `of.name` of a list of structs: the list of their members."""
    assert isinstance(of.type, t.ListOf)
    found = member(Typed("e", of.type.element.type), name)
    return Typed(f"list_transform({of.sql}, lambda e: {found.sql})", list_of(found.type), of.raises)


def size(of: Typed) -> Typed:
    """Return `size(of)`, null for null."""
    if not isinstance(of.type, t.ListOf | t.MapOf):
        raise unsupported(f"the size of {of.type}")
    function = "len" if isinstance(of.type, t.ListOf) else "cardinality"
    return Typed(f"CAST(CASE WHEN ({of.sql}) IS NOT NULL THEN {function}({of.sql}) END AS INTEGER)", t.INT, of.raises)


def contains(of: Typed, value: Typed) -> Typed:
    """Return `array_contains(of, value)`: null if the value is not found, and there are nulls."""
    kind = of.type.element.type if isinstance(of.type, t.ListOf) else None
    if (
        kind not in (*t.INTEGRAL, t.STRING, t.BOOLEAN)
        or common_type(value, Typed("", kind), "array_contains()") != kind
    ):
        raise unsupported(f"the function array_contains() of {of.type} and {value.type}")
    found = f"list_contains({of.sql}, {converted(value, kind).sql})"
    unknown = f"({of.sql}) IS NULL OR ({value.sql}) IS NULL OR (NOT {found} AND list_count({of.sql}) < len({of.sql}))"
    return Typed(f"CASE WHEN {unknown} THEN NULL ELSE {found} END", t.BOOLEAN, of.raises or value.raises)
