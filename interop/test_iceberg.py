"""lakescan reads tables that Iceberg's Java implementation writes through SQL, with the rows that Java reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.rows import differences

import lakescan

ROWS = "SELECT id, cast(id % 7 as int) AS k, concat('n', id % 5) AS name, id * 1.5 AS price FROM range(200)"
TYPES = """SELECT id, id % 2 = 0 AS b, cast(id AS int) AS i, cast(id AS float) AS f, cast(id AS double) / 3 AS d,
    cast(id AS decimal(4, 1)) AS small, cast(id AS decimal(15, 3)) AS medium, cast(id AS decimal(38, 10)) AS large,
    date_add(date '1969-12-25', cast(id AS int)) AS day, timestamp_micros(id * 1234567890123 - 1000000000) AS at,
    cast(timestamp_micros(id * 987654321) AS timestamp_ntz) AS wall, concat('é', id) AS text, cast(concat('x', id) AS binary) AS bin,
    array(id, null) AS list, map(concat('k', id), id) AS map, named_struct('x', id, 'y', array(named_struct('z', id))) AS s,
    if(id % 3 = 0, null, id) AS maybe FROM range(20)"""

CASES: dict[str, list[str]] = {
    "plain": [f"CREATE TABLE {{t}} USING iceberg AS {ROWS}"],
    "types": [f"CREATE TABLE {{t}} USING iceberg AS {TYPES}"],
    "types in orc": [f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ('write.format.default'='orc') AS {TYPES}"],
    "types in avro": [f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ('write.format.default'='avro') AS {TYPES}"],
    "version 1": [
        f"CREATE TABLE {{t}} USING iceberg PARTITIONED BY (k) TBLPROPERTIES ('format-version'='1') AS {ROWS}"
    ],
    "position deletes": [
        f"CREATE TABLE {{t}} USING iceberg PARTITIONED BY (k) TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read') AS {ROWS}",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "UPDATE {t} SET price = -1 WHERE id % 10 = 4",
        "DELETE FROM {t} WHERE k = 2",
    ],
    "position deletes in orc": [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.format.default'='orc') AS {ROWS}",
        "DELETE FROM {t} WHERE id % 10 = 3",
    ],
    "position deletes in avro": [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.format.default'='avro') AS {ROWS}",
        "DELETE FROM {t} WHERE id % 10 = 3",
    ],
    "deletion vectors": [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read', 'write.merge.mode'='merge-on-read') AS {ROWS}",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "DELETE FROM {t} WHERE id % 10 = 5",
        "MERGE INTO {t} USING (SELECT 4L AS id) s ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET name = 'merged'",
    ],
    "position deletes, then vectors": [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read') AS {ROWS}",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
        "DELETE FROM {t} WHERE id % 10 = 5",
    ],
    "schema evolution": [
        "CREATE TABLE {t} (id int, f float, n decimal(5, 2), s struct<x: int, y: string>, l array<struct<x: int>>, m map<string, struct<x: int>>, gone string) USING iceberg",
        "INSERT INTO {t} VALUES (1, 1.5, 1.25, named_struct('x', 1, 'y', 'a'), array(named_struct('x', 1)), map('k', named_struct('x', 1)), 'g')",
        "ALTER TABLE {t} ALTER COLUMN id TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN f TYPE double",
        "ALTER TABLE {t} ALTER COLUMN n TYPE decimal(10, 2)",
        "ALTER TABLE {t} DROP COLUMN gone",
        "ALTER TABLE {t} ADD COLUMN gone int",
        "ALTER TABLE {t} RENAME COLUMN s.x TO renamed",
        "ALTER TABLE {t} ADD COLUMN s.z double FIRST",
        "ALTER TABLE {t} ADD COLUMN l.element.added string",
        "ALTER TABLE {t} ADD COLUMN m.value.added string",
        "ALTER TABLE {t} ALTER COLUMN n FIRST",
        "INSERT INTO {t} SELECT 9.99, 2L, 2.5D, named_struct('z', 0.5D, 'renamed', 2, 'y', 'b'), array(named_struct('x', 2, 'added', 'p')), map('q', named_struct('x', 2, 'added', 'p')), 7",
    ],
    "partition evolution": [
        f"CREATE TABLE {{t}} USING iceberg PARTITIONED BY (k) AS {ROWS}",
        "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)",
        f"INSERT INTO {{t}} {ROWS}",
        "ALTER TABLE {t} DROP PARTITION FIELD k",
        "ALTER TABLE {t} ADD PARTITION FIELD truncate(2, name)",
        f"INSERT INTO {{t}} {ROWS}",
        "DELETE FROM {t} WHERE id < 20",
    ],
    "odd names": [
        "CREATE TABLE {t} (`a.b` int, `c d` int, `select` int, `Ünï` int, `UP` struct<`x.y`: int>) USING iceberg PARTITIONED BY (`c d`)",
        "INSERT INTO {t} VALUES (1, 2, 3, 4, named_struct('x.y', 5)), (6, null, 8, 9, null)",
    ],
    "null and odd partitions": [
        "CREATE TABLE {t} (id int, p string) USING iceberg PARTITIONED BY (p)",
        "INSERT INTO {t} VALUES (1, null), (2, ''), (3, 'a/b=c%20'), (4, 'é')",
    ],
    "nothing in it": ["CREATE TABLE {t} (id int) USING iceberg"],
    "all rows deleted": [f"CREATE TABLE {{t}} USING iceberg AS {ROWS}", "DELETE FROM {t}"],
    "rewritten": [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ('write.delete.mode'='merge-on-read') AS {ROWS}",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "CALL ice.system.rewrite_data_files(table => 'db.{name}', options => map('min-input-files', '1', 'rewrite-all', 'true'))",
        "CALL ice.system.rewrite_manifests('db.{name}')",
        "DELETE FROM {t} WHERE id % 10 = 4",
    ],
}


def written(jvm: Any, warehouse: Path, name: str, statements: list[str]) -> tuple[str, str]:
    """Run the statements; return the table's identifier and folder."""
    plain = "".join(c if c.isalnum() else "_" for c in name)
    identifier = f"ice.db.{plain}"
    for statement in statements:
        jvm.sql(statement.format(t=identifier, name=plain))
    return identifier, str(warehouse / "ice" / "db" / plain)


