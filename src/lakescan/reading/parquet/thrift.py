"""A partial reader of Thrift's compact protocol: reads the wanted fields of a Parquet footer and skips others.

Every function takes the bytes (`data`), an offset (`at`) and, for values, the type's number in the protocol (`kind`).
It returns the value and the offset after it. Truncated data, or a length beyond the data, raises `IndexError` or
`ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Reader = Callable[[bytes, int, int], tuple[Any, int]]

_MOST_BYTES = 10  # maximum bytes of a 64-bit varint
_INTEGERS = (4, 5, 6)
_DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 7, 8, 9, 10, 11, 12


def struct(data: bytes, at: int, wanted: Mapping[int, Reader]) -> tuple[dict[int, Any], int]:
    """Read a struct at offset `at`; return the `wanted` fields that it has, by field id, and the offset after it.

    `wanted` maps field ids to the functions that read them. Raises `IndexError` or `ValueError` for damaged data.
    """
    fields: dict[int, Any] = {}
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
            at = skip(data, at, kind)
        else:
            fields[number], at = reader(data, at, kind)
    return fields, at + 1


def integer(data: bytes, at: int, kind: int) -> tuple[int, int]:
    """Read an integer of 16, 32 or 64 bits at offset `at`; return it, and the offset after it. `kind` is ignored."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def binary(data: bytes, at: int, kind: int) -> tuple[bytes, int]:
    """Read a binary or a string at offset `at`, as bytes; return them, and the offset after them. `kind` is ignored."""
    length, at = _varint(data, at)
    end = _within(data, at, length)
    return data[at:end], end


def head_of_list(data: bytes, at: int) -> tuple[int, int, int]:
    """Read a list header at offset `at`: the number of elements, their kind, and the offset of the first element."""
    head = data[at]
    count, at = (head >> 4, at + 1) if head >> 4 != 15 else _varint(data, at + 1)
    _within(data, at, count)  # an element takes at least one byte
    return count, head & 15, at


def skip(data: bytes, at: int, kind: int) -> int:
    """Return the offset after the value at offset `at`, whose type has the number `kind` in the compact protocol."""
    if kind in _INTEGERS:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind <= 2:  # booleans are encoded in the field header
        return at
    if kind == _BINARY:
        length, at = _varint(data, at)
        return _within(data, at, length)
    if kind == _STRUCT:
        return _skip_struct(data, at)
    if kind in (_LIST, _SET):
        count, inner, at = head_of_list(data, at)
        return _skip_elements(data, at, inner, count)
    if kind == _DOUBLE:
        return _within(data, at, 8)
    if kind == 3:
        return at + 1
    raise ValueError(f"a field of unknown kind {kind}")


def _skip_struct(data: bytes, at: int) -> int:
    while head := data[at]:
        at += 1
        if not head >> 4:
            at = skip(data, at, 5)
        at = skip(data, at, head & 15)
    return at + 1


def _skip_elements(data: bytes, at: int, kind: int, count: int) -> int:
    if kind <= 3:
        return _within(data, at, count)
    for _ in range(count):
        at = skip(data, at, kind)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * _MOST_BYTES, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number of more than 64 bits")


def _within(data: bytes, at: int, length: int) -> int:
    if length > len(data) - at:
        raise ValueError(f"{length} bytes declared, but only {len(data) - at} left")
    return at + length
