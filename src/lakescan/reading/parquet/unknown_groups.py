"""Footers in which a group has the logical type UNKNOWN, which Parquet's Java library once gave to entries of maps.

The Parquet format has that type for columns of nulls only, and Arrow refuses the file. The older `MAP_KEY_VALUE` beside
it says what the group is; the logical type is taken out of the bytes, and nothing else is changed.
"""

from __future__ import annotations

from typing import Any

from lakescan.reading.parquet import thrift

REFUSAL = "cannot be applied to group node"
_SCHEMA, _CHILDREN, _LOGICAL_TYPE, _UNKNOWN = 2, 5, 10, 11  # fields of FileMetaData, SchemaElement and LogicalType
_STRUCT = 12


def without_unknown_groups(footer: bytes) -> bytes:
    """The footer without logical types UNKNOWN of groups; raises `IndexError` or `ValueError` where it breaks off."""
    ranges = thrift.struct(footer, 0, {_SCHEMA: _unknown_groups})[0].get(_SCHEMA, [])
    kept, end = [], 0
    for start, stop in ranges:
        kept.append(footer[end:start])
        end = stop
    return b"".join([*kept, footer[end:]])


def _unknown_groups(data: bytes, at: int, kind: int) -> tuple[list[tuple[int, int]], int]:
    """Where the logical types are that are to go: each is the last field of its element."""
    count, _, at = thrift.head_of_list(data, at)
    found = []
    for _ in range(count):
        element, at = thrift.struct(data, at, {_CHILDREN: thrift.integer, _LOGICAL_TYPE: _logical_type})
        is_unknown, start, stop = element.get(_LOGICAL_TYPE, (False, 0, 0))
        if element.get(_CHILDREN) and is_unknown and stop == at - 1:
            found.append((start, stop))
    return found, at


def _logical_type(data: bytes, at: int, kind: int) -> tuple[tuple[bool, int, int], int]:
    """Whether it is UNKNOWN, and where the field begins, with its head of one byte, and ends."""
    union, stop = thrift.struct(data, at, {_UNKNOWN: _present})
    head = data[at - 1]
    is_short = head >> 4 != 0 and head & 15 == _STRUCT
    return (is_short and _UNKNOWN in union, at - 1, stop), stop


def _present(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    return True, thrift.skipped(data, at, kind)
