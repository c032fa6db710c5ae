"""A recorded bound holds for every row, even if its writer lost digits, fractions of a second or the ends of texts."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.scan.statistics import FileStats
from lakescan.planning.column_stats import ColumnStats

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(kind: t.Type, lower: str, upper: str, more: str = "") -> ColumnStats:
    """Return the bounds that lakescan derives from these JSON texts in a file's statistics."""
    schema = Schema((t.Field(1, "x", kind),))
    text = f'{{"numRecords": 2, "minValues": {{"x": {lower}}}, "maxValues": {{"x": {upper}}}{more}}}'
    return FileStats(pa.chunked_array([[text]], pa.string()), None, schema, schema.fields).columns()[1]


def ends(found: ColumnStats) -> tuple[Any, Any]:
    assert found.lower is not None
    assert found.upper is not None
    return found.lower[0].as_py(), found.upper[0].as_py()


@st.composite
def decimals(draw: st.DrawFn) -> tuple[int, int, list[int]]:
    """Draw a precision, a scale, and unscaled values of at most that many digits."""
    precision = draw(st.integers(1, 38))
    scale = draw(st.integers(0, precision))
    most = 10 ** draw(st.integers(1, precision)) - 1
    some = draw(st.lists(st.integers(-most, most) | st.sampled_from([-most, most]), min_size=1, max_size=3))
    return precision, scale, some


def as_deltalake_writes(unscaled: int, scale: int) -> str:
    """Return the text as deltalake writes it: a double, or, without a scale, a whole number clipped to 64 bits."""
    number = float(unscaled) / 10.0**scale
    return repr(number) if scale else str(max(-(2**63), min(2**63 - 1, round(number))))


def as_spark_writes(unscaled: int, scale: int) -> str:
    with localcontext(prec=80):
        return str(Decimal(unscaled).scaleb(-scale))


@pytest.mark.parametrize("written", [as_deltalake_writes, as_spark_writes])
@given(made=decimals())
def test_decimals_lie_within_bounds_that_were_doubles(written: Any, made: tuple[int, int, list[int]]) -> None:
    precision, scale, some = made
    found = read(t.Decimal(precision, scale), written(min(some), scale), written(max(some), scale))
    lower, upper = ends(found)
    with localcontext(prec=80):
        exact = [Decimal(each).scaleb(-scale) for each in some]
    assert lower is None or lower <= min(exact)
    assert upper is None or upper >= max(exact)
    if precision < 14:
        assert upper is not None
        assert upper - max(exact) <= Decimal((0, (1,), -scale))


@given(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=3))
def test_floats_lie_within_bounds_of_six_digits(some: list[float]) -> None:
    found = read(t.FLOAT, *(f"{end:.6g}".replace("inf", "Infinity") for end in (min(some), max(some))))
    lower, upper = ends(found)
    assert lower is None or lower <= min(some)
    assert upper is None or upper >= max(some)


@example([1.7976931348623151e308])
@example([-1.7976931348623151e308])
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=3))
def test_doubles_lie_within_bounds_of_fifteen_digits(some: list[float]) -> None:
    lower, upper = ends(read(t.DOUBLE, f"{min(some):.15g}", f"{max(some):.15g}"))
    assert lower <= min(some)
    assert upper >= max(some)


@given(some=st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=1, max_size=3))
def test_floats_lie_within_bounds_that_were_printed_before_their_column_became_a_double(some: list[float]) -> None:
    lower, upper = ends(read(t.DOUBLE, *(str(np.float32(end)) for end in (min(some), max(some)))))
    assert lower <= min(some)
    assert upper >= max(some)


@pytest.mark.parametrize("text", ["a: NaN b", "a:NaN", 'say: "NaN"', "x: Infinity, y", '":"NaN"', "NaN", ":-Infinity}"])
def test_a_text_without_numbers_is_used_as_a_bound_unchanged(text: str) -> None:
    lower, upper = ends(read(t.STRING, json.dumps(text), json.dumps(text)))
    assert lower in (text, None)
    assert upper in (text, None)


@pytest.mark.parametrize("text", ['"NaN"', '"Infinity"', '"-Infinity"'])
def test_an_invalid_numeric_bound_is_ignored_for_its_file_only(text: str) -> None:
    found = read(t.DOUBLE, "1.5", text, ', "nullCount": {"x": 1}')
    lower, upper = ends(found)
    assert lower == pytest.approx(1.5)
    assert upper is None
    assert found.null_count is not None
    assert found.null_count.to_pylist() == [1]


def toward_1970(micros: int) -> int:
    return micros // 1000 * 1000 if micros >= 0 else -(-micros // 1000 * 1000)


def downwards(micros: int) -> int:
    return micros // 1000 * 1000


@pytest.mark.parametrize("cut", [toward_1970, downwards])
@given(some=st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=3))
def test_times_lie_within_bounds_that_were_cut_to_milliseconds(cut: Any, some: list[int]) -> None:
    moments = [EPOCH + timedelta(microseconds=cut(end)) for end in (min(some), max(some))]
    for kind in (t.Timestamp("us", zoned=True), t.Timestamp("us", zoned=False)):
        texts = [m.replace(tzinfo=m.tzinfo if kind.zoned else None).isoformat() for m in moments]
        found = read(kind, *map(json.dumps, texts))
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower.cast(pa.int64())[0].as_py() <= min(some)
        assert found.upper.cast(pa.int64())[0].as_py() >= max(some)


