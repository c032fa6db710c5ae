"""Signatures of the Spark functions that `expressions.scalar.python` computes: their argument and result types."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakescan.common import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.scalar import arithmetic, collections
from lakescan.expressions.scalar.casts import implicit_cast, try_cast
from lakescan.expressions.scalar.collections import list_of
from lakescan.expressions.scalar.conditions import unify
from lakescan.expressions.scalar.typed_sql import (
    DAY_TIME,
    MOST_DIGITS,
    Interval,
    TypedSql,
    common_type,
    convert,
    literal,
    unsupported_error,
)
from lakescan.expressions.scalar.udf import call_python

_INSTANT, _WALL = t.Timestamp(), t.Timestamp(zoned=False)
_INT, _LONG, _STRING, _BINARY, _DOUBLE = t.INT, t.LONG, t.STRING, t.BINARY, t.DOUBLE
_SECONDS = t.Decimal(16, 6)
_MANY = 1000


@dataclass(frozen=True)
class Function:
    """A Spark function: `apply` translates the arguments of a call to DuckDB SQL.

    `least` and `most` are the minimum and maximum number of arguments.
    """

    apply: Callable[..., TypedSql]
    least: int
    most: int

    def or_else(self, other: Function) -> Function:
        """Return a function that calls `other` for arguments that this one refuses (`UnsupportedFeature`)."""

        def apply(*args: TypedSql) -> TypedSql:
            try:
                if self.least <= len(args) <= self.most:
                    return self.apply(*args)
            except UnsupportedFeature:
                pass
            if not other.least <= len(args) <= other.most:
                raise unsupported_error(f"a call with {len(args)} arguments")
            return other.apply(*args)

        return Function(apply, min(self.least, other.least), max(self.most, other.most))


def _signature(
    name: str,
    function: str,
    kinds: Sequence[t.Type],
    result: t.Type,
    *defaults: Any,
    raises: bool = False,
    keeps: bool = False,
    least: int | None = None,
) -> Function:
    """Return a Spark function whose arguments are cast to fixed types and passed to a Python function.

    - `name`: the Spark name, for messages. `function`: the Python function, such as `texts.md5`.
    - `kinds`, `result`: the types of the arguments and of the result.
    - `defaults`: the values of optional trailing arguments. With `least`, optional arguments are left out instead.
    - `raises`: whether the function fails for some values. `keeps`: whether it is called with nulls.
    """
    needed = len(kinds) - len(defaults) if least is None else least

    def apply(*args: TypedSql) -> TypedSql:
        given = [implicit_cast(each, kind, f"the function {name}()") for each, kind in zip(args, kinds, strict=False)]
        if least is None and len(args) < len(kinds):
            given += [literal(*each) for each in zip(defaults[len(args) - needed :], kinds[len(args) :], strict=True)]
        return call_python(function, given, result, raises=raises, keeps_nulls=keeps)

    return Function(apply, needed, len(kinds))


def _hex(each: TypedSql) -> TypedSql:
    if each.type in (_STRING, _BINARY):
        return call_python("texts.hex_text", [implicit_cast(each, _BINARY, "the function hex()")], _STRING)
    return call_python("texts.hex_number", [implicit_cast(each, _LONG, "the function hex()")], _STRING, raises=True)


def _hash_function(function: str, kind: t.Type) -> Function:
    def apply(*args: TypedSql) -> TypedSql:
        plain = [literal(None, t.INT) if each.type == t.UNKNOWN else replace(each, literal=None) for each in args]
        if any(isinstance(each.type, t.MapOf) for each in plain):
            raise unsupported_error(f"the function {function}() of a map")
        return call_python(f"hashes.{function}", plain, kind, keeps_nulls=True)

    return Function(apply, 1, _MANY)


def _list_of_two(name: str, function: str) -> Function:
    def apply(left: TypedSql, right: TypedSql) -> TypedSql:
        one, other = unify([left, right], f"the function {name}()")
        if not isinstance(one.type, t.ListOf):
            raise unsupported_error(f"the function {name}() of {left.type}")
        kind = t.BOOLEAN if name == "arrays_overlap" else one.type
        return call_python(function, [one, other], kind)

    return Function(apply, 2, 2)


def _list(name: str, function: str, keeps_type: bool = True, result: t.Type | None = None) -> Function:
    def apply(of: TypedSql) -> TypedSql:
        if not isinstance(of.type, t.ListOf):
            raise unsupported_error(f"the function {name}() of {of.type}")
        return call_python(function, [of], result or (of.type if keeps_type else of.type.element.type))

    return Function(apply, 1, 1)


def _list_and_value(name: str, function: str, result: t.Type | None = None, keeps: bool = False) -> Function:
    """Return a Spark function of a list and a value, both converted to a common element type.

    `name` is the Spark name, and `function` the Python function. `result` is its type, by default that of the list.
    `keeps` means that it is called with nulls.
    """

    def apply(of: TypedSql, value: TypedSql) -> TypedSql:
        if not isinstance(of.type, t.ListOf):
            raise unsupported_error(f"the function {name}() of {of.type}")
        element = TypedSql("", of.type.element.type)
        kind = common_type(element, value, f"the function {name}()")
        listed = convert(of, list_of(kind))
        return call_python(function, [listed, convert(value, kind)], result or list_of(kind), keeps_nulls=keeps)

    return Function(apply, 2, 2)


def _insert(of: TypedSql, place: TypedSql, value: TypedSql) -> TypedSql:
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function array_insert() of {of.type}")
    kind = common_type(TypedSql("", of.type.element.type), value, "the function array_insert()")
    given = [
        convert(of, list_of(kind)),
        implicit_cast(place, _INT, "the function array_insert()"),
        convert(value, kind),
    ]
    return call_python("arrays.insert", given, list_of(kind), keeps_nulls=True, raises=True)


def _repeat(value: TypedSql, count: TypedSql) -> TypedSql:
    given = [replace(value, literal=None), implicit_cast(count, _INT, "the function array_repeat()")]
    return call_python("arrays.repeat", given, list_of(value.type), keeps_nulls=True)


def _sort_array(of: TypedSql, ascending: TypedSql | None = None) -> TypedSql:
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function sort_array() of {of.type}")
    order = (
        literal(True, t.BOOLEAN)
        if ascending is None
        else implicit_cast(ascending, t.BOOLEAN, "the order of sort_array()")
    )
    return call_python("arrays.sort_array", [of, order], of.type)


def _slice(of: TypedSql, start: TypedSql, size: TypedSql) -> TypedSql:
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function slice() of {of.type}")
    places = [implicit_cast(each, _INT, "the function slice()") for each in (start, size)]
    return call_python("arrays.slice_", [of, *places], of.type, raises=True)


def _join(of: TypedSql, separator: TypedSql, null: TypedSql | None = None) -> TypedSql:
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function array_join() of {of.type}")
    listed = convert(of, list_of(_STRING)) if of.type.element.type == t.UNKNOWN else of
    if listed.type != list_of(_STRING):
        from lakescan.expressions.scalar.casts import cast

        listed = cast(of, list_of(_STRING))
    given = [listed, implicit_cast(separator, _STRING, "the function array_join()")]
    if null is not None:
        given.append(implicit_cast(null, _STRING, "the function array_join()"))
    return call_python("arrays.join", given, _STRING)


def _flatten(of: TypedSql) -> TypedSql:
    if not isinstance(of.type, t.ListOf) or not isinstance(of.type.element.type, t.ListOf):
        raise unsupported_error(f"the function flatten() of {of.type}")
    return call_python("arrays.flatten", [of], of.type.element.type)


def arrays_zip(names: Sequence[str], args: Sequence[TypedSql]) -> TypedSql:
    """Return `arrays_zip(...)`: a list of structs with these member names.

    Each struct has the elements of all lists at one index.
    """
    if not all(isinstance(each.type, t.ListOf) for each in args):
        raise unsupported_error("the function arrays_zip() of values that are not lists")
    kinds = [each.type.element.type for each in args]  # type: ignore[attr-defined]
    fields = tuple(t.Field(0, name, kind) for name, kind in zip(names, kinds, strict=True))
    return call_python("arrays.arrays_zip", args, list_of(t.Struct(fields)))


def _sequence(start: TypedSql, stop: TypedSql, step: TypedSql | None = None) -> TypedSql:
    kind = common_type(start, stop, "the function sequence()")
    given = [convert(start, kind), convert(stop, kind)]
    if kind in t.INTEGRAL:
        if step is not None:
            kind = common_type(TypedSql("", kind), step, "the function sequence()")
            given = [convert(each, kind) for each in (start, stop, step)]
    elif kind == t.DATE or isinstance(kind, t.Timestamp):
        if step is not None:
            if not isinstance(step.type, Interval):
                raise unsupported_error(f"the function sequence() of {kind} by {step.type}")
            given.append(step)
    else:
        raise unsupported_error(f"the function sequence() of {kind}")
    return call_python("arrays.sequence", given, list_of(kind), raises=True)


def _map_type(key: t.Type, value: t.Type) -> t.MapOf:
    return t.MapOf(t.Field(0, "key", key), t.Field(0, "value", value))


def _map_from_arrays(keys: TypedSql, values: TypedSql) -> TypedSql:
    if not isinstance(keys.type, t.ListOf) or not isinstance(values.type, t.ListOf):
        raise unsupported_error(f"the function map_from_arrays() of {keys.type} and {values.type}")
    kind = _map_type(keys.type.element.type, values.type.element.type)
    return call_python("arrays.map_from_arrays", [keys, values], kind, raises=True)


def _map_from_entries(of: TypedSql) -> TypedSql:
    entry = of.type.element.type if isinstance(of.type, t.ListOf) else None
    if not isinstance(entry, t.Struct) or len(entry.fields) != 2:
        raise unsupported_error(f"the function map_from_entries() of {of.type}")
    return call_python("arrays.map_from_entries", [of], _map_type(*(each.type for each in entry.fields)), raises=True)


def _map_entries(of: TypedSql) -> TypedSql:
    if not isinstance(of.type, t.MapOf):
        raise unsupported_error(f"the function map_entries() of {of.type}")
    entry = t.Struct((t.Field(0, "key", of.type.key.type), t.Field(0, "value", of.type.value.type)))
    return call_python("arrays.map_entries", [of], list_of(entry))


def _map_concat(*args: TypedSql) -> TypedSql:
    if not args:
        return collections.create_map()
    whole = unify(args, "the function map_concat()")
    if not isinstance(whole[0].type, t.MapOf):
        raise unsupported_error(f"the function map_concat() of {whole[0].type}")
    return call_python("arrays.map_concat", whole, whole[0].type, raises=True)


def _map_contains_key(of: TypedSql, key: TypedSql) -> TypedSql:
    if not isinstance(of.type, t.MapOf):
        raise unsupported_error(f"the function map_contains_key() of {of.type}")
    kind = of.type.key.type
    if common_type(TypedSql("", kind), key, "a key") != kind:
        raise unsupported_error(f"a key of type {key.type} in {of.type}")
    return call_python("arrays.map_contains_key", [of, convert(key, kind)], t.BOOLEAN)


def _try_element_at(of: TypedSql, at: TypedSql) -> TypedSql:
    if isinstance(of.type, t.MapOf):
        kind = of.type.key.type
        return call_python(
            "arrays.map_value", [of, convert(at, common_type(TypedSql("", kind), at, "a key"))], of.type.value.type
        )
    if not isinstance(of.type, t.ListOf):
        raise unsupported_error(f"the function try_element_at() of {of.type}")
    place = implicit_cast(at, _INT, "the function try_element_at()")
    return call_python("arrays.try_element_at", [of, place], of.type.element.type, raises=True)


def _make_timestamp(kind: t.Type, tries: bool = False, may_zone: bool = True) -> Function:
    def apply(*args: TypedSql) -> TypedSql:
        kinds = [_INT, _INT, _INT, _INT, _INT, _SECONDS, _STRING]
        given = [
            implicit_cast(each, of, "the function make_timestamp()") for each, of in zip(args, kinds, strict=False)
        ]
        if len(given) == 6:
            given.append(literal("UTC", _STRING))
        return call_python(f"times.{'try_' * tries}make_timestamp", given, kind, raises=True)

    return Function(apply, 6, 7 if may_zone else 6)


def _make_dt_interval(*args: TypedSql) -> TypedSql:
    kinds = [_INT, _INT, _INT, t.Decimal(18, 6)]
    given = [
        implicit_cast(each, kind, "the function make_dt_interval()") for each, kind in zip(args, kinds, strict=False)
    ]
    given += [literal(0, kind) for kind in kinds[len(given) :]]
    return call_python("times.make_dt_interval", given, DAY_TIME, raises=True)


def _format_number(each: TypedSql, places: TypedSql) -> TypedSql:
    value = implicit_cast(each, _DOUBLE, "the function format_number()") if each.type in (t.FLOAT, _STRING) else each
    if places.type == _STRING:
        raise unsupported_error("the function format_number() with a format of text")
    count = implicit_cast(places, _INT, "the function format_number()")
    return call_python("texts.format_number", [replace(value, literal=None), count], _STRING)


def _format_string(form: TypedSql, *args: TypedSql) -> TypedSql:
    for each in args:
        if each.type not in (*t.INTEGRAL, *t.FLOATING, _STRING, t.BOOLEAN, t.UNKNOWN) and not isinstance(
            each.type, t.Decimal
        ):
            raise unsupported_error(f"the function format_string() of {each.type}")
    given = [
        implicit_cast(form, _STRING, "the function format_string()"),
        *(replace(each, literal=None) for each in args),
    ]
    return call_python("texts.format_string", given, _STRING, keeps_nulls=True, raises=True)


def _shift(kind: str) -> Callable[[TypedSql, TypedSql], TypedSql]:
    def apply(each: TypedSql, count: TypedSql) -> TypedSql:
        value = each if each.type == _LONG else implicit_cast(each, _INT, "a shift of bits")
        bits = literal(64 if value.type == _LONG else 32, _INT)
        given = [
            replace(value, literal=None),
            implicit_cast(count, _INT, "a shift of bits"),
            bits,
            literal(kind, _STRING),
        ]
        return call_python("numbers.shift", given, value.type)

    return apply


shifted_left, shifted_right, shifted_right_unsigned = _shift("l"), _shift("r"), _shift("u")


def _bits(name: str) -> Callable[..., TypedSql]:
    def apply(each: TypedSql, *more: TypedSql) -> TypedSql:
        value = each
        if each.type == t.BOOLEAN:
            value = TypedSql(f"CAST({each.sql} AS BIGINT)", _LONG, each.raises)
        given = [implicit_cast(value, _LONG, f"the function {name}()")]
        given += [implicit_cast(one, _INT, f"the function {name}()") for one in more]
        kind = _INT if name == "bit_count" else t.BYTE
        return call_python(f"numbers.{name}", given, kind, raises=bool(more))

    return apply


def _bround(each: TypedSql, places: TypedSql | None = None) -> TypedSql:
    count = 0 if places is None else places.literal
    if not isinstance(count, int):
        raise unsupported_error("the function bround() with places that are not constant")
    at = literal(count, _INT)
    if each.type in t.FLOATING:
        return call_python("numbers.bround_double", [replace(each, literal=None), at], each.type)
    if each.type in t.INTEGRAL:
        return call_python("numbers.bround_whole", [replace(each, literal=None), at], each.type, raises=True)
    if not isinstance(each.type, t.Decimal):
        raise unsupported_error(f"the function bround() of {each.type}")
    digits = each.type.precision - each.type.scale
    scale = max(min(each.type.scale, count), 0)
    kind = t.Decimal(min(max(digits + 1, 1 - count) + scale, 38), scale)
    return call_python("numbers.bround", [replace(each, literal=None), at], kind)


def to_json(each: TypedSql, options: TypedSql | None = None) -> TypedSql:
    """Return `to_json(each, options)`, the JSON text of a struct, list or map.

    Raises `UnsupportedFeature` for other types.
    """
    if not t.children(each.type):
        raise unsupported_error(f"the function to_json() of {each.type}")
    return call_python(
        "json_texts.to_json", [each, *([] if options is None else [options])], _STRING, raises=options is not None
    )


def from_json(each: TypedSql, schema: TypedSql, options: TypedSql | None = None) -> TypedSql:
    """Return `from_json(each, schema, options)`: JSON text parsed to the type that the literal `schema` describes.

    Raises `UnsupportedFeature` for a schema that is not a literal or not supported.
    """
    from lakescan.expressions.scalar.translate import type_of_text

    if not schema.is_text_literal:
        raise unsupported_error("the function from_json() with a schema that is not constant")
    kind = type_of_text(schema.literal)
    text = implicit_cast(each, _STRING, "the function from_json()")
    return call_python(
        "json_texts.from_json", [text, *([] if options is None else [options])], kind, raises=options is not None
    )


def _to_number(tries: bool) -> Callable[[TypedSql, TypedSql], TypedSql]:
    def apply(text: TypedSql, form: TypedSql) -> TypedSql:
        if not form.is_text_literal:
            raise unsupported_error("the function to_number() with a format that is not constant")
        shape = form.literal.upper().replace("D", ".").partition(".")
        whole, fraction = (sum(each in "09" for each in part) for part in (shape[0], shape[2]))
        kind = t.Decimal(max(whole + fraction, 1), fraction)
        name = "the function to_number()"
        return call_python(
            f"numbers.{'try_' * tries}to_number", [implicit_cast(text, _STRING, name), form], kind, raises=True
        )

    return apply


def _mask(text: TypedSql, *letters: TypedSql) -> TypedSql:
    given = [implicit_cast(each, _STRING, "the function mask()") for each in (text, *letters)]
    given += [literal(each, _STRING) for each in ("X", "x", "n", None)[len(letters) :]]
    return call_python("texts.mask", given, _STRING, keeps_nulls=True)


def _unit_of(name: str) -> Callable[[TypedSql], TypedSql]:
    size = {"unix_seconds": 1_000_000, "unix_millis": 1000, "unix_micros": 1}[name]

    def apply(each: TypedSql) -> TypedSql:
        value = implicit_cast(each, _INSTANT, f"the function {name}()")
        micros = f"epoch_us({value.sql})"
        floored = f"(({micros}) - ((({micros}) % {size}) + {size}) % {size}) // {size}"
        return TypedSql(f"CAST({micros if size == 1 else floored} AS BIGINT)", _LONG, value.raises)

    return apply


def _timestamp_of(name: str) -> Callable[[TypedSql], TypedSql]:
    def apply(each: TypedSql) -> TypedSql:
        if name == "timestamp_seconds" and each.type not in t.INTEGRAL:
            if each.type in t.FLOATING:
                return call_python(
                    "times.timestamp_of_double", [implicit_cast(each, _DOUBLE, name)], _INSTANT, raises=True
                )
            return call_python("times.timestamp_seconds", [replace(each, literal=None)], _INSTANT, raises=True)
        size = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "timestamp_micros": 1}[name]
        if each.type not in t.INTEGRAL:
            raise unsupported_error(f"the function {name}() of {each.type}")
        return TypedSql(f"make_timestamp(CAST({each.sql} AS BIGINT) * {size})", _INSTANT, True)

    return apply


def _math(function: str) -> Function:
    def apply(each: TypedSql) -> TypedSql:
        x = implicit_cast(each, _DOUBLE, f"the function {function}()")
        return TypedSql(f"{function}({x.sql})", _DOUBLE, x.raises)

    return Function(apply, 1, 1)


def _arc_function(function: str) -> Function:
    """Return `acos` or `asin`, which is NaN for arguments outside -1 to 1, where DuckDB fails."""

    def apply(each: TypedSql) -> TypedSql:
        x = implicit_cast(each, _DOUBLE, f"the function {function}()")
        sql = f"CASE WHEN abs({x.sql}) > 1 OR isnan({x.sql}) THEN CAST('NaN' AS DOUBLE) ELSE {function}({x.sql}) END"
        return TypedSql(f"CASE WHEN ({x.sql}) IS NOT NULL THEN {sql} END", _DOUBLE, x.raises)

    return Function(apply, 1, 1)


def _constant(sql: str, kind: t.Type) -> Function:
    return Function(lambda: TypedSql(sql, kind), 0, 0)


def _typeof(each: TypedSql) -> TypedSql:
    return literal(type_name(each.type), _STRING)


def type_name(kind: t.Type) -> str:
    """Return Spark's name for a type in lower case, as the function `typeof` returns it."""
    match kind:
        case t.Decimal():
            return f"decimal({kind.precision},{kind.scale})"
        case t.ListOf():
            return f"array<{type_name(kind.element.type)}>"
        case t.MapOf():
            return f"map<{type_name(kind.key.type)},{type_name(kind.value.type)}>"
        case t.Struct():
            return f"struct<{','.join(f'{each.name}:{type_name(each.type)}' for each in kind.fields)}>"
        case t.Timestamp():
            return "timestamp" if kind.zoned else "timestamp_ntz"
    names: dict[t.Type, str] = {t.BYTE: "tinyint", t.SHORT: "smallint", t.LONG: "bigint", t.UNKNOWN: "void"}
    return names.get(kind, str(kind))


