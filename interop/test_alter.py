"""ALTER TABLE in lakescan and in the JVM: the same statement makes the same metadata, and each can continue."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan import AlterBuilder
from lakescan.options.write import WriteOptions

COLUMNS = (
    "id BIGINT NOT NULL, part STRING, at TIMESTAMP, n INT, f FLOAT, d DECIMAL(9, 2), day DATE, "
    "address STRUCT<city: STRING, zip: INT>, lines ARRAY<STRUCT<sku: STRING, pieces: INT>>, tags MAP<STRING, INT>"
)
MAPPING = "schema.name-mapping.default"
METRICS = "write.metadata.metrics.column."
Step = tuple[str, Callable[[AlterBuilder], AlterBuilder]]
STEPS: list[Step] = [
    (
        "ADD COLUMNS (note STRING COMMENT 'why' AFTER id, s STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>, w: INT>)",
        lambda a: a.add_column("note", "STRING", comment="why", after="id").add_column(
            "s", "STRUCT<x: INT, y: ARRAY<STRUCT<z: INT>>, w: INT>"
        ),
    ),
    ("ADD COLUMN address.street STRING FIRST", lambda a: a.add_column("address.street", "STRING", first=True)),
    (
        "ADD COLUMN lines.element.price DECIMAL(9, 2) AFTER sku",
        lambda a: a.add_column("lines.element.price", "DECIMAL(9, 2)", after="sku"),
    ),
    ("ADD COLUMN s.y.element.v MAP<INT, STRING>", lambda a: a.add_column("s.y.element.v", "MAP<INT, STRING>")),
    ("RENAME COLUMN n TO m", lambda a: a.rename_column("n", "m")),
    ("RENAME COLUMN address.city TO town", lambda a: a.rename_column("address.city", "town")),
    ("ALTER COLUMN m TYPE BIGINT", lambda a: a.change_column("m", type="BIGINT")),
    ("ALTER COLUMN d TYPE DECIMAL(12, 2)", lambda a: a.change_column("d", type="DECIMAL(12, 2)")),
    ("ALTER COLUMN tags.value TYPE BIGINT", lambda a: a.change_column("tags.value", type="BIGINT")),
    ("ALTER COLUMN m COMMENT 'pieces'", lambda a: a.change_column("m", comment="pieces")),
    ("ALTER COLUMN m FIRST", lambda a: a.change_column("m", first=True)),
    ("ALTER COLUMN address.zip AFTER street", lambda a: a.change_column("address.zip", after="street")),
    ("SET IDENTIFIER FIELDS id", lambda a: a.set_key("id")),
    ("DROP IDENTIFIER FIELDS id", lambda a: a.drop_key("id")),
    ("ALTER COLUMN id DROP NOT NULL", lambda a: a.change_column("id", required=False)),
    ("DROP COLUMNS (note, address.zip)", lambda a: a.drop_column("note").drop_column("address.zip")),
    ("ADD COLUMN note INT", lambda a: a.add_column("note", "INT")),
    ("ADD PARTITION FIELD days(at)", lambda a: a.add_partition_field("days(at)")),
    ("ADD PARTITION FIELD bucket(16, id)", lambda a: a.add_partition_field("bucket(16, id)")),
    ("ADD PARTITION FIELD truncate(4, part)", lambda a: a.add_partition_field("truncate(4, part)")),
    ("ADD PARTITION FIELD address.town", lambda a: a.add_partition_field("address.town")),
    ("ADD PARTITION FIELD years(day) AS y", lambda a: a.add_partition_field("years(day)", "y")),
    ("DROP PARTITION FIELD y", lambda a: a.drop_partition_field("y")),
    ("DROP PARTITION FIELD days(at)", lambda a: a.drop_partition_field("days(at)")),
    (
        "REPLACE PARTITION FIELD bucket(16, id) WITH bucket(8, id)",
        lambda a: a.replace_partition_field("bucket(16, id)", "bucket(8, id)"),
    ),
    ("ADD PARTITION FIELD days(at)", lambda a: a.add_partition_field("days(at)")),
    (
        "WRITE ORDERED BY id DESC, bucket(4, part) NULLS LAST",
        lambda a: a.set_sort_order("id DESC", "bucket(4, part) NULLS LAST", distribution="range"),
    ),
    ("WRITE UNORDERED", lambda a: a.set_sort_order(distribution="none")),
    ("WRITE LOCALLY ORDERED BY part", lambda a: a.set_sort_order("part", distribution="none")),
    (
        "WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id DESC, bucket(4, part) NULLS LAST",
        lambda a: a.set_sort_order("id DESC", "bucket(4, part) NULLS LAST", distribution="hash"),
    ),
    (
        f"SET TBLPROPERTIES ('owner-of' = 'sales', '{METRICS}f' = 'counts', '{METRICS}d' = 'none')",
        lambda a: a.set_properties({"owner-of": "sales", f"{METRICS}f": "counts", f"{METRICS}d": "none"}),
    ),
    ("RENAME COLUMN f TO g", lambda a: a.rename_column("f", "g")),
    ("DROP COLUMN d", lambda a: a.drop_column("d")),
    ("UNSET TBLPROPERTIES ('owner-of')", lambda a: a.unset_properties("owner-of")),
    ("SET TBLPROPERTIES ('format-version' = '2')", lambda a: a.set_properties({"format-version": "2"})),
    ("SET TBLPROPERTIES ('format-version' = '3')", lambda a: a.set_properties({"format-version": "3"})),
    ("DROP PARTITION FIELD days(at)", lambda a: a.drop_partition_field("days(at)")),
    ("RENAME COLUMN s.y.element.z TO zz", lambda a: a.rename_column("s.y.element.z", "zz")),
]


def metadata(name: str) -> dict[str, Any]:
    target: Any = lakescan.table(name)._target(WriteOptions())
    found: dict[str, Any] = json.loads(Path(target.opened.metadata.source.removeprefix("file:")).read_text())
    return found


def described(name: str) -> dict[str, Any]:
    """Return the metadata that ALTER TABLE changes, with sets in a fixed order."""
    found = metadata(name)
    mapping = found["properties"].pop(MAPPING, None)
    schemas = [
        {**each, "identifier-field-ids": sorted(each.get("identifier-field-ids", []))} for each in found["schemas"]
    ]
    return {
        "schemas": schemas,
        **{name: found[name] for name in ("partition-specs", "sort-orders", "format-version", "last-column-id")},
        **{name: found[name] for name in ("last-partition-id", "current-schema-id", "default-spec-id")},
        "default-sort-order-id": found["default-sort-order-id"],
        "properties": found["properties"],
        "mapping": None if mapping is None else _mapping(json.loads(mapping)),
    }


def _mapping(nodes: list[dict[str, Any]]) -> list[Any]:
    return [(each["field-id"], sorted(each["names"]), _mapping(each.get("fields", []))) for each in nodes]


def _start(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a name mapping of the fields of a schema's JSON."""
    found = []
    for each in nodes:
        kind = each["type"]
        found.append({"field-id": each["id"], "names": [each["name"]], **_inner(kind)})
    return found


