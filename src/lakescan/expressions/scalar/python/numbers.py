"""Functions of numbers."""

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
    """Return a double rounded half up as it is written."""
    return value if math.isnan(value) or math.isinf(value) else float(_quantize(value, places, ROUND_HALF_UP))


def bround_double(value: float, places: int) -> float:
    """Return a double rounded half even as it is written."""
    return value if math.isnan(value) or math.isinf(value) else float(_quantize(value, places, ROUND_HALF_EVEN))


def bround(value: Any, places: int) -> Decimal:
    """Return a decimal or whole number rounded half even."""
    return _quantize(value, places, ROUND_HALF_EVEN)


def ceil_to(value: Any, places: int) -> Decimal:
    """Return a number rounded up to so many places."""
    return _quantize(value, places, "ROUND_CEILING")


def floor_to(value: Any, places: int) -> Decimal:
    """Return a number rounded down to so many places."""
    return _quantize(value, places, "ROUND_FLOOR")


def bround_whole(value: int, places: int) -> int:
    """Return a whole number rounded half even."""
    return int(_quantize(value, places, ROUND_HALF_EVEN))


def factorial(value: int) -> int | None:
    """Return the factorial of 0 to 20; None of others."""
    return math.factorial(value) if 0 <= value <= 20 else None


def hypot(left: float, right: float) -> float:
    """Return the length of the hypotenuse."""
    return math.hypot(left, right)


def cbrt(value: float) -> float:
    """Return the cube root."""
    return float(np.cbrt(value))


def rint(value: float) -> float:
    """Return the nearest whole number, the even one of two."""
    if math.isnan(value) or math.isinf(value) or abs(value) >= 2**52:
        return value
    return math.copysign(round(value), value)


def expm1(value: float) -> float:
    """Return `e^value - 1`."""
    return _call_math(math.expm1, value)


def log1p(value: float) -> float | None:
    """Return `ln(1 + value)`; None up to -1."""
    return None if value <= -1 else _call_math(math.log1p, value)


def _call_math(function: Any, *values: float) -> float:
    try:
        return float(function(*values))
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def sinh(value: float) -> float:
    """Return the hyperbolic sine."""
    return math.copysign(_call_math(math.sinh, abs(value)), value)


def cosh(value: float) -> float:
    """Return the hyperbolic cosine."""
    return _call_math(math.cosh, value)


def bit_count(value: int) -> int:
    """Return the number of bits that are set, of 64."""
    return (value & (2**64 - 1)).bit_count()


def bit_get(value: int, place: int) -> int:
    """Return one of 64 bits."""
    return (value >> place) & 1


def width_bucket(value: float, least: float, most: float, count: int) -> int | None:
    """Return the number of the bucket between two ends that a value is in."""
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
    """Return a number of so many bits shifted to the left, to the right, or to the right without its sign."""
    count &= bits - 1
    full = (1 << bits) - 1
    moved = (value << count if kind == "l" else value >> count if kind == "r" else (value & full) >> count) & full
    return moved - (1 << bits) if moved >> (bits - 1) else moved


class _Form:
    """A format of numbers, taken apart: `S999,099.99`."""

    def __init__(self, text: str) -> None:
        form = text.upper()
        self.text = text
        self.sign = next((each for each in ("MI", "S", "PR") if each in form), "")
        self.sign_first = form.startswith(("S", "MI"))
        self.currency = "$" in form or form.startswith("L")
        plain = form.replace("MI", "").replace("S", "").replace("PR", "").replace("$", "").replace("L", "")
        self.whole, self.point, self.fraction = plain.replace("G", ",").replace("D", ".").partition(".")
        if not plain or set(self.whole + self.fraction) - set("09,") or "," in self.fraction:
            raise FailedValue(f"INVALID_FORMAT: {text!r} is no format of numbers")
        self.digits = self.whole.replace(",", "")


def to_number(text: str, form: str) -> Decimal:
    """Return the decimal of a text in a format; raises `FailedValue` for another text."""
    value = try_to_number(text, form)
    if value is None:
        raise FailedValue(f"INVALID_FORMAT.MISMATCH_INPUT: the text {text!r} is not of the format {form!r}")
    return value


def try_to_number(text: str, form: str) -> Decimal | None:
    """Return the decimal of a text in a format; None for another text."""
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
    """Return an interval multiplied by a number."""
    return _interval(_WIDE.multiply(Decimal(interval), _exact(number)))


def interval_divided(interval: int, number: Any) -> int:
    """Return an interval divided by a number."""
    if number == 0:
        raise FailedValue("INTERVAL_DIVIDED_BY_ZERO: an interval divided by zero. try_divide returns null for it")
    return _interval(_WIDE.divide(Decimal(interval), _exact(number)))


_OF_39_DIGITS = Context(prec=39, rounding=ROUND_HALF_UP)


def _fit_decimal(value: Decimal, kind: t.Type) -> Decimal | None:
    """Return a number rounded to a decimal type; None if it exceeds it."""
    if not isinstance(kind, t.Decimal):
        raise TypeError(kind)
    rounded = value.quantize(Decimal(1).scaleb(-kind.scale), rounding=ROUND_HALF_UP, context=_WIDE)
    return rounded if abs(rounded) < Decimal(1).scaleb(kind.precision - kind.scale) else None


@type_factory
def decimal_sum(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., Decimal | None]:
    """Make the sum of two decimals or whole numbers, None where it exceeds the type of the result."""
    return lambda left, right: _fit_decimal(_WIDE.add(Decimal(left), Decimal(right)), result)


@type_factory
def decimal_difference(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., Decimal | None]:
    """Make the difference of two decimals or whole numbers, None where it exceeds the type of the result."""
    return lambda left, right: _fit_decimal(_WIDE.subtract(Decimal(left), Decimal(right)), result)


@type_factory
def decimal_product(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., Decimal | None]:
    """Make the product of two decimals or whole numbers; as in Spark, it is rounded to 39 digits first."""
    return lambda left, right: _fit_decimal(_OF_39_DIGITS.multiply(Decimal(left), Decimal(right)), result)


@type_factory
def decimal_quotient(kinds: Sequence[t.Type], result: t.Type) -> Callable[..., Decimal | None]:
    """Make the quotient of two decimals or whole numbers; as in Spark, it is rounded to 39 places first."""

    def apply(left: Any, right: Any) -> Decimal | None:
        if right == 0:
            return None
        exact = _WIDE.divide(Decimal(left), Decimal(right))
        return _fit_decimal(exact.quantize(Decimal(1).scaleb(-39), rounding=ROUND_HALF_UP, context=_WIDE), result)

    return apply
