"""Repair footers in which a group has the logical type UNKNOWN: parquet-java once wrote it for the entries of maps.

The Parquet format allows that type only for columns of nulls, and Arrow rejects the file. The converted type
`MAP_KEY_VALUE` still identifies the group, so the logical type is cut out of the bytes; nothing else is changed.
"""

from __future__ import annotations

from typing import Any

from lakescan.reading.parquet import thrift

REFUSAL = "cannot be applied to group node"
_SCHEMA, _CHILDREN, _LOGICAL_TYPE, _UNKNOWN = 2, 5, 10, 11  # field ids in FileMetaData, SchemaElement and LogicalType
_STRUCT = 12


def remove_unknown_groups(footer: bytes) -> bytes:
    """Remove the logical type UNKNOWN from groups; raises `IndexError` or `ValueError` if the footer is truncated."""
    ranges = thrift.struct(footer, 0, {_SCHEMA: _unknown_groups})[0].get(_SCHEMA, [])
    kept, end = [], 0
    for start, stop in ranges:
        kept.append(footer[end:start])
        end = stop
    return b"".join([*kept, footer[end:]])


def _unknown_groups(data: bytes, at: int, kind: int) -> tuple[list[tuple[int, int]], int]:
    """The byte ranges of the logical types to remove; each must be the last field of its schema element."""
    count, _, at = thrift.head_of_list(data, at)
    ranges = []
    for _ in range(count):
        element, at = thrift.struct(data, at, {_CHILDREN: thrift.integer, _LOGICAL_TYPE: _logical_type})
        is_unknown, start, stop = element.get(_LOGICAL_TYPE, (False, 0, 0))
        if element.get(_CHILDREN) and is_unknown and stop == at - 1:
            ranges.append((start, stop))
    return ranges, at


def _logical_type(data: bytes, at: int, kind: int) -> tuple[tuple[bool, int, int], int]:
    """Whether the type is UNKNOWN, and the byte range of the field with its header, which must be one byte."""
    union, stop = thrift.struct(data, at, {_UNKNOWN: _skip_member})
    head = data[at - 1]
    is_short = head >> 4 != 0 and head & 15 == _STRUCT
    return (is_short and _UNKNOWN in union, at - 1, stop), stop


def _skip_member(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    return True, thrift.skip(data, at, kind)
