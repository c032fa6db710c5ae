"""Explicit casts as in Spark. Texts are cast only if they have the form that both engines read alike."""

from __future__ import annotations

from dataclasses import replace

from lakescan.common import types as t
from lakescan.expressions.scalar import nested
from lakescan.expressions.scalar.typed import (
    MOST_DIGITS,
    TIME_FORM,
    Typed,
    converted,
    evaluated_if,
    evaluated_in_known_years,
    failing,
    inside_converted,
    is_rounded,
    literal,
    of_text,
    sql_type,
    unsupported,
)

_DATE_FORM = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)"
_NO_NUMBER = r"(?i:[+-]?inf(inity)?|nan)"
_FORMS: dict[t.Type, str] = {
    t.DATE: _DATE_FORM,
    t.Timestamp(zoned=True): f"{_DATE_FORM}({TIME_FORM})?",
    t.Timestamp(zoned=False): f"{_DATE_FORM}({TIME_FORM})?",
    **dict.fromkeys(t.INTEGRAL, r" *[+-]?[0-9]{1,19} *"),
    **dict.fromkeys(t.FLOATING, rf" *({_NUMBER}([eE][+-]?[0-9]{{1,3}})?|{_NO_NUMBER}) *"),
}
_TIMES = (t.DATE, t.Timestamp(zoned=True), t.Timestamp(zoned=False))
_SECONDS = (-62_135_596_800, 253_402_300_799)  # the years 1 to 9999
_NO_FLOAT = "CAST('3.4028235677973366e38' AS DOUBLE)"  # the least double that is rounded to infinity, as in Java
_DIGITS_OF_LONGS = 18  # of a decimal: one with more digits becomes a whole number by way of a double


def cast(each: Typed, kind: t.Type) -> Typed:
    """Return `CAST(each AS kind)`; raises `UnsupportedFeature` for types between which the engines cast differently."""
    if each.type == kind:
        return Typed(each.sql, kind, each.raises)
    if each.type == t.UNKNOWN and each.raises:
        return failing(each, kind)
    if t.children(kind) and (each.type == t.UNKNOWN or nested.fits(each.type, kind)):
        return inside_converted(each, kind, cast)
    if each.type == t.UNKNOWN:
        return literal(None, kind)
    if each.literal is not None and kind == t.DOUBLE and not each.is_text_literal:
        return converted(each, kind)
    if each.type == t.STRING:
        return _of_text(each, kind)
    if kind == t.STRING:
        return _to_text(each)
    match each.type, kind:
        case (t.FLOAT | t.DOUBLE | t.Decimal(), t.BYTE | t.SHORT | t.INT | t.LONG):
            return _whole(each, kind, "CAST")
        case (t.DOUBLE | t.Decimal(), t.FLOAT):
            return _to_float(each)
        case (t.BYTE | t.SHORT | t.INT | t.LONG, t.BOOLEAN):
            return Typed(f"({each.sql} <> 0)", kind, each.raises)
        case (t.DOUBLE | t.FLOAT, t.Decimal()):
            other = f"isnan({each.sql}) OR isinf({each.sql})"
            digits = f"CAST(CAST({each.sql} AS DOUBLE) AS VARCHAR)"  # of FLOAT, too: all those of its double
            if kind.precision == kind.scale < MOST_DIGITS:  # DuckDB wants room for the digit of 1e-10
                digits = _plain(digits, t.Decimal(kind.precision + 1, kind.scale)).sql
            return Typed(f"CASE WHEN {other} THEN NULL ELSE {_plain(digits, kind).sql} END", kind, True)
        case (t.Timestamp(zoned=True), t.LONG):
            micros = f"epoch_us({each.sql})"
            return _plain(f"({micros} - (({micros} % 1000000) + 1000000) % 1000000) // 1000000", kind)
        case (t.BYTE | t.SHORT | t.INT | t.LONG, t.Timestamp(zoned=True)):
            within = f"({each.sql}) IS NULL OR ({each.sql}) BETWEEN {_SECONDS[0]} AND {_SECONDS[1]}"
            micros = f"make_timestamp(CAST({each.sql} AS BIGINT) * 1000000)"
            return evaluated_if(within, micros, kind, "the timestamp of second", each.sql)
    if not _is_plain(each.type, kind):
        raise unsupported(f"a cast of {each.type} to {kind}")
    if isinstance(each.type, t.Decimal) and kind == t.DOUBLE:
        return converted(replace(each, literal=None), kind)
    return _plain(each.sql, kind)


def tried(each: Typed, kind: t.Type) -> Typed:
    """Return `try_cast(each AS kind)`: null where a cast fails."""
    name = sql_type(kind)
    if each.type == t.STRING:
        return _tried_text(each, kind)
    is_exact = each.type in t.INTEGRAL or isinstance(each.type, t.Decimal)
    if kind in t.INTEGRAL and (is_exact or each.type in t.FLOATING):
        if each.type not in t.INTEGRAL:
            return _whole(each, kind, "TRY_CAST")
        return Typed(f"TRY_CAST({each.sql} AS {name})", kind, each.raises)
    if is_exact and isinstance(kind, t.Decimal):
        return Typed(f"TRY_CAST({each.sql} AS {name})", kind, each.raises)
    if each.type != kind and kind not in (t.STRING, *t.FLOATING):
        raise unsupported(f"try_cast of {each.type} to {kind}")
    return cast(each, kind)


