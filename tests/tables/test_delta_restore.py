"""RESTORE of Delta tables: an earlier state becomes the newest version, and the versions in between stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.delta.target import DeltaTarget
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from tests.support.delta_rules import identity, table_with_rules
from tests.support.delta_state import newest_version, state
from tests.support.two_commits import save_in_two_commits


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "part": ["a" if n % 2 else "b" for n in ids]})


@pytest.fixture
def table(tmp_path: Path) -> lakescan.Table:
    """Version 1 has 1 and 2, version 2 adds 3 and 4, version 3 lacks 1 (by a vector), version 4 has only 9."""
    save_in_two_commits(rows(1, 2), tmp_path / "t", format="delta", properties={"delta.enableDeletionVectors": "true"})
    table = lakescan.table(tmp_path / "t")
    table.append(rows(3, 4))
    table.delete("id = 1")
    table.overwrite(rows(9))
    return table


def ids(table: lakescan.Table) -> list[int]:
    return sorted(table.to_arrow()["id"].to_pylist())


def commit(table: lakescan.Table) -> dict[str, Any]:
    folder = Path(table.location)
    found: dict[str, Any] = {}
    for line in (folder / "_delta_log" / f"{newest_version(folder):020d}.json").read_text().splitlines():
        found.update(json.loads(line))
    return found


@pytest.mark.parametrize(("version", "expected"), [(0, []), (1, [1, 2]), (2, [1, 2, 3, 4]), (3, [2, 3, 4])])
def test_a_restored_version_has_its_rows(table: lakescan.Table, version: int, expected: list[int]) -> None:
    result = table.restore(version)
    assert (ids(table), table.version, result.version) == (expected, 5, version)
    assert result.num_of_files_after_restore == len(state(Path(table.location))[2])
    assert result.table_size_after_restore == sum(each["size"] for each in state(Path(table.location))[2])
    assert commit(table)["commitInfo"]["operation"] == "RESTORE"
    assert commit(table)["commitInfo"]["operationParameters"] == {"version": version, "timestamp": None}
    assert sorted(table.inspect("history")["version"].to_pylist()) == [0, 1, 2, 3, 4, 5]
    table.append(rows(7))
    assert ids(table) == sorted([*expected, 7])


def test_a_restored_version_can_be_undone(table: lakescan.Table) -> None:
    table.restore(1)
    table.restore(4)
    assert ids(table) == [9]


def test_files_of_both_states_stay_unchanged(table: lakescan.Table) -> None:
    table.restore(2)
    result = table.restore(3)
    assert (result.num_removed_files, result.num_restored_files) == (1, 1)  # the file with another vector


def test_a_time_selects_the_version(table: lakescan.Table) -> None:
    times = {r["version"]: r["timestamp"] for r in table.history().to_pylist()}
    table.restore(timestamp=times[2])
    assert ids(table) == [1, 2, 3, 4]
    assert commit(table)["commitInfo"]["operationParameters"]["version"] is None


def test_columns_and_properties_are_restored_and_the_protocol_stays(table: lakescan.Table) -> None:
    changes = table.alter().set_properties({"delta.columnMapping.mode": "name", "owner": "me"})
    changes.rename_column("id", "key").commit()
    protocol = state(Path(table.location))[0]
    table.restore(3)
    assert table.schema.names == ["id", "part"]
    assert "owner" not in table.properties
    assert state(Path(table.location))[0] == protocol
    assert ids(table) == [2, 3, 4]


def test_clustering_columns_are_restored(table: lakescan.Table) -> None:
    table.alter().cluster_by("id").commit()
    table.alter().cluster_by("part").commit()
    table.restore(5)
    assert json.loads(commit(table)["domainMetadata"]["configuration"])["clusteringColumns"] == [["id"]]
    table.restore(4)
    assert commit(table)["domainMetadata"]["removed"] is True
    table.append(rows(5))


def test_identity_values_are_not_assigned_twice(tmp_path: Path) -> None:
    table = table_with_rules(tmp_path, {"id": "long", "n": "integer"}, {"id": identity()})
    given = pa.table({"n": pa.array([1, 2], pa.int32())})
    table.append(given)
    table.append(given)
    before = set(ids(table))
    table.restore(1)
    table.append(given)
    assert not before & (set(ids(table)) - {1, 2})


def test_restored_rows_keep_their_row_ids(table: lakescan.Table) -> None:
    table.alter().set_properties({"delta.enableRowTracking": True}).commit()
    table.append(rows(20, 21))

    def row_ids() -> dict[int, int]:
        found = table.scan().select("id", "_row_id").to_arrow().to_pylist()
        return {r["id"]: r["_row_id"] for r in found}

    before = row_ids()
    table.overwrite(rows(30))
    table.restore(6)
    assert row_ids() == before
    table.append(rows(40))
    assert len(set(row_ids().values())) == 4


def test_missing_files_are_named_and_nothing_is_changed(table: lakescan.Table) -> None:
    (file,) = [each["path"] for each in state(Path(table.location), 1)[2]]
    Path(file).unlink()
    with pytest.raises(lakescan.MissingFile, match=Path(file).name):
        table.restore(1)
    assert newest_version(Path(table.location)) == 4


def test_concurrently_added_rows_are_not_lost(table: lakescan.Table) -> None:
    target = DeltaTarget.open(table.location, WriteOptions(), Storage())
    _ = target.version
    lakescan.table(table.location).append(rows(11))
    with pytest.raises(lakescan.CommitConflict, match="version 5"):
        target.restore(1, None)
    assert ids(lakescan.table(table.location)) == [9, 11]


def test_the_change_feed_has_restored_and_removed_rows(table: lakescan.Table) -> None:
    table.alter().set_properties({"delta.enableChangeDataFeed": True}).commit()
    table.append(rows(15))
    table.restore(5)
    changes = table.changes(start=6).to_arrow().to_pylist()
    assert [(r["id"], r["_change_type"]) for r in changes] == [(15, "delete")]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, lakescan.InvalidOption),
        ({"version": 1, "timestamp": "2026-01-01"}, lakescan.InvalidOption),
        ({"version": 9}, lakescan.NoSuchSnapshot),
        ({"version": "main"}, lakescan.NoSuchSnapshot),
        ({"timestamp": "2001-01-01"}, lakescan.NoSuchSnapshot),
        ({"timestamp": "2199-01-01"}, lakescan.NoSuchSnapshot),
    ],
)
def test_a_state_that_cannot_be_restored_is_refused(
    table: lakescan.Table, given: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        table.restore(**given)
    assert newest_version(Path(table.location)) == 4


def test_an_append_only_table_keeps_its_rows(table: lakescan.Table) -> None:
    table.alter().set_properties({"delta.appendOnly": True}).commit()
    with pytest.raises(lakescan.UnsupportedFeature, match="appendOnly"):
        table.restore(1)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
@pytest.mark.parametrize("by", ["version", "timestamp", "again"])
def test_restoring_the_current_version_changes_nothing(local: lakescan.Catalog, format: str, by: str) -> None:
    table = local.create_table("db.t", "id BIGINT, part STRING", format=format)
    table.append(rows(1, 2))
    first = table.version
    table.append(rows(3))
    if by == "again":
        table.restore(first)
    before, history = ids(table), len(table.history())
    newest = max(table.history()["timestamp"].to_pylist()) if format == "delta" else "2199-01-01"
    wanted = {"version": table.version} if by != "timestamp" else {"timestamp": newest}
    result = table.restore(**wanted)
    assert (result.version, result.num_removed_files, result.num_restored_files) == (table.version, 0, 0)
    assert result.num_of_files_after_restore == (1 if by == "again" else 2)
    lakescan.sql(f"RESTORE TABLE local.db.t TO VERSION AS OF {table.version}")
    assert (ids(table), len(table.history())) == (before, history)
