"""Decode deletion vectors, a serialized bitmap that both formats share; convert bitmaps to positions and words.

The blob is a 4-byte big-endian length, the magic number and bitmaps, and a 4-byte big-endian CRC-32 of magic and
bitmaps (Puffin specification, `deletion-vector-v1`; Delta protocol, "Deletion Vector Format"). Inline Delta vectors
have neither length nor CRC. The bitmaps are portable 64-bit roaring.
"""

from __future__ import annotations

import array
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from pyroaring import BitMap64

from lakescan.errors import CorruptMetadata

MAGIC = 1681511377
_WORDS = 1 << 16
_BITMAP = 200  # approximate bytes of an empty bitmap


def decode_framed(blob: bytes, where: str) -> BitMap64:
    """Decode a blob with length and CRC; raises `CorruptMetadata` if they do not match."""
    if len(blob) < 12:
        raise CorruptMetadata(f"the deletion vector at {where} has only {len(blob)} bytes: it is truncated")
    length = int.from_bytes(blob[:4], "big")
    body, crc = blob[4 : 4 + length], blob[4 + length : 8 + length]
    if len(body) != length or len(crc) != 4:
        raise CorruptMetadata(f"the deletion vector at {where} declares {length} bytes but has {len(blob) - 8}")
    if zlib.crc32(body) != int.from_bytes(crc, "big"):
        raise CorruptMetadata(f"the deletion vector at {where} fails its CRC-32: the file is damaged")
    return decode_bitmaps(body, where)


def decode_bitmaps(body: bytes, where: str) -> BitMap64:
    """Decode the magic number and the bitmap after it; raises `CorruptMetadata`."""
    if len(body) < 12 or int.from_bytes(body[:4], "little") != MAGIC:
        raise CorruptMetadata(f"the deletion vector at {where} does not start with its magic number")
    try:
        return BitMap64.deserialize(body[4:])
    except ValueError as error:
        raise CorruptMetadata(f"the deletion vector at {where} is not a roaring bitmap: {error}") from error


def bitmap_of(positions: np.ndarray) -> BitMap64:
    """A bitmap of positions, which may be in any order."""
    return BitMap64(array.array("Q", np.ascontiguousarray(positions, dtype=np.uint64).tobytes()))


def positions_in_range(bitmap: BitMap64, first: int, rows: int) -> np.ndarray:
    """The positions in [first, first + rows), ascending and relative to `first`; memory is bounded by the range."""
    positions = (bitmap & BitMap64(range(first, first + rows))).to_array()
    result: np.ndarray = np.frombuffer(positions, dtype=np.uint64).astype(np.int64) - first
    return result


def words_of(bitmap: BitMap64) -> Iterator[np.ndarray]:
    """The bitmap as 64-bit words, lowest bit first, up to its last position; yielded in chunks."""
    if not bitmap:
        return
    count = bitmap.max() // 64 + 1
    for start in range(0, count, _WORDS):
        length = min(_WORDS, count - start)
        bits = np.zeros(length * 64, dtype=bool)
        bits[positions_in_range(bitmap, start * 64, length * 64)] = True
        yield np.packbits(bits, bitorder="little").view("<i8")


def union_bitmaps(bitmaps: Sequence[BitMap64]) -> BitMap64:
    """The union of bitmaps; the bitmap itself if there is only one."""
    if len(bitmaps) == 1:
        return bitmaps[0]
    return BitMap64.union(*bitmaps) if bitmaps else BitMap64()


def size_of(bitmap: BitMap64) -> int:
    """The approximate bytes of a bitmap in memory."""
    stats = bitmap.get_statistics()
    containers = (
        stats["n_bytes_array_containers"] + stats["n_bytes_run_containers"] + stats["n_bytes_bitset_containers"]
    )
    return _BITMAP + int(containers)
