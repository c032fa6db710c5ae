"""JSON functions: writing and parsing values, and evaluating paths."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from lakescan.common import types as t
from lakescan.common.java_numbers import double_text, float_text
from lakescan.expressions.scalar.nested import member_names
from lakescan.expressions.scalar.python import casts, texts
from lakescan.expressions.scalar.udf import FailedValue, type_factory
from lakescan.expressions.text_casts import or_none, whole_of_text


class _Number(str):
    """A JSON number, or NaN or Infinity, as its text."""

    __slots__ = ()


_DECODER = json.JSONDecoder(
    object_pairs_hook=tuple, parse_int=_Number, parse_float=_Number, parse_constant=_Number, strict=False
)
_QUOTED = re.compile(r""""((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'""", re.DOTALL)
_QUOTE = re.compile(r"""\\'|\\.|\"""", re.DOTALL)


def parse_json(text: str) -> Any:
    """Parse JSON text to lists, tuples of (name, value) pairs for objects, strings, `_Number`s, True, False and None.

    As in Spark, strings may have single quotes, and text after the first value is ignored. Raises `ValueError` for
    other text.
    """
    if "'" in text:
        text = _QUOTED.sub(_requote, text)
    return _DECODER.raw_decode(text.lstrip(" \t\r\n"))[0]


def _requote(found: re.Match[str]) -> str:
    escaped = {"\\'": "'", '"': '\\"'}
    content = found[2] if found[1] is None else found[1]
    return f'"{_QUOTE.sub(lambda each: escaped.get(each[0], each[0]), content)}"'


def _quote_json(text: str) -> str:
    found = json.dumps(text, ensure_ascii=False)
    return found.replace("\x7f", "\x7f")


def write_json(value: Any) -> str:
    """Write a value that `parse_json` returned as JSON text without blanks.

    Numbers with a fraction or exponent are written as doubles.
    """
    if isinstance(value, _Number):
        if value.lstrip("-").isdecimal():
            return str(value)
        number = float(value)
        return double_text(number) if math.isfinite(number) else f'"{double_text(number)}"'
    if isinstance(value, str):
        return _quote_json(value)
    if isinstance(value, tuple):
        return "{" + ",".join(f"{_quote_json(key)}:{write_json(item)}" for key, item in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write_json, value)) + "]"
    return json.dumps(value)


_STEP = re.compile(r"\.\s*([^.\[]+)|\['([^']*)'\]|\[(\d+)\]|(\[\*\])|\.(\*)")


def _steps(path: str) -> list[Any] | None:
    if not path.startswith("$"):
        return None
    at, steps = 1, []
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return None
        name = found[1] if found[1] is not None else found[2]
        steps.append("*" if found[4] or found[5] or name == "*" else int(found[3]) if found[3] is not None else (name,))
        at = found.end()
    return steps


def get_json_object(text: str, path: str) -> str | None:
    """Return the value at a path such as `$.a[0].b` in JSON text: a string as it is, other values as JSON text.

    None if nothing matches, the value is null, or the text or the path is invalid. Several matches of a wildcard are a
    JSON array.
    """
    steps = _steps(path)
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    if steps is None:
        return None
    found, many = _follow_path(value, steps)
    found = [each for each in found if each is not None] if not many else found
    if not found:
        return None
    if many and len(found) > 1:
        return write_json(found)
    value = found[0]
    if value is None:
        return None if not many else "null"
    return write_json(value) if many else _as_text(value)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) and not isinstance(value, _Number) else write_json(value)


def _follow_path(value: Any, steps: Sequence[Any]) -> tuple[list[Any], bool]:
    """Return the values at a path, and whether the path has a wildcard.

    A step is `*`, an index, or a tuple with a member's name.
    """
    values, many = [value], False
    for step in steps:
        more: list[Any] = []
        for each in values:
            if step == "*":
                many = True
                if isinstance(each, list):
                    more += each
            elif isinstance(step, int):
                if isinstance(each, list) and step < len(each):
                    more.append(each[step])
            elif isinstance(each, tuple):
                more += [item for key, item in each if key == step[0]][:1]
            elif isinstance(each, list):
                for one in each:
                    if isinstance(one, tuple):
                        more += [item for key, item in one if key == step[0]][:1]
        values = more
    return values, many


