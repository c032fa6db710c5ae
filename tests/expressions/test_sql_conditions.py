"""Any condition can be a filter: conditions that planning cannot use are evaluated on the rows, and no row is lost."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.errors import InvalidFilter, NoSuchColumn, SchemaMismatch, UnsupportedFeature
from lakescan.expressions.bind import bind
from lakescan.expressions.evaluate import column_getter, matching_rows
from lakescan.expressions.json_codec import from_json, to_json
from lakescan.expressions.predicate import TRUE, Comparison, Predicate, SqlCondition, predicate_fields, replace_sql
from lakescan.expressions.sql import parse_filter
from lakescan.expressions.sql_condition import replace_columns
from lakescan.planning.scan_report import expression
from tests.support.catalog import local_catalog

A_IS_1 = Comparison("a", op="=", value=1)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = b", SqlCondition("a = b")),
        ("(upper(a) = 'X')", SqlCondition("upper(a) = 'X'")),
        ("a = 1 and b % 2 = 0", A_IS_1 & SqlCondition("b % 2 = 0")),
        ("a = 1 or (b % 2 = 0 and c > b)", A_IS_1 | (SqlCondition("b % 2 = 0") & SqlCondition("c > b"))),
        ("not (a != 1 or b % 2 = 0)", A_IS_1 & SqlCondition("not (b % 2 = 0)")),
        ("not not (a = b)", SqlCondition("a = b")),
        ("b between c and 2 and a = 1", SqlCondition("b between c and 2") & A_IS_1),
        ("case when a and b then c end and a = 1", SqlCondition("case when a and b then c end") & A_IS_1),
        ("exists(b, x -> x > 1 and x < c) and a = 1", SqlCondition("exists(b, x -> x > 1 and x < c)") & A_IS_1),
        ("a = 1 and `Ž,` || 'é'  =  b -- end", A_IS_1 & SqlCondition("`Ž,` || 'é'  =  b")),
        ("get(b, 0).a = 1", SqlCondition("get(b, 0).a = 1")),  # not the column a
        ("b = cast(12 as string)", SqlCondition("b = cast(12 as string)")),
    ],
)
def test_a_condition_on_several_columns_keeps_its_text(text: str, predicate: Predicate) -> None:
    assert parse_filter(text) == predicate
    assert from_json(to_json(predicate)) == predicate


def test_a_negated_condition_keeps_its_text_in_parentheses() -> None:
    assert ~SqlCondition("a = b") == SqlCondition("not (a = b)")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a in (select 1)", "subquery"),
        ("exists (select 1)", "subquery"),
        ("a > all (select 1)", "subquery"),
        ("max(a) > 1", r"max\(\) is an aggregate"),
        ("count(*) over () > 1", "window function"),
        ("row_number() > 1", "window function"),
        ("explode(a) = 1", "several rows"),
        ("a = 1 and rand() < 0.5", r"rand\(\) is not deterministic"),
        ("uuid() = a", "not deterministic"),
        ("a = :minimum", "parameter"),
        ('"a" = 1', "names are quoted with backquotes"),
        ("a = = b", "cannot parse"),
    ],
)
def test_expressions_that_need_several_rows_are_refused(text: str, named: str) -> None:
    with pytest.raises(InvalidFilter, match=named):
        parse_filter(text)


SCHEMA = Schema(
    (
        t.Field(1, "a", t.LONG),
        t.Field(2, "b", t.LONG),
        t.Field(3, "s", t.Struct((t.Field(4, "x", t.LONG),))),
        t.Field(5, "items", t.ListOf(t.Field(6, "element", t.Struct((t.Field(7, "y", t.LONG),))))),
    )
)


@pytest.mark.parametrize("text", ["a = c", "abs(c) = 1", "items[0].y = s.c", "exists(items, i -> i.y > c)"])
def test_a_condition_on_an_unknown_column_is_refused(text: str) -> None:
    with pytest.raises(NoSuchColumn, match=r"no column '(c|s\.c)'"):
        bind(parse_filter(text), SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        "nosuch(a) = 1",
        "items = array()",
        "a = b or regexp_like(s, 'x')",
        "current_user = a",
        "cast(a as array<decimal(5, 2)>) is null",
        "cast(a as map<int, string>) is null",
        "cast(a as struct<x: int>) is null",
    ],
)
def test_conditions_unsupported_in_process_are_refused_when_bound(text: str) -> None:
    with pytest.raises((UnsupportedFeature, NoSuchColumn)):
        bind(parse_filter(text), SCHEMA)


TEXT_AND_TIMES = Schema((t.Field(1, "s", t.STRING), t.Field(2, "d", t.DATE), t.Field(3, "w", t.Timestamp(zoned=False))))


@pytest.mark.parametrize(
    "text",
    [
        *(
            "dayofweek(current_date) = dayofweek(d)",
            "s = now() or d is null",
            "hour(s) = 2",
            "extract(hour from s) = 2",
        ),
        *("try_to_timestamp(s) is null", "cast(s as timestamp) is null", "convert_timezone('Asia/Tokyo', w) > w"),
        *("from_json(s, 'a TIMESTAMP').a is null", "datediff(hour, d, s) = 1", "months_between(s, s) = 1"),
        *("cast(d + interval 25 hour as date) > d", "date_format(d, 'VV') = s", "to_date(s, 'yyyy-MM-dd z') = d"),
        *("exists(array(s), x -> timestamp(x) is null)", "unix_micros(s) = 1"),
    ],
)
def test_outside_of_utc_a_condition_that_computes_with_instants_is_refused(text: str) -> None:
    condition = parse_filter(text)
    bind(condition, TEXT_AND_TIMES)
    with pytest.raises(UnsupportedFeature, match=r"in the time zone Asia/Tokyo.*session in UTC"):
        bind(condition, TEXT_AND_TIMES, zone=ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    "text",
    [
        *("upper(s) = 'A'", "dayofweek(d) = month(w)", "datediff(d, w) = 1", "cast(w as string) = s"),
        *("to_date(s) = d", "to_date(s, 'yyyyMMdd') = d", "date_add(d, 1) = w"),
    ],
)
def test_other_conditions_are_evaluated_in_any_zone(text: str) -> None:
    assert predicate_fields(bind(parse_filter(text), TEXT_AND_TIMES, zone=ZoneInfo("Asia/Tokyo")))


def test_a_value_is_not_a_condition() -> None:
    with pytest.raises(InvalidFilter, match="of type long, not boolean"):
        bind(parse_filter("a + b"), SCHEMA)


def test_names_ignore_case_if_the_filter_does() -> None:
    rows = pa.record_batch({"a": [1, 2], "b": [1, 1], "s": [{"x": 1}, None], "items": pa.nulls(2)})
    bound = bind(parse_filter("A = B and S.X + 0 = a"), SCHEMA, case_sensitive=False)
    assert matching_rows(bound, column_getter(rows, SCHEMA), 2).to_pylist() == [True, False]


def test_a_condition_of_constants_is_decided_when_it_is_bound() -> None:
    assert bind(parse_filter("1 + 1 = 2 and a = 1"), SCHEMA) == bind(A_IS_1, SCHEMA)
    assert bind(parse_filter("1 + 1 = null or a = 1"), SCHEMA) == bind(A_IS_1, SCHEMA)


def test_implied_predicates_are_bound_and_replace_the_condition_if_exact() -> None:
    assert bind(parse_filter("a = 3 - 2"), SCHEMA) == bind(A_IS_1, SCHEMA)
    bound = bind(parse_filter("a + 1 = 2 and b % 2 = 0 or a = b"), SCHEMA)
    assert predicate_fields(bound) == {1, 2}
    assert replace_sql(bound) != bound


@pytest.mark.parametrize("text", ["d = current_date()", "d = date_add(current_date, n)", "ts < now()"])
def test_all_copies_of_a_condition_have_the_same_current_time(text: str) -> None:
    schema = Schema((t.Field(1, "d", t.DATE), t.Field(2, "n", t.INT), t.Field(3, "ts", t.Timestamp())))
    rows = pa.table({"d": [date(2024, 2, 29)], "n": [0], "ts": [datetime(2024, 2, 28, 23, tzinfo=UTC)]})
    condition = SqlCondition(text, now=datetime(2024, 2, 29, 23, 59, tzinfo=UTC))
    for copied in (condition, from_json(to_json(condition)), ~~condition):
        kept = matching_rows(bind(copied, schema), column_getter(rows.cast(schema.arrow()), schema), 1)
        assert kept.to_pylist() == [True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 div b > 1 and b > 0", [True, False, False]),
        ("b = 0 or 10 div b > 1", [True, True, False]),
        ("a = 1 and (b > 0 and 10 div b > 1)", [True, False, False]),
    ],
)
def test_a_condition_is_evaluated_only_where_others_leave_it_open(text: str, expected: list[bool]) -> None:
    rows = pa.record_batch({"a": [1, 1, 1], "b": [3, 0, None]})
    schema = Schema(SCHEMA.fields[:2])
    assert matching_rows(bind(parse_filter(text), schema), column_getter(rows, schema), 3).to_pylist() == expected


def test_a_condition_is_not_evaluated_on_deleted_rows() -> None:
    rows, schema = pa.record_batch({"a": [1, 1], "b": [3, 0]}), Schema(SCHEMA.fields[:2])
    bound = bind(parse_filter("10 div b > 1"), schema)
    assert matching_rows(bound, column_getter(rows, schema), 2, among=pa.array([True, False])).to_pylist() == [
        True,
        False,
    ]
    with pytest.raises(SchemaMismatch, match="division by zero"):
        matching_rows(bound, column_getter(rows, schema), 2)


COLLECTIONS = pa.table(
    {
        "i": pa.array([0, 1, 2, None], pa.int64()),
        "l": pa.array([["x", None], ["a", "b", "x"], [], None], pa.list_(pa.string())),
        "m": pa.array([[("k", 1)], [], [("k", None), ("j", 2)], None], pa.map_(pa.string(), pa.int64())),
        "p": pa.array([[{"n": {"y": 1}}], [None], None, []], pa.list_(pa.struct({"n": pa.struct({"y": pa.int64()})}))),
    }
)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("size(l) > 0 and l[0] = 'x'", [0]),
        ("i < 2 and l[i] = 'b'", [1]),
        ("get(l, 2) is null", [0, 2, 3]),
        ("get(l, -1) = 'x'", []),
        ("size(l) > 0 and element_at(l, -1) = 'x'", [1]),
        ("size(l) = 0 or cardinality(m) = 1", [0, 2]),
        ("size(l) is null", [3]),
        ("array_contains(l, 'x')", [0, 1]),
        ("not array_contains(l, 'y')", [1, 2]),
        ("not array_contains(l, null)", []),
        ("m['k'] = 1", [0]),
        ("m['k'] is null and m is not null", [1, 2]),
        ("element_at(m, 'j') = 2", [2]),
        ("get(p, 0).N.y = 1", [0]),
        ("get(p, 0).n.y is null", [1, 2, 3]),
        ("l is not null and m is null", []),
    ],
)
def test_elements_of_lists_and_values_of_maps_are_taken_as_in_spark(
    tmp_path: Path, text: str, places: list[int]
) -> None:
    lakescan.save(COLLECTIONS.append_column("at", pa.array(range(4))), str(tmp_path / "t"), format="delta")
    found = lakescan.table(str(tmp_path / "t")).scan().where(text).select("at").to_arrow()
    assert found["at"].to_pylist() == places


@pytest.mark.parametrize("text", ["l[i] = 'x'", "element_at(l, 0) = 'x'", "l[-1] = 'x'"])
def test_a_missing_element_is_an_error(tmp_path: Path, text: str) -> None:
    lakescan.save(COLLECTIONS, str(tmp_path / "t"), format="delta")
    with pytest.raises(SchemaMismatch, match="no element at this place"):
        lakescan.table(str(tmp_path / "t")).scan().where(text).to_arrow()


@pytest.mark.parametrize("inner", [t.UUID, t.Timestamp("ns")])
def test_collections_with_values_that_engines_read_differently_are_refused(inner: t.Type) -> None:
    schema = Schema((t.Field(1, "l", t.ListOf(t.Field(2, "element", inner))),))
    with pytest.raises(UnsupportedFeature, match=r"a value of type|differ only in case"):
        bind(parse_filter("size(l) = 1"), schema)


def test_reports_to_catalogs_contain_the_implied_predicate() -> None:
    assert expression(A_IS_1 & SqlCondition("a + 1 = 2", implied=A_IS_1)) == {
        "type": "and",
        "left": expression(A_IS_1),
        "right": expression(A_IS_1),
    }


def test_column_names_are_replaced_within_the_text() -> None:
    text = "`a` + s.x > a.b /* a */ and exists(items, a -> a > s) and a = 'a'"
    assert replace_columns(text, lambda each: ("_", 1)) == "_ + _.x > _.b /* a */ and exists(_, a -> a > _) and _ = 'a'"


def plain() -> pa.Table:
    chance = random.Random(5)

    def some(values: list[Any]) -> list[Any]:
        return [chance.choice([*values, None]) for _ in range(60)]

    return pa.table(
        {
            "id": pa.array(range(60), pa.int64()),
            "n": pa.array(some([-2, -1, 1, 2, 3]), pa.int64()),
            "m": pa.array(some([-3, 1, 2, 7]), pa.int64()),
            "word": pa.array(some(["c", "a", "ab", "B", "ba"])),
            "flag": pa.array(some([True, False])),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[lakescan.Table]:
    """Make tables of the same rows in both formats, partitioned in several ways."""
    folder, made = tmp_path_factory.mktemp("conditions"), []
    for number, by in enumerate([[], ["n"], ["word", "flag"]]):
        path = str(folder / f"delta{number}")
        lakescan.save(plain(), path, format="delta", partition_by=by)
        made.append(lakescan.table(path))
    catalog = local_catalog(folder)
    for number, (column, transform) in enumerate([("n", "bucket[3]"), ("word", "truncate[1]"), ("m", "identity")]):
        table = catalog.create_table(f"n.t{number}", plain().schema)
        with table.update_spec() as update:
            update.add_field(column, transform, "part")
        table.append(plain())
        made.append(lakescan.table(table.metadata_location))
    return made


NUMBER = st.sampled_from(["n", "m", "n + m", "n % 3", "-m", "abs(n)", "2", "length(word)", "coalesce(n, m)"])
WORD = st.sampled_from(["word", "upper(word)", "word || 'a'", "substring(word, 1, 1)", "'a'", "lower('AB')"])
OPERATOR = st.sampled_from(["=", "<>", "<", ">="])
TEST = st.one_of(
    st.tuples(NUMBER, OPERATOR, NUMBER).map(" ".join),
    st.tuples(WORD, OPERATOR, WORD).map(" ".join),
    st.tuples(NUMBER, NUMBER, NUMBER).map(lambda v: f"{v[0]} between {v[1]} and {v[2]}"),
    st.tuples(NUMBER, NUMBER).map(lambda v: f"{v[0]} in ({v[1]}, 1, null)"),
    st.tuples(WORD, st.sampled_from(["is null", "is not null", "like '%a'", "not like 'a%'"])).map(" ".join),
    st.sampled_from(["flag", "flag is not true", "(n > m) = flag", "case when flag then n > 1 else m > 1 end"]),
)
CONDITION = st.recursive(
    TEST,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda v: f"({v[0]}) {v[1]} {v[2]}"),
        inner.map("not ({})".format),
    ),
    max_leaves=5,
)


@settings(max_examples=40, deadline=None)
@given(condition=CONDITION, place=st.integers(0, 5))
def test_a_condition_keeps_the_rows_that_a_database_keeps(
    tables: list[lakescan.Table], condition: str, place: int
) -> None:
    rows = plain()
    with duckdb.connect() as database:
        found = database.from_arrow(rows).filter(condition).project("id").to_arrow_table()
    scan = tables[place].scan().where(condition)
    assert sorted(scan.select("id").to_arrow()["id"].to_pylist()) == sorted(found["id"].to_pylist())
    assert scan.count() == found.num_rows
    assert scan.max("id") == max(found["id"].to_pylist(), default=None)


def test_a_limit_counts_the_rows_that_match(tables: list[lakescan.Table]) -> None:
    for table in tables:
        scan = table.scan().where("id % 20 = 7")
        assert scan.limit(3).to_arrow().num_rows == 3
        assert scan.limit(2).count() == 2


def test_files_are_pruned_by_implied_predicates(tables: list[lakescan.Table]) -> None:
    by_n = tables[1].scan()
    assert by_n.where("n * 2 = 4 and length(word) = m").plan().report.metrics.result_data_files == 1
    assert by_n.where("n = 4 - 2").plan().residuals == (TRUE,)
    assert by_n.where("n % 7 = 2").plan().report.metrics.result_data_files > 1


def test_only_selected_columns_are_returned_whatever_the_condition_reads(tables: list[lakescan.Table]) -> None:
    found = tables[0].scan().where("n + m = 3 and id + 0 = id").select("word").to_arrow()
    assert found.column_names == ["word"]


def test_options_accept_any_condition(tables: list[lakescan.Table]) -> None:
    options = tables[1].scan().where("n = m").to_options()
    again = lakescan.table(options.pop("path"), **{**options, "where": "id % 2 = 0"}).scan()
    assert again.to_arrow().equals(tables[1].scan().where("n = m and id % 2 = 0").to_arrow())


def test_explain_shows_the_condition(tables: list[lakescan.Table]) -> None:
    text = tables[1].scan().where("n = 2 and upper(word) = 'A'").explain()
    assert "filter: (n = 2 and upper(word) = 'A')" in text
    assert "upper(word) = 'A'" in text.partition("residual of")[2]


def test_an_overwrite_replaces_the_rows_that_match_exactly(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lakescan.save(pa.table({"id": [1, 2, 3, None], "n": [1, 0, 3, 4]}), path, format="delta")
    table = lakescan.table(path)
    table.overwrite(pa.table({"id": [9], "n": [9]}), where="id = n")
    rows = sorted(map(str, lakescan.table(path).scan().to_arrow().to_pylist()))
    assert rows == sorted(map(str, [{"id": 9, "n": 9}, {"id": 2, "n": 0}, {"id": None, "n": 4}]))
    with pytest.raises(SchemaMismatch, match="do not match replaceWhere"):
        lakescan.table(path).overwrite(pa.table({"id": [1], "n": [2]}), where="id = n")