@pytest.mark.parametrize("name", CASES)
def test_lakescan_reads_the_rows_that_java_reads(jvm, warehouse: Path, name: str) -> None:
    identifier, location = written(jvm, warehouse, name, CASES[name])
    expected = jvm.table(identifier).toArrow()
    actual = lakescan.table(location).scan().to_arrow()
    assert differences(actual, expected) == ""


TRANSFORMS = [
    "identity(at)",
    "years(at)",
    "months(at)",
    "days(at)",
    "hours(at)",
    "years(day)",
    "months(day)",
    "days(day)",
]
TRANSFORMS += [
    "bucket(4, id)",
    "bucket(4, text)",
    "truncate(10, id)",
    "truncate(2, text)",
    "truncate(10, large)",
    "bucket(3, at)",
]
FILTERS = ["at >= timestamp '1970-01-20 00:00:00'", "day < '1970-01-01'", "day = '1970-01-05'", "id = 7", "text = 'é3'"]
FILTERS += [
    "id between 5 and 11",
    "large > 12.5",
    "maybe is null",
    "text in ('é1', 'é19')",
    "at < timestamp '1969-12-31 23:59:59'",
]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_filter_on_a_partitioned_table_keeps_the_rows_that_java_keeps(jvm, warehouse: Path, transform: str) -> None:
    by = transform.removeprefix("identity(").removesuffix(")") if transform.startswith("identity") else transform
    statements = [f"CREATE TABLE {{t}} USING iceberg PARTITIONED BY ({by}) AS {TYPES}"]
    identifier, location = written(jvm, warehouse, f"by {transform}", statements)
    scan = lakescan.table(location).scan()
    for condition in FILTERS:
        expected = jvm.table(identifier).where(condition).select("id").toArrow()
        assert differences(scan.where(condition).select("id").to_arrow(), expected) == "", condition


