"""Parsers for the values of options and table properties."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import tzinfo
from threading import TIMEOUT_MAX
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.references import split_list
from lakescan.common.timestamps import as_zone
from lakescan.errors import UnsupportedFeature

T = TypeVar("T")
_SIZE_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SECONDS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "min": 60, "h": 3600}


@dataclass(frozen=True)
class ValueParser(Generic[T]):
    """Parses one kind of value. Call it with the value.

    Args:
        parse: Converts a value or its text (Spark passes only text); raises `TypeError` or `ValueError` if it cannot.
        expects: Describes valid values in messages and documentation.
        accepts: The accepted Python types, as an annotation. Text is always accepted.
        is_secret: Whether messages must not show the value.
    """

    parse: Callable[[Any], T]
    expects: str
    accepts: str
    is_secret: bool = False

    def __call__(self, value: Any) -> T:
        """Parse a value; for an invalid one, raise `ValueError` with `expects` as its message."""
        if value is None:
            raise ValueError(self.expects)
        try:
            return self.parse(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(self.expects) from error

    def describe(self, expects: str) -> ValueParser[T]:
        """Return a copy of the parser with another description of valid values, its `expects`."""
        return replace(self, expects=expects)


def _boolean(value: Any) -> bool:
    if _lower(value) not in ("true", "false"):
        raise ValueError(value)
    return _lower(value) == "true"


def _positive(value: Any) -> int:
    if (number := _integer(value)) <= 0:
        raise ValueError(value)
    return number


def _whole(value: Any) -> int:
    if (number := _integer(value)) < 0:
        raise ValueError(value)
    return number


def _integer(value: Any) -> int:
    return int(str(value).strip())


def _size(value: Any) -> int:
    text = _lower(value).replace(" ", "")
    digits = text.rstrip("bkmgti")
    unit = text[len(digits) :].removesuffix("b").removesuffix("i")
    if unit not in _SIZE_UNITS or not digits.isdecimal() or int(digits) == 0:
        raise ValueError(value)
    return int(digits) * _SIZE_UNITS[unit]


def _duration(value: Any) -> float:
    text = _lower(value).replace(" ", "")
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    seconds = float(number) * _SECONDS.get(text[len(number) :], float("nan"))
    if not 0 < seconds <= TIMEOUT_MAX:  # also rejects NaN, from an unknown unit
        raise ValueError(value)
    return seconds


def _version(value: Any) -> int | str:
    return "latest" if _lower(value) == "latest" else _whole(value)


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = json.loads(value) if value.lstrip().startswith("[") else split_list(value)
    return tuple(str(v).strip() for v in value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def _terms(value: Any) -> tuple[str, ...]:
    if not isinstance(value, str):
        return tuple(_text(each).strip() for each in value)
    return tuple(each for each in split_list(value, keep_calls=True) if each)


def _pattern(value: Any) -> str:
    pc.match_substring_regex(pa.array([""]), _text(value))  # raises ArrowInvalid, a ValueError
    return str(value)


def _mapping(value: Any) -> dict[str, Any]:
    parsed = json.loads(value) if isinstance(value, str) else dict(value)
    if not isinstance(parsed, dict):
        raise TypeError(type(parsed))
    return parsed


def _zone(value: Any) -> tzinfo:
    return value if isinstance(value, tzinfo) else as_zone(str(value))


def _no_locality(value: Any) -> bool:
    if _boolean(value):
        raise UnsupportedFeature(
            "locality", "Spark's Python data sources and Arrow's filesystems do not expose the hosts of file blocks."
        )
    return False


def _lower(value: Any) -> str:
    return str(value).strip().lower()


def one_of(*choices: str) -> ValueParser[str]:
    """Return a parser that accepts one of `choices` in any case, and returns it as written in `choices`."""
    by_name = {choice.lower(): choice for choice in choices}
    *rest, last = choices

    def parse(value: Any) -> str:
        if _lower(value) not in by_name:
            raise ValueError(value)
        return by_name[_lower(value)]

    return ValueParser(parse, f"{', '.join(rest)} or {last}" if rest else last, "str")


boolean: ValueParser[bool] = ValueParser(_boolean, "true or false", "bool | str")
positive: ValueParser[int] = ValueParser(_positive, "a whole number above 0", "int | str")
whole: ValueParser[int] = ValueParser(_whole, "a whole number, 0 or more", "int | str")
integer: ValueParser[int] = ValueParser(_integer, "a whole number", "int | str")
snapshot: ValueParser[int] = integer.describe("a snapshot id")
milliseconds: ValueParser[int] = integer.describe("milliseconds since 1970")
parse_size: ValueParser[int] = ValueParser(_size, "bytes, or a size such as 128m", "int | str")  # returns bytes
duration: ValueParser[float] = ValueParser(
    _duration, "seconds, or a duration such as 500ms, 10s or 5m", "float | str"
)  # returns seconds
version: ValueParser[int | str] = ValueParser(_version, "a version, or latest", "int | str")
names: ValueParser[tuple[str, ...]] = ValueParser(_names, "a list: a, b, c, or JSON", "Sequence[str] | str")
terms: ValueParser[tuple[str, ...]] = ValueParser(
    _terms, "a string, or a list of them: days(ts), bucket(16, id), country", "Sequence[str] | str"
)
mapping: ValueParser[dict[str, Any]] = ValueParser(_mapping, "a JSON object", "Mapping[str, Any] | str")
secrets: ValueParser[dict[str, Any]] = replace(mapping, is_secret=True)
zone: ValueParser[tzinfo] = ValueParser(_zone, "a time zone, such as Europe/Paris or +02:00", "tzinfo | str")
moment: ValueParser[str] = ValueParser(
    str, "a date or timestamp", "date | str"
)  # kept as text: its time zone is another option
any_text: ValueParser[str] = ValueParser(str, "text", "str")
pattern: ValueParser[str] = ValueParser(_pattern, "a regular expression", "str")
version_or_reference: ValueParser[str] = ValueParser(str, "a version, snapshot id, branch or tag", "int | str")
text: ValueParser[str] = ValueParser(_text, "a string", "str")  # for write options: rejects other types
planning_mode: ValueParser[str] = one_of("auto", "local", "distributed")
no_locality: ValueParser[bool] = ValueParser(_no_locality, "false", "bool | str")
