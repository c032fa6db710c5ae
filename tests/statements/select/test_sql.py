"""SQL in process: `lakescan.sql`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import (
    InvalidOption,
    InvalidStatement,
    NoSuchNamespace,
    NoSuchTable,
    QueryFailed,
    UnsupportedFeature,
)
from lakescan.statements.select.namespace import _CURRENT
from lakescan.statements.select.query import _Run


def orders(country: str, start: int = 0) -> pa.Table:
    ids = range(start, start + 4)
    days = [date(2026, 1, 1) + timedelta(days=n) for n in ids]
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "country": [country] * 4, "price": [n / 2 for n in ids], "day": days}
    )


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Path]:
    """The catalog `shop` with orders (Iceberg, three countries) and customers (Delta)."""
    catalog = lakescan.catalog("shop", warehouse=str(tmp_path / "lake"))
    catalog.create_namespace("db")
    table = "(id BIGINT, country STRING, price DOUBLE, day DATE)"
    lakescan.sql(f"CREATE TABLE shop.db.orders {table} USING iceberg PARTITIONED BY (country)")
    lakescan.sql("CREATE TABLE shop.db.customers (id BIGINT, name STRING) USING delta")
    for country in ("FR", "DE", "NL"):
        lakescan.table("shop.db.orders").append(orders(country))
    lakescan.table("shop.db.customers").append(pa.table({"id": [0, 1, 7], "name": ["Ann", "it's", None]}))
    token = _CURRENT.set(())
    yield tmp_path / "lake"
    _CURRENT.reset(token)


def rows(text: str, *args: object, **frames: object) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in lakescan.sql(text, *args, **frames).to_arrow().to_pylist()]


def test_tables_of_both_formats_are_joined(shop: Path) -> None:
    text = """
        SELECT c.name, sum(o.price) AS total, count(*) AS n
        FROM shop.db.orders o LEFT JOIN shop.db.customers c ON o.id = c.id
        WHERE o.country IN ('FR', 'DE') AND o.id < 2
        GROUP BY c.name ORDER BY total
    """
    assert rows(text) == [("Ann", 0.0, 2), ("it's", 1.0, 2)]


def test_a_scan_reads_only_the_files_and_columns_that_the_statement_needs(shop: Path) -> None:
    query = lakescan.sql("SELECT id FROM shop.db.orders WHERE country = 'FR'")
    [(_, spec)] = query._found.scans.items()
    assert spec.plan().report.metrics.result_data_files == 1
    assert spec.output.names == ["id", "country"]
    assert "where country = 'FR'" in query.explain()


def test_tables_are_named_by_path_and_after_use_by_short_names(shop: Path) -> None:
    path = lakescan.table("shop.db.customers").location
    assert rows(f"SELECT count(*) FROM delta.`{path}`") == [(3,)]
    lakescan.sql("USE shop.db")
    assert rows("SELECT count(*) FROM orders") == rows("SELECT count(*) FROM db.orders") == [(12,)]
    assert rows("SELECT max(shop.db.orders.id) FROM orders WHERE db.orders.country = 'NL'") == [(3,)]


def test_use_needs_an_existing_namespace(shop: Path) -> None:
    with pytest.raises(NoSuchNamespace, match=r"shop has no namespace 'bd'.*'db'"):
        lakescan.sql("USE shop.bd")
    lakescan.sql("USE shop.db")
    with pytest.raises(NoSuchNamespace, match="shop has no namespace 'typo'"):
        lakescan.sql("USE typo")


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_table_without_columns_is_refused_by_name(shop: Path, format: str) -> None:
    lakescan.sql(f"CREATE TABLE shop.db.bare USING {format}")
    for text in ("SELECT count(*) FROM shop.db.bare", "SELECT 1 FROM shop.db.bare"):
        with pytest.raises(UnsupportedFeature, match="which has no columns"):
            rows(text)
    with pytest.raises(InvalidStatement, match="its tables have none"):
        rows("SELECT * FROM shop.db.bare")
    with pytest.raises(InvalidStatement, match="no column 'id'"):
        rows("SELECT id FROM shop.db.bare")


def test_the_metadata_table_changes_has_the_changes_of_all_snapshots(shop: Path) -> None:
    kinds = rows("SELECT _change_type, count(*) FROM shop.db.orders.changes GROUP BY 1 ORDER BY 1")
    deleted = sum(count for kind, count in kinds if kind == "DELETE")
    inserted = sum(count for kind, count in kinds if kind == "INSERT")
    assert [(inserted - deleted,)] == rows("SELECT count(*) FROM shop.db.orders")
    assert inserted > 0


def test_options_select_a_part_of_the_changes(shop: Path) -> None:
    first = lakescan.table("shop.db.orders").history()["snapshot_id"][0].as_py()
    before = rows(f"SELECT count(*) FROM shop.db.orders.changes WITH (`end-snapshot-id` = '{first}')")
    after = rows(f"SELECT count(*) FROM shop.db.orders.changes WITH (`start-snapshot-id` = '{first}')")
    [(whole,)] = rows("SELECT count(*) FROM shop.db.orders.changes")
    assert before == [(4,)]
    assert after == [(whole - 4,)]


def test_a_name_that_selects_a_snapshot_takes_no_as_of(shop: Path) -> None:
    first = lakescan.table("shop.db.orders").history()["snapshot_id"][0].as_py()
    with pytest.raises(lakescan.InvalidOption, match="already selects branch main: leave VERSION AS OF out"):
        rows(f"SELECT count(*) FROM shop.db.orders.branch_main VERSION AS OF {first}")


def test_earlier_states_branches_tags_and_metadata_tables_are_queried(shop: Path) -> None:
    lakescan.sql("USE shop.db")
    first = lakescan.table("shop.db.orders").history()["snapshot_id"][0].as_py()
    assert rows(f"SELECT count(*) FROM orders VERSION AS OF {first}") == [(4,)]
    assert rows(f"SELECT count(*) FROM orders FOR SYSTEM_VERSION AS OF {first} AS o WHERE o.id > 1") == [(2,)]
    assert rows("SELECT count(*) FROM customers VERSION AS OF 0") == [(0,)]
    assert rows("SELECT count(*) FROM customers@v0 c JOIN customers d ON c.id = d.id") == [(0,)]
    assert rows("SELECT count(*) FROM orders TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY o") == [(12,)]
    assert rows("SELECT count(*) FROM orders.snapshots") == rows("SELECT count(*) FROM shop.db.orders.files") == [(3,)]
    assert rows("SELECT count(*) FROM orders.branch_main") == [(12,)]
    now = datetime.now(UTC) + timedelta(days=1)
    assert rows(f"SELECT count(*) FROM orders TIMESTAMP AS OF '{now:%Y-%m-%d %H:%M:%S}' WHERE id = 1") == [(3,)]


def test_a_statement_sees_one_state_of_a_table(shop: Path) -> None:
    query = lakescan.sql("SELECT (SELECT count(*) FROM shop.db.orders), count(*) FROM shop.db.orders")
    lakescan.table("shop.db.orders").append(orders("FR", 10))
    assert [tuple(row.values()) for row in query.to_arrow().to_pylist()] == [(12, 12)]
    assert rows("SELECT count(*) FROM shop.db.orders") == [(16,)]


def test_parameters_frames_and_scans_are_accepted(shop: Path) -> None:
    assert rows("SELECT name FROM shop.db.customers WHERE id = :id", {"id": 1}) == [("it's",)]
    assert rows("SELECT name FROM shop.db.customers WHERE id = ? OR name = ?", [0, "it's"]) == [("Ann",), ("it's",)]
    assert rows("SELECT day FROM shop.db.orders WHERE day = ? LIMIT 1", [date(2026, 1, 2)]) == [(date(2026, 1, 2),)]
    frame = pl.DataFrame({"ID": [1, 2]})
    assert rows("SELECT count(*) FROM ids JOIN shop.db.orders o ON o.id = ids.id", ids=frame) == [(6,)]
    scan = lakescan.table("shop.db.orders").scan().where("country = 'FR'")
    assert rows("SELECT count(*) FROM fr WHERE id > 1", fr=scan) == [(2,)]


def test_results_are_lazy_and_convert_to_every_kind_of_frame(shop: Path) -> None:
    query = lakescan.sql("SELECT id FROM shop.db.customers ORDER BY id")
    assert query.schema == pa.schema({"id": pa.int64()})
    assert query.to_pandas()["id"].tolist() == query.to_polars()["id"].to_list() == [0, 1, 7]
    assert pa.table(query).num_rows == 3
    assert sum(batch.num_rows for batch in query.to_batches()) == 3


def test_a_with_query_read_twice_returns_its_rows_twice(shop: Path) -> None:
    text = "WITH q AS (SELECT id FROM shop.db.customers) SELECT count(*) FROM q a, q b WHERE a.id <= b.id"
    assert rows(text) == [(6,)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CAST(2.7D AS INT)", 2),
        ("CAST(-2.7 AS INT)", -2),
        ("CAST(CAST(3.5D AS INT) / 2 AS INT)", 1),
        ("CAST(2.7 AS INT)", 2),
        ("'n' || id", "n0"),
        ("1 / 4", 0.25),
        ("'it''s'", "it's"),
        ("'a_c' LIKE 'a\\\\_c'", True),
        ("'abc' NOT LIKE 'b%'", True),
        ("sum(id)", 6),
        ("date_add(DATE '2026-01-31', 1)", date(2026, 2, 1)),
    ],
)
def test_expressions_have_their_values_in_spark(shop: Path, expression: str, value: object) -> None:
    found = lakescan.sql(f"SELECT {expression} FROM shop.db.orders WHERE country = 'FR' LIMIT 1").to_arrow()
    assert found[0][0].as_py() == value


def test_columns_without_a_name_are_named_as_in_spark(shop: Path) -> None:
    assert lakescan.sql("SELECT count(*), max(id) FROM shop.db.orders").schema.names == ["count(1)", "max(id)"]


@pytest.mark.parametrize(
    "expression",
    ["1 / 0", "id % 0", "CAST(country AS INT)", "CAST('2026-13-01' AS DATE)", "1 / (1 / id)", "CAST('1.5' AS INT)"],
)
def test_queries_that_fail_in_spark_fail(shop: Path, expression: str) -> None:
    with pytest.raises(QueryFailed):
        lakescan.sql(f"SELECT {expression} FROM shop.db.orders").to_arrow()


@pytest.mark.parametrize("expression", ["my_function(id)", "rand()", "from_avro(country, 'x')"])
def test_functions_that_differ_between_engines_are_refused_by_name(shop: Path, expression: str) -> None:
    with pytest.raises(UnsupportedFeature, match=rf"function {expression.split('(')[0]}\(\)"):
        lakescan.sql(f"SELECT {expression} FROM shop.db.orders").to_arrow()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT * FRM orders", r"line 1, column 14\)\nSELECT \* FRM orders\n             \^{6}$"),
        ("SELECT *\nFROM shop.db.ordes o", r"Did you mean 'orders'\? \(line 2, column 6\)\nFROM .*\n     \^{13}$"),
        ("SELECT * FROM nowhere", r"there is no table 'nowhere'\."),
        ("SELECT * FROM shop.db.orders.fils", r"no table 'db.orders.fils'|metadata table 'fils'. Did you mean 'files'"),
        ("SELECT 1; SELECT 2", "one statement at a time: .* Call sql for each"),
        ("SELECT * FROM shop.db.orders WHERE id = :id", "parameter :id has no value"),
        ("SELECT * FROM shop.db.orders WHERE id = ?", r"parameter \? has no value"),
        ("USE nothere.db", "no catalog 'nothere'"),
    ],
)
def test_errors_show_the_place_and_the_nearest_name(shop: Path, text: str, message: str) -> None:
    with pytest.raises((InvalidStatement, NoSuchTable, lakescan.NoSuchCatalog), match=message):
        lakescan.sql(text).to_arrow()


def test_an_unknown_column_is_refused_with_the_existing_ones(shop: Path) -> None:
    with pytest.raises(InvalidStatement, match=r"'nope'.*day.*\nSELECT nope, day.*\n       \^{4}$"):
        lakescan.sql("SELECT nope, day FROM shop.db.orders").to_arrow()


def test_more_values_than_parameters_are_refused(shop: Path) -> None:
    with pytest.raises(InvalidStatement, match=r"1 parameters .* 2 values"):
        lakescan.sql("SELECT * FROM shop.db.orders WHERE id = ?", [1, 2])
    with pytest.raises(InvalidOption, match="takes one statement as text"):
        lakescan.sql(None)


def test_counts_and_ends_are_answered_from_metadata(shop: Path) -> None:
    text = "SELECT count(*), min(id) AS low, max(`DAY`), count(1) FROM shop.db.orders o"
    query = lakescan.sql(text)
    assert "answered from metadata" in query.explain()
    for file in (shop / "db" / "orders").rglob("*.parquet"):
        file.unlink()
    assert [column.to_pylist() for column in query.to_arrow().columns] == [[12], [0], [date(2026, 1, 4)], [12]]
    assert rows("SELECT count(*) FROM shop.db.orders WHERE country = 'FR'") == [(4,)]
    assert rows("SELECT max(id), count(*) FROM shop.db.orders WHERE country = 'XX'") == [(None, 0)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT count(*) FROM shop.db.orders WHERE id > 2", 3),
        ("SELECT count(*) FROM shop.db.orders WHERE id + price > 4", 3),
        ("SELECT count(*) + 1 FROM shop.db.orders", 13),
        ("SELECT count(DISTINCT id) FROM shop.db.orders", 4),
        ("SELECT count(name) FROM shop.db.customers", 2),
        ("SELECT max(price) FILTER (WHERE id < 2) FROM shop.db.orders", 0.5),
        ("SELECT count(*) FROM shop.db.orders o, shop.db.customers c", 36),
        ("SELECT count(*) FROM shop.db.orders LIMIT 0", None),
        ("SELECT count(*) FROM shop.db.orders HAVING count(*) > 20", None),
        ("SELECT count(*) FROM shop.db.orders GROUP BY id HAVING id = 1", 3),
        ("SELECT count(*) FROM (SELECT * FROM shop.db.orders LIMIT 2) o", 2),
        ("SELECT max(country) FROM shop.db.orders WHERE id < 2 OR country = 'DE'", "NL"),
    ],
)
def test_other_aggregates_are_computed_from_rows(shop: Path, text: str, expected: object) -> None:
    query = lakescan.sql(text)
    assert "answered from metadata" not in query.explain()
    assert [row[0] for row in rows(text)] == ([] if expected is None else [expected])


def test_two_columns_are_compared_by_the_bounds_of_files(shop: Path) -> None:
    lakescan.sql("CREATE TABLE shop.db.legs (start INT, stop BIGINT) USING iceberg PARTITIONED BY (start)")
    legs = [(1, 5), (2, 1), (2, 2), (7, 3), (9, None)]
    lakescan.table("shop.db.legs").append(pa.table({"start": [a for a, _ in legs], "stop": [b for _, b in legs]}))
    for op, files in (("<", 1), ("<=", 2), (">", 2), ("=", 1), ("!=", 3)):
        query = lakescan.sql(f"SELECT start FROM shop.db.legs WHERE start {op} stop")
        [spec] = query._found.scans.values()
        assert len(spec.plan().table) == files
        python_op = {"=": "==", "!=": "!="}.get(op, op)
        wanted = sorted(a for a, b in legs if b is not None and eval(f"{a} {python_op} {b}"))
        assert sorted(query.to_arrow()["start"].to_pylist()) == wanted
        assert lakescan.table("shop.db.legs").scan().where(f"start {op} stop").count() == len(wanted)


def test_read_errors_are_raised_unchanged(shop: Path) -> None:
    for file in (shop / "db" / "customers").glob("*.parquet"):
        file.unlink()
    with pytest.raises(lakescan.MissingFile):
        lakescan.sql("SELECT * FROM shop.db.customers").to_arrow()


def test_a_session_of_none_means_in_process(shop: Path) -> None:
    assert lakescan.sql(None, "SELECT count(*) FROM shop.db.customers").to_arrow()[0][0].as_py() == 3


def test_explain_is_a_query_with_the_plan(shop: Path) -> None:
    [(plan,)] = rows("EXPLAIN SELECT id FROM shop.db.orders WHERE country = 'FR' LIMIT 2")
    assert "columns id, country, where country = 'FR', limit 2" in str(plan)


def test_result_columns_may_have_the_same_name(shop: Path) -> None:
    found = lakescan.sql(
        "SELECT a.id, b.id FROM shop.db.customers a JOIN shop.db.customers b ON a.id = b.id"
    ).to_arrow()
    assert found.schema.names == ["id", "id"]
    assert found.num_rows == 3


def test_given_scans_keep_their_limit_and_columns(shop: Path) -> None:
    scan = lakescan.table("shop.db.customers").scan()
    assert rows("SELECT count(*) FROM mine WHERE id > 5", mine=scan.limit(2)) == [(0,)]
    with pytest.raises(InvalidStatement, match="name"):
        lakescan.sql("SELECT name FROM mine", mine=scan.select("id")).to_arrow()


def test_a_with_query_may_have_any_name(shop: Path) -> None:
    query = "SELECT c.id, l.id AS other FROM shop.db.customers c, lakescan_table_0 l"
    text = f"WITH lakescan_table_0 AS (SELECT 99 AS id) {query}"
    assert sorted(rows(text)) == [(0, 99), (1, 99), (7, 99)]


@pytest.mark.parametrize(
    "text",
    [
        "FROM {t} |> LIMIT 1 |> WHERE id = 2",
        "SELECT -id AS id FROM {t} ORDER BY id + 0",
        "SELECT rank(id) FROM {t}",
        "SELECT * FROM {t} PIVOT (count(*) FOR id IN (1, 2))",
        "SELECT id FROM {t} TABLESAMPLE (10 PERCENT)",
    ],
)
def test_statements_that_differ_between_engines_are_refused(shop: Path, text: str) -> None:
    with pytest.raises(UnsupportedFeature):
        lakescan.sql(text.format(t="shop.db.customers")).to_arrow()


def test_grouping_sets_of_no_rows_have_no_totals() -> None:
    rows = pa.table({"a": pa.array([1, 2])})
    for sets in ("ROLLUP (a)", "CUBE (a)", "GROUPING SETS ((a), ())"):
        text = f"SELECT a, count(*) AS n FROM rows WHERE a > :least GROUP BY {sets} ORDER BY a"
        assert lakescan.sql(text, {"least": 2}, rows=rows).to_arrow().num_rows == 0
        assert lakescan.sql(text, {"least": 1}, rows=rows).to_arrow()["n"].to_pylist() == [1, 1]


def test_sums_may_have_many_terms() -> None:
    rows = pa.table({"a": pa.array([1, 2])})
    text = f"SELECT {' + '.join(['a'] * 60)} AS total FROM rows"
    assert lakescan.sql(text, rows=rows).to_arrow()["total"].to_pylist() == [60, 120]


@pytest.mark.parametrize("how", ["to_arrow", "to_polars", "to_batches", "to_reader"])
def test_a_value_that_fails_after_the_first_rows_is_reported(how: str) -> None:
    texts = pa.table({"text": ["1"] * 500_000 + ["x"]})
    query = lakescan.sql("SELECT CAST(text AS INT) AS number FROM texts", texts=texts)
    with pytest.raises(QueryFailed, match=r"CAST_INVALID_INPUT: the text 'x' is no INT"):
        for _ in getattr(query, how)():
            pass


@pytest.mark.parametrize("args", [5, "a", {1}])
def test_values_of_parameters_are_a_dictionary_or_a_list(args: object) -> None:
    with pytest.raises(InvalidOption, match="a dictionary with values for :name, or a list with values for"):
        rows("SELECT ?", args)


def test_only_a_session_may_come_before_the_text() -> None:
    with pytest.raises(InvalidOption, match="one statement as text"):
        rows(5, "SELECT 1")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [" + ".join(["id"] * 1_000), " FROM frame UNION ALL SELECT ".join(["id"] * 1_000)])
def test_statements_that_are_too_deep_are_refused_by_name(text: str) -> None:
    with pytest.raises(UnsupportedFeature, match="a statement of this depth"):
        rows(f"SELECT {text} FROM frame", frame=pa.table({"id": [1]}))


def test_a_message_shows_the_part_of_a_long_line_around_the_position() -> None:
    long = ", ".join(["id"] * 5_000)
    with pytest.raises(InvalidStatement) as raised:
        lakescan.sql(f"SELECT {long}, WHERE FROM, {long}")
    _, shown, marks = str(raised.value).split("\n")
    assert len(shown) < 250
    assert shown[marks.index("^") : len(marks)] in ("WHERE", "FROM", ",")


def test_long_chains_of_queries_are_supported(shop: Path) -> None:
    chain = ", ".join(f"c{n + 1} AS (SELECT id FROM c{n})" for n in range(300))
    text = f"WITH c0 AS (SELECT id FROM shop.db.orders WHERE country = 'FR'), {chain} SELECT count(*) FROM c300"
    assert rows(text) == [(4,)]


def test_spilled_data_is_not_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pa.table({"id": range(1_000_000), "text": [str(-n) for n in range(1_000_000)]})
    query = lakescan.sql("SELECT * FROM frame ORDER BY text, id", frame=frame)
    run = _Run(query._found, query._frames)
    run.connection.execute("SET memory_limit = '40MB'")
    [(folder,)] = run.connection.execute("SELECT current_setting('temp_directory')").fetchall()
    _, batches = run.start()
    assert next(batches).num_rows
    assert list(Path(folder).iterdir())
    assert not list(tmp_path.iterdir())
    batches = iter(())
    run.connection.close()
    del run
    assert not Path(folder).exists()


def test_values_may_be_structs_lists_and_maps() -> None:
    text = "SELECT * FROM VALUES (named_struct('x', 1), array(1, 2), map('a', 1)), (NULL, NULL, NULL) AS v(s, l, m)"
    found = lakescan.sql(text).to_arrow()
    assert found.to_pylist() == [{"s": {"x": 1}, "l": [1, 2], "m": [("a", 1)]}, {"s": None, "l": None, "m": None}]
    assert found.schema.field("l").type.value_type == pa.int32()


@pytest.mark.parametrize("entries", ["'a', 1, 'a', 2", "'a', 1, NULL, 2"])
def test_keys_of_a_map_are_unique_and_not_null(entries: str) -> None:
    with pytest.raises(lakescan.QueryFailed):
        lakescan.sql(f"SELECT map({entries}) AS m").to_arrow()


@pytest.mark.parametrize(
    ("text", "value"), [(" NaN", "nan"), ("INF", "inf"), ("+infinity", "inf"), ("-Inf", "-inf"), ("-Infinity ", "-inf")]
)
def test_texts_such_as_nan_and_infinity_are_cast_to_doubles(text: str, value: str) -> None:
    [found] = rows(f"SELECT CAST('{text}' AS DOUBLE) AS a, try_cast('{text}' AS DOUBLE) AS b, double('{text}') AS c")
    assert list(map(str, found)) == [value] * 3
    with pytest.raises(QueryFailed, match="CAST_INVALID_INPUT: the text '-nan' is no DOUBLE"):
        rows("SELECT CAST('-nan' AS DOUBLE)")


def test_times_of_day_are_compared_with_literals(tmp_path: Path) -> None:
    lake = lakescan.catalog("clock", warehouse=str(tmp_path))
    lake.create_namespace("db")
    table = lake.create_table("db.t", pa.schema([("id", pa.int64()), ("tm", pa.time64("us"))]))
    table.append(pa.table({"id": [1, 2], "tm": pa.array([time(11), time(13)], pa.time64("us"))}))
    for text, kept in {
        "tm < TIME '12:00:00'": [1],
        "TIME '12:00' <= tm": [2],
        "tm = ' 11:0:0 '": [1],
        "tm in (TIME '01:00 PM', '10:00')": [2],
        "tm BETWEEN '10:00' AND TIME '11:00:00.0000009'": [1],
        "tm > CAST('11:00' AS TIME)": [2],
    }.items():
        assert lakescan.sql(f"SELECT id FROM clock.db.t WHERE {text}").to_arrow()["id"].to_pylist() == kept
        assert table.refresh().scan().where(text).to_arrow()["id"].to_pylist() == kept
