"""Functions of lists and maps. Equality is Spark's: NaN equals NaN, and nulls inside nested values are equal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from lakescan.common import types as t
from lakescan.expressions.scalar.nested import member_names
from lakescan.expressions.scalar.python import times
from lakescan.expressions.scalar.typed_sql import Interval
from lakescan.expressions.scalar.udf import FailedValue, type_factory

_MOST = 2**31 - 16


def key(value: Any) -> Any:
    """Return a hashable key that is equal for values that are equal in Spark: NaN equals NaN, and -0.0 equals 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(map(key, value))
    if isinstance(value, tuple):
        return tuple(map(key, value))
    if isinstance(value, dict):
        return tuple(key(item) for item in value.values())
    return value


def distinct(values: list[Any]) -> list[Any]:
    """Return the distinct values, each at its first occurrence."""
    found: dict[Any, Any] = {}
    for each in values:
        found.setdefault(key(each), each)
    return list(found.values())


def union(left: list[Any], right: list[Any]) -> list[Any]:
    """Return the distinct values of both lists, in order of their first occurrence."""
    return distinct(left + right)


def intersect(left: list[Any], right: list[Any]) -> list[Any]:
    """Return the distinct values of the first list that are in the second."""
    others = {key(each) for each in right}
    return [each for each in distinct(left) if key(each) in others]


def except_(left: list[Any], right: list[Any]) -> list[Any]:
    """Return the distinct values of the first list that are not in the second."""
    others = {key(each) for each in right}
    return [each for each in distinct(left) if key(each) not in others]


def contains(values: list[Any], wanted: Any) -> bool | None:
    """Return whether a list contains a value; None if the value is not found and the list has nulls."""
    if any(each is not None and key(each) == key(wanted) for each in values):
        return True
    return None if None in values else False


def position(values: list[Any], wanted: Any) -> int:
    """Return the index of a value, from 1; 0 if it is not in the list."""
    return next((n for n, each in enumerate(values, 1) if each is not None and key(each) == key(wanted)), 0)


def remove(values: list[Any], unwanted: Any) -> list[Any]:
    """Return the list without the values equal to `unwanted`; nulls stay."""
    return [each for each in values if each is None or key(each) != key(unwanted)]


def repeat(value: Any, count: int | None) -> list[Any] | None:
    """Return a list with a value `count` times, empty for a negative count; None for a null count."""
    return None if count is None else [value] * max(count, 0)


def compact(values: list[Any]) -> list[Any]:
    """Return the list without nulls."""
    return [each for each in values if each is not None]


def append(values: list[Any] | None, value: Any) -> list[Any] | None:
    """Return the list with a value added at the end; None for a null list."""
    return None if values is None else [*values, value]


def prepend(values: list[Any] | None, value: Any) -> list[Any] | None:
    """Return the list with a value added at the beginning; None for a null list."""
    return None if values is None else [value, *values]


def insert(values: list[Any] | None, place: int | None, value: Any) -> list[Any] | None:
    """Return the list with a value inserted at the index `place`, from 1 or (if negative) from the end.

    Nulls fill a gap if the index is outside of the list. None for a null list or index. Raises `FailedValue` for the
    index 0.
    """
    if values is None or place is None:
        return None
    if place == 0:
        raise FailedValue("INVALID_INDEX_OF_ZERO: the index of array_insert() must not be 0")
    if place > 0:
        if place > len(values):
            return [*values, *[None] * (place - 1 - len(values)), value]
        return [*values[: place - 1], value, *values[place - 1 :]]
    at = len(values) + place + 1
    return [*values[:at], value, *values[at:]] if at >= 0 else [value, *[None] * -at, *values]


def overlap(left: list[Any], right: list[Any]) -> bool | None:
    """Return whether two lists have a non-null value in common; else None if both are not empty and one has nulls."""
    ones, others = ({key(each) for each in side if each is not None} for side in (left, right))
    if ones & others:
        return True
    return None if left and right and (None in left or None in right) else False


