"""Higher-order functions, such as `transform(prices, x -> x * 2)`, translated to DuckDB SQL with lambdas.

They raise `UnsupportedFeature` for arguments that are not translated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakescan.common import types as t
from lakescan.expressions.scalar.collections import list_of
from lakescan.expressions.scalar.typed_sql import TypedSql, common_type, convert, nested_sql_type, unsupported_error
from lakescan.expressions.scalar.udf import call_python

Variables = Mapping[str, TypedSql]


@dataclass(frozen=True)
class Lambda:
    """A lambda argument of a call.

    - `names`: its parameter names.
    - `body`: translates its expression, given the SQL of each parameter by lower-case name.
    - `depth`: the number of lambdas around it.
    """

    names: Sequence[str]
    body: Callable[[Variables], TypedSql]
    depth: int

    def name(self, place: int) -> str:
        """Return the SQL name of the parameter at the position `place`, distinct from those of enclosing lambdas."""
        return f"v{self.depth}_{place}"

    def apply(self, *values: TypedSql) -> TypedSql:
        """Translate the body with these values for its parameters; surplus values are ignored.

        Raises `UnsupportedFeature` if there are more parameters than values.
        """
        if len(self.names) > len(values):
            raise unsupported_error(f"a function of {len(self.names)} parameters in this place")
        return self.body(dict(zip((each.lower() for each in self.names), values, strict=False)))


def _element(of: Any, name: str) -> t.Type:
    if not isinstance(of, TypedSql) or not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function {name}() of {getattr(of, 'type', 'a function')}")
    return of.type.element.type


def _map(of: Any, name: str) -> t.MapOf:
    if not isinstance(of, TypedSql) or not isinstance(of.type, t.MapOf):
        raise unsupported_error(f"the function {name}() of {getattr(of, 'type', 'a function')}")
    return of.type


def _list_call(function: str, of: TypedSql, each: Lambda, element: t.Type) -> tuple[str, TypedSql]:
    """Return the SQL of DuckDB's list function `function` with a lambda, and the translated body of the lambda.

    `of` is the list, `each` the lambda, and `element` the type of the list's elements. A second parameter of the lambda
    is the element's index, from 0.
    """
    value, place = each.name(0), each.name(1)
    body = each.apply(TypedSql(value, element), TypedSql(f"CAST({place} - 1 AS INTEGER)", t.INT))
    names = f"{value}, {place}" if len(each.names) > 1 else value
    return f"{function}({of.sql}, lambda {names}: {body.sql})", body


def transform(of: TypedSql, each: Lambda) -> TypedSql:
    """Return `transform(list, function)`: the list of the function's results."""
    sql, body = _list_call("list_transform", of, each, _element(of, "transform"))
    return TypedSql(sql, list_of(body.type), of.raises or body.raises)


def _condition(body: TypedSql, name: str) -> None:
    if body.type not in (t.BOOLEAN, t.UNKNOWN):
        raise unsupported_error(f"the function {name}() with a condition of {body.type}")


def filter_list(of: TypedSql, each: Lambda) -> TypedSql:
    """Return `filter(list, function)`: the elements that satisfy the function."""
    sql, body = _list_call("list_filter", of, each, _element(of, "filter"))
    _condition(body, "filter")
    return TypedSql(sql, of.type, of.raises or body.raises)


def _quantifier(name: str, decides: str, other: str) -> Callable[[TypedSql, Lambda], TypedSql]:
    def apply(of: TypedSql, each: Lambda) -> TypedSql:
        sql, body = _list_call("list_transform", of, each, _element(of, name))
        _condition(body, name)
        tests = f"CAST({sql} AS BOOLEAN[])"
        found = f"WHEN list_contains({tests}, {decides}) THEN {decides}"
        cases = f"WHEN ({of.sql}) IS NULL THEN NULL {found} WHEN list_count({tests}) < len({tests}) THEN NULL"
        return TypedSql(f"CASE {cases} ELSE {other} END", t.BOOLEAN, of.raises or body.raises)

    return apply


