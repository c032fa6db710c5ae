"""MurmurHash3 (x64, 128 bits) of many byte strings at once: what Theta sketches hash values by.

One pass of NumPy for each 16 bytes of the longest string, over the strings that are as long.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.uint64]
_BLOCK = 16
_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_N1, _N2, _FIVE = np.uint64(0x52DCE729), np.uint64(0x38495AB5), np.uint64(5)
_F1, _F2, _HALF = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(33)
# The bits of the first 0 to 8 bytes of a little-endian word.
_FIRST = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


def hashes(
    data: bytes | memoryview, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], seed: int
) -> Numbers:
    """Return the first 64 bits of the hash of each string: `lengths` bytes of `data` from `starts` on."""
    padded = np.frombuffer(bytes(data) + bytes(_BLOCK), np.uint8)
    # The word that begins at each byte.
    words: Numbers = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    order = np.argsort(-(lengths // _BLOCK), kind="stable")
    starts, lengths = starts[order], lengths[order]
    one, two = np.full(len(starts), seed, np.uint64), np.full(len(starts), seed, np.uint64)
    blocks = lengths // _BLOCK
    active = len(starts)
    for block in range(int(blocks.max(initial=0))):
        active = int(np.searchsorted(-blocks[:active], -block))  # the strings with more blocks than this come first
        at = starts[:active] + block * _BLOCK
        one[:active], two[:active] = _mix(one[:active], two[:active], words[at], words[at + 8])
    at, left = starts + blocks * _BLOCK, lengths % _BLOCK
    first = words[at] & _FIRST[np.minimum(left, 8)]
    second = words[at + 8] & _FIRST[np.maximum(left - 8, 0)]
    found = np.empty(len(starts), np.uint64)
    found[order] = _finish(one, two, first, second, lengths.astype(np.uint64))
    return found


def hashes_of_words(words: Numbers, size: int, seed: int) -> Numbers:
    """Return the same for strings of `size` bytes, at most 8, given as little-endian words."""
    start = np.full(len(words), seed, np.uint64)
    return _finish(start, start, words, np.zeros(1, np.uint64), np.full(1, size, np.uint64))


def _mix(one: Numbers, two: Numbers, first: Numbers, second: Numbers) -> tuple[Numbers, Numbers]:
    one = _rotate_left(one ^ _rotate_left(first * _C1, 31) * _C2, 27) + two
    one = one * _FIVE + _N1
    two = _rotate_left(two ^ _rotate_left(second * _C2, 33) * _C1, 31) + one
    return one, two * _FIVE + _N2


def _finish(one: Numbers, two: Numbers, first: Numbers, second: Numbers, lengths: Numbers) -> Numbers:
    """Mix in the last bytes, which are zero beyond the string, and its length."""
    one = one ^ _rotate_left(first * _C1, 31) * _C2 ^ lengths
    two = two ^ _rotate_left(second * _C2, 33) * _C1 ^ lengths
    one = one + two
    two = two + one
    return _avalanche(one) + _avalanche(two)


def _rotate_left(words: Numbers, bits: int) -> Numbers:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _avalanche(words: Numbers) -> Numbers:
    words = (words ^ (words >> _HALF)) * _F1
    words = (words ^ (words >> _HALF)) * _F2
    return words ^ (words >> _HALF)
