"""Translate aggregate functions with Spark's types, such as sums that fail on overflow and decimal averages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from lakescan.common import types as t
from lakescan.errors import InvalidStatement, LakescanError
from lakescan.expressions.scalar.arithmetic import quotient_of
from lakescan.expressions.scalar.casts import cast, implicit_cast
from lakescan.expressions.scalar.collections import list_of
from lakescan.expressions.scalar.typed_sql import (
    MOST_DIGITS,
    Interval,
    TypedSql,
    convert,
    literal,
    nested_sql_type,
    sql_type,
    unsupported_error,
)
from lakescan.expressions.scalar.udf import call_python
from lakescan.statements.duckdb.types import cell_of


@dataclass(frozen=True)
class AggregateCall:
    """Builds the SQL of calls of DuckDB's aggregate functions, all with the same DISTINCT, FILTER and OVER.

    - `distinct`: whether to aggregate distinct values.
    - `conditions`: the SQL conditions of `FILTER (WHERE ...)`, which AND combines.
    - `over`: the window, as ` OVER (...)`; empty without a window.
    """

    distinct: bool = False
    conditions: tuple[str, ...] = ()
    over: str = ""

    def __call__(self, function: str, *args: str) -> str:
        """Return the SQL of a call of the DuckDB function `function` with the SQL arguments `args`."""
        where = f" FILTER (WHERE {' AND '.join(f'({each})' for each in self.conditions)})" if self.conditions else ""
        return f"{function}({'DISTINCT ' * self.distinct}{', '.join(args)}){where}{self.over}"

    def where(self, condition: str) -> AggregateCall:
        """Return a copy with one more FILTER condition, which is SQL."""
        return replace(self, conditions=(*self.conditions, condition))


def normalize_zero(each: TypedSql) -> str:
    """Return the SQL of a value for grouping and comparing: -0.0 becomes 0.0 in floats, other types are unchanged."""
    return f"CASE WHEN {each.sql} = 0 THEN 0 ELSE {each.sql} END" if each.type in t.FLOATING else each.sql


def _as_double(each: TypedSql, name: str) -> str:
    if each.type not in (*t.INTEGRAL, *t.FLOATING, t.STRING, t.UNKNOWN) and not isinstance(each.type, t.Decimal):
        raise unsupported_error(f"the function {name}() of {each.type}")
    return convert(replace(each, literal=None), t.DOUBLE).sql


def _count(call: AggregateCall, *args: TypedSql) -> TypedSql:
    if not args:
        return TypedSql(call("count", "*"), t.LONG)
    if len(args) == 1:
        return TypedSql(call("count", normalize_zero(args[0])), t.LONG)
    present = call.where(" AND ".join(f"({each.sql}) IS NOT NULL" for each in args))
    if not call.distinct:
        return TypedSql(present("count", "*"), t.LONG)
    return TypedSql(present("count", f"({', '.join(normalize_zero(each) for each in args)})"), t.LONG)


def _count_if(call: AggregateCall, each: TypedSql) -> TypedSql:
    return TypedSql(call.where(_as_boolean(each, "count_if"))("count", "*"), t.LONG)


def _as_boolean(each: TypedSql, name: str) -> str:
    if each.type not in (t.BOOLEAN, t.UNKNOWN):
        raise unsupported_error(f"the function {name}() of {each.type}")
    return convert(each, t.BOOLEAN).sql


def _sum(call: AggregateCall, each: TypedSql, cast_name: str = "CAST") -> TypedSql:
    """Translate `sum`. With `TRY_CAST` as `cast_name`, a result that overflows its type is null instead of an error."""
    if isinstance(each.type, Interval):
        return TypedSql(
            f"{cast_name}({call('sum', each.sql)} AS {sql_type(each.type)})", _whole_interval(each.type), True
        )
    if each.type == t.STRING:
        each = convert(each, t.DOUBLE)
    if isinstance(each.type, t.Decimal):
        kind: t.Type = t.Decimal(min(each.type.precision + 10, MOST_DIGITS), each.type.scale)
        return TypedSql(f"{cast_name}({call('sum', each.sql)} AS {sql_type(kind)})", kind, True)
    if each.type in t.INTEGRAL:
        return TypedSql(f"{cast_name}({call('sum', each.sql)} AS BIGINT)", t.LONG, True)
    return TypedSql(call("sum", _as_double(each, "sum")), t.DOUBLE)


def _whole_interval(kind: Interval) -> Interval:
    return Interval("year", "month") if kind.has_months else Interval("day", "second")


def _average(call: AggregateCall, each: TypedSql, cast_name: str = "CAST") -> TypedSql:
    """Translate `avg`. With `TRY_CAST` as `cast_name`, the result is null if the sum overflows its type."""
    if isinstance(each.type, Interval):
        given = [
            TypedSql(f"{cast_name}({call('sum', each.sql)} AS {sql_type(each.type)})", _whole_interval(each.type)),
            TypedSql(f"nullif({call('count', each.sql)}, 0)", t.LONG),
        ]
        return call_python("numbers.interval_divided", given, _whole_interval(each.type), raises=True)
    if each.type == t.STRING:
        each = convert(each, t.DOUBLE)
    if not isinstance(each.type, t.Decimal):
        return TypedSql(call("avg", _as_double(each, "avg")), t.DOUBLE)
    precision, scale = each.type.precision, each.type.scale
    kind = t.Decimal(min(precision + 4, MOST_DIGITS), min(scale + 4, MOST_DIGITS))
    total, count = _sum(call, each, cast_name), TypedSql(f"nullif({call('count', each.sql)}, 0)", t.LONG)
    return quotient_of(total, count, kind)


def _extreme(function: str) -> Callable[..., TypedSql]:
    def apply(call: AggregateCall, each: TypedSql) -> TypedSql:
        if t.children(each.type):  # nested nulls are the smallest values in Spark, and the largest in DuckDB
            raise unsupported_error(f"the function {function}() of {each.type}")
        return TypedSql(replace(call, distinct=False)(function, each.sql), each.type)

    return apply


def _extreme_by(function: str) -> Callable[..., TypedSql]:
    """Return the translator of `max_by` or `min_by`: the value, even a null, in the row with the greatest or least key.

    With a third argument n, the call returns the list of the values of the n first rows. Raises `UnsupportedFeature`
    for keys of nested types.
    """

    def apply(call: AggregateCall, value: TypedSql, order: TypedSql, count: TypedSql | None = None) -> TypedSql:
        if count is not None:
            pair = t.Struct((t.Field(0, "v", value.type), t.Field(0, "o", order.type)))
            listed = call("list", f"{{'v': {value.sql}, 'o': {order.sql}}}")
            pairs = TypedSql(f"coalesce({listed}, {_empty_list(pair)})", list_of(pair))
            given = [pairs, implicit_cast(count, t.INT, function), literal(function == "max_by", t.BOOLEAN)]
            return call_python("aggregates.best", given, list_of(value.type))
        if t.children(order.type):
            raise unsupported_error(f"the function {function}() by {order.type}")
        key = normalize_zero(order)
        present = replace(call, distinct=False).where(f"({order.sql}) IS NOT NULL")
        if call.over:
            return TypedSql(f"struct_extract({present(function, f'row({value.sql})', key)}, 1)", value.type)
        rows, extreme = present("list", f"{{'v': {value.sql}, 'o': {key}}}"), present(function[:3], key)
        sql = f"list_extract(list_filter({rows}, lambda pair: pair.o = {extreme}), -1).v"  # Spark's choice
        return TypedSql(sql, value.type)

    return apply


def _statistic(function: str, operands: int = 1) -> Callable[..., TypedSql]:
    def apply(call: AggregateCall, *args: TypedSql) -> TypedSql:
        if len(args) != operands:
            raise unsupported_error(f"the function {function}() with {len(args)} arguments")
        values = [_as_double(each, function) for each in args]
        found = call(function, *values)
        if operands == 2:
            least = 2 if function == "covar_samp" else 1
            undefined = f"{call('regr_count', *values)} < {least} THEN NULL WHEN {_any_not_finite(call, *values)}"
            return TypedSql(f"CASE WHEN {undefined} THEN {_NAN} ELSE {found} END", t.DOUBLE)
        if function in ("var_pop", "stddev_pop"):  # DuckDB returns 0 for a single value that is not finite
            return TypedSql(
                f"CASE WHEN {_any_not_finite(call, *values)} OR {found} < 0 THEN {_NAN} ELSE {found} END", t.DOUBLE
            )
        # The result is below 0 after an overflow, for which Spark returns NaN.
        return TypedSql(f"CASE WHEN {found} < 0 THEN {_NAN} ELSE {found} END", t.DOUBLE)

    return apply


_NAN = "CAST('NaN' AS DOUBLE)"


def _any_not_finite(call: AggregateCall, *values: str) -> str:
    """Return the SQL of whether any row has an infinity or NaN in the doubles `values`.

    Rows with a null are ignored.
    """
    return call("bool_or", f"isnan({' + '.join(f'{each} * 0' for each in values)})")


def _squares(call: AggregateCall, y: str, x: str) -> tuple[str, str, str]:
    """Return the SQL of `regr_sxx`, `regr_syy` and `regr_sxy` of two doubles.

    As in Spark, infinity and NaN give NaN.
    """

    def sum_squares(function: str, value: str, other: str) -> str:
        finite = f"CASE WHEN ({other}) IS NOT NULL THEN {value} END"
        return f"CASE WHEN {_any_not_finite(call, finite)} THEN {_NAN} ELSE {call(function, y, x)} END"

    product = f"CASE WHEN {_any_not_finite(call, y, x)} THEN {_NAN} ELSE {call('regr_sxy', y, x)} END"
    return sum_squares("regr_sxx", x, y), sum_squares("regr_syy", y, x), product


def _logical(function: str) -> Callable[..., TypedSql]:
    return lambda call, each: TypedSql(call(function, _as_boolean(each, function)), t.BOOLEAN)


def _collect_list(call: AggregateCall, each: TypedSql) -> TypedSql:
    """Translate `collect_list`, which skips nulls and returns an empty list for a group without values."""
    values = call.where(f"({each.sql}) IS NOT NULL")("list", each.sql)
    return TypedSql(f"coalesce({values}, [])", list_of(each.type))


def _collect_set(call: AggregateCall, each: TypedSql) -> TypedSql:
    return _collect_list(replace(call, distinct=True), replace(each, sql=normalize_zero(each)))


def _first(function: str) -> Callable[..., TypedSql]:
    """Return the translator of `first` or `last`: the value in the first or last row of a group, in DuckDB's order.

    As in Spark, the order of rows is arbitrary. If the second argument is TRUE, nulls are skipped. Raises
    `UnsupportedFeature` for a call with OVER.
    """

    def apply(call: AggregateCall, each: TypedSql, ignore: TypedSql | None = None) -> TypedSql:
        kept = call.where(f"({each.sql}) IS NOT NULL") if ignore is not None and ignore.literal is True else call
        if call.over:
            raise unsupported_error(f"the function {function}() with OVER: write {function}_value() instead")
        return TypedSql(kept(function, each.sql), each.type)

    return apply


def percentile(call: AggregateCall, each: TypedSql, fraction: TypedSql) -> TypedSql:
    """Translate `percentile` with linear interpolation between values.

    Raises `UnsupportedFeature` if the fraction is not a constant between 0 and 1, and for DISTINCT or OVER.
    """
    if not isinstance(fraction.type, t.Decimal | t.Atomic) or fraction.literal is None or call.distinct or call.over:
        raise unsupported_error("the function percentile() with anything other than one constant fraction")
    at = float(fraction.literal)
    if not 0 <= at <= 1:
        raise unsupported_error(f"the function percentile() at {at}, which is not between 0 and 1,")
    value = _as_double(each, "percentile")
    values = f"list_sort({call.where(f'({each.sql}) IS NOT NULL')('list', value)})"
    place = f"((len({values}) - 1) * CAST('{at!r}' AS DOUBLE))"
    low, high = (f"list_extract({values}, CAST({side}({place}) AS BIGINT) + 1)" for side in ("floor", "ceil"))
    between = f"(ceil({place}) - {place}) * {low} + ({place} - floor({place})) * {high}"
    sql = f"CASE WHEN floor({place}) = ceil({place}) OR {low} = {high} THEN {low} ELSE {between} END"
    return TypedSql(sql, t.DOUBLE)


def _values(call: AggregateCall, each: TypedSql) -> TypedSql:
    """Return the non-null values of a group as a list; an empty list for a group without values."""
    listed = call.where(f"({each.sql}) IS NOT NULL")("list", each.sql)
    return TypedSql(f"coalesce({listed}, {_empty_list(each.type)})", list_of(each.type))


def _empty_list(kind: t.Type) -> str:
    return f"CAST([] AS {nested_sql_type(list_of(kind))})"


def _fraction(each: TypedSql, name: str) -> TypedSql:
    """Convert the fraction argument of the percentile function `name`, or a list of fractions, to DOUBLE."""
    if isinstance(each.type, t.ListOf):
        return cast(each, list_of(t.DOUBLE))
    return implicit_cast(replace(each, literal=None), t.DOUBLE, f"the function {name}()")


def _percentile(call: AggregateCall, each: TypedSql, fraction: TypedSql, frequency: TypedSql | None = None) -> TypedSql:
    if isinstance(each.type, Interval):
        raise unsupported_error(f"the function percentile() of {each.type}")
    if frequency is None and not isinstance(fraction.type, t.ListOf) and fraction.literal is not None:
        return percentile(call, each, fraction)
    value = TypedSql(_as_double(each, "percentile"), t.DOUBLE)
    values = _values(call, value)
    if frequency is not None:
        count = implicit_cast(frequency, t.LONG, "the function percentile()")
        repeated = f"list_transform(range(greatest({count.sql}, 0)), lambda n: {value.sql})"
        listed = call.where(f"({each.sql}) IS NOT NULL AND ({count.sql}) IS NOT NULL")("list", repeated)
        values = TypedSql(f"flatten(coalesce({listed}, CAST([] AS DOUBLE[][])))", list_of(t.DOUBLE))
    at = _fraction(fraction, "percentile")
    if isinstance(at.type, t.ListOf):
        return call_python("aggregates.percentiles", [values, at], list_of(t.DOUBLE), raises=True)
    return call_python("aggregates.percentile", [values, at], t.DOUBLE, raises=True)


def _percentile_approx(
    call: AggregateCall, each: TypedSql, fraction: TypedSql, accuracy: TypedSql | None = None
) -> TypedSql:
    """Translate `percentile_approx` by the exact value. Spark approximates it for many values."""
    at = _fraction(fraction, "percentile_approx")
    if isinstance(at.type, t.ListOf):
        return call_python("aggregates.percentiles_approx", [_values(call, each), at], list_of(each.type))
    return call_python("aggregates.percentile_approx", [_values(call, each), at], each.type)


def percentile_disc(call: AggregateCall, each: TypedSql, fraction: TypedSql) -> TypedSql:
    """Translate `percentile_disc(fraction) WITHIN GROUP (ORDER BY each)`: a value of the group, not interpolated.

    Numbers are compared and returned as DOUBLE.
    """
    value = each if isinstance(each.type, Interval) else TypedSql(_as_double(each, "percentile_disc"), t.DOUBLE)
    given = [_values(call, value), _fraction(fraction, "percentile_disc")]
    return call_python("aggregates.percentile_disc", given, value.type)


def _approx_count_distinct(call: AggregateCall, each: TypedSql, error: TypedSql | None = None) -> TypedSql:
    """Translate `approx_count_distinct` to an exact count. Spark estimates it with the relative error `error`."""
    return TypedSql(replace(call, distinct=True)("count", normalize_zero(each)), t.LONG)


def _mode(call: AggregateCall, each: TypedSql, lowest: TypedSql | None = None) -> TypedSql:
    given = [
        _values(call, each),
        literal(None, t.BOOLEAN) if lowest is None else implicit_cast(lowest, t.BOOLEAN, "mode()"),
    ]
    return call_python("aggregates.mode", given, each.type, keeps_nulls=True)


def _moment(name: str) -> Callable[..., TypedSql]:
    def apply(call: AggregateCall, each: TypedSql) -> TypedSql:
        return call_python(f"aggregates.{name}", [_values(call, TypedSql(_as_double(each, name), t.DOUBLE))], t.DOUBLE)

    return apply


def listagg(call: AggregateCall, each: TypedSql, separator: TypedSql | None = None, order: str = "") -> TypedSql:
    """Translate `listagg` and `string_agg`: join the non-null strings of a group; null if it has no strings.

    `order` is the SQL of ` ORDER BY ...` in WITHIN GROUP. Raises `UnsupportedFeature` for BINARY values.
    """
    kind = t.BINARY if each.type == t.BINARY else t.STRING
    value = implicit_cast(each, kind, "the function listagg()")
    glue = literal("", kind) if separator is None else implicit_cast(separator, kind, "the function listagg()")
    if kind == t.BINARY:
        raise unsupported_error("the function listagg() of binary")
    sorts_here = call.distinct and not order  # DuckDB's DISTINCT does not keep the order of the rows
    present = replace(call, distinct=call.distinct and not sorts_here).where(f"({value.sql}) IS NOT NULL")
    listed = present("list", f"{value.sql}{order}")
    texts = TypedSql(listed, list_of(t.STRING))
    if sorts_here:
        texts = call_python("arrays.distinct", [texts], list_of(t.STRING))
    return TypedSql(
        f"CASE WHEN len({listed}) > 0 THEN {call_python('arrays.join', [texts, glue], t.STRING).sql} END", t.STRING
    )


def _bits(function: str) -> Callable[..., TypedSql]:
    def apply(call: AggregateCall, each: TypedSql) -> TypedSql:
        if each.type not in t.INTEGRAL:
            raise unsupported_error(f"the function {function}() of {each.type}")
        return TypedSql(f"CAST({call(function, each.sql)} AS {sql_type(each.type)})", each.type)

    return apply


def _correlation(call: AggregateCall, left: TypedSql, right: TypedSql) -> TypedSql:
    sides = [_as_double(each, "corr") for each in (left, right)]
    xx, yy, xy = _squares(call, *sides)
    undefined = f"{call('regr_count', *sides)} < 2 OR ({xx}) = 0 OR ({yy}) = 0"
    return TypedSql(f"CASE WHEN {undefined} THEN NULL ELSE ({xy}) / sqrt(({xx}) * ({yy})) END", t.DOUBLE)


def _regression(function: str) -> Callable[..., TypedSql]:
    def apply(call: AggregateCall, y: TypedSql, x: TypedSql) -> TypedSql:
        if function == "regr_count":
            both = call.where(f"({y.sql}) IS NOT NULL AND ({x.sql}) IS NOT NULL")
            return TypedSql(both("count", "*"), t.LONG)
        sides = [_as_double(each, function) for each in (y, x)]
        xx, yy, xy = _squares(call, *sides)
        match function:
            case "regr_sxx" | "regr_syy" | "regr_sxy":
                return TypedSql({"regr_sxx": xx, "regr_syy": yy, "regr_sxy": xy}[function], t.DOUBLE)
            case "regr_slope":
                found = f"ELSE ({xy}) / ({xx})"
            case "regr_intercept":
                averages = [call(each, *sides) for each in ("regr_avgy", "regr_avgx")]
                found = f"ELSE {averages[0]} - ({xy}) / ({xx}) * {averages[1]}"
            case "regr_r2":
                found = f"WHEN ({yy}) = 0 THEN 1 ELSE pow(({xy}) / sqrt(({xx}) * ({yy})), 2)"
            case _:
                return TypedSql(call(function, *sides), t.DOUBLE)
        return TypedSql(f"CASE WHEN ({xx}) = 0 THEN NULL {found} END", t.DOUBLE)

    return apply


def _median(call: AggregateCall, each: TypedSql) -> TypedSql:
    return percentile(call, each, literal(0.5, t.DOUBLE))


AGGREGATES: Mapping[str, tuple[Callable[..., TypedSql], int, int]] = {
    "any": (_logical("bool_or"), 1, 1),
    "any_value": (_first("first"), 1, 2),
    "array_agg": (_collect_list, 1, 1),
    "avg": (_average, 1, 1),
    "bool_and": (_logical("bool_and"), 1, 1),
    "bool_or": (_logical("bool_or"), 1, 1),
    "collect_list": (_collect_list, 1, 1),
    "collect_set": (_collect_set, 1, 1),
    "count": (_count, 0, 100),
    "count_if": (_count_if, 1, 1),
    "covar_pop": (_statistic("covar_pop", 2), 2, 2),
    "covar_samp": (_statistic("covar_samp", 2), 2, 2),
    "every": (_logical("bool_and"), 1, 1),
    "first": (_first("first"), 1, 2),
    "first_value": (_first("first"), 1, 2),
    "last": (_first("last"), 1, 2),
    "last_value": (_first("last"), 1, 2),
    "max": (_extreme("max"), 1, 1),
    "max_by": (_extreme_by("max_by"), 2, 3),
    "mean": (_average, 1, 1),
    "median": (_median, 1, 1),
    "min": (_extreme("min"), 1, 1),
    "min_by": (_extreme_by("min_by"), 2, 3),
    "percentile": (_percentile, 2, 3),
    "percentile_approx": (_percentile_approx, 2, 3),
    "approx_percentile": (_percentile_approx, 2, 3),
    "approx_count_distinct": (_approx_count_distinct, 1, 2),
    "bit_and": (_bits("bit_and"), 1, 1),
    "bit_or": (_bits("bit_or"), 1, 1),
    "bit_xor": (_bits("bit_xor"), 1, 1),
    "corr": (_correlation, 2, 2),
    "kurtosis": (_moment("kurtosis"), 1, 1),
    "skewness": (_moment("skewness"), 1, 1),
    "listagg": (listagg, 1, 2),
    "mode": (_mode, 1, 2),
    "regr_avgx": (_regression("regr_avgx"), 2, 2),
    "regr_avgy": (_regression("regr_avgy"), 2, 2),
    "regr_count": (_regression("regr_count"), 2, 2),
    "regr_intercept": (_regression("regr_intercept"), 2, 2),
    "regr_r2": (_regression("regr_r2"), 2, 2),
    "regr_slope": (_regression("regr_slope"), 2, 2),
    "regr_sxx": (_regression("regr_sxx"), 2, 2),
    "regr_sxy": (_regression("regr_sxy"), 2, 2),
    "regr_syy": (_regression("regr_syy"), 2, 2),
    "string_agg": (listagg, 1, 2),
    "try_avg": (partial(_average, cast_name="TRY_CAST"), 1, 1),
    "try_sum": (partial(_sum, cast_name="TRY_CAST"), 1, 1),
    "some": (_logical("bool_or"), 1, 1),
    "std": (_statistic("stddev_samp"), 1, 1),
    "stddev": (_statistic("stddev_samp"), 1, 1),
    "stddev_pop": (_statistic("stddev_pop"), 1, 1),
    "stddev_samp": (_statistic("stddev_samp"), 1, 1),
    "sum": (_sum, 1, 1),
    "var_pop": (_statistic("var_pop"), 1, 1),
    "var_samp": (_statistic("var_samp"), 1, 1),
    "variance": (_statistic("var_samp"), 1, 1),
}


def aggregate(name: str, args: Sequence[TypedSql], call: AggregateCall) -> TypedSql:
    """Translate a call of the aggregate function `name`, a key of `AGGREGATES`.

    `call` has the DISTINCT, FILTER and OVER of the call. Raises `UnsupportedFeature` for an unsupported number or type
    of arguments.
    """
    apply, least, most = AGGREGATES[name]
    if not least <= len(args) <= most:
        raise unsupported_error(f"the function {name}() with {len(args)} arguments")
    return apply(call, *args)


NAME = "g"


class MissingAggregation(InvalidStatement):
    """A query with aggregates names a column that is neither a key of GROUP BY nor inside an aggregate function."""


@dataclass
class Groups:
    """The keys and aggregates of an aggregation, which becomes a subquery `g` with columns k0, k1, ... and a0, a1, ...

    - `keys`: the expressions of the keys over the rows before the aggregation.
    - `sets`: the SQL of ROLLUP, CUBE and GROUPING SETS, with the keys as k0, k1, ...; empty without them.
    - `is_grouped`: whether the query has a GROUP BY.
    """

    keys: list[TypedSql] = field(default_factory=list)
    sets: str = ""
    is_grouped: bool = False
    _aggregates: dict[str, TypedSql] = field(default_factory=dict)

    def add_key(self, value: TypedSql) -> str:
        """Add a key unless there is one with the same SQL, and return its column name, such as `k0`."""
        for n, each in enumerate(self.keys):
            if each.sql == value.sql:
                return f"k{n}"
        self.keys.append(value)
        return f"k{len(self.keys) - 1}"

    def key(self, node: Any, rows: Callable[[Any], TypedSql]) -> TypedSql | None:
        """Return the column, such as `g.k0`, of the key that equals the sqlglot expression `node`.

        `rows` translates expressions over the rows before the aggregation. Returns None if no key is equal, if `rows`
        raises an error, and for plain columns, literals and windows.
        """
        if not self.keys or type(node).__name__ in ("Literal", "Star", "Null", "Boolean", "Column", "Window"):
            return None
        try:
            value = rows(node)
        except LakescanError:
            return None
        return self._key_of(value)

    def _key_of(self, value: TypedSql) -> TypedSql | None:
        for n, each in enumerate(self.keys):
            if each.sql == value.sql:
                return cell_of(f"{NAME}.k{n}", each)
        return None

    def column_key(self, value: TypedSql, name: str) -> TypedSql:
        """Return the column, such as `g.k0`, of the key whose SQL equals that of `value`.

        Raises `MissingAggregation` if no key is equal. `name` is the name of the column in the message.
        """
        found = self._key_of(value)
        if found is None:
            raise MissingAggregation(f"the column {name!r} is neither in GROUP BY nor in an aggregate function")
        return found

    def aggregate(self, value: TypedSql) -> TypedSql:
        """Add an aggregate unless one with the same SQL exists, and return its result column, such as `g.a0`."""
        names = list(self._aggregates)
        if value.sql not in self._aggregates:
            self._aggregates[value.sql] = value
            names.append(value.sql)
        return replace(value, sql=f"{NAME}.a{names.index(value.sql)}", literal=None)

    def grouping(self, name: str, columns: Sequence[TypedSql]) -> TypedSql:
        """Translate `grouping(key)` or `grouping_id(...)`: an integer with a 1 bit for each key the set leaves out.

        Without `columns`, all keys are used. Raises `InvalidStatement` without GROUPING SETS, ROLLUP or CUBE, and for a
        column that is not a key.
        """
        if not self.sets:
            raise InvalidStatement(f"{name}() needs GROUP BY with GROUPING SETS, ROLLUP or CUBE")
        keys = []
        for each in columns:
            if (found := self._key_of(each)) is None:
                raise InvalidStatement(f"{name}() takes only keys of GROUP BY")
            keys.append(found.sql.partition(".")[2])
        if not keys:
            keys = [f"k{n}" for n in range(len(self.keys))]
        kind, sql = (t.BYTE, "TINYINT") if name == "grouping" else (t.LONG, "BIGINT")
        return self.aggregate(TypedSql(f"CAST(GROUPING({', '.join(keys)}) AS {sql})", kind))

    def sql(self, rest: str) -> str:
        """Return the SELECT of the aggregation. `rest` is the SQL of its FROM and WHERE."""
        keys = [f"{normalize_zero(each)} AS k{n}" for n, each in enumerate(self.keys)]
        aggregates = [f"{sql} AS a{n}" for n, sql in enumerate(self._aggregates)]
        by = self.sets or ", ".join(f"k{n}" for n in range(len(self.keys)))
        listed = ", ".join([*keys, *aggregates]) or "1 AS k"
        if not self._aggregates and not self.keys:
            listed = "count(*) AS k"
        # Without input rows, DuckDB returns a row for the grouping set (), and Spark returns none.
        having = " HAVING count(*) > 0" if self.sets and self.keys else ""
        return f"SELECT {listed} {rest}" + (f" GROUP BY {by}{having}" if by else "")
