"""Spark reads files without field ids by their own column names, with the same rows as the Arrow lane."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from samples.iceberg_table import write_table

import lakescan
import lakescan.spark
from lakescan.spark.native import lanes as native_lanes
from lakescan.spark.native.lanes import choose_lanes
from tests.support.rows import differences

pytestmark = [pytest.mark.spark, pytest.mark.replaced]

MAPPING = "schema.name-mapping.default"
TYPES: dict[str, pa.DataType] = {
    "long": pa.int64(),
    "int": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "decimal(9, 2)": pa.decimal128(9, 2),
}
NARROWER: dict[str, pa.DataType] = {"long": pa.int32(), "double": pa.float32(), "decimal(9, 2)": pa.decimal128(5, 2)}


def field(number: int, name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind, **more}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def named(field_id: int | None, *names: str, fields: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    node: dict[str, Any] = {"names": list(names)}
    if field_id is not None:
        node["field-id"] = field_id
    return node | ({"fields": fields} if fields else {})


def with_ids(table: pa.Table, *ids: int) -> pa.Table:
    fields = [f.with_metadata({"PARQUET:field_id": str(i)}) for f, i in zip(table.schema, ids, strict=True)]
    return table.cast(pa.schema(fields))


def mapped(folder: Path, fields: list[dict[str, Any]], mapping: list[dict[str, Any]] | None, *files: pa.Table) -> str:
    properties = {} if mapping is None else {MAPPING: json.dumps(mapping)}
    return write_table(folder / "t", fields, list(files), properties=properties)


def in_both_lanes(spark: SparkSession, scan: lakescan.Scan) -> pa.Table:
    """Return the rows read by Spark alone, planned eagerly and in a query; they equal the Arrow lane's."""
    expected = scan.options(lane="arrow").to_spark(spark).toArrow()
    assert differences(scan.options(lane="native").to_spark(spark).toArrow(), expected) == ""
    assert differences(scan.to_spark(spark).toArrow(), expected) == ""
    assert differences(scan.to_arrow(), expected) == ""
    return expected


def reasons(location: str, spark: SparkSession | None = None) -> tuple[int, list[str]]:
    """Return the number of files that Spark reads, and the reasons for the others."""
    spec = lakescan.table(location).scan().spec
    found = choose_lanes(spec, spec.plan(), spark, looks_up=False)
    return int(found.native.sum()), sorted(found.reasons)


def test_a_table_may_have_files_with_ids_and_files_with_other_names(spark: SparkSession, tmp_path: Path) -> None:
    """Names in the mapping, one of several; a name not in the mapping; another column under a former name."""
    fields = [field(1, "id", "long"), field(2, "s", "string"), field(3, "x", "double")]
    mapping = [named(1, "id", "key"), named(2, "s"), named(3, "x"), named(None, "nothing")]
    location = mapped(
        tmp_path,
        fields,
        mapping,
        with_ids(pa.table({"key": [1], "x": ["one"], "s": [1.5]}), 1, 2, 3),
        pa.table({"key": pa.array([2], pa.int32()), "s": ["two"], "x": pa.array([2.5], pa.float32())}),
        pa.table({"s": ["three"], "id": [3], "nothing": [5], "unknown": [7]}),
        pa.table({"key": [4], "S": ["four"]}),
    )
    scan = lakescan.table(location).scan()
    found = in_both_lanes(spark, scan).sort_by("id").to_pylist()
    assert found == [
        {"id": 1, "s": "one", "x": 1.5},
        {"id": 2, "s": "two", "x": 2.5},
        {"id": 3, "s": "three", "x": None},
        {"id": 4, "s": None, "x": None},
    ]
    for condition in ("id = 2", "x > 1", "s = 'three'", "s = 'four'", "x IS NULL", "id IS NULL OR s = 'one'"):
        in_both_lanes(spark, scan.where(condition))
        frame = scan.to_spark(spark).where(condition)
        assert differences(frame.toArrow(), scan.where(condition).to_arrow()) == ""
    assert "4 files in the native lane, 4 of them by the names of their columns" in lakescan.spark.explain(scan)


