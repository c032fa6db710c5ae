"""Floating-point numbers are formatted as `Double.toString` and `Float.toString` of JDK 19 and later format them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakescan.common.java_numbers import double_text, float_text

DOUBLES = {
    1.0: "1.0",
    -0.0: "-0.0",
    0.001: "0.001",
    0.00099: "9.9E-4",
    123456.789: "123456.789",
    9999999.0: "9999999.0",
    9999999.5: "9999999.5",
    1e7: "1.0E7",
    1e10: "1.0E10",
    1e-30: "1.0E-30",
    2e23: "2.0E23",
    5e22: "5.0E22",
    5e-324: "4.9E-324",
    1.7976931348623157e308: "1.7976931348623157E308",
    -12345678.25: "-1.234567825E7",
    float("nan"): "NaN",
    float("-inf"): "-Infinity",
}
FLOATS = {
    0.1: "0.1",
    1.1513348e15: "1.1513348E15",
    1e-45: "1.4E-45",
    3.4028235e38: "3.4028235E38",
    16777216: "1.6777216E7",
}


@pytest.mark.parametrize(("value", "text"), DOUBLES.items())
def test_doubles_are_formatted_as_in_java(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(("value", "text"), FLOATS.items())
def test_floats_have_their_own_digits(value: float, text: str) -> None:
    assert float_text(float(np.float32(value))) == text


@given(st.floats(allow_nan=False))
def test_the_text_of_a_double_parses_to_the_same_double(value: float) -> None:
    assert float(double_text(value).replace("Infinity", "inf")) == value


@given(st.floats(allow_nan=False, width=32))
def test_the_text_of_a_float_parses_to_the_same_float(value: float) -> None:
    assert np.float32(float_text(value).replace("Infinity", "inf")) == np.float32(value)
