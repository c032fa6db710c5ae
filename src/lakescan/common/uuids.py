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