def test_every_snapshot_branch_and_tag_reads_as_java_reads_it(jvm, warehouse: Path) -> None:
    statements = [
        f"CREATE TABLE {{t}} USING iceberg AS {ROWS}",
        "ALTER TABLE {t} CREATE TAG first",
        "DELETE FROM {t} WHERE id < 50",
    ]
    statements += [
        "ALTER TABLE {t} CREATE BRANCH side",
        "ALTER TABLE {t} ADD COLUMN more int",
        "DELETE FROM {t} WHERE id < 90",
    ]
    statements += ["INSERT INTO {t}.branch_side SELECT 1000L, 1, 'side', 2.0, 3"]
    identifier, location = written(jvm, warehouse, "versions", statements)
    table = lakescan.table(location)
    for snapshot in jvm.table(f"{identifier}.snapshots").collect():
        expected = jvm.read.option("versionAsOf", snapshot.snapshot_id).table(identifier).toArrow()
        assert differences(table.scan().as_of(version=snapshot.snapshot_id).to_arrow(), expected) == ""
    for kind, name in (("tag", "first"), ("branch", "side")):
        expected = jvm.sql(f"SELECT * FROM {identifier} VERSION AS OF '{name}'").toArrow()
        assert differences(table.scan().as_of(**{kind: name}).to_arrow(), expected) == "", name


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_of_javas_own_writer_apply(jvm, warehouse: Path, version: int, file_format: str) -> None:
    create = f"CREATE TABLE {{t}} (id bigint, name string) USING iceberg TBLPROPERTIES ('format-version'='{version}')"
    inserts = ["INSERT INTO {t} VALUES (1, 'a'), (2, null), (3, 'c')", "INSERT INTO {t} VALUES (4, 'a'), (5, 'e')"]
    identifier, location = written(jvm, warehouse, f"equality {version} {file_format}", [create, *inserts])
    delete_by_name(jvm, identifier, location, file_format, ["a", None])
    jvm.sql(f"INSERT INTO {identifier} VALUES (6, 'a')")
    jvm.sql(f"REFRESH TABLE {identifier}")
    expected = jvm.table(identifier).toArrow()
    assert expected["id"].to_pylist() != []
    actual = lakescan.table(location).scan().to_arrow()
    assert differences(actual, expected) == ""
    assert sorted(actual["id"].to_pylist()) == [3, 5, 6]


def delete_by_name(jvm: Any, identifier: str, location: str, file_format: str, names: list[str | None]) -> None:
    """Commit an equality delete file on `name` through the Java API."""
    iceberg = jvm._jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(jvm._jsparkSession, identifier)
    columns = jvm._jvm.java.util.ArrayList()
    columns.add("name")
    schema = table.schema().select(columns)
    ids = jvm._sc._gateway.new_array(jvm._jvm.int, 1)
    ids[0] = schema.findField("name").fieldId()
    builder = getattr(iceberg.data, "GenericFileWriterFactory$Builder")(table)
    builder = builder.deleteFileFormat(iceberg.FileFormat.fromString(file_format))
    factory = builder.equalityFieldIds(ids).equalityDeleteRowSchema(schema).build()
    output = iceberg.Files.localOutput(f"{location}/data/equality-deletes.{file_format}")
    encrypted = iceberg.encryption.EncryptionUtil.plainAsEncryptedOutput(output)
    writer = factory.newEqualityDeleteWriter(encrypted, table.spec(), None)
    for name in names:
        record = iceberg.data.GenericRecord.create(schema)
        record.setField("name", name)
        writer.write(record)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()


@pytest.mark.parametrize("case", ["position deletes", "partition evolution", "version 1"])
def test_metadata_columns_equal_those_of_java(jvm, warehouse: Path, case: str) -> None:
    identifier, location = written(jvm, warehouse, f"metadata {case}", CASES[case])
    columns = ["id", "_file", "_pos", "_spec_id", "_partition"]
    expected = jvm.sql(f"SELECT {', '.join(columns)} FROM {identifier}").toArrow()
    assert differences(lakescan.table(location).scan().select(*columns).to_arrow(), expected) == ""


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_row_lineage_equals_that_of_java(jvm, warehouse: Path, file_format: str) -> None:
    properties = f"'format-version'='3', 'write.update.mode'='copy-on-write', 'write.format.default'='{file_format}'"
    statements = [
        f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ({properties}) AS {ROWS}",
        f"INSERT INTO {{t}} {ROWS}",
        "UPDATE {t} SET price = -1 WHERE id % 10 = 4",
        "INSERT INTO {t} VALUES (1000, 1, 'later', 2.0)",
        "DELETE FROM {t} WHERE id < 10",
    ]
    identifier, location = written(jvm, warehouse, f"lineage {file_format}", statements)
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    expected = jvm.sql(f"SELECT {', '.join(columns)} FROM {identifier}").toArrow()
    assert differences(lakescan.table(location).scan().select(*columns).to_arrow(), expected) == ""


