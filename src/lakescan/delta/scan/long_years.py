"""Parse dates whose year does not have four digits, as Spark writes them (`+10000-01-01`): Arrow's parser cannot."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_FAR = r"^(?:[+-]\d{4,6}|\d{5,6})-\d{2}-\d{2}"
_DAY = 86_400_000_000  # microseconds


def parse_dates(texts: pa.Array) -> pa.Array:
    """Parse dates of any year; raises `pyarrow.ArrowInvalid` for text that is not a date."""
    near, days = _split(texts)
    dates = near.cast(pa.date32())
    return dates if days is None else pc.add(dates.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


def without_far_years(texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Replace far dates in timestamp texts by 1970-01-01; also return the microseconds to add to each, or None.

    Raises `pyarrow.ArrowInvalid` for an invalid date, and for one out of range of 64-bit microseconds.
    """
    near, days = _split(texts)
    try:
        return near, None if days is None else pc.multiply_checked(days, _DAY)
    except pa.ArrowInvalid as error:
        raise pa.ArrowInvalid("the year is out of range for timestamps") from error


def _split(texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    is_far = pc.fill_null(pc.match_substring_regex(texts, _FAR), False)
    if not pc.any(is_far).as_py():
        return texts, None
    near = pc.if_else(is_far, pc.replace_substring_regex(texts, _FAR, "1970-01-01"), texts)
    dates = pc.extract_regex(texts.filter(is_far), rf"(?P<date>{_FAR[1:]})").field("date")
    days = np.zeros(len(texts), dtype=np.int64)
    try:
        days[is_far.to_numpy(zero_copy_only=False)] = np.array(
            pc.utf8_ltrim(dates, "+").to_pylist(), dtype="datetime64[D]"
        ).astype(np.int64)
    except ValueError as error:
        raise pa.ArrowInvalid(str(error)) from error
    return near, pa.array(days)