def aggregate(of: TypedSql, start: TypedSql, merge: Lambda, finish: Lambda | None = None) -> TypedSql:
    """Return `aggregate(list, start, merge, finish)`: fold the list from the left, and apply `finish` to the result.

    Raises `UnsupportedFeature` if the type of `merge`'s result differs from that of `start` and cannot be converted to
    it.
    """
    element = _element(of, "aggregate")
    total, value = merge.name(0), merge.name(1)
    kind = start.type
    body = merge.apply(TypedSql(total, kind), TypedSql(value, element))
    if body.type != kind:
        wider = common_type(TypedSql("", kind), TypedSql("", body.type), "the function aggregate()")
        if wider != kind:
            raise unsupported_error(f"the function aggregate() whose start is {kind} and whose result is {body.type}")
    # Elements are packed into structs, so that the start value may have another type.
    packed = f"list_transform({of.sql}, lambda {value}p: {{'e': {value}p, 't': {_null(kind)}}})"
    inner = merge.apply(
        TypedSql(f"struct_extract({total}, 't')", kind), TypedSql(f"struct_extract({value}, 'e')", element)
    )
    step = f"{{'e': {_null(element)}, 't': {convert(inner, kind).sql}}}"
    first = f"{{'e': {_null(element)}, 't': {start.sql}}}"
    reduced = f"struct_extract(list_reduce({packed}, lambda {total}, {value}: {step}, {first}), 't')"
    result = TypedSql(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {reduced} END", kind, True)
    if finish is None:
        return result
    done = f"list_transform([{result.sql}], lambda {finish.name(2)}: "
    last = finish.apply(TypedSql(finish.name(2), kind))
    sql = f"CASE WHEN ({of.sql}) IS NOT NULL THEN list_extract({done}{last.sql}), 1) END"
    return TypedSql(sql, last.type, True)


def _null(kind: t.Type) -> str:
    return f"CAST(NULL AS {nested_sql_type(kind)})"


def array_sort(of: TypedSql, each: Lambda) -> TypedSql:
    """Return `array_sort(list, function)`, where the function compares two elements and returns an integer.

    The function is evaluated for all pairs of elements before sorting.
    """
    element = _element(of, "array_sort")
    left, right = each.name(0), each.name(1)
    body = each.apply(TypedSql(left, element), TypedSql(right, element))
    if body.type != t.INT:
        raise unsupported_error(f"the function array_sort() with a comparator of {body.type}")
    row = f"list_transform({of.sql}, lambda {right}: {body.sql})"
    signs = TypedSql(f"list_transform({of.sql}, lambda {left}: {row})", list_of(list_of(t.INT)))
    return call_python("arrays.sorted_by", [TypedSql(of.sql, of.type), signs], of.type, raises=True)


def zip_with(left: TypedSql, right: TypedSql, each: Lambda) -> TypedSql:
    """Return `zip_with(list, list, function)`; the shorter list is padded with nulls."""
    one, other = _element(left, "zip_with"), _element(right, "zip_with")
    place = each.name(0)
    body = each.apply(
        TypedSql(f"list_extract({left.sql}, {place})", one), TypedSql(f"list_extract({right.sql}, {place})", other)
    )
    places = f"range(1, greatest(len({left.sql}), len({right.sql})) + 1)"
    sql = f"list_transform({places}, lambda {place}: {body.sql})"
    absent = f"({left.sql}) IS NULL OR ({right.sql}) IS NULL"
    return TypedSql(f"CASE WHEN {absent} THEN NULL ELSE {sql} END", list_of(body.type), True)


def _entries(of: TypedSql, each: Lambda, kind: t.MapOf) -> tuple[str, TypedSql]:
    entry = each.name(0)
    key, value = TypedSql(f"{entry}.key", kind.key.type), TypedSql(f"{entry}.value", kind.value.type)
    return entry, each.apply(key, value)


def map_filter(of: TypedSql, each: Lambda) -> TypedSql:
    """Return `map_filter(map, function)`: the entries that satisfy a function of key and value."""
    kind = _map(of, "map_filter")
    entry, body = _entries(of, each, kind)
    _condition(body, "map_filter")
    sql = f"map_from_entries(list_filter(map_entries({of.sql}), lambda {entry}: {body.sql}))"
    return TypedSql(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {sql} END", of.type, of.raises or body.raises)


def transform_values(of: TypedSql, each: Lambda) -> TypedSql:
    """Return `transform_values(map, function)`: the map with results of a function of key and value as values."""
    kind = _map(of, "transform_values")
    entry, body = _entries(of, each, kind)
    packed = f"{{'key': {entry}.key, 'value': {body.sql}}}"
    sql = f"map_from_entries(list_transform(map_entries({of.sql}), lambda {entry}: {packed}))"
    result = t.MapOf(t.Field(0, "key", kind.key.type), t.Field(0, "value", body.type))
    return TypedSql(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {sql} END", result, of.raises or body.raises)


def transform_keys(of: TypedSql, each: Lambda) -> TypedSql:
    """Return `transform_keys(map, function)`: the map with results of a function of key and value as keys.

    Evaluation fails for duplicate or null keys.
    """
    kind = _map(of, "transform_keys")
    entry, body = _entries(of, each, kind)
    packed = f"{{'key': {body.sql}, 'value': {entry}.value}}"
    entries = TypedSql(
        f"list_transform(map_entries({of.sql}), lambda {entry}: {packed})",
        list_of(t.Struct((t.Field(0, "key", body.type), t.Field(0, "value", kind.value.type)))),
    )
    result = t.MapOf(t.Field(0, "key", body.type), t.Field(0, "value", kind.value.type))
    made = call_python("arrays.map_from_entries", [entries], result, raises=True)
    return TypedSql(f"CASE WHEN ({of.sql}) IS NOT NULL THEN {made.sql} END", result, True)


def map_zip_with(left: TypedSql, right: TypedSql, each: Lambda) -> TypedSql:
    """Return `map_zip_with(map, map, function)`: a map with the keys of both maps.

    Its values are results of a function of the key and both values, null where a map lacks the key.
    """
    one, other = _map(left, "map_zip_with"), _map(right, "map_zip_with")
    if one.key.type != other.key.type:
        raise unsupported_error("the function map_zip_with() of maps with keys of different types")
    key = each.name(0)
    values = [
        call_python("arrays.map_value", [of, TypedSql(key, kind.key.type)], kind.value.type)
        for of, kind in ((left, one), (right, other))
    ]
    body = each.apply(TypedSql(key, one.key.type), *values)
    keys = call_python(
        "arrays.union",
        [
            TypedSql(f"map_keys({left.sql})", list_of(one.key.type)),
            TypedSql(f"map_keys({right.sql})", list_of(one.key.type)),
        ],
        list_of(one.key.type),
    )
    packed = f"{{'key': {key}, 'value': {body.sql}}}"
    sql = f"map_from_entries(list_transform({keys.sql}, lambda {key}: {packed}))"
    absent = f"({left.sql}) IS NULL OR ({right.sql}) IS NULL"
    result = t.MapOf(t.Field(0, "key", one.key.type), t.Field(0, "value", body.type))
    return TypedSql(f"CASE WHEN {absent} THEN NULL ELSE {sql} END", result, True)


HIGHER_ORDER: Mapping[str, tuple[Callable[..., TypedSql], int, int]] = {
    "transform": (transform, 2, 2),
    "filter": (filter_list, 2, 2),
    "exists": (_quantifier("exists", "TRUE", "FALSE"), 2, 2),
    "forall": (_quantifier("forall", "FALSE", "TRUE"), 2, 2),
    "aggregate": (aggregate, 3, 4),
    "reduce": (aggregate, 3, 4),
    "array_sort": (array_sort, 2, 2),
    "zip_with": (zip_with, 3, 3),
    "map_filter": (map_filter, 2, 2),
    "map_zip_with": (map_zip_with, 3, 3),
    "transform_keys": (transform_keys, 2, 2),
    "transform_values": (transform_values, 2, 2),
}


def call(name: str, args: Sequence[TypedSql | Lambda]) -> TypedSql:
    """Translate a call that has a lambda argument; `name` is the Spark function, in any case.

    Raises `UnsupportedFeature` for other functions, and for arguments in another number or order.
    """
    apply, least, most = HIGHER_ORDER.get(name.lower(), (None, 0, 0))
    if apply is None:
        raise unsupported_error(f"the function {name}() with a function")
    if not least <= len(args) <= most:
        raise unsupported_error(f"the function {name}() with {len(args)} arguments")
    takes = 1 if name.lower() in ("transform", "filter") or most == 2 else 2
    if not all(isinstance(each, Lambda) == (n >= takes) for n, each in enumerate(args)):
        raise unsupported_error(f"the function {name}() with these arguments")
    return apply(*args)
