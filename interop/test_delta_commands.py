"""RESTORE, CLONE and CONVERT of Delta tables by lakescan and by Delta on Spark: each reads the other's result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.delta_state import newest_version, state
from tests.support.rows import differences

import lakescan
from interop.test_delta_commits import checked, forget
from interop.test_delta_row_changes import both_read, made

PROPERTIES: list[tuple[dict[str, str], str]] = [
    ({}, ""),
    ({}, "PARTITIONED BY (part)"),
    ({"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}, "PARTITIONED BY (part)"),
    ({"delta.enableInCommitTimestamps": "true", "delta.enableChangeDataFeed": "true"}, ""),
    ({}, "CLUSTER BY (id)"),
]


def info(folder: Path) -> dict[str, Any]:
    """Return the operation, parameters and metrics of the newest commit, without times."""
    text = (folder / "_delta_log" / f"{newest_version(folder):020d}.json").read_text()
    (found,) = [json.loads(line)["commitInfo"] for line in text.splitlines() if "commitInfo" in line]
    metrics = {n: v for n, v in found["operationMetrics"].items() if not n.endswith("Ms")}
    return {"operation": found["operation"], "parameters": found["operationParameters"], "metrics": metrics}


@pytest.mark.parametrize(("properties", "by"), PROPERTIES, ids=str)
def test_a_restored_version_equals_that_of_delta(
    jvm: Any, warehouse: Path, properties: dict[str, str], by: str
) -> None:
    theirs, expected = made(jvm, warehouse, "restore jvm", properties, by)
    mine, folder = made(jvm, warehouse, "restore own", properties, by)
    for version in (1, 3, 2):
        jvm.sql(f"RESTORE TABLE {theirs} TO VERSION AS OF {version}")
        lakescan.table(folder).restore(version)
        forget(jvm)
        assert (
            differences(jvm.sql(f"SELECT * FROM {mine}").toArrow(), jvm.sql(f"SELECT * FROM {theirs}").toArrow()) == ""
        )
        found, wanted = info(folder), info(expected)
        assert (found["operation"], found["parameters"]) == (wanted["operation"], wanted["parameters"])
        assert found["metrics"].keys() == wanted["metrics"].keys()
        counts = [name for name in found["metrics"] if "Size" not in name]  # sizes of files differ with their ids
        assert [found["metrics"][name] for name in counts] == [wanted["metrics"][name] for name in counts]
        assert state(folder)[0].features == state(expected)[0].features
        assert checked(jvm, str(folder))
    jvm.sql(f"DELETE FROM {mine} WHERE id = 4")
    assert 4 not in both_read(jvm, mine, folder)


@pytest.mark.parametrize(("properties", "by"), PROPERTIES, ids=str)
def test_delta_reads_and_changes_a_clone_made_by_lakescan(
    jvm: Any, warehouse: Path, properties: dict[str, str], by: str
) -> None:
    source, folder = made(jvm, warehouse, "clone own, 100% here", properties, by)
    target = warehouse / "delta" / f"own clone {len(properties)} {by}"
    lakescan.table(folder).clone(target)
    clone = f"delta.`{target}`"
    expected = jvm.sql(f"SELECT * FROM {source}").toArrow()
    forget(jvm)
    assert differences(jvm.sql(f"SELECT * FROM {clone}").toArrow(), expected) == ""
    assert differences(lakescan.table(target).to_arrow(), expected) == ""
    assert checked(jvm, str(target))
    jvm.sql(f"DELETE FROM {clone} WHERE id IN (4, 14)")
    jvm.sql(f"INSERT INTO {clone} VALUES (100, 'new', 'a')")
    left = both_read(jvm, clone, target)
    assert {4, 14}.isdisjoint(left)
    lakescan.table(target).delete("id = 5")
    assert 5 not in both_read(jvm, clone, target)
    assert differences(lakescan.table(folder).to_arrow(), expected) == ""


@pytest.mark.parametrize(("properties", "by"), PROPERTIES[:3], ids=str)
def test_lakescan_reads_and_changes_a_clone_made_by_delta(
    jvm: Any, warehouse: Path, properties: dict[str, str], by: str
) -> None:
    source, _ = made(jvm, warehouse, "clone jvm, 100% there", properties, by)
    target = warehouse / "delta" / f"jvm clone {len(properties)} {by}"
    jvm.sql(f"CREATE TABLE delta.`{target}` SHALLOW CLONE {source}")
    expected = jvm.sql(f"SELECT * FROM {source}").toArrow()
    assert differences(lakescan.table(target).to_arrow(), expected) == ""
    lakescan.table(target).delete("id IN (4, 14)")
    lakescan.table(target).append(pa.table({"id": [100], "text": ["new"], "part": ["a"]}))
    assert {4, 14}.isdisjoint(both_read(jvm, f"delta.`{target}`", target))
    lakescan.table(target).compact(purge=True, min_input_files=1)
    assert 100 in both_read(jvm, f"delta.`{target}`", target)
    lakescan.table(target).clone(target.with_name(f"{target.name} again"))
    again = target.with_name(f"{target.name} again")
    assert differences(lakescan.table(again).to_arrow(), lakescan.table(target).to_arrow()) == ""


def test_a_folder_that_spark_wrote_is_converted_as_by_delta(jvm: Any, warehouse: Path) -> None:
    values = """SELECT id, CAST(id AS INT) AS i, concat('n', id) AS text, CAST(id * 1.25 AS DECIMAL(12, 3)) AS price,
        timestamp_seconds(id * 100000) AS at, date_add(DATE '2026-01-01', CAST(id AS INT)) AS d,
        named_struct('a', id, 'b', array(id, null)) AS s, map('k', id) AS m, id > 3 AS flag, id / 3.0D AS f,
        DATE '2026-01-01' AS day, CASE WHEN id < 5 THEN 'a b/c' END AS part FROM range(0, 10, 1, 2)"""
    folders = [warehouse / "delta" / f"converted by {who}" for who in ("delta", "us")]
    for folder in folders:
        jvm.sql(values).write.partitionBy("day", "part").parquet(str(folder))
    theirs, mine = folders
    jvm.sql(f"CONVERT TO DELTA parquet.`{theirs}` PARTITIONED BY (day DATE, part STRING)")
    lakescan.convert_to_delta(mine, partition_by="day DATE, part STRING")
    forget(jvm)
    expected = jvm.sql(f"SELECT * FROM delta.`{theirs}`").toArrow()
    assert differences(jvm.sql(f"SELECT * FROM delta.`{mine}`").toArrow(), expected) == ""
    assert differences(lakescan.table(mine).to_arrow(), expected) == ""
    schemas = [json.loads(state(folder)[1].schema_string) for folder in folders]
    assert schemas[0] == schemas[1]
    assert info(mine)["operation"] == info(theirs)["operation"]
    wanted = info(theirs)["parameters"]
    assert info(mine)["parameters"] == {**wanted, "partitionedBy": json.dumps(json.loads(wanted["partitionedBy"]))}
    assert checked(jvm, str(mine))
    for query in ("at > '1970-01-03'", "price > 5", "i = 7", "d < '2026-01-04'", "s.a >= 8", "part IS NULL"):
        found = jvm.sql(f"SELECT id FROM delta.`{mine}` WHERE {query}").toArrow()
        assert sorted(found["id"].to_pylist()) == sorted(
            lakescan.table(mine).scan().where(query).to_arrow()["id"].to_pylist()
        )
