"""Thrift's compact protocol as trees that can be changed and rewritten, for Parquet footers.

A struct is a list of fields `[number, kind, value]`; a list is `[kind, values]`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_BYTE, _BINARY, _LIST, _SET, _STRUCT, _DOUBLE = 3, 8, 9, 10, 12, 7


def read_struct(data: bytes, at: int = 0) -> tuple[list[Any], int]:
    """Parse the struct at an offset; return it and the offset after it."""
    fields: list[Any] = []
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        value, at = _read(data, at, head & 15)
        fields.append([number, head & 15, value])
    return fields, at + 1


def _read(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind in (1, 2):
        return kind == 1, at
    if kind == _BYTE:
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _zigzag(data, at)
    if kind == _DOUBLE:
        return data[at : at + 8], at + 8
    if kind == _BINARY:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind in (_LIST, _SET):
        head = data[at]
        count, at = (head >> 4, at + 1) if head >> 4 != 15 else _varint(data, at + 1)
        values = []
        for _ in range(count):
            value, at = (data[at], at + 1) if head & 15 in (1, 2) else _read(data, at, head & 15)
            values.append(value)
        return [head & 15, values], at
    if kind == _STRUCT:
        return read_struct(data, at)
    raise ValueError(f"kind {kind}")


def write_struct(fields: list[Any]) -> bytes:
    """Return the bytes of a struct."""
    out, last = bytearray(), 0
    for number, kind, value in fields:
        kind = (1 if value else 2) if kind in (1, 2) else kind
        if 0 < number - last < 16:
            out.append((number - last) << 4 | kind)
        else:
            out += bytes([kind]) + _as_zigzag(number)
        last = number
        out += _written(kind, value)
    return bytes(out) + b"\x00"


def _written(kind: int, value: Any) -> bytes:
    if kind in (1, 2):
        return b""
    if kind == _BYTE:
        return bytes([value & 255])
    if kind in (4, 5, 6):
        return _as_zigzag(value)
    if kind == _DOUBLE:
        return bytes(value)
    if kind == _BINARY:
        return _as_varint(len(value)) + value
    if kind == _STRUCT:
        return write_struct(value)
    inner, values = value
    count = len(values)
    head = bytes([count << 4 | inner]) if count < 15 else bytes([0xF0 | inner]) + _as_varint(count)
    return head + b"".join(bytes([v]) if inner in (1, 2) else _written(inner, v) for v in values)


def scalars(fields: list[Any], path: str = "") -> Iterator[tuple[list[Any], int, str]]:
    """Yield every scalar value of a struct: its container, the index in it, and its path."""
    for field in fields:
        number, kind, value = field
        here = f"{path}.{number}"
        if kind == _STRUCT:
            yield from scalars(value, here)
        elif kind in (_LIST, _SET):
            inner, values = value
            for place, each in enumerate(values):
                if inner == _STRUCT:
                    yield from scalars(each, f"{here}[]")
                else:
                    yield values, place, f"{here}[]"
        else:
            yield field, 2, here


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _as_zigzag(value: int) -> bytes:
    return _as_varint(value << 1 if value >= 0 else (-value << 1) - 1)