def _elt(number: TypedSql, *values: TypedSql) -> TypedSql:
    place = implicit_cast(number, _INT, "the function elt()")
    texts = [implicit_cast(each, _STRING, "the function elt()") for each in values]
    cases = " ".join(f"WHEN {n} THEN {each.sql}" for n, each in enumerate(texts, 1))
    failed = "CAST(error('INVALID_ARRAY_INDEX: elt() has no value at this place') AS VARCHAR)"
    return TypedSql(
        f"CASE {place.sql} {cases} ELSE CASE WHEN ({place.sql}) IS NULL THEN NULL ELSE {failed} END END", _STRING, True
    )


def _next_day(each: TypedSql, name: TypedSql) -> TypedSql:
    given = [
        implicit_cast(each, t.DATE, "the function next_day()"),
        implicit_cast(name, _STRING, "the function next_day()"),
    ]
    return call_python("times.next_day", given, t.DATE, raises=True)


def date_format(each: TypedSql, pattern: TypedSql) -> TypedSql:
    """Return `date_format(each, pattern)`, computed in Python for any pattern."""
    value = each if isinstance(each.type, t.Timestamp) else implicit_cast(each, _INSTANT, "the function date_format()")
    return call_python("times.date_format", [value, implicit_cast(pattern, _STRING, "a pattern")], _STRING, raises=True)