def test_the_first_of_two_columns_for_one_field_is_read(spark: SparkSession, tmp_path: Path) -> None:
    fields, mapping = [field(1, "id", "long"), field(2, "s", "string")], [named(1, "id", "key"), named(2, "s")]
    location = mapped(tmp_path, fields, mapping, pa.table({"key": [1], "s": ["a"], "id": [2]}))
    assert in_both_lanes(spark, lakescan.table(location).scan())["id"].to_pylist() == [1]


def test_columns_of_a_file_that_differ_only_in_case_are_left_to_the_arrow_lane(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark refuses them unless the session is case-sensitive."""
    fields, mapping = [field(1, "id", "long")], [named(1, "id")]
    location = mapped(tmp_path, fields, mapping, pa.table({"ID": [1], "id": [2]}))
    assert lakescan.table(location).scan().to_spark(spark).toArrow()["id"].to_pylist() == [2]
    assert reasons(location, spark) == (0, ["it has no field ids, and names of its columns differ only in case"])


def test_members_of_structs_have_the_names_that_the_mapping_gives_within_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """At any depth, also in lists and maps. Unmapped members are missing; a struct of only such members is not null."""
    inner = struct(field(3, "a", "long"), field(4, "b", "string"))
    array = {"type": "list", "element-id": 5, "element": inner_with(6, 7), "element-required": False}
    entries = {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": inner_with(10, 11)}
    fields = [
        field(2, "st", inner),
        field(12, "xs", array),
        field(13, "m", entries | {"value-required": False}),
        field(14, "n", "long"),
    ]
    members = [named(3, "a", "alpha"), named(4, "b")]
    mapping = [
        named(2, "st", "old_st", fields=members),
        named(12, "xs", fields=[named(5, "element", fields=[named(6, "a"), named(7, "bee")])]),
        named(13, "m", fields=[named(8, "key"), named(9, "value", fields=[named(10, "a"), named(11, "b")])]),
        named(14, "n"),
    ]
    one = {"a": 1, "b": "x"}
    kind = pa.struct({"a": pa.int64(), "b": pa.string()})
    files = [
        pa.table(
            {
                "n": [1, 2, 3],
                "old_st": [{"b": "p", "alpha": 1, "more": 5}, None, {"b": None, "alpha": None, "more": None}],
                "xs": pa.array([[{"bee": "q", "a": 2}, None], [], None]),
                "m": pa.array([[("k", one)], [], None], pa.map_(pa.string(), kind)),
            }
        ),
        pa.table({"st": [{"c": 5}, None], "n": [4, 5]}),
        pa.table({"n": [6], "st": pa.array([{"A": 6, "b": "sixth"}])}),
    ]
    scan = lakescan.table(mapped(tmp_path, fields, mapping, *files)).scan()
    found = {row["n"]: row for row in in_both_lanes(spark, scan).to_pylist()}
    assert [found[n]["st"] for n in range(1, 7)] == [
        {"a": 1, "b": "p"},
        None,
        {"a": None, "b": None},
        {"a": None, "b": None},
        None,
        {"a": None, "b": "sixth"},
    ]
    assert found[1]["xs"] == [{"a": 2, "b": "q"}, None]
    assert found[1]["m"] == [("k", one)]
    for condition in ("st.a = 1", "st.b IS NULL", "st IS NULL", "st.b = 'sixth'"):
        in_both_lanes(spark, scan.where(condition))
    assert scan.to_spark(spark).select("st.a").where("a = 1").count() == 1


def inner_with(first: int, second: int) -> dict[str, Any]:
    return struct(field(first, "a", "long"), field(second, "b", "string"))


def test_without_a_mapping_columns_are_numbered(spark: SparkSession, tmp_path: Path) -> None:
    fields = [field(1, "id", "long"), field(2, "s", "string"), field(3, "later", "long", **{"initial-default": 7})]
    location = mapped(
        tmp_path, fields, None, pa.table({"a": [1], "b": ["x"]}), with_ids(pa.table({"s": ["y"], "id": [2]}), 2, 1)
    )
    found = in_both_lanes(spark, lakescan.table(location).scan()).sort_by("id")
    assert found.to_pylist() == [{"id": 1, "s": "x", "later": 7}, {"id": 2, "s": "y", "later": 7}]
    assert reasons(location) == (2, [])


@pytest.mark.parametrize(
    ("kind", "stored", "lane"),
    [
        ("timestamptz", pa.array([1], pa.timestamp("ns", "UTC")), "timestamp"),
        ("timestamptz", pa.array([1], pa.timestamp("ms", "UTC")), None),
        ("timestamptz", pa.array([1], pa.timestamp("us")), "timestamp"),
        ("timestamp", pa.array([1], pa.timestamp("us", "UTC")), "timestamp"),
        ("timestamp", pa.array([1], pa.timestamp("ms")), None),
        ("long", pa.array([1], pa.uint32()), "uint32"),
        ("int", pa.array([1], pa.int8()), None),
        ("string", pa.array([b"text"], pa.binary()), None),
        ("string", pa.array(["text"]).dictionary_encode(), None),
        ("decimal(9, 2)", pa.array([Decimal("1.5")], pa.decimal128(3, 1)), "decimal"),
        ("decimal(20, 2)", pa.array([Decimal("1.50")], pa.decimal128(5, 2)), None),
        ("double", pa.array([1], pa.int32()), "int32"),
        ("date", pa.array([1], pa.date32()), None),
    ],
    ids=lambda value: str(getattr(value, "type", value)).replace(" ", ""),
)
def test_only_types_that_both_readers_read_alike_are_native(
    spark: SparkSession, tmp_path: Path, kind: str, stored: pa.Array, lane: str | None
) -> None:
    location = mapped(tmp_path, [field(1, "x", kind)], [named(1, "x")], pa.table({"x": stored}))
    scan = lakescan.table(location).scan()
    assert differences(scan.to_spark(spark).toArrow(), scan.to_arrow()) == ""
    native, why = reasons(location, spark)
    assert native == (lane is None)
    assert all(f"column 'x' is {kind.replace(', ', ',')[:7]}" in each and lane and lane in each for each in why), why


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp"])
@pytest.mark.parametrize("converts", ["true", "false"])
def test_timestamps_of_96_bits_are_converted_only_by_spark_settings(
    spark: SparkSession, tmp_path: Path, kind: str, converts: str
) -> None:
    """Written by Impala and Hive. A session may convert them, which Iceberg does not."""
    location = mapped(tmp_path, [field(1, "x", kind)], [named(1, "x")], pa.table({"x": [1, 2, 3]}))
    values = [dt.datetime(1700, 1, 1, 12, 0, 0, 1), dt.datetime(2024, 3, 31, 2, 30), None]
    [path] = (tmp_path / "t" / "data").iterdir()
    pq.write_table(pa.table({"x": pa.array(values, pa.timestamp("us"))}), path, use_deprecated_int96_timestamps=True)
    spark.conf.set("spark.sql.parquet.int96TimestampConversion", converts)
    try:
        scan = lakescan.table(location).scan()
        assert differences(scan.to_spark(spark).toArrow(), scan.to_arrow()) == ""
        assert reasons(location, spark)[0] == (kind == "timestamptz" and converts == "false")
    finally:
        spark.conf.unset("spark.sql.parquet.int96TimestampConversion")


def test_dates_that_spark_would_rebase_are_left_to_the_arrow_lane(spark: SparkSession, tmp_path: Path) -> None:
    """Dates of Spark 2, which Iceberg does not rebase. Spark reads the other columns of such a file."""
    fields, mapping = [field(1, "id", "long"), field(2, "d", "date")], [named(1, "id"), named(2, "d")]
    rows = pa.table({"id": [1], "d": pa.array([-700_000], pa.int32()).cast(pa.date32())})
    location = mapped(
        tmp_path, fields, mapping, rows.replace_schema_metadata({"org.apache.spark.version": "2.4.8"}), rows
    )
    scan = lakescan.table(location).scan()
    assert differences(scan.to_spark(spark).toArrow(), scan.to_arrow()) == ""
    assert reasons(location, spark)[0] == 1
    in_both_lanes(spark, scan.select("id"))


def test_lists_in_another_form_are_left_to_the_arrow_lane(spark: SparkSession, tmp_path: Path) -> None:
    """Two-level lists of old writers; an option of Spark writes them."""
    array = {"type": "list", "element-id": 1, "element": "int", "element-required": False}
    mapping = [named(3, "id"), named(2, "xs", fields=[named(1, "element")])]
    rows = pa.table({"id": [1], "xs": pa.array([[1, 2]], pa.list_(pa.int32()))})
    location = mapped(tmp_path, [field(2, "xs", array), field(3, "id", "long")], mapping, rows)
    [path] = (tmp_path / "t" / "data").iterdir()
    frame = spark.createDataFrame(rows).coalesce(1)
    frame.selectExpr("id", "transform(xs, x -> coalesce(x, 0)) AS xs").write.option(
        "spark.sql.parquet.writeLegacyFormat", "true"
    ).parquet(str(tmp_path / "old"))
    [old] = (tmp_path / "old").glob("*.parquet")
    path.write_bytes(old.read_bytes())
    scan = lakescan.table(location).scan()
    assert differences(scan.to_spark(spark).toArrow(), scan.to_arrow()) == ""
    in_both_lanes(spark, scan.select("id"))


def test_the_number_of_footers_that_are_read_is_limited(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`explain` shows the limit; the Arrow lane reads the remaining files."""
    monkeypatch.setattr(native_lanes, "_MOST_MAPPED", 2)
    files = [pa.table({"id": [n]}) for n in range(4)]
    location = mapped(tmp_path, [field(1, "id", "long")], [named(1, "id")], *files)
    why = "the table has a name mapping, and the footers of only 2 files are read"
    assert reasons(location) == (2, [why])
    assert f"2 files in the Arrow lane: {why}" in lakescan.spark.explain(lakescan.table(location).scan())
    assert lakescan.table(location).scan().to_spark(spark).count() == 4


def test_files_of_many_names_are_read_in_a_limited_number_of_groups(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native_lanes, "_MOST_LAYOUTS", 2)
    names = [f"n{n}" for n in range(4)]
    location = mapped(tmp_path, [field(1, "id", "long")], [named(1, *names)], *(pa.table({n: [1]}) for n in names))
    assert reasons(location) == (2, ["its column names differ from those of the first 2 groups of files"])
    assert lakescan.table(location).scan().to_spark(spark).count() == 4


def test_hive_partitions_and_deletes_of_added_files_are_native(spark: SparkSession, tmp_path: Path) -> None:
    """Partition values are only in the table's metadata; deletes refer to such files by position."""
    lake = lakescan.catalog("mappedhive", warehouse=str(tmp_path / "w"))
    lake.create_namespace("n")
    properties = {"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read"}
    table = lake.create_table("n.t", "id BIGINT, s STRING, p INT", partition_by=["p"], properties=properties)
    for p in (1, 2):
        folder = tmp_path / "foreign" / f"p={p}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": range(10), "s": [f"{p}{n}" for n in range(10)]}), folder / "a.parquet")
    lakescan.sql(
        f"CALL mappedhive.system.add_files(table => 'n.t', source_table => '`parquet`.`{tmp_path / 'foreign'}`')"
    )
    table.refresh()
    table.append(pa.table({"id": [100], "s": ["own"], "p": pa.array([1], pa.int32())}))
    lakescan.sql("ALTER TABLE mappedhive.n.t RENAME COLUMN s TO text")
    lakescan.sql("ALTER TABLE mappedhive.n.t ADD COLUMN added INT")
    lakescan.table("mappedhive.n.t").delete("id % 3 = 1 AND p = 1")
    scan = lakescan.table("mappedhive.n.t").scan()
    assert in_both_lanes(spark, scan).num_rows == 17
    for condition in ("p = 2 AND id > 5", "text = '14'", "text = 'own'", "added IS NULL AND p = 1"):
        in_both_lanes(spark, scan.where(condition))
    in_both_lanes(spark, scan.select("id", "_file", "_pos", "_spec_id"))


