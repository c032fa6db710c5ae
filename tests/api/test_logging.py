"""DEBUG lines: planning, pruning, requests and commits can be watched, and show no secrets."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

import lakescan
from lakescan.common.secrets import secret
from lakescan.delta.commit import commit_file

ROWS = pa.table({"id": [1, 2], "day": ["2026-01-01", "2026-01-02"]})


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The DEBUG lines of all loggers of lakescan."""
    caplog.set_level(logging.DEBUG, logger="lakescan")
    return caplog


def messages(lines: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [each.getMessage() for each in lines.records if each.name == logger]


@pytest.mark.parametrize(("form", "metadata"), [("iceberg", "manifests"), ("delta", "log files")])
def test_a_plan_logs_how_many_files_each_step_skipped(
    lines: pytest.LogCaptureFixture, tmp_path: Path, form: str, metadata: str
) -> None:
    local = lakescan.catalog("local", warehouse=tmp_path)
    local.create_namespace("db")
    lakescan.save(ROWS, "local.db.t", format=form, partition_by="day")
    lines.clear()
    lakescan.table("local.db.t").scan().where("day = '2026-01-02'").plan()
    opened, planned, pruned = messages(lines, "lakescan.planning")
    assert opened == "opening local.db.t"
    assert "planned 1 files (1 skipped)" in planned
    assert f"1 of 1 {metadata} read; files skipped by partition: 1, by statistics: 0, by limit: 0" in pruned


def test_each_file_that_is_opened_listed_or_created_is_a_line(lines: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    lakescan.save(ROWS, tmp_path / "t", format="delta")
    log = f"{tmp_path}/t/_delta_log"
    assert f"create {log}/00000000000000000000.json" in messages(lines, "lakescan.requests")
    lines.clear()
    lakescan.table(tmp_path / "t").to_arrow()
    requests = messages(lines, "lakescan.requests")
    assert f"list {log}" in requests
    assert f"open {log}/00000000000000000000.json" in requests
    assert [each for each in requests if each.startswith(f"open {tmp_path}/t/part-")]


def test_a_write_logs_its_result(lines: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    lakescan.save(ROWS, tmp_path / "t", format="delta")
    lakescan.table(tmp_path / "t").append(ROWS)
    written = messages(lines, "lakescan.commits")
    assert len(written) == 2
    assert all(each.startswith(f"{tmp_path}/t: 1 file written (2 rows") for each in written)


def test_a_commit_that_lost_to_another_writer_is_a_line(lines: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    lakescan.save(ROWS, tmp_path / "t", format="delta")
    mine = lakescan.table(tmp_path / "t")
    calls: list[str] = []
    real = commit_file.put_if_absent

    def lose_first(storage: Any, location: str, data: bytes) -> bool:
        if location.endswith("1.json") and not calls:
            calls.append(location)
            real(storage, location, b'{"commitInfo":{"operation":"WRITE"}}\n')
            return False
        return real(storage, location, data)

    with mock.patch.object(commit_file, "put_if_absent", lose_first):
        mine.append(ROWS)
    assert any("attempt 1 failed because of concurrent commits" in each for each in messages(lines, "lakescan.commits"))


def test_lines_of_every_logger_hide_secrets(lines: pytest.LogCaptureFixture) -> None:
    secret("not-for-logs-7f3a")
    for name in ("lakescan", *(f"lakescan.{each}" for each in ("planning", "requests", "commits", "metrics", "sql"))):
        logging.getLogger(name).warning("a token: %s", "not-for-logs-7f3a")
    assert "not-for-logs-7f3a" not in lines.text