def _months_between(end: TypedSql, start: TypedSql, rounds: TypedSql | None = None) -> TypedSql:
    name = "the function months_between()"
    order = literal(True, t.BOOLEAN) if rounds is None else implicit_cast(rounds, t.BOOLEAN, name)
    return call_python(
        "times.months_between",
        [implicit_cast(end, _INSTANT, name), implicit_cast(start, _INSTANT, name), order],
        _DOUBLE,
    )


def _convert_timezone(*args: TypedSql) -> TypedSql:
    zones = [literal("UTC", _STRING), args[0]] if len(args) == 2 else list(args[:2])
    name = "the function convert_timezone()"
    given = [*(implicit_cast(each, _STRING, name) for each in zones), implicit_cast(args[-1], _WALL, name)]
    return call_python("times.convert_timezone", given, _WALL, raises=True)


def _overlay(each: TypedSql, new: TypedSql, start: TypedSql, size: TypedSql | None = None) -> TypedSql:
    name = "the function overlay()"
    kind = _BINARY if each.type == _BINARY else _STRING
    given = [implicit_cast(each, kind, name), implicit_cast(new, kind, name), implicit_cast(start, _INT, name)]
    given.append(literal(-1, _INT) if size is None else implicit_cast(size, _INT, name))
    return call_python("texts.overlay_bytes" if kind == _BINARY else "texts.overlay", given, kind)


