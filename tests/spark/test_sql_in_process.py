"""SQL in process returns the rows and types of Spark: queries and functions over awkward values."""

# ruff: noqa: E501
from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.expressions.scalar.functions import FUNCTIONS
from lakescan.statements.duckdb.aggregates import AGGREGATES
from lakescan.statements.duckdb.windows import WINDOW_FUNCTIONS
from tests.spark import test_scalar_expressions as scalar
from tests.statements.select.test_function_examples import ANSWERED

QUERIES = """
select sum(m), avg(m), avg(n), sum(n), min(m), max(n), count(*), count(m), count(distinct m), sum(i), avg(i), sum(b), sum(x), sum(f), avg(l) from t
select p, sum(m), avg(m), count(*) c from t group by p
select p, q, sum(i) from t group by rollup(p,q)
select p, q, grouping(p), grouping_id(p,q), grouping_id(), sum(i) from t group by cube(p,q)
select p, q, sum(i) from t group by grouping sets((p,q),(p),())
select p, q, sum(i) from t group by p, q with rollup
select p as z1, count(*) from t group by z1
select p, count(*) from t group by 1 having count(*) > 1
select p, count(*) as n1 from t group by all
select max(i) as i from t group by p having i > 0
select stddev(x), stddev(i), variance(i), var_pop(i), stddev_pop(m), std(i) from t where i is not null and y > -10 and y < 10
select stddev(i), var_samp(i), covar_samp(i,j), covar_pop(i,j) from t where i = 1
select median(i), percentile(i, 0.25), percentile(m, 0.9), percentile_cont(0.3) within group (order by i), median(j) from t
select sort_array(collect_list(i)), sort_array(collect_set(p)), sort_array(array_agg(s)), collect_list(i) from t where i > 5
select collect_list(i) from t where false
select max_by(s, i), min_by(s, i), max_by(i, s), min_by(i, u), max_by(s, null) from t
select bool_and(p), bool_or(p), every(q), some(q), any(p), count_if(p), count_if(i > 0) from t
select count(i, j), count(distinct i, j), count(distinct p, q) from t
select sum(distinct b), avg(distinct b), count(distinct x) from t
select sum(i) filter (where p), count(*) filter (where i > 0), avg(m) filter (where p) from t
select i, row_number() over (order by i, l), rank() over (order by p), dense_rank() over (order by p desc), percent_rank() over (order by p), cume_dist() over (order by p), ntile(3) over (order by i, l) from t
select i, sum(i) over (partition by p order by l), avg(m) over (partition by p), sum(m) over (order by l rows between 1 preceding and 1 following), count(*) over () from t
select i, lag(i) over (order by l), lead(i, 2) over (order by l), lag(i, 1, 0) over (order by l), first_value(i) over (partition by p order by l), last_value(i) over (partition by p order by l), nth_value(i, 2) over (order by l) from t
select i, sum(i) over (order by i range between 5 preceding and current row), first_value(i) ignore nulls over (order by l), first_value(i, true) over (order by l desc), last(i) ignore nulls over (order by l) from t where i is not null
select p, sum(i), rank() over (order by sum(i)), sum(sum(i)) over (), sum(i) * 100.0 / sum(sum(i)) over () from t group by p
select p, avg(m) a, avg(avg(m)) over () from t group by p
select m / n, n / m, m / 3, 3 / m, m * n / 7, m % n, n % m, m / 1.5, (m+n)/(m-n), i / m from t where m <> 0 and n <> 0 and m <> n
select sum(m) / sum(n), sum(m) / count(*), sum(m) * sum(n), 100.00 * sum(case when p then m * (1 - n) else 0 end) / sum(m * (1 - n)), sum(m) / 7.0, avg(m) / avg(n), 0.2 * avg(m) from t
select m * n * m, sum(m * (1 - n) * (1 + n)), sum(m)*0.1 from t group by m, n
select distinct p from t order by p
select distinct p, q from t
select i from t where i = '1'
select i from t where m > '1'
select i from t where x > '0.5'
select d + interval 1 month, d - interval 1 year, d + interval 10 days, d + interval '10' day, z + interval 1 hour, z + interval 3 month, d + 5, d - 5, interval 1 day + d from t where d between '1900-01-01' and '2100-01-01'
select d + interval 1 hour, d + interval 1 week, z - interval 1 week from t where d between '1900-01-01' and '2100-01-01'
select i, j from t where i in (select j from t) union select 1, 2 union all select 2, 3
select i from t intersect select j from t
select i from t except select j from t
select i from t except all select j from t
select i from t intersect all select j from t
select i from t union select m from t
select i from t a where exists (select 1 from t b where b.i = a.j)
select i from t a where i not in (select j from t b where j is not null)
select a.i, b.j from t a join t b on a.i = b.j
select * from (select i, p from t) a join (select i, q from t) b using (i)
select * from (select i, p from t) a full join (select j as i, q from t) b using (i)
select * from (select i, p from t) a natural join (select i, q from t) b
select a.i from t a left semi join t b on a.i = b.j
select a.i from t a left anti join t b on a.i = b.j
select a.* except (s) from (select i, s from t) a
select i, e.v from t lateral view explode(lj) e as v
select i, explode(lj) from t
select i, explode(k) as (a, c) from t
select explode_outer(ls) as v, i from t
select inline(lp), i from t where i < 0
with a as (select i, j from t), c as (select i + 1 as i from a) select * from c order by i nulls last limit 3
with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select n from r
select * from values (1, 'a'), (2, null) as v(a, b)
select col1 from values (1), (2)
values (1, 2.5), (3, 4)
select a + 1 as b1, b1 * 2 as c1 from (select 1 as a)
select 1 as a, a + 1 as b2, current_date() = current_date
select i from t order by i desc limit 3
select i, s from t order by s, i limit 3 offset 1
select case when p then 'a' else null end, if(i > 0, m, i), coalesce(m, 0), nvl(s, 'x') from t
select sum(case when p then 1 else 0 end) from t
select extract(year from d) as y1, sum(m) from t group by extract(year from d)
select year(d) as y1, sum(m) from t group by year(d) order by y1
select p, case when grouping(p) = 1 then 'all' else 'one' end as lab, sum(i) from t group by rollup(p) order by lab, case when lab = 'all' then p end
select count(*) from t where i between 1 and 5 or (i > 0 and 10 / i > 1)
select substring(s, 1, 2) as pre, count(*) from t group by substring(s, 1, 2)
select i from t qualify row_number() over (order by i) = 1
select 'a' || i || m || d, concat(i, '-', d) from t
select first(i), last(i), any_value(s), first(i, true) from t where i = 1
select (select max(i) from t), (select max(a.i) from t a where a.p = o.p) from t o
select i, el from t lateral view outer explode(lj) e as el
select i, pos, at from t lateral view posexplode(lj) e as pos, at
select sum(x) from (select m as x from t union all select n from t)
select a.p, b.n1 from t a left join (select p, count(*) as n1 from t group by p) b on a.p = b.p and b.n1 > 2
select p, count(*) from t where i in (1, -7, 12) and (m > 0 or n > 0) group by p order by count(*) desc, p
select d, count(*) over (partition by year(d)) from t where d is not null
select distinct year(d) as y1 from t order by y1 desc
select case when sum(i) > 0 then 'a' else 'b' end as c1, p from t group by p having sum(i) is not null order by c1, p
select a.i from t a cross join t c where a.i = c.j and a.i > 0
select p, collect_list(i) from t where i = 1 group by p
select x1.p from (select p, rank() over (partition by q order by i) as r1 from t) x1 where r1 = 1
select mean(m), stddev_samp(i), struct(max(i), 1).col1 from t
select cast(avg(i) as decimal(10,2)), round(avg(m), 2), round(sum(x) / 3, 2) from t where y between -10 and 10
with a as (select p, sum(m) as s1 from t group by p) select * from a where s1 > (select avg(s1) * 0.5 from a)
select i from t where exists (select 1 from values (1), (12) as v(a) where v.a = t.i)
select q, p, grouping(p) + grouping(q) as lv, rank() over (partition by grouping(p) + grouping(q) order by sum(i) desc) as r1 from t group by rollup(q, p)
select sum(m) * sum(n) > sum(m * n * 0.0000000001), sum(m) * sum(n) = sum(n * n * n), coalesce(sum(m) * sum(n), sum(n * n * n)) from t
select w1 = w2, w1 <= w2, w1 <=> w2, greatest(w1, w2), w1 in (w2), w1 between w2 and w2 from (select cast(1.0000000001 as decimal(38,10)) as w1, cast(1 as decimal(38,6)) as w2) v
select cast(1.00000050 as decimal(38,10)) as a union all select cast(1 as decimal(38,6))
select array_contains(ls, 'a'), size(ls), ls[0], element_at(lj, 1), lp[0] from t where size(ls) > 1 and size(lp) > 0
select count(*) from t a join t c on a.i = c.i and c.j <> 0 and a.i / c.j > 0
""".strip().splitlines()