@type_factory
def arrays_zip(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., list[Any]]:
    """Return the function of values for `arrays_zip(...)`, which returns a list of dictionaries.

    Shorter lists are padded with None. `result` is the type of its result, a list of structs.
    """
    assert isinstance(result, t.ListOf)
    assert isinstance(result.element.type, t.Struct)
    names = member_names(result.element.type)

    def apply(*lists: list[Any]) -> list[Any]:
        return [
            {name: values[n] if n < len(values) else None for name, values in zip(names, lists, strict=True)}
            for n in range(max(map(len, lists), default=0))
        ]

    return apply


def _compare(left: Any, right: Any) -> int:
    """Return the order of two values as -1, 0 or 1. Null is the least value, and NaN is the greatest number."""
    if left is None or right is None:
        return (left is not None) - (right is not None)
    if isinstance(left, float):
        if math.isnan(left) or math.isnan(right):
            return math.isnan(left) - math.isnan(right)
        return (left > right) - (left < right)
    if isinstance(left, dict):
        left, right = list(left.values()), list(right.values())
    if isinstance(left, list | tuple):
        for one, other in zip(left, right, strict=False):
            if found := _compare(one, other):
                return found
        return len(left) - len(right)
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    return (left > right) - (left < right)


order_key = cmp_to_key(_compare)


def sort_array(values: list[Any], ascending: bool) -> list[Any]:
    """Return the sorted list: nulls come first in ascending order, and last in descending order."""
    return sorted(values, key=order_key, reverse=not ascending)


def sorted_by(values: list[Any], signs: list[list[int | None]]) -> list[Any]:
    """Return the elements in the order of a comparator.

    `signs[i][j]` is its result for the elements at i and j: negative, 0 or positive. Raises `FailedValue` if a result
    that is needed is null.
    """

    def compare_places(one: int, other: int) -> int:
        sign = signs[one][other]
        if sign is None:
            raise FailedValue("COMPARATOR_RETURNS_NULL: the function of array_sort() returned null for two elements")
        return sign

    return [values[n] for n in sorted(range(len(values)), key=cmp_to_key(compare_places))]


def array_sort(values: list[Any]) -> list[Any]:
    """Return the list in ascending order; nulls come last."""
    kept = compact(values)
    return sorted(kept, key=order_key) + [None] * (len(values) - len(kept))


def least(values: list[Any]) -> Any:
    """Return the least non-null value; None without such values."""
    return min(compact(values), key=order_key, default=None)


def greatest(values: list[Any]) -> Any:
    """Return the greatest non-null value; None without such values."""
    return max(compact(values), key=order_key, default=None)


def slice_(values: list[Any], start: int, size: int) -> list[Any]:
    """Return `size` elements of a list from `start`, which counts from 1, or from the end if negative.

    Elements that do not exist are left out. Raises `FailedValue` for a start of 0 or a negative size.
    """
    if start == 0:
        raise FailedValue("INVALID_PARAMETER_VALUE.START: the start of slice() must not be 0")
    if size < 0:
        raise FailedValue("INVALID_PARAMETER_VALUE.LENGTH: the length of slice() must be 0 or more")
    begin = start - 1 if start > 0 else len(values) + start
    return values[begin : begin + size] if begin >= 0 else []


def join(values: list[str | None], separator: str, null: str | None = None) -> str:
    """Join strings with a separator; nulls are skipped, or replaced by `null` if it is given."""
    if null is None:
        return separator.join(each for each in values if each is not None)
    return separator.join(null if each is None else each for each in values)


def flatten(values: list[Any]) -> list[Any] | None:
    """Return the elements of the inner lists; None if an inner list is null."""
    return None if None in values else [each for inner in values for each in inner]


