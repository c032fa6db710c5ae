"""Expired and removed files are deleted from storage, however they are removed; young ones only with a reason."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lakescan
from lakescan.cli.commands import app
from lakescan.errors import InvalidOption
from tests.tables.support import NAME, Make, data_files, now, rows


def by_python() -> Any:
    return now().expire_snapshots(datetime.now(UTC), retain_last=1)


def by_command_line() -> Any:
    text = datetime.now(UTC).isoformat()
    result = CliRunner().invoke(app, ["expire-snapshots", NAME, "--older-than", text, "--retain-last", "1"])
    assert result.exit_code == 0, result.output


def by_call() -> Any:
    text = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    lakescan.sql(
        f"CALL local.system.expire_snapshots(table => 'db.t', older_than => TIMESTAMP '{text}', retain_last => 1)"
    ).to_arrow()


@pytest.mark.parametrize("expire", [by_python, by_command_line, by_call])
def test_expiry_removes_the_files_that_only_expired_snapshots_had(
    local: lakescan.Catalog, expire: Callable[[], Any]
) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    for number in range(3):
        now().append(rows((number, "person"), (number + 10, "other")))
    now().delete("part = 'person'")
    expire()
    folder = Path(now().folder.removeprefix("file://"))
    assert data_files(folder) == len(now().inspect("files"))
    assert len(list((folder / "metadata").glob("snap-*.avro"))) == 1


def test_files_stay_if_removal_is_disabled(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING")
    for number in range(3):
        now().overwrite(rows((number, "a")))
    folder = Path(now().folder.removeprefix("file://"))
    result = now().expire_snapshots(datetime.now(UTC), clean_expired_files=False)
    assert (int(result), result.removed_files, data_files(folder)) == (2, 0, 3)


def test_young_orphans_are_removed_only_with_a_reason(made: Make, caplog: pytest.LogCaptureFixture) -> None:
    made(partition_by=())
    now().append(rows((1, "a"), (2, "b")))
    folder = Path(now().folder.removeprefix("file://"))
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "stray.parquet").write_bytes(b"x")
    with pytest.raises(InvalidOption, match="ignore_retention"):
        now().remove_orphans(datetime.now(UTC))
    with pytest.raises(InvalidOption, match="is the reason"):
        now().remove_orphans(datetime.now(UTC), ignore_retention=" ")
    with caplog.at_level(logging.WARNING):
        removed = now().remove_orphans(datetime.now(UTC), ignore_retention="request 4711")
    assert [each.rpartition("/")[2] for each in removed] == ["stray.parquet"]
    assert any("request 4711" in each.message for each in caplog.records)
    assert now().count() == 2


def test_a_delta_log_ends_at_its_checkpoint_if_nothing_before_it_is_kept(tmp_path: Path) -> None:
    for number in range(4):
        lakescan.save(rows((number, "a")), str(tmp_path / "t"), format="delta", mode="append")
    table = lakescan.table(str(tmp_path / "t"))
    table.checkpoint(log_retention=timedelta(days=1))
    assert len(list((tmp_path / "t" / "_delta_log").glob("*.json"))) == 4
    assert table.checkpoint(log_retention=timedelta(0)).version == 3
    assert [each.name for each in sorted((tmp_path / "t" / "_delta_log").glob("*.json"))] == [f"{3:020}.json"]
    assert lakescan.table(str(tmp_path / "t")).count() == 4
