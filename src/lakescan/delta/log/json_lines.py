"""JSON lines as Arrow tables, by Arrow's own reader; by Python's parser where that refuses the text.

Arrow's reader takes most that writers write; what it does not (numbers where text is wanted, for one) is rare, and a
hypothesis test holds the two against each other. It dies of a text that begins with `null`, and is given lines only
that begin as an object does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakescan.delta.log.text import ADVICE, LogText, RepeatedMember, as_long, parse_json, parse_object, shown
from lakescan.errors import CorruptMetadata

_BLOCK, _LARGEST_BLOCK = 1 << 22, (1 << 31) - 1
_MOST_LINES = 1 << 18  # that are parsed at once, so that memory is bounded by what lines hold, not by their number
_NEWLINE, _OPENS = ord("\n"), ord("{")
_MOST_EXACT = 2**53  # from here on, doubles stand for more than one whole number
_INTS = {pa.int64(): 64, pa.int32(): 32}


@dataclass(frozen=True)
class LogLines:
    """Lines of some texts, and a row of a table for each; blank lines have none.

    `text` says of each row which of the texts its line is of, `line` which one it is, from 1; `raw` is the line itself.
    """

    texts: Sequence[LogText]
    rows: pa.Table
    text: np.ndarray
    line: np.ndarray
    raw: pa.Array

    @property
    def version(self) -> np.ndarray:
        """The version of the commit that each row is of."""
        return np.array([text.version for text in self.texts], dtype=np.int64)[self.text]

    def where(self, row: int) -> str:
        """The file and line of a row."""
        return self.texts[self.text[row]].place(int(self.line[row]))


def parse_log_texts(texts: Iterable[LogText], schema: pa.Schema, loose: frozenset[str] = frozenset()) -> list[LogLines]:
    """The lines of texts, so many at a time: members that the schema does not name are left out, absent ones null.

    Where text is wanted, another scalar is an error, but in the members `loose` and below them. Raises
    `CorruptMetadata`, with file and line, for what is not a JSON object of these types; and for a text without lines.
    """
    texts = tuple(texts)
    if not texts:
        return []
    contents = [text.actions() for text in texts]
    joined = b"\n".join([*contents, b""])
    counts = [content.count(b"\n") + 1 for content in contents]
    text = np.repeat(np.arange(len(texts)), counts)
    line = np.arange(len(text)) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    starts = np.append(0, np.flatnonzero(np.frombuffer(joined, np.uint8) == _NEWLINE) + 1).astype(np.int64)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(joined)]
    raw = pa.Array.from_buffers(pa.large_string(), len(starts) - 1, buffers)
    return [
        _parsed(LogLines(texts, schema.empty_table(), text[part], line[part], raw[part]), schema, loose)
        for part in (slice(at, at + _MOST_LINES) for at in range(0, len(raw), _MOST_LINES))
    ]


def _parsed(lines: LogLines, schema: pa.Schema, loose: frozenset[str]) -> LogLines:
    """The lines, unparsed as they are, with rows."""
    _check_utf8(lines)
    content = _bytes_of(lines.raw)
    if _are_plain(lines.raw, content):
        found = _fast(content, schema)
        if found is not None and found.num_rows == len(lines.raw):
            return LogLines(lines.texts, found, lines.text, lines.line, lines.raw)
    return _parsed_in_python(lines, schema, loose)


def _bytes_of(raw: pa.Array) -> pa.Buffer:
    """The lines as one buffer, without a copy."""
    offsets = np.frombuffer(raw.buffers()[1], np.int64)[raw.offset : raw.offset + len(raw) + 1]
    start, stop = int(offsets[0]), int(offsets[-1])
    return raw.buffers()[2].slice(start, stop - start)


def _are_plain(raw: pa.Array, content: pa.Buffer) -> bool:
    """Whether each line begins as an object does: then as many rows as lines are a row a line."""
    offsets = np.frombuffer(raw.buffers()[1], np.int64)[raw.offset : raw.offset + len(raw)]
    return bool((np.frombuffer(content, np.uint8)[offsets - offsets[0]] == _OPENS).all())


def _check_utf8(lines: LogLines) -> None:
    try:
        lines.raw.validate(full=True)
    except pa.ArrowInvalid:
        for row, line in enumerate(lines.raw.cast(pa.large_binary()).to_pylist()):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                fault = f"byte {error.start + 1} is not UTF-8"
                raise CorruptMetadata(f"{lines.where(row)} is not JSON that can be read: {fault}. {ADVICE}") from error


def _fast(text: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
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


def _parsed_in_python(lines: LogLines, schema: pa.Schema, loose: frozenset[str]) -> LogLines:
    """The same by Python's parser, a line at a time: slow, and takes whatever JSON allows."""
    rows, kept = [], []
    for row, line in enumerate(lines.raw.to_pylist()):
        if not line.strip():
            continue
        node = parse_object(line, lines.where(row))
        try:
            rows.append(_members(node, schema, "", loose))
        except _Unfit as error:
            raise CorruptMetadata(f"{lines.where(row)}: {error}. {ADVICE}") from error
        kept.append(row)
    table = pa.Table.from_pylist(rows, schema=schema)
    return LogLines(lines.texts, table, lines.text[kept], lines.line[kept], lines.raw.take(pa.array(kept, pa.int64())))


