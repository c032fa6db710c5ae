"""Partition values bound their source columns: every value of a partition lies within, so pruning by them is safe."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan import types as t
from lakescan.iceberg.partition_spec import Transform

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
