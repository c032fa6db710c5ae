"""Functions of Spark that `expressions.scalar.python` computes: the types that they take and return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakescan.common import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.scalar import arithmetic, lists
from lakescan.expressions.scalar.casts import implicit, tried
from lakescan.expressions.scalar.collections import list_of
from lakescan.expressions.scalar.conditions import unified
from lakescan.expressions.scalar.intervals import DAY_TIME, Interval
from lakescan.expressions.scalar.typed import MOST_DIGITS, Typed, common_type, converted, literal, unsupported
from lakescan.expressions.scalar.udf import python

_INSTANT, _WALL = t.Timestamp(), t.Timestamp(zoned=False)
_INT, _LONG, _STRING, _BINARY, _DOUBLE = t.INT, t.LONG, t.STRING, t.BINARY, t.DOUBLE
_SECONDS = t.Decimal(16, 6)
_MANY = 1000


@dataclass(frozen=True)
class Function:
    """A function: what it translates to, and how many arguments it takes."""

    apply: Callable[..., Typed]
    least: int
    most: int

    def or_else(self, other: Function) -> Function:
        """Return the function that `other` computes for the arguments that this one refuses."""

        def apply(*args: Typed) -> Typed:
            try:
                if self.least <= len(args) <= self.most:
                    return self.apply(*args)
            except UnsupportedFeature:
                pass
            if not other.least <= len(args) <= other.most:
                raise unsupported(f"a call with {len(args)} arguments")
            return other.apply(*args)

        return Function(apply, min(self.least, other.least), max(self.most, other.most))


def _fixed(
    name: str,
    function: str,
    kinds: Sequence[t.Type],
    result: t.Type,
    *defaults: Any,
    raises: bool = False,
    keeps: bool = False,
    least: int | None = None,
) -> Function:
    """A function of arguments of fixed types; `defaults` are the values of those that may be left out."""
    needed = len(kinds) - len(defaults) if least is None else least

    def apply(*args: Typed) -> Typed:
        given = [implicit(each, kind, f"the function {name}()") for each, kind in zip(args, kinds, strict=False)]
        if least is None and len(args) < len(kinds):
            given += [literal(*each) for each in zip(defaults[len(args) - needed :], kinds[len(args) :], strict=True)]
        return python(function, given, result, raises=raises, keeps_nulls=keeps)

    return Function(apply, needed, len(kinds))


def _hex(each: Typed) -> Typed:
    if each.type in (_STRING, _BINARY):
        return python("texts.hex_text", [implicit(each, _BINARY, "the function hex()")], _STRING)
    return python("texts.hex_number", [implicit(each, _LONG, "the function hex()")], _STRING, raises=True)


def _hashed(function: str, kind: t.Type) -> Function:
    def apply(*args: Typed) -> Typed:
        plain = [literal(None, t.INT) if each.type == t.UNKNOWN else replace(each, literal=None) for each in args]
        if any(isinstance(each.type, t.MapOf) for each in plain):
            raise unsupported(f"the function {function}() of a map")
        return python(f"hashes.{function}", plain, kind, keeps_nulls=True)

    return Function(apply, 1, _MANY)


def _list_of_two(name: str, function: str) -> Function:
    def apply(left: Typed, right: Typed) -> Typed:
        one, other = unified([left, right], f"the function {name}()")
        if not isinstance(one.type, t.ListOf):
            raise unsupported(f"the function {name}() of {left.type}")
        kind = t.BOOLEAN if name == "arrays_overlap" else one.type
        return python(function, [one, other], kind)

    return Function(apply, 2, 2)


def _list(name: str, function: str, keeps_type: bool = True, result: t.Type | None = None) -> Function:
    def apply(of: Typed) -> Typed:
        if not isinstance(of.type, t.ListOf):
            raise unsupported(f"the function {name}() of {of.type}")
        return python(function, [of], result or (of.type if keeps_type else of.type.element.type))

    return Function(apply, 1, 1)


def _with_value(name: str, function: str, result: t.Type | None = None, keeps: bool = False) -> Function:
    """A function of a list and a value of its elements."""

    def apply(of: Typed, value: Typed) -> Typed:
        if not isinstance(of.type, t.ListOf):
            raise unsupported(f"the function {name}() of {of.type}")
        element = Typed("", of.type.element.type)
        kind = common_type(element, value, f"the function {name}()")
        listed = converted(of, list_of(kind))
        return python(function, [listed, converted(value, kind)], result or list_of(kind), keeps_nulls=keeps)

    return Function(apply, 2, 2)


def _insert(of: Typed, place: Typed, value: Typed) -> Typed:
    if not isinstance(of.type, t.ListOf):
        raise unsupported(f"the function array_insert() of {of.type}")
    kind = common_type(Typed("", of.type.element.type), value, "the function array_insert()")
    given = [converted(of, list_of(kind)), implicit(place, _INT, "the function array_insert()"), converted(value, kind)]
    return python("arrays.insert", given, list_of(kind), keeps_nulls=True, raises=True)


def _repeat(value: Typed, count: Typed) -> Typed:
    given = [replace(value, literal=None), implicit(count, _INT, "the function array_repeat()")]
    return python("arrays.repeat", given, list_of(value.type), keeps_nulls=True)


def _sorted(of: Typed, ascending: Typed | None = None) -> Typed:
    if not isinstance(of.type, t.ListOf):
        raise unsupported(f"the function sort_array() of {of.type}")
    order = (
        literal(True, t.BOOLEAN) if ascending is None else implicit(ascending, t.BOOLEAN, "the order of sort_array()")
    )
    return python("arrays.sort_array", [of, order], of.type)


def _slice(of: Typed, start: Typed, size: Typed) -> Typed:
    if not isinstance(of.type, t.ListOf):
        raise unsupported(f"the function slice() of {of.type}")
    places = [implicit(each, _INT, "the function slice()") for each in (start, size)]
    return python("arrays.slice_", [of, *places], of.type, raises=True)


def _join(of: Typed, separator: Typed, null: Typed | None = None) -> Typed:
    if not isinstance(of.type, t.ListOf):
        raise unsupported(f"the function array_join() of {of.type}")
    listed = converted(of, list_of(_STRING)) if of.type.element.type == t.UNKNOWN else of
    if listed.type != list_of(_STRING):
        from lakescan.expressions.scalar.casts import cast

        listed = cast(of, list_of(_STRING))
    given = [listed, implicit(separator, _STRING, "the function array_join()")]
    if null is not None:
        given.append(implicit(null, _STRING, "the function array_join()"))
    return python("arrays.join", given, _STRING)


def _flatten(of: Typed) -> Typed:
    if not isinstance(of.type, t.ListOf) or not isinstance(of.type.element.type, t.ListOf):
        raise unsupported(f"the function flatten() of {of.type}")
    return python("arrays.flatten", [of], of.type.element.type)


def zipped(names: Sequence[str], args: Sequence[Typed]) -> Typed:
    """Return `arrays_zip(...)`, whose structs have members of these names."""
    if not all(isinstance(each.type, t.ListOf) for each in args):
        raise unsupported("the function arrays_zip() of other values than lists")
    kinds = [each.type.element.type for each in args]  # type: ignore[attr-defined]
    fields = tuple(t.Field(0, name, kind) for name, kind in zip(names, kinds, strict=True))
    return python("arrays.zipped", args, list_of(t.Struct(fields)))


def _sequence(start: Typed, stop: Typed, step: Typed | None = None) -> Typed:
    kind = common_type(start, stop, "the function sequence()")
    given = [converted(start, kind), converted(stop, kind)]
    if kind in t.INTEGRAL:
        if step is not None:
            kind = common_type(Typed("", kind), step, "the function sequence()")
            given = [converted(each, kind) for each in (start, stop, step)]
    elif kind == t.DATE or isinstance(kind, t.Timestamp):
        if step is not None:
            if not isinstance(step.type, Interval):
                raise unsupported(f"the function sequence() of {kind} by {step.type}")
            given.append(step)
    else:
        raise unsupported(f"the function sequence() of {kind}")
    return python("arrays.sequence", given, list_of(kind), raises=True)


def _map_type(key: t.Type, value: t.Type) -> t.MapOf:
    return t.MapOf(t.Field(0, "key", key), t.Field(0, "value", value))


def _map_from_arrays(keys: Typed, values: Typed) -> Typed:
    if not isinstance(keys.type, t.ListOf) or not isinstance(values.type, t.ListOf):
        raise unsupported(f"the function map_from_arrays() of {keys.type} and {values.type}")
    kind = _map_type(keys.type.element.type, values.type.element.type)
    return python("arrays.map_from_arrays", [keys, values], kind, raises=True)


def _map_from_entries(of: Typed) -> Typed:
    entry = of.type.element.type if isinstance(of.type, t.ListOf) else None
    if not isinstance(entry, t.Struct) or len(entry.fields) != 2:
        raise unsupported(f"the function map_from_entries() of {of.type}")
    return python("arrays.map_from_entries", [of], _map_type(*(each.type for each in entry.fields)), raises=True)


def _map_entries(of: Typed) -> Typed:
    if not isinstance(of.type, t.MapOf):
        raise unsupported(f"the function map_entries() of {of.type}")
    entry = t.Struct((t.Field(0, "key", of.type.key.type), t.Field(0, "value", of.type.value.type)))
    return python("arrays.map_entries", [of], list_of(entry))


def _map_concat(*args: Typed) -> Typed:
    if not args:
        return lists.made_map()
    whole = unified(args, "the function map_concat()")
    if not isinstance(whole[0].type, t.MapOf):
        raise unsupported(f"the function map_concat() of {whole[0].type}")
    return python("arrays.map_concat", whole, whole[0].type, raises=True)


def _map_contains_key(of: Typed, key: Typed) -> Typed:
    if not isinstance(of.type, t.MapOf):
        raise unsupported(f"the function map_contains_key() of {of.type}")
    kind = of.type.key.type
    if common_type(Typed("", kind), key, "a key") != kind:
        raise unsupported(f"a key of type {key.type} in {of.type}")
    return python("arrays.map_contains_key", [of, converted(key, kind)], t.BOOLEAN)


def _try_element_at(of: Typed, at: Typed) -> Typed:
    if isinstance(of.type, t.MapOf):
        kind = of.type.key.type
        return python(
            "arrays.map_value", [of, converted(at, common_type(Typed("", kind), at, "a key"))], of.type.value.type
        )
    if not isinstance(of.type, t.ListOf):
        raise unsupported(f"the function try_element_at() of {of.type}")
    place = implicit(at, _INT, "the function try_element_at()")
    return python("arrays.try_element_at", [of, place], of.type.element.type, raises=True)


def _make_timestamp(kind: t.Type, tries: bool = False, may_zone: bool = True) -> Function:
    def apply(*args: Typed) -> Typed:
        kinds = [_INT, _INT, _INT, _INT, _INT, _SECONDS, _STRING]
        given = [implicit(each, of, "the function make_timestamp()") for each, of in zip(args, kinds, strict=False)]
        if len(given) == 6:
            given.append(literal("UTC", _STRING))
        return python(f"times.{'try_' * tries}make_timestamp", given, kind, raises=True)

    return Function(apply, 6, 7 if may_zone else 6)


def _make_dt_interval(*args: Typed) -> Typed:
    kinds = [_INT, _INT, _INT, t.Decimal(18, 6)]
    given = [implicit(each, kind, "the function make_dt_interval()") for each, kind in zip(args, kinds, strict=False)]
    given += [literal(0, kind) for kind in kinds[len(given) :]]
    return python("times.make_dt_interval", given, DAY_TIME, raises=True)


def _format_number(each: Typed, places: Typed) -> Typed:
    value = implicit(each, _DOUBLE, "the function format_number()") if each.type in (t.FLOAT, _STRING) else each
    if places.type == _STRING:
        raise unsupported("the function format_number() with a format of text")
    count = implicit(places, _INT, "the function format_number()")
    return python("texts.format_number", [replace(value, literal=None), count], _STRING)


def _format_string(form: Typed, *args: Typed) -> Typed:
    for each in args:
        if each.type not in (*t.INTEGRAL, *t.FLOATING, _STRING, t.BOOLEAN, t.UNKNOWN) and not isinstance(
            each.type, t.Decimal
        ):
            raise unsupported(f"the function format_string() of {each.type}")
    given = [implicit(form, _STRING, "the function format_string()"), *(replace(each, literal=None) for each in args)]
    return python("texts.format_string", given, _STRING, keeps_nulls=True, raises=True)


def _shift(kind: str) -> Callable[[Typed, Typed], Typed]:
    def apply(each: Typed, count: Typed) -> Typed:
        value = each if each.type == _LONG else implicit(each, _INT, "a shift of bits")
        bits = literal(64 if value.type == _LONG else 32, _INT)
        given = [replace(value, literal=None), implicit(count, _INT, "a shift of bits"), bits, literal(kind, _STRING)]
        return python("numbers.shift", given, value.type)

    return apply


shifted_left, shifted_right, shifted_right_unsigned = _shift("l"), _shift("r"), _shift("u")


def _bits(name: str) -> Callable[..., Typed]:
    def apply(each: Typed, *more: Typed) -> Typed:
        value = each
        if each.type == t.BOOLEAN:
            value = Typed(f"CAST({each.sql} AS BIGINT)", _LONG, each.raises)
        given = [implicit(value, _LONG, f"the function {name}()")]
        given += [implicit(one, _INT, f"the function {name}()") for one in more]
        kind = _INT if name == "bit_count" else t.BYTE
        return python(f"numbers.{name}", given, kind, raises=bool(more))

    return apply


def _bround(each: Typed, places: Typed | None = None) -> Typed:
    count = 0 if places is None else places.literal
    if not isinstance(count, int):
        raise unsupported("the function bround() with places that are no constant")
    at = literal(count, _INT)
    if each.type in t.FLOATING:
        return python("numbers.bround_double", [replace(each, literal=None), at], each.type)
    if each.type in t.INTEGRAL:
        return python("numbers.bround_whole", [replace(each, literal=None), at], each.type, raises=True)
    if not isinstance(each.type, t.Decimal):
        raise unsupported(f"the function bround() of {each.type}")
    digits = each.type.precision - each.type.scale
    scale = max(min(each.type.scale, count), 0)
    kind = t.Decimal(min(max(digits + 1, 1 - count) + scale, 38), scale)
    return python("numbers.bround", [replace(each, literal=None), at], kind)


def to_json(each: Typed, options: Typed | None = None) -> Typed:
    """Return `to_json(each, options)`."""
    if not t.children(each.type):
        raise unsupported(f"the function to_json() of {each.type}")
    return python(
        "json_texts.to_json", [each, *([] if options is None else [options])], _STRING, raises=options is not None
    )


def from_json(each: Typed, schema: Typed, options: Typed | None = None) -> Typed:
    """Return `from_json(each, schema, options)`, of a constant schema."""
    from lakescan.expressions.scalar.translate import type_of_text

    if not schema.is_text_literal:
        raise unsupported("the function from_json() with a schema that is no constant")
    kind = type_of_text(schema.literal)
    text = implicit(each, _STRING, "the function from_json()")
    return python(
        "json_texts.from_json", [text, *([] if options is None else [options])], kind, raises=options is not None
    )


def _to_number(tries: bool) -> Callable[[Typed, Typed], Typed]:
    def apply(text: Typed, form: Typed) -> Typed:
        if not form.is_text_literal:
            raise unsupported("the function to_number() with a format that is no constant")
        shape = form.literal.upper().replace("D", ".").partition(".")
        whole, fraction = (sum(each in "09" for each in part) for part in (shape[0], shape[2]))
        kind = t.Decimal(max(whole + fraction, 1), fraction)
        name = "the function to_number()"
        return python(f"numbers.{'try_' * tries}to_number", [implicit(text, _STRING, name), form], kind, raises=True)

    return apply


def _mask(text: Typed, *letters: Typed) -> Typed:
    given = [implicit(each, _STRING, "the function mask()") for each in (text, *letters)]
    given += [literal(each, _STRING) for each in ("X", "x", "n", None)[len(letters) :]]
    return python("texts.mask", given, _STRING, keeps_nulls=True)


def _unit_of(name: str) -> Callable[[Typed], Typed]:
    size = {"unix_seconds": 1_000_000, "unix_millis": 1000, "unix_micros": 1}[name]

    def apply(each: Typed) -> Typed:
        value = implicit(each, _INSTANT, f"the function {name}()")
        micros = f"epoch_us({value.sql})"
        floored = f"(({micros}) - ((({micros}) % {size}) + {size}) % {size}) // {size}"
        return Typed(f"CAST({micros if size == 1 else floored} AS BIGINT)", _LONG, value.raises)

    return apply


def _timestamp_of(name: str) -> Callable[[Typed], Typed]:
    def apply(each: Typed) -> Typed:
        if name == "timestamp_seconds" and each.type not in t.INTEGRAL:
            if each.type in t.FLOATING:
                return python("times.timestamp_of_double", [implicit(each, _DOUBLE, name)], _INSTANT, raises=True)
            return python("times.timestamp_seconds", [replace(each, literal=None)], _INSTANT, raises=True)
        size = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "timestamp_micros": 1}[name]
        if each.type not in t.INTEGRAL:
            raise unsupported(f"the function {name}() of {each.type}")
        return Typed(f"make_timestamp(CAST({each.sql} AS BIGINT) * {size})", _INSTANT, True)

    return apply


def _math(function: str) -> Function:
    def apply(each: Typed) -> Typed:
        x = implicit(each, _DOUBLE, f"the function {function}()")
        return Typed(f"{function}({x.sql})", _DOUBLE, x.raises)

    return Function(apply, 1, 1)


def _within_one(function: str) -> Function:
    """Arc functions are NaN beyond -1 and 1."""

    def apply(each: Typed) -> Typed:
        x = implicit(each, _DOUBLE, f"the function {function}()")
        sql = f"CASE WHEN abs({x.sql}) > 1 OR isnan({x.sql}) THEN CAST('NaN' AS DOUBLE) ELSE {function}({x.sql}) END"
        return Typed(f"CASE WHEN ({x.sql}) IS NOT NULL THEN {sql} END", _DOUBLE, x.raises)

    return Function(apply, 1, 1)


def _constant(sql: str, kind: t.Type) -> Function:
    return Function(lambda: Typed(sql, kind), 0, 0)


def _typeof(each: Typed) -> Typed:
    return literal(type_name(each.type), _STRING)


def type_name(kind: t.Type) -> str:
    """Return Spark's name of a type, as `typeof` gives it."""
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


