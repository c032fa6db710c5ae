"""The Murmur3 hash, by which Iceberg numbers buckets, spreads files over folders and hides literals in reports."""

from __future__ import annotations

_MASK = 0xFFFFFFFF


def murmur3(data: bytes) -> int:
    """The Murmur3 hash of bytes, as a signed 32-bit integer."""
    state = 0
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        state ^= _scramble(int.from_bytes(data[at : at + 4], "little"))
        state = (_rotate(state, 13) * 5 + 0xE6546B64) & _MASK
    state ^= _scramble(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = ((state ^ state >> 16) * 0x85EBCA6B) & _MASK
    state = ((state ^ state >> 13) * 0xC2B2AE35) & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _scramble(block: int) -> int:
    return _rotate(block * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _MASK
