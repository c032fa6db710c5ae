"""Encode deletion vectors, a serialized bitmap that both formats share; `reading.deletes.roaring` decodes them.

The blob is a 4-byte big-endian length, the magic number and bitmaps, and a 4-byte big-endian CRC-32 of magic and
bitmaps (Puffin specification, `deletion-vector-v1`; Delta protocol, "Deletion Vector Format").
"""

from __future__ import annotations

import zlib

from pyroaring import BitMap64

from lakescan import limits
from lakescan.errors import LimitExceeded
from lakescan.reading.deletes.roaring import MAGIC

_KEYS = 2**63  # the first bit of a position is 0: in Java it would be a sign


def encode_bitmaps(bitmap: BitMap64) -> bytes:
    """The magic number, and the bitmap in the portable 64-bit format with the smallest kind of each container.

    Raises `LimitExceeded` for positions from 2**63 on, and for a vector that readers would refuse as too large.
    """
    if bitmap and bitmap.max() >= _KEYS:
        raise LimitExceeded(f"row {bitmap.max():,} cannot be deleted: positions are below 2**63")
    compact = bitmap.copy()
    compact.run_optimize()
    content: bytes = MAGIC.to_bytes(4, "little") + compact.serialize()
    if len(content) > limits.VECTOR:
        raise LimitExceeded(
            f"a deletion vector of {len(bitmap):,} rows has {len(content):,} bytes, and the limit is "
            f"{limits.VECTOR:,}. Rewrite the file without its deleted rows, or raise lakescan.limits.VECTOR."
        )
    return content


def encode_framed(bitmap: BitMap64) -> bytes:
    """A blob with length and CRC; raises `LimitExceeded` as `encode_bitmaps`."""
    body = encode_bitmaps(bitmap)
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