def test_structs_that_were_renamed_are_found_by_the_names_that_files_have(spark: SparkSession, tmp_path: Path) -> None:
    """Also renamed members, and columns that swapped names; filters are pushed into files."""
    lake = lakescan.catalog("renamedstructs", warehouse=str(tmp_path))
    lake.create_namespace("n")
    lake.create_table("n.t", "id BIGINT, s STRUCT<a: BIGINT, x: DOUBLE>, o STRUCT<a: BIGINT>, xs ARRAY<STRUCT<a: INT>>")
    name = "renamedstructs.n.t"

    def append(first: int, struct: str, other: str, member: str) -> None:
        table = lakescan.table(name)
        kinds = {field.name: field.type for field in table.scan().schema}
        rows = {
            "id": range(first, first + 3),
            struct: [{member: first, "x": float("nan")}, None, {member: None, "x": 2.0}],
            other: [{"a": -first}, {"a": None}, None],
            "xs": [[{"a": first}], [], None],
        }
        table.append(pa.table({n: pa.array(values, kinds[n]) for n, values in rows.items()}))

    append(10, "s", "o", "a")
    for statement in ("s TO other", "o TO s", "other TO o", "o.a TO b"):
        lakescan.sql(f"ALTER TABLE {name} RENAME COLUMN {statement}")
    append(20, "o", "s", "b")
    scan = lakescan.table(name).scan()
    found = {row["id"]: row for row in in_both_lanes(spark, scan).to_pylist()}
    assert found[10]["o"]["b"] == 10
    assert found[10]["s"] == {"a": -10}
    for condition in ("o.b = 10", "o.x > 5", "s.a = -20", "o IS NULL", "s.a IS NULL"):
        in_both_lanes(spark, scan.where(condition))
        assert differences(scan.to_spark(spark).where(condition).toArrow(), scan.where(condition).to_arrow()) == ""
    assert "2 of them by the names of their columns" in lakescan.spark.explain(scan)


