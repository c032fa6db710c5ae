"""Theta sketches have the bytes of Apache DataSketches, over values as Iceberg serializes them."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.errors import CorruptData, UnsupportedFeature
from lakescan.iceberg.maintenance.statistics.theta_sketch import MOST, ThetaSketch, hash_values
from lakescan.iceberg.manifests.bounds import encode_value


def sketch(values: pa.Array, kind: t.Type) -> ThetaSketch:
    return ThetaSketch().add_hashes(hash_values(values, kind))


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([], pa.int64()), t.LONG, "010303000 01e0000"),
        (pa.array(["iceberg"]), t.STRING, "01030300003acc9319e1926a76422e03"),
        (
            pa.array([3, 1, 2, 1, None]),
            t.LONG,
            "02030300001acc93030000000000803f15f97dcbbd86a105c397fc1281709d1eba40b3c1da06695d",
        ),
    ],
)
def test_sketch_bytes_equal_those_of_the_reference(values: pa.Array, kind: t.Type, expected: str) -> None:
    """The expected bytes are the library's. It writes the unused sampling probability as 0; Java writes 1.0."""
    assert sketch(values, kind).serialize().hex() == expected.replace(" ", "")


UTC = datetime.fromisoformat("2026-01-31T12:00:00.000001+00:00")
VALUES: list[tuple[t.Type, Any, Any]] = [
    (t.BOOLEAN, True, True),
    (t.INT, -7, -7),
    (t.LONG, 2**40, 2**40),
    (t.FLOAT, 1.5, 1.5),
    (t.DOUBLE, -0.1, -0.1),
    (t.DATE, date(1960, 1, 1), -3653),
    (t.TIME, time(0, 0, 1), 1_000_000),
    (t.Timestamp(), UTC, int(UTC.timestamp()) * 1_000_000 + 1),
    (t.Timestamp("ns", zoned=False), datetime(1970, 1, 1, 0, 0, 1), 10**9),
    (t.STRING, "naïve " * 20, ("naïve " * 20).encode()),
    (t.BINARY, b"\x00\xff", b"\x00\xff"),
    (t.Fixed(3), b"abc", b"abc"),
    (t.UUID, UUID(int=5).bytes, UUID(int=5).bytes),
    *((t.Decimal(38, 2), Decimal(n) / 100, n) for n in (0, 1, -1, 127, 128, -128, -129, 10**30, -(10**30))),
]


@pytest.mark.parametrize(("kind", "value", "stored"), VALUES, ids=str)
def test_values_are_hashed_by_their_serialization(kind: t.Type, value: Any, stored: Any) -> None:
    arrow = kind.arrow()
    values = pa.array([value], arrow.storage_type if isinstance(arrow, pa.ExtensionType) else arrow)
    serialized = pa.array([encode_value(stored, kind)], pa.binary())
    assert hash_values(values, kind).tolist() == hash_values(serialized, t.BINARY).tolist()


def test_nulls_and_empty_values_count_for_nothing() -> None:
    assert sketch(pa.array([None, "", None]), t.STRING).estimate == 0


@pytest.mark.parametrize("kind", [t.Struct(()), t.VARIANT, t.UNKNOWN], ids=str)
def test_only_primitive_types_have_hashes(kind: t.Type) -> None:
    with pytest.raises(UnsupportedFeature, match="distinct values"):
        hash_values(pa.nulls(1), kind)


@given(st.lists(st.binary(max_size=50)), st.integers(0, 50))
def test_the_hash_of_a_value_does_not_depend_on_other_values(values: list[bytes], at: int) -> None:
    whole = hash_values(pa.array(values, pa.binary()), t.BINARY).tolist()
    parts = [hash_values(pa.array(some, pa.binary()), t.BINARY).tolist() for some in (values[:at], values[at:])]
    assert whole == parts[0] + parts[1]


@given(st.lists(st.integers(0, 20_000), max_size=4), st.integers(1, 7))
def test_merged_parts_equal_the_whole_sketch(ends: list[int], seed: int) -> None:
    """The sketch is the same however the values are divided, and if parts are serialized in between."""
    values = np.random.default_rng(seed).permutation(12_000)
    whole = sketch(pa.array(values), t.LONG)
    united = ThetaSketch()
    for some in np.split(values, sorted(ends)):
        part = ThetaSketch.parse(sketch(pa.array(some), t.LONG).serialize())
        united = ThetaSketch.parse(united.union(part).serialize())
    assert united.serialize() == whole.serialize()


@pytest.mark.parametrize("count", [1, 2, MOST - 1, MOST, MOST + 1, 100_000])
def test_estimates_are_exact_up_to_a_limit_and_close_beyond_it(count: int) -> None:
    found = sketch(pa.array(np.arange(count)), t.LONG)
    assert found.estimate == count if count <= MOST else abs(found.estimate - count) < 0.06 * count
    assert len(found.hashes) <= MOST


@pytest.mark.parametrize(
    "data", [b"", b"\x02\x03\x02", bytes(40), bytes.fromhex("02030300001acc93ffff00000000803f")], ids=bytes.hex
)
def test_an_invalid_sketch_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptData, match="Theta sketch"):
        ThetaSketch.parse(data)
