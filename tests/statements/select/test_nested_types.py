"""Lists, maps and structs with inferred types: empty ones, nulls inside, casts; inferred as by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan

QUERIES: list[tuple[str, str, Any]] = [
    ("array()", "list<element: null>", []),
    ("map()", "map<string, null>", []),
    ("array(NULL)", "list<element: null>", [None]),
    ("map('a', NULL)", "map<string, null>", [("a", None)]),
    ("named_struct('x', NULL)", "struct<x: null>", {"x": None}),
    ("size(array())", "int32", 0),
    ("CAST(NULL AS ARRAY<INT>)", "list<element: int32>", None),
    ("CAST(NULL AS STRUCT<`a b`: DECIMAL(5,2)>)", "struct<a b: decimal128(5, 2)>", None),
    ("CAST(NULL AS STRUCT<a: ARRAY<STRING>>)", "struct<a: list<element: string>>", None),
    ("coalesce(CAST(NULL AS ARRAY<INT>), array(), array(1L))", "list<element: int64>", []),
    ("nvl(CAST(NULL AS MAP<STRING, INT>), map())", "map<string, int32>", []),
    ("array(array(), array(1))", "list<element: list<element: int32>>", [[], [1]]),
    ("array(map(), map('a', 1))", "list<element: map<string, int32>>", [[], [("a", 1)]]),
    ("array(1, NULL, 2.5)", "list<element: decimal128(11, 1)>", [1, None, 2.5]),
    ("array(array(1), array(1.5e0))", "list<element: list<element: double>>", [[1.0], [1.5]]),
    ("array(struct(1 AS a), struct(NULL AS A))", "list<element: struct<a: int32>>", [{"a": 1}, {"a": None}]),
    ("CAST(array(array('1')) AS ARRAY<ARRAY<INT>>)", "list<element: list<element: int32>>", [[1]]),
    ("CAST(array(1.5, NULL, 2.7) AS ARRAY<INT>)", "list<element: int32>", [1, None, 2]),
    ("CAST(map('a', '1') AS MAP<STRING, INT>)", "map<string, int32>", [("a", 1)]),
    ("CAST(map(1, 2) AS MAP<BIGINT, STRING>)", "map<int64, string>", [(1, "2")]),
    ("CAST(struct(1, 2) AS STRUCT<a: INT, A: INT>)", "struct<a: int32, A: int32>", {"a": 1, "A": 2}),
    ("CAST(struct(1 AS a) AS STRUCT<A: INT>)", "struct<A: int32>", {"A": 1}),
    ("coalesce(CAST(NULL AS STRUCT<a: INT>), struct(5 AS A))", "struct<a: int32>", {"a": 5}),
    ("if(false, struct(1 AS a), struct(2 AS A))", "struct<a: int32>", {"a": 2}),
    ("CAST(array(struct(1 AS a)) AS ARRAY<STRUCT<A: INT>>)", "list<element: struct<A: int32>>", [{"A": 1}]),
    ("CAST(struct(1, '2') AS STRUCT<x: STRING, y: INT>)", "struct<x: string, y: int32>", {"x": "1", "y": 2}),
    ("CAST(array(struct('1')) AS ARRAY<STRUCT<k: DOUBLE>>)", "list<element: struct<k: double>>", [{"k": 1.0}]),
]  # fmt: skip
REFUSED = [
    "CAST(map(1L, 2) AS MAP<INT, STRING>)",  # two keys may become one
    "CAST(named_struct('a', 1) AS STRUCT<x: STRING, y: INT>)",
    "CAST(array(1) AS STRUCT<x: INT>)",
    "CAST(NULL AS STRUCT<a: INT, a: INT>)",
    "array(named_struct('a', 1), named_struct('b', 2))",
    "array() = array(1)",
]


@pytest.mark.parametrize(("text", "kind", "value"), QUERIES, ids=[text for text, _, _ in QUERIES])
def test_types_are_inferred_as_in_spark(text: str, kind: str, value: Any) -> None:
    found = lakescan.sql(f"SELECT {text} AS c").to_arrow()
    assert (str(found.schema.field("c").type), found["c"].to_pylist()) == (kind, [value])


@pytest.mark.parametrize("text", REFUSED)
def test_unsupported_conversions_are_refused_by_name(text: str) -> None:
    with pytest.raises(lakescan.UnsupportedFeature):
        lakescan.sql(f"SELECT {text} AS c").to_arrow()


def test_a_cast_inside_a_list_fails_as_it_does_outside() -> None:
    with pytest.raises(lakescan.QueryFailed, match="text 'x' is no INT"):
        lakescan.sql("SELECT CAST(array('1', 'x') AS ARRAY<INT>)").to_arrow()


def test_null_lists_stay_null_and_rows_stay_separate() -> None:
    rows = pa.table({"id": [1, 2, 3], "l": pa.array([[1, None], None, []], pa.list_(pa.int32()))})
    made = "CAST(l AS ARRAY<STRING>) AS t, CASE WHEN id > 1 THEN array() ELSE l END AS e"
    found = lakescan.sql(f"SELECT {made} FROM rows ORDER BY id", rows=rows).to_arrow()
    assert found["t"].to_pylist() == [["1", None], None, []]
    assert found["e"].to_pylist() == [[1, None], [], []]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("size(l) = size(array())", [2]),
        ("size(coalesce(l, array())) = 0", [2, 3]),
        ("id = size(map()) + 1", [1]),
        ("map() IS NULL", []),
    ],
)
def test_conditions_of_scans_find_the_same_rows(tmp_path: Path, condition: str, ids: list[int]) -> None:
    lake = lakescan.catalog("local", warehouse=tmp_path)
    lake.create_namespace("db")
    lists = pa.array([[1], [], None], pa.list_(pa.int32()))
    table = lake.create_table("db.t", "id INT, l ARRAY<INT>")
    table.append(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "l": lists}))
    found = table.scan().where(condition).to_arrow()["id"].to_pylist()
    assert found == lakescan.sql(f"SELECT id FROM local.db.t WHERE {condition}").to_arrow()["id"].to_pylist() == ids


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_statements_store_empty_lists_and_maps_of_any_type(tmp_path: Path, format: str) -> None:
    lakescan.catalog("local", warehouse=tmp_path).create_namespace("db")
    columns = "id INT, l ARRAY<TIMESTAMP>, m MAP<INT, STRUCT<x: DATE>>, s STRUCT<a: ARRAY<STRING>, b: INT>"
    lakescan.sql(f"CREATE TABLE local.db.t ({columns}) USING {format}")
    lakescan.sql("INSERT INTO local.db.t VALUES (1, array(), map(), named_struct('a', array(), 'b', NULL))")
    lakescan.sql(
        "INSERT INTO local.db.t VALUES (2, NULL, NULL, NULL), (3, array(NULL), map(1, NULL), struct(NULL AS a, 2 AS b))"
    )
    lakescan.sql("UPDATE local.db.t SET l = array(), m = map(), s = named_struct('a', array(), 'b', 7) WHERE id = 2")
    found = lakescan.sql("SELECT * FROM local.db.t ORDER BY id").to_arrow().to_pylist()
    assert found == [
        {"id": 1, "l": [], "m": [], "s": {"a": [], "b": None}},
        {"id": 2, "l": [], "m": [], "s": {"a": [], "b": 7}},
        {"id": 3, "l": [None], "m": [(1, None)], "s": {"a": None, "b": 2}},
    ]


@pytest.mark.spark
def test_spark_returns_the_same_values(spark: Any) -> None:
    def plain(value: Any) -> Any:
        if hasattr(value, "asDict"):
            return {name: plain(each) for name, each in value.asDict().items()}
        if isinstance(value, dict):
            return [(key, plain(each)) for key, each in value.items()]
        return [plain(each) for each in value] if isinstance(value, list) else value

    listed = ", ".join(f"{text} AS c{n}" for n, (text, _, _) in enumerate(QUERIES))
    (row,) = spark.sql(f"SELECT {listed}").collect()
    assert [plain(each) for each in row] == [value for _, _, value in QUERIES]