def _values(some: random.Random, kind: pa.DataType, count: int) -> list[Any]:
    def one(kind: pa.DataType) -> Any:
        if some.random() < 0.2:
            return None
        if pa.types.is_struct(kind):
            return {each.name: one(each.type) for each in kind}
        if pa.types.is_list(kind):
            return [one(kind.value_type) for _ in range(some.randint(0, 2))]
        if pa.types.is_boolean(kind):
            return some.random() < 0.5
        if pa.types.is_integer(kind):
            return some.randint(0, 5)
        if pa.types.is_floating(kind):
            return some.choice([0.0, 1.5, float("nan"), 3.0])
        if pa.types.is_string(kind):
            return some.choice(["", "a", "b", "ab"])
        if pa.types.is_date(kind):
            return dt.date(2024, 1, some.randint(1, 28))
        if pa.types.is_timestamp(kind):
            return dt.datetime(2024, 1, some.randint(1, 28), 12)
        return Decimal(some.randint(0, 300)) / 100

    return [one(kind) for _ in range(count)]


def _random_table(some: random.Random, folder: Path) -> tuple[str, list[str]]:
    """Make a table of random columns and mapping, with and without ids in files; return it with conditions."""
    letters = ["a", "b", "c", "d", "e"][: some.randint(2, 5)]
    fields: list[dict[str, Any]] = []
    mapping: list[dict[str, Any]] = []
    kinds: dict[str, pa.DataType] = {}
    conditions: list[str] = []
    number = 0
    pool = [*letters, "A", "B", "x", "y", "zz"]
    for letter in letters:
        shape = some.random()
        simple = some.choice([*TYPES])
        nodes = None
        if shape < 0.6:
            kind: Any = simple
            kinds[letter] = TYPES[simple]
            conditions += [f"{letter} IS NULL", f"{letter} = {_literal(simple)}", f"{letter} > {_literal(simple)}"]
        else:
            first, second = number + 1, number + 2
            number += 2
            kind = struct(field(first, "m", simple), field(second, "n", "long"))
            inner = pa.struct({"m": TYPES[simple], "n": pa.int64()})
            nodes = [named(first, *some.sample(["m", "M", "o"], some.randint(0, 2))), named(second, "n")]
            kinds[letter] = inner
            if shape < 0.8:
                conditions += [f"{letter}.m IS NULL", f"{letter}.n = 3", f"{letter} IS NULL"]
            else:
                number += 1
                kind = {"type": "list", "element-id": number, "element": kind, "element-required": False}
                nodes = [named(number, "element", fields=nodes)]
                kinds[letter] = pa.list_(inner)
        number += 1
        fields.append(field(number, letter, kind))
        if some.random() < 0.9:
            names = {letter} if some.random() < 0.7 else set()
            names |= {some.choice(pool)} if some.random() < 0.5 else set()
            taken = {each for node in mapping for each in node["names"]}
            mapping.append(named(number, *sorted(names - taken), fields=nodes))
    files = []
    for _ in range(some.randint(1, 4)):
        has_ids, columns, arrow = some.random() < 0.4, {}, []
        for each in some.sample(fields, some.randint(1, len(fields))):
            letter = each["name"]
            kind = kinds[letter]
            if isinstance(each["type"], str) and some.random() < 0.3:
                kind = NARROWER.get(each["type"], kind)
            node = next((node for node in mapping if node.get("field-id") == each["id"]), None)
            given = node["names"] if node and node["names"] else [letter]
            name = some.choice([letter, *given, some.choice(pool)])
            is_of_another = any(name in node["names"] and node.get("field-id") != each["id"] for node in mapping)
            if name in columns or (not has_ids and is_of_another):
                continue
            columns[name] = pa.array(_values(some, kind, 4), kind)
            arrow.append(_with_ids(pa.field(name, kind), each) if has_ids else pa.field(name, kind))
        if not has_ids and some.random() < 0.5 and "more" not in columns:
            name = some.choice([each for each in [*pool, "more"] if each not in columns])
            columns[name] = pa.array(_values(some, pa.int64(), 4), pa.int64())
            arrow.append(pa.field(name, pa.int64()))
        files.append(pa.table(list(columns.values()), schema=pa.schema(arrow)))
    return mapped(folder, fields, mapping, *files), conditions


