"""Spark's aggregate functions in Python, over the list of a group's values; nulls are None."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from lakescan.expressions.scalar.python.arrays import key, least, order_key, percentile_approx
from lakescan.expressions.scalar.udf import FailedValue

__all__ = ["percentile_approx"]


def mode(values: list[Any], takes_least: bool | None) -> Any:
    """Return the most frequent value, ignoring nulls; None without values.

    Of several such values, return the least if `takes_least`, else the first in the list.
    """
    kept = [each for each in values if each is not None]
    if not kept:
        return None
    counts = Counter(map(key, kept))
    most = max(counts.values())
    found = [each for each in kept if counts[key(each)] == most]
    return least(found) if takes_least else found[0]


def percentile(values: list[float], fraction: float) -> float | None:
    """Return the percentile `fraction` (0 to 1), interpolated linearly between the two nearest values.

    Nulls are ignored, and NaN is the greatest value. None without values. Raises `FailedValue` for a fraction out of
    range.
    """
    kept = sorted((each for each in values if each is not None), key=lambda each: (math.isnan(each), each))
    if not kept:
        return None
    if not 0 <= fraction <= 1:
        raise FailedValue(f"VALUE_OUT_OF_RANGE: percentile() takes a percentage between 0 and 1, not {fraction}")
    place = (len(kept) - 1) * fraction
    low, high = math.floor(place), math.ceil(place)
    if low == high or kept[low] == kept[high]:
        return kept[low]
    return (high - place) * kept[low] + (place - low) * kept[high]


def percentiles(values: list[float], fractions: list[float]) -> list[float | None] | None:
    """Return the percentile for each of `fractions`; None without values; see `percentile`."""
    found = [percentile(values, each) for each in fractions]
    return None if None in found else found


def percentiles_approx(values: list[Any], fractions: list[float]) -> list[Any] | None:
    """Return the result of `percentile_approx` for each of `fractions`; None without values."""
    found = [percentile_approx(values, each) for each in fractions]
    return None if None in found else found


def percentile_disc(values: list[Any], fraction: float) -> Any:
    """Return the least value such that at least the fraction `fraction` of the values is not greater.

    Nulls are ignored. None without values.
    """
    return percentile_approx(values, fraction)


def _moments(values: list[float]) -> tuple[float, float, float, float]:
    """Return the count of values, and the sums of the 2nd, 3rd and 4th powers of their deviations from the mean."""
    n = mean = second = third = fourth = 0.0
    for each in values:
        if each is None:
            continue
        n += 1
        delta = each - mean
        step = delta / n
        mean += step
        second += delta * (delta - step)
        delta2, step2 = delta * delta, step * step
        third = third - 3.0 * step * second + delta * (delta2 - step2)
        fourth = fourth - 4.0 * step * third - 6.0 * step2 * second + delta * (delta * delta2 - step * step2)
    return n, second, third, fourth


def skewness(values: list[float]) -> float | None:
    """Return the skewness of the values, ignoring nulls; None without values or if all values are equal."""
    n, second, third, _ = _moments(values)
    return None if not n or second == 0 else math.sqrt(n) * third / math.sqrt(second * second * second)


def kurtosis(values: list[float]) -> float | None:
    """Return the excess kurtosis of the values, ignoring nulls; None without values or if all values are equal."""
    n, second, _, fourth = _moments(values)
    return None if not n or second == 0 else n * fourth / (second * second) - 3.0


def best(pairs: list[dict[str, Any]], count: int, is_most: bool) -> list[Any]:
    """Return the values of the `count` pairs with the greatest order values, or the least unless `is_most`, in order.

    A pair is a dictionary with its value under `v` and its order value under `o`. Pairs with a null order value are
    ignored.
    """
    kept = [each for each in pairs if each["o"] is not None]
    ordered = sorted(kept, key=lambda each: order_key(each["o"]), reverse=is_most)
    return [each["v"] for each in ordered[:count]]
