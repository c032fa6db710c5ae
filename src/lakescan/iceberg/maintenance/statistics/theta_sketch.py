"""Theta sketches: an estimate of how many distinct values there are, from the least of their hashes.

The bytes are those of a compact, ordered sketch of Apache DataSketches (serial version 3), which Iceberg's blobs of
type `apache-datasketches-theta-v1` hold: engines read them, and unite them with their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lakescan.errors import CorruptData
from lakescan.iceberg.maintenance.statistics.murmur import Numbers

SEED = 9001  # of DataSketches
MOST = 4096  # hashes that a sketch holds: a standard error of 1.6%
_ALL = 2**63 - 1  # the bound of a sketch that holds all hashes
_SERIAL, _COMPACT = 3, 3
_SEED_HASH = b"\xcc\x93"  # of `SEED`
_READ_ONLY, _EMPTY, _IS_COMPACT, _ORDERED, _SINGLE = 2, 4, 8, 16, 32


@dataclass(frozen=True)
class ThetaSketch:
    """The hashes below `bound`, ascending: all hashes of the values, or the least `MOST` of them.

    Hashes have 63 bits. Sketches of the same values are equal, in whatever parts they were added.

    Example:
        >>> ThetaSketch().with_hashes(hashes_of(values, field)).estimate
        3
    """

    hashes: Numbers = field(default_factory=lambda: np.zeros(0, np.uint64))
    bound: int = _ALL

    def add_hashes(self, hashes: Numbers) -> ThetaSketch:
        """The sketch of these values, too, by their hashes in any order."""
        new = hashes[hashes < np.uint64(self.bound)]
        return self if not len(new) else self._keep_least(np.concatenate([self.hashes, new]), self.bound)

    def union(self, other: ThetaSketch) -> ThetaSketch:
        """The sketch of the values of both."""
        return self._keep_least(np.concatenate([self.hashes, other.hashes]), min(self.bound, other.bound))

    @staticmethod
    def _keep_least(hashes: Numbers, bound: int) -> ThetaSketch:
        least = np.unique(hashes[hashes < np.uint64(bound)])
        if len(least) <= MOST:
            return ThetaSketch(least, bound)
        return ThetaSketch(least[:MOST], int(least[MOST]))

    @property
    def estimate(self) -> int:
        """How many distinct values there are; exact up to `MOST`."""
        return int(len(self.hashes) * (float(_ALL) / float(self.bound)))  # rounded as in Java

    def serialize(self) -> bytes:
        """The bytes of the sketch."""
        count, is_exact = len(self.hashes), self.bound == _ALL
        flags = _READ_ONLY | _IS_COMPACT | _ORDERED
        if is_exact and not count:
            return bytes([1, _SERIAL, _COMPACT, 0, 0, flags | _EMPTY, 0, 0])
        body = self.hashes.astype("<u8").tobytes()
        if is_exact and count == 1:
            return bytes([1, _SERIAL, _COMPACT, 0, 0, flags | _SINGLE]) + _SEED_HASH + body
        head = bytes([2 if is_exact else 3, _SERIAL, _COMPACT, 0, 0, flags]) + _SEED_HASH
        counted = count.to_bytes(4, "little") + np.float32(1).tobytes()
        return head + counted + (b"" if is_exact else self.bound.to_bytes(8, "little")) + body

    @staticmethod
    def parse(data: bytes) -> ThetaSketch:
        """Read the bytes of a compact, ordered sketch of this seed; raises `CorruptData` for others."""
        longs = data[0] & 0x3F if len(data) >= 8 else 0
        if longs not in (1, 2, 3) or data[1] != _SERIAL or data[2] != _COMPACT or not data[5] & _ORDERED:
            raise CorruptData("a Theta sketch is not a compact, ordered one of serial version 3")
        if data[5] & _EMPTY:
            return ThetaSketch()
        if data[6:8] != _SEED_HASH:
            raise CorruptData("a Theta sketch has another seed than 9001")
        count = 1 if longs == 1 else int.from_bytes(data[8:12], "little")
        bound = _ALL if longs < 3 else int.from_bytes(data[16:24], "little")
        if len(data) < 8 * (longs + count):
            raise CorruptData("a Theta sketch is truncated")
        return ThetaSketch(np.frombuffer(data, "<u8", count, 8 * longs).astype(np.uint64), bound)
