"""Delta tables whose commits the catalog ratifies: the versions and files that readers use."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

import lakescan
from lakescan.delta.commit.staged_commits import publish_ratified
from tests.support.unity_server import UnityServer
from tests.support.unity_tables import NAME, ids, log_of, published, rows, staged_files, stored


def test_commits_known_only_to_the_catalog_are_read(
    table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        table.append(rows(number))
    assert published(server) == [0]
    assert ids() == [0, 1, 2]
    assert [each["version"] for each in lakescan.table(NAME).history().to_pylist()] == [0, 1, 2, 3]
    assert lakescan.sql(f"SELECT max(id) AS m FROM {NAME} WHERE part = 'a'").to_arrow().to_pylist() == [{"m": 2}]


def test_versions_that_the_catalog_has_not_ratified_are_not_read(table: lakescan.Table, server: UnityServer) -> None:
    table.append(rows(1))
    table.append(rows(2))
    stored(server).latest = 1
    stored(server).commits = {}
    assert ids() == [1]


def test_staged_files_that_the_catalog_does_not_name_are_not_read(table: lakescan.Table, server: UnityServer) -> None:
    table.append(rows(1))
    name = staged_files(server)[0]
    folder = log_of(server) / "_staged_commits"
    shutil.copy(folder / name, folder / f"{2:020d}.{name.split('.')[1]}.json")
    assert ids() == [1]


def test_a_commit_named_by_the_catalog_replaces_the_published_one(
    table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch
) -> None:
    table.append(rows(1))
    (log_of(server) / f"{1:020d}.json").write_text("this is not the commit")
    assert ids() == [1]


def test_a_version_that_is_neither_published_nor_named_is_an_error(table: lakescan.Table, server: UnityServer) -> None:
    table.append(rows(1))
    table.append(rows(2))
    (log_of(server) / f"{2:020d}.json").unlink()
    with pytest.raises(lakescan.CorruptMetadata, match="in its catalog is 2, but commit 2 is neither"):
        lakescan.table(NAME).count()


@pytest.mark.parametrize(
    "commit",
    [
        {"file-name": "../../00000000000000000001.a.json"},
        {"file-name": f"{2:020d}.a-b.json"},
        {"file-size": "many"},
        {"version": 5},
    ],
)
def test_inconsistent_commits_are_an_error(
    table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch, commit: dict[str, object]
) -> None:
    table.append(rows(1))
    stored(server).commits[1] |= commit
    with pytest.raises(lakescan.CorruptMetadata):
        lakescan.table(NAME).count()


def test_commits_after_a_checkpoint_may_be_staged(
    table: lakescan.Table, server: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        table.append(rows(number))
    assert (log_of(server) / "_last_checkpoint").exists()
    from lakescan.delta.commit import staged_commits as staged

    monkeypatch.setattr(staged, "publish_ratified", lambda *_: None)
    table.append(rows(10))
    assert published(server)[-1] == 10
    assert ids() == list(range(11))


def test_versions_and_times_of_commits_that_are_not_published_can_be_read(
    table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch
) -> None:
    for number in range(1, 4):
        table.append(rows(number))
    times = {version: each["timestamp"] for version, each in stored(server).commits.items()}
    assert ids(version_as_of=2) == [1, 2]
    assert ids(timestamp_as_of=datetime.fromtimestamp(times[2] / 1000, UTC)) == [1, 2]
    found = {each["version"]: each["timestamp"] for each in lakescan.table(NAME).history().to_pylist()}
    assert {version: round(at.timestamp() * 1000) for version, at in found.items() if version} == times


def test_a_reopened_table_treats_newly_published_commits_as_the_same(
    table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch
) -> None:
    table.append(rows(1))
    opened = lakescan.table(NAME)
    assert opened.count() == 1
    table.append(rows(2))
    unpublished.undo()
    table.append(rows(3))
    assert published(server) == [0, 1, 2, 3]
    assert ids() == [1, 2, 3]
    table.append(rows(4))
    assert ids() == [1, 2, 3, 4]
    assert opened.count() == 1


def test_cached_states_are_reused_after_commits_are_published(
    table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch
) -> None:
    table.append(rows(1))
    table.append(rows(2))
    assert ids() == [1, 2]
    unpublished.undo()
    opened = lakescan.table(NAME)
    entry = opened.scan().spec.storage.vended
    publish_ratified(entry, opened.scan().spec.storage, entry.ratified_commits())  # type: ignore[arg-type, union-attr]
    (log_of(server) / f"{1:020d}.json").write_text("not read again")
    shutil.rmtree(log_of(server) / "_staged_commits")
    assert ids() == [1, 2]


def test_changes_of_commits_that_are_not_published_are_read(
    main: lakescan.Catalog, unpublished: pytest.MonkeyPatch
) -> None:
    properties = {"delta.enableChangeDataFeed": "true"}
    table = main.create_table("db.t", "id BIGINT, part STRING", format="delta", properties=properties)
    table.append(rows(1, 2))
    table.delete("id = 1")
    found = lakescan.table(NAME).changes(0).to_arrow().select(["id", "_change_type", "_commit_version"]).to_pylist()
    assert sorted((each["_commit_version"], each["_change_type"], each["id"]) for each in found) == [
        (1, "insert", 1),
        (1, "insert", 2),
        (2, "delete", 1),
    ]


def test_a_table_opened_without_its_catalog_is_refused(table: lakescan.Table, server: UnityServer) -> None:
    table.append(rows(1))
    where = stored(server).location
    for read in (lambda: lakescan.table(where).count(), lambda: lakescan.table(where).append(rows(2))):
        with pytest.raises(lakescan.UnsupportedFeature, match=r"'catalogManaged'.*type='unity'"):
            read()
    assert published(server) == [0, 1]


def test_the_metadata_tables_include_unpublished_commits(
    table: lakescan.Table, unpublished: pytest.MonkeyPatch
) -> None:
    table.append(rows(1))
    opened = lakescan.table(NAME)
    assert opened.inspect("files").num_rows == 1
    assert opened.detail().to_pylist()[0]["numFiles"] == 1
    assert opened.inspect("partitions").num_rows == 1


def test_deleted_and_recreated_tables_are_distinguished(main: lakescan.Catalog, table: lakescan.Table) -> None:
    table.append(rows(1))
    assert ids() == [1]
    main.drop_table("db.t")
    again = main.create_table("db.t", "id BIGINT, part STRING", format="delta")
    again.append(rows(7))
    assert ids() == [7]
    with pytest.raises(lakescan.CommitConflict, match="dropped and recreated"):
        table.append(rows(2))


def test_a_stream_reports_that_its_table_was_recreated(main: lakescan.Catalog, table: lakescan.Table) -> None:
    table.append(rows(1))
    waits, begins, done = (
        lakescan.table(NAME).stream(wait=wait, monitor_interval="10ms") for wait in (True, False, False)
    )
    assert next(waits)["id"].to_pylist() == next(done)["id"].to_pylist() == [1]
    main.drop_table("db.t")
    again = main.create_table("db.t", "id BIGINT, part STRING", format="delta")
    for number in (7, 8, 9):
        again.append(rows(number))
    for stream in (waits, begins):
        with pytest.raises(lakescan.CommitConflict, match="recreated"):
            next(stream)
    with pytest.raises(lakescan.InvalidOption, match="recreated"):
        lakescan.table(NAME).stream(start=done.offset, wait=False)


def test_a_stream_of_an_external_table_reports_another_table_in_its_folder(
    main: lakescan.Catalog, tmp_path: Path
) -> None:
    folder = tmp_path / "external"
    main.create_table("db.e", "id BIGINT, part STRING", format="delta", location=folder).append(rows(1))
    stream = lakescan.table("main.db.e").stream(monitor_interval="10ms")
    assert next(stream)["id"].to_pylist() == [1]
    main.drop_table("db.e")
    shutil.rmtree(folder)
    again = main.create_table("db.e", "id BIGINT, part STRING", format="delta", location=folder)
    for number in (7, 8, 9):
        again.append(rows(number))
    with pytest.raises(lakescan.InvalidOption, match="recreated"):
        next(stream)


def test_inline_commits_are_refused_by_name(table: lakescan.Table, server: UnityServer) -> None:
    table.append(rows(1))
    stored(server).published = 0
    stored(server).commits = {1: json.loads('{"version": 1, "actions": []}')}
    with pytest.raises(lakescan.UnsupportedFeature, match="inline"):
        lakescan.table(NAME).count()
