"""Delta on Spark reads lakescan's change data files and row ids, and continues them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.delta_state import newest_version
from tests.support.rows import differences

import lakescan
from interop.test_delta import written
from interop.test_delta_commits import forget

FEED, IDS, VECTORS = "delta.enableChangeDataFeed", "delta.enableRowTracking", "delta.enableDeletionVectors"
COLUMNS = "id BIGINT, text STRING, s STRUCT<x: INT>, part STRING"
BY_PART = "PARTITIONED BY (part)"


def made(jvm: Any, warehouse: Path, settings: tuple[str, ...], mode: str, by: str) -> tuple[str, str]:
    """Make a Delta table: ids 0 to 9 in the partition `a b`, 10 to 19 in the null partition, without 3 and 12."""
    properties = ", ".join([f"'delta.columnMapping.mode'='{mode}'", *(f"'{name}'='true'" for name in settings)])
    statements = [
        f"CREATE TABLE {{t}} ({COLUMNS}) USING delta {by} TBLPROPERTIES ({properties})",
        "INSERT INTO {t} SELECT id, concat('n', id), struct(int(id)), 'a b' FROM range(0, 10, 1, 1)",
        "INSERT INTO {t} SELECT id, concat('n', id), struct(int(id)), null FROM range(10, 20, 1, 1)",
        "DELETE FROM {t} WHERE id IN (3, 12)",
    ]
    return written(jvm, warehouse, f"changed in part {settings} {mode} {by}", statements)


def rewrite(location: str) -> None:
    """Make commits that rewrite rows: ids 5 and 11 are removed, 17 to 19 are replaced by 20 and 21."""
    new = [{"id": number, "text": "new", "s": {"x": None}, "part": "c"} for number in (20, 21)]
    table = lakescan.table(location)
    table.overwrite(pa.Table.from_pylist(new), where="id = 5 OR id > 16")
    table.compact()
    table.overwrite(table.to_arrow().slice(0, 0), where="id = 11")


def lineage(jvm: Any, identifier: str) -> dict[int, tuple[int, int]]:
    """Return, by column `id`, each row's row id and commit version as Delta reads them."""
    found = jvm.sql(f"SELECT id, _metadata.row_id, _metadata.row_commit_version FROM {identifier}").collect()
    assert len({row.row_id for row in found}) == len(found)
    return {row.id: (row.row_id, row.row_commit_version) for row in found}


@pytest.mark.parametrize(
    ("settings", "mode", "by"),
    [((FEED,), "none", BY_PART), ((FEED, IDS, VECTORS), "id", "")],
    ids=str,
)
def test_delta_and_lakescan_read_the_same_changes(jvm, warehouse: Path, settings, mode: str, by: str) -> None:
    identifier, location = made(jvm, warehouse, settings, mode, by)
    rewrite(location)
    forget(jvm)
    jvm.sql(f"UPDATE {identifier} SET s.x = 100 WHERE id = 6")
    jvm.sql(f"DELETE FROM {identifier} WHERE id = 20")
    last = newest_version(Path(location))
    reader = jvm.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    expected = reader.load(location).toArrow()
    mine = lakescan.table(location, readChangeFeed=True, startingVersion=0).scan()
    assert differences(mine.to_arrow(), expected) == ""
    own = [row["_change_type"] for row in expected.to_pylist() if 4 <= row["_commit_version"] <= last - 2]
    assert sorted(own) == ["delete"] * 5 + ["insert"] * 2


@pytest.mark.parametrize(
    ("settings", "mode", "by"),
    [((IDS,), "none", ""), ((FEED, IDS, VECTORS), "name", BY_PART)],
    ids=str,
)
def test_rows_keep_their_ids_for_delta(jvm, warehouse: Path, settings, mode: str, by: str) -> None:
    identifier, location = made(jvm, warehouse, settings, mode, by)
    before = lineage(jvm, identifier)
    rewrite(location)
    forget(jvm)
    after = lineage(jvm, identifier)
    assert {each: after[each] for each in after if each < 20} == {
        each: before[each] for each in before if each not in (5, 11, 17, 18, 19)
    }
    assert min(after[20][0], after[21][0]) > max(row_id for row_id, _ in before.values())
    jvm.sql(f"UPDATE {identifier} SET s.x = 100 WHERE id = 6")
    jvm.sql(f"OPTIMIZE {identifier}")
    now = lineage(jvm, identifier)
    assert {each: now[each] for each in now if each != 6} == {each: after[each] for each in after if each != 6}
    assert (now[6][0], now[6][1] > after[6][1]) == (after[6][0], True)
    found = lakescan.table(location).scan().select("id", "_row_id", "_row_commit_version").to_arrow().to_pylist()
    assert {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in found} == now
    assert lakescan.table(location).to_arrow().column_names == ["id", "text", "s", "part"]
