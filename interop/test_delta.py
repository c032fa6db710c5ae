"""lakescan reads tables that Delta's JVM implementation writes through SQL, with the rows that Delta reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.rows import differences

import lakescan

ROWS = "SELECT id, cast(id % 7 as int) AS k, concat('n', id % 5) AS name, id * 1.5 AS price FROM range(200)"
TYPES = """SELECT id, id % 2 = 0 AS b, cast(id AS tinyint) AS t, cast(id AS smallint) AS sh, cast(id AS int) AS i,
    cast(id AS float) AS f, cast(id AS double) / 3 AS d, cast(id AS decimal(4, 1)) AS small, cast(id AS decimal(38, 10)) AS large,
    date_add(date '1969-12-25', cast(id AS int)) AS day, timestamp_micros(id * 1234567890123 - 1000000000) AS at,
    cast(timestamp_micros(id * 987654321) AS timestamp_ntz) AS wall, concat('é', id) AS text, cast(concat('x', id) AS binary) AS bin,
    array(id, null) AS list, map(concat('k', id), id) AS map, named_struct('x', id, 'y', array(named_struct('z', id))) AS s,
    if(id % 3 = 0, null, id) AS maybe FROM range(20)"""
VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors'='true')"
MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode'='{mode}', 'delta.enableDeletionVectors'='true')"

CASES: dict[str, list[str]] = {
    "plain": [f"CREATE TABLE {{t}} USING delta AS {ROWS}"],
    "types": [f"CREATE TABLE {{t}} USING delta AS {TYPES}"],
    "copy on write": [
        f"CREATE TABLE {{t}} USING delta PARTITIONED BY (k) AS {ROWS}",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "UPDATE {t} SET price = -1 WHERE id % 10 = 4",
        "DELETE FROM {t} WHERE k = 2",
    ],
    "deletion vectors": [
        f"CREATE TABLE {{t}} USING delta {VECTORS} AS {ROWS}",
        "DELETE FROM {t} WHERE id % 10 = 3",
        "DELETE FROM {t} WHERE id % 10 = 5",
        "MERGE INTO {t} USING (SELECT 4L AS id) s ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET name = 'merged'",
    ],
    "deletion vectors and checkpoints": [
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true', 'delta.checkpointInterval'='3') AS {ROWS}",
        *(f"DELETE FROM {{t}} WHERE id = {n}" for n in range(10)),
    ],
    "checkpoints v2": [
        f"CREATE TABLE {{t}} USING delta PARTITIONED BY (k) TBLPROPERTIES ('delta.checkpointPolicy'='v2', 'delta.checkpointInterval'='2') AS {ROWS}",
        *(f"DELETE FROM {{t}} WHERE id = {n}" for n in range(5)),
    ],
    "struct statistics only": [
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ('delta.checkpoint.writeStatsAsJson'='false', 'delta.checkpoint.writeStatsAsStruct'='true', 'delta.checkpointInterval'='2') AS {ROWS}",
        *(f"DELETE FROM {{t}} WHERE id = {n}" for n in range(5)),
    ],
    **{
        f"column mapping by {mode}": [
            f"CREATE TABLE {{t}} USING delta PARTITIONED BY (k) {MAPPED.format(mode=mode)} AS {ROWS}",
            "ALTER TABLE {t} RENAME COLUMN name TO `new name`",
            "ALTER TABLE {t} DROP COLUMN price",
            "ALTER TABLE {t} ADD COLUMN price string",
            "ALTER TABLE {t} RENAME COLUMN k TO part",
            "INSERT INTO {t} (id, part, `new name`, price) VALUES (1000, 3, 'x', 'text')",
            "DELETE FROM {t} WHERE id % 10 = 3",
        ]
        for mode in ("name", "id")
    },
    "type widening": [
        "CREATE TABLE {t} (b tinyint, i int, f float, n decimal(5, 2), s struct<x: int>, l array<smallint>) USING delta TBLPROPERTIES ('delta.enableTypeWidening'='true')",
        "INSERT INTO {t} VALUES (1, 2, 1.5, 1.25, named_struct('x', 4), array(5S))",
        "ALTER TABLE {t} ALTER COLUMN b TYPE int",
        "ALTER TABLE {t} ALTER COLUMN i TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN f TYPE double",
        "ALTER TABLE {t} ALTER COLUMN n TYPE decimal(10, 4)",
        "ALTER TABLE {t} ALTER COLUMN s.x TYPE bigint",
        "ALTER TABLE {t} ALTER COLUMN l.element TYPE int",
        "INSERT INTO {t} VALUES (1000, 5000000000, 2.5D, 9.9999, named_struct('x', 5000000000), array(100000))",
    ],
    "schema evolution": [
        "CREATE TABLE {t} (id int, s struct<x: int>) USING delta",
        "INSERT INTO {t} VALUES (1, named_struct('x', 1))",
        "ALTER TABLE {t} ADD COLUMNS (more string, s.y string)",
        "INSERT INTO {t} VALUES (2, named_struct('x', 2, 'y', 'b'), 'm'), (3, null, null)",
    ],
    "odd names and partitions": [
        f"CREATE TABLE {{t}} (id int, `a b` string, `p.q` timestamp) USING delta PARTITIONED BY (`a b`, `p.q`) {MAPPED.format(mode='name')}",
        "INSERT INTO {t} VALUES (1, null, null), (2, '', timestamp '2026-01-31 12:00:00.5'), (3, 'x/y=z%20:é', timestamp '1960-01-01 00:00:00')",
    ],
    "clustered": [
        "CREATE TABLE {t} (id bigint, k int, name string, price decimal(22, 1)) USING delta CLUSTER BY (k)",
        f"INSERT INTO {{t}} {ROWS}",
        "OPTIMIZE {t}",
    ],
    "optimized and restored": [
        f"CREATE TABLE {{t}} USING delta {VECTORS} AS {ROWS}",
        "DELETE FROM {t} WHERE id < 20",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id < 40",
        "RESTORE TABLE {t} TO VERSION AS OF 1",
    ],
    "row tracking": [
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ('delta.enableRowTracking'='true') AS {ROWS}",
        "DELETE FROM {t} WHERE id < 20",
    ],
    "legacy decimals and lists": [
        "SET spark.sql.parquet.writeLegacyFormat=true",
        f"CREATE TABLE {{t}} USING delta AS {TYPES}",
        "SET spark.sql.parquet.writeLegacyFormat=false",
    ],
    "in-commit timestamps": [
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps'='true') AS {ROWS}",
        "DELETE FROM {t} WHERE id < 20",
    ],
    "nothing in it": ["CREATE TABLE {t} (id int) USING delta"],
}


def written(jvm: Any, warehouse: Path, name: str, statements: list[str]) -> tuple[str, str]:
    """Run the statements; return the table's identifier and folder."""
    location = str(warehouse / "delta" / "".join(c if c.isalnum() else "_" for c in name))
    identifier = f"delta.`{location}`"
    for statement in statements:
        jvm.sql(statement.format(t=identifier))
    return identifier, location


