"""`where` gives the rows that DuckDB gives on plain data, and planning never drops a file with a matching row.

The same rows, with nulls, NaN and dates before 1970, are stored in many small files of tables with every partitioning.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from tests.support.catalog import local_catalog

NAN = float("nan")
TEXTS = ["", "a", "ab", "abc", "abd", "b%c", "b_c", "é", "z" * 20]
FIRST = datetime(1969, 12, 30, 22, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us", "UTC")),
        ("text", pa.string()),
        ("flag", pa.bool_()),
    ]
)


def plain() -> pa.Table:
    chance = random.Random(7)

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.15 else value

    rows = [
        {
            "id": i,
            "n": maybe(chance.randint(-5, 5)),
            "x": maybe(chance.choice([NAN, -0.0, 0.0, 1.5, -2.5, float("inf")])),
            "price": maybe(Decimal(chance.randint(-300, 300)) / 100),
            "day": maybe(date(1969, 12, 1) + timedelta(days=chance.randint(0, 60))),
            "moment": maybe(FIRST + timedelta(minutes=chance.randint(0, 60 * 24 * 4))),
            "text": maybe(chance.choice(TEXTS)),
            "flag": maybe(chance.random() < 0.5),
        }
        for i in range(120)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


PARTITIONS: list[list[tuple[str, str]]] = [
    [],
    [("n", "identity")],
    [("text", "identity"), ("flag", "identity")],
    [("n", "bucket[4]"), ("text", "bucket[3]")],
    [("price", "bucket[5]"), ("moment", "bucket[3]")],
    [("text", "truncate[2]"), ("n", "truncate[3]")],
    [("price", "truncate[50]")],
    [("day", "year"), ("moment", "hour")],
    [("day", "month"), ("moment", "day")],
    [("day", "identity"), ("moment", "month")],
    [("day", "day"), ("n", "void")],
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[lakescan.Table]:
    """Make one table per partitioning; in every other one, the second half of the rows has another spec."""
    from pyiceberg.transforms import parse_transform

    folder = tmp_path_factory.mktemp("filters")
    catalog = local_catalog(folder)
    made = []
    rows = plain()
    for number, fields in enumerate(PARTITIONS):
        table = catalog.create_table(f"n.t{number}", SCHEMA, properties={"write.parquet.row-group-limit": "8"})
        if number % 2:
            table.append(rows.slice(0, 60))
        with table.update_spec() as update:
            for place, (source, transform) in enumerate(fields):
                update.add_field(source, parse_transform(transform), f"p{place}")
        table.append(rows.slice(60) if number % 2 else rows)
        made.append(lakescan.table(table.metadata_location))
    return made


@pytest.fixture(scope="module")
def file_of(tables: list[lakescan.Table]) -> list[dict[int, str]]:
    """For each table, return the file of each id."""
    found = [t.scan().select("id", "_file").to_arrow() for t in tables]
    return [dict(zip(f["id"].to_pylist(), f["_file"].to_pylist(), strict=True)) for f in found]


@pytest.fixture(scope="module")
def database() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("plain", plain())
        yield connection


def literal(column: str) -> st.SearchStrategy[str]:
    """Literals of a column's type, most of them among its values."""
    days = st.dates(date(1969, 11, 1), date(1970, 2, 28))
    moments = st.integers(-600, 60 * 24 * 5).map(lambda m: FIRST + timedelta(minutes=m))
    by_column: dict[str, st.SearchStrategy[str]] = {
        "n": st.integers(-7, 7).map(str),
        "x": st.sampled_from(["0.0", "1.5", "-2.5", "7.0", "cast('NaN' as double)"]),
        "price": st.integers(-310, 310).map(lambda c: f"{Decimal(c) / 100:.2f}"),
        "day": days.map(lambda d: f"date '{d}'"),
        "moment": moments.map(lambda m: f"timestamp '{m:%Y-%m-%d %H:%M:%S}+00:00'"),
        "text": st.sampled_from(TEXTS).map(lambda t: f"'{t}'"),
        "flag": st.sampled_from(["true", "false"]),
    }
    return by_column[column]


def conditions_on(column: str) -> st.SearchStrategy[str]:
    value = literal(column)
    compared = st.tuples(st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), value).map(lambda v: f"{v[0]} {v[1]}")
    listed = st.lists(value, min_size=1, max_size=3).map(lambda v: f"in ({', '.join(v)})")
    missing = st.sampled_from(["is null", "is not null"])
    found = st.one_of(compared, listed, listed.map("not {}".format), missing)
    if column == "text":
        patterns = st.sampled_from(["'a%'", "'ab%'", "'%c'", "'a_'", "'%'", "'z%'", "'_'"])
        found = found | patterns.map("like {}".format) | patterns.map("not like {}".format)
    if column == "flag":
        found = found | st.sampled_from(["is true", "is not true", "is false", "is not false"])
    ranges = st.tuples(st.sampled_from(["between", "not between"]), value, value)
    found = found | ranges.map(lambda r: f"{r[0]} {r[1]} and {r[2]}")
    same = st.tuples(st.sampled_from(["is distinct from", "is not distinct from"]), value)
    found = found | same.map(lambda s: f"{s[0]} {s[1]}")
    return found.map(lambda test: f"{column} {test}")


CONDITIONS = st.recursive(
    st.sampled_from(["n", "x", "price", "day", "moment", "text", "flag"]).flatmap(conditions_on),
    lambda inner: st.one_of(
        inner.map(lambda c: f"not ({c})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda c: f"({c[0]}) {c[1]} ({c[2]})"),
    ),
    max_leaves=4,
)


@pytest.mark.slow
@settings(max_examples=120)
@given(number=st.integers(0, len(PARTITIONS) - 1), condition=CONDITIONS)
def test_where_gives_the_rows_that_duckdb_gives(
    tables: Any, file_of: Any, database: Any, number: int, condition: str
) -> None:
    ours = re.sub(
        r"(\w+) is (not )?distinct from ((?:cast\(.*?\))|(?:\w+ )?'.*?'|\S+?)(?=\)|$| )", _null_safe, condition
    )
    wanted = database.execute(f"select id from plain where {condition} order by id").fetchall()
    scan = tables[number].scan().where(ours)
    assert sorted(scan.to_arrow()["id"].to_pylist()) == [i for (i,) in wanted]
    planned = set(scan.plan().files["path"].to_pylist())
    assert {file_of[number][i] for (i,) in wanted} <= planned


def _null_safe(found: re.Match[str]) -> str:
    """Spark writes `is not distinct from` as <=>."""
    same = f"{found[1]} <=> {found[3]}"
    return same if found[2] else f"not ({same})"
