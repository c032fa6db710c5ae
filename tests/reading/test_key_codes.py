"""Each value has one code, and a lookup finds it whatever other values are looked up with it."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakescan.reading.deletes import key_codes
from lakescan.reading.deletes.key_codes import KeyCodes

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)),
    "bool": (pa.bool_(), st.booleans()),
    "float": (pa.float32(), st.sampled_from([math.nan, 0.0, -0.0, 1.5, -math.inf])),
    "double": (pa.float64(), st.sampled_from([math.nan, 0.0, -0.0, 1.5, -math.inf])),
    "date": (pa.date32(), st.dates(date(1960, 1, 1), date(1980, 1, 1))),
    "text": (pa.string(), st.text("aé\x00", max_size=3)),
    "bytes": (pa.binary(), st.binary(max_size=2)),
    "decimal": (pa.decimal128(20, 2), st.integers(-3, 3).map(lambda n: Decimal(n) / 100)),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return bool(a == b)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_known_value_is_found(kind: str, data: Any) -> None:
    arrow, values = KINDS[kind]
    known = data.draw(st.lists(st.none() | values, max_size=8))
    asked = data.draw(st.lists(st.none() | values, max_size=8))
    codes, numbers = KeyCodes.build(pa.array(known, arrow))
    found = codes.find(pa.array(asked, arrow))
    for value, number in zip(asked, found.tolist(), strict=True):
        alike = {n for k, n in zip(known, numbers.tolist(), strict=True) if same(k, value)}
        assert ({number} == alike) if alike else number == -1
    assert all(0 <= number < len(codes) for number in numbers.tolist())


def test_values_with_the_same_hash_are_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_codes, "hashes", lambda values: np.zeros(len(values), dtype=np.uint64))
    codes, numbers = KeyCodes.build(pa.array(["a", "b", None, "a"]))
    assert numbers[0] == numbers[3] != numbers[1]
    assert codes.find(pa.array(["b", "c", "a", None])).tolist() == [numbers[1], -1, numbers[0], numbers[2]]


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 64))
def test_hashes_are_the_same_however_many_bytes_are_hashed_at_once(
    monkeypatch: pytest.MonkeyPatch, values: list[bytes], size: int
) -> None:
    """Processes with other chunk sizes and longer values must compute the same hashes."""
    from lakescan.common import hashing

    for array in (pa.array(values, pa.binary()), pa.array([each.hex() for each in values], pa.large_string())):
        with monkeypatch.context() as patched:
            patched.setattr(hashing, "_BYTES", 1 << 21)
            expected = hashing.hashes(array).tolist()
            patched.setattr(hashing, "_BYTES", size)
            assert hashing.hashes(array).tolist() == expected
            assert hashing.hashes(array.slice(len(values) // 2)).tolist() == expected[len(values) // 2 :]


def test_hashing_takes_no_more_memory_for_wide_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from lakescan.common import hashing

    hashed: list[int] = []
    sums = hashing._sums

    def measured(values: pa.Array) -> np.ndarray:
        hashed.append(pc.sum(pc.binary_length(values)).as_py())
        return sums(values)

    monkeypatch.setattr(hashing, "_sums", measured)
    hashing.hashes(pa.array(["x" * 1000] * 10_000))
    assert max(hashed) <= 1 << 21