def test_row_lineage_of_an_upgraded_table_equals_that_of_java(jvm, warehouse: Path) -> None:
    statements = [f"CREATE TABLE {{t}} USING iceberg TBLPROPERTIES ('format-version'='2') AS {ROWS}"]
    statements += ["ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')"]
    identifier, location = written(jvm, warehouse, "lineage upgraded", statements)
    columns = "id, _row_id, _last_updated_sequence_number"
    for statement in ("", f"INSERT INTO {identifier} VALUES (1000, 1, 'later', 2.0)"):
        if statement:
            jvm.sql(statement)
        expected = jvm.sql(f"SELECT {columns} FROM {identifier}").toArrow()
        actual = lakescan.table(location).scan().select(*columns.split(", ")).to_arrow()
        assert differences(actual, expected) == ""


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_files_without_ids_are_read_by_the_name_mapping_that_java_makes(jvm, warehouse: Path, file_format: str) -> None:
    """`add_files` adds another writer's files to a table, and a name mapping to its properties."""
    folder = warehouse / f"plain {file_format}"
    rows = jvm.sql("SELECT id, named_struct('x', id, 'y', array(id)) AS s, map('k', id) AS m FROM range(20)")
    rows.write.format(file_format).save(str(folder))
    create = "CREATE TABLE {t} (id bigint, s struct<x: bigint, y: array<bigint>>, m map<string, bigint>) USING iceberg"
    add = f"CALL ice.system.add_files(table => 'db.{{name}}', source_table => '`{file_format}`.`{folder}`')"
    rename = ["ALTER TABLE {t} RENAME COLUMN id TO key", "ALTER TABLE {t} RENAME COLUMN s.x TO z"]
    identifier, location = written(jvm, warehouse, f"name mapping {file_format}", [create, add, *rename])
    table = lakescan.table(location)
    assert "schema.name-mapping.default" in table.properties
    assert differences(table.scan().to_arrow(), jvm.table(identifier).toArrow()) == ""
    assert table.scan().where("key >= 17").to_arrow().num_rows == 3


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_defaults_of_added_columns_equal_those_of_java(jvm, warehouse: Path, file_format: str) -> None:
    create = f"CREATE TABLE {{t}} (id int, s struct<x: int>) USING iceberg TBLPROPERTIES ('format-version'='3', 'write.format.default'='{file_format}')"
    insert = "INSERT INTO {t} VALUES (1, named_struct('x', 1)), (2, null)"
    identifier, location = written(jvm, warehouse, f"defaults {file_format}", [create, insert])
    iceberg = jvm._jvm.org.apache.iceberg
    table = iceberg.spark.Spark3Util.loadIcebergTable(jvm._jsparkSession, identifier)
    literal = iceberg.expressions.Literal
    string, integer = (getattr(iceberg.types, f"Types${n}Type").get() for n in ("String", "Integer"))
    update = table.updateSchema().addColumn("name", string, literal.of("d"))
    update.addColumn("s", "y", integer, literal.of(7)).commit()
    jvm.sql(f"REFRESH TABLE {identifier}")
    jvm.sql(f"INSERT INTO {identifier} VALUES (3, named_struct('x', 3, 'y', 4), null)")
    found = lakescan.table(location).scan()
    rows = {r["id"]: (r["name"], r["s"]) for r in found.to_arrow().to_pylist()}
    assert rows == {1: ("d", {"x": 1, "y": 7}), 2: ("d", None), 3: (None, {"x": 3, "y": 4})}
    if file_format != "orc":  # Java refuses to read this with defaults
        assert differences(found.to_arrow(), jvm.table(identifier).toArrow()) == ""
    assert sorted(found.where("name = 'd'").to_arrow()["id"].to_pylist()) == [1, 2]


def test_variants_are_those_that_java_wrote(jvm, warehouse: Path) -> None:
    values = """SELECT id, CASE WHEN id = 3 THEN NULL ELSE parse_json(concat('{{"n": ', id, ', "t": ["x", null, 1.5]}}')) END AS v FROM range(6)"""
    create = "CREATE TABLE {t} USING iceberg TBLPROPERTIES ('format-version'='3') AS " + values
    identifier, location = written(jvm, warehouse, "variants", [create])
    expected = {r.id: r.v and (bytes(r.v.value), bytes(r.v.metadata)) for r in jvm.table(identifier).collect()}
    found = lakescan.table(location).scan().to_arrow().to_pylist()
    assert {r["id"]: r["v"] and (r["v"]["value"], r["v"]["metadata"]) for r in found} == expected
