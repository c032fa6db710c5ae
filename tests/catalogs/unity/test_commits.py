"""Commits that a catalog ratifies: proposed once, rebased, retried, published; unsupported ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.unity import table as unity_table
from lakescan.common.retries import RetryPolicy
from tests.support.unity_server import Fault, Problem, UnityServer
from tests.support.unity_tables import NAME, data_files, ids, log_of, published, rows, staged_files, stored

TABLE = "/tables/t$"


def proposes(body: dict[str, Any]) -> bool:
    return any(each["action"] == "add-commit" for each in body["updates"])


def proposals(server: UnityServer) -> list[str]:
    """Return the file names of the proposed commits, in order."""
    bodies = [body for body in server.asked("POST", TABLE) if proposes(body)]
    return [each["commit"]["file-name"] for body in bodies for each in body["updates"] if "commit" in each]


def refuse(server: UnityServer, what: str | int, kind: str = "", times: int = 1, **headers: str) -> None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    server.faults.append(Fault("POST", TABLE, what, times, kind, named, proposes))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unity_table, "_LOST", RetryPolicy(attempts=2, first=0.01))
    monkeypatch.setattr(unity_table, "_BUSY", RetryPolicy(attempts=3, first=0.01))


def test_a_commit_is_staged_ratified_and_published(table: lakescan.Table, server: UnityServer) -> None:
    table.append(rows(1))
    assert proposals(server) == staged_files(server)
    assert published(server) == [0, 1]
    assert (log_of(server) / f"{1:020d}.json").read_bytes() == (
        log_of(server) / "_staged_commits" / proposals(server)[0]
    ).read_bytes()
    assert stored(server).unpublished == []


@pytest.mark.parametrize("what", ["lost", "dropped"])
def test_a_commit_without_an_answer_is_retried_and_made_once(
    table: lakescan.Table, server: UnityServer, what: str
) -> None:
    refuse(server, what)
    table.append(rows(1))
    assert ids() == [1]
    assert published(server) == [0, 1]
    assert len(set(proposals(server))) == 1


def test_a_refused_version_is_looked_up_to_find_its_writer(table: lakescan.Table, server: UnityServer) -> None:
    refuse(server, "lost")
    refuse(server, 409, "CommitVersionConflictException")
    table.append(rows(1))
    assert ids() == [1]
    assert len(staged_files(server)) == 1


def test_a_commit_that_another_writer_has_published_is_found_in_the_log(
    table: lakescan.Table, server: UnityServer
) -> None:
    """The answer is lost, the other writer publishes, and the catalog no longer lists the file's name."""
    rival, answer = lakescan.table(NAME), server.answer

    def answering(method: str, path: str, query: Any, body: Any) -> Any:
        found = answer(method, path, query, body)
        if method == "POST" and path.endswith("/tables/t") and proposes(body):
            server.answer = answer  # type: ignore[method-assign]
            rival.append(rows(2))
            refuse(server, 409, "CommitVersionConflictException")
            raise Problem(500, "CommitStateUnknownException")
        return found

    server.answer = answering  # type: ignore[method-assign]
    table.append(rows(1))
    assert ids() == [1, 2]
    assert len(staged_files(server)) == 2  # readers may use either name


def _racing(server: UnityServer, rival: Callable[[], object]) -> None:
    """Commit with `rival` between the next proposal and its arrival at the server."""
    answer, waiting = server.answer, [rival]

    def answering(method: str, path: str, query: Any, body: Any) -> Any:
        if method == "POST" and path.endswith("/tables/t") and proposes(body) and waiting:
            waiting.pop()()
        return answer(method, path, query, body)

    server.answer = answering  # type: ignore[method-assign]


def test_a_commit_whose_version_is_taken_is_rebased_and_its_staged_file_removed(
    table: lakescan.Table, server: UnityServer
) -> None:
    rival = lakescan.table(NAME)
    _racing(server, lambda: rival.append(rows(1)))
    table.append(rows(2))
    assert ids() == [1, 2]
    names = proposals(server)
    assert [name[:20].lstrip("0") for name in names] == ["1", "1", "2"]
    assert staged_files(server) == sorted([names[0], names[2]]) or staged_files(server) == sorted(names[1:])


