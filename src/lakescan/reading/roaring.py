"""Deletion vectors: the serialised bitmap both formats share, to sorted row positions.

The blob is a 4-byte big-endian length, then the magic number and the bitmaps, then a 4-byte big-endian CRC-32 of
magic and bitmaps (Puffin specification, `deletion-vector-v1`; Delta protocol, "Deletion Vector Format"). Inline
Delta vectors have neither length nor CRC. The bitmaps are portable 64-bit roaring.
"""

from __future__ import annotations

import zlib

import numpy as np
import pyroaring

from lakescan.errors import CorruptMetadata

_MAGIC = 1681511377


def decode_framed(blob: bytes, where: str) -> np.ndarray:
    """Positions (ascending, int64) from a blob with length and CRC; raises `CorruptMetadata` where they disagree."""
    if len(blob) < 12:
        raise CorruptMetadata(f"the deletion vector at {where} has {len(blob)} bytes: it is cut off")
    length = int.from_bytes(blob[:4], "big")
    body, crc = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if len(body) != length or len(crc) != 4:
        raise CorruptMetadata(f"the deletion vector at {where} says {length} bytes and has {len(blob) - 8}")
    if zlib.crc32(body) != int.from_bytes(crc, "big"):
        raise CorruptMetadata(f"the deletion vector at {where} fails its CRC-32: the file is damaged")
    return decode_bitmaps(body, where)


def decode_bitmaps(body: bytes, where: str) -> np.ndarray:
    """Positions (ascending, int64) from magic number and bitmaps."""
    if len(body) < 12 or int.from_bytes(body[:4], "little") != _MAGIC:
        raise CorruptMetadata(f"the deletion vector at {where} does not start with its magic number")
    try:
        bitmap = pyroaring.BitMap64.deserialize(body[4:])
    except ValueError as error:
        raise CorruptMetadata(f"the deletion vector at {where} is not a roaring bitmap: {error}") from error
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64)
