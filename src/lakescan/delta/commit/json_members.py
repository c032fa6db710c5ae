"""The names of all actions and members in JSON lines, so that what a parser would ignore is not lost."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakescan.delta.log.json_lines import LogLines
from lakescan.delta.log.text import parse_object

Names = dict[str, Any]  # of members that are not null everywhere, to the names in them
_FILE_LINE = r'^\s*\{\s*"(?:add|remove|cdc)"\s*:'
_BLOCK = 1 << 24
_MOST_BLOCK = (1 << 31) - 1


def names_in(lines: LogLines) -> Names:
    """The names in the lines: of actions and, in file actions, of their members at all depths."""
    is_file = pc.match_substring_regex(lines.raw, _FILE_LINE)
    names: Names = {}
    for line in lines.raw.filter(pc.invert(is_file)).to_pylist():  # few: a commit has one of each kind
        _merge(names, _of_node(parse_object(line, "")))
    files = lines.raw.filter(is_file)
    inferred = _inferred(files)
    if inferred is not None:
        _merge(names, _of_type(inferred))
        return names
    for line in files.to_pylist():  # Arrow's reader accepts nearly all logs
        _merge(names, _of_node(parse_object(line, "")))
    return names


def _inferred(lines: pa.Array) -> pa.Schema | None:
    """The schema of the lines as Arrow's reader infers it; None if it refuses them."""
    if not len(lines):
        return pa.schema([])
    nothing, newline = (pa.scalar(text, lines.type) for text in ("", "\n"))
    content = pc.binary_join_element_wise(lines, nothing, newline).buffers()[2]
    options = pj.ReadOptions(block_size=min(max(_BLOCK, content.size), _MOST_BLOCK))
    try:
        return pj.read_json(pa.BufferReader(content), read_options=options).schema
    except pa.ArrowInvalid:
        return None


def _of_type(fields: Any) -> Names:
    return {
        field.name: _of_type(field.type) if pa.types.is_struct(field.type) else {}
        for field in fields
        if not pa.types.is_null(field.type)
    }


def _of_node(node: dict[str, Any]) -> Names:
    return {
        name: _of_node(value) if isinstance(value, dict) else {} for name, value in node.items() if value is not None
    }


def _merge(names: Names, more: Names) -> None:
    for name, inner in more.items():
        _merge(names.setdefault(name, {}), inner)