def test_times_of_rebased_commits_increase(table: lakescan.Table, server: UnityServer) -> None:
    rival = lakescan.table(NAME)
    for number in range(3):
        _racing(server, lambda number=number: rival.append(rows(10 + number)))
        table.append(rows(number))
    times = [each["timestamp"] for each in lakescan.table(NAME).history().to_pylist()]
    assert times == sorted(set(times))


def test_changes_of_the_same_rows_conflict_and_leave_no_files(table: lakescan.Table, server: UnityServer) -> None:
    table.append(rows(1, 2))
    rival = lakescan.table(NAME)
    _racing(server, lambda: rival.overwrite(rows(8)))
    before = proposals(server)
    target = table._target(lakescan.options.write.WriteOptions())
    with pytest.raises(lakescan.CommitConflict):
        target.replace_all((), ())
    assert ids() == [8]
    assert len(proposals(server)) == len(before) + 2
    assert len(staged_files(server)) == 2


def test_a_busy_server_is_retried_after_the_requested_delay(
    table: lakescan.Table, server: UnityServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("lakescan.catalogs.unity.client.time.sleep", waits.append)
    refuse(server, 429, "TooManyRequestsException", Retry_After="7")
    refuse(server, 503, "", Retry_After="3")
    table.append(rows(1))
    assert ids() == [1]
    assert 7 in waits
    assert 3 in waits


def test_a_locked_table_is_retried(table: lakescan.Table, server: UnityServer) -> None:
    refuse(server, 409, "UpdateRequirementConflictException", times=2)
    table.append(rows(1))
    assert ids() == [1]


def test_commits_of_others_are_published_before_the_limit_of_the_catalog(
    table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch
) -> None:
    server.most_unpublished = 3
    for number in range(3):
        table.append(rows(number))
    assert published(server) == [0]
    unpublished.undo()
    table.append(rows(3))
    assert published(server) == [0, 1, 2, 3, 4]
    assert ids() == [0, 1, 2, 3]


def test_a_writer_that_cannot_publish_stops_at_the_limit_of_the_catalog(
    table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch
) -> None:
    server.most_unpublished = 1
    table.append(rows(1))
    with pytest.raises(lakescan.StorageError, match="stopped"):
        table.append(rows(2))
    assert ids() == [1]
    assert len(staged_files(server)) == 1


def test_the_staged_file_of_a_refused_commit_is_removed(
    table: lakescan.Table, server: UnityServer, impatient: None
) -> None:
    for status, kind in ((401, "NotAuthorizedException"), (400, "InvalidParameterValueException")):
        refuse(server, status, kind)
        with pytest.raises(lakescan.StorageError, match=kind):
            table.append(rows(1))
    assert staged_files(server) == []
    table.append(rows(2))
    assert ids() == [2]


def files_without_log(server: UnityServer) -> list[Path]:
    """Return the data files and deletion vectors in the table's folder."""
    folder = Path(stored(server).location)
    return sorted(file for file in folder.rglob("*.*") if "_delta_log" not in file.parts)


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.append(rows(2)),
        lambda table: table.overwrite(rows(2)),
        lambda table: table.update({"id": "5"}, "id = 1"),
        lambda table: table.delete("id = 1"),
    ],
    ids=["append", "overwrite", "update", "delete"],
)
def test_a_commit_that_the_server_refuses_leaves_no_data_file(
    table: lakescan.Table, server: UnityServer, impatient: None, change: Callable[[lakescan.Table], Any]
) -> None:
    table.append(rows(1, 3))
    before = files_without_log(server)
    refuse(server, 401, "NotAuthorizedException")
    with pytest.raises(lakescan.StorageError, match="NotAuthorized"):
        change(table)
    assert files_without_log(server) == before
    assert ids() == [1, 3]


def test_a_commit_without_any_answer_has_an_unknown_outcome_and_keeps_its_files(
    table: lakescan.Table, server: UnityServer, impatient: None
) -> None:
    refuse(server, "lost", times=9)
    server.faults.append(Fault("GET", TABLE, "dropped", times=0))
    with pytest.raises(lakescan.CommitStateUnknown):
        table.append(rows(1))
    server.faults.clear()
    assert data_files(server) == 1
    assert ids() == [1]  # the commit was made