def _elt(number: Typed, *values: Typed) -> Typed:
    place = implicit(number, _INT, "the function elt()")
    texts = [implicit(each, _STRING, "the function elt()") for each in values]
    cases = " ".join(f"WHEN {n} THEN {each.sql}" for n, each in enumerate(texts, 1))
    failed = "CAST(error('INVALID_ARRAY_INDEX: elt() has no value at this place') AS VARCHAR)"
    return Typed(
        f"CASE {place.sql} {cases} ELSE CASE WHEN ({place.sql}) IS NULL THEN NULL ELSE {failed} END END", _STRING, True
    )


def _next_day(each: Typed, name: Typed) -> Typed:
    given = [implicit(each, t.DATE, "the function next_day()"), implicit(name, _STRING, "the function next_day()")]
    return python("times.next_day", given, t.DATE, raises=True)


def date_format(each: Typed, pattern: Typed) -> Typed:
    """Return `date_format(each, pattern)` in any pattern."""
    value = each if isinstance(each.type, t.Timestamp) else implicit(each, _INSTANT, "the function date_format()")
    return python("times.date_format", [value, implicit(pattern, _STRING, "a pattern")], _STRING, raises=True)


def _months_between(end: Typed, start: Typed, rounds: Typed | None = None) -> Typed:
    name = "the function months_between()"
    order = literal(True, t.BOOLEAN) if rounds is None else implicit(rounds, t.BOOLEAN, name)
    return python(
        "times.months_between", [implicit(end, _INSTANT, name), implicit(start, _INSTANT, name), order], _DOUBLE
    )