# Exactly Spark's values, of the same type.
FUNCTION_CALLS = r"""
round(x) ; round(y, 2) ; round(m, 1) ; round(n, 3) ; round(m) ; round(m, -1) ; round(n, 7) ; round(i, -1) ; round(i)
round(b, -1) ; round(l, -3) ; round(f, 1) ; round(2.5D) ; round(-2.5D) ; round(2.675D, 2) ; round(0.285D, 2)
round(1.005D,2) ; round(x, 5) ; round(1e300D, 2) ; round(-0.3D)
sign(i) ; sign(x) ; signum(m) ; sqrt(i) ; sqrt(x) ; sqrt(m)
try_divide(i, j) ; try_divide(i, 0) ; try_divide(x, 0) ; try_divide(m, n) ; try_divide(m, 0) ; greatest(x, y)
least(x, y, 0.0D) ; greatest(f, f) ; x % 2 ; x % 0.3 ; m % 3 ; m % 0.3 ; mod(m, 2.5) ; f % 2
m / 3 ; m / 7.00 ; n / 3.3 ; 1 / (m + 100) ; m * m * m ; m * n * n ; i / 3.0 ; cast(m as double) ; cast(m*m*m as double)
m > x ; m*m = x ; m = '1.25' ; i > '5' ; x < '1.5' ; i in ('1', '12') ; i between '1' and '20' ; m in ('1.25', '0')
cast(i as string) ; cast(m as string) ; cast(n as string) ; cast(0.0000001 as string) ; cast('1.5' as double)
cast(' -1.5e3 ' as double) ; cast('+5' as int) ; cast('1.005' as decimal(10,2)) ; cast('.5' as decimal(3,1))
cast('-1.' as decimal(3,1)) ; cast('+.5' as double) ; cast(z as bigint) ; cast('2024-02-29' as timestamp)
cast(cast(i as string) as double) ; cast('1e400' as double)
try_cast('12' as int) ; try_cast('1.5' as int) ; try_cast('999999999999' as int) ; try_cast(' 7 ' as bigint)
try_cast(l as int) ; try_cast(x as int) ; try_cast(m as int) ; try_cast(m as decimal(4,1)) ; try_cast('abc' as date)
try_cast('2023-02-30' as date) ; try_cast('2023-02-28' as date) ; try_cast('1.50' as decimal(3,1))
try_cast('x' as decimal(3,1)) ; try_cast(i as string) ; try_cast(y as int) ; try_cast(i as tinyint)
try_cast('x' as timestamp)
trim(both 'a' from s) ; trim(leading 'a' from s) ; trim(trailing 'bc' from s) ; lpad(s, 5, '*') ; rpad(s, 5, '*')
lpad(s, 2) ; rpad(s, 0) ; lpad(s, -1, 'x') ; lpad(s, 7, '') ; lpad(s, 14, '🦊k') ; rpad(u, 4, 'ž') ; lpad(s, i, 'ab')
concat_ws('-', s, u) ; concat_ws('-', s, null, 'x') ; concat_ws('', ls) ; concat_ws(',', ls, s) ; concat_ws(',')
concat_ws('-', i, s)
instr(s, 'b') ; instr(s, '') ; instr(s, u) ; instr(s, 'k') ; locate('b', s) ; locate('b', s, 2) ; locate('b', s, 3)
locate('', s) ; position('b' in s) ; position('b', s) ; locate('ů', s, 4)
replace(s, 'b', 'xx') ; replace(s, 'b') ; replace(s, '', 'x') ; replace(s, u, '-') ; translate(s, 'abc', 'x')
translate(s, 'ab', 'xyz') ; translate(s, 'aab', 'xyz') ; translate(s, 'ž🦊', 'z') ; translate(s, '', 'z') ; reverse(s)
reverse(ls) ; reverse(lj) ; repeat(s, 2) ; repeat(s, -1) ; repeat(s, 0) ; right(s, 2) ; right(s, 0) ; right(s, -1)
right(s, 100) ; initcap('hELLO wORLD  x1a') ; initcap('')
split_part('a,b,c', ',', 2) ; split_part('a,b,c', ',', -1) ; split_part('a', ',', 5) ; substring_index('a.b.c', '.', 2)
substring_index('a.b.c', '.', -2) ; substring_index('a.b.c', '.', 0) ; substring_index(s, 'b', 1)
substring_index('a.b.c', '.', -9) ; substring_index('a.b.c', '.', 9)
s rlike 'b' ; s rlike '^a' ; s rlike 'c$' ; s rlike 'b$' ; s rlike 'a.b' ; s rlike '[a-c]+' ; s rlike '\\w+' ; s rlike '\\s'
s rlike '\\d' ; regexp_like(s, 'a|b') ; regexp(s, '^(a|b)') ; s rlike '^.{3}$' ; s rlike '^[^a]*$' ; s not rlike 'b'
s rlike '🦊' ; s rlike '' ; 'a\n' rlike 'a$' ; 'a\r\n' rlike 'a$' ; 'a\u0085' rlike 'a.' ; 'a\u000b' rlike 'a\\s'
regexp_extract(s, '(b)(.)', 2) ; regexp_extract(s, '(b)(.)', 0) ; regexp_extract(s, '([a-z]+)')
regexp_extract('foo123', '([a-z]+)([0-9]+)', 2) ; regexp_extract('x', '(y)?x', 1) ; regexp_extract(s, 'b', 0)
regexp_extract('aXbXc', 'a(.*?)X', 1) ; regexp_replace(s, 'b', '-') ; regexp_replace(s, '[ab]', '<$0>')
regexp_replace('a1b2', '([a-z])([0-9])', '$2$1') ; regexp_replace(s, '.', 'x') ; regexp_replace(s, ' +', ' ')
regexp_replace('a.b', '\\.', '')
upper(s) ; lower(upper(s)) ; upper('àéîõüžščřů') ; lower('ÀÉÎÕÜŽŠČŘŮ') ; upper('Привет ё') ; lower('ПРИВЕТ Ё') ; upper('日本')
date_format(z, 'yyyy-MM-dd') ; date_format(z, 'E') ; date_format(z, 'EEEE') ; date_format(z, 'MMM yyyy')
date_format(z, 'MMMM d, yyyy') ; date_format(z, 'hh:mm a') ; date_format(z, 'HH:mm:ss.SSS')
date_format(z, 'HH:mm:ss.SSSSSS') ; date_format(d, 'd/M/yy') ; date_format(z, "yyyy-MM-dd'T'HH:mm:ss")
date_format(e, 'EEE') ; date_format(z, 'H')
to_date('2024-02-29', 'yyyy-MM-dd') ; to_date('29/02/2024', 'dd/MM/yyyy') ; to_date('20240229', 'yyyyMMdd')
to_timestamp('2024-02-29 10:11:12', 'yyyy-MM-dd HH:mm:ss') ; to_timestamp('2024-02-29 10:11', 'yyyy-MM-dd HH:mm')
to_date('2024-02-29') ; to_timestamp('2024-02-29 10:11:12.5') ; to_timestamp(d) ; to_date(z, 'yyyy')
to_date(cast(d as string)) ; to_date(cast(e as string), 'yyyy-MM-dd')
from_unixtime(0) ; from_unixtime(i) ; from_unixtime(i, 'yyyy-MM-dd') ; unix_timestamp(z) ; unix_timestamp(d)
unix_timestamp('2024-02-29 10:11:12') ; unix_timestamp('2024-02-29', 'yyyy-MM-dd') ; to_unix_timestamp(z) ; unix_timestamp(w)
make_date(2024, 2, 29) ; next_day(e, 'Mon') ; next_day(e, 'TU') ; datediff(day, e, d)
datediff(hour, z, timestamp'2024-01-01 00:00:00') ; timestampdiff(minute, timestamp'2024-01-01 00:00:00', z)
timestampdiff(day, timestamp'2024-01-01 12:00:00', z) ; extract(week from d) ; extract(doy from d) ; extract(dow from d)
dateadd(e, 3) ; timestamp(d)
array(1, 2, null) ; array(i, j) ; array(i, m) ; named_struct('a', i, 'b', s) ; named_struct('a', 1).a ; struct(i, s)
sort_array(ls) ; sort_array(lj, false) ; array_sort(lj) ; array_max(lj) ; array_min(ls) ; array_join(ls, '-')
array_join(ls, '-', 'N') ; slice(lj, 1, 2) ; slice(lj, -2, 2) ; slice(lj, 2, 5) ; flatten(array(lj, lj)) ; map_keys(k)
map('a', i, 'b', l) ; map(1, s, 2, 'x') ; map('a', 1)['a'] ; map_values(k) ; size(array(1,2)) ; array_contains(array(1,2), i)
i & j ; i | j ; i ^ j ; i ; nvl2(i, 'a', 'b') ; -i ; isnull(i) ; ucase(s) ; i <=> null
i & j ; i | j ; i ^ j ; b & i ; l | i ; struct(i, s) ; struct(i, s).s ; cast(x as decimal(10,2)) ; cast(i as boolean)
cast('t' as boolean) ; cast('No ' as boolean) ; cast(2.675D as decimal(10,2)) ; cast(1e20D as decimal(38,2))
cast(1e-7D as decimal(10,8)) ; cast(0.285D as decimal(10,2))
try_divide(i, b)
try_cast(cast(i as string) as tinyint) ; try_cast('t' as int)
try_cast('x' as timestamp) ; split(s, 'b') ; split('a,b,,', ',') ; split('', ',') ; split('a1b22c', '[0-9]+') ; split('a.b', '\\.') ; split('a|b', '\\|')
next_day(e, 'Mon') ; e + interval 1 week ; timestamp(e)
if(i > 1000000000000, raise_error('x'), i) ; coalesce(1, raise_error(s))
"""
RAISING = [
    "raise_error('x')",
    "raise_error(s)",
    "raise_error(null)",
    "if(i is null, 0, raise_error(cast(null as string)))",
]
NEARLY = "exp(x) ; ln(i) ; ln(x) ; log(i) ; log(2, i) ; log10(i) ; log2(i) ; log10(x) ; power(i, 2) ; pow(x, 0.5) ; power(2, b) ; power(x, y) ; power(0, -1) ; exp(1000) ; log2(x) ; exp(b)"


