"""Deletion vectors: loads them, checks their recorded cardinality and row count, decodes and encodes their bitmaps."""

from __future__ import annotations

import array
import zlib
from collections.abc import Iterator, Sequence

import numpy as np
from pyroaring import BitMap64

from lakescan import limits
from lakescan.errors import CorruptData, CorruptMetadata, LimitExceeded
from lakescan.planning.delete_files import DeleteFile
from lakescan.reading.decoding_errors import decoding
from lakescan.storage import Storage
from lakescan.storage.encrypted_files import key_of, read_part
from lakescan.storage.errors import redact


def load_vector(storage: Storage, delete: DeleteFile) -> BitMap64:
    """Load the positions of deleted rows in a deletion vector: a blob in a file, or inline in the metadata.

    Raises `CorruptMetadata` if it cannot be decoded or its cardinality differs from the recorded one; `StorageError`;
    `UnsupportedFeature` if it is encrypted and a key manager is missing; `LimitExceeded` if it is larger than
    `limits.VECTOR`.
    """
    if delete.inline is not None:
        where = "an inline deletion vector"
        vector = decode_bitmaps(delete.inline, where)
    else:
        where = f"{redact(delete.location)} (offset {delete.offset})"
        with decoding(delete.location, "its deletion vector"):
            vector = _read_vector(storage, delete, where)
    if delete.record_count is not None and len(vector) != delete.record_count:
        raise CorruptMetadata(
            f"{where} deletes {len(vector)} rows, but the metadata records {delete.record_count}: "
            "it is the wrong vector, or damaged"
        )
    return vector


def _read_vector(storage: Storage, delete: DeleteFile, where: str) -> BitMap64:
    path = delete.location
    if delete.length is None or delete.offset is None:
        raise CorruptMetadata(f"the deletion vector at {where} has no recorded offset and length")
    if delete.length > limits.VECTOR:
        raise LimitExceeded(
            f"the deletion vector at {where} has {delete.length:,} bytes by its metadata, and the limit is "
            f"{limits.VECTOR:,}. If the size is legitimate, raise lakescan.limits.VECTOR."
        )
    key = key_of(storage, path, delete.key_metadata, "deletion vectors")
    return decode_framed(read_part(storage, path, key, delete.offset, delete.length), where)


def check_vector_rows(vector: BitMap64, path: str, rows: int | None) -> BitMap64:
    """Return the vector; raise `CorruptData` if it deletes rows past the end of the data file `path`.

    `rows` is the file's row count. If it was not recorded (None, or -1), the limit is `limits.ROWS`.
    """
    known = limits.ROWS if rows is None or rows < 0 else rows
    if vector and vector.max() >= known:
        most = "at most " if known != rows else ""
        raise CorruptData(
            f"{redact(path)} has {most}{known:,} rows, but its deletion vector deletes row {vector.max():,}: it "
            "belongs "
            "to another file, or is damaged. Restore the vector's file, or the metadata that references it."
        )
    return vector


# The blob is a 4-byte big-endian length, the magic number and bitmaps, and a 4-byte big-endian CRC-32 of magic and
# bitmaps (Puffin specification, `deletion-vector-v1`; Delta protocol, "Deletion Vector Format"). Inline Delta vectors
# have neither length nor CRC. The bitmaps are portable 64-bit roaring.

MAGIC = 1681511377
_WORDS = 1 << 16
_BITMAP = 200  # approximate bytes of an empty bitmap


def decode_framed(blob: bytes, where: str) -> BitMap64:
    """Decode the blob of a deletion vector in a file: length, magic number, bitmap, CRC-32.

    `where` names the vector in messages. Raises `CorruptMetadata` if the blob is damaged.
    """
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
    """Decode an inline deletion vector: the magic number, and a portable 64-bit Roaring bitmap.

    `where` names the vector in messages. Raises `CorruptMetadata`.
    """
    if len(body) < 12 or int.from_bytes(body[:4], "little") != MAGIC:
        raise CorruptMetadata(f"the deletion vector at {where} does not start with its magic number")
    try:
        return BitMap64.deserialize(body[4:])
    except ValueError as error:
        raise CorruptMetadata(f"the deletion vector at {where} is not a roaring bitmap: {error}") from error


def bitmap_of(positions: np.ndarray) -> BitMap64:
    """Return a bitmap of non-negative positions, which may be in any order, with duplicates."""
    return BitMap64(array.array("Q", np.ascontiguousarray(positions, dtype=np.uint64).tobytes()))


def positions_in_range(bitmap: BitMap64, first: int, rows: int) -> np.ndarray:
    """Return the positions in [first, first + rows), ascending and relative to `first`, as 64-bit integers.

    Memory is bounded by the range.
    """
    positions = (bitmap & BitMap64(range(first, first + rows))).to_array()
    result: np.ndarray = np.frombuffer(positions, dtype=np.uint64).astype(np.int64) - first
    return result


def words_of(bitmap: BitMap64) -> Iterator[np.ndarray]:
    """Yield the bitmap as arrays of 64-bit words, lowest bit first, up to its last position; nothing if it is empty."""
    if not bitmap:
        return
    count = bitmap.max() // 64 + 1
    for start in range(0, count, _WORDS):
        length = min(_WORDS, count - start)
        bits = np.zeros(length * 64, dtype=bool)
        bits[positions_in_range(bitmap, start * 64, length * 64)] = True
        yield np.packbits(bits, bitorder="little").view("<i8")


def union_bitmaps(bitmaps: Sequence[BitMap64]) -> BitMap64:
    """Return the union of bitmaps: a new one, or the bitmap itself if there is only one. Empty without any."""
    if len(bitmaps) == 1:
        return bitmaps[0]
    return BitMap64.union(*bitmaps) if bitmaps else BitMap64()


def size_of(bitmap: BitMap64) -> int:
    """Return the approximate number of bytes that a bitmap takes in memory."""
    stats = bitmap.get_statistics()
    containers = (
        stats["n_bytes_array_containers"] + stats["n_bytes_run_containers"] + stats["n_bytes_bitset_containers"]
    )
    return _BITMAP + int(containers)


_KEYS = 2**63  # positions are signed in Java


def encode_bitmaps(bitmap: BitMap64) -> bytes:
    """Return an inline deletion vector: the magic number and the portable 64-bit Roaring bitmap, compressed.

    Raises `LimitExceeded` for positions from 2**63 on, and for more than `limits.VECTOR` bytes, which readers refuse.
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
    """Return the blob of a deletion vector for a file: length, `encode_bitmaps`, CRC-32; raises `LimitExceeded`."""
    body = encode_bitmaps(bitmap)
    return len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
