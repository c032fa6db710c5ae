"""TPC-H's queries and TPC-DS's first thirty in process: which of them run, and which files their scans plan."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import lakescan
from tests.support.tpc import QUERIES, assert_same, benchmark_data, make_tables, rows_unless_refused, using_namespace

pytestmark = pytest.mark.slow
# The queries that are refused in process. The set only shrinks.
REFUSED: set[tuple[str, int]] = set()
# The best filters for the scans of TPC-H's queries, by number and table.
BY_HAND = {
    1: {"lineitem": "l_shipdate <= '1998-09-02'"},
    3: {
        "lineitem": "l_shipdate > '1995-03-15'",
        "orders": "o_orderdate < '1995-03-15'",
        "customer": "c_mktsegment = 'BUILDING'",
    },
    4: {"orders": "o_orderdate >= '1993-07-01' AND o_orderdate < '1993-10-01'"},
    5: {"orders": "o_orderdate >= '1994-01-01' AND o_orderdate < '1995-01-01'"},
    6: {"lineitem": "l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07"},
    7: {"lineitem": "l_shipdate BETWEEN '1995-01-01' AND '1996-12-31'"},
    8: {"orders": "o_orderdate BETWEEN '1995-01-01' AND '1996-12-31'"},
    10: {
        "orders": "o_orderdate >= '1993-10-01' AND o_orderdate < '1994-01-01'",
        "lineitem": "l_returnflag = 'R'",
    },
    12: {"lineitem": "l_receiptdate >= '1994-01-01' AND l_receiptdate < '1995-01-01'"},
    14: {"lineitem": "l_shipdate >= '1995-09-01' AND l_shipdate < '1995-10-01'"},
    15: {"lineitem": "l_shipdate >= '1996-01-01' AND l_shipdate < '1996-04-01'"},
    16: {"part": "p_size IN (49, 14, 23, 45, 19, 3, 36, 9)"},
    19: {"part": "p_size BETWEEN 1 AND 15"},
    20: {"lineitem": "l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01'"},
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpc")


def query(warehouse: Path, name: str, number: int, format_name: str) -> lakescan.Query:
    with using_namespace(make_tables(warehouse, name, format_name)):
        return lakescan.sql(benchmark_data(name).queries[number])


@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
@pytest.mark.parametrize(("name", "number"), QUERIES)
def test_rows_equal_those_of_duckdb_over_parquet(warehouse: Path, name: str, number: int, format_name: str) -> None:
    found = rows_unless_refused(query(warehouse, name, number, format_name), (name, number) in REFUSED)
    with duckdb.connect() as connection:
        for table, file in benchmark_data(name).tables.items():
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{file}'")
        expected = connection.execute(benchmark_data(name).texts[number]).fetchall()
    # The engines order nulls differently, and averages of decimals are doubles in DuckDB.
    assert_same(found, expected, (), tolerance=1e-5)


@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
@pytest.mark.parametrize("number", BY_HAND)
def test_no_more_files_are_planned_than_by_a_handwritten_scan(warehouse: Path, number: int, format_name: str) -> None:
    found = query(warehouse, "tpch", number, format_name)._found
    namespace = make_tables(warehouse, "tpch", format_name)
    for each, spec in found.scans.items():
        condition = BY_HAND[number].get(each.names[-1])
        if condition is not None:
            by_hand = lakescan.table(f"{namespace}.{each.names[-1]}").scan().where(condition).plan()
            assert len(spec.plan().files) <= len(by_hand.files), each.names[-1]
            assert set(spec.output.names) < set(lakescan.table(f"{namespace}.{each.names[-1]}").schema.names)
