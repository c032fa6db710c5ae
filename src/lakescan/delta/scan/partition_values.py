"""Parse partition values (protocol, "Partition Value Serialization")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.delta.log.log_text import ADVICE, short_json
from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.reading.type_promotion import pad_texts

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def typed_values(texts: pa.Array, field: t.Field, where: Callable[[int], str] | None = None) -> pa.Array:
    """Parse the values of a partition column; the empty text is null for every type.

    Timestamps without an offset are UTC. Raises `CorruptMetadata` for a text that does not fit the column's type;
    `where` returns the file of a row, for the message.
    """
    is_null = pc.or_kleene(pc.equal(texts, ""), pc.equal(texts, NULL_PARTITION))
    values = pc.if_else(pc.fill_null(is_null, True), pa.scalar(None, pa.string()), texts)
    try:
        return pad_texts(_parse(values, field.type), field.pad)
    except (pa.ArrowException, ArithmeticError) as error:
        row = _first_wrong(values, field.type)
        place = f"{where(row)}: " if where is not None else ""
        raise CorruptMetadata(
            f"{place}the value {short_json(values[row].as_py())} of partition column {field.name!r} is not "
            f"{field.type}. "
            f"{ADVICE}"
        ) from error


def _first_wrong(values: pa.Array, kind: t.Type) -> int:
    """Return the row of the first value that cannot be parsed, found by bisection; there must be one."""
    start, stop = 0, len(values)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            _parse(values[start:middle], kind)
            start = middle
        except (pa.ArrowException, ArithmeticError):
            stop = middle
    return start


def _parse(values: pa.Array, kind: t.Type) -> pa.Array:
    match kind:
        case t.STRING:
            return values
        case t.BINARY:
            return values.cast(pa.binary())
        case t.BOOLEAN:
            return pc.utf8_lower(values).cast(pa.bool_())
        case t.Decimal():
            return values.cast(pa.decimal128(38, kind.scale)).cast(kind.arrow())
        case t.DATE:
            return parse_dates(pc.utf8_trim_whitespace(values))
        case t.Timestamp():
            return parse_timestamps(values, kind)
        case t.UNKNOWN:
            return pa.nulls(len(values))
        case t.Struct() | t.ListOf() | t.MapOf() | t.VARIANT | t.Geospatial():
            raise UnsupportedFeature(f"partition columns of type {kind}")
    return pc.utf8_trim_whitespace(values).cast(kind.arrow())


def parse_timestamps(values: pa.Array, kind: t.Timestamp) -> pa.Array:
    """Parse timestamps like `2026-01-31 12:00:00.5` or ISO 8601; offsets are applied, and no offset means UTC.

    Raises `pyarrow.ArrowInvalid` for other text.
    """
    values, later = shift_far_years(values)
    has_zone = pc.match_substring_regex(values, r"(Z|[+-]\d\d:?\d\d)$")
    with_zone = pc.if_else(has_zone, values, pa.scalar(None, pa.string()))
    without = pc.if_else(has_zone, pa.scalar(None, pa.string()), values)
    instants = with_zone.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    timestamps = pc.coalesce(without.cast(pa.timestamp("us")), instants)
    if later is not None:
        timestamps = pc.add_checked(timestamps.cast(pa.int64()), later)
    return timestamps.cast(kind.arrow())


_FAR = r"^(?:[+-]\d{4,6}|\d{5,6})-\d{2}-\d{2}"
_DAY = 86_400_000_000  # microseconds


def parse_dates(texts: pa.Array) -> pa.Array:
    """Parse dates of any year; raises `pyarrow.ArrowInvalid` for text that is not a date."""
    near, days = _split(texts)
    dates = near.cast(pa.date32())
    return dates if days is None else pc.add(dates.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())


def shift_far_years(texts: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Replace dates whose year is not four plain digits by 1970-01-01, since Arrow cannot parse them in timestamps.

    Also returns the microseconds to add to each timestamp, or None if no date was replaced. Raises
    `pyarrow.ArrowInvalid` for an invalid date, and for one out of range of 64-bit microseconds.
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