class _Unfit(Exception):
    """A value is not of the type that it should have."""


def _members(node: dict[str, Any], fields: Iterable[pa.Field], path: str, loose: frozenset[str]) -> dict[str, Any]:
    fields = tuple(fields)
    if isinstance(node, RepeatedMember) and any(field.name in node for field in fields):
        raise _Unfit(f"{path.rstrip('.') or 'the line'} has a member more than once")
    return {f.name: _typed(node.get(f.name), f.type, path + f.name, loose) for f in fields}


def _typed(value: Any, kind: pa.DataType, path: str, loose: frozenset[str]) -> Any:
    """A parsed value as the Arrow type wants it; raises `_Unfit`."""
    if value is None:
        return None
    found: Any = None
    if pa.types.is_struct(kind):
        found = _members(value, kind, f"{path}.", loose) if isinstance(value, dict) else None
    elif pa.types.is_string(kind):
        found = _text(value, path, loose)
    elif kind in _INTS:
        number = as_long(value)
        found = number if number is not None and -number - 1 < 1 << (_INTS[kind] - 1) > number else None
    elif isinstance(value, bool):
        found = value
    if found is None:
        raise _Unfit(f"{path} is {shown(value)}, where {_wanted(kind)} belongs")
    return found


def _text(value: Any, path: str, loose: frozenset[str]) -> str | None:
    if not isinstance(value, str):
        is_loose = not loose.isdisjoint(path.split(".")[:2]) and not isinstance(value, list)
        return json.dumps(value) if is_loose else None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value


def _wanted(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return "an object"
    if kind in _INTS:
        return f"a whole number of {_INTS[kind]} bits"
    return "true or false" if pa.types.is_boolean(kind) else "text"


def parse_json_texts(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    """A row for each text of an array; nulls for texts that are null or not JSON objects of the schema."""
    filled = pc.fill_null(texts, "{}").cast(pa.string())
    if pc.all(pc.starts_with(filled, "{"), min_count=0).as_py():
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(filled)], filled), "\n")
        found = _fast(joined.buffers()[2] or pa.py_buffer(b""), schema)
        if found is not None and found.num_rows == len(texts):
            return found
    rows = [_one(text, schema) for text in filled.to_pylist()]
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.Table.from_pylist([_if_typed(row, schema) for row in rows], schema=schema)


def _one(text: str, schema: pa.Schema) -> dict[str, Any]:
    try:
        node = parse_json(text, "")
    except CorruptMetadata:
        return {}
    return _as_far_as_typed(node, schema) if isinstance(node, dict) else {}


def _as_far_as_typed(node: dict[str, Any], fields: Iterable[pa.Field]) -> dict[str, Any]:
    """The members as Arrow types want them: scalars as text where the type is text."""
    found = {}
    for field in fields:
        value = node.get(field.name)
        if pa.types.is_struct(field.type):
            value = _as_far_as_typed(value, field.type) if isinstance(value, dict) else None
        elif pa.types.is_string(field.type) and value is not None and not isinstance(value, str):
            value = json.dumps(value)
        elif pa.types.is_integer(field.type) and isinstance(value, float) and abs(value) >= _MOST_EXACT:
            value = None  # it may be the double next to the number
        found[field.name] = value
    return found


def _if_typed(row: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """The row if its values are of the schema's types, else nothing."""
    try:
        pa.Table.from_pylist([row], schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return {}
    return row
