"""Written deletion vectors have the specified layout and can be read back."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakescan import limits
from lakescan.errors import LimitExceeded
from lakescan.reading.deletes.deletion_vectors import (
    bitmap_of,
    decode_bitmaps,
    decode_framed,
    encode_bitmaps,
    encode_framed,
)

RUNS = 12347  # the cookie of bitmaps with run containers; others have one less
POSITIONS = st.one_of(
    st.sets(st.integers(0, 2**63 - 1), max_size=50),  # several buckets
    st.sets(st.integers(0, 200_000), max_size=50),  # arrays
    st.builds(range, st.integers(0, 70_000), st.integers(0, 200_000)),  # runs
    st.builds(range, st.integers(0, 9), st.integers(0, 140_000), st.just(2)),  # bitmaps
)


def positions_of(body: bytes) -> Iterator[int]:
    """Yield the positions in a bitmap, decoded only by the format's specification."""
    magic, buckets = struct.unpack_from("<IQ", body)
    assert magic == 1681511377
    at = 12
    for _ in range(buckets):
        (high,) = struct.unpack_from("<I", body, at)
        low, at = _bucket(body, at + 4)
        yield from ((high << 32) + each for each in low)
    assert at == len(body)


def _bucket(body: bytes, start: int) -> tuple[list[int], int]:
    (cookie,) = struct.unpack_from("<I", body, start)
    has_runs = cookie & 0xFFFF == RUNS
    count = (cookie >> 16) + 1 if has_runs else struct.unpack_from("<I", body, start + 4)[0]
    at = start + (4 if has_runs else 8)
    flags = body[at : at + (count + 7) // 8] if has_runs else b""
    at += len(flags)
    headers = [struct.unpack_from("<HH", body, at + 4 * n) for n in range(count)]
    at += 4 * count
    if not has_runs or count >= 4:
        at += 4 * count  # offsets
    found: list[int] = []
    for n, (key, less_one) in enumerate(headers):
        if has_runs and flags[n // 8] >> n % 8 & 1:
            (runs,) = struct.unpack_from("<H", body, at)
            pairs = [struct.unpack_from("<HH", body, at + 2 + 4 * run) for run in range(runs)]
            low = [value for first, more in pairs for value in range(first, first + more + 1)]
            at += 2 + 4 * runs
        elif less_one + 1 <= 4096:
            low = list(struct.unpack_from(f"<{less_one + 1}H", body, at))
            at += 2 * (less_one + 1)
        else:
            bits = np.unpackbits(np.frombuffer(body, np.uint8, 8192, at), bitorder="little")
            low, at = np.flatnonzero(bits).tolist(), at + 8192
        found += [(key << 16) + value for value in low]
    return found, at


@given(positions=POSITIONS)
def test_vectors_have_the_specified_layout(positions: set[int]) -> None:
    expected = sorted(positions)
    assert list(positions_of(encode_bitmaps(BitMap64(expected)))) == expected


@given(positions=POSITIONS)
def test_written_vectors_are_read_back(positions: set[int]) -> None:
    blob = encode_framed(bitmap_of(np.array(list(positions), dtype=np.uint64)))
    assert list(decode_framed(blob, "here")) == sorted(positions)
    assert int.from_bytes(blob[:4], "big") == len(blob) - 8
    assert int.from_bytes(blob[-4:], "big") == zlib.crc32(blob[4:-4])


def test_the_examples_of_the_specifications_are_decoded_as_written() -> None:
    positions = [3, 4, 7, 11, 18, 29]
    assert list(decode_bitmaps(encode_bitmaps(BitMap64(positions)), "here")) == positions


def test_runs_are_small() -> None:
    united = BitMap64(range(0, 1_000_000, 2)) | BitMap64(range(1, 1_000_000, 2))
    assert len(encode_bitmaps(united)) < 1_000


def test_a_vector_that_readers_would_refuse_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LimitExceeded, match="below"):
        encode_bitmaps(BitMap64([2**63]))
    monkeypatch.setattr(limits, "VECTOR", 20)
    with pytest.raises(LimitExceeded, match="limit is 20"):
        encode_bitmaps(BitMap64([1, 3, 5]))
