"""The kinds of arguments that procedures take, as Python values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from lakescan.common.timestamps import as_moment


@dataclass(frozen=True)
class ArgumentType:
    """What values a parameter takes: `read` returns the value, or raises `ValueError`; `expects` is for messages."""

    expects: str
    read: Callable[[Any], Any]


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def _whole(bits: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError(value)
        return value

    return read


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(value)
    return value


def _moment(value: Any) -> datetime:
    if not isinstance(value, datetime | date | str):
        raise ValueError(value)
    return as_moment(value)


def _array(item: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def read(value: Any) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ValueError(value)
        return tuple(map(item, value))

    return read


def _string_map(value: Any) -> dict[str, str]:
    """A map; pairs, which is how Arrow and Spark hand over maps, are taken, too."""
    pairs = value.items() if isinstance(value, Mapping) else value
    if isinstance(pairs, str):
        raise ValueError(value)
    found = {}
    for name, each in pairs:
        if not isinstance(name, str) or each is None:
            raise ValueError(value)
        found[name] = str(each).lower() if isinstance(each, bool) else str(each)
    return found


STRING = ArgumentType("a string", _text)
LONG = ArgumentType("a whole number of 64 bits", _whole(64))
INT = ArgumentType("a whole number of 32 bits", _whole(32))
BOOLEAN = ArgumentType("true or false", _flag)
TIMESTAMP = ArgumentType("a timestamp", _moment)
STRINGS = ArgumentType("an array of strings", _array(_text))
LONGS = ArgumentType("an array of whole numbers", _array(_whole(64)))
OPTIONS = ArgumentType("a map of strings to strings", _string_map)