def _length_in_bytes(scale: int, name: str) -> Function:
    def apply(each: TypedSql) -> TypedSql:
        value = implicit_cast(each, _BINARY if each.type == _BINARY else _STRING, f"the function {name}()")
        size = f"octet_length({value.sql})" if value.type == _BINARY else f"strlen({value.sql})"
        return TypedSql(f"CAST({size} * {scale} AS INTEGER)", _INT, value.raises)

    return Function(apply, 1, 1)


def _nanvl(left: TypedSql, right: TypedSql) -> TypedSql:
    kind = t.FLOAT if {left.type, right.type} == {t.FLOAT} else _DOUBLE
    one, other = (implicit_cast(each, kind, "the function nanvl()") for each in (left, right))
    return TypedSql(f"CASE WHEN isnan({one.sql}) THEN {other.sql} ELSE {one.sql} END", kind, one.raises or other.raises)


def _decode(*args: TypedSql) -> TypedSql:
    if len(args) == 2:
        given = [
            implicit_cast(args[0], _BINARY, "the function decode()"),
            implicit_cast(args[1], _STRING, "the function decode()"),
        ]
        return call_python("texts.decode", given, _STRING, raises=True)
    from lakescan.expressions.scalar.conditions import choice, comparison

    subject, *rest = args
    tests = [comparison("IS NOT DISTINCT FROM", subject, each) for each in rest[0 : len(rest) - len(rest) % 2 : 2]]
    results = list(rest[1 : len(rest) - len(rest) % 2 : 2])
    return choice(tests, results, rest[-1] if len(rest) % 2 else None)


