"""Any query has the same rows over plain rows, over Iceberg and over Delta tables, on Spark and in process."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
import lakescan.spark
from tests.statements.select.test_pushdown_law import READERS, queries

pytestmark = pytest.mark.slow

_LAYOUTS = {
    "iceberg": {"a": "bucket(3, k)", "b": "v", "c": "truncate(2, w)"},
    "delta": {"a": "k", "b": "", "c": "w"},
}


def _rows(seed: int) -> pa.Table:
    some = random.Random(seed)
    values = [None, 0, 1, 2, 3]
    return pa.table({name: pa.array([some.choice(values) for _ in range(12)], pa.int64()) for name in ("k", "v", "w")})


@pytest.fixture(scope="module")
def rows(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """The tables a, b and c: in each format in several files, some cut by an overwrite; and as plain views."""
    catalog = lakescan.catalog("law", warehouse=str(tmp_path_factory.mktemp("law")))
    kept = {}
    for n, name in enumerate("abc"):
        parts = [_rows(10 * n + part) for part in range(3)]
        for kind, layout in _LAYOUTS.items():
            catalog.create_namespace(kind, exist_ok=True)
            by = f"PARTITIONED BY ({layout[name]})" if layout[name] else ""
            lakescan.sql(f"CREATE TABLE law.{kind}.{name} (k BIGINT, v BIGINT, w BIGINT) USING {kind} {by}")
            table = lakescan.table(f"law.{kind}.{name}")
            for part in parts:
                table.append(part)
            table.overwrite(
                pa.table({"k": [2], "v": [3], "w": [None]}, schema=parts[0].schema), where="k = 2 AND v = 3"
            )
        kept[name] = lakescan.table(f"law.iceberg.{name}").to_arrow()
        spark.createDataFrame(kept[name]).createOrReplaceTempView(name)
    return kept


@settings(max_examples=10)
@given(query=queries(), reader=st.sampled_from([None, *READERS]))
def test_engines_formats_and_plain_rows_agree(
    spark: Any, rows: dict[str, pa.Table], query: str, reader: str | None
) -> None:
    text = query if reader is None else f"WITH q AS ({query}) {reader}"
    plain = Counter(map(tuple, spark.sql(text).collect()))
    for kind in _LAYOUTS:
        named = re.sub(r"\b(FROM|JOIN) ([abc])\b", rf"\1 law.{kind}.\2", text)
        assert Counter(map(tuple, lakescan.spark.sql(spark, named).collect())) == plain
        found = lakescan.sql(named).to_arrow()
        assert Counter(zip(*(column.to_pylist() for column in found.columns), strict=True)) == plain
