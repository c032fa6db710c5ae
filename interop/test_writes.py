"""The JVM implementations read tables that lakescan writes, and write to them in turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyiceberg.catalog.sql import SqlCatalog

import lakescan

COLUMNS = (
    "id BIGINT NOT NULL, at TIMESTAMP, day DATE, part STRING, price DECIMAL(20, 2), x DOUBLE, "
    "s STRUCT<a: INT, b: ARRAY<STRING>>, m MAP<STRING, BIGINT>, bin BINARY"
)


def rows(first: int, count: int) -> pa.Table:
    """Return rows with nulls, NaN, long texts and old dates."""
    ids = list(range(first, first + count))
    return pa.table(
        {
            "id": ids,
            "at": pa.array([(i - 5) * 86_400_000_123 for i in ids], pa.timestamp("us", "UTC")),
            "day": pa.array([i * 40 - 100 for i in ids], pa.date32()),
            "part": [None if i % 5 == 0 else "a b/c%" if i % 2 else "ü" * 40 for i in ids],
            "price": pa.array([f"{i}.25" for i in ids]).cast(pa.decimal128(20, 2)),
            "x": [float("nan") if i % 4 == 0 else -0.0 if i % 4 == 1 else i / 3 for i in ids],
            "s": pa.array(
                [None if i % 3 == 0 else {"a": i, "b": [str(i), None]} for i in ids],
                pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
            ),
            "m": pa.array([[(str(i), i)] for i in ids], pa.map_(pa.string(), pa.int64())),
            "bin": [bytes([i % 256]) * 3 for i in ids],
        }
    )


def same(spark_rows: list[Any], expected: pa.Table) -> None:
    found = sorted((row.asDict(recursive=True) for row in spark_rows), key=lambda row: row["id"])
    wanted = expected.sort_by("id").to_pylist()
    assert [row["id"] for row in found] == [row["id"] for row in wanted]
    for mine, theirs in zip(wanted, found, strict=True):
        mine["m"] = dict(mine["m"])
        mine["at"], theirs["at"] = mine["at"].timestamp(), theirs["at"].timestamp()
        theirs["bin"] = bytes(theirs["bin"])
        assert str(mine) == str(theirs)


PARTITIONS = {
    "iceberg": [
        (),
        ("part",),
        ("days(at)", "bucket(4, id)"),
        ("truncate(3, part)", "months(day)"),
        ("day", "hours(at)"),
    ],
    "iceberg version 3": [(), ("part", "bucket(4, id)")],
    "delta": [(), ("part",), ("day", "part"), ("at",), ("price",)],
}


@pytest.fixture
def local(warehouse: Path) -> lakescan.Catalog:
    catalog = lakescan.catalog("local", warehouse=warehouse / "local")
    catalog.create_namespace("db", exist_ok=True)
    return catalog


def read_by_java(jvm: Any, table: lakescan.Table) -> Any:
    location = table.location if table.format == "delta" else _location(table)
    return jvm.read.format(table.format).load(location)


def _location(table: lakescan.Table) -> str:
    """Return the metadata file, which Java reads as a read-only table."""
    return table.scan().to_options()["path"]


@pytest.mark.parametrize(("format", "by"), [(f, p) for f, some in PARTITIONS.items() for p in some])
def test_java_reads_tables_of_lakescan(jvm, local, format: str, by: tuple[str, ...]) -> None:
    name = f"db.{format.replace(' ', '_')}_{PARTITIONS[format].index(by)}"
    format, _, version = format.partition(" version ")
    properties = {"format-version": version} if version else {}
    local.create_table(name, COLUMNS, format=format, partition_by=by, properties=properties)
    local.load_table(name).append(rows(0, 30))
    local.load_table(name).append(rows(30, 10))
    table = local.load_table(name)
    expected = pa.concat_tables([rows(0, 30), rows(30, 10)])
    java = read_by_java(jvm, table)
    same(java.collect(), expected)
    for condition in ("id = 7", "part is null", "part = 'a b/c%'", "price > 20", "at < timestamp'1970-01-03'", "x = 1"):
        theirs = sorted(row["id"] for row in java.where(condition).collect())
        assert theirs == sorted(table.scan().where(condition.replace("timestamp'", "'")).to_arrow()["id"].to_pylist())
    local.load_table(name).overwrite(rows(50, 2), where="id >= 50")
    local.load_table(name).overwrite(rows(0, 0), where="id between 3 and 8")
    local.load_table(name).overwrite(rows(60, 1), overwrite_mode="dynamic")
    left = local.load_table(name).scan().to_arrow()
    same(read_by_java(jvm, local.load_table(name)).collect(), left)


@pytest.mark.parametrize("version", ["2", "3"])
def test_java_reads_compressed_metadata_and_files_in_the_layout_of_object_stores(jvm, local, version: str) -> None:
    properties = {
        "format-version": version,
        "write.metadata.compression-codec": "gzip",
        "write.object-storage.enabled": "true",
        "write.metadata.previous-versions-max": "1",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    name = f"db.spread_{version}"
    local.create_table(name, "id BIGINT, part STRING", partition_by=["part"], properties=properties)
    for number in range(3):
        local.load_table(name).append(pa.table({"id": [number], "part": ["a b/c%"]}))
    table = local.load_table(name)
    assert _location(table).endswith(".gz.metadata.json")
    assert sorted(row["id"] for row in read_by_java(jvm, table).where("part = 'a b/c%'").collect()) == [0, 1, 2]


def test_delta_tables_are_written_in_turn(jvm, local) -> None:
    table = local.create_table("db.turns", "id BIGINT, part STRING", format="delta", partition_by=["part"])
    path = table.location
    for number in range(3):
        lakescan.table(path).append(pa.table({"id": [2 * number], "part": ["x y"]}))
        jvm.sql(f"INSERT INTO delta.`{path}` VALUES ({2 * number + 1}, 'x y')")
    jvm.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    lakescan.table(path).overwrite(pa.table({"id": [9], "part": ["x y"]}), where="id >= 5")
    assert sorted(row["id"] for row in jvm.read.format("delta").load(path).collect()) == [0, 2, 3, 4, 9]
    assert sorted(lakescan.table(path).scan().to_arrow()["id"].to_pylist()) == [0, 2, 3, 4, 9]


def test_java_reads_a_table_that_was_overwritten_with_its_vectors_and_columns(jvm, warehouse: Path) -> None:
    path = f"{warehouse}/overwritten_vectors"
    jvm.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, part STRING) USING delta TBLPROPERTIES "
        "('delta.enableDeletionVectors'='true', 'delta.enableChangeDataFeed'='true')"
    )
    jvm.sql(f"INSERT INTO delta.`{path}` SELECT id, 'a' FROM range(10)")
    jvm.sql(f"DELETE FROM delta.`{path}` WHERE id = 3")
    lakescan.table(path).overwrite(pa.table({"id": [1], "part": ["b"]}))
    assert [tuple(row) for row in jvm.read.format("delta").load(path).collect()] == [(1, "b")]
    changed = lakescan.table(path).scan().options(readChangeFeed=True, startingVersion=3, endingVersion=3).to_arrow()
    assert sorted(changed["_change_type"].to_pylist()) == ["delete"] * 9 + ["insert"]
    lakescan.table(path).overwrite(pa.table({"key": [2.5]}), overwriteSchema=True)
    java = jvm.read.format("delta").load(path)
    assert (java.columns, [tuple(row) for row in java.collect()]) == (["key"], [(2.5,)])
    jvm.sql(f"INSERT INTO delta.`{path}` VALUES (3.5)")
    assert sorted(lakescan.table(path).scan().to_arrow()["key"].to_pylist()) == [2.5, 3.5]


@pytest.mark.parametrize("mode", ["name"])
def test_mapped_columns_are_written_by_their_physical_names(jvm, warehouse: Path, mode: str) -> None:
    path = f"{warehouse}/mapped_writes"
    jvm.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, `a b` STRING, s STRUCT<x: INT>, p STRING) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ('delta.columnMapping.mode'='{mode}', 'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5')"
    )
    jvm.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'x', struct(1), 'p')")
    jvm.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO key")
    data = pa.table({"key": [2], "a b": ["y"], "s": [{"x": 2}], "p": ["q"]})
    lakescan.table(path).append(data)
    found = jvm.read.format("delta").load(path).orderBy("key").collect()
    assert [tuple(row) for row in found] == [(1, "x", (1,), "p"), (2, "y", (2,), "q")]
    assert jvm.read.format("delta").load(path).where("key = 2").count() == 1


def test_java_reads_mapped_columns_of_a_table_of_lakescan(jvm, local) -> None:
    properties = {"delta.columnMapping.mode": "name"}
    columns = "id BIGINT, `a b` STRING, s STRUCT<x: INT>, p STRING"
    local.create_table("db.mapped", columns, format="delta", partition_by=["p"], properties=properties)
    local.load_table("db.mapped").append(pa.table({"id": [1], "a b": ["x"], "s": [{"x": 1}], "p": ["q"]}))
    path = local.load_table("db.mapped").location
    jvm.sql(f"INSERT INTO delta.`{path}` VALUES (2, 'y', struct(2), 'r')")
    found = jvm.read.format("delta").load(path).orderBy("id").collect()
    assert [tuple(row) for row in found] == [(1, "x", (1,), "q"), (2, "y", (2,), "r")]
    assert sorted(local.load_table("db.mapped").scan().to_arrow()["a b"].to_pylist()) == ["x", "y"]


def test_rows_that_break_a_constraint_of_java_are_not_written(jvm, warehouse: Path) -> None:
    path = f"{warehouse}/constrained"
    jvm.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, s STRUCT<a: INT>, day DATE) USING delta")
    jvm.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK (id > 0 AND s.a IN (1, 2))")
    jvm.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT lately CHECK (day >= '2020-01-01' OR day IS NULL)")
    lakescan.table(path).append(pa.table({"id": [1], "s": [{"a": 2}]}))
    wrong = [{"id": -1, "s": {"a": 1}}, {"id": None, "s": {"a": 1}}, {"id": 1, "s": {"a": 3}}, {"id": 1, "s": None}]
    for row in wrong:
        with pytest.raises(lakescan.SchemaMismatch, match="1 rows violate the constraint 'positive' of the table"):
            lakescan.table(path).append(
                pa.Table.from_pylist([row], pa.schema([("id", pa.int64()), ("s", pa.struct([("a", pa.int32())]))]))
            )
    with pytest.raises(Py4JJavaError, match="CHECK constraint positive"):
        jvm.sql(f"INSERT INTO delta.`{path}` VALUES (NULL, struct(1), date'2021-01-01')")
    jvm.sql(f"INSERT INTO delta.`{path}` VALUES (2, struct(1), date'2021-01-01')")
    assert sorted(row["id"] for row in jvm.read.format("delta").load(path).collect()) == [1, 2]


def test_unsupported_writer_requirements_of_java_are_refused(jvm, warehouse: Path) -> None:
    path = f"{warehouse}/asks_constraint"
    jvm.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta")
    jvm.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT odd CHECK (xpath_int(concat('<a>', id, '</a>'), 'a') > 3)")
    with pytest.raises(lakescan.UnsupportedFeature, match="xpath_int"):
        lakescan.table(path).append(pa.table({"id": [-1]}))


def test_rows_added_in_turn_have_unique_ids(jvm, warehouse: Path) -> None:
    path = f"{warehouse}/tracked"
    jvm.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta")
    jvm.sql(f"INSERT INTO delta.`{path}` VALUES (0), (1)")
    jvm.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableRowTracking'='true')")
    lakescan.table(path).append(pa.table({"id": [2, 3]}))
    jvm.sql(f"INSERT INTO delta.`{path}` VALUES (4)")
    lakescan.table(path).append(pa.table({"id": [5]}))
    theirs = jvm.sql(f"SELECT id, _metadata.row_id AS row FROM delta.`{path}`").collect()
    ours = lakescan.table(path).scan().select("id", "_row_id").to_arrow().to_pylist()
    assert len({row["row"] for row in theirs}) == 6
    assert {row["id"]: row["row"] for row in theirs} == {row["id"]: row["_row_id"] for row in ours}


def test_iceberg_tables_are_written_in_turn(jvm, warehouse: Path) -> None:
    """Java makes the table and lakescan registers it; Java reads the metadata that lakescan commits."""
    catalog = SqlCatalog("turns", uri=f"sqlite:///{warehouse}/turns.db", warehouse=f"file://{warehouse}/turns")
    catalog.create_namespace("db")
    mine = lakescan.catalog(
        "turns", type="sql", uri=f"sqlite:///{warehouse}/turns.db", warehouse=f"file://{warehouse}/turns"
    )
    jvm.sql("CREATE TABLE ice.db.turns (id BIGINT, part STRING) USING iceberg PARTITIONED BY (part)")
    jvm.sql("INSERT INTO ice.db.turns VALUES (1, 'a'), (2, 'b')")
    mine.register_table("db.turns", f"{warehouse}/ice/db/turns")
    mine.load_table("db.turns").append(pa.table({"id": [3, 4], "part": ["a", "c"]}))
    mine.load_table("db.turns").overwrite(pa.table({"id": [5], "part": ["b"]}), where="part = 'b'")
    location = mine.load_table("db.turns").scan().to_options()["path"]
    found = jvm.read.format("iceberg").load(location)
    assert sorted(row["id"] for row in found.collect()) == [1, 3, 4, 5]
    assert sorted(row["part"] for row in found.where("id > 2").collect()) == ["a", "b", "c"]


def test_java_reads_a_compacted_table_and_its_stream_skips_the_compaction(jvm, local, tmp_path: Path) -> None:
    local.create_table("db.compacted", "id BIGINT, part STRING", partition_by=["part"])
    for number in range(4):
        local.load_table("db.compacted").append(pa.table({"id": [number], "part": ["p"]}))
    local.load_table("db.compacted").compact()
    location = _location(local.load_table("db.compacted"))
    assert sorted(row["id"] for row in jvm.read.format("iceberg").load(location).collect()) == [0, 1, 2, 3]
    snapshots = jvm.read.format("iceberg").load(f"{location}#snapshots").orderBy("committed_at").collect()
    assert [row["operation"] for row in snapshots] == ["append"] * 4 + ["replace"]
    files = jvm.read.format("iceberg").load(f"{location}#files").collect()
    assert [(row["record_count"], row["partition"]["part"]) for row in files] == [(4, "p")]
