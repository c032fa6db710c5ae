"""Floating-point numbers as text, as Java's `Double.toString` and `Float.toString` write them.

Which digits: the fewest that name the number among its neighbours, at least two, and of these the nearest to it, as
from JDK 19 on. Older ones write a digit more of a few doubles (JDK 17 has 4.9999999999999996E22 for 5.0E22) and of many
floats (1.15133484E15 for 1.1513348E15): both texts name the same number.
"""

from __future__ import annotations

import math

import numpy as np

_LEAST, _MOST = -3, 7  # numbers from 10^-3 up to 10^7 have no exponent


def double_text(value: float) -> str:
    """A double: `1.0E10`, `1.0E-30`, `0.001`, `-0.0`, `NaN`, `Infinity`."""
    return _text(value, np.float64)


def float_text(value: float) -> str:
    """A float, given as the double of the same value: `0.1` for the float that is nearest to it."""
    return _text(value, np.float32)


def _text(value: float, of: type[np.floating]) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    digits, exponent = _digits(abs(value), of)
    if _LEAST <= exponent < _MOST:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        whole = digits[: exponent + 1].ljust(exponent + 1, "0")
        return f"{sign}{whole}.{digits[exponent + 1 :] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _digits(value: float, of: type[np.floating]) -> tuple[str, int]:
    """Significant digits, without zeros at their end, and the power of ten of the first."""
    text = np.format_float_scientific(of(value), unique=True, trim="-")
    digits, _, exponent = text.partition("e")
    if len(digits) == 1:  # two digits may be nearer than one: 4.9E-324, where 5E-324 names the same number
        two = f"{value:.1e}"
        if of(two) == of(value):
            digits, _, exponent = two.partition("e")
    return digits.replace(".", "").rstrip("0"), int(exponent)