@pytest.fixture(scope="module")
def view(spark: Any) -> Any:
    """The session, with the rows as the view t."""
    spark.createDataFrame(scalar._rows()).coalesce(1).createOrReplaceTempView("t")
    spark.conf.set("spark.sql.subexpressionElimination.enabled", "false")
    yield spark
    spark.catalog.dropTempView("t")


def _calls(text: str) -> list[str]:
    return [each.strip() for line in text.strip().splitlines() for each in line.split(" ; ")]


def _type(kind: pa.DataType) -> str:
    """Return the type without nullability; the frame's wall-clock times are instants in Spark."""
    return str(kind).replace(" not null", "").replace("[us]", "[us, tz=UTC]")


def _digits(value: Any) -> Any:
    """Return the value with twelve digits of a double: sums depend on the order of rows."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value + 0.0:.12g}"
    if isinstance(value, list | tuple):
        return [_digits(each) for each in value]
    return {name: _digits(each) for name, each in value.items()} if isinstance(value, dict) else value


def _rows(table: pa.Table) -> list[str]:
    return sorted(repr(_digits([column[n].as_py() for column in table.columns])) for n in range(table.num_rows))


@pytest.mark.parametrize("text", QUERIES)
def test_queries_have_the_rows_and_types_of_spark(view: Any, text: str) -> None:
    theirs, mine = view.sql(text).toArrow(), lakescan.sql(text, t=scalar._rows()).to_arrow()
    assert _rows(mine) == _rows(theirs)
    assert [_type(each.type) for each in mine.schema] == [_type(each.type) for each in theirs.schema]


@pytest.mark.parametrize("is_exact", [True, False])
def test_functions_have_the_values_and_types_of_spark(view: Any, is_exact: bool) -> None:
    calls = _calls(FUNCTION_CALLS if is_exact else NEARLY)
    listed = ", ".join(f"{each} AS e{n}" for n, each in enumerate(calls))
    theirs = view.sql(f"SELECT {listed} FROM t").toArrow()
    mine = lakescan.sql(f"SELECT {listed} FROM t", t=scalar._rows()).to_arrow()
    wrong = []
    for n, call in enumerate(calls):
        pairs = list(zip(_values(mine[n]), _values(theirs[n]), strict=True))
        same = scalar._same if is_exact else lambda a, b: _digits(a) == _digits(b)
        differing = [pair for pair in pairs if not same(*pair)]
        if differing or _type(mine[n].type) != _type(theirs[n].type):
            wrong.append((call, mine[n].type, theirs[n].type, differing[:3]))
    assert wrong == []


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values; Python cannot represent dates beyond the year 9999."""
    return column.cast(pa.int32()).to_pylist() if pa.types.is_date(column.type) else column.to_pylist()