def _with_ids(arrow: pa.Field, each: dict[str, Any]) -> pa.Field:
    """Return the field with the ids of the table's field, at all depths."""
    own = {"PARQUET:field_id": str(each["id"])}
    kind, wanted = arrow.type, each["type"]
    if pa.types.is_list(kind):
        element = {"id": wanted["element-id"], "type": wanted["element"]}
        return pa.field(arrow.name, pa.list_(_with_ids(pa.field("element", kind.value_type), element)), metadata=own)
    if pa.types.is_struct(kind):
        members = [_with_ids(member, inner) for member, inner in zip(kind, wanted["fields"], strict=True)]
        return pa.field(arrow.name, pa.struct(members), metadata=own)
    return arrow.with_metadata(own)


def _literal(kind: str) -> str:
    return {
        "string": "'a'",
        "boolean": "true",
        "date": "DATE '2024-01-10'",
        "timestamp": "TIMESTAMP_NTZ '2024-01-10 12:00:00'",
        "timestamptz": "TIMESTAMP '2024-01-10 12:00:00'",
    }.get(kind, "2")


def _rows(frame: Any) -> pa.Table | str:
    try:
        return frame.toArrow()
    except Exception as error:
        return str(error)


def check_random_mappings(spark: SparkSession, folder: Path, seed: int, count: int) -> int:
    """Compare random tables in both lanes; return how many files without field ids Spark read."""
    some, found = random.Random(seed), 0
    for number in range(count):
        location, conditions = _random_table(some, folder / str(number))
        scan = lakescan.table(location).scan()
        where = some.sample(conditions, min(len(conditions), 1))
        for each in [None, *where]:
            scanned = scan if each is None else scan.where(each)
            text = f"seed {seed}, table {number}, {each}"
            expected = _rows(scanned.options(lane="arrow").to_spark(spark))
            frames: list[Any] = [scanned.to_spark(spark)] + ([] if each is None else [scan.to_spark(spark).where(each)])
            for frame in frames:
                found_rows = _rows(frame)
                refused = [each for each in (expected, found_rows) if isinstance(each, str)]
                assert all("in the table and" in each for each in refused), text  # a file that does not fit the table
                assert refused or differences(found_rows, expected) == "", text
        spec = scan.spec
        found += choose_lanes(spec, spec.plan(), spark, looks_up=False).files_by_name
    return found


@pytest.mark.parametrize(
    ("seed", "setting"),
    [(0, ""), (1, ""), (0, "spark.sql.caseSensitive"), (1, "spark.sql.parquet.enableVectorizedReader")],
)
def test_random_mappings_have_the_rows_of_the_arrow_lane(
    spark: SparkSession, tmp_path: Path, seed: int, setting: str
) -> None:
    if setting:
        spark.conf.set(setting, "true" if setting.endswith("Sensitive") else "false")
    try:
        assert check_random_mappings(spark, tmp_path, seed, 5) > 0
    finally:
        if setting:
            spark.conf.unset(setting)