def _inner(kind: Any) -> dict[str, Any]:
    if not isinstance(kind, dict):
        return {}
    if kind["type"] == "struct":
        return {"fields": _start(kind["fields"])}
    parts = ("element",) if kind["type"] == "list" else ("key", "value")
    return {"fields": [{"field-id": kind[f"{p}-id"], "names": [p], **_inner(kind[p])} for p in parts]}


@pytest.mark.parametrize("version", [1, 2])
def test_the_same_statement_makes_the_same_metadata_as_in_the_jvm(
    rest: lakescan.Catalog, jvm: Any, version: int
) -> None:
    for name in ("ours", "theirs"):
        jvm.sql(
            f"CREATE TABLE rest.db.{name}{version} ({COLUMNS}) USING iceberg TBLPROPERTIES ('format-version'='{version}')"
        )
        jvm.sql(f"INSERT INTO rest.db.{name}{version} (id, part) VALUES (1, 'a'), (2, 'b')")
        mapping = json.dumps(_start(metadata(f"rest.db.{name}{version}")["schemas"][0]["fields"]))
        jvm.sql(f"ALTER TABLE rest.db.{name}{version} SET TBLPROPERTIES ('{MAPPING}' = '{mapping}')")
    ours, theirs = f"rest.db.ours{version}", f"rest.db.theirs{version}"
    assert described(ours) == described(theirs)
    for number, (words, change) in enumerate(STEPS):
        jvm.sql(f"ALTER TABLE {theirs} {words}")
        change(lakescan.table(ours).alter()).commit()
        assert described(ours) == described(theirs), words
        if number % 6 == 0:  # data files of many specs and schemas
            lakescan.table(ours).append(pa.table({"id": [number], "part": ["c"]}))
            jvm.sql(f"INSERT INTO {theirs} (id, part) VALUES ({number}, 'c')")
    found = sorted(tuple(row) for row in jvm.sql(f"SELECT id, part FROM {ours}").collect())
    here = lakescan.table(ours).scan().select("id", "part").to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in here) == found
    assert found == sorted([(1, "a"), (2, "b"), *((number, "c") for number in range(0, len(STEPS), 6))])


