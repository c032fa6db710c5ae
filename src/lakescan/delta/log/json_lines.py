"""Parse JSON lines into Arrow tables with Arrow's JSON reader, and with Python's parser where that fails.

Arrow's reader accepts nearly all logs. Input that it rejects, such as a number where text is expected, is rare, and a
hypothesis test compares the two parsers. Arrow's reader crashes on a text that starts with `null`, so it only gets
lines that start with `{`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakescan.delta.log.log_text import ADVICE, LogText, RepeatedMember, as_long, parse_json, parse_object, short_json
from lakescan.errors import CorruptMetadata

_BLOCK, _LARGEST_BLOCK = 1 << 22, (1 << 31) - 1
_MOST_LINES = 1 << 18  # parsed together, so that memory is bounded by the content of lines, not by their number
_NEWLINE, _OPENS = ord("\n"), ord("{")
_MOST_EXACT = 2**53  # from here on, a double may represent several whole numbers
_INTS = {pa.int64(): 64, pa.int32(): 32}


@dataclass(frozen=True)
class LogLines:
    """Parsed lines of several commits or JSON checkpoints, `texts`: one row per line, without blank lines.

    For each of the `rows`, `text` is the index of its text, `line` the number of its line in that text, from 1, and
    `raw` the line itself.
    """

    texts: Sequence[LogText]
    rows: pa.Table
    text: np.ndarray
    line: np.ndarray
    raw: pa.Array

    @property
    def version(self) -> np.ndarray:
        """The commit version of each row."""
        return np.array([text.version for text in self.texts], dtype=np.int64)[self.text]

    def where(self, row: int) -> str:
        """Return the file and line of a row, for messages."""
        return self.texts[self.text[row]].place(int(self.line[row]))


def parse_log_texts(texts: Iterable[LogText], schema: pa.Schema, loose: frozenset[str] = frozenset()) -> list[LogLines]:
    """Parse the lines of log texts; each `LogLines` of the result has at most `_MOST_LINES` of them.

    Fields outside the schema are ignored, and missing ones are null. A number or boolean where the schema has text is
    an error, except in and below the fields `loose`. Raises `CorruptMetadata`, with file and line, for a line that is
    not a JSON object of these types, and for an empty text.
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
        parse_lines(LogLines(texts, schema.empty_table(), text[part], line[part], raw[part]), schema, loose)
        for part in (slice(at, at + _MOST_LINES) for at in range(0, len(raw), _MOST_LINES))
    ]


def parse_lines(lines: LogLines, schema: pa.Schema, loose: frozenset[str]) -> LogLines:
    """Return `lines` with `rows` parsed from their `raw` text, like `parse_log_texts`; existing rows are ignored."""
    _check_utf8(lines)
    content = _bytes_of(lines.raw)
    if _begin_as_objects(lines.raw, content):
        rows = _parse_by_arrow(content, schema)
        if rows is not None and rows.num_rows == len(lines.raw):
            return LogLines(lines.texts, rows, lines.text, lines.line, lines.raw)
    return _parse_in_python(lines, schema, loose)


def _bytes_of(raw: pa.Array) -> pa.Buffer:
    """Return the lines as one buffer, without a copy."""
    offsets = np.frombuffer(raw.buffers()[1], np.int64)[raw.offset : raw.offset + len(raw) + 1]
    start, stop = int(offsets[0]), int(offsets[-1])
    return raw.buffers()[2].slice(start, stop - start)


def _begin_as_objects(raw: pa.Array, content: pa.Buffer) -> bool:
    """Return whether each line starts with `{`: if Arrow then finds as many rows as lines, each row is one line."""
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
                raise CorruptMetadata(f"{lines.where(row)} is not valid JSON: {fault}. {ADVICE}") from error


def _parse_by_arrow(text: pa.Buffer, schema: pa.Schema) -> pa.Table | None:
    """Parse JSON lines with Arrow's reader; return None if it rejects them."""
    if not len(text):
        return schema.empty_table()
    # A block must hold a whole line; only lines longer than a block need the second attempt.
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


def _parse_in_python(lines: LogLines, schema: pa.Schema, loose: frozenset[str]) -> LogLines:
    """Parse line by line with Python's parser: slow, but accepts all of JSON."""
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
    """A value does not have the type that the schema requires."""