@pytest.mark.parametrize("name", CASES)
def test_lakescan_reads_the_rows_that_delta_reads(jvm, warehouse: Path, name: str) -> None:
    identifier, location = written(jvm, warehouse, name, CASES[name])
    expected = jvm.sql(f"SELECT * FROM {identifier}").toArrow()
    assert differences(lakescan.table(location).scan().to_arrow(), expected) == ""


def test_variants_are_those_that_delta_wrote(jvm, warehouse: Path) -> None:
    values = """SELECT id, parse_json(concat('[', id, ', "x", null]')) AS v FROM range(6)"""
    identifier, location = written(jvm, warehouse, "variants", [f"CREATE TABLE {{t}} USING delta AS {values}"])
    expected = {r.id: (bytes(r.v.value), bytes(r.v.metadata)) for r in jvm.sql(f"SELECT * FROM {identifier}").collect()}
    found = lakescan.table(location).scan().to_arrow().to_pylist()
    assert {r["id"]: (r["v"]["value"], r["v"]["metadata"]) for r in found} == expected


def test_every_version_reads_as_delta_reads_it(jvm, warehouse: Path) -> None:
    identifier, location = written(jvm, warehouse, "versions", CASES["deletion vectors and checkpoints"])
    for row in jvm.sql(f"DESCRIBE HISTORY {identifier}").collect():
        expected = jvm.sql(f"SELECT * FROM {identifier} VERSION AS OF {row.version}").toArrow()
        assert differences(lakescan.table(location).scan().as_of(version=row.version).to_arrow(), expected) == ""
        at_time = lakescan.table(location).scan().as_of(timestamp=row.timestamp.astimezone()).plan()
        assert at_time.report.snapshot_id == row.version


FILTERS = ["at >= timestamp '1970-01-20 00:00:00'", "day < '1970-01-01'", "day = '1970-01-05'", "id = 7", "text = 'é3'"]
FILTERS += ["id between 5 and 11", "large > 12.5", "maybe is null", "text in ('é1', 'é19')", "b", "s.x > 17", "f >= 18"]


@pytest.mark.parametrize("by", ["", "PARTITIONED BY (day)", "PARTITIONED BY (at, b)", "PARTITIONED BY (text, small)"])
def test_a_filter_keeps_the_rows_that_delta_keeps(jvm, warehouse: Path, by: str) -> None:
    properties = "TBLPROPERTIES ('delta.checkpointInterval'='2')"
    statements = [
        f"CREATE TABLE {{t}} USING delta {by} {properties} AS {TYPES}",
        *("DELETE FROM {t} WHERE id = 3",) * 2,
    ]
    identifier, location = written(jvm, warehouse, f"filtered {by}", statements)
    for condition in FILTERS:
        expected = jvm.sql(f"SELECT id FROM {identifier} WHERE {condition}").toArrow()
        actual = lakescan.table(location).scan().where(condition).select("id").to_arrow()
        assert differences(actual, expected) == "", condition


