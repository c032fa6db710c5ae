"""Answers recorded as Spark's are Spark's answers; see `tests/statements/select/recorded`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.statements.select.recorded import FAR_YEARS, IN_QUERIES, NAMED, in_order, recorded


@pytest.fixture
def in_query_views(spark: SparkSession) -> Iterator[None]:
    for name, rows in IN_QUERIES.items():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    yield
    for name in IN_QUERIES:
        spark.catalog.dropTempView(name)


@pytest.fixture
def named_view(spark: SparkSession) -> Iterator[None]:
    spark.createDataFrame(NAMED).createOrReplaceTempView("t")
    yield
    spark.catalog.dropTempView("t")


def test_recorded_column_names_are_sparks(spark: SparkSession, named_view: None) -> None:
    for text, expected in recorded("column_names"):
        assert spark.sql(text).columns == expected, text


def test_recorded_rows_of_in_queries_are_sparks(spark: SparkSession, in_query_views: None) -> None:
    for text, expected in recorded("in_queries"):
        assert in_order(spark.sql(text).collect()) == in_order(expected), text


def test_recorded_rows_of_functions_are_sparks(spark: SparkSession, in_query_views: None) -> None:
    for text, expected in recorded("functions"):
        assert in_order(spark.sql(text).collect()) == in_order(expected), text


def test_recorded_rows_of_far_years_are_sparks(spark: SparkSession) -> None:
    for name, rows in FAR_YEARS.items():
        spark.createDataFrame(rows).createOrReplaceTempView(name)
    try:
        for text, expected in recorded("years"):
            assert in_order(spark.sql(text).collect()) == in_order(expected), text
    finally:
        for name in FAR_YEARS:
            spark.catalog.dropTempView(name)
