"""Filters in Python accept the names and forms that users of PySpark, Polars and pyiceberg type."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lakescan import NoSuchMethod, Predicate, col
from lakescan.expressions.sql import parse_filter

SAME = [
    (col("a").isin(1, 2), "a in (1, 2)"),
    (col("a").isin([1, 2]), "a in (1, 2)"),
    (col("a").is_in((1, 2)), "a in (1, 2)"),
    (col("a").is_in(n for n in (1, 2)), "a in (1, 2)"),
    (col("a").isin("one"), "a in ('one')"),
    (~col("a").isin(1, None), "a not in (1, null)"),
    (col("a").is_between(1, 2), "a between 1 and 2"),
    (col("a").isNull(), "a is null"),
    (col("a").isNotNull(), "a is not null"),
    (~col("a").is_not_null(), "a is null"),
    (col("a").eqNullSafe(1), "a <=> 1"),
    (~col("a").eq_missing(1), "not a <=> 1"),
    (col("a").eq_null_safe(None), "a <=> null"),
    (col("a").isNaN(), "isnan(a)"),
    (col("a").startswith("x%"), "startswith(a, 'x%')"),
    (col("a").endswith("_x"), r"a like '%\\_x'"),
    (col("a").contains("50%"), r"a like '%50\\%%'"),
]


@pytest.mark.parametrize(("written", "sql"), SAME, ids=[sql for _, sql in SAME])
def test_a_filter_in_python_is_the_one_in_sql(written: Predicate, sql: str) -> None:
    assert written == parse_filter(sql)


COLLECTIONS = [np.array([1, 2]), pa.array([1, 2]), pd.Series([1, 2]), {1, 2}, range(1, 3)]


@pytest.mark.parametrize("values", COLLECTIONS, ids=lambda each: type(each).__name__)
def test_any_collection_is_accepted_as_a_list_of_values(values: object) -> None:
    assert col("a").is_in(values) == parse_filter("a in (1, 2)")


NEAREST = [("is_nul", "is_null"), ("beetween", "between"), ("contain", "contains")]


@pytest.mark.parametrize(("typed", "meant"), NEAREST)
def test_an_unknown_method_is_refused_with_the_nearest(typed: str, meant: str) -> None:
    with pytest.raises(NoSuchMethod, match=f"Did you mean '{meant}'"):
        getattr(col("a"), typed)
    assert not hasattr(col("a"), typed)


def test_columns_can_be_copied_and_pickled() -> None:
    for same in (copy.deepcopy(col("a")), pickle.loads(pickle.dumps(col("a")))):
        assert same.name == "a"
