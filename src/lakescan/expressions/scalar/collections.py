"""Functions of lists, maps and structs as in Spark's ANSI mode, translated to DuckDB SQL.

They take and return `TypedSql`, and raise `UnsupportedFeature` for arguments that are not translated, such as values of
other types or without a constant where one is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakescan.common import types as t
from lakescan.expressions.scalar.casts import implicit_cast
from lakescan.expressions.scalar.conditions import unify
from lakescan.expressions.scalar.nested import member_names
from lakescan.expressions.scalar.typed_sql import (
    Interval,
    TypedSql,
    common_type,
    convert,
    quote_text,
    unsupported_error,
)
from lakescan.expressions.scalar.udf import call_python

_PLAIN = (*t.INTEGRAL, *t.FLOATING, t.BOOLEAN, t.STRING, t.BINARY, t.UNKNOWN)


def check_inside(kind: t.Type) -> None:
    """Raise `UnsupportedFeature` for a list, map or struct type with an inner type that expressions cannot use."""
    inner = [each.type for each in t.children(kind)]
    is_time = kind == t.DATE or (isinstance(kind, t.Timestamp) and kind.unit == "us") or isinstance(kind, Interval)
    if not inner and not (kind in _PLAIN or is_time or (isinstance(kind, t.Decimal) and kind.scale >= 0)):
        raise unsupported_error(f"a value of type {kind} inside a list, map or struct")
    for each in inner:
        check_inside(each)


def list_of(kind: t.Type) -> t.ListOf:
    """Return the list type with elements of the type `kind`."""
    return t.ListOf(t.Field(0, "element", kind))


def element(of: TypedSql, at: TypedSql) -> TypedSql:
    """Return `of[at]`: the element of a list at an index, counted from 0, or the value of a map's key.

    A list index that does not exist fails when it is evaluated; a missing key gives null.
    """
    if isinstance(of.type, t.MapOf):
        return _value(of, at, of.type)
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"an element of {of.type}")
    place = _place(at)
    is_there = f"{place} >= 0 AND {place} < len({of.sql})"
    return _guard_element(is_there, f"list_extract({of.sql}, {place} + 1)", of, at, of.type.element.type)


def element_at(of: TypedSql, at: TypedSql) -> TypedSql:
    """Return `element_at(of, at)`: as `element`, but list elements are counted from 1, or from the end if negative."""
    if not isinstance(of.type, t.ListOf):
        return element(of, at)
    place = _place(at)
    is_there = f"{place} <> 0 AND abs({place}) <= len({of.sql})"
    return _guard_element(is_there, f"list_extract({of.sql}, {place})", of, at, of.type.element.type)


def element_or_null(of: TypedSql, at: TypedSql) -> TypedSql:
    """Return `get(of, at)`: the element of a list at an index, counted from 0, or null if it does not exist."""
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function get() of {of.type}")
    place = _place(at)
    sql = f"CASE WHEN {place} >= 0 AND {place} < len({of.sql}) THEN list_extract({of.sql}, {place} + 1) END"
    return TypedSql(sql, of.type.element.type, of.raises or at.raises)


def _place(at: TypedSql) -> str:
    return f"CAST({implicit_cast(at, t.LONG, 'a place in a list').sql} AS BIGINT)"


def _guard_element(is_there: str, sql: str, of: TypedSql, at: TypedSql, kind: t.Type) -> TypedSql:
    known = f"({of.sql}) IS NULL OR ({at.sql}) IS NULL OR ({is_there})"
    # As a condition, error() needs no type. Without a column, DuckDB would evaluate it even if there are no rows.
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
    """Return `of.name`, a member of a struct. Case is ignored if no member has exactly this name.

    Raises `UnsupportedFeature` for a missing or ambiguous name.
    """
    fields = of.type.fields if isinstance(of.type, t.Struct) else ()
    found = [n for n, each in enumerate(fields) if each.name == name]
    found = found or [n for n, each in enumerate(fields) if each.name.lower() == name.lower()]
    if len(found) != 1:
        raise unsupported_error(f"the member {name!r} of {of.type}")
    return member_at(of, found[0])


def member_at(of: TypedSql, place: int) -> TypedSql:
    """Return the member of a struct at the position `place`, counted from 0."""
    name = member_names(of.type)[place]
    return TypedSql(f"struct_extract({of.sql}, {quote_text(name)})", t.children(of.type)[place].type, of.raises)


def members_of(of: TypedSql, name: str) -> TypedSql:
    """Return `of.name` for a list of structs: the list of this member's values."""
    assert isinstance(of.type, t.ListOf)
    found = member(TypedSql("e", of.type.element.type), name)
    return TypedSql(f"list_transform({of.sql}, lambda e: {found.sql})", list_of(found.type), of.raises)