def _members(node: dict[str, Any], fields: Iterable[pa.Field], path: str, loose: frozenset[str]) -> dict[str, Any]:
    fields = tuple(fields)
    if isinstance(node, RepeatedMember) and any(field.name in node for field in fields):
        raise _Unfit(f"{path.rstrip('.') or 'the line'} has a member more than once")
    return {f.name: _convert_value(node.get(f.name), f.type, path + f.name, loose) for f in fields}


def _convert_value(value: Any, kind: pa.DataType, path: str, loose: frozenset[str]) -> Any:
    """Convert a parsed JSON value for the Arrow type `kind`; raises `_Unfit`.

    `path` is the dotted name of the value, and `loose` are fields as in `parse_log_texts`.
    """
    if value is None:
        return None
    converted: Any = None
    if pa.types.is_struct(kind):
        converted = _members(value, kind, f"{path}.", loose) if isinstance(value, dict) else None
    elif pa.types.is_string(kind):
        converted = _text(value, path, loose)
    elif kind in _INTS:
        number = as_long(value)
        converted = number if number is not None and -number - 1 < 1 << (_INTS[kind] - 1) > number else None
    elif isinstance(value, bool):
        converted = value
    if converted is None:
        raise _Unfit(f"{path} is {short_json(value)}; expected {_describe_type(kind)}")
    return converted


def _text(value: Any, path: str, loose: frozenset[str]) -> str | None:
    if not isinstance(value, str):
        is_loose = not loose.isdisjoint(path.split(".")[:2]) and not isinstance(value, list)
        return json.dumps(value) if is_loose else None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value


def _describe_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return "an object"
    if kind in _INTS:
        return f"a {_INTS[kind]}-bit whole number"
    return "true or false" if pa.types.is_boolean(kind) else "text"


def parse_json_texts(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    """Parse each JSON text into a row; a text that is null or does not fit the schema becomes a row of nulls."""
    filled = pc.fill_null(texts, "{}").cast(pa.string())
    if pc.all(pc.starts_with(filled, "{"), min_count=0).as_py():
        joined = pc.binary_join(pa.ListArray.from_arrays([0, len(filled)], filled), "\n")
        table = _parse_by_arrow(joined.buffers()[2] or pa.py_buffer(b""), schema)
        if table is not None and table.num_rows == len(texts):
            return table
    rows = [_parse_one(text, schema) for text in filled.to_pylist()]
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.Table.from_pylist([_valid_or_empty(row, schema) for row in rows], schema=schema)


def _parse_one(text: str, schema: pa.Schema) -> dict[str, Any]:
    try:
        node = parse_json(text, "", parse_float=_exact)
    except CorruptMetadata:
        return {}
    return _coerce_members(node, schema) if isinstance(node, dict) else {}


def _exact(text: str) -> Decimal | float:
    """Return a JSON number as a `Decimal`, since a float would round it; as a float if its exponent is too large."""
    try:
        return Decimal(text)
    except ArithmeticError:
        return float(text)


def _coerce_members(node: dict[str, Any], fields: Iterable[pa.Field]) -> dict[str, Any]:
    """Return the schema's fields of an object, coerced to its types where possible, such as numbers to text."""
    members = {}
    for field in fields:
        value = node.get(field.name)
        if isinstance(value, Decimal) and not pa.types.is_decimal(field.type):
            value = float(value)
        if pa.types.is_struct(field.type):
            value = _coerce_members(value, field.type) if isinstance(value, dict) else None
        elif pa.types.is_string(field.type) and value is not None and not isinstance(value, str):
            value = json.dumps(value, default=float)
        elif pa.types.is_integer(field.type) and isinstance(value, float) and abs(value) >= _MOST_EXACT:
            value = None  # the double may not be the exact number
        elif pa.types.is_decimal(field.type) and isinstance(value, int) and not isinstance(value, bool):
            value = Decimal(value)
        members[field.name] = value
    return members


def _valid_or_empty(row: dict[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """Return the row if its values have the schema's types, else an empty row."""
    try:
        pa.Table.from_pylist([row], schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return {}
    return row
