"""Functions that make lists and structs, and lists of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakescan.common import types as t
from lakescan.expressions.scalar.collections import check_inside, list_of
from lakescan.expressions.scalar.conditions import unify
from lakescan.expressions.scalar.nested import member_names
from lakescan.expressions.scalar.typed import TypedSql, quote_text, unsupported_error


def _element(of: TypedSql, name: str) -> t.Type:
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function {name}() of {of.type}")
    check_inside(of.type)
    return of.type.element.type


def array(*args: TypedSql) -> TypedSql:
    """Return `array(...)`."""
    if not args:
        return TypedSql("CAST([] AS INTEGER[])", list_of(t.UNKNOWN))
    values = unify(args, "the function array()")
    listed = ", ".join(each.sql for each in values)
    return TypedSql(f"[{listed}]", list_of(values[0].type), any(each.raises for each in args))


def create_map(*args: TypedSql) -> TypedSql:
    """Return `map(key, value, ...)`; null keys, and keys that are there twice, fail it."""
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
    """Return `named_struct(name, value, ...)`."""
    names, values = args[::2], args[1::2]
    if len(names) != len(values) or not all(each.is_text_literal for each in names):
        raise unsupported_error("the function named_struct() but with constant names, each with a value")
    return struct([(name.literal, value) for name, value in zip(names, values, strict=True)])


def struct(members: Sequence[tuple[str, TypedSql]]) -> TypedSql:
    """Return a struct of members with these names."""
    if not members or len({name for name, _ in members}) < len(members):
        raise unsupported_error("a struct without members, or with two of one name")
    kind = t.Struct(tuple(t.Field(0, name, value.type) for name, value in members))
    packed = ", ".join(
        f"{quote_text(name)}: {value.sql}" for name, (_, value) in zip(member_names(kind), members, strict=True)
    )
    return TypedSql(f"{{{packed}}}", kind, any(value.raises for _, value in members))


def sort_array(of: TypedSql, ascending: TypedSql | None = None) -> TypedSql:
    """Return `sort_array(of, ascending)`: nulls come first in ascending order, last in descending."""
    kind = _element(of, "sort_array")
    if kind in t.FLOATING or t.children(kind):
        raise unsupported_error(f"the function sort_array() of {of.type}")
    if ascending is not None and not isinstance(ascending.literal, bool):
        raise unsupported_error("the function sort_array() with an order that is no constant")
    words = "'DESC', 'NULLS LAST'" if ascending is not None and ascending.literal is False else "'ASC', 'NULLS FIRST'"
    return TypedSql(f"list_sort({of.sql}, {words})", of.type, of.raises)


def array_sort(of: TypedSql) -> TypedSql:
    """Return `array_sort(of)`: nulls come last."""
    return replace(sort_array(of), sql=f"list_sort({of.sql}, 'ASC', 'NULLS LAST')")


def extreme_of(function: str) -> Callable[[TypedSql], TypedSql]:
    """Return `array_max` or `array_min`."""

    def apply(of: TypedSql) -> TypedSql:
        kind = _element(of, f"array_{function}")
        if kind in t.FLOATING or t.children(kind):
            raise unsupported_error(f"the function array_{function}() of {of.type}")
        return TypedSql(f"list_{function}({of.sql})", kind, of.raises)

    return apply


def array_join(of: TypedSql, separator: TypedSql, null: TypedSql | None = None) -> TypedSql:
    """Return `array_join(of, separator, null)`: nulls are skipped unless there is a text for them."""
    if _element(of, "array_join") != t.STRING:
        raise unsupported_error(f"the function array_join() of {of.type}")
    if not separator.is_text_literal:
        raise unsupported_error("the function array_join() with a separator that is no constant")
    glue = separator.sql
    values = of.sql
    if null is not None:
        if not null.is_text_literal:
            raise unsupported_error("the function array_join() with a text for nulls that is no constant")
        values = f"list_transform({of.sql}, lambda e: coalesce(e, {null.sql}))"
    joined = f"coalesce(array_to_string({values}, {glue}), '')"
    return TypedSql(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {joined} END", t.STRING, of.raises)


def slice_of(of: TypedSql, start: TypedSql, size: TypedSql) -> TypedSql:
    """Return `slice(of, start, size)`, from 1, or from the end."""
    _element(of, "slice")
    first, count = start.literal, size.literal
    if not isinstance(first, int) or not isinstance(count, int) or first == 0 or count < 0:
        raise unsupported_error("the function slice() with places that are no constants")
    begin = str(first) if first > 0 else f"(len({of.sql}) + {first + 1})"
    inside = (
        f"CASE WHEN {begin} < 1 OR {count} = 0 THEN [] ELSE list_slice({of.sql}, {begin}, {begin} + {count - 1}) END"
    )
    return TypedSql(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {inside} END", of.type, of.raises)


def flatten_list(of: TypedSql) -> TypedSql:
    """Return `flatten(of)`: null if a list in it is."""
    kind = _element(of, "flatten")
    if not isinstance(kind, t.ListOf):
        raise unsupported_error(f"the function flatten() of {of.type}")
    has_null = f"len({of.sql}) > list_count({of.sql})"
    return TypedSql(f"CASE WHEN {has_null} THEN NULL ELSE flatten({of.sql}) END", kind, of.raises)


def keys(of: TypedSql) -> TypedSql:
    """Return `map_keys(of)`."""
    return _map_part(of, "map_keys", lambda kind: kind.key)


def values_of(of: TypedSql) -> TypedSql:
    """Return `map_values(of)`."""
    return _map_part(of, "map_values", lambda kind: kind.value)


def _map_part(of: TypedSql, name: str, part: Callable[[t.MapOf], t.Field]) -> TypedSql:
    if not isinstance(of.type, t.MapOf):
        raise unsupported_error(f"the function {name}() of {of.type}")
    check_inside(of.type)
    sql = f"CASE WHEN ({of.sql}) IS NOT NULL THEN {name}({of.sql}) END"
    return TypedSql(sql, list_of(part(of.type).type), of.raises)
