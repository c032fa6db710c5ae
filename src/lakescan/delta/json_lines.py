"""JSON lines as Arrow tables, by Arrow's own reader; by Python's parser where that refuses the text.

Arrow's reader takes most that writers write; what it does not (numbers where text is wanted, for one) is rare, and a
hypothesis test holds the two against each other.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakescan.errors import CorruptMetadata

_BLOCK, _LARGEST_BLOCK = 1 << 22, (1 << 31) - 1


def parse_json_lines(text: bytes | pa.Buffer, schema: pa.Schema) -> pa.Table:
    """JSON lines as a table of that schema: members that it does not name are left out, absent ones null.

    Raises `CorruptMetadata` for a line that is not a JSON object.
    """
    found = _fast(text, schema)
    return parse_json_lines_in_python(bytes(text), schema) if found is None else found


def parse_json_texts(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    """A row for each text of an array; nulls for texts that are null or not JSON objects of the schema."""
    filled = pc.fill_null(texts, "{}").cast(pa.string())
    joined = pc.binary_join(pa.ListArray.from_arrays([0, len(filled)], filled), "\n")
    found = _fast(joined.buffers()[2] or b"", schema)
    if found is not None and found.num_rows == len(texts):
        return found
    rows = [_one(text, schema) for text in filled.to_pylist()]
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.Table.from_pylist([_if_typed(row, schema) for row in rows], schema=schema)


def _fast(text: bytes | pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    if not len(text):
        return schema.empty_table()
    # A block must hold a whole line; only a line longer than a block needs the second try.
    for block_size in (_BLOCK, len(text) + 1):
        try:
            return pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(block_size=min(block_size, _LARGEST_BLOCK)),
                parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
        except pa.ArrowInvalid as error:
            if "straddling" not in str(error):
                break
    return None


def parse_json_lines_in_python(text: bytes, schema: pa.Schema) -> pa.Table:
    """The same by Python's parser, a line at a time: slow, and takes whatever JSON allows."""
    rows = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            try:
                node = json.loads(line)
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise CorruptMetadata(f"line {number} of the log is not JSON: {error}") from error
            if not isinstance(node, dict):
                raise CorruptMetadata(f"line {number} of the log is not a JSON object: {line[:40]!r}")
            rows.append(_textual(node, schema))
    return pa.Table.from_pylist(rows, schema=schema)


def _textual(value: Any, kind: Any) -> Any:
    """A parsed value as the Arrow type wants it: scalars as text where the type is text."""
    if isinstance(kind, pa.Schema):
        return {f.name: _textual(value.get(f.name), f.type) for f in kind}
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: _textual(value.get(f.name), f.type) for f in kind} if isinstance(value, dict) else None
    if pa.types.is_string(kind) and not isinstance(value, str):
        return json.dumps(value)
    return value


def _one(text: str, schema: pa.Schema) -> dict[str, Any]:
    try:
        node = json.loads(text)
    except json.JSONDecodeError:
        return {}
    found: dict[str, Any] = _textual(node, schema) if isinstance(node, dict) else {}
    return found


def _if_typed(row: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """The row if its values are of the schema's types, else nothing."""
    try:
        pa.Table.from_pylist([row], schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return {}
    return row
