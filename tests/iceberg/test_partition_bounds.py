"""Partition values bound their source columns: every value of a partition lies within, so pruning by them is safe."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.iceberg.metadata.partition_spec import Transform
from lakescan.iceberg.scan.partition_pruning import tighten_stats
from lakescan.planning.column_stats import ColumnStats

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def ordinal(unit: str, moment: datetime) -> int:
    """Return the partition value that the specification defines for a moment."""
    months = (moment.year - 1970) * 12 + moment.month - 1
    seconds = (moment - EPOCH) // timedelta(seconds=1)
    return {"year": moment.year - 1970, "month": months, "day": seconds // 86_400, "hour": seconds // 3_600}[unit]


@pytest.mark.parametrize("unit", ["year", "month", "day", "hour"])
@given(moment=MOMENTS)
def test_a_moment_lies_within_the_bounds_of_its_period(unit: str, moment: datetime) -> None:
    value = pa.array([ordinal(unit, moment)], pa.int32())
    value = value.cast(pa.date32()) if unit == "day" else value
    kind = t.Timestamp("us", zoned=True)
    low, high = Transform(unit).source_bounds(value, value, kind)
    assert low is not None
    assert high is not None
    assert low[0].as_py() <= moment <= high[0].as_py()


@pytest.mark.parametrize("unit", ["year", "month", "day"])
@given(day=st.dates(date(1900, 1, 1), date(2100, 1, 1)))
def test_a_date_lies_within_the_bounds_of_its_period(unit: str, day: date) -> None:
    value = pa.array([ordinal(unit, datetime(day.year, day.month, day.day, tzinfo=UTC))], pa.int32())
    value = value.cast(pa.date32()) if unit == "day" else value
    low, high = Transform(unit).source_bounds(value, value, t.DATE)
    assert low is not None
    assert high is not None
    assert low[0].as_py() <= day <= high[0].as_py()


@st.composite
def integers_of(draw: st.DrawFn, bits: int) -> int:
    """Draw integers of a width, with the least and greatest among them."""
    most = 2 ** (bits - 1) - 1
    near = st.integers(0, 2000)
    return draw(st.integers(-most - 1, most) | near.map(lambda n: most - n) | near.map(lambda n: n - most - 1))


@pytest.mark.parametrize(("written_as", "kind"), [(32, t.INT), (64, t.LONG), (32, t.LONG)], ids=str)
@given(data=st.data(), width=st.integers(1, 1000) | st.sampled_from([2**20, 2**30]))
def test_an_integer_lies_within_the_bounds_of_its_truncation(
    written_as: int, kind: t.Type, data: st.DataObject, width: int
) -> None:
    """The reference's arithmetic wraps around: truncating the least integers gives some of the greatest."""
    some = data.draw(st.lists(integers_of(written_as), min_size=1, max_size=3))
    half, whole = 2 ** (written_as - 1), 2**written_as
    cut = [(number - number % width + half) % whole - half for number in some]
    values = pa.array([min(cut)], kind.arrow()), pa.array([max(cut)], kind.arrow())
    low, high = Transform("truncate", width).source_bounds(*values, kind)
    assert low is not None
    assert high is not None
    assert high[0].as_py() >= max(some)
    if low[0].is_valid:
        assert low[0].as_py() <= min(some)
    low.cast(kind.arrow())
    high.cast(kind.arrow())


@given(
    text=st.text("ab\xe9\U0001f600", max_size=6),
    width=st.integers(1, 5),
    counts=st.sampled_from(["characters", "bytes"]),
)
def test_a_text_lies_within_the_bounds_of_its_truncation(text: str, width: int, counts: str) -> None:
    cut = text[:width]
    if counts == "bytes":
        assume(len(text.encode()[:width].decode(errors="ignore").encode()) == min(width, len(text.encode())))
        cut = text.encode()[:width].decode()
    value = pa.array([cut])
    low, high = Transform("truncate", width).source_bounds(value, value, t.STRING)
    assert low is not None
    assert high is not None
    assert low[0].as_py() <= text
    assert high[0].as_py() is None or text <= high[0].as_py()


def test_text_shorter_than_the_width_was_not_truncated() -> None:
    value = pa.array(["ab", "abc"])
    _, high = Transform("truncate", 3).source_bounds(value, value, t.STRING)
    assert high is not None
    assert high.to_pylist() == ["ab", None]


@pytest.mark.parametrize("unit", ["year", "month", "day", "hour"])
@given(moment=st.integers(-(2**63), 2**63 - 1) | st.sampled_from([-(2**63), 2**63 - 1]))
def test_a_nanosecond_lies_within_the_bounds_of_its_period(unit: str, moment: int) -> None:
    """Also in the first and last period of 64-bit nanoseconds, in 1677 and 2262."""
    seconds = moment // 10**9
    day = EPOCH + timedelta(seconds=seconds)
    value = pa.array([seconds // 3600 if unit == "hour" else ordinal(unit, day)], pa.int32())
    low, high = Transform(unit).source_bounds(value, value, t.Timestamp("ns"))
    assert low is not None
    assert high is not None
    assert low.cast(pa.int64())[0].as_py() <= moment <= high.cast(pa.int64())[0].as_py()


def test_periods_before_1970_allow_for_writers_that_rounded_up() -> None:
    value = pa.array([-1], pa.int32())
    low, _ = Transform("hour").source_bounds(value, value, t.Timestamp())
    assert low is not None
    assert low[0].as_py() == EPOCH - timedelta(hours=2)


@pytest.mark.parametrize("name", ["bucket", "void", "of-the-future"])
def test_transforms_without_order_bound_nothing(name: str) -> None:
    value = pa.array([1], pa.int32())
    assert Transform(name, 4).source_bounds(value, value, t.LONG) == (None, None)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (t.LONG, 1, 2),
        (t.DOUBLE, 1.0, 2.0),
        (t.STRING, "a", "b"),
        (t.BINARY, b"a", b"b"),
        (t.BOOLEAN, False, True),
        (t.DATE, date(2026, 1, 1), date(2026, 1, 2)),
        (t.Timestamp(), EPOCH, EPOCH + timedelta(days=1)),
        (t.Timestamp("us", zoned=False), datetime(2026, 1, 1), datetime(2026, 1, 2)),
        (t.Decimal(9, 2), Decimal("1.00"), Decimal("2.00")),
    ],
    ids=str,
)
def test_the_tighter_of_two_bounds_is_kept_for_every_type(kind: t.Type, low: object, high: object) -> None:
    def bounds(*values: object) -> pa.Array:
        return pa.array(values, kind.arrow())

    one = ColumnStats(bounds(low, high, low, None), bounds(low, high, high, None))
    other = ColumnStats(bounds(high, low, None, low), bounds(high, low, None, high))
    found = tighten_stats(one, other)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower.to_pylist() == [high, high, low, low]
    assert found.upper.to_pylist() == [low, low, high, high]
