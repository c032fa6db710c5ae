"""Every operator and function that lakescan evaluates has Spark's values, over awkward rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.expressions.row_condition import RowCondition
from lakescan.expressions.scalar.expression import ScalarExpression

# ruff: noqa: E501

_TYPES: dict[str, t.Type] = {
    "b": t.BYTE,
    "i": t.INT,
    "j": t.INT,
    "l": t.LONG,
    "f": t.FLOAT,
    "x": t.DOUBLE,
    "y": t.DOUBLE,
    "m": t.Decimal(10, 2),
    "n": t.Decimal(12, 5),
    "s": t.STRING,
    "u": t.STRING,
    "d": t.DATE,
    "e": t.DATE,
    "z": t.Timestamp(),
    "w": t.Timestamp(zoned=False),
    "p": t.BOOLEAN,
    "q": t.BOOLEAN,
    "v": t.BINARY,
    "ls": t.ListOf(t.Field(30, "element", t.STRING)),
    "lj": t.ListOf(t.Field(31, "element", t.INT)),
    "lp": t.ListOf(t.Field(32, "element", t.Struct((t.Field(33, "y", t.LONG),)))),
    "k": t.MapOf(t.Field(34, "key", t.STRING, required=True), t.Field(35, "value", t.INT)),
}
_VALUES: dict[str, Sequence[Any]] = {
    "b": [1, -7, 0, None, 50, -50, 3],
    "i": [1, -7, 0, None, 2_000_000, -3, 12],
    "j": [3, 2, -5, 4, None, -3, 7],
    "l": [1, -(2**40), 0, None, 2**53 + 1, 10**15, -9],
    "f": [1.5, -0.0, math.nan, None, math.inf, 0.1, 16777216.0],
    "x": [0.0, -0.0, math.nan, None, math.inf, -2.5, 0.1],
    "y": [-0.0, 1.0, math.nan, 3.0, -math.inf, None, 0.1],
    "m": ["1.25", "-9.99", "0.00", None, "99999999.99", "-0.50", "0.10"],
    "n": ["1.25000", "9.99500", "0.00001", "-1.5", None, "-0.50000", "0.10000"],
    "s": ["abc", "", " pad ", None, "a%b_c\\d", "žluť 🦊 kůň", "a\nb"],
    "u": ["b", "a", "pad", "x", None, "🦊", "\n"],
    "d": ["2024-02-29", "1969-12-31", "0001-01-01", None, "9999-12-31", "2024-01-31", "2021-01-03"],
    "e": ["2023-02-28", "1970-01-01", "1582-10-15", "2000-01-01", None, "2024-12-30", "2020-12-31"],
    "z": ["2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", "1900-01-01", None, "2200-06-15", "2024-01-31", "2021-01-03"],
    "w": ["2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", "1900-01-01", None, "2200-06-15", "2024-01-31", "2021-01-03"],
    "p": [True, False, None, True, False, None, True],
    "q": [True, True, True, False, False, None, None],
    "v": [b"", b"a", b"\xff\x00", None, b"abc", b"b", b"a\n"],
    "ls": [["a", None], ["abc", "b", "x"], [], None, ["🦊"], [None], ["pad", ""]],
    "lj": [[1, 2], [0], [None], None, [], [-7, None, 3], [12]],
    "lp": [[{"y": 1}], [None], [], None, [{"y": None}], [{"y": 7}, {"y": 8}], []],
    "k": [[("a", 1)], [], [("b", None)], None, [("🦊", 3), ("a", 4)], [("x", 5)], [("", None)]],
}  # fmt: skip

EXPRESSIONS = """
i + j | i - b | b + b | l - 1 | i * j | x + y | x * 2 | x - i | m + n | m - n | m * n | m + 1 | m * 3 | i + 1.5 | m + i
i / 4 | x / 4 | l / 3 | m / 2.0D | i / 2.5D | f / 2 | -i | -m | -x | +i | i div 3 | l div 7 | b div 2 | i % 3 | i % -3
l % 10 | mod(i, 4) | pmod(i, 3) | pmod(l, 7) | abs(i) | abs(m) | abs(x) | negative(i) | positive(i) | ceil(m) | floor(m) | ceil(n)
floor(n) | ceiling(i) | floor(i) | floor(case when y > -10 and y < 10 then y end)
ceil(case when y > -10 and y < 10 then y end)
i = j | i == 1 | i != j | i <> 3 | i < l | i <= 2.5 | m > 1 | m = n | m >= i | x = y | x < y | x > 0 | x > 0.1 | x = 0.1
x <=> y | i <=> j | s <=> u | i <=> null | f > x | f = 0.1 | f > 0 | l > 1.5 | l = 9007199254740993
x = 9007199254740993 | i is distinct from j | s = u | s < u | s >= 'a' | v = X'61' | v < X'62' | p = q | p
d < e | d = '2024-02-29' | d > '1900-01-01' | d <= date '2024-02-29' | z > '2024-01-01' | z >= '2024-02-29 23:59:59.999999'
w < timestamp_ntz '2024-01-01 00:00:00' | z > d | z between '1969-12-31 23:59:59' and '2024-12-31'
i is null | i is not null | p is true | p is not true | p is false | p is null | isnull(i) | isnotnull(s) | isnan(x) | isnan(f)
not p | p and q | p or q | not (p and q) | not p or q | p and q and i > 0 | p or q or i > 0 | p and null | p or null
i in (1, 2, 12) | i not in (1, null) | s in ('abc', '') | i in (1, null) | m in (1.25, 0) | d in ('2024-02-29') | x in (0, 0.1)
i between -3 and 3 | i not between 0 and 1 | x between 0 and 1 | i <> 0 and 12 / i > 1 | i = 0 or 12 / i > 1
i is not null and j is not null and i <> 0 and j / i >= 0
s like 'a%' | s like '%b%' | s like '_' | s like 'a__' | s like '%\\%b\\_%' | s not like '%c' | s like '' | s like '%'
s like 'a!%b%' escape '!' | s like '% 🦊%' | s like 'žlu_ _ k%' | s like 'a_b'
if(i > 0, 'p', 'n') | if(p, i, x) | if(p, 1, null) | case when i > 0 then i when i < 0 then -i end
case i when 1 then 'one' when -7 then 's' else 'other' end | case when p then m else n end | case when p then i else l end
coalesce(i, j) | coalesce(null, i, 0) | coalesce(m, n) | coalesce(m, i) | nvl(s, u) | ifnull(x, y) | nvl2(i, s, u) | nullif(i, 1)
nullif(x, 0) | coalesce(d, e) | coalesce(d, z) | greatest(i, j) | least(i, j, 0)
greatest(d, e) | least(s, u) | greatest(m, n) | equal_null(i, j)
length(s) | char_length(u) | length(v) | len(s) | character_length(s) | trim(s) | ltrim(s) | rtrim(s)
trim(u) | substring(s, 0, 2) | substring(s, 1, 2) | substring(s, -2, 1) | substring(s, -5, 4) | substring(s, 2) | substr(s, -3)
substring(s, 3, -1) | substring(s, i, j) | substring(s from 2 for 3) | substring(s, 1, 2147483647) | substring(s, -2147483647, 5)
left(s, 2) | left(s, 0) | left(s, -1) | concat(s, '-', u) | concat(s) | startswith(s, u) | endswith(s, u) | contains(s, u)
contains(s, '') | startswith(s, '') | lower('ABC') | upper('abc') | ucase('q') | lcase('Q')
year(d) | month(d) | day(d) | dayofmonth(d) | quarter(d) | dayofyear(d) | weekofyear(d) | dayofweek(d) | weekday(d) | year(z)
weekofyear(e) | dayofweek(e) | month(w) | hour(z) | minute(z) | second(z) | hour(w) | hour(d) | to_date(z) | date(w) | to_date(d)
extract(year from z) | extract(hour from z) | extract(month from d) | extract(dayofweek from d)
date_trunc('year', z) | date_trunc('QUARTER', z) | date_trunc('month', z) | date_trunc('week', z) | date_trunc('day', z)
date_trunc('hour', z) | date_trunc('MINUTE', z) | date_trunc('second', z) | date_trunc('millisecond', z) | date_trunc('month', d)
date_trunc('dd', w) | trunc(d, 'year') | trunc(d, 'MM') | trunc(d, 'week') | trunc(z, 'quarter') | last_day(e) | last_day(d)
date_add(e, 3) | date_sub(e, b) | add_months(e, 1) | add_months(e, -12) | add_months(d, 0) | datediff(d, e) | date_diff(z, e)
datediff(d, '2020-01-01') | date_format(z, 'yyyy-MM-dd HH:mm:ss') | date_format(d, 'yyyyMM') | date_format(w, 'yyyy/MM/dd')
date_format(z, 'HH') | year(e) * 100 + month(e)
cast(i as bigint) | cast(b as double) | cast(l as double) | cast(l as float) | cast(i as decimal(12,2)) | cast(m as decimal(12,1))
cast(n as decimal(10,2)) | cast(m as int) | cast(n as bigint) | cast(m as double) | cast(f as double) | cast(p as int)
cast(case when y > -10 and y < 10 then y end as int) | cast(-2.5 as int) | cast(-2.5D as int) | cast(i as string) | cast(p as string)
cast(d as string) | cast(z as string) | cast(w as string) | cast(z as date) | cast(d as timestamp) | cast(w as date) | cast(z as timestamp_ntz)
cast('12' as int) | cast(' -7 ' as bigint) | cast('2024-02-29' as date) | cast('2024-02-29 10:11:12.5' as timestamp) | cast(i as timestamp)
cast(cast(i as string) as int) | cast(cast(d as string) as date) | cast(cast(z as date) as string) | bigint(i) | int(m) | string(d)
double(i) | smallint(b) | tinyint(b) | cast(null as int) | 1 | 1.50 | 1e3 | 2147483648 | 'it' | true | null is null | 1L | 1.5D
date'2024-02-29' | timestamp'2024-02-29 10:00:00' | timestamp_ntz'2024-02-29' | X'00ff' | negative(2147483648)
l % -1 | pmod(l, -1) | nullif(i, i) / 0 | nullif(i, i) % 0 | nullif(l, l) div 0 | pmod(nullif(b, b), 0) | m * m | floor(l) | ceil(l) | ceil(i)
l in (9007199254740992, 0.5D) | l not in (x, 9007199254740992) | case l when 9007199254740992 then 1 when 0.5D then 2 end
'2024-02-29' in (d, e) | z in ('2024-02-29 23:59:59.999999', null) | substring(s, -2147483648) | substr('abc', -2147483648)
(p = q) < p | p = (q < p) | p = (i is null) | (i in (1)) = p | p <=> q | -2147483648 | -9223372036854775808 = l | -9223372036854775808 | -(2147483648) | -(5) | -1.5
get(ls, 0) | get(ls, i) | get(ls, -1) | get(lj, j) | get(lj, 0) + 1 | get(lp, 0).y | get(lp, 1).Y | size(ls) | size(k)
array_size(lj) | cardinality(k) | case when size(ls) > 0 then ls[0] end | case when size(lp) > 0 then lp[0].y end
case when size(ls) > 1 then element_at(ls, 2) end | case when size(ls) > 0 then element_at(ls, -1) end
k['a'] | k[u] | element_at(k, 'b') | element_at(k, s) | ls is null | k is not null
array_contains(ls, s) | array_contains(ls, 'pad') | array_contains(lj, i) | array_contains(lj, 3) | not array_contains(lj, 0)
""".replace("\n", "|").split("|")
EXPRESSIONS = [*(each.strip() for each in EXPRESSIONS if each.strip()), "s || u"]


def _rows() -> pa.Table:
    def typed(name: str, kind: t.Type) -> pa.Array:
        values = list(_VALUES[name])
        if isinstance(kind, t.Decimal):
            values = [None if each is None else Decimal(each) for each in values]
        if kind == t.DATE:
            values = [None if each is None else date.fromisoformat(each) for each in values]
        if isinstance(kind, t.Timestamp):
            zone = UTC if kind.zoned else None
            values = [None if each is None else datetime.fromisoformat(each).replace(tzinfo=zone) for each in values]
        return pa.array(values, kind.arrow())

    return pa.table({name: typed(name, kind) for name, kind in _TYPES.items()})


SCHEMA = Schema(tuple(t.Field(place, name, kind) for place, (name, kind) in enumerate(_TYPES.items(), 1)))


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return mine.hex() == theirs.hex() or (math.isnan(mine) and math.isnan(theirs))
    return type(mine) is type(theirs) and mine == theirs


def test_values_equal_those_of_spark(spark: Any) -> None:
    rows = _rows()
    frame = spark.createDataFrame(rows).coalesce(1)
    texts = [each.replace("\\\\", "\\") for each in EXPRESSIONS]
    # Otherwise Spark evaluates a common subexpression for all rows, even if one of the expressions guards it.
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    expected = frame.selectExpr(*(f"{text} AS e{n}" for n, text in enumerate(texts))).toArrow()
    wrong = []
    for text, column in zip(texts, expected.columns, strict=True):
        mine = ScalarExpression.parse(text, SCHEMA).evaluate(rows)
        pairs = zip(mine.to_pylist(), column.to_pylist(), strict=True)
        if mine.type == pa.bool_():
            holds = RowCondition.parse(text, SCHEMA).holds(rows.to_batches()[0])
            assert holds.equals(mine.fill_null(False)), f"as a filter: {text}"
        differing = [pair for pair in pairs if not _same(*pair)]
        if differing or mine.type != column.type:
            wrong.append((text, mine.type, column.type, differing[:3]))
    assert wrong == []


@pytest.mark.parametrize(
    "text",
    ["i / b", "i % (j - 3)", "l * 9223372036854775807", "cast(i as tinyint)", "cast(l as int)", "b * b", "-(-9223372036854775808 + i - i)", "ls[9]", "ls[-1]", "element_at(ls, 0)", "element_at(ls, -4)"],
)  # fmt: skip
def test_expressions_that_fail_in_spark_fail(spark: Any, text: str) -> None:
    rows = _rows()
    with pytest.raises(Exception, match=r"OVERFLOW|ZERO|overflow|INVALID_ARRAY_INDEX"):
        spark.createDataFrame(rows).selectExpr(text).collect()
    with pytest.raises(lakescan.SchemaMismatch, match="cannot be evaluated"):
        ScalarExpression.parse(text, SCHEMA).evaluate(rows)
