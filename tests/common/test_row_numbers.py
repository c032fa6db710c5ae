"""Equal rows get the same number, others different ones: null equals null, NaN equals NaN, -0.0 differs from 0.0."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakescan.common.arrays import float_bits, row_numbers

OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]
VALUES = {
    "n": st.none() | st.integers(-2, 2) | st.sampled_from([-(2**63), 2**63 - 1]),
    "x": st.none() | st.sampled_from([0.0, -0.0, 1.5, math.inf, math.nan, OTHER_NAN]),
    "s": st.none() | st.sampled_from(["", "a", "b", "None"]),
    "b": st.none() | st.booleans(),
}
TYPES = {"n": pa.int64(), "x": pa.float64(), "s": pa.string(), "b": pa.bool_()}


@given(
    st.lists(st.sampled_from([*VALUES]), min_size=1, max_size=4).flatmap(
        lambda names: st.tuples(st.just(names), st.lists(st.tuples(*[VALUES[name] for name in names]), max_size=30))
    )
)
def test_rows_have_the_same_number_exactly_if_they_are_equal(drawn: tuple[list[str], list[tuple[Any, ...]]]) -> None:
    names, rows = drawn
    columns = [pa.array([row[i] for row in rows], TYPES[name]) for i, name in enumerate(names)]
    numbers = row_numbers(float_bits(each) for each in columns)
    of_row: dict[str, int] = {}
    for row, number in zip(rows, numbers.tolist(), strict=True):
        assert of_row.setdefault(repr(row), number) == number
    assert sorted(of_row.values()) == list(range(len(of_row)))


def test_many_columns_of_many_values_do_not_overflow() -> None:
    """The product of the distinct counts is far beyond 64 bits."""
    values = [pa.array(np.random.default_rng(seed).permutation(5_000)) for seed in range(8)]
    assert sorted(row_numbers(values).tolist()) == list(range(5_000))


def test_chunks_and_extension_types_are_one_column() -> None:
    a, b = bytes(16), bytes(15) + b"1"
    ids = pa.chunked_array([pa.array([a, b], pa.uuid()), pa.array([a, None], pa.uuid())])
    assert row_numbers([ids]).tolist() == [0, 1, 0, 2]
    assert row_numbers([]).tolist() == []
