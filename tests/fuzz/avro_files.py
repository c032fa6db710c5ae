"""Rewrite manifests and manifest lists with an unexpected value, field, type or codec."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro

_MARKER = bytes(16)
_NUMBERS = [0, 1, 2, 7, -1, 2**31 - 1, 2**40, 2**62, -(2**62)]


def change(rng: random.Random, path: Path) -> str:
    """Change a manifest or a manifest list and return a description of the change."""
    schema, header, records = _read(path)
    how = rng.choice(
        ["value", "value", "value", "null", "drop-field", "rename-field", "id", "repeat", "none", "header", "frame"]
    )
    if how == "frame":
        return _frame(rng, path)
    told = how
    if how in ("value", "null"):
        holder, key = rng.choice([p for r in records for p in _places(r)])
        old = holder[key]
        holder[key] = None if how == "null" else rng.choice(_NUMBERS) if isinstance(old, int) else _other(rng, old)
        told = f"{key} {str(old)[:20]} becomes {str(holder[key])[:20]}"
        _make_optional(schema)
    elif how in ("drop-field", "rename-field", "id"):
        record = rng.choice([r for r in _records_of(schema) if r["fields"]])
        at = rng.randrange(len(record["fields"]))
        told = f"{how} {record['fields'][at]['name']}"
        if how == "id":
            record["fields"][at]["field-id"] = rng.choice([0, 1, 100, 101, 134, 500, 999])
        elif how == "drop-field":
            del record["fields"][at]
        else:
            _rename(records, record["fields"][at]["name"])
            record["fields"][at]["name"] += "_x"
    elif how == "repeat":
        records = records * 2
    elif how == "none":
        records = []
    elif how == "header" and header:
        key = rng.choice(sorted(header))
        header[key] = rng.choice(["", "{", "[]", "7", "deletes", "data", "x" * 9])
        told = f"header {key} is {header[key]!r}"
    try:
        _write(path, schema, header, records)
    except Exception as error:
        return f"nothing ({told}: {error!r})"
    return told


def set_path(rng: random.Random, folder: Path, new: str) -> str:
    """Give an entry of a manifest or manifest list another path."""
    path = rng.choice(sorted(folder.glob("metadata/*.avro")))
    schema, header, records = _read(path)
    each = rng.choice(records)
    holder = each.get("data_file", each)
    name = "file_path" if "file_path" in holder else "manifest_path"
    holder[name] = new
    try:
        _write(path, schema, header, records)
    except UnicodeEncodeError:
        holder[name] = "x"
        _write(path, schema, header, records)
    return f"{name} of {path.name}"


def container(schema: bytes, count: int, block: bytes, codec: bytes = b"null", size: int | None = None) -> bytes:
    """Return an Avro file of one block, whose declared count and size may be wrong."""
    pairs = b"".join(_sized(k) + _sized(v) for k, v in ((b"avro.schema", schema), (b"avro.codec", codec)))
    head = b"Obj\x01" + _long(2) + pairs + b"\x00" + _MARKER
    return head + _long(count) + _long(len(block) if size is None else size) + block + _MARKER


def schema_of(path: Path) -> bytes:
    """Return the schema in a file's header, as text."""
    return json.dumps(_read(path)[0]).encode()


def _frame(rng: random.Random, path: Path) -> str:
    count, size = rng.choice([(2**62, None), (-1, None), (10, 2**40), (10**9, None), (1, -5)])
    path.write_bytes(container(schema_of(path), count, bytes(rng.choice([0, 64])), size=size))
    return f"a block of {count} records and {size} bytes"


def _read(path: Path) -> tuple[Any, dict[str, str], list[Any]]:
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    return json.loads(reader.metadata["avro.schema"]), header, list(reader)


def _write(path: Path, schema: Any, header: dict[str, str], records: list[Any]) -> None:
    out = io.BytesIO()
    parsed = fastavro.parse_schema(schema)
    fastavro.writer(out, parsed, records, codec="deflate", metadata=header, sync_marker=_MARKER)
    path.write_bytes(out.getvalue())


def _other(rng: random.Random, old: Any) -> Any:
    if isinstance(old, str):
        return rng.choice(["", "x", old + "x", "x" * 5000, "../x", "PUFFIN", "orc"])
    if isinstance(old, bytes):
        return rng.choice([b"", old[:-1], old + b"x", b"\xff" * 9])
    return rng.choice([None, [], old])


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    children = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in children:
        yield node, key
        yield from _places(value)


def _records_of(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("type") == "record":
            yield node
        for value in node.values():
            yield from _records_of(value)
    elif isinstance(node, list):
        for each in node:
            yield from _records_of(each)


def _make_optional(schema: Any) -> None:
    """Make each field nullable and each number a long."""
    for record in _records_of(schema):
        for each in record["fields"]:
            kind = "long" if each["type"] == "int" else each["type"]
            each["type"] = kind if isinstance(kind, list) else ["null", kind]


def _rename(records: list[Any], name: str) -> None:
    for record in records:
        for holder in (record, record.get("data_file")):
            if isinstance(holder, dict) and name in holder:
                holder[name + "_x"] = holder.pop(name)


def _sized(value: bytes) -> bytes:
    return _long(len(value)) + value


def _long(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
