"""TPC-H's queries and TPC-DS's first thirty return the same rows over both formats as over plain Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakescan
import lakescan.spark
from tests.statements.select.test_tpc import REFUSED
from tests.support.tpc import (
    QUERIES,
    Row,
    assert_same,
    benchmark_data,
    make_tables,
    ordering,
    rows_unless_refused,
    using_namespace,
)

pytestmark = pytest.mark.slow
# At these scales no row satisfies the conditions of these queries.
WITHOUT_ROWS = {("tpcds", n) for n in (4, 8, 10, 23, 24, 25)}
_expected: dict[tuple[str, int], tuple[list[str], list[Row]]] = {}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpc")


@pytest.fixture(scope="module")
def plain(spark: Any) -> Any:
    """A session in which the table names are views of Parquet files."""
    return spark.newSession()


@pytest.fixture(autouse=True)
def _namespace(spark: Any) -> Iterator[None]:
    yield
    spark.conf.unset("spark.lakescan.namespace")


def expected(plain: Any, name: str, number: int) -> tuple[list[str], list[Row]]:
    """Return the column names and the rows that Spark returns over Parquet files."""
    if (name, number) not in _expected:
        for table, file in benchmark_data(name).tables.items():
            plain.read.parquet(file).createOrReplaceTempView(table)
        frame = plain.sql(benchmark_data(name).queries[number])
        _expected[name, number] = frame.columns, [tuple(row) for row in frame.collect()]
    return _expected[name, number]


@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
@pytest.mark.parametrize(("name", "number"), QUERIES)
def test_rows_on_spark_equal_those_over_parquet(
    spark: Any, plain: Any, warehouse: Path, name: str, number: int, format_name: str
) -> None:
    text = benchmark_data(name).queries[number]
    columns, rows = expected(plain, name, number)
    lakescan.spark.sql(spark, f"USE {make_tables(warehouse, name, format_name)}")
    found = lakescan.spark.sql(spark, text)
    assert found.columns == columns
    assert_same([tuple(row) for row in found.collect()], rows, ordering(text, columns))
    assert bool(rows) == ((name, number) not in WITHOUT_ROWS)


@pytest.mark.parametrize(("name", "number"), QUERIES)
def test_rows_in_process_equal_those_of_spark(spark: Any, plain: Any, warehouse: Path, name: str, number: int) -> None:
    text = benchmark_data(name).queries[number]
    columns, rows = expected(plain, name, number)
    with using_namespace(make_tables(warehouse, name, "iceberg")):
        query = lakescan.sql(text)
    found = rows_unless_refused(query, (name, number) in REFUSED)
    assert_same(found, rows, ordering(text, columns))
