"""Literals in reports are replaced by their type and magnitude, as by Iceberg's `ExpressionUtil.sanitize`."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.expressions.sanitize import sanitize_list, sanitize_literal

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "(1-digit-int)"),
        (9, "(1-digit-int)"),
        (-10, "(2-digit-int)"),
        (123_456, "(6-digit-int)"),
        (0.0, "(1-digit-float)"),
        (34.5, "(2-digit-float)"),
        (pa.scalar(34, pa.int32()), "(2-digit-int)"),
        (date(2026, 3, 10), "(date-today)"),
        (date(2026, 3, 7), "(date-3-days-ago)"),
        (date(2026, 4, 10), "(date-31-days-from-now)"),
        (date(2020, 1, 1), "(date)"),
        ("2026-03-07", "(date-3-days-ago)"),
        (NOW + timedelta(minutes=4), "(timestamp-about-now)"),
        (NOW - timedelta(hours=2), "(timestamp-2-hours-ago)"),
        (NOW - timedelta(hours=72), "(timestamp-72-hours-ago)"),
        (NOW - timedelta(hours=73), "(timestamp-3-days-ago)"),
        ((NOW + timedelta(days=5)).replace(tzinfo=None), "(timestamp-5-days-from-now)"),
        (NOW.astimezone(timezone(timedelta(hours=5))) - timedelta(hours=1), "(timestamp-1-hours-ago)"),
        (datetime(1999, 1, 1), "(timestamp)"),
        ("2026-03-10T11:00:00", "(timestamp-1-hours-ago)"),
        ("2026-03-10T11:00:00+00:00", "(timestamp-1-hours-ago)"),
        (time(3, 4), "(time)"),
        ("03:04:05.5", "(time)"),
        (None, "(unknown)"),
    ],
)
def test_literals_are_shown_by_type_and_magnitude(value: Any, shown: str) -> None:
    assert sanitize_literal(value, NOW) == shown


@pytest.mark.parametrize("value", ["secret", "", "2026-99-99", True, Decimal("1.50"), b"abc", uuid.UUID(int=5)])
def test_other_literals_are_hashes(value: Any) -> None:
    text = sanitize_literal(value, NOW)
    assert text.startswith("(hash-")
    assert len(text) == len("(hash-00000000)")
    assert sanitize_literal(value, NOW) == text


def test_the_hash_is_that_of_bucket_partitions() -> None:
    """The specification's appendix B gives 1210000089 as Murmur3 of 'iceberg'."""
    assert sanitize_literal("iceberg") == f"(hash-{1210000089:08x})"


@given(st.text(min_size=4))
def test_no_text_is_shown(text: str) -> None:
    assert (
        text not in sanitize_literal(text) or text in "(hash-)(date-today)(timestamp-about-now-days-ago-from-now-hours)"
    )


def test_long_lists_are_abbreviated() -> None:
    assert sanitize_list(["a", "b"]) == [sanitize_literal("a"), sanitize_literal("b")]
    assert sanitize_list(list(range(10, 30))) == ["(2-digit-int)", "... (19 values hidden, 20 in total)"]
