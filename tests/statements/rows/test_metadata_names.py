"""Row changes in tables whose columns are named like the metadata columns that statements use to find rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan

NAMES = ["_file", "_pos", "_FILE", "_row_id", "_last_updated_sequence_number", "_row_commit_version", "_deleted"]
PROPERTIES = [
    ("iceberg", "'format-version' = '2'"),
    ("iceberg", "'format-version' = '3'"),
    ("iceberg", "'write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read'"),
    ("delta", "'delta.enableRowTracking' = 'true'"),
    ("delta", "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true'"),
]


def change_rows(name: str, column: str, run: Any) -> None:
    """Change rows by each statement: (a, 1), (b, 2), (x, 3) become (cz, 2), (n, 9)."""
    run(f"DELETE FROM {name} WHERE `{column}` = 'a'")
    run(f"UPDATE {name} SET `{column}` = 'c' WHERE `{column}` = 'b' OR length(`{column}`) > 5")
    run(
        f"MERGE INTO {name} t USING (SELECT 2 AS k, 'z' AS `{column}` UNION ALL SELECT 9, 'n') s ON t.k = s.k "
        f"WHEN MATCHED THEN UPDATE SET `{column}` = concat(t.`{column}`, s.`{column}`) WHEN NOT MATCHED THEN INSERT *"
    )
    run(f"DELETE FROM {name} WHERE length(`{column}`) = 1 AND k = 3")


def created(folder: Path, column: str, format_name: str, properties: str) -> str:
    lakescan.catalog("named", warehouse=str(folder)).create_namespace("db")
    lakescan.sql(f"CREATE TABLE named.db.t (`{column}` STRING, k INT) USING {format_name} TBLPROPERTIES ({properties})")
    lakescan.sql("INSERT INTO named.db.t VALUES ('a', 1), ('b', 2), ('x', 3)")
    return "named.db.t"


@pytest.mark.slow
@pytest.mark.parametrize("column", NAMES)
@pytest.mark.parametrize(("format_name", "properties"), PROPERTIES)
def test_rows_change_in_tables_with_columns_named_like_metadata_columns(
    tmp_path: Path, column: str, format_name: str, properties: str
) -> None:
    name = created(tmp_path, column, format_name, properties)
    change_rows(name, column, lakescan.sql)
    lakescan.table(name).upsert(pa.table({column: ["u"], "k": pa.array([9], pa.int32())}), ["k"])
    lakescan.table(name).compact(rewrite_all=True)
    found = lakescan.table(name).to_arrow().to_pylist()
    assert sorted((row[column], row["k"]) for row in found) == [("cz", 2), ("u", 9)]


def test_row_ids_are_kept_in_a_table_with_a_column_of_their_name(tmp_path: Path) -> None:
    name = created(tmp_path, "_row_id", "iceberg", "'format-version' = '3'")
    ids = lakescan.table(name).scan().select("k", "_lakescan_row_id as id").to_arrow().to_pylist()
    lakescan.sql("UPDATE named.db.t SET `_row_id` = 'new' WHERE k = 2")
    lakescan.table(name).compact(rewrite_all=True)
    found = lakescan.table(name).scan().select("k", "_lakescan_row_id as id").to_arrow().to_pylist()
    assert sorted(found, key=str) == sorted(ids, key=str)


def test_metadata_columns_keep_their_names_in_other_tables(tmp_path: Path) -> None:
    name = created(tmp_path, "text", "delta", "'delta.minReaderVersion' = '1'")
    assert lakescan.table(name).scan().select("_pos").to_arrow()["_pos"].to_pylist() == [0, 1, 2]


CONDITIONS = {
    "_pos": "_pos = 0",
    "_file": "_file LIKE '%'",
    "_spec_id": "_spec_id = 0",
    "_partition": "_partition IS NOT NULL",
    "_deleted": "NOT _deleted",
    "_row_id": "_row_id = 0",
    "_last_updated_sequence_number": "_last_updated_sequence_number = 1",
    "_row_commit_version": "_row_commit_version >= 0",
}


@pytest.mark.parametrize("column", CONDITIONS)
@pytest.mark.parametrize(("format_name", "properties"), PROPERTIES)
def test_rows_change_by_each_metadata_column_that_a_scan_has(
    tmp_path: Path, column: str, format_name: str, properties: str
) -> None:
    """A table without the column refuses it by name before anything is written."""
    name, condition = created(tmp_path, "v", format_name, properties), CONDITIONS[column]
    table, of_target = lakescan.table(name), condition.replace(column, f"t.{column}")

    def keys() -> set[int]:
        return set(table.refresh().scan().select("k").where(condition).to_arrow()["k"].to_pylist())

    try:
        expected = keys()
    except lakescan.NoSuchColumn:
        before = sorted(tmp_path.rglob("*"))
        for change in (
            lambda: table.delete(condition),
            lambda: table.update({"v": "'new'"}, condition),
            lambda: lakescan.sql(
                f"MERGE INTO {name} t USING (SELECT 1 AS k) s ON {of_target} WHEN MATCHED THEN DELETE"
            ),
        ):
            with pytest.raises(lakescan.LakescanError, match=column):
                change()
        assert sorted(tmp_path.rglob("*")) == before
        return
    table.update({"v": "'new'"}, f"{condition} AND k > 0")
    assert {row["k"] for row in table.refresh().to_arrow().to_pylist() if row["v"] == "new"} == expected
    expected, all_keys = keys(), {1, 2, 3}
    lakescan.sql(
        f"MERGE INTO {name} t USING (SELECT 2 AS k) s ON t.k = s.k AND {of_target} "
        "WHEN MATCHED THEN UPDATE SET v = 'met'"
    )
    met = {row["k"] for row in table.refresh().to_arrow().to_pylist() if row["v"] == "met"}
    assert met == expected & {2}
    expected = keys()
    table.refresh().delete(condition)
    assert set(table.refresh().to_arrow()["k"].to_pylist()) == all_keys - expected
