"""Times as texts and back, by the patterns of Spark that are common: digits of a fixed length, and English names."""

from __future__ import annotations

import re

from lakescan.common import types as t
from lakescan.expressions.scalar.casts import cast
from lakescan.expressions.scalar.text_functions import text_arguments
from lakescan.expressions.scalar.time_functions import INSTANT, instant_of
from lakescan.expressions.scalar.typed import TypedSql, literal, quote_text, unsupported_error
from lakescan.expressions.scalar.udf import call_python

_PIECE = re.compile(r"yyyy|yy|MMMM|MMM|MM|M|dd|d|HH|H|hh|h|mm|ss|SSSSSS|SSS|EEEE|EEE|E|a|'[^'%]*'|[-_/:., ]")
_CODES = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%-m",
    "dd": "%d",
    "d": "%-d",
    "HH": "%H",
    "H": "%-H",
    "hh": "%I",
    "h": "%-I",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%g",
    "SSSSSS": "%f",
    "EEEE": "%A",
    "EEE": "%a",
    "E": "%a",
    "a": "%p",
}
_FIXED = {"yyyy": 4, "MM": 2, "dd": 2, "HH": 2, "mm": 2, "ss": 2}
DEFAULT = literal("yyyy-MM-dd HH:mm:ss", t.STRING)


def _pieces(pattern: TypedSql, name: str) -> list[str]:
    text = pattern.literal if pattern.is_text_literal else None
    pieces = _PIECE.findall(text or "")
    if not pieces or "".join(pieces) != text:
        raise unsupported_error(f"the function {name}() with the pattern {text!r}")
    return pieces


def date_format(each: TypedSql, pattern: TypedSql) -> TypedSql:
    """Return `date_format(each, pattern)`."""
    pieces = _pieces(pattern, "date_format")
    value = instant_of(each)
    codes = quote_text("".join(_CODES.get(one, one.strip("'")) for one in pieces))
    other = call_python("times.date_format", [value, pattern], t.STRING).sql
    within = f"({value.sql}) IS NULL OR year({value.sql}) BETWEEN 1 AND 9999"
    return TypedSql(f"CASE WHEN {within} THEN strftime({value.sql}, {codes}) ELSE {other} END", t.STRING, value.raises)


def parse_instant(text: TypedSql, pattern: TypedSql, name: str = "to_timestamp") -> TypedSql:
    """Return `to_timestamp(text, pattern)`: a text that is not of the pattern is an error."""
    value = text_arguments(name, text)[0]
    pieces = _pieces(pattern, name)
    fields: dict[str, str] = {}
    form, at = "", 1
    for each in pieces:
        plain = each.strip("'") if each.startswith("'") else each
        if each in _FIXED and each not in fields:
            fields[each] = f"CAST(substring({value}, {at}, {_FIXED[each]}) AS BIGINT)"
            form, at = f"{form}[0-9]{{{_FIXED[each]}}}", at + _FIXED[each]
        elif plain and plain not in _CODES:
            form, at = form + re.escape(plain).replace("/", "/"), at + len(plain)
        else:
            raise unsupported_error(f"the function {name}() with the pattern {pattern.literal!r}")
    if not {"yyyy", "MM", "dd"} <= fields.keys() or _has_gaps(fields):
        raise unsupported_error(f"the function {name}() with the pattern {pattern.literal!r}")
    parts = [fields.get(each, "0") for each in _FIXED]
    made = f"make_timestamp({', '.join(parts[:5])}, CAST({parts[5]} AS DOUBLE))"
    fits = f"regexp_full_match({value}, {quote_text(form)}) AND {parts[0]} > 0 AND {parts[1]} BETWEEN 1 AND 12"
    fits += f" AND {parts[2]} BETWEEN 1 AND 28 AND {parts[3]} < 24 AND {parts[4]} < 60 AND {parts[5]} < 60"
    other = call_python("times.to_timestamp", [TypedSql(value, t.STRING), pattern], t.Timestamp(zoned=False)).sql
    sql = f"CASE WHEN ({value}) IS NULL THEN NULL WHEN {fits} THEN {made} ELSE {other} END"
    return TypedSql(sql, INSTANT, True)


def _has_gaps(fields: dict[str, str]) -> bool:
    """Whether a shorter unit is there without a longer one."""
    times = [each in fields for each in ("HH", "mm", "ss")]
    return times != sorted(times, reverse=True)


def to_timestamp(each: TypedSql, pattern: TypedSql | None = None) -> TypedSql:
    """Return `to_timestamp(each)`, or of a text in a pattern."""
    return cast(each, INSTANT) if pattern is None or each.type != t.STRING else parse_instant(each, pattern)


def to_date(each: TypedSql, pattern: TypedSql | None = None) -> TypedSql:
    """Return `to_date(each)`: the date of a date, a timestamp or a text, which may be in a pattern."""
    if pattern is None or each.type != t.STRING:
        return cast(each, t.DATE)
    return cast(parse_instant(each, pattern, "to_date"), t.DATE)


def from_seconds(each: TypedSql, pattern: TypedSql = DEFAULT) -> TypedSql:
    """Return `from_unixtime(each, pattern)`."""
    return date_format(cast(cast(each, t.LONG), INSTANT), pattern)


def unix_timestamp(each: TypedSql, pattern: TypedSql = DEFAULT) -> TypedSql:
    """Return `unix_timestamp(each, pattern)`, of a time, or a text in a pattern."""
    value = parse_instant(each, pattern, "unix_timestamp") if each.type == t.STRING else instant_of(each)
    return TypedSql(f"(epoch_us({value.sql}) // 1000000)", t.LONG, True)
