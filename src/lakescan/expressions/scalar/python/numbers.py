"""Spark's numeric functions in Python, where DuckDB lacks the function or rounds differently."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from lakescan.common import types as t
from lakescan.expressions.scalar.udf import FailedValue, type_factory

_WIDE = Context(prec=400)


def _quantize(value: Any, places: int, rounding: str) -> Decimal:
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if places < -400:
        return Decimal(0)
    return exact.quantize(Decimal(1).scaleb(-places), rounding=rounding, context=Context(prec=800))


def round_double(value: float, places: int) -> float:
    """Round a double half up (away from zero) to `places` decimal places, by its shortest decimal text."""
    return value if math.isnan(value) or math.isinf(value) else float(_quantize(value, places, ROUND_HALF_UP))


def bround_double(value: float, places: int) -> float:
    """Round a double half even to `places` decimal places, by its shortest decimal text."""
    return value if math.isnan(value) or math.isinf(value) else float(_quantize(value, places, ROUND_HALF_EVEN))


def bround(value: Any, places: int) -> Decimal:
    """Round a decimal half even to `places` decimal places."""
    return _quantize(value, places, ROUND_HALF_EVEN)


def ceil_to(value: Any, places: int) -> Decimal:
    """Round a number up, towards infinity, to `places` decimal places."""
    return _quantize(value, places, "ROUND_CEILING")


def floor_to(value: Any, places: int) -> Decimal:
    """Round a number down, towards negative infinity, to `places` decimal places."""
    return _quantize(value, places, "ROUND_FLOOR")


def bround_whole(value: int, places: int) -> int:
    """Round an integer half even to `places` decimal places; a negative number rounds to tens, hundreds, ..."""
    return int(_quantize(value, places, ROUND_HALF_EVEN))


def factorial(value: int) -> int | None:
    """Return the factorial of 0 to 20; None for other numbers."""
    return math.factorial(value) if 0 <= value <= 20 else None


def hypot(left: float, right: float) -> float:
    """Return the length of the hypotenuse of a right triangle with these legs."""
    return math.hypot(left, right)


def cbrt(value: float) -> float:
    """Return the cube root."""
    return float(np.cbrt(value))


def rint(value: float) -> float:
    """Round to the nearest whole number, half even."""
    if math.isnan(value) or math.isinf(value) or abs(value) >= 2**52:
        return value
    return math.copysign(round(value), value)


def expm1(value: float) -> float:
    """Return `e^value - 1`; infinity on overflow."""
    return _call_math(math.expm1, value)


def log1p(value: float) -> float | None:
    """Return `ln(1 + value)`; None for values of at most -1."""
    return None if value <= -1 else _call_math(math.log1p, value)


def _call_math(function: Any, *values: float) -> float:
    try:
        return float(function(*values))
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def sinh(value: float) -> float:
    """Return the hyperbolic sine; infinity, with the sign of the value, on overflow."""
    return math.copysign(_call_math(math.sinh, abs(value)), value)


def cosh(value: float) -> float:
    """Return the hyperbolic cosine; infinity on overflow."""
    return _call_math(math.cosh, value)


def bit_count(value: int) -> int:
    """Return the number of set bits in a 64-bit integer."""
    return (value & (2**64 - 1)).bit_count()


def bit_get(value: int, place: int) -> int:
    """Return the bit, 0 or 1, of a 64-bit integer at the position `place`, counted from 0 for the lowest bit."""
    return (value >> place) & 1


def width_bucket(value: float, least: float, most: float, count: int) -> int | None:
    """Return the number of the bucket that contains a value, if `count` equal buckets divide a range.

    The range is from `least` to `most`, which may be in either order. 0 and `count + 1` are the buckets before and
    after it. Returns None for an invalid range or count, and for NaN.
    """
    if count <= 0 or count == 2**63 - 1 or math.isnan(value) or least == most:
        return None
    if not (math.isfinite(least) and math.isfinite(most)):
        return None
    low, high = min(least, most), max(least, most)
    if least < most:
        if value < low:
            return 0
        return count + 1 if value >= high else int(count * (value - low) / (high - low) + 1)
    if value > high:
        return 0
    return count + 1 if value <= low else int(count * (high - value) / (high - low) + 1)


def shift(value: int, count: int, bits: int, kind: str) -> int:
    """Shift a signed integer of `bits` bits, as Java does; `kind` is `l` (left), `r` (right) or `u` (unsigned right).

    Only the lowest bits of `count` are used: 33 shifts a 32-bit integer by 1.
    """
    count &= bits - 1
    full = (1 << bits) - 1
    moved = (value << count if kind == "l" else value >> count if kind == "r" else (value & full) >> count) & full
    return moved - (1 << bits) if moved >> (bits - 1) else moved


class _Form:
    """A parsed number format, such as `S999,099.99`; raises `FailedValue` for text that is not a format."""

    def __init__(self, text: str) -> None:
        form = text.upper()
        self.text = text
        self.sign = next((each for each in ("MI", "S", "PR") if each in form), "")
        self.sign_first = form.startswith(("S", "MI"))
        self.currency = "$" in form or form.startswith("L")
        plain = form.replace("MI", "").replace("S", "").replace("PR", "").replace("$", "").replace("L", "")
        self.whole, self.point, self.fraction = plain.replace("G", ",").replace("D", ".").partition(".")
        if not plain or set(self.whole + self.fraction) - set("09,") or "," in self.fraction:
            raise FailedValue(f"INVALID_FORMAT: {text!r} is not a number format")
        self.digits = self.whole.replace(",", "")


def to_number(text: str, form: str) -> Decimal:
    """Parse a number in Spark's number format `form`.

    Raises `FailedValue` for text that does not match the format, and for an invalid format.
    """
    value = try_to_number(text, form)
    if value is None:
        raise FailedValue(f"INVALID_FORMAT.MISMATCH_INPUT: the text {text!r} does not match the format {form!r}")
    return value


def try_to_number(text: str, form: str) -> Decimal | None:
    """Parse a number in Spark's number format `form`; None for text that does not match the format.

    Raises `FailedValue` for an invalid format.
    """
    import re

    wanted = _Form(form)
    rest, negative = text.strip(" "), False
    if wanted.sign == "PR":
        if rest.startswith("<") and rest.endswith(">"):
            rest, negative = rest[1:-1], True
    elif wanted.sign:
        at = 0 if wanted.sign_first else -1
        if rest and rest[at] in "+-":
            if rest[at] == "+" and wanted.sign == "MI":
                return None
            negative = rest[at] == "-"
            rest = rest[1:] if wanted.sign_first else rest[:-1]
    if wanted.currency:
        if not rest.startswith("$"):
            return None
        rest = rest[1:]
    if wanted.sign and wanted.sign_first and rest[:1] == "-" and not negative:
        negative, rest = True, rest[1:]
    whole, point, fraction = rest.partition(".")
    if (point and not wanted.point) or not re.fullmatch("[0-9,]*", whole) or not re.fullmatch("[0-9]*", fraction):
        return None
    groups, wanted_groups = whole.split(","), wanted.whole.split(",")
    if len(groups) > len(wanted_groups) or len(fraction) > len(wanted.fraction):
        return None
    for n, (group, of) in enumerate(zip(reversed(groups), reversed(wanted_groups), strict=False)):
        is_first = n == len(groups) - 1
        if len(group) > len(of) or (not is_first and len(group) != len(of)):
            return None
    digits = whole.replace(",", "")
    least = len(wanted.digits[wanted.digits.find("0") :]) if wanted.digits.startswith("0") else 0
    if not digits + fraction or (least and len(digits) != len(wanted.digits)):
        return None
    value = Decimal(f"{digits or '0'}.{fraction.ljust(len(wanted.fraction), '0') or '0'}")
    value = value.quantize(Decimal(1).scaleb(-len(wanted.fraction)), context=_WIDE)
    return -value if negative else value


def _interval(value: Decimal) -> int:
    whole = int(value.quantize(Decimal(1), rounding=ROUND_HALF_UP, context=_WIDE))
    if not -(2**63) <= whole < 2**63:
        raise FailedValue("INTERVAL_ARITHMETIC_OVERFLOW: the interval is too long")
    return whole


def _exact(number: Any) -> Decimal:
    if isinstance(number, float) and not math.isfinite(number):
        raise FailedValue("INTERVAL_ARITHMETIC_OVERFLOW: an interval and a number that is not finite")
    return Decimal(number)


def interval_times(interval: int, number: Any) -> int:
    """Multiply an interval (months or microseconds) by a number, rounding half up.

    Raises `FailedValue` if the result exceeds 64 bits, or for a number that is not finite.
    """
    return _interval(_WIDE.multiply(Decimal(interval), _exact(number)))


def interval_divided(interval: int, number: Any) -> int:
    """Divide an interval (months or microseconds) by a number, rounding half up.

    Raises `FailedValue` for zero, for a result that exceeds 64 bits, and for a number that is not finite.
    """
    if number == 0:
        raise FailedValue("INTERVAL_DIVIDED_BY_ZERO: an interval divided by zero. try_divide returns null for it")
    return _interval(_WIDE.divide(Decimal(interval), _exact(number)))


_OF_39_DIGITS = Context(prec=39, rounding=ROUND_HALF_UP)


def _fit_decimal(value: Decimal, kind: t.Type) -> Decimal | None:
    """Round a number half up to the scale of a decimal type; None if it then has too many digits."""
    if not isinstance(kind, t.Decimal):
        raise TypeError(kind)
    rounded = value.quantize(Decimal(1).scaleb(-kind.scale), rounding=ROUND_HALF_UP, context=_WIDE)
    return rounded if abs(rounded) < Decimal(1).scaleb(kind.precision - kind.scale) else None


@type_factory
def decimal_sum(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., Decimal | None]:
    """Return the function of values for `try_add` of two decimals or integers.

    Its sum is rounded to the decimal type `result`; None if it does not fit.
    """
    return lambda left, right: _fit_decimal(_WIDE.add(Decimal(left), Decimal(right)), result)


@type_factory
def decimal_difference(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., Decimal | None]:
    """Return the function of values for `try_subtract` of two decimals or integers.

    Its difference is rounded to the decimal type `result`; None if it does not fit.
    """
    return lambda left, right: _fit_decimal(_WIDE.subtract(Decimal(left), Decimal(right)), result)


@type_factory
def decimal_product(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., Decimal | None]:
    """Return the function of values for `try_multiply` of two decimals or integers.

    Its product is rounded to 39 digits first, as in Spark, and then to the decimal type `result`; None if it does not
    fit.
    """
    return lambda left, right: _fit_decimal(_OF_39_DIGITS.multiply(Decimal(left), Decimal(right)), result)


@type_factory
def decimal_quotient(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., Decimal | None]:
    """Return the function of values for `try_divide` of two decimals or integers.

    Its quotient is rounded to 39 places first, as in Spark, and then to the decimal type `result`. None for a division
    by zero, or if it does not fit.
    """

    def apply(left: Any, right: Any) -> Decimal | None:
        if right == 0:
            return None
        exact = _WIDE.divide(Decimal(left), Decimal(right))
        return _fit_decimal(exact.quantize(Decimal(1).scaleb(-39), rounding=ROUND_HALF_UP, context=_WIDE), result)

    return apply