def _to_binary(name: str) -> Callable[..., TypedSql]:
    def apply(text: TypedSql, form: TypedSql | None = None) -> TypedSql:
        if text.type == _BINARY:
            return text
        way = literal("hex", _STRING) if form is None else implicit_cast(form, _STRING, f"the function {name}()")
        return call_python(
            f"hashes.{name}", [implicit_cast(text, _STRING, f"the function {name}()"), way], _BINARY, raises=True
        )

    return apply


def _parse_pattern(name: str, kind: t.Type, tries: bool = False) -> Callable[[TypedSql, TypedSql], TypedSql]:
    """Return a translator of the Spark function `name`, which parses text by a pattern to a date or timestamp.

    `kind` is the result type. Without a pattern, the text is cast. Text that does not match fails, or is null with
    `tries`.
    """

    def apply(text: TypedSql, pattern: TypedSql | None = None) -> TypedSql:
        what = f"the function {name}()"
        if pattern is None or text.type != _STRING:
            return try_cast(text, kind) if tries else implicit_cast(text, kind, what)
        given = [text, implicit_cast(pattern, _STRING, what)]
        found = call_python("times.try_to_timestamp" if tries else "times.to_timestamp", given, _WALL, raises=True)
        if kind == t.DATE:
            return TypedSql(f"CAST({found.sql} AS DATE)", kind, True)
        return replace(found, type=kind)

    return apply


def _pattern_seconds(text: TypedSql, pattern: TypedSql | None = None) -> TypedSql:
    what = "the function unix_timestamp()"
    form = literal("yyyy-MM-dd HH:mm:ss", _STRING) if pattern is None else implicit_cast(pattern, _STRING, what)
    return call_python("times.to_seconds", [implicit_cast(text, _STRING, what), form], _LONG, raises=True)


def _from_unixtime(each: TypedSql, pattern: TypedSql | None = None) -> TypedSql:
    seconds = implicit_cast(each, _LONG, "the function from_unixtime()")
    form = literal("yyyy-MM-dd HH:mm:ss", _STRING) if pattern is None else pattern
    instant = TypedSql(f"make_timestamp({seconds.sql} * 1000000)", _INSTANT, True)
    return date_format(instant, form)


def _round(each: TypedSql, places: TypedSql | None = None) -> TypedSql:
    if each.type == _STRING:
        each = implicit_cast(each, _DOUBLE, "the function round()")
    if each.type not in t.FLOATING:
        raise unsupported_error(f"the function round() of {each.type}")
    at = literal(0, _INT) if places is None else implicit_cast(places, _INT, "the function round()")
    return call_python("numbers.round_double", [replace(each, literal=None), at], each.type)


def _split(text: TypedSql, pattern: TypedSql, limit: TypedSql | None = None) -> TypedSql:
    what = "the function split()"
    count = literal(-1, _INT) if limit is None else implicit_cast(limit, _INT, what)
    given = [implicit_cast(text, _STRING, what), implicit_cast(pattern, _STRING, what), count]
    return call_python("patterns.split", given, list_of(_STRING), raises=True)


def _substring(each: TypedSql, start: TypedSql, size: TypedSql | None = None) -> TypedSql:
    if each.type != _BINARY:
        raise unsupported_error(f"the function substring() of {each.type}")
    places = [start, literal(2**31 - 1, _INT) if size is None else size]
    given = [each, *(implicit_cast(one, _INT, "the function substring()") for one in places)]
    return call_python("texts.substring_bytes", given, _BINARY)


def _pad_bytes(name: str) -> Callable[..., TypedSql]:
    def apply(each: TypedSql, size: TypedSql, pad: TypedSql | None = None) -> TypedSql:
        if each.type != _BINARY or (pad is not None and pad.type != _BINARY):
            raise unsupported_error(f"the function {name}() of {each.type}")
        filling = TypedSql("unhex('00')", _BINARY) if pad is None else pad
        count = implicit_cast(size, _INT, f"the function {name}()")
        return call_python("texts.pad", [each, count, filling, literal(name == "lpad", t.BOOLEAN)], _BINARY)

    return apply


def _locate(part: TypedSql, text: TypedSql, start: TypedSql | None = None) -> TypedSql:
    what = "the function locate()"
    place = literal(1, _INT) if start is None else implicit_cast(start, _INT, what)
    return call_python(
        "texts.locate", [implicit_cast(part, _STRING, what), implicit_cast(text, _STRING, what), place], _INT
    )


def _concat_ws(separator: TypedSql, *args: TypedSql) -> TypedSql:
    parts = []
    for each in args:
        if isinstance(each.type, t.ListOf):
            parts.append(f"coalesce({convert(each, list_of(_STRING)).sql}, [])")
        else:
            parts.append(f"[{implicit_cast(each, _STRING, 'the function concat_ws()').sql}]")
    together = TypedSql(f"flatten([{', '.join(parts)}])" if parts else "CAST([] AS VARCHAR[])", list_of(_STRING))
    return call_python(
        "arrays.join", [together, implicit_cast(separator, _STRING, "the function concat_ws()")], _STRING
    )


def _trim(side: str) -> Callable[..., TypedSql]:
    def apply(each: TypedSql, letters: TypedSql | None = None) -> TypedSql:
        given = [implicit_cast(each, _STRING, "the function btrim()")]
        given.append(
            literal(" ", _STRING) if letters is None else implicit_cast(letters, _STRING, "the function btrim()")
        )
        return call_python("texts.trim", [*given, literal(side, _STRING)], _STRING)

    return apply


