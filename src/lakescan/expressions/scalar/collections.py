"""Elements of lists, values of maps and members of structs, as Spark takes them in ANSI mode."""

from __future__ import annotations

from lakescan.common import types as t
from lakescan.expressions.scalar.casts import implicit_cast
from lakescan.expressions.scalar.intervals import Interval
from lakescan.expressions.scalar.nested import member_names
from lakescan.expressions.scalar.typed import TypedSql, common_type, convert, quote_text, unsupported_error
from lakescan.expressions.scalar.udf import call_python

_PLAIN = (*t.INTEGRAL, *t.FLOATING, t.BOOLEAN, t.STRING, t.BINARY, t.UNKNOWN)


def check_inside(kind: t.Type) -> None:
    """Raise `UnsupportedFeature` for a collection with values that are not read here."""
    inner = [each.type for each in t.children(kind)]
    is_time = kind == t.DATE or (isinstance(kind, t.Timestamp) and kind.unit == "us") or isinstance(kind, Interval)
    if not inner and not (kind in _PLAIN or is_time or (isinstance(kind, t.Decimal) and kind.scale >= 0)):
        raise unsupported_error(f"a value of type {kind} inside a list, map or struct")
    for each in inner:
        check_inside(each)


def list_of(kind: t.Type) -> t.ListOf:
    """Return the type of a list with elements of a type."""
    return t.ListOf(t.Field(0, "element", kind))


def element(of: TypedSql, at: TypedSql) -> TypedSql:
    """Return `of[at]`: an element of a list, counted from 0, which must be there, or the value of a key, or null."""
    if isinstance(of.type, t.MapOf):
        return _value(of, at, of.type)
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"an element of {of.type}")
    place = _place(at)
    is_there = f"{place} >= 0 AND {place} < len({of.sql})"
    return _guard_element(is_there, f"list_extract({of.sql}, {place} + 1)", of, at, of.type.element.type)


def element_at(of: TypedSql, at: TypedSql) -> TypedSql:
    """Return `element_at(of, at)`: elements of lists are counted from 1, or from the end."""
    if not isinstance(of.type, t.ListOf):
        return element(of, at)
    place = _place(at)
    is_there = f"{place} <> 0 AND abs({place}) <= len({of.sql})"
    return _guard_element(is_there, f"list_extract({of.sql}, {place})", of, at, of.type.element.type)


def element_or_null(of: TypedSql, at: TypedSql) -> TypedSql:
    """Return `get(of, at)`: an element of a list, counted from 0, or null."""
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function get() of {of.type}")
    place = _place(at)
    sql = f"CASE WHEN {place} >= 0 AND {place} < len({of.sql}) THEN list_extract({of.sql}, {place} + 1) END"
    return TypedSql(sql, of.type.element.type, of.raises or at.raises)


def _place(at: TypedSql) -> str:
    return f"CAST({implicit_cast(at, t.LONG, 'a place in a list').sql} AS BIGINT)"


def _guard_element(is_there: str, sql: str, of: TypedSql, at: TypedSql, kind: t.Type) -> TypedSql:
    known = f"({of.sql}) IS NULL OR ({at.sql}) IS NULL OR ({is_there})"
    # As a condition, it needs no type; without a column in it, DuckDB would evaluate it before there are rows.
    failure = f"error('no element at this place of a list of ' || CAST(len({of.sql}) AS VARCHAR)) IS NOT NULL"
    return TypedSql(f"CASE WHEN {known} THEN {sql} WHEN {failure} THEN NULL END", kind, True)


def _value(of: TypedSql, key: TypedSql, kind: t.MapOf) -> TypedSql:
    wanted = kind.key.type
    if common_type(key, TypedSql("", wanted), "a key") != wanted:
        raise unsupported_error(f"a key of type {key.type} in {kind}")
    if wanted not in (*t.INTEGRAL, t.STRING):
        return call_python("arrays.map_value", [of, convert(key, wanted)], kind.value.type)
    found = f"list_extract(map_extract({of.sql}, {convert(key, wanted).sql}), 1)"
    return TypedSql(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {found} END", kind.value.type, of.raises or key.raises)


def member(of: TypedSql, name: str) -> TypedSql:
    """Return `of.name`, a member of a struct; case is ignored if no name is the same."""
    fields = of.type.fields if isinstance(of.type, t.Struct) else ()
    found = [n for n, each in enumerate(fields) if each.name == name]
    found = found or [n for n, each in enumerate(fields) if each.name.lower() == name.lower()]
    if len(found) != 1:
        raise unsupported_error(f"the member {name!r} of {of.type}")
    return member_at(of, found[0])


def member_at(of: TypedSql, place: int) -> TypedSql:
    """Return the member of a struct at a place, from 0."""
    name = member_names(of.type)[place]
    return TypedSql(f"struct_extract({of.sql}, {quote_text(name)})", t.children(of.type)[place].type, of.raises)


def members_of(of: TypedSql, name: str) -> TypedSql:
    """Return `of.name` of a list of structs: the list of their members."""
    assert isinstance(of.type, t.ListOf)
    found = member(TypedSql("e", of.type.element.type), name)
    return TypedSql(f"list_transform({of.sql}, lambda e: {found.sql})", list_of(found.type), of.raises)


def size(of: TypedSql) -> TypedSql:
    """Return `size(of)`, null for null."""
    if not isinstance(of.type, t.ListOf | t.MapOf):
        raise unsupported_error(f"the size of {of.type}")
    function = "len" if isinstance(of.type, t.ListOf) else "cardinality"
    return TypedSql(
        f"CAST(CASE WHEN ({of.sql}) IS NOT NULL THEN {function}({of.sql}) END AS INTEGER)", t.INT, of.raises
    )


def contains(of: TypedSql, value: TypedSql) -> TypedSql:
    """Return `array_contains(of, value)`: null if the value is not found, and there are nulls."""
    kind = of.type.element.type if isinstance(of.type, t.ListOf) else None
    if (
        kind not in (*t.INTEGRAL, t.STRING, t.BOOLEAN)
        or common_type(value, TypedSql("", kind), "array_contains()") != kind
    ):
        raise unsupported_error(f"the function array_contains() of {of.type} and {value.type}")
    found = f"list_contains({of.sql}, {convert(value, kind).sql})"
    unknown = f"({of.sql}) IS NULL OR ({value.sql}) IS NULL OR (NOT {found} AND list_count({of.sql}) < len({of.sql}))"
    return TypedSql(f"CASE WHEN {unknown} THEN NULL ELSE {found} END", t.BOOLEAN, of.raises or value.raises)
