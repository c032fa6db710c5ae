"""Explicit casts as in Spark's ANSI mode, translated to DuckDB SQL.

DuckDB casts strings only in forms that both engines read alike. Python functions cast the others.
"""

from __future__ import annotations

from dataclasses import replace

from lakescan.common import types as t
from lakescan.expressions.scalar import nested
from lakescan.expressions.scalar.typed_sql import (
    MOST_DIGITS,
    TIME_FORM,
    Interval,
    TypedSql,
    convert,
    convert_inside,
    failure_value,
    is_rounded,
    literal,
    quote_text,
    read_text,
    refuse_unless,
    sql_type,
    unsupported_error,
)
from lakescan.expressions.scalar.udf import call_python

_DATE_FORM = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_FORMS: dict[t.Type, str] = {
    t.DATE: _DATE_FORM,
    t.Timestamp(zoned=True): f"{_DATE_FORM}({TIME_FORM})?",
    t.Timestamp(zoned=False): f"{_DATE_FORM}({TIME_FORM})?",
    t.BYTE: "-?[0-9]{1,2}",
    t.SHORT: "-?[0-9]{1,4}",
    t.INT: "-?[0-9]{1,9}",
    t.LONG: "-?[0-9]{1,18}",
    t.FLOAT: r"-?[0-9]{1,15}(\.[0-9]{1,15})?",
    t.DOUBLE: r"-?[0-9]{1,15}(\.[0-9]{1,15})?",
}
_READERS: dict[t.Type, str] = {
    t.DATE: "date",
    t.Timestamp(zoned=True): "timestamp",
    t.Timestamp(zoned=False): "timestamp_ntz",
    t.BYTE: "byte",
    t.SHORT: "short",
    t.INT: "int_",
    t.LONG: "long",
    t.FLOAT: "double",
    t.DOUBLE: "double",
    t.BOOLEAN: "boolean",
}
_WRITERS: dict[t.Type, str] = {
    t.FLOAT: "float_as_text",
    t.DOUBLE: "double_as_text",
    t.BINARY: "binary_as_text",
}
_NAMES: dict[t.Type, str] = {t.BYTE: "TINYINT", t.SHORT: "SMALLINT", t.LONG: "BIGINT"}
_TIMES = (t.DATE, t.Timestamp(zoned=True), t.Timestamp(zoned=False))
_UNIT_SIZES = {"year": 12, "month": 1, "day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1}
_MOST_SECONDS = 9_213_695_999_999  # about the year 293940, which DuckDB's timestamps still have
_NO_FLOAT = "CAST('3.4028235677973366e38' AS DOUBLE)"  # the least double that Java rounds to infinity as a float
_DIGITS_OF_LONGS = 18  # Spark casts decimals with more digits to integers through a double


def cast(each: TypedSql, kind: t.Type) -> TypedSql:
    """Return `CAST(each AS kind)`, which fails for values that Spark cannot cast.

    Raises `UnsupportedFeature` for a pair of types that is not translated.
    """
    if each.type == kind:
        return TypedSql(each.sql, kind, each.raises)
    if each.type == t.UNKNOWN and each.raises:
        return failure_value(each, kind)
    if t.children(kind) and (each.type == t.UNKNOWN or nested.fits(each.type, kind)):
        return convert_inside(each, kind, cast)
    if each.type == t.UNKNOWN:
        return literal(None, kind)
    if each.literal is not None and kind == t.DOUBLE and not each.is_text_literal:
        return convert(each, kind)
    if each.type == t.STRING:
        return _cast_text(each, kind)
    if (found := _cast_interval(each, kind)) is not None:
        return found
    if kind == t.STRING:
        return _to_text(each)
    match each.type, kind:
        case (t.FLOAT | t.DOUBLE | t.Decimal(), t.BYTE | t.SHORT | t.INT | t.LONG):
            return _whole(each, kind, "CAST")
        case (t.DOUBLE | t.Decimal(), t.FLOAT):
            return _to_float(each)
        case (t.BYTE | t.SHORT | t.INT | t.LONG, t.BOOLEAN):
            return TypedSql(f"({each.sql} <> 0)", kind, each.raises)
        case (t.DOUBLE | t.FLOAT, t.Decimal()):
            return _decimal_of_double(each, kind, "CAST")
        case (t.FLOAT | t.DOUBLE | t.Decimal(), t.BOOLEAN):
            return TypedSql(f"({each.sql} <> 0)", kind, each.raises)
        case (t.BOOLEAN, t.Decimal() | t.FLOAT | t.DOUBLE):
            return _plain(f"CAST({each.sql} AS TINYINT)", kind)
        case (t.Timestamp(zoned=True), t.DOUBLE):
            return TypedSql(f"(CAST(epoch_us({each.sql}) AS DOUBLE) / 1000000)", kind, each.raises)
        case (t.Timestamp(zoned=True), t.Decimal()):
            seconds = f"CAST(epoch_us({each.sql}) AS DECIMAL(19, 0)) * CAST('0.000001' AS DECIMAL(7, 6))"
            return _plain(f"({seconds})", kind)
        case (t.DOUBLE | t.FLOAT, t.Timestamp(zoned=True)):
            return call_python("times.timestamp_of_double", [convert(each, t.DOUBLE)], kind, raises=True)
        case (t.Decimal(), t.Timestamp(zoned=True)):
            return call_python("times.timestamp_of_decimal", [each], kind, raises=True)
        case (t.Timestamp(zoned=True), t.LONG):
            micros = f"epoch_us({each.sql})"
            return _plain(f"({micros} - (({micros} % 1000000) + 1000000) % 1000000) // 1000000", kind)
        case (t.BYTE | t.SHORT | t.INT | t.LONG, t.Timestamp(zoned=True)):
            within = f"({each.sql}) IS NULL OR ({each.sql}) BETWEEN {-_MOST_SECONDS} AND {_MOST_SECONDS}"
            micros = f"make_timestamp(CAST({each.sql} AS BIGINT) * 1000000)"
            return refuse_unless(within, micros, kind, "the timestamp of second", each.sql)
    if not _is_plain(each.type, kind):
        raise unsupported_error(f"a cast of {each.type} to {kind}")
    if isinstance(each.type, t.Decimal) and kind == t.DOUBLE:
        return convert(replace(each, literal=None), kind)
    return _plain(each.sql, kind)


def _decimal_of_double(each: TypedSql, kind: t.Decimal, word: str) -> TypedSql:
    """Cast a double or float to a decimal by its shortest text, rounded half up; NaN and infinity become null.

    `word` is CAST or TRY_CAST: whether a value that exceeds the decimal fails or becomes null.
    """
    other = f"isnan({each.sql}) OR isinf({each.sql})"
    digits = f"CAST(CAST({each.sql} AS DOUBLE) AS VARCHAR)"  # Spark converts floats to doubles first
    if kind.precision == kind.scale < MOST_DIGITS:  # DuckDB needs an integer digit to parse 1e-10
        digits = f"{word}({digits} AS {sql_type(t.Decimal(kind.precision + 1, kind.scale))})"
    return TypedSql(f"CASE WHEN {other} THEN NULL ELSE {word}({digits} AS {sql_type(kind)}) END", kind, True)


def try_cast(each: TypedSql, kind: t.Type) -> TypedSql:
    """Return `try_cast(each AS kind)`, which is null where the cast fails.

    Raises `UnsupportedFeature` for a pair of types that is not translated.
    """
    if each.type == t.STRING:
        return _cast_text(each, kind, tries=True)
    name = sql_type(kind) if not t.children(kind) else ""
    is_exact = each.type in t.INTEGRAL or isinstance(each.type, t.Decimal)
    if kind in t.INTEGRAL and (is_exact or each.type in t.FLOATING):
        if each.type not in t.INTEGRAL:
            return _whole(each, kind, "TRY_CAST")
        return TypedSql(f"TRY_CAST({each.sql} AS {name})", kind, each.raises)
    if is_exact and isinstance(kind, t.Decimal):
        return TypedSql(f"TRY_CAST({each.sql} AS {name})", kind, each.raises)
    if t.children(kind) and each.type != kind and (each.type == t.UNKNOWN or nested.fits(each.type, kind)):
        return convert_inside(each, kind, try_cast)
    if isinstance(kind, t.Decimal) and each.type in t.FLOATING:
        return replace(_decimal_of_double(each, kind, "TRY_CAST"), raises=each.raises)
    if each.type != kind and kind not in (t.STRING, t.BOOLEAN, *t.FLOATING) and each.type not in _TIMES:
        raise unsupported_error(f"try_cast of {each.type} to {kind}")
    return cast(each, kind)


def _plain(sql: str, kind: t.Type) -> TypedSql:
    return TypedSql(f"CAST({sql} AS {sql_type(kind)})", kind, True)


def _whole(each: TypedSql, kind: t.Type, word: str) -> TypedSql:
    """Cast a decimal or float to an integer type, truncating it.

    `word` is CAST or TRY_CAST: whether a value out of range fails or becomes null.
    """
    name = sql_type(kind)
    sql = f"{word}(trunc({each.sql}) AS {name})"
    if each.type in t.FLOATING:
        if kind == t.LONG:  # Spark's range check uses the greatest long as a double, which is one more
            sql = f"CASE WHEN {each.sql} = 9223372036854775808e0 THEN 9223372036854775807 ELSE {sql} END"
        return TypedSql(sql, kind, each.raises or word == "CAST")
    assert isinstance(each.type, t.Decimal)
    is_exact = not is_rounded(each.type) if kind == t.LONG else each.type.precision <= _DIGITS_OF_LONGS
    if is_exact or each.type.scale == 0:
        return TypedSql(sql, kind, each.raises or word == "CAST")
    same = f"({each.sql}) IS NULL OR trunc(CAST(CAST({each.sql} AS VARCHAR) AS DOUBLE)) = trunc({each.sql})"
    return refuse_unless(same, sql, kind, f"a cast to {kind} of the decimal", each.sql)


def _to_float(each: TypedSql) -> TypedSql:
    """Cast a double or decimal to the nearest float. Overflow becomes infinity, as in Java, and is not an error."""
    if isinstance(each.type, t.Decimal):  # going through a double would round twice
        return TypedSql(f"CAST(CAST({each.sql} AS VARCHAR) AS FLOAT)", t.FLOAT, each.raises)
    large = f"abs({each.sql}) >= {_NO_FLOAT} AND NOT isnan({each.sql})"
    infinite = f"CASE WHEN {each.sql} > 0 THEN CAST('inf' AS FLOAT) ELSE CAST('-inf' AS FLOAT) END"
    return TypedSql(f"CASE WHEN {large} THEN {infinite} ELSE CAST({each.sql} AS FLOAT) END", t.FLOAT, each.raises)


def _is_plain(source: t.Type, kind: t.Type) -> bool:
    """Return whether DuckDB's own cast from `source` to `kind` gives Spark's result for all values."""
    if source in t.INTEGRAL or source == t.BOOLEAN:
        return kind in t.INTEGRAL or (source != t.BOOLEAN and (kind in t.FLOATING or isinstance(kind, t.Decimal)))
    if isinstance(source, t.Decimal):
        return isinstance(kind, t.Decimal) or kind == t.DOUBLE
    return (source in _TIMES and kind in _TIMES) or (source, kind) == (t.FLOAT, t.DOUBLE)


def _cast_text(each: TypedSql, kind: t.Type, tries: bool = False) -> TypedSql:
    """Cast a string; with `tries`, other text becomes null, else it fails.

    DuckDB casts forms that both engines read alike, and a Python function casts the other forms. A literal is cast
    here.
    """
    if kind == t.STRING:
        return each
    if kind == t.BINARY:
        return TypedSql(f"encode({each.sql})", kind, each.raises)
    function = "decimal" if isinstance(kind, t.Decimal) else _READERS.get(kind)
    if each.is_text_literal and (function is not None or kind == t.TIME):
        return _cast_literal(each, kind, tries)
    if function is None:
        raise unsupported_error(f"a cast of {each.type} to {kind}")
    of = [TypedSql(each.sql, t.STRING)]
    if isinstance(kind, t.Decimal):
        of += [literal(kind.precision, t.INT), literal(kind.scale, t.INT)]
    read = t.DOUBLE if kind == t.FLOAT else kind
    other = call_python(f"casts.{function if tries else f'to_{function.rstrip(chr(95))}'}", of, read).sql
    if kind == t.FLOAT:
        other = _to_float(TypedSql(other, t.DOUBLE)).sql
    raises = each.raises or not tries
    if kind == t.BOOLEAN:
        word = f"lower({each.sql})"
        cases = f"WHEN {word} IN ('true', 't', 'yes', 'y', '1') THEN TRUE"
        cases += f" WHEN {word} IN ('false', 'f', 'no', 'n', '0') THEN FALSE"
        return TypedSql(f"CASE WHEN ({each.sql}) IS NULL THEN NULL {cases} ELSE {other} END", kind, raises)
    form = _FORMS[kind] if kind in _FORMS else _decimal_form(kind)
    fits = f"regexp_full_match({each.sql}, '{form}')"
    if kind == t.DATE or isinstance(kind, t.Timestamp):
        fits += f" AND TRY_CAST({each.sql} AS {sql_type(kind)}) IS NOT NULL AND NOT starts_with({each.sql}, '0000-')"
    sql = f"CAST({each.sql} AS {sql_type(kind)})"
    return TypedSql(f"CASE WHEN ({each.sql}) IS NULL THEN NULL WHEN {fits} THEN {sql} ELSE {other} END", kind, raises)


def _decimal_form(kind: t.Type) -> str:
    """Return a regular expression for strings that DuckDB parses as Spark does and that fit the decimal type."""
    assert isinstance(kind, t.Decimal)
    digits = kind.precision - kind.scale
    places = f"(\\.[0-9]{{1,{kind.scale}}})?" if kind.scale else ""
    return f"-?[0-9]{{1,{digits}}}{places}" if digits else "-?0?\\.[0-9]+x"


def _cast_interval(each: TypedSql, kind: t.Type) -> TypedSql | None:
    """Cast an interval to another interval, or to and from an integer in its last unit.

    None for other types, and between year-month and day-time intervals.
    """
    if isinstance(each.type, Interval) and isinstance(kind, Interval) and each.type.has_months == kind.has_months:
        size = _UNIT_SIZES[kind.last]
        sql = each.sql if size == 1 else f"CAST(trunc({each.sql} / {size}) * {size} AS {sql_type(kind)})"
        return TypedSql(sql, kind, each.raises)
    if isinstance(each.type, Interval) and kind in t.INTEGRAL:
        number = f"({each.sql} // {_UNIT_SIZES[each.type.last]})"
        return TypedSql(f"CAST({number} AS {sql_type(kind)})", kind, True)
    if isinstance(kind, Interval) and each.type in t.INTEGRAL:
        number = f"CAST({each.sql} AS BIGINT) * {_UNIT_SIZES[kind.last]}"
        return TypedSql(f"CAST({number} AS {sql_type(kind)})", kind, True)
    return None


def _cast_literal(each: TypedSql, kind: t.Type, tries: bool) -> TypedSql:
    value = read_text(each.literal, kind)
    if value is not None:
        return replace(value, literal=None)
    if tries:
        return literal(None, kind)
    problem = f"CAST_INVALID_INPUT: the text {each.literal!r} is no {_NAMES.get(kind, str(kind).upper())}"
    return TypedSql(
        f"CAST(error({quote_text(f'{problem}. try_cast returns null for it')}) AS {sql_type(kind)})", kind, True
    )


def implicit_cast(each: TypedSql, kind: t.Type, what: str) -> TypedSql:
    """Cast an argument to the type that a function takes, if Spark does this implicitly.

    Raises `UnsupportedFeature` for other types; `what` describes the function in the message ("the function trim()").
    """
    if each.type == kind:
        return each
    is_number = each.type in (*t.INTEGRAL, *t.FLOATING) or isinstance(each.type, t.Decimal)
    wants_number = kind in (*t.INTEGRAL, *t.FLOATING) or isinstance(kind, t.Decimal)
    allowed = (
        each.type in (t.UNKNOWN, t.STRING)
        or (is_number and wants_number)
        or (kind == t.STRING and (is_number or each.type in (t.BOOLEAN, *_TIMES)))
        or (each.type in _TIMES and kind in _TIMES)
    )
    if not allowed or t.children(kind):
        raise unsupported_error(f"{what} of {each.type}")
    return cast(each, kind)


def _to_text(each: TypedSql) -> TypedSql:
    if isinstance(each.type, t.Decimal):
        if each.type.precision == each.type.scale < MOST_DIGITS:
            wider = t.Decimal(each.type.precision + 1, each.type.scale)  # for DuckDB to write the leading zero
            return _plain(_plain(each.sql, wider).sql, t.STRING)
        if each.type.precision == each.type.scale:
            return call_python("casts.decimal_as_text", [each], t.STRING)
    if t.children(each.type):
        return call_python("texts.nested_as_text", [each], t.STRING)
    if isinstance(each.type, Interval):
        return call_python("texts.interval_as_text", [each], t.STRING)
    if (function := _WRITERS.get(each.type)) is not None:
        return call_python(f"casts.{function}", [each], t.STRING)
    if each.type not in (*t.INTEGRAL, t.BOOLEAN, *_TIMES) and not isinstance(each.type, t.Decimal):
        raise unsupported_error(f"a cast of {each.type} to string")
    text = _plain(each.sql, t.STRING)
    if each.type in _TIMES:
        other = call_python(
            "casts.date_as_text" if each.type == t.DATE else "casts.timestamp_as_text", [each], t.STRING
        )
        within = f"({each.sql}) IS NULL OR year({each.sql}) BETWEEN 1 AND 9999"
        return TypedSql(f"CASE WHEN {within} THEN {text.sql} ELSE {other.sql} END", t.STRING, each.raises)
    return replace(text, raises=each.raises)
