"""Explicit casts as in Spark. Texts are cast only if they have the form that both engines read alike."""

from __future__ import annotations

from lakescan.common import types as t
from lakescan.expressions.scalar.typed import (
    EXACT_DIGITS,
    TIME_FORM,
    Typed,
    converted,
    evaluated_if,
    evaluated_in_known_years,
    is_rounded,
    literal,
    of_text,
    sql_type,
    unsupported,
)

_DATE_FORM = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_FORMS: dict[t.Type, str] = {
    t.DATE: _DATE_FORM,
    t.Timestamp(zoned=True): _DATE_FORM + TIME_FORM,
    t.Timestamp(zoned=False): _DATE_FORM + TIME_FORM,
    **dict.fromkeys(t.INTEGRAL, r" *[+-]?[0-9]{1,19} *"),
}
_TIMES = (t.DATE, t.Timestamp(zoned=True), t.Timestamp(zoned=False))
_SECONDS = (-62_135_596_800, 253_402_300_799)  # the years 1 to 9999


def cast(each: Typed, kind: t.Type) -> Typed:
    """Return `CAST(each AS kind)`; raises `UnsupportedFeature` for types between which the engines cast differently."""
    if each.type == kind:
        return Typed(each.sql, kind, each.raises)
    if each.type == t.UNKNOWN:
        return literal(None, kind)
    if each.literal is not None and kind == t.DOUBLE and not each.is_text_literal:
        return converted(each, kind)
    if each.type == t.STRING:
        return _of_text(each, kind)
    if kind == t.STRING:
        return _to_text(each)
    match each.type, kind:
        case (t.FLOAT | t.DOUBLE | t.Decimal(), t.BYTE | t.SHORT | t.INT | t.LONG) if not is_rounded(each.type):
            return _plain(f"trunc({each.sql})", kind)
        case (t.BYTE | t.SHORT | t.INT | t.LONG, t.Timestamp(zoned=True)):
            within = f"({each.sql}) IS NULL OR ({each.sql}) BETWEEN {_SECONDS[0]} AND {_SECONDS[1]}"
            micros = f"make_timestamp(CAST({each.sql} AS BIGINT) * 1000000)"
            return evaluated_if(within, micros, kind, "the timestamp of second", each.sql)
    if not _is_plain(each.type, kind):
        raise unsupported(f"a cast of {each.type} to {kind}")
    return _plain(each.sql, kind)


def _plain(sql: str, kind: t.Type) -> Typed:
    return Typed(f"CAST({sql} AS {sql_type(kind)})", kind, True)


def _is_plain(source: t.Type, kind: t.Type) -> bool:
    """Whether DuckDB's own cast gives what Spark's does."""
    if source in t.INTEGRAL or source == t.BOOLEAN:
        return kind in t.INTEGRAL or (source != t.BOOLEAN and (kind in t.FLOATING or isinstance(kind, t.Decimal)))
    if isinstance(source, t.Decimal):
        return isinstance(kind, t.Decimal) or (kind == t.DOUBLE and source.precision <= EXACT_DIGITS)
    return (source in _TIMES and kind in _TIMES) or (source, kind) == (t.FLOAT, t.DOUBLE)


def _of_text(each: Typed, kind: t.Type) -> Typed:
    if each.is_text_literal and (kind == t.DATE or isinstance(kind, t.Timestamp)):
        return of_text(each, kind)
    if (form := _FORMS.get(kind)) is None:
        raise unsupported(f"a cast of {each.type} to {kind}")
    fits = f"({each.sql}) IS NULL OR (regexp_full_match({each.sql}, '{form}') AND NOT starts_with({each.sql}, '0000-'))"
    text = f"trim({each.sql}, ' ')" if kind in t.INTEGRAL else each.sql
    return evaluated_if(fits, f"CAST({text} AS {sql_type(kind)})", kind, f"a cast to {kind} of the text", each.sql)


def _to_text(each: Typed) -> Typed:
    if each.type not in (*t.INTEGRAL, t.BOOLEAN, *_TIMES) and not isinstance(each.type, t.Decimal):
        raise unsupported(f"a cast of {each.type} to string")
    text = _plain(each.sql, t.STRING)
    if each.type in _TIMES:
        return evaluated_in_known_years(each, text.sql, t.STRING, "a cast to string of")
    return text