def _convert_timezone(*args: Typed) -> Typed:
    zones = [literal("UTC", _STRING), args[0]] if len(args) == 2 else list(args[:2])
    name = "the function convert_timezone()"
    given = [*(implicit(each, _STRING, name) for each in zones), implicit(args[-1], _WALL, name)]
    return python("times.convert_timezone", given, _WALL, raises=True)


def _overlay(each: Typed, new: Typed, start: Typed, size: Typed | None = None) -> Typed:
    name = "the function overlay()"
    kind = _BINARY if each.type == _BINARY else _STRING
    given = [implicit(each, kind, name), implicit(new, kind, name), implicit(start, _INT, name)]
    given.append(literal(-1, _INT) if size is None else implicit(size, _INT, name))
    return python("texts.overlay_bytes" if kind == _BINARY else "texts.overlay", given, kind)


def _length_in_bytes(scale: int, name: str) -> Function:
    def apply(each: Typed) -> Typed:
        value = implicit(each, _BINARY if each.type == _BINARY else _STRING, f"the function {name}()")
        size = f"octet_length({value.sql})" if value.type == _BINARY else f"strlen({value.sql})"
        return Typed(f"CAST({size} * {scale} AS INTEGER)", _INT, value.raises)

    return Function(apply, 1, 1)