def _ceiling(function: str) -> Callable[[TypedSql, TypedSql], TypedSql]:
    def apply(each: TypedSql, places: TypedSql) -> TypedSql:
        count = places.literal
        number = each
        if each.type in t.FLOATING:
            number = implicit_cast(each, t.Decimal(30, 15) if each.type == _DOUBLE else t.Decimal(14, 7), function)
        kind = (
            t.Decimal({t.BYTE: 3, t.SHORT: 5, _INT: 10, _LONG: 20}[each.type], 0)
            if each.type in t.INTEGRAL
            else number.type
        )
        if not isinstance(count, int) or not isinstance(kind, t.Decimal):
            raise unsupported_error(f"the function {function}() of {each.type} with places that are not constant")
        digits = kind.precision - kind.scale
        scale = max(min(kind.scale, count), 0)
        whole = max(digits + 1, 1 - count) if count < 0 else digits + 1
        result = t.Decimal(min(whole + scale, 38), scale)
        return call_python(f"numbers.{function}_to", [replace(number, literal=None), literal(count, _INT)], result)

    return apply


def _try_operator(
    operator: Callable[[TypedSql, TypedSql], TypedSql], of_decimals: str = ""
) -> Callable[[TypedSql, TypedSql], TypedSql]:
    """Return a translator of a function such as `try_add`, which is null where `operator` fails, as after an overflow.

    `of_decimals` names the Python function for decimals, used where DuckDB's intermediate results exceed 38 digits.
    """

    def apply(left: TypedSql, right: TypedSql) -> TypedSql:
        found = operator(left, right)
        sql = f"TRY({found.sql})"
        if of_decimals and isinstance(found.type, t.Decimal) and found.type.precision == MOST_DIGITS:
            sql = f"coalesce({sql}, {call_python(f'numbers.{of_decimals}', [left, right], found.type).sql})"
        return TypedSql(sql, found.type, left.raises or right.raises)

    return apply


def _date_part(unit: TypedSql, each: TypedSql) -> TypedSql:
    if not unit.is_text_literal:
        raise unsupported_error("the function date_part() with a unit that is not constant")
    from lakescan.expressions.scalar.time_functions import extract

    return extract(unit.literal, each)


def _days_name(names: Sequence[str], field: str) -> Callable[[TypedSql], TypedSql]:
    def apply(each: TypedSql) -> TypedSql:
        value = implicit_cast(each, t.DATE, "a name of a day or month")
        listed = ", ".join(f"'{name}'" for name in names)
        return TypedSql(f"list_extract([{listed}], CAST({field.format(x=value.sql)} AS BIGINT))", _STRING, value.raises)

    return apply


def _null_if_zero(each: TypedSql) -> TypedSql:
    return TypedSql(f"nullif({each.sql}, 0)", each.type, each.raises)


def _zero_if_null(each: TypedSql) -> TypedSql:
    kind = common_type(replace(each, literal=None), literal(0, _INT), "the function zeroifnull()")
    value = convert(each, kind)
    return TypedSql(f"coalesce({value.sql}, {convert(literal(0, _INT), kind).sql})", kind, value.raises)


def _space(count: TypedSql) -> TypedSql:
    number = implicit_cast(count, _INT, "the function space()")
    spaces = f"repeat(' ', greatest({number.sql}, 0))"  # DuckDB's greatest() skips nulls
    return TypedSql(f"CASE WHEN ({number.sql}) IS NOT NULL THEN {spaces} END", _STRING, number.raises)


