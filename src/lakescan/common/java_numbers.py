"""Floating-point numbers as text, formatted as Java's `Double.toString` and `Float.toString` format them.

The digits are the fewest that identify the number, at least two, and among these the nearest to it, as in JDK 19 and
later. Older versions write one more digit for a few doubles (JDK 17 writes 4.9999999999999996E22 for 5.0E22) and for
many floats (1.15133484E15 for 1.1513348E15). Both texts parse to the same number.
"""

from __future__ import annotations

import math

import numpy as np

_LEAST, _MOST = -3, 7  # numbers from 10^-3 up to 10^7 are written without an exponent


def double_text(value: float) -> str:
    """Format a double: `1.0E10`, `1.0E-30`, `0.001`, `-0.0`, `NaN`, `Infinity`."""
    return _text(value, np.float64)


def float_text(value: float) -> str:
    """Format a float, given as a double of the same value: `0.1` for the float nearest to 0.1."""
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
    """Return the significant digits of a positive number without trailing zeros, and the first digit's power of ten.

    `of` is the NumPy type that the digits have to identify the number in: `float64` or `float32`.
    """
    text = np.format_float_scientific(of(value), unique=True, trim="-")
    digits, _, exponent = text.partition("e")
    if len(digits) == 1:  # two digits may be nearer than one: 4.9E-324, although 5E-324 is the same number
        two = f"{value:.1e}"
        if of(two) == of(value):
            digits, _, exponent = two.partition("e")
    return digits.replace(".", "").rstrip("0"), int(exponent)