def json_array_length(text: str) -> int | None:
    """Return the number of elements of a JSON array; None if the text is not an array."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return len(value) if isinstance(value, list) else None


def json_object_keys(text: str) -> list[str] | None:
    """Return the names of the members of a JSON object; None if the text is not an object."""
    try:
        value = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return [key for key, _ in value] if isinstance(value, tuple) else None


def json_tuple(text: str | None, *names: str | None) -> list[str | None]:
    """Return members of a JSON object by name, as text: strings as they are, other values as JSON.

    Missing members, and all members of other text, are None.
    """
    try:
        value = parse_json(text) if text is not None else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, tuple):
        return [None] * len(names)
    members = dict(reversed(value))
    found: list[str | None] = []
    for name in names:
        item = members.get(name)
        found.append(None if item is None else _as_text(item))
    return found


def _options(value: Any) -> dict[str, str]:
    return {key.lower(): item for key, item in value or ()}


@type_factory
def to_json(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., str | None]:
    """Return the function of values for `to_json(value, options)`; `kinds` are the types of the arguments.

    It supports the options ignoreNullFields, timestampFormat and dateFormat, and raises `FailedValue` for others.
    """
    write = {False: _json_writer(kinds[0], False), True: _json_writer(kinds[0], True)}

    def apply(value: Any, options: Any = None) -> str:
        found = _options(options)
        if set(found) - {"ignorenullfields", "timestampformat", "dateformat"}:
            raise FailedValue(f"the options {sorted(found)} of to_json() are not supported outside Spark")
        if "timestampformat" in found or "dateformat" in found:
            times = {key: found.get(key) for key in ("timestampformat", "dateformat")}
            return _json_writer(kinds[0], found.get("ignorenullfields") == "false", times)(value)
        return write[found.get("ignorenullfields") == "false"](value)

    return apply


def _json_writer(kind: t.Type, keeps: bool, times: dict[str, str | None] | None = None) -> Callable[[Any], str]:
    match kind:
        case t.Struct():
            named = zip(member_names(kind), kind.fields, strict=True)
            members = [(name, each.name, _json_writer(each.type, keeps, times)) for name, each in named]

            def write_struct(value: dict[str, Any]) -> str:
                listed = [
                    f"{_quote_json(label)}:{'null' if value[name] is None else write(value[name])}"
                    for name, label, write in members
                    if keeps or value[name] is not None
                ]
                return "{" + ",".join(listed) + "}"

            return write_struct
        case t.ListOf():
            element = _json_writer(kind.element.type, keeps, times)
            return lambda value: "[" + ",".join("null" if each is None else element(each) for each in value) + "]"
        case t.MapOf():
            key, item = texts.writer_of(kind.key.type), _json_writer(kind.value.type, keeps, times)

            def write_map(value: list[tuple[Any, Any]]) -> str:
                listed = [f"{_quote_json(key(k))}:{'null' if v is None else item(v)}" for k, v in value]
                return "{" + ",".join(listed) + "}"

            return write_map
        case t.DATE:
            if times and times.get("dateformat"):
                from lakescan.expressions.scalar.python.times import date_format

                form = str(times["dateformat"])
                return lambda value: _quote_json(date_format(value * 86_400_000_000, form))
            return lambda value: _quote_json(casts.date_as_text(value))
        case t.Timestamp():
            if times and times.get("timestampformat"):
                from lakescan.expressions.scalar.python.times import date_format

                form = str(times["timestampformat"])
                return lambda value: _quote_json(date_format(value, form))
            zone = "Z" if kind.zoned else ""
            return lambda value: f'"{_timestamp(value)}{zone}"'
        case t.BOOLEAN:
            return lambda value: "true" if value else "false"
        case t.FLOAT | t.DOUBLE:
            number = double_text if kind == t.DOUBLE else float_text
            return lambda value: f'"{number(value)}"' if value != value or abs(value) == float("inf") else number(value)
        case t.BINARY:
            return lambda value: f'"{base64.b64encode(value).decode()}"'
        case t.STRING:
            return _quote_json
        case t.Decimal():
            return str if kind.scale == 0 else lambda value: f"{value:f}"
        case t.BYTE | t.SHORT | t.INT | t.LONG:
            return str
    write = texts.writer_of(kind)
    return lambda value: _quote_json(write(value))


def _timestamp(micros: int) -> str:
    """Format microseconds since 1970 as Spark does in JSON: with T, cut to milliseconds, and without time zone."""
    text = casts.timestamp_as_text(micros).replace(" ", "T", 1)
    whole, _, fraction = text.partition(".")
    return f"{whole}.{fraction[:3].ljust(3, '0')}"


class _Malformed(Exception):
    """Raised for a JSON value that does not have the expected type."""


@type_factory
def from_json(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., Any]:
    """Return the function of values for `from_json(text, schema, options)`; `result` is the type of the schema.

    Members with another type are null. Text that does not fit is null, or a struct of nulls (PERMISSIVE); with the
    option mode FAILFAST, the function raises `FailedValue`. It also supports timestampFormat and dateFormat, and raises
    `FailedValue` for other options.
    """
    read = _json_reader(result)
    empty = dict.fromkeys(member_names(result)) if isinstance(result, t.Struct) else None

    def apply(text: str, options: Any = None) -> Any:
        found = _options(options)
        known = {"mode", "timestampformat", "dateformat"}
        if set(found) - known:
            raise FailedValue(
                f"the options {sorted(set(found) - known)} of from_json() are not supported outside Spark"
            )
        reader = read
        if "timestampformat" in found or "dateformat" in found:
            reader = _json_reader(result, found)
        fails = found.get("mode", "").upper() == "FAILFAST"
        if not text.strip(" \t\r\n"):
            return None
        try:
            value = parse_json(text)
            if isinstance(result, t.ListOf) and isinstance(value, tuple) and isinstance(result.element.type, t.Struct):
                value = [value]
            if value is None and not isinstance(result, t.Struct):
                return None
            return reader(value)
        except (ValueError, RecursionError, _Malformed) as error:
            if fails:
                raise FailedValue(f"MALFORMED_RECORD_IN_PARSING: {text!r}") from error
            return empty

    return apply


def _json_reader(kind: t.Type, options: dict[str, str] | None = None) -> Callable[[Any], Any]:
    match kind:
        case t.Struct():
            return _struct_reader(kind, options)
        case t.ListOf():
            element = _json_reader(kind.element.type, options)

            def read_list(value: Any) -> Any:
                if not isinstance(value, list):
                    raise _Malformed
                return [None if each is None else element(each) for each in value]

            return read_list
        case t.MapOf():
            item = _json_reader(kind.value.type, options)

            def read_map(value: Any) -> Any:
                if not isinstance(value, tuple):
                    raise _Malformed
                return list({k: None if v is None else item(v) for k, v in value}.items())

            return read_map
    return _leaf_reader(kind, options or {})


def _struct_reader(kind: t.Struct, options: dict[str, str] | None) -> Callable[[Any], Any]:
    named = zip(member_names(kind), kind.fields, strict=True)
    readers = {each.name: (name, _json_reader(each.type, options)) for name, each in named}

    def read_struct(value: Any) -> Any:
        if not isinstance(value, tuple):
            raise _Malformed
        found: dict[str, Any] = dict.fromkeys(member_names(kind))
        for name, item in value:
            if name in readers and item is not None:
                place, read = readers[name]
                try:
                    found[place] = read(item)
                except _Malformed:
                    found[place] = None
        return found

    return read_struct


def _leaf_reader(kind: t.Type, options: dict[str, str]) -> Callable[[Any], Any]:
    def apply(value: Any) -> Any:
        is_number = isinstance(value, _Number)
        is_text = isinstance(value, str) and not is_number
        found: Any = None
        match kind:
            case t.STRING:
                return str(value) if is_text else write_json(value)
            case t.BOOLEAN:
                found = value if isinstance(value, bool) else None
            case t.BYTE | t.SHORT | t.INT | t.LONG if is_number:
                found = or_none(whole_of_text, value, 8 << t.INTEGRAL.index(kind))
            case t.FLOAT | t.DOUBLE:
                if is_number or (
                    is_text and value in ("NaN", "Infinity", "+Infinity", "-Infinity", "INF", "-INF", "+INF")
                ):
                    found = float(str(value).replace("INF", "Infinity"))
            case t.Decimal():
                if is_number or is_text:
                    found = casts.decimal(str(value).replace(",", ""), kind.precision, kind.scale)
            case t.DATE if is_text:
                if "dateformat" in options:
                    from lakescan.expressions.scalar.python.times import try_to_timestamp

                    micros = try_to_timestamp(value, options["dateformat"])
                    found = None if micros is None else micros // 86_400_000_000
                else:
                    found = casts.date(value)
            case t.Timestamp():
                if is_text and "timestampformat" in options:
                    from lakescan.expressions.scalar.python.times import try_to_timestamp

                    found = try_to_timestamp(value, options["timestampformat"])
                elif is_text:
                    found = casts.timestamp(value) if kind.zoned else casts.timestamp_ntz(value)
                elif is_number and kind.zoned and re.fullmatch(r"-?\d+", value):
                    found = int(value) * 1_000_000
            case t.BINARY if is_text:
                found = base64.b64decode(value)
        if found is None:
            raise _Malformed
        return found

    return apply


def schema_of_json(text: str) -> str:
    """Infer the schema of JSON text, written as an SQL type such as `STRUCT<a: BIGINT>`.

    Raises `FailedValue` for text that is not JSON.
    """
    try:
        return _type_of(parse_json(text))
    except (ValueError, RecursionError) as error:
        raise FailedValue(f"schema_of_json() of {text!r}, which is not valid JSON") from error


def _type_of(value: Any) -> str:
    return _sql(_infer_type(value))


def _infer_type(value: Any) -> Any:
    if isinstance(value, _Number):
        if re.fullmatch(r"-?\d+", value):
            return "BIGINT" if -(2**63) <= int(value) < 2**63 else f"DECIMAL({len(value.lstrip('-'))},0)"
        return "DOUBLE"
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, str):
        return "STRING"
    if isinstance(value, tuple):
        return {key: _infer_type(item) for key, item in sorted(value)}
    if isinstance(value, list):
        merged: Any = None
        for each in value:
            merged = _merge_types(merged, _infer_type(each))
        return [merged]
    return None


def _merge_types(left: Any, right: Any) -> Any:
    if left is None or right is None or left == right:
        return left if right is None else right
    if isinstance(left, dict) and isinstance(right, dict):
        return {key: _merge_types(left.get(key), right.get(key)) for key in sorted({*left, *right})}
    if isinstance(left, list) and isinstance(right, list):
        return [_merge_types(left[0], right[0])]
    return "DOUBLE" if {left, right} == {"BIGINT", "DOUBLE"} else "STRING"


def _sql(kind: Any) -> str:
    if isinstance(kind, dict):
        return f"STRUCT<{', '.join(f'{_name(key)}: {_sql(item)}' for key, item in kind.items())}>"
    if isinstance(kind, list):
        return f"ARRAY<{_sql(kind[0])}>"
    return kind or "STRING"


def _name(text: str) -> str:
    return text if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) else f"`{text}`"
