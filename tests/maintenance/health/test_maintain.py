"""Maintenance by health: the needed steps run in order, rows stay, and a failed step does not stop the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakescan
from lakescan.api.table import Table
from tests.tables.aged import folder_of, make_old, write_stray_files
from tests.tables.support import Make, now, pairs, rows


def worn(table: lakescan.Table) -> lakescan.Table:
    """Give a table six commits of small files, deletes, and a stray file."""
    for number in range(6):
        table.append(rows(*((10 * number + n, "ab"[n % 2]) for n in range(10))))
    now().delete("id = 3")
    write_stray_files(folder_of(now().folder) / "data" / "stray.parquet")
    return now()


def files_under(folder: Path) -> set[Path]:
    return {each for each in folder.rglob("*") if each.is_file() and each.name != "catalog.db"}


def names(result: lakescan.MaintainResult) -> list[str]:
    return [step.name for step in result.steps]


def test_needed_steps_run_and_the_rows_stay(made: Make) -> None:
    table, before = worn(made()), pairs()
    result = table.maintain()
    assert not result.failed
    assert names(result)[0] == "compact"
    assert names(result)[-1] == "remove_orphans"
    assert pairs() == before
    assert now().health(orphans=True).is_healthy
    assert not (folder_of(now().folder) / "data" / "stray.parquet").exists()
    again = now().maintain()
    assert names(again) == ["remove_orphans"]
    assert "0 files removed" in str(again)


def test_a_dry_run_lists_the_steps_and_changes_nothing(made: Make, tmp_path: Path) -> None:
    table = worn(made())
    before, version = files_under(tmp_path), now().version
    result = table.maintain(dry_run=True)
    assert result.dry_run
    assert str(result.steps[0]).startswith("compact: would rewrite 1")
    assert "would be removed" in str(result.steps[-1])
    assert (files_under(tmp_path), now().version) == (before, version)


def test_every_step_runs_on_an_iceberg_table(local: lakescan.Catalog) -> None:
    properties = {
        "format-version": "2",
        "commit.manifest-merge.enabled": "false",
        "history.expire.max-snapshot-age-ms": "1",
        "write.delete.mode": "merge-on-read",
        "write.delete.granularity": "partition",
    }
    made = local.create_table("db.t", "id BIGINT, part STRING", properties=properties)
    made.append(rows(*((n, "a") for n in range(100))))
    for number in range(6):
        now().delete(f"id = {number}")
    now().upsert(rows((50, "new")), keys=["id"], upsert_mode="equality")
    before = pairs()
    result = now().maintain()
    assert not result.failed
    steps = ["convert_equality_deletes", "rewrite_position_deletes", "rewrite_manifests", "expire_snapshots"]
    assert names(result) == [*steps, "remove_orphans"]
    assert pairs() == before
    assert len(now().inspect("snapshots")) == 1
    files = folder_of(now().folder)
    live = now().inspect("files")["file_path"].to_pylist()
    assert {str(folder_of(each)) for each in live} == {str(each) for each in (files / "data").rglob("*.parquet")}


def test_a_failed_step_is_reported_and_the_others_run(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Any, **options: Any) -> None:
        raise lakescan.CommitConflict("another writer was faster")

    table = worn(made())
    monkeypatch.setattr(Table, "compact", fails)
    result = table.maintain()
    assert [(step.name, step.error) for step in result.failed] == [
        ("compact", "CommitConflict: another writer was faster")
    ]
    assert str(result).splitlines()[0] == "compact: failed: CommitConflict: another writer was faster"
    assert not (folder_of(now().folder) / "data" / "stray.parquet").exists()


def test_steps_can_be_left_out_and_an_unknown_one_is_refused(made: Make) -> None:
    table = worn(made())
    assert "remove_orphans" not in names(table.maintain(skip=["remove_orphans"]))
    with pytest.raises(lakescan.InvalidOption, match="Did you mean 'remove_orphans'"):
        now().maintain(skip=["remove_orphan"])


def test_a_table_whose_files_are_not_its_own_keeps_them(local: lakescan.Catalog) -> None:
    properties = {"gc.enabled": "false", "history.expire.max-snapshot-age-ms": "1"}
    table = worn(local.create_table("db.t", "id BIGINT, part STRING", properties=properties))
    result = table.maintain()
    assert not result.failed
    assert not {"remove_orphans", "expire_snapshots"} & set(names(result))
    assert "gc.enabled is not true" in str(now().health())


def test_expiry_removes_the_files_that_only_expired_snapshots_had(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    now().append(rows((1, "a")))
    now().create_tag("first")
    now().overwrite(rows((2, "b")))
    now().create_branch("audit")
    now().append(rows((3, "c")), branch="audit")
    now().overwrite(rows((4, "d")))
    now().overwrite(rows((5, "e")))
    data = folder_of(now().folder) / "data"
    assert len(list(data.rglob("*.parquet"))) == 5
    assert now().expire_snapshots("2100-01-01", clean_expired_files=True, dry_run=True).removed_files == 0
    before = files_under(folder_of(now().folder))
    result = now().expire_snapshots("2100-01-01", clean_expired_files=True)
    gone = before - files_under(folder_of(now().folder))
    assert str(result) == f"2 snapshots expired; {len(gone)} files removed"
    assert result.removed_files == len(gone)
    assert len([each for each in gone if each.suffix == ".parquet"]) == 1  # the delete of row 4
    assert len([each for each in gone if each.name.startswith("snap-")]) == 2
    assert pairs() == [(5, "e")]
    assert now().scan().as_of(tag="first").to_arrow()["id"].to_pylist() == [1]
    assert sorted(now().scan().as_of(branch="audit").to_arrow()["id"].to_pylist()) == [2, 3]
    make_old(folder_of(now().folder))
    assert list(now().remove_orphans()) == []
