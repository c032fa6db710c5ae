"""Vectorised conversion of UUIDs to text and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_TEXT = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_DIGITS = np.zeros(256, dtype=np.uint8)  # the value of each character
_DIGITS[np.frombuffer(b"0123456789abcdefABCDEF", dtype=np.uint8)] = [*range(16), *range(10, 16)]


def uuid_texts(packed: pa.Array) -> pa.Array:
    """Format an Arrow array of 16-byte binaries as UUID texts of 36 lower-case characters; nulls stay null."""
    filled = packed.fill_null(bytes(16))
    raw = np.frombuffer(filled.buffers()[1], np.uint8, count=len(filled) * 16, offset=filled.offset * 16)
    texts = format_uuids(raw.reshape(-1, 16))
    return pc.if_else(packed.is_valid(), texts, pa.scalar(None, pa.string()))


def parse_uuids(texts: pa.Array) -> pa.Array:
    """Parse UUID texts of 36 characters into an Arrow array of 16-byte binaries; nulls stay null.

    Raises `pa.ArrowInvalid` for a text that is not a UUID.
    """
    is_uuid = pc.fill_null(pc.match_substring_regex(texts, _TEXT), True)
    if not pc.all(is_uuid).as_py():
        raise pa.ArrowInvalid(f"{texts.filter(pc.invert(is_uuid))[0].as_py()!r} is not a UUID")
    plain = pc.replace_substring(pc.fill_null(texts, "0" * 32), "-", "").cast(pa.binary()).cast(pa.binary(32))
    raw = np.frombuffer(plain.buffers()[1], np.uint8, count=len(plain) * 32, offset=plain.offset * 32)
    digits = _DIGITS[raw.reshape(-1, 2)]
    data = pa.py_buffer(np.ascontiguousarray(digits[:, 0] << 4 | digits[:, 1]).tobytes())
    packed = pa.Array.from_buffers(pa.binary(16), len(texts), [None, data])
    return pc.if_else(texts.is_valid(), packed, pa.scalar(None, pa.binary(16))) if texts.null_count else packed


def format_uuids(packed: np.ndarray) -> pa.Array:
    """Format the rows of a NumPy array with 16 bytes each as an Arrow array of UUID texts of 36 characters."""
    text = np.stack([_HEX[packed >> 4], _HEX[packed & 15]], axis=-1).reshape(-1, 32)
    dash = np.full((len(text), 1), ord("-"), dtype=np.uint8)
    parts = [text[:, :8], dash, text[:, 8:12], dash, text[:, 12:16], dash, text[:, 16:20], dash, text[:, 20:]]
    joined = pa.py_buffer(np.ascontiguousarray(np.concatenate(parts, axis=1)).tobytes())
    return pa.Array.from_buffers(pa.binary(36), len(text), [None, joined]).cast(pa.binary()).cast(pa.string())