def test_an_old_instant_may_be_off_by_the_seconds_that_its_offset_was_printed_without() -> None:
    """Los Angeles had the offset -07:52:58 before 1883, which Spark prints as -07:52."""
    true = datetime(1850, 1, 1, tzinfo=UTC)
    printed = '"1849-12-31T16:07:02.000-07:52"'
    lower, upper = ends(read(t.Timestamp("us", zoned=True), printed, printed))
    assert lower <= true <= upper


def test_an_instant_without_an_offset_is_not_a_bound() -> None:
    """It may be in any time zone. A wall-clock time has no offset."""
    text = '"2026-01-01T00:00:00.000"'
    assert ends(read(t.Timestamp("us", zoned=True), text, text)) == (None, None)
    assert ends(read(t.Timestamp("us", zoned=False), text, text))[0] == datetime(2026, 1, 1)


@pytest.mark.parametrize("kind", [t.DATE, t.Timestamp("us", zoned=True)], ids=str)
def test_an_unreadable_year_does_not_drop_the_bounds_of_other_files(kind: t.Type) -> None:
    schema = Schema((t.Field(1, "x", kind),))
    texts = [
        json.dumps({"minValues": {"x": first}, "maxValues": {"x": first}})
        for first in ("2026-01-01" if kind == t.DATE else "2026-01-01T00:00:00Z", "+10000-01-01", "soon")
    ]
    found = FileStats(pa.chunked_array([texts], pa.string()), None, schema, schema.fields).columns()[1]
    assert found.lower is not None
    assert found.lower.is_valid().to_pylist() == [True, False, False]


@given(prefix=st.text("ab\ud7ff\uffff\U0001f600", min_size=1, max_size=3), rest=st.text("az\uffff\U0001f600\U0010ffff"))
@pytest.mark.parametrize("tie_breaker", ["\ufffd", "\U0010ffff"])
def test_a_truncated_text_lies_below_its_bound(tie_breaker: str, prefix: str, rest: str) -> None:
    upper = ends(read(t.STRING, '""', json.dumps(prefix + tie_breaker)))[1]
    assert upper is None or prefix + rest <= upper


def test_half_of_a_character_before_a_tie_breaker_is_a_question_mark() -> None:
    """Older writers cut UTF-16 text between the two halves of an emoji."""
    upper = ends(read(t.STRING, '""', json.dumps("ab?\ufffd")))[1]
    assert upper >= "ab\U0001f600"


@pytest.mark.parametrize("kind", [t.LONG, t.INT])
def test_whole_numbers_out_of_range_are_not_bounds(kind: t.Type) -> None:
    found = read(kind, "-9223372036854775808", "9223372036854775807")
    limits = np.iinfo(kind.arrow().to_pandas_dtype())
    assert ends(found) == ((int(limits.min), int(limits.max)) if kind == t.LONG else (None, None))


@pytest.mark.parametrize(
    ("more", "exact"), [("", True), (', "tightBounds": true', True), (', "tightBounds": false', False)]
)
def test_bounds_are_exact_values_unless_marked_as_wide(more: str, exact: bool) -> None:
    found = read(t.LONG, "1", "2", more)
    assert found.exact is not None
    assert found.exact.to_pylist() == [exact]


@pytest.mark.parametrize("kind", [t.STRING, t.DOUBLE, t.Decimal(9, 2), t.Timestamp("us", zoned=False)], ids=str)
def test_bounds_of_types_that_json_loses_are_not_exact_values(kind: t.Type) -> None:
    assert read(kind, "1", "2").exact is None


def test_parsed_statistics_of_checkpoints_have_the_losses_of_json() -> None:
    """`stats_parsed` is computed from the JSON, so a decimal in it may have been a double, too."""
    schema = Schema((t.Field(1, "x", t.Decimal(20, 2)),))
    recorded = pa.array([Decimal("12345678901234568.00")], pa.decimal128(20, 2))
    bounds = pa.StructArray.from_arrays([recorded], ["x"])
    parsed = pa.StructArray.from_arrays([bounds, bounds], ["minValues", "maxValues"])
    found = FileStats(pa.chunked_array([[None]], pa.string()), parsed, schema, schema.fields).columns()[1]
    lower, upper = ends(found)
    assert lower <= Decimal("12345678901234567.89")
    assert upper >= Decimal("12345678901234568.11")


def test_dates_are_exact() -> None:
    found = read(t.DATE, '"2026-01-01"', '"2026-01-02"')
    assert ends(found) == (date(2026, 1, 1), date(2026, 1, 2))
    assert found.exact is not None


def test_a_whole_number_written_as_a_double_is_no_bound_beyond_53_bits() -> None:
    assert ends(read(t.LONG, "1.0", "9.007199254740993E15")) == (1, None)