def _nanvl(left: Typed, right: Typed) -> Typed:
    kind = t.FLOAT if {left.type, right.type} == {t.FLOAT} else _DOUBLE
    one, other = (implicit(each, kind, "the function nanvl()") for each in (left, right))
    return Typed(f"CASE WHEN isnan({one.sql}) THEN {other.sql} ELSE {one.sql} END", kind, one.raises or other.raises)


def _decode(*args: Typed) -> Typed:
    if len(args) == 2:
        given = [
            implicit(args[0], _BINARY, "the function decode()"),
            implicit(args[1], _STRING, "the function decode()"),
        ]
        return python("texts.decode", given, _STRING, raises=True)
    from lakescan.expressions.scalar.conditions import choice, comparison

    subject, *rest = args
    tests = [comparison("IS NOT DISTINCT FROM", subject, each) for each in rest[0 : len(rest) - len(rest) % 2 : 2]]
    results = list(rest[1 : len(rest) - len(rest) % 2 : 2])
    return choice(tests, results, rest[-1] if len(rest) % 2 else None)


def _to_binary(name: str) -> Callable[..., Typed]:
    def apply(text: Typed, form: Typed | None = None) -> Typed:
        if text.type == _BINARY:
            return text
        way = literal("hex", _STRING) if form is None else implicit(form, _STRING, f"the function {name}()")
        return python(f"hashes.{name}", [implicit(text, _STRING, f"the function {name}()"), way], _BINARY, raises=True)

    return apply


