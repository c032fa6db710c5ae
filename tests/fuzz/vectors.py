"""Deletion vectors with a valid length and checksum around a bitmap that is invalid or belongs to another file."""

from __future__ import annotations

import io
import json
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import fastavro
from samples.delta_deletes import encode_z85

_MAGIC = (1681511377).to_bytes(4, "little")
_NO_RUNS, _RUNS = 12346, 12347


def change(rng: random.Random, folder: Path, *, is_delta: bool) -> str:
    """Give a data file a crafted vector and return a description."""
    name = rng.choice(sorted(_BITMAPS))
    bitmaps, cardinality = _BITMAPS[name]
    body = _MAGIC + (bitmaps(rng) if callable(bitmaps) else bitmaps)
    said = rng.choice([cardinality, cardinality, cardinality, cardinality + 1, -1, 2**31, 2**62])
    length = rng.choice([len(body)] * 4 + [len(body) + 1, -1, 2**31 - 9, 2**40])
    if is_delta:
        _in_commit(folder, body, said, length, inline=rng.random() < 0.5)
    else:
        _in_puffin(folder, body, said, length)
    return f"{name}, said to be {said} rows and {length} bytes"


def _in_commit(folder: Path, body: bytes, said: int, length: int, *, inline: bool) -> None:
    path = max(folder.glob("_delta_log/*.json"))
    nodes = [json.loads(line) for line in path.read_text().splitlines()]
    vector = next(n["add"]["deletionVector"] for n in nodes if "add" in n)
    vector |= {"cardinality": said, "sizeInBytes": length}
    if inline:
        vector |= {"storageType": "i", "pathOrInlineDv": encode_z85(body)}
        vector.pop("offset", None)
    else:
        next(folder.glob("*.bin")).write_bytes(b"\x01" + _framed(body))
    path.write_text("".join(json.dumps(n) + "\n" for n in nodes))


def _in_puffin(folder: Path, body: bytes, said: int, length: int) -> None:
    next(folder.glob("data/*.puffin")).write_bytes(b"PFA1" + _framed(body))
    manifest = folder / "metadata/m1.avro"
    reader = fastavro.reader(io.BytesIO(manifest.read_bytes()))
    header = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    records: list[Any] = list(reader)
    records[0]["data_file"] |= {"record_count": said, "content_offset": 4, "content_size_in_bytes": length + 8}
    out = io.BytesIO()
    fastavro.writer(out, json.loads(reader.metadata["avro.schema"]), records, metadata=header, sync_marker=bytes(16))
    manifest.write_bytes(out.getvalue())


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")


def _bitmap(containers: list[tuple[int, str, Any]], said: int | None = None, cardinality: int | None = None) -> bytes:
    """Return a 32-bit bitmap. A container is a key, `array`, `bits` or `runs`, and its values, 8,192 bytes or pairs."""
    runs = any(kind == "runs" for _, kind, _ in containers)
    count = len(containers) if said is None else said
    flags = bytes((count + 7) // 8 - 1) + b"\xff" if runs else b""
    head = (
        struct.pack("<I", _RUNS | ((count - 1) & 0xFFFF) << 16) + flags if runs else struct.pack("<II", _NO_RUNS, count)
    )
    keys, bodies = b"", []
    for key, kind, values in containers:
        if kind == "array":
            rows, body = len(values), struct.pack(f"<{len(values)}H", *values)
        elif kind == "bits":
            rows, body = 5000, values
        else:
            rows = sum(length + 1 for _, length in values)
            body = struct.pack("<H", len(values)) + b"".join(struct.pack("<HH", *pair) for pair in values)
        keys += struct.pack("<HH", key, ((cardinality or rows) - 1) & 0xFFFF)
        bodies.append(body)
    offsets, at = b"", len(head) + len(keys) + 4 * len(bodies)
    for body in bodies:
        offsets += struct.pack("<I", at)
        at += len(body)
    return head + keys + (offsets if not runs or count >= 4 else b"") + b"".join(bodies)


def _bitmaps(parts: list[tuple[int, bytes]], said: int | None = None) -> bytes:
    count = (len(parts) if said is None else said) & (2**64 - 1)
    return struct.pack("<Q", count) + b"".join(struct.pack("<I", key) + each for key, each in parts)


_ONE = _bitmap([(0, "array", [0])])
_FULL = _bitmap([(key, "runs", [(0, 65535)]) for key in range(8)])
_BITMAPS: dict[str, tuple[Any, int]] = {
    "one row": (_bitmaps([(0, _ONE)]), 1),
    "rows that the file lacks": (_bitmaps([(0, _bitmap([(9, "array", [0, 1])]))]), 2),
    "a row of 63 bits": (_bitmaps([(2**31 - 1, _ONE)]), 1),
    "a row of 64 bits": (_bitmaps([(2**32 - 1, _ONE)]), 1),
    "more bitmaps said": (_bitmaps([(0, _ONE)], 2**32), 1),
    "fewer bitmaps said": (_bitmaps([(0, _ONE)], 0), 0),
    "bitmaps without number": (_bitmaps([(0, _ONE)], -1), 1),
    "a key twice": (_bitmaps([(0, _ONE), (0, _bitmap([(0, "array", [1])]))]), 2),
    "keys that descend": (_bitmaps([(1, _ONE), (0, _ONE)]), 2),
    "rows out of order": (_bitmaps([(0, _bitmap([(0, "array", [3, 1, 2])]))]), 3),
    "a row three times": (_bitmaps([(0, _bitmap([(0, "array", [1, 1, 1])]))]), 3),
    "an array that says more": (_bitmaps([(0, _bitmap([(0, "array", [1, 2])], cardinality=4))]), 4),
    "containers of one key": (_bitmaps([(0, _bitmap([(0, "array", [0]), (0, "array", [1])]))]), 2),
    "runs that overlap": (_bitmaps([(0, _bitmap([(0, "runs", [(0, 5), (3, 5)])]))]), 12),
    "a run past the end": (_bitmaps([(0, _bitmap([(0, "runs", [(65530, 100)])]))]), 101),
    "half a million rows": (_bitmaps([(0, _FULL)]), 8 * 65536),
    "four million rows": (_bitmaps([(key, _FULL) for key in range(8)]), 64 * 65536),
    "bits that say otherwise": (_bitmaps([(0, _bitmap([(0, "bits", bytes(8192))]))]), 5000),
    "more containers said": (_bitmaps([(0, _bitmap([(0, "array", [0])], said=2**31))]), 1),
    "more behind it": (_bitmaps([(0, _ONE)]) + b"\x01" * 9, 1),
    "a cut end": (_bitmaps([(0, _ONE)])[:-1], 1),
    "no bitmap": (_bitmaps([]), 0),
    "another cookie": (_bitmaps([(0, bytes(16))]), 1),
    "noise": (lambda rng: _bitmaps([(0, rng.randbytes(rng.randrange(4, 60)))]), 1),
}