def test_a_checkpoint_contains_only_published_commits(
    table: lakescan.Table, server: UnityServer, unpublished: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        table.append(rows(number))
    assert not (log_of(server) / "_last_checkpoint").exists()
    unpublished.undo()
    assert lakescan.table(NAME).checkpoint().version == 10
    assert published(server) == list(range(11))
    assert ids() == list(range(10))


def test_the_catalog_receives_metadata_changes_of_a_commit(table: lakescan.Table, server: UnityServer) -> None:
    table.append(rows(1))
    change = table.alter().add_column("more", "STRUCT<names: ARRAY<STRING>, by: MAP<STRING, DECIMAL(10,2)>>")
    change.set_properties({"owner": "sales", "comment": "orders"}).commit()
    found = stored(server)
    assert [each["name"] for each in found.columns["fields"]] == ["id", "part", "more"]
    assert found.properties["owner"] == "sales"
    assert found.comment == "orders"
    table.alter().unset_properties("owner").commit()
    assert "owner" not in found.properties
    assert lakescan.table(NAME).scan().to_arrow().schema.names == ["id", "part", "more"]


def test_row_ids_are_sent_to_the_catalog(main: lakescan.Catalog, server: UnityServer) -> None:
    table = main.create_table(
        "db.t", "id BIGINT, part STRING", format="delta", properties={"delta.enableRowTracking": "true"}
    )
    table.append(rows(1, 2, 3))
    assert stored(server).properties["delta.rowTracking"] == '{"rowIdHighWaterMark": 2}'


def test_rows_are_deleted_updated_and_merged(table: lakescan.Table, server: UnityServer) -> None:
    table.append(rows(1, 2, 3, 4))
    table.delete("id = 1")
    table.update({"id": "id + 10"}, where="id = 2")
    table.merge(rows(3, 5), on="t.id = s.id").when_matched_delete().when_not_matched_insert_all().execute()
    table.overwrite(rows(6, part="b"), where="part = 'b'")
    assert ids() == [4, 5, 6, 12]
    assert published(server) == list(range(6))
    table.restore(version=1)
    assert ids() == [1, 2, 3, 4]


def test_transactions_of_an_application_are_committed_once(table: lakescan.Table) -> None:
    for _ in range(2):
        table.append(rows(1), txn_app_id="job", txn_version=3)
    assert ids() == [1]


@pytest.mark.parametrize(
    ("what", "named"),
    [
        (lambda table: table.compact(), "compacting"),
        (lambda table: table.remove_orphans(), "removing files of"),
        (lambda table: table.clone("/tmp/never"), "cloning"),
        (lambda table: table.alter().drop_feature("deletionVectors").commit(), "dropping the feature"),
        (lambda table: table.alter().set_properties({"delta.enableInCommitTimestamps": "false"}).commit(), "a change"),
        (lambda table: table.alter().unset_properties("io.unitycatalog.tableId").commit(), "a change"),
    ],
)
def test_operations_that_the_catalog_forbids_are_refused_by_name(
    table: lakescan.Table, server: UnityServer, what: Callable[[lakescan.Table], object], named: str
) -> None:
    table.append(rows(1))
    with pytest.raises(lakescan.UnsupportedFeature, match=named):
        what(table)
    assert published(server) == [0, 1]


def test_no_other_table_gets_the_feature(tmp_path: Any) -> None:
    lakescan.save(rows(1), str(tmp_path / "t"), format="delta")
    table = lakescan.table(str(tmp_path / "t"))
    with pytest.raises(lakescan.UnsupportedFeature, match="'catalogManaged'"):
        table.alter().set_properties({"delta.feature.catalogManaged": "supported"}).commit()


@pytest.mark.slow
def test_eight_concurrent_writers_lose_no_row(table: lakescan.Table, server: UnityServer) -> None:
    server.most_unpublished = 4
    for what in ("lost", "dropped", 429):
        refuse(server, what, "TooManyRequestsException", times=3)
    server.faults[1].when = server.faults[2].when = lambda body: proposes(body) and len(server.requests) % 3 == 0

    def write(number: int) -> None:
        opened = lakescan.table(NAME)
        for each in range(5):
            opened.append(pa.table({"id": [number * 100 + each], "part": ["a"]}))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert ids() == sorted(number * 100 + each for number in range(8) for each in range(5))
    assert published(server) == list(range(41))