def size(of: TypedSql) -> TypedSql:
    """Return `size(of)`, the number of elements of a list or map; null for null."""
    if not isinstance(of.type, t.ListOf | t.MapOf):
        raise unsupported_error(f"the size of {of.type}")
    function = "len" if isinstance(of.type, t.ListOf) else "cardinality"
    return TypedSql(
        f"CAST(CASE WHEN ({of.sql}) IS NOT NULL THEN {function}({of.sql}) END AS INTEGER)", t.INT, of.raises
    )


def contains(of: TypedSql, value: TypedSql) -> TypedSql:
    """Return `array_contains(of, value)`, which is null if the value is not found and the list has nulls.

    Elements are integers, strings or booleans.
    """
    kind = of.type.element.type if isinstance(of.type, t.ListOf) else None
    if (
        kind not in (*t.INTEGRAL, t.STRING, t.BOOLEAN)
        or common_type(value, TypedSql("", kind), "array_contains()") != kind
    ):
        raise unsupported_error(f"the function array_contains() of {of.type} and {value.type}")
    found = f"list_contains({of.sql}, {convert(value, kind).sql})"
    unknown = f"({of.sql}) IS NULL OR ({value.sql}) IS NULL OR (NOT {found} AND list_count({of.sql}) < len({of.sql}))"
    return TypedSql(f"CASE WHEN {unknown} THEN NULL ELSE {found} END", t.BOOLEAN, of.raises or value.raises)


def _element(of: TypedSql, name: str) -> t.Type:
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function {name}() of {of.type}")
    check_inside(of.type)
    return of.type.element.type


def array(*args: TypedSql) -> TypedSql:
    """Return `array(...)`: a list of the arguments, converted to one type."""
    if not args:
        return TypedSql("CAST([] AS INTEGER[])", list_of(t.UNKNOWN))
    values = unify(args, "the function array()")
    listed = ", ".join(each.sql for each in values)
    return TypedSql(f"[{listed}]", list_of(values[0].type), any(each.raises for each in args))


def create_map(*args: TypedSql) -> TypedSql:
    """Return `map(key, value, ...)`, which fails for null or duplicate keys."""
    keys, values = args[::2], args[1::2]
    if len(keys) != len(values):
        raise unsupported_error("the function map() with a key that has no value")
    if not keys:
        unknown = t.Field(0, "key", t.UNKNOWN), t.Field(0, "value", t.UNKNOWN)
        return TypedSql("CAST(map([], []) AS MAP(INTEGER, INTEGER))", t.MapOf(*unknown))
    unique = unify(keys, "the keys of map()")
    if unique[0].type not in (*t.INTEGRAL, t.STRING, t.BOOLEAN):
        raise unsupported_error(f"a key of type {unique[0].type} in map()")
    of = unify(values, "the values of map()")
    sides = [", ".join(each.sql for each in side) for side in (unique, of)]
    kind = t.MapOf(t.Field(0, "key", unique[0].type), t.Field(0, "value", of[0].type))
    return TypedSql(f"map([{sides[0]}], [{sides[1]}])", kind, True)


def named_struct(*args: TypedSql) -> TypedSql:
    """Return `named_struct(name, value, ...)`, whose names are string literals."""
    names, values = args[::2], args[1::2]
    if len(names) != len(values) or not all(each.is_text_literal for each in names):
        raise unsupported_error("the function named_struct() with a name that is not constant or has no value")
    return struct([(name.literal, value) for name, value in zip(names, values, strict=True)])


def struct(members: Sequence[tuple[str, TypedSql]]) -> TypedSql:
    """Return a struct with these (name, value) members; names must be unique, and there is at least one."""
    if not members or len({name for name, _ in members}) < len(members):
        raise unsupported_error("a struct without members, or with duplicate names")
    kind = t.Struct(tuple(t.Field(0, name, value.type) for name, value in members))
    packed = ", ".join(
        f"{quote_text(name)}: {value.sql}" for name, (_, value) in zip(member_names(kind), members, strict=True)
    )
    return TypedSql(f"{{{packed}}}", kind, any(value.raises for _, value in members))


