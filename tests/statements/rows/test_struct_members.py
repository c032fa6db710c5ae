"""Structs whose members differ from the column's: how each write treats missing and new members."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import SchemaMismatch

I32 = pa.int32()
Run = Callable[..., Any]
SHAPES: dict[str, tuple[str, Callable[[Any], Any]]] = {  # a column's SQL around a struct, and its value
    "s": ("{}", lambda value: value),
    "l": ("ARRAY<{}>", lambda value: [value]),
    "m": ("MAP<STRING, {}>", lambda value: [("k", value)]),
    "n": ("STRUCT<x: {}, y: INT>", lambda value: {"x": value, "y": 7}),
}


def arrow_type(shape: str, inner: pa.DataType) -> pa.DataType:
    kinds = {
        "s": inner,
        "l": pa.list_(inner),
        "m": pa.map_(pa.string(), inner),
        "n": pa.struct([("x", inner), ("y", I32)]),
    }
    return kinds[shape]


def source(shape: str, value: dict[str, int], *ids: int) -> pa.Table:
    """Return rows with `id` and a column `v` whose structs have the members of `value`."""
    kind = arrow_type(shape, pa.struct([(name, I32) for name in value]))
    return pa.table({"id": pa.array(ids, I32), "v": pa.array([SHAPES[shape][1](value)] * len(ids), kind)})


@pytest.fixture(params=["iceberg", "delta"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], lakescan.Table]:
    lake = lakescan.catalog("members", warehouse=str(tmp_path / "lake"))
    lake.create_namespace("db")

    def made(shape: str) -> lakescan.Table:
        column = SHAPES[shape][0].format("STRUCT<a: INT, b: INT>")
        lakescan.sql(f"CREATE TABLE members.db.t (id INT, v {column}) USING {request.param}")
        table = lakescan.table("members.db.t")
        table.append(source(shape, {"a": 1, "b": 2}, 1))
        return lakescan.table("members.db.t")

    return made


def stored(shape: str, *values: Any) -> list[Any]:
    return [SHAPES[shape][1](each) for each in values]


def values() -> list[Any]:
    return lakescan.table("members.db.t").to_arrow().sort_by("id")["v"].to_pylist()


ALL = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
MERGE = "MERGE {evolution} INTO members.db.t t USING frame s ON t.id = s.id {clauses}"
STATEMENTS: dict[str, str] = {
    "MERGE UPDATE SET *": MERGE.format(evolution="", clauses="WHEN MATCHED THEN UPDATE SET *"),
    "MERGE UPDATE SET v": MERGE.format(evolution="", clauses="WHEN MATCHED THEN UPDATE SET v = s.v"),
    "MERGE INSERT *": MERGE.format(evolution="", clauses="WHEN NOT MATCHED THEN INSERT *"),
    "MERGE INSERT (v)": MERGE.format(evolution="", clauses="WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"),
    "MERGE BY SOURCE": MERGE.format(
        evolution="", clauses="WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = (SELECT any_value(v) FROM frame)"
    ),
    "UPDATE": "UPDATE members.db.t SET v = (SELECT any_value(v) FROM frame)",
    "INSERT": "INSERT INTO members.db.t SELECT id, v FROM frame",
    "INSERT BY NAME": "INSERT INTO members.db.t BY NAME SELECT v, id FROM frame",
    "INSERT OVERWRITE": "INSERT OVERWRITE members.db.t SELECT id, v FROM frame",
}
OTHER = {
    "missing last": {"a": 10},
    "missing first": {"b": 20},
    "new": {"a": 10, "b": 20, "c": 30},
    "both": {"a": 1, "c": 3},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("statement", [name for name in STATEMENTS if name not in ("MERGE BY SOURCE", "UPDATE")])
def test_statements_refuse_structs_with_other_members(made: Any, shape: str, statement: str) -> None:
    made(shape)
    for value in OTHER.values():
        with pytest.raises(SchemaMismatch, match="has the members a, b"):
            lakescan.sql(STATEMENTS[statement], frame=source(shape, value, 1, 2))
    assert values() == stored(shape, {"a": 1, "b": 2})


def test_an_update_refuses_a_struct_that_lacks_a_member(made: Any) -> None:
    made("s")
    for text in ("named_struct('a', 9)", "named_struct('b', 9)", "named_struct('a', 1, 'b', 2, 'c', 3)"):
        with pytest.raises(SchemaMismatch, match="has the members a, b"):
            lakescan.sql(f"UPDATE members.db.t SET v = {text}")
    lakescan.sql("UPDATE members.db.t SET v = named_struct('B', 9, 'A', 8)")
    assert values() == [{"a": 8, "b": 9}]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_upsert_refuses_structs_with_other_members(made: Any, shape: str) -> None:
    table = made(shape)
    for value in OTHER.values():
        with pytest.raises(SchemaMismatch, match="has the members a, b"):
            table.upsert(source(shape, value, 1), ["id"])
    assert values() == stored(shape, {"a": 1, "b": 2})


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("value", [{"B": 20, "A": 10}, {"b": 20, "a": 10}, {"A": 10, "B": 20}], ids=str)
def test_case_and_order_of_members_do_not_matter_by_name(made: Any, shape: str, value: dict[str, int]) -> None:
    made(shape)
    lakescan.sql(STATEMENTS["MERGE UPDATE SET v"], frame=source(shape, value, 1))
    lakescan.sql(STATEMENTS["INSERT BY NAME"], frame=source(shape, value, 2))
    lakescan.table("members.db.t").append(source(shape, value, 3))
    assert values() == stored(shape, *[{"a": 10, "b": 20}] * 3)


@pytest.mark.parametrize("shape", SHAPES)
def test_appended_structs_may_lack_members(made: Any, shape: str) -> None:
    made(shape).append(source(shape, {"b": 20}, 2))
    assert values() == stored(shape, {"a": 1, "b": 2}, {"a": None, "b": 20})
    with pytest.raises(SchemaMismatch, match="added with merge-schema=true"):
        lakescan.table("members.db.t").append(source(shape, {"a": 1, "c": 3}, 3))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", ["append", "overwrite", "INSERT", "MERGE", "upsert"])
def test_new_members_are_added_with_their_rows(made: Any, shape: str, way: str) -> None:
    table, rows = made(shape), source(shape, {"a": 10, "b": 20, "c": 30}, 2)
    match way:
        case "append":
            table.append(rows, merge_schema=True)
        case "overwrite":
            table.overwrite(rows, where="id = 2", merge_schema=True)
        case "INSERT":
            lakescan.sql("INSERT WITH SCHEMA EVOLUTION INTO members.db.t BY NAME SELECT * FROM frame", frame=rows)
        case "MERGE":
            lakescan.sql(MERGE.format(evolution="WITH SCHEMA EVOLUTION", clauses=ALL), frame=rows)
        case "upsert":
            table.upsert(rows, ["id"], merge_schema=True)
    assert values() == stored(shape, {"a": 1, "b": 2, "c": None}, {"a": 10, "b": 20, "c": 30})
    lakescan.table("members.db.t").compact(rewrite_all=True)
    assert values() == stored(shape, {"a": 1, "b": 2, "c": None}, {"a": 10, "b": 20, "c": 30})


@pytest.mark.parametrize("shape", ["s", "n"])
def test_an_evolving_update_of_all_columns_keeps_members_that_the_source_lacks(made: Any, shape: str) -> None:
    is_delta = made(shape).format == "delta"
    text = MERGE.format(evolution="WITH SCHEMA EVOLUTION", clauses=ALL)
    if not is_delta:
        with pytest.raises(SchemaMismatch, match="lacks the member 'b'"):
            lakescan.sql(text, frame=source(shape, {"c": 30, "a": 10}, 1, 2))
        assert values() == stored(shape, {"a": 1, "b": 2})
        return
    lakescan.sql(text, frame=source(shape, {"c": 30, "a": 10}, 1, 2))
    assert values() == stored(shape, {"a": 10, "b": 2, "c": 30}, {"a": 10, "b": None, "c": 30})


def test_an_evolving_update_of_one_column_sets_members_that_the_source_lacks_to_null(made: Any) -> None:
    if made("s").format == "iceberg":
        return  # refused, as above
    clauses = "WHEN MATCHED THEN UPDATE SET v = s.v"
    lakescan.sql(MERGE.format(evolution="WITH SCHEMA EVOLUTION", clauses=clauses), frame=source("s", {"a": 10}, 1))
    assert values() == [{"a": 10, "b": None}]


def test_a_null_struct_of_an_evolving_source_stays_null(made: Any) -> None:
    made("s")
    frame = pa.table({"id": pa.array([1], I32), "v": pa.array([None], pa.struct([("b", I32), ("a", I32)]))})
    lakescan.sql(MERGE.format(evolution="WITH SCHEMA EVOLUTION", clauses=ALL), frame=frame)
    assert values() == [None]


WIDER = {
    "INT": (pa.int64(), 5_000_000_000, "bigint"),
    "FLOAT": (pa.float64(), 0.1, "double"),
    "DECIMAL(5, 2)": (pa.decimal128(9, 2), None, "decimal(9,2)"),
    "STRUCT<x: INT>": (pa.struct([("x", pa.int64())]), {"x": 5_000_000_000}, "struct<x:bigint>"),
    "ARRAY<INT>": (pa.list_(pa.int64()), [5_000_000_000], "array<bigint>"),
}


@pytest.mark.parametrize("way", ["append", "MERGE"])
@pytest.mark.parametrize("kind", WIDER)
@pytest.mark.parametrize("format_name", ["iceberg", "delta"])
def test_wider_types_are_added_with_their_rows(tmp_path: Path, format_name: str, kind: str, way: str) -> None:
    lakescan.catalog("members", warehouse=str(tmp_path / "lake")).create_namespace("db")
    more = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')" if format_name == "delta" else ""
    lakescan.sql(f"CREATE TABLE members.db.t (id INT, v {kind}) USING {format_name} {more}")
    lakescan.sql("INSERT INTO members.db.t VALUES (1, NULL)")
    arrow, value, shown = WIDER[kind]
    rows = pa.table({"id": pa.array([2], I32), "v": pa.array([value], arrow)})
    if way == "append":
        lakescan.table("members.db.t").append(rows, merge_schema=True)
    else:
        lakescan.sql(MERGE.format(evolution="WITH SCHEMA EVOLUTION", clauses=ALL), frame=rows)
    assert lakescan.sql("DESCRIBE members.db.t").to_arrow()["data_type"].to_pylist() == ["int", shown]
    assert values() == [None, value]


def test_delta_types_are_not_widened_without_the_property(tmp_path: Path) -> None:
    lakescan.catalog("members", warehouse=str(tmp_path / "lake")).create_namespace("db")
    lakescan.sql("CREATE TABLE members.db.t (id INT, v INT) USING delta")
    table = lakescan.table("members.db.t")
    table.append(pa.table({"id": [1], "v": [5]}), merge_schema=True)
    assert table.refresh().schema.types == [I32, I32]
    with pytest.raises(SchemaMismatch, match="does not fit"):
        table.append(pa.table({"id": [1], "v": [5_000_000_000]}), merge_schema=True)


def test_a_write_that_fails_changes_no_column(made: Any) -> None:
    table = made("s")
    before = table.schema
    rows = source("s", {"a": 1, "c": 3}, 2).append_column("id2", pa.array([None], pa.null()))
    with pytest.raises(SchemaMismatch):
        table.append(rows, merge_schema=True)
    assert lakescan.table("members.db.t").schema == before
