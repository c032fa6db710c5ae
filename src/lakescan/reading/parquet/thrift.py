"""Thrift's compact protocol, as far as a few fields of a Parquet footer take: the others are stepped over.

Every function takes the bytes and a place in them, and gives the place behind what it read. What breaks off, or says
more than there are bytes, raises `IndexError` or `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Reader = Callable[[bytes, int, int], tuple[Any, int]]

_MOST_BYTES = 10  # of a number of 64 bits
_INTEGERS = (4, 5, 6)
_DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 7, 8, 9, 10, 11, 12


def struct(data: bytes, at: int, wanted: Mapping[int, Reader]) -> tuple[dict[int, Any], int]:
    """The wanted fields of a struct by their numbers, each as its reader gives it."""
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = integer(data, at, 0)
        kind = head & 15
        reader = wanted.get(number)
        if reader is None:
            at = skipped(data, at, kind)
        else:
            found[number], at = reader(data, at, kind)
    return found, at + 1


def integer(data: bytes, at: int, kind: int) -> tuple[int, int]:
    """A number of 16, 32 or 64 bits."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def binary(data: bytes, at: int, kind: int) -> tuple[bytes, int]:
    """Bytes, or a text as bytes."""
    length, at = _varint(data, at)
    end = _within(data, at, length)
    return data[at:end], end


def head_of_list(data: bytes, at: int) -> tuple[int, int, int]:
    """How many elements a list has, of what kind, and where they start."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 != 15 else _varint(data, at + 1)
    _within(data, at, count)  # an element takes a byte at least
    return count, head & 15, at


def skipped(data: bytes, at: int, kind: int) -> int:
    """The place behind a field's value."""
    if kind in _INTEGERS:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind <= 2:  # true and false are in the head
        return at
    if kind == _BINARY:
        length, at = _varint(data, at)
        return _within(data, at, length)
    if kind == _STRUCT:
        return _skipped_struct(data, at)
    if kind in (_LIST, _SET):
        count, inner, at = head_of_list(data, at)
        return _skipped_elements(data, at, inner, count)
    if kind == _DOUBLE:
        return _within(data, at, 8)
    if kind == 3:
        return at + 1
    raise ValueError(f"a field of kind {kind}")


def _skipped_struct(data: bytes, at: int) -> int:
    while head := data[at]:
        at += 1
        if not head >> 4:
            at = skipped(data, at, 5)
        at = skipped(data, at, head & 15)
    return at + 1


def _skipped_elements(data: bytes, at: int, kind: int, count: int) -> int:
    if kind <= 3:
        return _within(data, at, count)
    for _ in range(count):
        at = skipped(data, at, kind)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MOST_BYTES, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number that does not end")


def _within(data: bytes, at: int, length: int) -> int:
    if length > len(data) - at:
        raise ValueError(f"{length} bytes where {len(data) - at} are left")
    return at + length
