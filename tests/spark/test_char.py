"""CHAR(n) of Delta tables on Spark: comparisons ignore the padding, as over Spark's own tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakescan
import lakescan.spark
from tests.statements.select.test_char import made

QUERIES = {
    "c = 'ab'": [1],
    "c <> 'ab'": [2],
    "c <= 'ab'": [1],
    "c IN ('ab', 'zz')": [1],
    "c = lower('AB')": [1],
    "c = d": [1],
    "c = s": [],
    "c LIKE 'ab'": [],
    "length(c) = 5": [1, 2],
    "c BETWEEN 'ab' AND 'ab'": [],
    "nullif(c, 'ab') IS NULL": [],
    "c IN ('ab', NULL)": [],
    "CAST(c AS STRING) = 'ab'": [],
}


def test_both_engines_compare_char_alike(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    tests = [f"coalesce({each}, false)" for each in QUERIES]
    text = f"SELECT id, {', '.join(tests)} FROM ch ORDER BY id"
    there = [tuple(row) for row in lakescan.spark.sql(spark, text, ch=table).collect()]
    here = [tuple(row.values()) for row in lakescan.sql(text, ch=table).to_arrow().to_pylist()]
    expected = [(n, *(n in ids for ids in QUERIES.values())) for n in (1, 2)]
    assert (there, here) == (expected, expected)
    frame = spark.read.format("lakescan").load(str(tmp_path / "t"))
    assert frame.where("c = 'ab' AND id < 5").select("id").collect() == [(1,)]
    joined = "SELECT count(*) FROM (SELECT c AS x FROM ch) JOIN ch ON x = d WHERE x = 'ab'"
    assert lakescan.spark.sql(spark, joined, ch=table).collect() == [(1,)]


@pytest.mark.parametrize("has_vectors", [False, True], ids=["copy-on-write", "vectors"])
def test_statements_on_spark_find_rows_by_char(spark: Any, tmp_path: Path, has_vectors: bool) -> None:
    table = made(tmp_path / "t", has_vectors=has_vectors)
    run = lakescan.spark.sql
    run(spark, "UPDATE ch SET s = 'new' WHERE c = 'ab'", ch=table)
    source = spark.createDataFrame([("abc", "x")], "k string, w string")
    on = "t.c = rpad(s.k, 5, ' ')"
    table.merge(source, on=on).when_matched_update({"s": "s.w"}).execute()
    assert table.to_arrow().sort_by("id")["s"].to_pylist() == ["new", "x"]
    upserted = spark.createDataFrame([("ab", "n", 9)], "c string, s string, id int")
    result = table.upsert(upserted.selectExpr("*", "s AS v", "'ab' AS d"), "c")
    assert (result.inserted, result.updated) == (0, 1)
    run(spark, "DELETE FROM ch WHERE c = 'ab'", ch=table)
    assert table.to_arrow()["c"].to_pylist() == ["abc  "]