@pytest.mark.parametrize(
    "call",
    ["x % 0", "m / 0", "n % 0.0", "cast(s as boolean)", "cast(f as decimal(10, 3))", "make_date(2023, 2, 29)",
     "to_date('2023-02-29', 'yyyy-MM-dd')", "to_date('2024-02-29x', 'yyyy-MM-dd')", "cast(1e12D as decimal(5, 2))",
     "cast('1e400' as int)", "sum(l) over () + 9223372036854775807", "round(cast(127 as tinyint), -1)",
     *RAISING],
)  # fmt: skip
def test_queries_that_fail_in_spark_fail(view: Any, call: str) -> None:
    with pytest.raises(Exception, match=r"ZERO|CAST|OUT_OF|PARSE|OVERFLOW|overflow|USER_RAISED"):
        view.sql(f"SELECT {call} FROM t").collect()
    with pytest.raises(lakescan.QueryFailed):
        lakescan.sql(f"SELECT {call} FROM t", t=scalar._rows()).to_arrow()


def test_quotients_and_averages_of_decimals_are_rounded_as_in_spark(view: Any) -> None:
    values = [Decimal(text) for text in ("0.01", "-0.03", "0.07", "1.11", "-9.99", "6.66", "0.05", "3.00", "99999.99")]
    rows = pa.table({"a": pa.array(values, pa.decimal128(7, 2)), "b": pa.array(values[::-1], pa.decimal128(7, 2))})
    wide = [(a, b, c) for a, b in ((7, 2), (18, 4), (5, 4), (20, 0)) for c in ((7, 2), (16, 2), (18, 6), (9, 9)[:2])]
    quotients = [
        f"CAST(x.a AS DECIMAL({a}, {b})) / CAST(y.b AS DECIMAL({c[0]}, {c[1]}))"
        for a, b, c in wide
        if a - b >= 5 and c[0] - c[1] >= 5
    ]
    text = f"SELECT {', '.join(quotients)}, avg(x.a) OVER (PARTITION BY y.b) FROM d x CROSS JOIN d y"
    view.createDataFrame(rows).createOrReplaceTempView("d")
    theirs, mine = view.sql(text).toArrow(), lakescan.sql(text, d=rows).to_arrow()
    assert mine.schema.types == theirs.schema.types
    assert _rows(mine) == _rows(theirs)


def test_letters_whose_case_changes_change_as_in_spark(view: Any) -> None:
    letters = [chr(code) for code in (*range(0x20, 0x180), *range(0x400, 0x460), *range(0x5D0, 0x5EB), 0x4E00, 0x1F98A)]
    known = []
    for letter in letters:
        rows = pa.table({"c": [letter]})
        try:
            known += lakescan.sql("SELECT c, upper(c), lower(c) FROM r", r=rows).to_arrow().to_pylist()
        except lakescan.QueryFailed:
            continue
    found = [tuple(each.values()) for each in known]
    frame = view.createDataFrame([(each[0],) for each in found], "c string")
    assert [tuple(row) for row in frame.selectExpr("c", "upper(c)", "lower(c)").collect()] == found
    assert len(found) > 400


def test_every_function_is_compared() -> None:
    examples = [each["sql"] for each in ANSWERED]  # examples from Spark's documentation, with Spark's answers
    texts = [*QUERIES, FUNCTION_CALLS, NEARLY, *RAISING, *scalar.EXPRESSIONS, *examples]
    called = {word.lower() for text in texts for word in re.findall(r"\w+", text)}
    assert sorted({*FUNCTIONS, *AGGREGATES, *WINDOW_FUNCTIONS} - called) == []