@type_factory
def sequence(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., list[int]]:
    """Return the function of values for `sequence(start, stop, step)` of integers, dates or timestamps.

    Both ends are included. By default, the step is 1 or a day, or its negative. The function raises `FailedValue` for a
    step that does not lead to `stop`, and for too many values.
    """
    kind = kinds[0]
    step_type = kinds[2] if len(kinds) > 2 else None

    def apply(start: int, stop: int, step: int | None = None) -> list[int]:
        if step is None:
            unit = 86_400_000_000 if isinstance(kind, t.Timestamp) else 1
            step = unit if start <= stop else -unit
        if isinstance(step_type, Interval):
            return _times(start, stop, step, step_type, kind)
        if (step == 0 and start != stop) or (stop - start) * step < 0:
            raise FailedValue(f"ILLEGAL_SEQUENCE_BOUNDARIES: sequence() from {start} to {stop} by {step}")
        if step == 0:
            return [start]
        if (stop - start) // step > _MOST:
            raise FailedValue("COLLECTION_SIZE_LIMIT_EXCEEDED: sequence() of too many values")
        return list(range(start, stop + (1 if step > 0 else -1), step))

    return apply


def _times(start: int, stop: int, step: int, of: Interval, kind: t.Type) -> list[int]:
    if step == 0 or (stop - start) * step < 0:
        raise FailedValue("ILLEGAL_SEQUENCE_BOUNDARIES: sequence() with an interval that does not lead to its end")
    is_date = kind == t.DATE
    if not of.has_months:
        if is_date:
            step //= 86_400_000_000
            if step == 0:
                raise FailedValue("the step of a sequence() of dates must be whole days")
        return list(range(start, stop + (1 if step > 0 else -1), step))
    found: list[int] = []
    n = 0
    move = times.add_months if is_date else times.add_months_to_time
    while True:
        value = move(start, n * step)
        if (value > stop) if step > 0 else (value < stop):
            return found
        found.append(value)
        n += 1


def _check_keys(pairs: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    seen = set()
    for name, _ in pairs:
        if name is None:
            raise FailedValue("NULL_MAP_KEY: a key of a map is null")
        if key(name) in seen:
            raise FailedValue(f"DUPLICATED_MAP_KEY: the key {name!r} occurs twice")
        seen.add(key(name))
    return list(pairs)


def map_from_arrays(keys: list[Any], values: list[Any]) -> list[tuple[Any, Any]]:
    """Return the entries of a map from each key to the value at the same index.

    Raises `FailedValue` for lists of different lengths, and for null or duplicate keys.
    """
    if len(keys) != len(values):
        raise FailedValue("map_from_arrays() of lists of different lengths")
    return _check_keys(list(zip(keys, values, strict=True)))


def map_from_entries(entries: list[dict[str, Any] | None]) -> list[tuple[Any, Any]] | None:
    """Return the entries of a map from structs with a key and a value; None if a struct is null.

    Raises `FailedValue` for null or duplicate keys.
    """
    if None in entries:
        return None
    return _check_keys([tuple(each.values()) for each in entries if each is not None])


def map_concat(*maps: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return the entries of several maps as those of one; raises `FailedValue` for duplicate keys."""
    return _check_keys([each for one in maps for each in one])


def map_contains_key(of: list[tuple[Any, Any]], wanted: Any) -> bool:
    """Return whether a map has a key."""
    return any(key(name) == key(wanted) for name, _ in of)


def map_value(of: list[tuple[Any, Any]], wanted: Any) -> Any:
    """Return the value of a key; None if the map does not have the key."""
    return next((value for name, value in of if key(name) == key(wanted)), None)


@type_factory
def map_entries(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., list[Any]]:
    """Return the function of values for `map_entries(map)`, which returns dictionaries with `key` and `value`."""
    return lambda of: [{"key": name, "value": value} for name, value in of]


def try_element_at(values: list[Any], place: int) -> Any:
    """Return an element of a list, counted from 1, or from the end if negative; None if it does not exist.

    Raises `FailedValue` for the index 0.
    """
    if place == 0:
        raise FailedValue("INVALID_INDEX_OF_ZERO: the index of a list element must not be 0")
    at = place - 1 if place > 0 else len(values) + place
    return values[at] if 0 <= at < len(values) else None


def percentile_approx(values: list[Any], fraction: float) -> Any:
    """Return the least value such that at least the fraction `fraction` of the values is not greater.

    Nulls are ignored. None without values.
    """
    ordered = sorted(compact(values), key=order_key)
    if not ordered:
        return None
    return ordered[min(max(math.ceil(fraction * len(ordered)), 1), len(ordered)) - 1]
