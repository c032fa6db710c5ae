"""Functions that make lists and structs, and lists of lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lakescan.common import types as t
from lakescan.expressions.scalar.collections import check_inside, list_of
from lakescan.expressions.scalar.conditions import unified
from lakescan.expressions.scalar.nested import member_names
from lakescan.expressions.scalar.typed import Typed, quoted, unsupported


def _element(of: Typed, name: str) -> t.Type:
    if not isinstance(of.type, t.ListOf):
        raise unsupported(f"the function {name}() of {of.type}")
    check_inside(of.type)
    return of.type.element.type


def array(*args: Typed) -> Typed:
    """Return `array(...)`."""
    if not args:
        return Typed("CAST([] AS INTEGER[])", list_of(t.UNKNOWN))
    values = unified(args, "the function array()")
    listed = ", ".join(each.sql for each in values)
    return Typed(f"[{listed}]", list_of(values[0].type), any(each.raises for each in args))


def made_map(*args: Typed) -> Typed:
    """Return `map(key, value, ...)`; null keys, and keys that are there twice, fail it."""
    keys, values = args[::2], args[1::2]
    if len(keys) != len(values):
        raise unsupported("the function map() with a key that has no value")
    if not keys:
        unknown = t.Field(0, "key", t.UNKNOWN), t.Field(0, "value", t.UNKNOWN)
        return Typed("CAST(map([], []) AS MAP(INTEGER, INTEGER))", t.MapOf(*unknown))
    unique = unified(keys, "the keys of map()")
    if unique[0].type not in (*t.INTEGRAL, t.STRING, t.BOOLEAN):
        raise unsupported(f"a key of type {unique[0].type} in map()")
    of = unified(values, "the values of map()")
    sides = [", ".join(each.sql for each in side) for side in (unique, of)]
    kind = t.MapOf(t.Field(0, "key", unique[0].type), t.Field(0, "value", of[0].type))
    return Typed(f"map([{sides[0]}], [{sides[1]}])", kind, True)


def named_struct(*args: Typed) -> Typed:
    """Return `named_struct(name, value, ...)`."""
    names, values = args[::2], args[1::2]
    if len(names) != len(values) or not all(each.is_text_literal for each in names):
        raise unsupported("the function named_struct() but with constant names, each with a value")
    return struct([(name.literal, value) for name, value in zip(names, values, strict=True)])


def struct(members: Sequence[tuple[str, Typed]]) -> Typed:
    """Return a struct of members with these names."""
    if not members or len({name for name, _ in members}) < len(members):
        raise unsupported("a struct without members, or with two of one name")
    kind = t.Struct(tuple(t.Field(0, name, value.type) for name, value in members))
    packed = ", ".join(
        f"{quoted(name)}: {value.sql}" for name, (_, value) in zip(member_names(kind), members, strict=True)
    )
    return Typed(f"{{{packed}}}", kind, any(value.raises for _, value in members))


def sorted_list(of: Typed, ascending: Typed | None = None) -> Typed:
    """Return `sort_array(of, ascending)`: nulls come first in ascending order, last in descending."""
    kind = _element(of, "sort_array")
    if kind in t.FLOATING or t.children(kind):
        raise unsupported(f"the function sort_array() of {of.type}")
    if ascending is not None and not isinstance(ascending.literal, bool):
        raise unsupported("the function sort_array() with an order that is no constant")
    words = "'DESC', 'NULLS LAST'" if ascending is not None and ascending.literal is False else "'ASC', 'NULLS FIRST'"
    return Typed(f"list_sort({of.sql}, {words})", of.type, of.raises)


def sorted_nulls_last(of: Typed) -> Typed:
    """Return `array_sort(of)`: nulls come last."""
    return replace(sorted_list(of), sql=f"list_sort({of.sql}, 'ASC', 'NULLS LAST')")


def extreme_of(function: str) -> Callable[[Typed], Typed]:
    """Return `array_max` or `array_min`."""

    def apply(of: Typed) -> Typed:
        kind = _element(of, f"array_{function}")
        if kind in t.FLOATING or t.children(kind):
            raise unsupported(f"the function array_{function}() of {of.type}")
        return Typed(f"list_{function}({of.sql})", kind, of.raises)

    return apply


def joined_list(of: Typed, separator: Typed, null: Typed | None = None) -> Typed:
    """Return `array_join(of, separator, null)`: nulls are skipped unless there is a text for them."""
    if _element(of, "array_join") != t.STRING:
        raise unsupported(f"the function array_join() of {of.type}")
    if not separator.is_text_literal:
        raise unsupported("the function array_join() with a separator that is no constant")
    glue = separator.sql
    values = of.sql
    if null is not None:
        if not null.is_text_literal:
            raise unsupported("the function array_join() with a text for nulls that is no constant")
        values = f"list_transform({of.sql}, lambda e: coalesce(e, {null.sql}))"
    joined = f"coalesce(array_to_string({values}, {glue}), '')"
    return Typed(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {joined} END", t.STRING, of.raises)


def slice_of(of: Typed, start: Typed, size: Typed) -> Typed:
    """Return `slice(of, start, size)`, from 1, or from the end."""
    _element(of, "slice")
    first, count = start.literal, size.literal
    if not isinstance(first, int) or not isinstance(count, int) or first == 0 or count < 0:
        raise unsupported("the function slice() with places that are no constants")
    begin = str(first) if first > 0 else f"(len({of.sql}) + {first + 1})"
    inside = (
        f"CASE WHEN {begin} < 1 OR {count} = 0 THEN [] ELSE list_slice({of.sql}, {begin}, {begin} + {count - 1}) END"
    )
    return Typed(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {inside} END", of.type, of.raises)


def flattened(of: Typed) -> Typed:
    """Return `flatten(of)`: null if a list in it is."""
    kind = _element(of, "flatten")
    if not isinstance(kind, t.ListOf):
        raise unsupported(f"the function flatten() of {of.type}")
    has_null = f"len({of.sql}) > list_count({of.sql})"
    return Typed(f"CASE WHEN {has_null} THEN NULL ELSE flatten({of.sql}) END", kind, of.raises)


def keys(of: Typed) -> Typed:
    """Return `map_keys(of)`."""
    return _of_map(of, "map_keys", lambda kind: kind.key)


def values_of(of: Typed) -> Typed:
    """Return `map_values(of)`."""
    return _of_map(of, "map_values", lambda kind: kind.value)


def _of_map(of: Typed, name: str, part: Callable[[t.MapOf], t.Field]) -> Typed:
    if not isinstance(of.type, t.MapOf):
        raise unsupported(f"the function {name}() of {of.type}")
    check_inside(of.type)
    sql = f"CASE WHEN ({of.sql}) IS NOT NULL THEN {name}({of.sql}) END"
    return Typed(sql, list_of(part(of.type).type), of.raises)
