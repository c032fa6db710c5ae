"""Parsers of option values; each raises `ValueError` for an invalid value, with what is expected as its message."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lakescan.common.references import split_list
from lakescan.errors import InvalidOption, UnsupportedFeature

_SIZE_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SECONDS = {"ms": 0.001, "s": 1, "": 1, "m": 60, "min": 60, "h": 3600}


def boolean(value: Any) -> bool:
    """Parse true or false, in any case."""
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("true or false")
    return text == "true"


def positive(value: Any) -> int:
    """Parse a whole number above 0."""
    number = _number(value)
    if number is None or number <= 0:
        raise ValueError("a whole number above 0")
    return number


def whole(value: Any) -> int:
    """Parse a whole number, 0 or more."""
    number = _number(value)
    if number is None or number < 0:
        raise ValueError("a whole number, 0 or more")
    return number


def integer(value: Any) -> int:
    """Parse a whole number."""
    if (number := _number(value)) is None:
        raise ValueError("a whole number")
    return number


def _number(value: Any) -> int | None:
    try:
        return int(str(value).strip())
    except ValueError:
        return None


def parse_size(value: Any) -> int:
    """Parse a size into bytes, from a number or text such as '128m', '10 GB', '1g'."""
    text = str(value).strip().lower().replace(" ", "")
    digits = text.rstrip("bkmgti")
    unit = text[len(digits) :].removesuffix("b").removesuffix("i")
    if unit not in _SIZE_UNITS or not digits.isdecimal() or int(digits) == 0:
        raise ValueError("a size above 0: bytes, or a number with k, m, g or t")
    return int(digits) * _SIZE_UNITS[unit]


def duration(value: Any) -> float:
    """Parse a duration into seconds, from a number of seconds or text such as '500ms', '10 s', '5m'."""
    text = str(value).strip().lower().replace(" ", "")
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    seconds = float(number) * _SECONDS.get(text[len(number) :], float("nan"))
    if not seconds > 0:
        raise ValueError("a duration")
    return seconds


def version(value: Any) -> int | str:
    """Parse a version number, or `latest`."""
    text = str(value).strip().lower()
    return text if text == "latest" else whole(text)


def names(value: Any) -> tuple[str, ...]:
    """Parse names from a list, a JSON list or comma-separated text."""
    if isinstance(value, str):
        value = json.loads(value) if value.lstrip().startswith("[") else split_list(value)
    return tuple(str(v).strip() for v in value)


def text(value: Any) -> str:
    """Accept a string; other types are not converted."""
    if not isinstance(value, str):
        raise ValueError(f"a string, not {type(value).__name__}")
    return value


def terms(value: Any) -> tuple[str, ...]:
    """Parse partition transforms from a list or comma-separated text: `days(ts), bucket(16, id)`."""
    if not isinstance(value, str):
        return tuple(text(each).strip() for each in value)
    return tuple(each for each in split_list(value, keep_calls=True) if each)


def mapping(value: Any) -> dict[str, Any]:
    """Parse a mapping, or a JSON object."""
    parsed = json.loads(value) if isinstance(value, str) else dict(value)
    if not isinstance(parsed, dict):
        raise ValueError("a JSON object")
    return parsed


def one_of(*choices: str) -> Callable[[Any], str]:
    """Return a parser that accepts one of `choices`, ignoring case."""
    by_name = {choice.lower(): choice for choice in choices}

    def parse(value: Any) -> str:
        text = str(value).strip().lower()
        if text not in by_name:
            raise ValueError(", ".join(choices))
        return by_name[text]

    return parse


def planning_mode(value: Any) -> str:
    """Parse one of Iceberg's planning modes; raises `InvalidOption` for other names."""
    mode = str(value).strip().lower()
    if mode not in ("auto", "local", "distributed"):
        raise InvalidOption(f"unknown planning mode {value!r}: use auto, local or distributed")
    return mode


def no_locality(value: Any) -> bool:
    """Accept false only; raises `UnsupportedFeature` for true."""
    if boolean(value):
        raise UnsupportedFeature(
            "locality", "Spark's Python data sources and Arrow's filesystems do not expose the hosts of file blocks."
        )
    return False
