"""Partition values bound their source columns: every value of a partition lies within, so pruning by them is safe."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan import types as t
from lakescan.iceberg.partition_bounds import tightened
from lakescan.iceberg.partition_spec import Transform
from lakescan.planning.column_stats import ColumnStats

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def ordinal(unit: str, moment: datetime) -> int:
    """The partition value that the specification gives a moment."""
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


@given(number=st.integers(-(2**31), 2**31 - 1), width=st.integers(1, 1000))
def test_an_integer_lies_within_the_bounds_of_its_truncation(number: int, width: int) -> None:
    value = pa.array([number - number % width], pa.int64())
    low, high = Transform("truncate", width).source_bounds(value, value, t.LONG)
    assert low is not None
    assert high is not None
    assert low[0].as_py() <= number <= high[0].as_py()


def test_text_shorter_than_the_width_was_not_truncated() -> None:
    value = pa.array(["ab", "abc"])
    low, high = Transform("truncate", 3).source_bounds(value, value, t.STRING)
    assert low is not None
    assert high is not None
    assert high.to_pylist() == ["ab", None]


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
def test_two_sources_of_bounds_leave_the_tighter_of_every_type(kind: t.Type, low: object, high: object) -> None:
    def bounds(*values: object) -> pa.Array:
        return pa.array(values, kind.arrow())

    one = ColumnStats(bounds(low, high, low, None), bounds(low, high, high, None))
    other = ColumnStats(bounds(high, low, None, low), bounds(high, low, None, high))
    found = tightened(one, other)
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower.to_pylist() == [high, high, low, low]
    assert found.upper.to_pylist() == [low, low, high, high]
