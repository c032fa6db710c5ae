"""EXPLAIN of statements that change rows shows the planned changes without making them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import NoSuchColumn, NoSuchTable, UnsupportedFeature
from tests.tables.support import Make, maker, now, pairs, rows

pytestmark = pytest.mark.usefixtures("no_other_catalogs")


@pytest.fixture(params=["iceberg", "delta"])
def made(request: pytest.FixtureRequest, local: lakescan.Catalog) -> Make:
    """Return a function that makes the table `local.db.t`, for each format in turn."""
    return maker(request.param, local)


@pytest.fixture
def table(made: Make) -> lakescan.Table:
    """Rows 1 to 4 of two partitions, one file per row."""
    made().append(rows((1, "a"), (2, "a"), (3, "b"), (4, "b")))
    return now()


def explained(text: str, **frames: object) -> list[str]:
    [plan] = lakescan.sql(f"EXPLAIN {text}", **frames).to_arrow()["plan"].to_pylist()
    return str(plan).splitlines()


def test_a_delete_shows_removed_files_and_read_files(table: lakescan.Table) -> None:
    head, whole, read, *_ = explained("DELETE FROM local.db.t WHERE part = 'a' OR id = 4")
    assert head == "DELETE FROM local.db.t (copy-on-write)"
    assert whole == "files removed without being read: 1, of 2 rows"
    assert read.startswith("files that are read, where ")
    assert read.endswith(": 1")


def test_an_update_shows_the_scan_of_its_rows(table: lakescan.Table) -> None:
    head, scan, *rest = explained("UPDATE local.db.t SET id = id + 1 WHERE part = 'b' AND id % 2 = 0")
    assert head == "UPDATE local.db.t (copy-on-write)"
    assert scan.startswith("local.db.t: columns ")
    assert "part = 'b'" in scan
    assert any("1" in line and "files" in line for line in rest)


def test_a_merge_shows_the_files_that_its_source_excludes(table: lakescan.Table) -> None:
    text = "MERGE INTO local.db.t USING s ON t.part = s.part AND t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    head, *rest = explained(text, s=rows((3, "b")))
    assert head == "MERGE INTO local.db.t (copy-on-write)"
    assert any(line.startswith("local.db.t: ") for line in rest)


def test_an_insert_shows_its_query(table: lakescan.Table) -> None:
    head, scan, *_ = explained("INSERT OVERWRITE local.db.t SELECT id, part FROM local.db.t WHERE part = 'a'")
    assert head == "INSERT OVERWRITE local.db.t"
    assert scan.startswith("local.db.t: ")
    assert "part = 'a'" in scan


def test_explain_changes_nothing(table: lakescan.Table, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    source = pa.table({"id": [1], "part": ["z"], "more": [1]})
    on = "MERGE {} INTO local.db.t t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    for text in (
        "DELETE FROM local.db.t",
        "TRUNCATE TABLE local.db.t",
        "DELETE FROM local.db.t WHERE id IN (SELECT id FROM s)",
        "UPDATE local.db.t SET part = 'x'",
        on.format(""),
        "INSERT INTO local.db.t SELECT id, part FROM s",
        "INSERT INTO local.db.t VALUES (7, 'x')",
    ):
        assert "local.db.t" in explained(text, s=source)[0]
    with pytest.raises(UnsupportedFeature, match="more"):
        explained(on.format("WITH SCHEMA EVOLUTION"), s=source)
    assert sorted(tmp_path.rglob("*")) == before
    assert pairs() == [(1, "a"), (2, "a"), (3, "b"), (4, "b")]


def test_a_statement_that_cannot_run_is_not_explained(table: lakescan.Table) -> None:
    with pytest.raises(NoSuchColumn, match="ident"):
        explained("UPDATE local.db.t SET ident = 1")
    with pytest.raises(NoSuchTable, match="nothing"):
        explained("DELETE FROM local.db.nothing")
