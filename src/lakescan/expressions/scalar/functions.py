"""The functions that expressions may call, by Spark name, with their numbers of arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lakescan.common import types as t
from lakescan.expressions.scalar import (
    arithmetic,
    collections,
    conditions,
    text_functions,
    time_functions,
)
from lakescan.expressions.scalar.casts import cast
from lakescan.expressions.scalar.python_functions import PYTHON_FUNCTIONS, Function
from lakescan.expressions.scalar.typed_sql import TypedSql, unsupported_error


def _function(apply: Callable[..., TypedSql], least: int, most: int | None = None) -> Function:
    return Function(apply, least, least if most is None else most)


def _cast_function(kind: t.Type) -> Function:
    return _function(lambda each: cast(each, kind), 1)


_MANY = 1000
_BY_DUCKDB: Mapping[str, Function] = {
    "abs": _function(arithmetic.absolute, 1),
    "ceil": _function(arithmetic.ceil_or_floor("ceil"), 1),
    "ceiling": _function(arithmetic.ceil_or_floor("ceil"), 1),
    "floor": _function(arithmetic.ceil_or_floor("floor"), 1),
    "mod": _function(arithmetic.remainder, 2),
    "positive": _function(arithmetic.positive, 1),
    "raise_error": _function(conditions.failure, 1),
    "negative": _function(lambda each: arithmetic.negative(replace(each, literal=None)), 1),
    "pmod": _function(arithmetic.positive_remainder, 2),
    "exp": _function(arithmetic.real("exp"), 1),
    "ln": _function(arithmetic.real("ln", "0"), 1),
    "log": _function(arithmetic.logarithm, 1, 2),
    "log10": _function(arithmetic.real("log10", "0"), 1),
    "log2": _function(arithmetic.binary_logarithm, 1),
    "pow": _function(arithmetic.power, 2),
    "power": _function(arithmetic.power, 2),
    "round": _function(arithmetic.round_number, 1, 2),
    "sign": _function(arithmetic.sign, 1),
    "signum": _function(arithmetic.sign, 1),
    "sqrt": _function(arithmetic.root, 1),
    "try_divide": _function(arithmetic.quotient_or_null, 2),
    "if": _function(lambda test, a, b: conditions.choice([test], [a], b), 3),
    "coalesce": _function(conditions.coalesce, 1, _MANY),
    "equal_null": _function(lambda a, b: conditions.comparison("IS NOT DISTINCT FROM", a, b), 2),
    "greatest": _function(lambda *args: conditions.extreme("greatest", *args), 2, _MANY),
    "ifnull": _function(conditions.coalesce, 2),
    "isnan": _function(conditions.is_nan, 1),
    "isnotnull": _function(lambda each: conditions.inverse(conditions.is_null(each)), 1),
    "isnull": _function(conditions.is_null, 1),
    "least": _function(lambda *args: conditions.extreme("least", *args), 2, _MANY),
    "nullif": _function(conditions.null_if, 2),
    "nvl": _function(conditions.coalesce, 2),
    "nvl2": _function(conditions.if_valid, 3),
    "char_length": _function(text_functions.length, 1),
    "character_length": _function(text_functions.length, 1),
    "concat": _function(text_functions.concat, 1, _MANY),
    "concat_ws": _function(text_functions.concat_ws, 1, _MANY),
    "initcap": _function(text_functions.initcap, 1),
    "instr": _function(text_functions.instr, 2),
    "locate": _function(text_functions.locate, 2, 3),
    "lpad": _function(text_functions.pad_text("lpad"), 2, 3),
    "position": _function(text_functions.locate, 2, 3),
    "regexp": _function(text_functions.rlike, 2),
    "regexp_extract": _function(text_functions.regexp_extract, 2, 3),
    "regexp_like": _function(text_functions.rlike, 2),
    "regexp_replace": _function(text_functions.regexp_replace, 3),
    "repeat": _function(text_functions.repeat, 2),
    "replace": _function(text_functions.replace_text, 2, 3),
    "reverse": _function(text_functions.reverse, 1),
    "right": _function(text_functions.right, 2),
    "rlike": _function(text_functions.rlike, 2),
    "rpad": _function(text_functions.pad_text("rpad"), 2, 3),
    "split": _function(text_functions.split, 2, 3),
    "split_part": _function(text_functions.split_part, 3),
    "substring_index": _function(text_functions.substring_index, 3),
    "translate": _function(text_functions.translate, 3),
    "contains": _function(text_functions.test_of("contains", "contains"), 2),
    "endswith": _function(text_functions.test_of("ends_with", "endswith"), 2),
    "lcase": _function(text_functions.change_case("lower"), 1),
    "left": _function(text_functions.left, 2),
    "len": _function(text_functions.length, 1),
    "length": _function(text_functions.length, 1),
    "lower": _function(text_functions.change_case("lower"), 1),
    "ltrim": _function(text_functions.trim_text("ltrim"), 1),
    "rtrim": _function(text_functions.trim_text("rtrim"), 1),
    "startswith": _function(text_functions.test_of("starts_with", "startswith"), 2),
    "substr": _function(text_functions.substring, 2, 3),
    "substring": _function(text_functions.substring, 2, 3),
    "trim": _function(text_functions.trim_text("trim"), 1),
    "ucase": _function(text_functions.change_case("upper"), 1),
    "upper": _function(text_functions.change_case("upper"), 1),
    "add_months": _function(time_functions.add_months, 2),
    "date_add": _function(time_functions.shift_days("+"), 2),
    "date_diff": _function(time_functions.days_between, 2),
    "date_format": _function(time_functions.date_format, 2),
    "dateadd": _function(time_functions.shift_days("+"), 2),
    "from_unixtime": _function(time_functions.from_seconds, 1, 2),
    "make_date": _function(time_functions.make_date, 3),
    "next_day": _function(time_functions.next_day, 2),
    "to_timestamp": _function(time_functions.to_timestamp, 1, 2),
    "to_unix_timestamp": _function(time_functions.unix_timestamp, 1, 2),
    "unix_timestamp": _function(time_functions.unix_timestamp, 1, 2),
    "date_sub": _function(time_functions.shift_days("-"), 2),
    "date_trunc": _function(time_functions.date_trunc, 2),
    "datediff": _function(time_functions.days_between, 2),
    "day": _function(time_functions.field_of_day("day({x})"), 1),
    "dayofmonth": _function(time_functions.field_of_day("day({x})"), 1),
    "dayofweek": _function(time_functions.field_of_day("dayofweek({x}) + 1"), 1),
    "dayofyear": _function(time_functions.field_of_day("dayofyear({x})"), 1),
    "hour": _function(time_functions.field_of_time("hour({x})"), 1),
    "last_day": _function(time_functions.last_day, 1),
    "minute": _function(time_functions.field_of_time("minute({x})"), 1),
    "month": _function(time_functions.field_of_day("month({x})"), 1),
    "quarter": _function(time_functions.field_of_day("quarter({x})"), 1),
    "second": _function(time_functions.field_of_time("second({x})"), 1),
    "to_date": _function(time_functions.to_date, 1, 2),
    "trunc": _function(time_functions.trunc, 2),
    "weekday": _function(time_functions.field_of_day("isodow({x}) - 1"), 1),
    "weekofyear": _function(time_functions.field_of_day("weekofyear({x})"), 1),
    "year": _function(time_functions.field_of_day("year({x})"), 1),
    "array_contains": _function(collections.contains, 2),
    "array_size": _function(collections.size, 1),
    "cardinality": _function(collections.size, 1),
    "element_at": _function(collections.element_at, 2),
    "get": _function(collections.element_or_null, 2),
    "size": _function(collections.size, 1),
    "array": _function(collections.array, 0, _MANY),
    "array_join": _function(collections.array_join, 2, 3),
    "array_max": _function(collections.extreme_of("max"), 1),
    "array_min": _function(collections.extreme_of("min"), 1),
    "array_sort": _function(collections.array_sort, 1),
    "flatten": _function(collections.flatten_list, 1),
    "map_keys": _function(collections.keys, 1),
    "map_values": _function(collections.values_of, 1),
    "map": _function(collections.create_map, 0, _MANY),
    "named_struct": _function(collections.named_struct, 2, _MANY),
    "slice": _function(collections.slice_of, 3),
    "sort_array": _function(collections.sort_array, 1, 2),
    "bigint": _cast_function(t.LONG),
    "date": _cast_function(t.DATE),
    "double": _cast_function(t.DOUBLE),
    "int": _cast_function(t.INT),
    "timestamp": _cast_function(time_functions.INSTANT),
    "smallint": _cast_function(t.SHORT),
    "string": _cast_function(t.STRING),
    "tinyint": _cast_function(t.BYTE),
}


FUNCTIONS: Mapping[str, Function] = {
    **PYTHON_FUNCTIONS,
    **{
        name: each.or_else(PYTHON_FUNCTIONS[name]) if name in PYTHON_FUNCTIONS else each
        for name, each in _BY_DUCKDB.items()
    },
}


def call(name: str, args: Sequence[TypedSql]) -> TypedSql:
    """Translate a call of a Spark function by its name, in any case, to DuckDB SQL.

    Raises `UnsupportedFeature` for an unknown function, a wrong number of arguments, and arguments that it does not
    support.
    """
    function = FUNCTIONS.get(name.lower())
    if function is None:
        raise unsupported_error(f"the function {name}()")
    if not function.least <= len(args) <= function.most:
        raise unsupported_error(f"the function {name}() with {len(args)} arguments")
    return function.apply(*args)
