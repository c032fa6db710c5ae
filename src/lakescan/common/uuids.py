"""Vectorised formatting of UUIDs as text."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)


def uuid_texts(packed: pa.Array) -> pa.Array:
    """Format UUIDs given as an array of 16-byte binaries; nulls stay null."""
    filled = packed.fill_null(bytes(16))
    raw = np.frombuffer(filled.buffers()[1], np.uint8, count=len(filled) * 16, offset=filled.offset * 16)
    texts = format_uuids(raw.reshape(-1, 16))
    return pc.if_else(packed.is_valid(), texts, pa.scalar(None, pa.string()))


def format_uuids(packed: np.ndarray) -> pa.Array:
    """Format UUIDs given as rows of 16 bytes in their 36-character text form."""
    text = np.stack([_HEX[packed >> 4], _HEX[packed & 15]], axis=-1).reshape(-1, 32)
    dash = np.full((len(text), 1), ord("-"), dtype=np.uint8)
    parts = [text[:, :8], dash, text[:, 8:12], dash, text[:, 12:16], dash, text[:, 16:20], dash, text[:, 20:]]
    joined = pa.py_buffer(np.ascontiguousarray(np.concatenate(parts, axis=1)).tobytes())
    return pa.Array.from_buffers(pa.binary(36), len(text), [None, joined]).cast(pa.binary()).cast(pa.string())


def uuids_of(texts: pa.Array) -> pa.Array:
    """UUIDs of their texts, with or without hyphens; raises `ValueError` for a text that is none."""
    filled = pc.utf8_lower(pc.replace_substring(texts.drop_null(), "-", ""))
    if not pc.all(pc.equal(pc.utf8_length(filled), 32)).as_py() and len(filled):
        wrong = filled.filter(pc.not_equal(pc.utf8_length(filled), 32))[0]
        raise ValueError(f"{wrong.as_py()!r} is no UUID")
    data = pa.py_buffer(bytes.fromhex("".join(filled.to_pylist())))
    values = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(filled), [None, data])
    if not texts.null_count:
        return values
    present = texts.is_valid()
    places = pc.subtract(pc.cumulative_sum(present.cast(pa.int64())), 1)
    return values.take(pc.if_else(present, places, pa.scalar(None, pa.int64())))