def sort_array(of: TypedSql, ascending: TypedSql | None = None) -> TypedSql:
    """Return `sort_array(of, ascending)`: nulls come first in ascending order, and last in descending order.

    `ascending` is a literal, true by default. Elements are neither floats nor nested.
    """
    kind = _element(of, "sort_array")
    if kind in t.FLOATING or t.children(kind):
        raise unsupported_error(f"the function sort_array() of {of.type}")
    if ascending is not None and not isinstance(ascending.literal, bool):
        raise unsupported_error("the function sort_array() with an order that is not constant")
    words = "'DESC', 'NULLS LAST'" if ascending is not None and ascending.literal is False else "'ASC', 'NULLS FIRST'"
    return TypedSql(f"list_sort({of.sql}, {words})", of.type, of.raises)


def array_sort(of: TypedSql) -> TypedSql:
    """Return `array_sort(of)` without a comparator: ascending, and nulls come last."""
    return replace(sort_array(of), sql=f"list_sort({of.sql}, 'ASC', 'NULLS LAST')")


def extreme_of(function: str) -> Callable[[TypedSql], TypedSql]:
    """Return a translator of `array_max` or `array_min`; `function` is `max` or `min`."""

    def apply(of: TypedSql) -> TypedSql:
        kind = _element(of, f"array_{function}")
        if kind in t.FLOATING or t.children(kind):
            raise unsupported_error(f"the function array_{function}() of {of.type}")
        return TypedSql(f"list_{function}({of.sql})", kind, of.raises)

    return apply


def array_join(of: TypedSql, separator: TypedSql, null: TypedSql | None = None) -> TypedSql:
    """Return `array_join(of, separator, null)` of a list of strings: nulls are skipped unless `null` replaces them.

    `separator` and `null` are string literals.
    """
    if _element(of, "array_join") != t.STRING:
        raise unsupported_error(f"the function array_join() of {of.type}")
    if not separator.is_text_literal:
        raise unsupported_error("the function array_join() with a separator that is not constant")
    glue = separator.sql
    values = of.sql
    if null is not None:
        if not null.is_text_literal:
            raise unsupported_error("the function array_join() with a replacement for nulls that is not constant")
        values = f"list_transform({of.sql}, lambda e: coalesce(e, {null.sql}))"
    joined = f"coalesce(array_to_string({values}, {glue}), '')"
    return TypedSql(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {joined} END", t.STRING, of.raises)


def slice_of(of: TypedSql, start: TypedSql, size: TypedSql) -> TypedSql:
    """Return `slice(of, start, size)`, where `start` counts from 1, or from the end if negative.

    `start` and `size` are literals.
    """
    _element(of, "slice")
    first, count = start.literal, size.literal
    if not isinstance(first, int) or not isinstance(count, int) or first == 0 or count < 0:
        raise unsupported_error("the function slice() with a start or size that is not constant")
    begin = str(first) if first > 0 else f"(len({of.sql}) + {first + 1})"
    inside = (
        f"CASE WHEN {begin} < 1 OR {count} = 0 THEN [] ELSE list_slice({of.sql}, {begin}, {begin} + {count - 1}) END"
    )
    return TypedSql(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {inside} END", of.type, of.raises)


def flatten_list(of: TypedSql) -> TypedSql:
    """Return `flatten(of)`, the elements of the inner lists; null if an inner list is null."""
    kind = _element(of, "flatten")
    if not isinstance(kind, t.ListOf):
        raise unsupported_error(f"the function flatten() of {of.type}")
    has_null = f"len({of.sql}) > list_count({of.sql})"
    return TypedSql(f"CASE WHEN {has_null} THEN NULL ELSE flatten({of.sql}) END", kind, of.raises)


def keys(of: TypedSql) -> TypedSql:
    """Return `map_keys(of)`: the list of a map's keys, null for null."""
    return _map_part(of, "map_keys", lambda kind: kind.key)


def values_of(of: TypedSql) -> TypedSql:
    """Return `map_values(of)`: the list of a map's values, null for null."""
    return _map_part(of, "map_values", lambda kind: kind.value)


def _map_part(of: TypedSql, name: str, part: Callable[[t.MapOf], t.Field]) -> TypedSql:
    if not isinstance(of.type, t.MapOf):
        raise unsupported_error(f"the function {name}() of {of.type}")
    check_inside(of.type)
    sql = f"CASE WHEN ({of.sql}) IS NOT NULL THEN {name}({of.sql}) END"
    return TypedSql(sql, list_of(part(of.type).type), of.raises)