def _in_pattern(name: str, kind: t.Type, tries: bool = False) -> Callable[[Typed, Typed], Typed]:
    """A text in a pattern as a time; `tries` returns null for another text."""

    def apply(text: Typed, pattern: Typed | None = None) -> Typed:
        what = f"the function {name}()"
        if pattern is None or text.type != _STRING:
            return tried(text, kind) if tries else implicit(text, kind, what)
        given = [text, implicit(pattern, _STRING, what)]
        found = python("times.try_parsed" if tries else "times.to_timestamp", given, _WALL, raises=True)
        if kind == t.DATE:
            return Typed(f"CAST({found.sql} AS DATE)", kind, True)
        return replace(found, type=kind)

    return apply


def _seconds_in_pattern(text: Typed, pattern: Typed | None = None) -> Typed:
    what = "the function unix_timestamp()"
    form = literal("yyyy-MM-dd HH:mm:ss", _STRING) if pattern is None else implicit(pattern, _STRING, what)
    return python("times.to_seconds", [implicit(text, _STRING, what), form], _LONG, raises=True)


def _from_unixtime(each: Typed, pattern: Typed | None = None) -> Typed:
    seconds = implicit(each, _LONG, "the function from_unixtime()")
    form = literal("yyyy-MM-dd HH:mm:ss", _STRING) if pattern is None else pattern
    instant = Typed(f"make_timestamp({seconds.sql} * 1000000)", _INSTANT, True)
    return date_format(instant, form)


def _round(each: Typed, places: Typed | None = None) -> Typed:
    if each.type == _STRING:
        each = implicit(each, _DOUBLE, "the function round()")
    if each.type not in t.FLOATING:
        raise unsupported(f"the function round() of {each.type}")
    at = literal(0, _INT) if places is None else implicit(places, _INT, "the function round()")
    return python("numbers.round_double", [replace(each, literal=None), at], each.type)


def _split(text: Typed, pattern: Typed, limit: Typed | None = None) -> Typed:
    what = "the function split()"
    count = literal(-1, _INT) if limit is None else implicit(limit, _INT, what)
    given = [implicit(text, _STRING, what), implicit(pattern, _STRING, what), count]
    return python("patterns.split", given, list_of(_STRING), raises=True)


def _substring(each: Typed, start: Typed, size: Typed | None = None) -> Typed:
    if each.type != _BINARY:
        raise unsupported(f"the function substring() of {each.type}")
    places = [start, literal(2**31 - 1, _INT) if size is None else size]
    given = [each, *(implicit(one, _INT, "the function substring()") for one in places)]
    return python("texts.substring_bytes", given, _BINARY)


def _padded_bytes(name: str) -> Callable[..., Typed]:
    def apply(each: Typed, size: Typed, pad: Typed | None = None) -> Typed:
        if each.type != _BINARY or (pad is not None and pad.type != _BINARY):
            raise unsupported(f"the function {name}() of {each.type}")
        filling = Typed("unhex('00')", _BINARY) if pad is None else pad
        count = implicit(size, _INT, f"the function {name}()")
        return python("texts.pad", [each, count, filling, literal(name == "lpad", t.BOOLEAN)], _BINARY)

    return apply


def _locate(part: Typed, text: Typed, start: Typed | None = None) -> Typed:
    what = "the function locate()"
    place = literal(1, _INT) if start is None else implicit(start, _INT, what)
    return python("texts.locate", [implicit(part, _STRING, what), implicit(text, _STRING, what), place], _INT)


def _concat_ws(separator: Typed, *args: Typed) -> Typed:
    parts = []
    for each in args:
        if isinstance(each.type, t.ListOf):
            parts.append(f"coalesce({converted(each, list_of(_STRING)).sql}, [])")
        else:
            parts.append(f"[{implicit(each, _STRING, 'the function concat_ws()').sql}]")
    together = Typed(f"flatten([{', '.join(parts)}])" if parts else "CAST([] AS VARCHAR[])", list_of(_STRING))
    return python("arrays.join", [together, implicit(separator, _STRING, "the function concat_ws()")], _STRING)


def _trimmed(side: str) -> Callable[..., Typed]:
    def apply(each: Typed, letters: Typed | None = None) -> Typed:
        given = [implicit(each, _STRING, "the function btrim()")]
        given.append(literal(" ", _STRING) if letters is None else implicit(letters, _STRING, "the function btrim()"))
        return python("texts.trim", [*given, literal(side, _STRING)], _STRING)

    return apply


def _ceiling(function: str) -> Callable[[Typed, Typed], Typed]:
    def apply(each: Typed, places: Typed) -> Typed:
        count = places.literal
        number = each
        if each.type in t.FLOATING:
            number = implicit(each, t.Decimal(30, 15) if each.type == _DOUBLE else t.Decimal(14, 7), function)
        kind = (
            t.Decimal({t.BYTE: 3, t.SHORT: 5, _INT: 10, _LONG: 20}[each.type], 0)
            if each.type in t.INTEGRAL
            else number.type
        )
        if not isinstance(count, int) or not isinstance(kind, t.Decimal):
            raise unsupported(f"the function {function}() of {each.type} with places that are no constant")
        digits = kind.precision - kind.scale
        scale = max(min(kind.scale, count), 0)
        whole = max(digits + 1, 1 - count) if count < 0 else digits + 1
        result = t.Decimal(min(whole + scale, 38), scale)
        return python(f"numbers.{function}_to", [replace(number, literal=None), literal(count, _INT)], result)

    return apply


