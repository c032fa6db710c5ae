"""Tables whose data files Iceberg's Java implementation wrote as Avro or ORC: read, changed and compacted here, and read there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from tests.support.rows import differences

import lakescan

VALUES = """SELECT id, id % 2 = 0 AS b, cast(id AS int) AS i, cast(id AS float) / 3 AS f, cast(id AS double) / 3 AS d,
    cast(id AS decimal(4, 1)) AS small, cast(-id AS decimal(15, 3)) AS medium, cast(id AS decimal(38, 10)) / 7 AS large,
    date_add(date '1969-12-25', cast(id AS int)) AS day, timestamp_micros(id * 1234567890123 - 1000000001) AS at,
    cast(timestamp_micros(id * 987654321 - 5000000001) AS timestamp_ntz) AS wall, concat('é', id) AS text,
    cast(concat('x', id) AS binary) AS bin, array(cast(id AS int), null) AS list, map(concat('k', id), id) AS map,
    map(cast(id AS int), array(named_struct('z', id)), -1, null) AS by_number,
    named_struct('x', cast(id AS int), 'y', array(named_struct('z', id)), 'w', named_struct('v', cast(id AS float))) AS s,
    if(id % 3 = 0, null, named_struct('x', id)) AS maybe, if(id % 3 = 1, null, array('a', concat('b', id))) AS maybe_list,
    concat('0000000', id, '-0000-0000-0000-00000000000', id % 10) AS key
    FROM range({}, {})"""
COLUMNS = """id BIGINT, b BOOLEAN, i INT, f FLOAT, d DOUBLE, small DECIMAL(4, 1), medium DECIMAL(15, 3), large DECIMAL(38, 10),
    day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, text STRING, bin BINARY, list ARRAY<INT>, map MAP<STRING, BIGINT>,
    by_number MAP<INT, ARRAY<STRUCT<z: BIGINT>>>, s STRUCT<x: INT, y: ARRAY<STRUCT<z: BIGINT>>, w: STRUCT<v: FLOAT>>,
    maybe STRUCT<x: BIGINT>, maybe_list ARRAY<STRING>, key UUID"""
NAME = "rest.db.formats"
EVOLVE = [
    "ADD COLUMN more INT AFTER id",
    "RENAME COLUMN text TO words",
    "ALTER COLUMN i TYPE BIGINT",
    "ALTER COLUMN f TYPE DOUBLE",
    "ALTER COLUMN small TYPE DECIMAL(8, 1)",
    "DROP COLUMN bin",
    "ADD COLUMN s.new STRING",
    "ALTER COLUMN s.x TYPE BIGINT",
    "RENAME COLUMN s.y TO z",
    "ALTER COLUMN s.w.v TYPE DOUBLE",
    "ALTER COLUMN list.element TYPE BIGINT",
    "ADD COLUMN by_number.value.element.q STRING",
    "DROP COLUMN maybe.x",
]


@pytest.fixture(params=[("avro", "2"), ("avro", "3"), ("orc", "2")], ids=str)
def made(request: pytest.FixtureRequest, jvm: Any, rest: lakescan.Catalog) -> Iterator[str]:
    """A table with a file of each of two ranges, and the format of its files."""
    kind, version = request.param
    properties = {
        "format-version": version,
        **{f"write.{n}.mode": "merge-on-read" for n in ("delete", "update", "merge")},
    }
    rest.create_table("db.formats", COLUMNS, partition_by=["bucket(2, id)"], properties=properties)
    jvm.sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('write.format.default'='{kind}')")
    for start in (0, 20):
        jvm.sql(f"INSERT INTO {NAME} " + VALUES.format(start, start + 20))
    yield kind
    rest.drop_table("db.formats")


def check(jvm: Any, rows: int) -> None:
    jvm.sql(f"REFRESH TABLE {NAME}")
    here = lakescan.table(NAME).to_arrow()
    assert here.num_rows == rows
    assert differences(here, jvm.table(NAME).toArrow()) == ""
    for condition in ("id between 5 and 22", "d > 3", "wall < timestamp_ntz '1970-01-01'", "s.x = 7", "large > 2.5"):
        assert (
            lakescan.sql(f"SELECT id FROM {NAME} WHERE {condition}").to_arrow().num_rows
            == jvm.table(NAME).where(condition).count()
        ), condition


def formats(jvm: Any) -> set[str]:
    return {row[0] for row in jvm.sql(f"SELECT DISTINCT file_format FROM {NAME}.files").collect()}


def test_rows_of_evolved_columns_are_changed_and_written_again(jvm: Any, made: str) -> None:
    check(jvm, 40)
    jvm.sql(f"DELETE FROM {NAME} WHERE id IN (3, 24)")  # files of deletes in the same format
    check(jvm, 38)
    for each in EVOLVE:
        if not (made == "orc" and ("w.v" in each or each == "ALTER COLUMN f TYPE DOUBLE")):
            jvm.sql(f"ALTER TABLE {NAME} {each}")
    check(jvm, 38)
    table = lakescan.table(NAME)
    result = table.delete("id IN (4, 25) OR words = 'é6'")
    assert (result.deleted, result.note) == (3, "")
    check(jvm, 35)
    result = lakescan.sql(f"UPDATE {NAME} SET more = 7, s.new = 'n' WHERE id % 10 = 1")
    assert result.updated == 4
    assert f"write.format.default is {made}" in result.note
    check(jvm, 35)
    lakescan.sql(
        f"MERGE INTO {NAME} t USING (SELECT id + 30 AS id, words, d FROM {NAME} WHERE id < 20) s ON t.id = s.id "
        "WHEN MATCHED AND s.id > 35 THEN DELETE WHEN MATCHED THEN UPDATE SET words = s.words, d = s.d "
        "WHEN NOT MATCHED THEN INSERT (id, words) VALUES (s.id, s.words)"
    )
    left = lakescan.table(NAME).count()
    check(jvm, left)
    copied = lakescan.table(NAME).update({"more": "id"}, "id % 7 = 2", row_change_mode="copy-on-write")
    assert copied.removed_files
    check(jvm, left)
    jvm.sql(f"UPDATE {NAME} SET d = -1 WHERE id % 5 = 0")
    check(jvm, left)
    if lakescan.table(NAME).scan().spec.table.format_version == "2":
        lakescan.table(NAME).rewrite_position_deletes()
        check(jvm, left)
    note = lakescan.table(NAME).compact(rewrite_all=True).note
    assert "as Parquet" in note
    assert formats(jvm) == {"PARQUET"}
    check(jvm, left)
    wide = pa.table({"id": [900], "words": ["new"], "added": [{"by": "append"}]})
    lakescan.table(NAME).append(wide, merge_schema=True)  # schema and snapshot in one commit of the REST catalog
    check(jvm, left + 1)
