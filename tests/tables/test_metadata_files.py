"""Metadata files: their location, compression and number follow the table's properties."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.iceberg.metadata.pyiceberg_metadata import metadata_writes
from tests.tables.support import maker, now, pairs, rows

A, B = (1, "a"), (2, "b")
OLD_ONES_GO = {"write.metadata.previous-versions-max": "2", "write.metadata.delete-after-commit.enabled": "true"}


@pytest.fixture(params=["iceberg", "iceberg version 3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(kind: str, local: lakescan.Catalog, **properties: str) -> lakescan.Table:
    return maker(kind, local)(properties=properties)


def stored(folder: Path) -> set[str]:
    return {file.name for file in folder.rglob("*.metadata.json")}


def named() -> set[str]:
    table = connection("local").load_table("db.t")
    log = [each.metadata_file for each in table.metadata.metadata_log]
    return {Path(each).name for each in (*log, table.metadata_location)}


def set_in_another_way(**properties: str) -> None:
    with connection("local").load_table("db.t").transaction() as transaction:
        transaction.set_properties(properties)


@contextmanager
def lost_answers() -> Iterator[None]:
    commit = SqlCatalog.commit_table

    def lost(self: Any, *arguments: Any) -> Any:
        commit(self, *arguments)
        raise ConnectionError("no answer")

    with patch.object(SqlCatalog, "commit_table", lost):
        yield


def test_metadata_is_compressed_if_the_table_asks_for_it(kind: str, local: lakescan.Catalog, tmp_path: Path) -> None:
    made(kind, local, **{"write.metadata.compression-codec": "gzip"})
    now().append(rows(A))
    now().append(rows(B), branch="side")
    now().append(rows(B))
    files = list(tmp_path.rglob("*.metadata.json"))
    assert len(files) == len(stored(tmp_path)) == 5
    assert all(file.name.endswith(".gz.metadata.json") and file.read_bytes()[:2] == b"\x1f\x8b" for file in files)
    assert sorted(int(file.name.partition("-")[0]) for file in files) == [0, 1, 2, 3, 4]
    assert pairs() == [A, B]
    assert lakescan.table(now().location).scan().count() == 2
    assert connection("local").load_table("db.t").scan().count() == 2


def test_other_pyiceberg_catalogs_write_as_before(kind: str, local, tmp_path: Path) -> None:
    made(kind, local, **{"write.metadata.compression-codec": "gzip"}).append(rows(A))
    theirs = SqlCatalog("local", **connection("local").properties).load_table("db.t")
    if kind == "iceberg":
        theirs.transaction().set_properties(owner="me").commit_transaction()
        assert len([name for name in stored(tmp_path) if ".gz." not in name]) == 1
        assert pairs() == [A]
    else:
        with pytest.raises(NotImplementedError, match="V3"):
            theirs.transaction().set_properties(owner="me").commit_transaction()


def test_an_unknown_codec_is_refused_before_anything_is_committed(local: lakescan.Catalog, tmp_path: Path) -> None:
    table = made("iceberg", local)
    set_in_another_way(**{"write.metadata.compression-codec": "zip"})
    with pytest.raises(lakescan.InvalidOption, match=r"compression-codec'='zip'"):
        table.append(rows(A))
    assert pairs() == []


def test_a_table_keeps_the_configured_number_of_old_metadata_files(kind: str, local, tmp_path: Path) -> None:
    made(kind, local, **OLD_ONES_GO)
    for number in range(5):
        now().append(rows((number, "a")))
    assert len(pairs()) == 5
    assert stored(tmp_path) == named()
    assert len(named()) == 3


@pytest.mark.parametrize(
    "properties", [{"write.metadata.delete-after-commit.enabled": "false"}, {"gc.enabled": "false"}]
)
def test_old_metadata_files_stay_if_commits_may_not_remove_them(
    properties: dict[str, str], local, tmp_path: Path
) -> None:
    made("iceberg", local, **{**OLD_ONES_GO, **properties})
    for number in range(4):
        now().append(rows((number, "a")))
    assert len(named()) == 3
    assert len(stored(tmp_path)) == 5


def test_a_commit_with_a_lost_answer_removes_no_metadata_files(
    kind: str, local: lakescan.Catalog, tmp_path: Path
) -> None:
    made(kind, local, **OLD_ONES_GO)
    for number in range(3):
        now().append(rows((number, "a")))
    before = stored(tmp_path)
    with lost_answers():
        now().append(rows((3, "a")))
    assert before < stored(tmp_path)
    assert len(pairs()) == 4


def test_a_failed_commit_removes_no_metadata_files(local: lakescan.Catalog, tmp_path: Path) -> None:
    from pyiceberg.exceptions import CommitFailedException

    made("iceberg", local, **OLD_ONES_GO, **{"commit.retry.num-retries": "0"})
    for number in range(3):
        now().append(rows((number, "a")))
    before = stored(tmp_path)
    refused = patch.object(SqlCatalog, "commit_table", side_effect=CommitFailedException("refused"))
    with refused, pytest.raises(lakescan.CommitConflict):
        now().append(rows(B))
    assert stored(tmp_path) == before


def test_metadata_is_in_the_configured_folder(kind: str, local: lakescan.Catalog, tmp_path: Path) -> None:
    made(kind, local, **{"write.metadata.path": f"file://{tmp_path}/elsewhere/"})
    now().append(rows(A))
    assert {file.parent.name for file in tmp_path.rglob("*.avro")} == {"elsewhere"}
    assert {file.parent.name for file in tmp_path.rglob("*.metadata.json")} == {"elsewhere"}
    assert pairs() == [A]


@pytest.mark.parametrize("name", ["write.location-provider.impl", "write.py-location-provider.impl"])
def test_a_class_named_by_a_table_is_not_run(name: str, local: lakescan.Catalog, tmp_path: Path) -> None:
    made("iceberg", local)
    set_in_another_way(**{name: "pyiceberg.table.locations.SimpleLocationProvider"})
    with pytest.raises(lakescan.UnsupportedFeature, match=f"'{name}'.*Only Iceberg's own providers"):
        now().append(rows(A))
    assert not list(tmp_path.rglob("*.parquet"))


def test_immutable_errors_are_passed_through_unchanged() -> None:
    class Refusal(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            raise TypeError("can't modify immutable instance")  # as errors of a Hive metastore do

    with pytest.raises(Refusal), metadata_writes({}, "db.t"):
        raise Refusal
