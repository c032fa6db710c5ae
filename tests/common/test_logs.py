"""lakescan's log lines: opened tables, plans, commits and retries, without secrets."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.common.retries import COMMITS, Attempts


def test_tables_plans_and_commits_are_logged_at_debug(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "lakescan")
    lakescan.save(pa.table({"id": [1]}), tmp_path / "t", format="delta")
    table = lakescan.table(tmp_path / "t")
    table.append(pa.table({"id": [2]}))
    assert table.scan().where("id = 2").to_arrow().num_rows == 1
    assert f"opening {tmp_path / 't'}" in caplog.text
    assert "planned 1 files (1 skipped) of snapshot 1" in caplog.text
    assert "1 file written (1 row" in caplog.text


def test_a_retry_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "lakescan")
    Attempts(COMMITS).wait_or_raise("lake.db.t", lakescan.CommitConflict("another writer"))
    assert "lake.db.t: attempt 1 failed because of concurrent commits: another writer" in caplog.text


def test_nothing_is_printed_without_a_handler(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lakescan.save(pa.table({"id": [1]}), tmp_path / "t", format="delta")
    assert capfd.readouterr() == ("", "")