@pytest.mark.parametrize("version", [1, 2])
def test_the_jvm_continues_a_table_altered_and_upgraded_by_lakescan(
    rest: lakescan.Catalog, jvm: Any, tmp_path: Path, version: int
) -> None:
    """The table is in an embedded catalog, which writes the metadata in process."""
    local = lakescan.catalog("embedded", warehouse=tmp_path)
    local.create_namespace("db")
    local.create_table("db.t", COLUMNS, partition_by=["part"], properties={"format-version": str(version)})
    rows = pa.table({"id": [1, 2], "part": ["a", "b"], "n": pa.array([1, 2], pa.int32())})
    lakescan.table("embedded.db.t").append(rows)
    alter = lakescan.table("embedded.db.t").alter().rename_column("n", "m").change_column("m", type="BIGINT")
    alter = alter.replace_partition_field("part", "bucket(4, part)").set_sort_order("id desc")
    alter.drop_column("day").add_column("address.street", "STRING").set_properties({"format-version": 3}).commit()
    lakescan.table("embedded.db.t").alter().add_column("status", "STRING", default="open", required=True).commit()
    lakescan.table("embedded.db.t").append(pa.table({"id": [3], "part": ["c"], "m": [3], "status": ["new"]}))
    target: Any = lakescan.table("embedded.db.t")._target(WriteOptions())
    source = target.opened.metadata.source
    name = f"rest.db.continued{version}"
    jvm.sql(f"CALL rest.system.register_table(table => 'db.continued{version}', metadata_file => '{source}')")
    query = f"SELECT id, part, m, status FROM {name} ORDER BY id"
    expected = [(1, "a", 1, "open"), (2, "b", 2, "open"), (3, "c", 3, "new")]
    assert [tuple(row) for row in jvm.sql(query).collect()] == expected
    jvm.sql(f"ALTER TABLE {name} RENAME COLUMN m TO n")
    jvm.sql(f"ALTER TABLE {name} DROP PARTITION FIELD part_bucket_4")
    jvm.sql(f"ALTER TABLE {name} ADD COLUMN more INT FIRST")
    jvm.sql(f"INSERT INTO {name} (id, part, n, status) VALUES (4, 'd', 4, 'late')")
    lakescan.table(name).alter().drop_column("more").rename_column("n", "m").add_partition_field("part").commit()
    jvm.sql(f"DELETE FROM {name} WHERE id = 2")
    expected = [*expected[:1], *expected[2:], (4, "d", 4, "late")]
    assert [tuple(row) for row in jvm.sql(query).collect()] == expected
    found = lakescan.table(name).scan().select("id", "part", "m", "status").to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == expected


def test_changes_refused_by_the_jvm_are_refused_by_lakescan(rest: lakescan.Catalog, jvm: Any) -> None:
    name = "rest.db.refusing"
    jvm.sql(f"CREATE TABLE {name} ({COLUMNS}) USING iceberg PARTITIONED BY (days(at))")
    jvm.sql(f"ALTER TABLE {name} WRITE ORDERED BY part")
    jvm.sql(f"ALTER TABLE {name} SET IDENTIFIER FIELDS id")
    refused: list[Step] = [
        ("DROP COLUMN at", lambda a: a.drop_column("at")),
        ("DROP COLUMN part", lambda a: a.drop_column("part")),
        ("DROP COLUMN id", lambda a: a.drop_column("id")),
        ("ALTER COLUMN id DROP NOT NULL", lambda a: a.change_column("id", required=False)),
        ("ALTER COLUMN n TYPE DOUBLE", lambda a: a.change_column("n", type="DOUBLE")),
        ("ALTER COLUMN d TYPE DECIMAL(12, 3)", lambda a: a.change_column("d", type="DECIMAL(12, 3)")),
        ("ADD COLUMN PART STRING", lambda a: a.add_column("PART", "STRING")),
        ("ADD PARTITION FIELD days(at)", lambda a: a.add_partition_field("days(at)")),
        ("ADD PARTITION FIELD days(id)", lambda a: a.add_partition_field("days(id)")),
        ("ADD PARTITION FIELD bucket(4, id) AS n", lambda a: a.add_partition_field("bucket(4, id)", "n")),
        ("ADD PARTITION FIELD id AS at_day", lambda a: a.add_partition_field("id", "at_day")),
        ("SET TBLPROPERTIES ('format-version' = '1')", lambda a: a.set_properties({"format-version": "1"})),
    ]
    before = described(name)
    for words, change in refused:
        with pytest.raises(Exception):  # noqa: B017 - of the JVM, in its words
            jvm.sql(f"ALTER TABLE {name} {words}")
        with pytest.raises(lakescan.LakescanError):
            change(lakescan.table(name).alter()).commit()
        assert described(name) == before, words
