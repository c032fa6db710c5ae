"""Change the files that a table's metadata references, to imitate tables of other writers."""

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
    """Rewrite an Avro file: change its records in place, and set members of its header or remove them (None)."""
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
    """Remove the blocks of an Avro file; the result is still a valid file."""
    marker = fastavro.block_reader(io.BytesIO(path.read_bytes()))._header["sync"]
    data = path.read_bytes()
    path.write_bytes(data[: data.index(marker) + len(marker)])


def avro_file(schema: str, count: int, block: bytes, codec: str = "null") -> bytes:
    """Return an Avro file of one block with the given count, valid or not."""
    pairs = [(b"avro.schema", schema.encode()), (b"avro.codec", codec.encode())]
    header = b"".join(avro_number(len(k)) + k + avro_number(len(v)) + v for k, v in pairs)
    marker = b"0123456789abcdef"
    blocks = avro_number(count) + avro_number(len(block)) + block + marker
    return b"Obj\x01" + avro_number(len(pairs)) + header + b"\x00" + marker + blocks


def avro_number(value: int) -> bytes:
    """Encode a number as in Avro: zigzag, seven bits per byte."""
    value, found = (value << 1) ^ (value >> 63), bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