FEED = "'delta.enableChangeDataFeed'='true'"
MERGE = """MERGE INTO {t} USING (SELECT id + 190 AS id, 'm' AS name FROM range(20)) s ON {t}.id = s.id
    WHEN MATCHED AND s.id % 2 = 0 THEN UPDATE SET name = s.name WHEN MATCHED THEN DELETE
    WHEN NOT MATCHED THEN INSERT (id, k, name, price) VALUES (s.id, 1, s.name, 0)"""
CHANGES = [
    "UPDATE {t} SET price = -1 WHERE id % 10 = 4",
    "DELETE FROM {t} WHERE id % 10 = 3",
    MERGE,
    "DELETE FROM {t} WHERE k = 2",
]
FEEDS: dict[str, list[str]] = {
    "copy on write": [f"CREATE TABLE {{t}} USING delta PARTITIONED BY (k) TBLPROPERTIES ({FEED}, 'delta.enableDeletionVectors'='false') AS {ROWS}", *CHANGES],
    "deletion vectors": [f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({FEED}, 'delta.enableDeletionVectors'='true') AS {ROWS}", *CHANGES],
    **{
        f"mapped by {mode}": [
            f"CREATE TABLE {{t}} (id bigint, k int, name string, price decimal(22, 1)) USING delta PARTITIONED BY (k) TBLPROPERTIES ({FEED}, 'delta.columnMapping.mode'='{mode}', 'delta.enableDeletionVectors'='true')",
            f"INSERT INTO {{t}} {ROWS}",
            *CHANGES,
        ]
        for mode in ("name", "id")
    },
    "restored and optimized": [
        f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({FEED}, 'delta.enableDeletionVectors'='true') AS {ROWS}",
        "DELETE FROM {t} WHERE id < 20",
        "OPTIMIZE {t}",
        "DELETE FROM {t} WHERE id < 40",
        "RESTORE TABLE {t} TO VERSION AS OF 0",
    ],
    "in-commit timestamps": [f"CREATE TABLE {{t}} USING delta TBLPROPERTIES ({FEED}, 'delta.enableInCommitTimestamps'='true') AS {ROWS}", *CHANGES],
}  # fmt: skip


@pytest.mark.parametrize("name", FEEDS)
def test_change_feeds_equal_those_of_delta(jvm, warehouse: Path, name: str) -> None:
    identifier, location = written(jvm, warehouse, f"feed {name}", FEEDS[name])
    newest = lakescan.table(location).scan().snapshot.id
    assert newest is not None
    for start, end in [(0, newest), (1, newest - 1), (newest, newest)]:
        reader = jvm.read.format("delta").option("readChangeFeed", "true")
        expected = reader.option("startingVersion", start).option("endingVersion", end).load(location).toArrow()
        scan = lakescan.table(location, readChangeFeed=True, startingVersion=start, endingVersion=end).scan()
        assert expected.num_rows or start, identifier
        assert differences(scan.to_arrow(), expected) == ""


def test_row_tracking_equals_that_of_delta(jvm, warehouse: Path) -> None:
    statements = [
        *CASES["row tracking"],
        "UPDATE {t} SET price = 0 WHERE id = 50",
        "OPTIMIZE {t}",
        f"INSERT INTO {{t}} {ROWS}",
    ]
    identifier, location = written(jvm, warehouse, "row tracking columns", statements)
    names = "id, price, _metadata.row_id AS _row_id, _metadata.row_commit_version AS _row_commit_version"
    expected = jvm.sql(f"SELECT {names} FROM {identifier}").toArrow()
    scan = lakescan.table(location).scan().select("id", "price", "_row_id", "_row_commit_version")
    assert differences(scan.to_arrow(), expected) == ""


@pytest.mark.parametrize("case", ["clustered", "column mapping by name", "deletion vectors and checkpoints"])
def test_history_and_detail_equal_those_of_delta(jvm, warehouse: Path, case: str) -> None:
    identifier, location = written(jvm, warehouse, f"about {case}", CASES[case])
    history = lakescan.table(location).inspect("history")
    same = [
        "version",
        "timestamp",
        "operation",
        "operationParameters",
        "readVersion",
        "isolationLevel",
        "isBlindAppend",
        "engineInfo",
    ]
    expected = jvm.sql(f"DESCRIBE HISTORY {identifier}").select(same).toArrow()
    assert differences(history.select(same), expected) == ""
    assert history["version"].to_pylist() == expected["version"].to_pylist()[::-1]  # in lakescan, the oldest is first
    (mine,) = lakescan.table(location).inspect("detail").to_pylist()
    (theirs,) = jvm.sql(f"DESCRIBE DETAIL {identifier}").toArrow().to_pylist()
    for name in (
        "format",
        "id",
        "partitionColumns",
        "clusteringColumns",
        "numFiles",
        "sizeInBytes",
        "minReaderVersion",
        "minWriterVersion",
    ):
        assert mine[name] == theirs[name], name
    assert sorted(mine["tableFeatures"]) == sorted(f for f in theirs["tableFeatures"])
    assert mine["lastModified"] == theirs["lastModified"]
