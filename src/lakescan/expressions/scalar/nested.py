"""Types of structs, lists and maps: common types in Spark, and conversions.

The caller passes functions that find the common type of two nested values and that convert a nested value.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from lakescan.common import types as t
from lakescan.common.distinct_names import distinct_names

Leaf = Callable[[str, t.Type, t.Type], tuple[str, bool]]  # (SQL, its type, target type) to (SQL, whether it may fail)


def are_same(left: t.Type, right: t.Type) -> bool:
    """Return whether two types are equal except for ids and nullability of nested fields.

    Member names are compared case-sensitively, because Arrow's casts treat a name in another case as missing.
    """
    if not t.children(left) or type(left) is not type(right):
        return left == right
    pairs = _pairs(left, right)
    return pairs is not None and all(
        (isinstance(left, t.ListOf | t.MapOf) or one.name == other.name) and are_same(one.type, other.type)
        for one, other in pairs
    )


def common_nested_type(left: t.Type, right: t.Type, inside: Callable[[t.Type, t.Type], t.Type]) -> t.Type | None:
    """Return Spark's common type of two structs, two lists or two maps.

    None for other types, and for structs without the same member names (ignoring case) in the same order. `inside`
    returns the common type of two inner types, or raises an error.
    """
    if not t.children(left) or type(left) is not type(right) or (pairs := _pairs(left, right)) is None:
        return None
    return _rebuild(left, [inside(one.type, other.type) for one, other in pairs])


def is_filled(source: t.Type, wanted: t.Type) -> bool:
    """Return whether `source` is a nested type with nulls of unknown type inside, and equals `wanted` otherwise."""
    return bool(t.children(source)) and _has_unknown(source) and _is_filled(source, wanted)


def _has_unknown(kind: t.Type) -> bool:
    return kind == t.UNKNOWN or any(_has_unknown(each.type) for each in t.children(kind))


def _is_filled(source: t.Type, wanted: t.Type) -> bool:
    if source == t.UNKNOWN or not t.children(source) or type(source) is not type(wanted):
        return source in (wanted, t.UNKNOWN)
    pairs = _pairs(source, wanted)
    return pairs is not None and all(_is_filled(one.type, other.type) for one, other in pairs)


def fits(source: t.Type, wanted: t.Type) -> bool:
    """Return whether a cast from `source` to `wanted` may convert between these nested types, by their shape alone.

    Members match by position, and different map keys must stay different.
    """
    if type(source) is not type(wanted) or len(t.children(source)) != len(t.children(wanted)):
        return False
    return not isinstance(source, t.MapOf) or _keeps_keys(source.key.type, wanted.key.type)  # type: ignore[attr-defined]


def convert(sql: str, source: t.Type, wanted: t.Type, leaf: Leaf) -> tuple[str, bool]:
    """Convert SQL of a struct, list or map from the type `source` to `wanted`; the types must fit (see `fits`).

    Returns the SQL and whether it may fail. `leaf` converts inner values that are not nested. Null stays null.
    """
    if not t.children(wanted):
        return leaf(sql, source, wanted)
    if source == t.UNKNOWN:
        return null(wanted, lambda kind: leaf("NULL", t.UNKNOWN, kind)[0]), False
    if are_same(source, wanted):
        return sql, False
    if isinstance(source, t.ListOf) and isinstance(wanted, t.ListOf):
        name = f"e{_depth(wanted)}"  # distinct from names of nested lambdas
        inner, fails = convert(name, source.element.type, wanted.element.type, leaf)
        return f"list_transform({sql}, lambda {name}: {inner})", fails
    if isinstance(source, t.MapOf) and isinstance(wanted, t.MapOf):
        name = f"e{_depth(wanted)}"
        key, _ = convert(f"{name}.key", source.key.type, wanted.key.type, leaf)
        value, fails = convert(f"{name}.value", source.value.type, wanted.value.type, leaf)
        entries = f"list_transform(map_entries({sql}), lambda {name}: {{'key': {key}, 'value': {value}}})"
        return f"CASE WHEN ({sql}) IS NOT NULL THEN map_from_entries({entries}) END", fails
    members, any_fails = [], False
    names = zip(member_names(source), member_names(wanted), strict=True)
    for (name, new), (one, other) in zip(names, zip(t.children(source), t.children(wanted), strict=True), strict=True):
        inner, fails = convert(f"struct_extract({sql}, {_text(name)})", one.type, other.type, leaf)
        members.append(f"{_text(new)}: {inner}")
        any_fails |= fails
    return f"CASE WHEN ({sql}) IS NOT NULL THEN {{{', '.join(members)}}} END", any_fails


def arrow(kind: t.Type) -> pa.DataType:
    """Return the Arrow type of a column type's values, without field ids.

    Map keys without a type become strings, because Arrow's keys are never null.
    """
    match kind:
        case t.Struct():
            return pa.struct([(each.name, arrow(each.type)) for each in kind.fields])
        case t.ListOf():
            return pa.list_(pa.field("element", arrow(kind.element.type)))
        case t.MapOf():
            key = t.STRING if kind.key.type == t.UNKNOWN else kind.key.type
            return pa.map_(arrow(key), arrow(kind.value.type))
    return kind.arrow()


def member_names(kind: t.Type) -> list[str]:
    """Return the names of a struct's members in DuckDB: a number is added to names that differ only in case."""
    return distinct_names([each.name for each in t.children(kind)])


def null(kind: t.Type, leaf: Callable[[t.Type], str]) -> str:
    """Return DuckDB SQL for a null of a type; `leaf` returns it for types that are not nested."""
    if isinstance(kind, t.ListOf):
        return f"(CASE WHEN FALSE THEN [{null(kind.element.type, leaf)}] END)"
    if isinstance(kind, t.MapOf):
        key, value = null(kind.key.type, leaf), null(kind.value.type, leaf)
        return f"(CASE WHEN FALSE THEN map([{key}], [{value}]) END)"
    if isinstance(kind, t.Struct):
        members = ", ".join(
            f"{_text(name)}: {null(each.type, leaf)}"
            for name, each in zip(member_names(kind), kind.fields, strict=True)
        )
        return f"(CASE WHEN FALSE THEN {{{members}}} END)"
    return leaf(kind)


def _pairs(left: t.Type, right: t.Type) -> list[tuple[t.Field, t.Field]] | None:
    ones, others = t.children(left), t.children(right)
    if len(ones) != len(others):
        return None
    if isinstance(left, t.Struct) and [each.name.lower() for each in ones] != [each.name.lower() for each in others]:
        return None
    return list(zip(ones, others, strict=True))


def _rebuild(kind: t.Type, inside: list[t.Type]) -> t.Type:
    fields = [t.Field(0, one.name, of) for one, of in zip(t.children(kind), inside, strict=True)]
    if isinstance(kind, t.ListOf):
        return t.ListOf(fields[0])
    return t.MapOf(fields[0], fields[1]) if isinstance(kind, t.MapOf) else t.Struct(tuple(fields))


def _keeps_keys(source: t.Type, wanted: t.Type) -> bool:
    """Return whether different map keys stay different in a cast of keys from `source` to `wanted`."""
    if source in t.INTEGRAL and wanted in t.INTEGRAL:
        return t.INTEGRAL.index(source) <= t.INTEGRAL.index(wanted)
    return source == t.UNKNOWN or are_same(source, wanted)


def _depth(kind: t.Type) -> int:
    return 1 + max((_depth(each.type) for each in t.children(kind)), default=0)


def _text(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"
