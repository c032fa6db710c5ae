"""CREATE TABLE here and by the JVM: the same statement makes the same metadata; tables made with rows are read there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.rows import differences

import lakescan
from interop.test_delta_commits import checked, forget

ALLOWED = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
CASES = {
    "plain": "(id INT NOT NULL COMMENT 'key', day DATE) USING delta PARTITIONED BY (day) COMMENT 'what it is'",
    "lengths": (
        "(a VARCHAR(5), b CHAR(3) COMMENT 'x', c ARRAY<VARCHAR(2)>, s STRUCT<x: CHAR(1), n: DECIMAL(5, 2), z: STRING>, "
        "m MAP<STRING, VARCHAR(4)>) USING delta"
    ),
    "defaults": (
        "(id INT DEFAULT 5, word STRING DEFAULT 'a''b', at TIMESTAMP DEFAULT current_timestamp()) USING delta "
        f"{ALLOWED}"
    ),
    "clustered": "(id INT, s STRUCT<a: INT, b: STRING>, day DATE) USING delta CLUSTER BY (day, s.a)",
}


def described(folder: Path) -> dict[str, Any]:
    """What version 0 says of a table, without what is random."""
    lines = (folder / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    found = {name: body for line in lines for name, body in json.loads(line).items()}
    metadata, protocol = found["metaData"], found["protocol"]
    return {
        "schema": json.loads(metadata["schemaString"]),
        "partitions": metadata["partitionColumns"],
        "configuration": metadata["configuration"],
        "description": metadata.get("description"),
        "versions": (protocol["minReaderVersion"], protocol["minWriterVersion"]),
        "features": sorted(protocol.get("writerFeatures", [])),
        "domain": json.loads(found["domainMetadata"]["configuration"]) if "domainMetadata" in found else None,
    }


@pytest.mark.parametrize("name", CASES)
def test_delta_makes_the_same_of_the_statement(jvm: Any, warehouse: Path, name: str) -> None:
    folder = warehouse / "made" / "".join(each if each.isalnum() else "_" for each in name)
    jvm.sql(f"CREATE TABLE delta.`{folder}_there` {CASES[name]}")
    made = lakescan.sql(f"CREATE TABLE delta.`{folder}_here` {CASES[name]}")
    assert described(Path(f"{folder}_here")) == described(Path(f"{folder}_there"))
    forget(jvm)
    assert jvm.table(f"delta.`{folder}_here`").schema == jvm.table(f"delta.`{folder}_there`").schema
    [shown] = lakescan.sql(f"SHOW CREATE TABLE delta.`{folder}_there`").to_arrow()[0].to_pylist()
    again = lakescan.sql(shown.replace(f"{folder}_there", f"{folder}_again"))
    assert described(Path(f"{folder}_again")) == described(Path(f"{folder}_there"))
    assert made.schema == again.schema


def test_delta_writes_by_the_rules_that_are_made_here(jvm: Any, warehouse: Path) -> None:
    folder = warehouse / "made" / "rules"
    table = lakescan.sql(
        f"CREATE TABLE delta.`{folder}` (id BIGINT GENERATED ALWAYS AS IDENTITY, n INT, twice INT GENERATED ALWAYS AS (n * 2), "
        "code VARCHAR(3), word STRING DEFAULT 'none', CONSTRAINT positive CHECK (n > 0)) USING delta"
    )
    table.append(pa.table({"n": pa.array([1], pa.int32()), "code": ["a"]}))
    forget(jvm)
    jvm.sql(f"INSERT INTO delta.`{folder}` (n, code) VALUES (2, 'b')")
    rows = lakescan.table(folder).scan().select("n", "twice", "code", "word").to_arrow().to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [(1, 2, "a", "none"), (2, 4, "b", "none")]
    assert len(set(lakescan.table(folder).to_arrow()["id"].to_pylist())) == 2
    for wrong in ("(-1, 'b')", "(1, 'long')"):
        with pytest.raises(Exception, match=r"(?i)constraint|length"):
            jvm.sql(f"INSERT INTO delta.`{folder}` (n, code) VALUES {wrong}")


@pytest.mark.parametrize("properties", ["", "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"])
def test_delta_reads_tables_that_are_made_with_rows(jvm: Any, warehouse: Path, properties: str) -> None:
    folder = warehouse / "made" / f"with_rows_{len(properties)}"
    lakescan.sql(f"CREATE TABLE delta.`{folder}` {properties} AS SELECT 1 AS id, 'a' AS word UNION ALL SELECT 2, NULL")
    assert checked(jvm, str(folder))
    expected = jvm.sql(f"SELECT * FROM delta.`{folder}`").toArrow()
    assert differences(lakescan.table(folder).to_arrow(), expected) == ""
    [newest] = jvm.sql(f"DESCRIBE HISTORY delta.`{folder}`").select("operation", "operationMetrics").collect()
    assert (newest[0], newest[1]["numOutputRows"]) == ("CREATE TABLE AS SELECT", "2")
    jvm.sql(f"INSERT INTO delta.`{folder}` VALUES (3, 'c')")
    assert lakescan.table(folder).count() == 3


FOUNDING = (
    "CREATE TABLE IF NOT EXISTS rest.db.sink6 (order_id INTEGER COMMENT 'unique id', order_date DATE, order_time "
    "TIMESTAMP(3), quantity INT, product_id INT, purchaser STRING, PRIMARY KEY (order_id) NOT ENFORCED) "
    "WITH ('format-version' = '2')"
)


def test_the_founding_statement_in_a_rest_catalog(rest: lakescan.Catalog, jvm: Any) -> None:
    made = lakescan.sql(FOUNDING)
    made.upsert(pa.Table.from_pylist([{"order_id": 1, "purchaser": "a"}], schema=made.schema))
    made.upsert(pa.Table.from_pylist([{"order_id": 1, "purchaser": "b"}], schema=made.schema))
    assert lakescan.sql(FOUNDING).count() == 1
    assert [tuple(row) for row in jvm.sql("SELECT order_id, purchaser FROM rest.db.sink6").collect()] == [(1, "b")]
    field = jvm.table("rest.db.sink6").schema["order_time"]
    assert (field.dataType.simpleString(), jvm.table("rest.db.sink6").schema["order_id"].nullable) == (
        "timestamp_ntz",
        False,
    )


@pytest.mark.parametrize("version", [2, 3])
def test_tables_of_a_rest_catalog_are_made_and_replaced_with_rows(
    rest: lakescan.Catalog, jvm: Any, version: int
) -> None:
    name, options = f"db.made{version}", f"TBLPROPERTIES ('format-version' = '{version}')"
    lakescan.sql(f"CREATE TABLE rest.{name} PARTITIONED BY (word) {options} AS SELECT 1 AS id, 'a' AS word")
    assert [tuple(row) for row in jvm.table(f"rest.{name}").collect()] == [(1, "a")]
    assert jvm.sql(f"SELECT operation FROM rest.{name}.snapshots").collect()[0][0] == "append"
    text = f"CREATE OR REPLACE TABLE rest.{name} {options} AS SELECT id + 1 AS id, true AS more FROM rest.{name}"
    lakescan.sql(text)
    jvm.sql(f"REFRESH TABLE rest.{name}")
    assert [tuple(row) for row in jvm.table(f"rest.{name}").collect()] == [(2, True)]
    assert len(jvm.sql(f"SELECT * FROM rest.{name}.snapshots").collect()) == 2
    jvm.sql(f"INSERT INTO rest.{name} VALUES (3, false)")
    assert lakescan.table(f"rest.{name}").count() == 2
    with pytest.raises(lakescan.TableExists):
        lakescan.sql(f"CREATE TABLE rest.{name} AS SELECT 1 AS id")


def test_a_table_that_another_creates_meanwhile_stays(rest: lakescan.Catalog, jvm: Any, rest_folder: Path) -> None:
    def batches() -> Any:
        yield pa.record_batch({"id": [1]})
        jvm.sql("CREATE TABLE rest.db.meanwhile (other STRING)")

    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches())
    from lakescan.definition.table_definition import TableDefinition

    with pytest.raises(lakescan.CreatedConcurrently):
        rest.create_with("db.meanwhile", TableDefinition(()), reader)
    assert lakescan.table("rest.db.meanwhile").schema.names == ["other"]
    assert list(rest_folder.rglob("meanwhile/**/*.parquet")) == []