def _unless_failing(
    operator: Callable[[Typed, Typed], Typed], of_decimals: str = ""
) -> Callable[[Typed, Typed], Typed]:
    """`try_add` and others: null where the operator fails, by an overflow.

    `of_decimals`: the function in Python for decimals: DuckDB fails where only its own steps exceed 38 digits.
    """

    def apply(left: Typed, right: Typed) -> Typed:
        found = operator(left, right)
        sql = f"TRY({found.sql})"
        if of_decimals and isinstance(found.type, t.Decimal) and found.type.precision == MOST_DIGITS:
            sql = f"coalesce({sql}, {python(f'numbers.{of_decimals}', [left, right], found.type).sql})"
        return Typed(sql, found.type, left.raises or right.raises)

    return apply


def _date_part(unit: Typed, each: Typed) -> Typed:
    if not unit.is_text_literal:
        raise unsupported("the function date_part() with a unit that is no constant")
    from lakescan.expressions.scalar.time_functions import part_of

    return part_of(unit.literal, each)


def _days_name(names: Sequence[str], field: str) -> Callable[[Typed], Typed]:
    def apply(each: Typed) -> Typed:
        value = implicit(each, t.DATE, "a name of a day or month")
        listed = ", ".join(f"'{name}'" for name in names)
        return Typed(f"list_extract([{listed}], CAST({field.format(x=value.sql)} AS BIGINT))", _STRING, value.raises)

    return apply


def _null_if_zero(each: Typed) -> Typed:
    return Typed(f"nullif({each.sql}, 0)", each.type, each.raises)


def _zero_if_null(each: Typed) -> Typed:
    kind = common_type(replace(each, literal=None), literal(0, _INT), "the function zeroifnull()")
    value = converted(each, kind)
    return Typed(f"coalesce({value.sql}, {converted(literal(0, _INT), kind).sql})", kind, value.raises)


def _space(count: Typed) -> Typed:
    number = implicit(count, _INT, "the function space()")
    spaces = f"repeat(' ', greatest({number.sql}, 0))"  # DuckDB's greatest() skips nulls
    return Typed(f"CASE WHEN ({number.sql}) IS NOT NULL THEN {spaces} END", _STRING, number.raises)


