"""Results of writes and maintenance describe the changes, as values and as a sentence."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan import CheckpointResult, CompactResult, ExpireResult, OrphanResult, WriteResult
from tests.support.two_commits import save_in_two_commits

LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def table(tmp_path: Path) -> lakescan.Table:
    lake = lakescan.catalog("local", warehouse=tmp_path / "lake")
    lake.create_namespace("db")
    made = lake.create_table("db.t", "id BIGINT")
    for number in range(3):
        made.append(pa.table({"id": [number]}))
    return made


def test_a_compaction_reports_the_replaced_files(table: lakescan.Table) -> None:
    before = table.inspect("files")["file_size_in_bytes"].to_pylist()
    done = table.compact()
    after = table.inspect("files")["file_size_in_bytes"].to_pylist()
    assert done == CompactResult(1, 3, sum(after), 3, sum(before))
    assert str(done).startswith("compacted 3 files into 1 (")
    assert repr(done) == f"CompactResult({done})"
    assert str(table.compact()) == "nothing to compact"


def test_an_expiry_names_the_snapshots_and_branches(table: lakescan.Table) -> None:
    table.append(pa.table({"id": [9]}), branch="old")
    *ids, _ = table.inspect("snapshots")["snapshot_id"].to_pylist()
    listed = table.expire_snapshots(LATER, dry_run=True)
    assert listed == ExpireResult(tuple(sorted(ids[:2])), (), dry_run=True)
    assert str(listed) == "2 snapshots would be expired"
    done = table.expire_snapshots(LATER)
    assert (done.snapshots, str(done), int(done)) == (listed.snapshots, "2 snapshots expired; 2 files removed", 2)
    assert not table.expire_snapshots(LATER)


def test_orphans_are_listed_with_their_size(table: lakescan.Table, tmp_path: Path) -> None:
    stray = next((tmp_path / "lake").rglob("*.parquet")).parent / "stray.parquet"
    stray.write_bytes(b"left behind")
    long_ago = (datetime.now(UTC) - timedelta(days=30)).timestamp()
    os.utime(stray, (long_ago, long_ago))
    listed = table.remove_orphans(dry_run=True)
    assert (len(listed), listed.bytes, listed.dry_run, str(listed)) == (1, 11, True, "11 B in 1 file would be removed")
    assert Path(listed[0]).name == stray.name
    assert stray.exists()
    done = table.remove_orphans()
    assert (list(done), done.bytes, str(done)) == (list(listed), 11, "11 B in 1 file removed")
    assert str(table.remove_orphans()) == "0 files removed"


def test_a_checkpoint_names_its_version(tmp_path: Path) -> None:
    save_in_two_commits(pa.table({"id": [1]}), tmp_path / "d", format="delta")
    delta = lakescan.table(tmp_path / "d")
    delta.append(pa.table({"id": [2]}))
    assert delta.checkpoint() == CheckpointResult(version=2)
    assert str(delta.checkpoint()) == "wrote a checkpoint of version 2"


def test_a_write_reports_its_rows_and_files(table: lakescan.Table) -> None:
    done = table.overwrite(pa.table({"id": [7, 8]}))
    assert str(done) == f"1 file written (2 rows, {done.bytes} B); 3 files removed"
    assert str(WriteResult(0, 0, 0)) == "nothing written"


@given(ids=st.frozensets(st.integers(1, 99), max_size=5), files=st.lists(st.text(), max_size=5, unique=True))
def test_results_have_the_length_of_their_lists(ids: frozenset[int], files: list[str]) -> None:
    expired, orphans = ExpireResult(tuple(sorted(ids))), OrphanResult(tuple(files))
    assert int(expired) == len(ids)
    assert (f"{expired:,}", list(orphans), len(orphans)) == (str(len(ids)), files, len(files))
    assert (expired == len(ids), orphans == files) == (False, False)
