"""Deletion vectors survive encoding, and damage is detected."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples.iceberg_deletes import vector_blob

from lakescan.errors import CorruptMetadata
from lakescan.reading.deletes.deletion_vectors import decode_bitmaps, decode_framed

POSITIONS = st.lists(st.integers(0, 2**34), unique=True).map(sorted)


@given(POSITIONS)
def test_positions_survive_encoding_with_and_without_the_frame(positions: list[int]) -> None:
    blob = vector_blob(positions)
    assert list(decode_framed(blob, "here")) == positions
    assert list(decode_bitmaps(blob[4:-4], "here")) == positions


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_noticed(place: int, change: int) -> None:
    blob = bytearray(vector_blob([1, 5, 70_000]))
    blob[place % len(blob)] ^= change
    with pytest.raises(CorruptMetadata, match="here"):
        decode_framed(bytes(blob), "here")


def test_a_truncated_vector_is_noticed() -> None:
    blob = vector_blob([1, 5])
    for length in range(len(blob)):
        with pytest.raises(CorruptMetadata):
            decode_framed(blob[:length], "here")