PYTHON_FUNCTIONS: Mapping[str, Function] = {
    "btrim": Function(_trimmed(""), 1, 2),
    # Their letters come first, other than those of btrim.
    "ltrim": Function(lambda letters, each: _trimmed("l")(each, letters), 2, 2),
    "rtrim": Function(lambda letters, each: _trimmed("r")(each, letters), 2, 2),
    "ceil": Function(_ceiling("ceil"), 2, 2),
    "ceiling": Function(_ceiling("ceil"), 2, 2),
    "floor": Function(_ceiling("floor"), 2, 2),
    "concat_ws": Function(_concat_ws, 1, _MANY),
    "date_format": Function(date_format, 2, 2),
    "date_part": Function(_date_part, 2, 2),
    "datepart": Function(_date_part, 2, 2),
    "date_trunc": _fixed("date_trunc", "times.date_trunc", [_STRING, _INSTANT], _INSTANT),
    "trunc": _fixed("trunc", "times.trunc", [t.DATE, _STRING], t.DATE),
    "dayname": Function(_days_name(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), "isodow({x})"), 1, 1),
    "monthname": Function(
        _days_name(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), "month({x})"),
        1,
        1,
    ),
    "from_unixtime": Function(_from_unixtime, 1, 2),
    "locate": Function(_locate, 2, 3),
    "position": Function(_locate, 2, 3),
    "lpad": Function(_padded_bytes("lpad"), 2, 3),
    "rpad": Function(_padded_bytes("rpad"), 2, 3),
    "make_date": _fixed("make_date", "times.make_date", [_INT, _INT, _INT], t.DATE, raises=True),
    "next_day": Function(_next_day, 2, 2),
    "nullifzero": Function(_null_if_zero, 1, 1),
    "zeroifnull": Function(_zero_if_null, 1, 1),
    "regexp": _fixed("regexp", "patterns.matches", [_STRING, _STRING], t.BOOLEAN, raises=True),
    "regexp_like": _fixed("regexp_like", "patterns.matches", [_STRING, _STRING], t.BOOLEAN, raises=True),
    "rlike": _fixed("rlike", "patterns.matches", [_STRING, _STRING], t.BOOLEAN, raises=True),
    "regexp_extract": _fixed("regexp_extract", "patterns.extract", [_STRING, _STRING, _INT], _STRING, 1, raises=True),
    "regexp_replace": _fixed(
        "regexp_replace", "patterns.replace", [_STRING, _STRING, _STRING, _INT], _STRING, 1, raises=True
    ),
    "round": Function(_round, 1, 2),
    "space": Function(_space, 1, 1),
    "split": Function(_split, 2, 3),
    "split_part": _fixed("split_part", "texts.split_part", [_STRING, _STRING, _INT], _STRING, raises=True),
    "substr": Function(_substring, 2, 3),
    "substring": Function(_substring, 2, 3),
    "substring_index": _fixed("substring_index", "texts.substring_index", [_STRING, _STRING, _INT], _STRING),
    "to_date": Function(_in_pattern("to_date", t.DATE), 1, 2),
    "to_timestamp": Function(_in_pattern("to_timestamp", _INSTANT), 1, 2),
    "to_timestamp_ltz": Function(_in_pattern("to_timestamp_ltz", _INSTANT), 1, 2),
    "to_timestamp_ntz": Function(_in_pattern("to_timestamp_ntz", _WALL), 1, 2),
    "try_to_date": Function(_in_pattern("try_to_date", t.DATE, tries=True), 1, 2),
    "try_to_timestamp": Function(_in_pattern("try_to_timestamp", _INSTANT, tries=True), 1, 2),
    "to_unix_timestamp": Function(_seconds_in_pattern, 1, 2),
    "unix_timestamp": Function(_seconds_in_pattern, 1, 2),
    "translate": _fixed("translate", "texts.translate", [_STRING, _STRING, _STRING], _STRING),
    "try_add": Function(_unless_failing(arithmetic.added, "decimal_sum"), 2, 2),
    "try_subtract": Function(_unless_failing(arithmetic.subtracted, "decimal_difference"), 2, 2),
    "try_multiply": Function(_unless_failing(arithmetic.multiplied, "decimal_product"), 2, 2),
    "try_mod": Function(_unless_failing(arithmetic.remainder), 2, 2),
    "unix_date": Function(
        lambda each: Typed(
            f"CAST({implicit(each, t.DATE, 'unix_date()').sql} - DATE '1970-01-01' AS INTEGER)", _INT, True
        ),
        1,
        1,
    ),
    "date_from_unix_date": Function(
        lambda each: Typed(f"(DATE '1970-01-01' + {implicit(each, _INT, 'date_from_unix_date()').sql})", t.DATE, True),
        1,
        1,
    ),
    "ascii": _fixed("ascii", "texts.ascii_", [_STRING], _INT),
    "base64": _fixed("base64", "hashes.base64", [_BINARY], _STRING),
    "bin": _fixed("bin", "texts.bin_", [_LONG], _STRING),
    "bit_count": Function(_bits("bit_count"), 1, 1),
    "bit_get": Function(_bits("bit_get"), 2, 2),
    "getbit": Function(_bits("bit_get"), 2, 2),
    "bit_length": _length_in_bytes(8, "bit_length"),
    "octet_length": _length_in_bytes(1, "octet_length"),
    "bround": Function(_bround, 1, 2),
    "cbrt": _fixed("cbrt", "numbers.cbrt", [_DOUBLE], _DOUBLE),
    "char": _fixed("char", "texts.chr_", [_LONG], _STRING),
    "chr": _fixed("chr", "texts.chr_", [_LONG], _STRING),
    "conv": _fixed("conv", "texts.conv", [_STRING, _INT, _INT], _STRING, raises=True),
    "convert_timezone": Function(_convert_timezone, 2, 3),
    "cos": _math("cos"),
    "cosh": _fixed("cosh", "numbers.cosh", [_DOUBLE], _DOUBLE),
    "cot": _math("cot"),
    "crc32": _fixed("crc32", "hashes.crc32", [_BINARY], _LONG),
    "decode": Function(_decode, 2, _MANY),
    "degrees": _math("degrees"),
    "elt": Function(_elt, 2, _MANY),
    "encode": _fixed("encode", "texts.encode", [_STRING, _STRING], _BINARY, raises=True),
    "expm1": _fixed("expm1", "numbers.expm1", [_DOUBLE], _DOUBLE),
    "factorial": _fixed("factorial", "numbers.factorial", [_INT], _LONG),
    "find_in_set": _fixed("find_in_set", "texts.find_in_set", [_STRING, _STRING], _INT),
    "format_number": Function(_format_number, 2, 2),
    "format_string": Function(_format_string, 1, _MANY),
    "printf": Function(_format_string, 1, _MANY),
    "from_base32": _fixed("from_base32", "hashes.from_base32", [_STRING], _BINARY, raises=True),
    "from_json": Function(from_json, 2, 3),
    "from_utc_timestamp": _fixed("from_utc_timestamp", "times.from_utc", [_INSTANT, _STRING], _INSTANT, raises=True),
    "to_utc_timestamp": _fixed("to_utc_timestamp", "times.to_utc", [_INSTANT, _STRING], _INSTANT, raises=True),
    "get_json_object": _fixed("get_json_object", "json_texts.get_json_object", [_STRING, _STRING], _STRING),
    "hash": _hashed("murmur3", _INT),
    "xxhash64": _hashed("xxhash64", _LONG),
    "hex": Function(_hex, 1, 1),
    "hypot": _fixed("hypot", "numbers.hypot", [_DOUBLE, _DOUBLE], _DOUBLE),
    "is_valid_utf8": _fixed("is_valid_utf8", "texts.is_valid_utf8", [_BINARY], t.BOOLEAN),
    "json_array_length": _fixed("json_array_length", "json_texts.json_array_length", [_STRING], _INT),
    "json_object_keys": _fixed("json_object_keys", "json_texts.json_object_keys", [_STRING], list_of(_STRING)),
    "levenshtein": _fixed("levenshtein", "texts.levenshtein", [_STRING, _STRING, _INT], _INT, least=2),
    "log1p": _fixed("log1p", "numbers.log1p", [_DOUBLE], _DOUBLE),
    "luhn_check": _fixed("luhn_check", "texts.luhn_check", [_STRING], t.BOOLEAN),
    "make_dt_interval": Function(_make_dt_interval, 0, 4),
    "make_timestamp": _make_timestamp(_INSTANT),
    "make_timestamp_ltz": _make_timestamp(_INSTANT),
    "make_timestamp_ntz": _make_timestamp(_WALL, may_zone=False),
    "try_make_timestamp": _make_timestamp(_INSTANT, tries=True),
    "try_make_timestamp_ltz": _make_timestamp(_INSTANT, tries=True),
    "try_make_timestamp_ntz": _make_timestamp(_WALL, tries=True, may_zone=False),
    "mask": Function(_mask, 1, 5),
    "md5": _fixed("md5", "hashes.md5", [_BINARY], _STRING),
    "months_between": Function(_months_between, 2, 3),
    "nanvl": Function(_nanvl, 2, 2),
    "overlay": Function(_overlay, 3, 4),
    "parse_url": _fixed("parse_url", "texts.parse_url", [_STRING, _STRING, _STRING], _STRING, raises=True, least=2),
    "try_parse_url": _fixed("try_parse_url", "texts.try_parse_url", [_STRING, _STRING, _STRING], _STRING, least=2),
    "pi": _constant("CAST('3.141592653589793' AS DOUBLE)", _DOUBLE),
    "e": _constant("CAST('2.718281828459045' AS DOUBLE)", _DOUBLE),
    "quote": _fixed("quote", "texts.quote", [_STRING], _STRING),
    "radians": _math("radians"),
    "regexp_count": _fixed("regexp_count", "patterns.count", [_STRING, _STRING], _INT, raises=True),
    "regexp_extract_all": _fixed(
        "regexp_extract_all", "patterns.extract_all", [_STRING, _STRING, _INT], list_of(_STRING), 1, raises=True
    ),
    "regexp_instr": _fixed("regexp_instr", "patterns.place", [_STRING, _STRING], _INT, raises=True),
    "regexp_substr": _fixed("regexp_substr", "patterns.substring", [_STRING, _STRING], _STRING, raises=True),
    "rint": _fixed("rint", "numbers.rint", [_DOUBLE], _DOUBLE),
    "schema_of_json": _fixed("schema_of_json", "json_texts.schema_of_json", [_STRING], _STRING, raises=True),
    "sha": _fixed("sha", "hashes.sha1", [_BINARY], _STRING),
    "sha1": _fixed("sha1", "hashes.sha1", [_BINARY], _STRING),
    "sha2": _fixed("sha2", "hashes.sha2", [_BINARY, _INT], _STRING),
    "shiftleft": Function(shifted_left, 2, 2),
    "shiftright": Function(shifted_right, 2, 2),
    "shiftrightunsigned": Function(shifted_right_unsigned, 2, 2),
    "sin": _math("sin"),
    "sinh": _fixed("sinh", "numbers.sinh", [_DOUBLE], _DOUBLE),
    "soundex": _fixed("soundex", "texts.soundex", [_STRING], _STRING),
    "str_to_map": _fixed(
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
    "acos": _within_one("acos"),
    "asin": _within_one("asin"),
    "atan": _math("atan"),
    "timestamp_micros": Function(_timestamp_of("timestamp_micros"), 1, 1),
    "timestamp_millis": Function(_timestamp_of("timestamp_millis"), 1, 1),
    "timestamp_seconds": Function(_timestamp_of("timestamp_seconds"), 1, 1),
    "to_base32": _fixed("to_base32", "hashes.to_base32", [_BINARY], _STRING),
    "to_binary": Function(_to_binary("to_binary"), 1, 2),
    "try_to_binary": Function(_to_binary("try_to_binary"), 1, 2),
    "to_json": Function(to_json, 1, 2),
    "to_number": Function(_to_number(False), 2, 2),
    "try_to_number": Function(_to_number(True), 2, 2),
    "typeof": Function(_typeof, 1, 1),
    "unbase64": _fixed("unbase64", "hashes.unbase64", [_STRING], _BINARY, raises=True),
    "unhex": _fixed("unhex", "texts.unhex", [_STRING], _BINARY),
    "unix_micros": Function(_unit_of("unix_micros"), 1, 1),
    "unix_millis": Function(_unit_of("unix_millis"), 1, 1),
    "unix_seconds": Function(_unit_of("unix_seconds"), 1, 1),
    "url_decode": _fixed("url_decode", "texts.url_decode", [_STRING], _STRING, raises=True),
    "try_url_decode": _fixed("try_url_decode", "texts.try_url_decode", [_STRING], _STRING),
    "url_encode": _fixed("url_encode", "texts.url_encode", [_STRING], _STRING),
    "width_bucket": _fixed("width_bucket", "numbers.width_bucket", [_DOUBLE, _DOUBLE, _DOUBLE, _LONG], _LONG),
    "array_append": _with_value("array_append", "arrays.append", keeps=True),
    "array_compact": _list("array_compact", "arrays.compact"),
    "array_contains": _with_value("array_contains", "arrays.contains", t.BOOLEAN),
    "array_distinct": _list("array_distinct", "arrays.distinct"),
    "array_except": _list_of_two("array_except", "arrays.except_"),
    "array_insert": Function(_insert, 3, 3),
    "array_intersect": _list_of_two("array_intersect", "arrays.intersect"),
    "array_join": Function(_join, 2, 3),
    "array_max": _list("array_max", "arrays.greatest", keeps_type=False),
    "array_min": _list("array_min", "arrays.least", keeps_type=False),
    "array_position": _with_value("array_position", "arrays.position", _LONG),
    "array_prepend": _with_value("array_prepend", "arrays.prepend", keeps=True),
    "array_remove": _with_value("array_remove", "arrays.remove"),
    "array_repeat": Function(_repeat, 2, 2),
    "array_sort": _list("array_sort", "arrays.array_sort"),
    "array_union": _list_of_two("array_union", "arrays.union"),
    "arrays_overlap": _list_of_two("arrays_overlap", "arrays.overlap"),
    "arrays_zip": Function(lambda *args: zipped([str(n) for n in range(len(args))], args), 1, _MANY),
    "flatten": Function(_flatten, 1, 1),
    "map_concat": Function(_map_concat, 0, _MANY),
    "map_contains_key": Function(_map_contains_key, 2, 2),
    "map_entries": Function(_map_entries, 1, 1),
    "map_from_arrays": Function(_map_from_arrays, 2, 2),
    "map_from_entries": Function(_map_from_entries, 1, 1),
    "sequence": Function(_sequence, 2, 3),
    "slice": Function(_slice, 3, 3),
    "sort_array": Function(_sorted, 1, 2),
    "try_element_at": Function(_try_element_at, 2, 2),
}
