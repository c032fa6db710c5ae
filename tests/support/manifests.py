"""Changing what a table's metadata says of its files, as tables that were written by others have it."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro


def rename_data_files(table: Path, names: dict[str, str]) -> None:
    """Rename data files of a table that `samples.iceberg_table` wrote, in its folder and in its manifest."""
    manifest = table / "metadata" / "m0.avro"
    reader = fastavro.reader(io.BytesIO(manifest.read_bytes()))
    entries = list(reader)
    for entry in entries:
        path = entry["data_file"]["file_path"]
        name = path.rsplit("/", 1)[1]
        if name in names:
            entry["data_file"]["file_path"] = path[: -len(name)] + names[name]
    out = io.BytesIO()
    header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    fastavro.writer(out, reader.writer_schema, entries, metadata=header)
    manifest.write_bytes(out.getvalue())
    for old, new in names.items():
        (table / "data" / old).rename(table / "data" / new)


def rewrite_avro(path: Path, change: Callable[[list[Any]], None] = lambda _: None, **header: str | None) -> None:
    """Write an Avro file anew: its records changed in place, members of its header set, or taken out by None."""
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    records = list(reader)
    change(records)
    found = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    found |= {k.replace("_", "-"): v for k, v in header.items()}
    out = io.BytesIO()
    kept = {k: v for k, v in found.items() if v is not None}
    fastavro.writer(out, reader.writer_schema, records, codec="deflate", metadata=kept)
    path.write_bytes(out.getvalue())


def cut_after_header(path: Path) -> None:
    """Leave an Avro file without its blocks, which is a whole file still."""
    marker = fastavro.block_reader(io.BytesIO(path.read_bytes()))._header["sync"]
    data = path.read_bytes()
    path.write_bytes(data[: data.index(marker) + len(marker)])


def avro_file(schema: str, count: int, block: bytes, codec: str = "null") -> bytes:
    """An Avro file of one block, whatever it says."""
    pairs = [(b"avro.schema", schema.encode()), (b"avro.codec", codec.encode())]
    header = b"".join(avro_number(len(k)) + k + avro_number(len(v)) + v for k, v in pairs)
    marker = b"0123456789abcdef"
    blocks = avro_number(count) + avro_number(len(block)) + block + marker
    return b"Obj\x01" + avro_number(len(pairs)) + header + b"\x00" + marker + blocks


def avro_number(value: int) -> bytes:
    """A number as Avro has it: zigzag, seven bits a byte."""
    value, found = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