def _tried_text(each: Typed, kind: t.Type) -> Typed:
    form = rf" *{_NUMBER} *" if isinstance(kind, t.Decimal) else _FORMS.get(kind)
    if form is None:
        raise unsupported(f"try_cast of {each.type} to {kind}")
    is_time = kind == t.DATE or isinstance(kind, t.Timestamp)
    text = each.sql if is_time else f"ltrim(trim({each.sql}, ' '), '+')"
    # What begins like a date may be one in a form that is not known here; what has other letters may be a number.
    unknown = r"^[ -+]*[0-9]" if is_time else r"[^!-~ ]|[dDfFnN]" if kind in t.FLOATING else r"[^!-~ ]|[eE]"
    fits = f"regexp_full_match({each.sql}, '{form}') AND NOT starts_with({each.sql}, '0000-')"
    sure = f"({each.sql}) IS NULL OR ({fits}) OR NOT regexp_matches({each.sql}, '{unknown}')"
    sql = f"CASE WHEN {fits} THEN TRY_CAST({text} AS {sql_type(kind)}) END"
    return evaluated_if(sure, sql, kind, f"try_cast to {kind} of the text", each.sql)


def _plain(sql: str, kind: t.Type) -> Typed:
    return Typed(f"CAST({sql} AS {sql_type(kind)})", kind, True)


def _whole(each: Typed, kind: t.Type, word: str) -> Typed:
    """A number without its fraction; `word` is CAST or TRY_CAST."""
    name = sql_type(kind)
    sql = f"{word}(trunc({each.sql}) AS {name})"
    if each.type in t.FLOATING:
        if kind == t.LONG:  # Spark compares with the greatest long as a double, which is this one more
            sql = f"CASE WHEN {each.sql} = 9223372036854775808e0 THEN 9223372036854775807 ELSE {sql} END"
        return Typed(sql, kind, each.raises or word == "CAST")
    assert isinstance(each.type, t.Decimal)
    is_exact = not is_rounded(each.type) if kind == t.LONG else each.type.precision <= _DIGITS_OF_LONGS
    if is_exact or each.type.scale == 0:
        return Typed(sql, kind, each.raises or word == "CAST")
    same = f"({each.sql}) IS NULL OR trunc(CAST(CAST({each.sql} AS VARCHAR) AS DOUBLE)) = trunc({each.sql})"
    return evaluated_if(same, sql, kind, f"a cast to {kind} of the decimal", each.sql)


def _to_float(each: Typed) -> Typed:
    """A double or decimal as the nearest float: it may be infinite, as in Java, and is no failure."""
    if isinstance(each.type, t.Decimal):  # not by way of a double, which would round twice
        return Typed(f"CAST(CAST({each.sql} AS VARCHAR) AS FLOAT)", t.FLOAT, each.raises)
    large = f"abs({each.sql}) >= {_NO_FLOAT} AND NOT isnan({each.sql})"
    infinite = f"CASE WHEN {each.sql} > 0 THEN CAST('inf' AS FLOAT) ELSE CAST('-inf' AS FLOAT) END"
    return Typed(f"CASE WHEN {large} THEN {infinite} ELSE CAST({each.sql} AS FLOAT) END", t.FLOAT, each.raises)


def _is_plain(source: t.Type, kind: t.Type) -> bool:
    """Whether DuckDB's own cast gives what Spark's does."""
    if source in t.INTEGRAL or source == t.BOOLEAN:
        return kind in t.INTEGRAL or (source != t.BOOLEAN and (kind in t.FLOATING or isinstance(kind, t.Decimal)))
    if isinstance(source, t.Decimal):
        return isinstance(kind, t.Decimal) or kind == t.DOUBLE
    return (source in _TIMES and kind in _TIMES) or (source, kind) == (t.FLOAT, t.DOUBLE)


def _of_text(each: Typed, kind: t.Type) -> Typed:
    if each.is_text_literal and (kind == t.DATE or isinstance(kind, t.Timestamp)):
        return of_text(each, kind)
    if kind == t.BOOLEAN:
        return _truth(each)
    form = rf" *{_NUMBER} *" if isinstance(kind, t.Decimal) else _FORMS.get(kind)
    if form is None:
        raise unsupported(f"a cast of {each.type} to {kind}")
    fits = f"({each.sql}) IS NULL OR (regexp_full_match({each.sql}, '{form}') AND NOT starts_with({each.sql}, '0000-'))"
    is_number = kind in (*t.INTEGRAL, *t.FLOATING) or isinstance(kind, t.Decimal)
    text = f"ltrim(trim({each.sql}, ' '), '+')" if is_number else each.sql
    return evaluated_if(fits, f"CAST({text} AS {sql_type(kind)})", kind, f"a cast to {kind} of the text", each.sql)


def _truth(each: Typed) -> Typed:
    """The words of Spark for true and false; other texts fail."""
    word = f"lower(trim({each.sql}, ' '))"
    cases = f"WHEN {word} IN ('true', 't', 'yes', 'y', '1') THEN TRUE"
    cases += f" WHEN {word} IN ('false', 'f', 'no', 'n', '0') THEN FALSE"
    failed = "CAST(error('a text that is neither true nor false') AS BOOLEAN)"
    return Typed(f"CASE WHEN ({each.sql}) IS NULL THEN NULL {cases} ELSE {failed} END", t.BOOLEAN, True)


def _to_text(each: Typed) -> Typed:
    if each.type not in (*t.INTEGRAL, t.BOOLEAN, *_TIMES) and not isinstance(each.type, t.Decimal):
        raise unsupported(f"a cast of {each.type} to string")
    if isinstance(each.type, t.Decimal) and each.type.precision == each.type.scale < MOST_DIGITS:
        wider = t.Decimal(each.type.precision + 1, each.type.scale)  # else DuckDB writes no zero before the point
        return _plain(_plain(each.sql, wider).sql, t.STRING)
    text = _plain(each.sql, t.STRING)
    if each.type in _TIMES:
        return evaluated_in_known_years(each, text.sql, t.STRING, "a cast to string of")
    return text