PYTHON_FUNCTIONS: Mapping[str, Function] = {
    "btrim": Function(_trim(""), 1, 2),
    # Unlike in btrim, the letters to trim are the first argument.
    "ltrim": Function(lambda letters, each: _trim("l")(each, letters), 2, 2),
    "rtrim": Function(lambda letters, each: _trim("r")(each, letters), 2, 2),
    "ceil": Function(_ceiling("ceil"), 2, 2),
    "ceiling": Function(_ceiling("ceil"), 2, 2),
    "floor": Function(_ceiling("floor"), 2, 2),
    "concat_ws": Function(_concat_ws, 1, _MANY),
    "date_format": Function(date_format, 2, 2),
    "date_part": Function(_date_part, 2, 2),
    "datepart": Function(_date_part, 2, 2),
    "date_trunc": _signature("date_trunc", "times.date_trunc", [_STRING, _INSTANT], _INSTANT),
    "trunc": _signature("trunc", "times.trunc", [t.DATE, _STRING], t.DATE),
    "dayname": Function(_days_name(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), "isodow({x})"), 1, 1),
    "monthname": Function(
        _days_name(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), "month({x})"),
        1,
        1,
    ),
    "from_unixtime": Function(_from_unixtime, 1, 2),
    "locate": Function(_locate, 2, 3),
    "position": Function(_locate, 2, 3),
    "lpad": Function(_pad_bytes("lpad"), 2, 3),
    "rpad": Function(_pad_bytes("rpad"), 2, 3),
    "make_date": _signature("make_date", "times.make_date", [_INT, _INT, _INT], t.DATE, raises=True),
    "next_day": Function(_next_day, 2, 2),
    "nullifzero": Function(_null_if_zero, 1, 1),
    "zeroifnull": Function(_zero_if_null, 1, 1),
    "regexp": _signature("regexp", "patterns.matches", [_STRING, _STRING], t.BOOLEAN, raises=True),
    "regexp_like": _signature("regexp_like", "patterns.matches", [_STRING, _STRING], t.BOOLEAN, raises=True),
    "rlike": _signature("rlike", "patterns.matches", [_STRING, _STRING], t.BOOLEAN, raises=True),
    "regexp_extract": _signature(
        "regexp_extract", "patterns.extract", [_STRING, _STRING, _INT], _STRING, 1, raises=True
    ),
    "regexp_replace": _signature(
        "regexp_replace", "patterns.replace", [_STRING, _STRING, _STRING, _INT], _STRING, 1, raises=True
    ),
    "round": Function(_round, 1, 2),
    "space": Function(_space, 1, 1),
    "split": Function(_split, 2, 3),
    "split_part": _signature("split_part", "texts.split_part", [_STRING, _STRING, _INT], _STRING, raises=True),
    "substr": Function(_substring, 2, 3),
    "substring": Function(_substring, 2, 3),
    "substring_index": _signature("substring_index", "texts.substring_index", [_STRING, _STRING, _INT], _STRING),
    "to_date": Function(_parse_pattern("to_date", t.DATE), 1, 2),
    "to_timestamp": Function(_parse_pattern("to_timestamp", _INSTANT), 1, 2),
    "to_timestamp_ltz": Function(_parse_pattern("to_timestamp_ltz", _INSTANT), 1, 2),
    "to_timestamp_ntz": Function(_parse_pattern("to_timestamp_ntz", _WALL), 1, 2),
    "try_to_date": Function(_parse_pattern("try_to_date", t.DATE, tries=True), 1, 2),
    "try_to_timestamp": Function(_parse_pattern("try_to_timestamp", _INSTANT, tries=True), 1, 2),
    "to_unix_timestamp": Function(_pattern_seconds, 1, 2),
    "unix_timestamp": Function(_pattern_seconds, 1, 2),
    "translate": _signature("translate", "texts.translate", [_STRING, _STRING, _STRING], _STRING),
    "try_add": Function(_try_operator(arithmetic.add, "decimal_sum"), 2, 2),
    "try_subtract": Function(_try_operator(arithmetic.subtract, "decimal_difference"), 2, 2),
    "try_multiply": Function(_try_operator(arithmetic.multiply, "decimal_product"), 2, 2),
    "try_mod": Function(_try_operator(arithmetic.remainder), 2, 2),
    "unix_date": Function(
        lambda each: TypedSql(
            f"CAST({implicit_cast(each, t.DATE, 'unix_date()').sql} - DATE '1970-01-01' AS INTEGER)", _INT, True
        ),
        1,
        1,
    ),
    "date_from_unix_date": Function(
        lambda each: TypedSql(
            f"(DATE '1970-01-01' + {implicit_cast(each, _INT, 'date_from_unix_date()').sql})", t.DATE, True
        ),
        1,
        1,
    ),
    "ascii": _signature("ascii", "texts.ascii_", [_STRING], _INT),
    "base64": _signature("base64", "hashes.base64", [_BINARY], _STRING),
    "bin": _signature("bin", "texts.bin_", [_LONG], _STRING),
    "bit_count": Function(_bits("bit_count"), 1, 1),
    "bit_get": Function(_bits("bit_get"), 2, 2),
    "getbit": Function(_bits("bit_get"), 2, 2),
    "bit_length": _length_in_bytes(8, "bit_length"),
    "octet_length": _length_in_bytes(1, "octet_length"),
    "bround": Function(_bround, 1, 2),
    "cbrt": _signature("cbrt", "numbers.cbrt", [_DOUBLE], _DOUBLE),
    "char": _signature("char", "texts.chr_", [_LONG], _STRING),
    "chr": _signature("chr", "texts.chr_", [_LONG], _STRING),
    "conv": _signature("conv", "texts.conv", [_STRING, _INT, _INT], _STRING, raises=True),
    "convert_timezone": Function(_convert_timezone, 2, 3),
    "cos": _math("cos"),
    "cosh": _signature("cosh", "numbers.cosh", [_DOUBLE], _DOUBLE),
    "cot": _math("cot"),
    "crc32": _signature("crc32", "hashes.crc32", [_BINARY], _LONG),
    "decode": Function(_decode, 2, _MANY),
    "degrees": _math("degrees"),
    "elt": Function(_elt, 2, _MANY),
    "encode": _signature("encode", "texts.encode", [_STRING, _STRING], _BINARY, raises=True),
    "expm1": _signature("expm1", "numbers.expm1", [_DOUBLE], _DOUBLE),
    "factorial": _signature("factorial", "numbers.factorial", [_INT], _LONG),
    "find_in_set": _signature("find_in_set", "texts.find_in_set", [_STRING, _STRING], _INT),
    "format_number": Function(_format_number, 2, 2),
    "format_string": Function(_format_string, 1, _MANY),
    "printf": Function(_format_string, 1, _MANY),
    "from_base32": _signature("from_base32", "hashes.from_base32", [_STRING], _BINARY, raises=True),
    "from_json": Function(from_json, 2, 3),
    "from_utc_timestamp": _signature(
        "from_utc_timestamp", "times.from_utc", [_INSTANT, _STRING], _INSTANT, raises=True
    ),
    "to_utc_timestamp": _signature("to_utc_timestamp", "times.to_utc", [_INSTANT, _STRING], _INSTANT, raises=True),
    "get_json_object": _signature("get_json_object", "json_texts.get_json_object", [_STRING, _STRING], _STRING),
    "hash": _hash_function("murmur3", _INT),
    "xxhash64": _hash_function("xxhash64", _LONG),
    "hex": Function(_hex, 1, 1),
    "hypot": _signature("hypot", "numbers.hypot", [_DOUBLE, _DOUBLE], _DOUBLE),
    "is_valid_utf8": _signature("is_valid_utf8", "texts.is_valid_utf8", [_BINARY], t.BOOLEAN),
    "json_array_length": _signature("json_array_length", "json_texts.json_array_length", [_STRING], _INT),
    "json_object_keys": _signature("json_object_keys", "json_texts.json_object_keys", [_STRING], list_of(_STRING)),
    "levenshtein": _signature("levenshtein", "texts.levenshtein", [_STRING, _STRING, _INT], _INT, least=2),
    "log1p": _signature("log1p", "numbers.log1p", [_DOUBLE], _DOUBLE),
    "luhn_check": _signature("luhn_check", "texts.luhn_check", [_STRING], t.BOOLEAN),
    "make_dt_interval": Function(_make_dt_interval, 0, 4),
    "make_timestamp": _make_timestamp(_INSTANT),
    "make_timestamp_ltz": _make_timestamp(_INSTANT),
    "make_timestamp_ntz": _make_timestamp(_WALL, may_zone=False),
    "try_make_timestamp": _make_timestamp(_INSTANT, tries=True),
    "try_make_timestamp_ltz": _make_timestamp(_INSTANT, tries=True),
    "try_make_timestamp_ntz": _make_timestamp(_WALL, tries=True, may_zone=False),
    "mask": Function(_mask, 1, 5),
    "md5": _signature("md5", "hashes.md5", [_BINARY], _STRING),
    "months_between": Function(_months_between, 2, 3),
    "nanvl": Function(_nanvl, 2, 2),
    "overlay": Function(_overlay, 3, 4),
    "parse_url": _signature("parse_url", "texts.parse_url", [_STRING, _STRING, _STRING], _STRING, raises=True, least=2),
    "try_parse_url": _signature("try_parse_url", "texts.try_parse_url", [_STRING, _STRING, _STRING], _STRING, least=2),
    "pi": _constant("CAST('3.141592653589793' AS DOUBLE)", _DOUBLE),
    "e": _constant("CAST('2.718281828459045' AS DOUBLE)", _DOUBLE),
    "quote": _signature("quote", "texts.quote", [_STRING], _STRING),
    "radians": _math("radians"),
    "regexp_count": _signature("regexp_count", "patterns.count", [_STRING, _STRING], _INT, raises=True),
    "regexp_extract_all": _signature(
        "regexp_extract_all", "patterns.extract_all", [_STRING, _STRING, _INT], list_of(_STRING), 1, raises=True
    ),
    "regexp_instr": _signature("regexp_instr", "patterns.place", [_STRING, _STRING], _INT, raises=True),
    "regexp_substr": _signature("regexp_substr", "patterns.substring", [_STRING, _STRING], _STRING, raises=True),
    "rint": _signature("rint", "numbers.rint", [_DOUBLE], _DOUBLE),
    "schema_of_json": _signature("schema_of_json", "json_texts.schema_of_json", [_STRING], _STRING, raises=True),
    "sha": _signature("sha", "hashes.sha1", [_BINARY], _STRING),
    "sha1": _signature("sha1", "hashes.sha1", [_BINARY], _STRING),
    "sha2": _signature("sha2", "hashes.sha2", [_BINARY, _INT], _STRING),
    "shiftleft": Function(shifted_left, 2, 2),
    "shiftright": Function(shifted_right, 2, 2),
    "shiftrightunsigned": Function(shifted_right_unsigned, 2, 2),
    "sin": _math("sin"),
    "sinh": _signature("sinh", "numbers.sinh", [_DOUBLE], _DOUBLE),
    "soundex": _signature("soundex", "texts.soundex", [_STRING], _STRING),
    "str_to_map": _signature(
        "str_to_map",
        "texts.str_to_map",
        [_STRING, _STRING, _STRING],
        _map_type(_STRING, _STRING),
        ",",
        ":",
        raises=True,
    ),
    "tan": _math("tan"),
    "tanh": _math("tanh"),
    "acos": _arc_function("acos"),
    "asin": _arc_function("asin"),
    "atan": _math("atan"),
    "timestamp_micros": Function(_timestamp_of("timestamp_micros"), 1, 1),
    "timestamp_millis": Function(_timestamp_of("timestamp_millis"), 1, 1),
    "timestamp_seconds": Function(_timestamp_of("timestamp_seconds"), 1, 1),
    "to_base32": _signature("to_base32", "hashes.to_base32", [_BINARY], _STRING),
    "to_binary": Function(_to_binary("to_binary"), 1, 2),
    "try_to_binary": Function(_to_binary("try_to_binary"), 1, 2),
    "to_json": Function(to_json, 1, 2),
    "to_number": Function(_to_number(False), 2, 2),
    "try_to_number": Function(_to_number(True), 2, 2),
    "typeof": Function(_typeof, 1, 1),
    "unbase64": _signature("unbase64", "hashes.unbase64", [_STRING], _BINARY, raises=True),
    "unhex": _signature("unhex", "texts.unhex", [_STRING], _BINARY),
    "unix_micros": Function(_unit_of("unix_micros"), 1, 1),
    "unix_millis": Function(_unit_of("unix_millis"), 1, 1),
    "unix_seconds": Function(_unit_of("unix_seconds"), 1, 1),
    "url_decode": _signature("url_decode", "texts.url_decode", [_STRING], _STRING, raises=True),
    "try_url_decode": _signature("try_url_decode", "texts.try_url_decode", [_STRING], _STRING),
    "url_encode": _signature("url_encode", "texts.url_encode", [_STRING], _STRING),
    "width_bucket": _signature("width_bucket", "numbers.width_bucket", [_DOUBLE, _DOUBLE, _DOUBLE, _LONG], _LONG),
    "array_append": _list_and_value("array_append", "arrays.append", keeps=True),
    "array_compact": _list("array_compact", "arrays.compact"),
    "array_contains": _list_and_value("array_contains", "arrays.contains", t.BOOLEAN),
    "array_distinct": _list("array_distinct", "arrays.distinct"),
    "array_except": _list_of_two("array_except", "arrays.except_"),
    "array_insert": Function(_insert, 3, 3),
    "array_intersect": _list_of_two("array_intersect", "arrays.intersect"),
    "array_join": Function(_join, 2, 3),
    "array_max": _list("array_max", "arrays.greatest", keeps_type=False),
    "array_min": _list("array_min", "arrays.least", keeps_type=False),
    "array_position": _list_and_value("array_position", "arrays.position", _LONG),
    "array_prepend": _list_and_value("array_prepend", "arrays.prepend", keeps=True),
    "array_remove": _list_and_value("array_remove", "arrays.remove"),
    "array_repeat": Function(_repeat, 2, 2),
    "array_sort": _list("array_sort", "arrays.array_sort"),
    "array_union": _list_of_two("array_union", "arrays.union"),
    "arrays_overlap": _list_of_two("arrays_overlap", "arrays.overlap"),
    "arrays_zip": Function(lambda *args: arrays_zip([str(n) for n in range(len(args))], args), 1, _MANY),
    "flatten": Function(_flatten, 1, 1),
    "map_concat": Function(_map_concat, 0, _MANY),
    "map_contains_key": Function(_map_contains_key, 2, 2),
    "map_entries": Function(_map_entries, 1, 1),
    "map_from_arrays": Function(_map_from_arrays, 2, 2),
    "map_from_entries": Function(_map_from_entries, 1, 1),
    "sequence": Function(_sequence, 2, 3),
    "slice": Function(_slice, 3, 3),
    "sort_array": Function(_sort_array, 1, 2),
    "try_element_at": Function(_try_element_at, 2, 2),
}
