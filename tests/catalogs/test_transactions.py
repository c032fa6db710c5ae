"""Transactions over several tables: one commit changes all of them or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from tests.support.rest_server import ENDPOINTS, Fault, RestServer, rest_server

COMMIT = "POST transactions/commit"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path / "rest") as (state, uri):
        state.config["defaults"] = {"uri": uri}
        yield state


@pytest.fixture
def lake(server: RestServer) -> lakescan.Catalog:
    found = lakescan.catalog("lake", type="rest", uri=server.config["defaults"]["uri"])
    found.create_namespace("db")
    for name in ("one", "two"):
        found.create_table(f"db.{name}", "id BIGINT, part STRING", partition_by=["part"])
        found.load_table(f"db.{name}").append(rows(1, 2))
    server.requests.clear()
    return found


def rows(*ids: int, part: str = "a") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "part": [part] * len(ids)})


def ids(table: lakescan.Table) -> list[int]:
    return sorted(table.scan().to_arrow()["id"].to_pylist())


def check_no_orphans(lake: lakescan.Catalog) -> None:
    for name in ("one", "two"):
        found = lake.load_table(f"db.{name}").remove_orphans(older_than="2100-01-01", dry_run=True)
        assert found.files == ()


def files(server: RestServer) -> set[str]:
    return {
        str(each)
        for each in server.folder.rglob("*")
        if each.is_file() and ".crc" not in each.name and "db" not in each.suffix
    }


def test_changes_of_several_tables_are_one_commit(lake: lakescan.Catalog, server: RestServer) -> None:
    with lake.transaction() as tx:
        tx.load_table("db.one").append(rows(3))
        tx.load_table("db.two").delete("id = 1")
        assert ids(lake.load_table("db.one")) == [1, 2]
    assert len(server.sent(COMMIT)) == 1
    assert not server.sent("tables/one") or all(each.method == "GET" for each in server.sent("tables/one"))
    assert ids(lake.load_table("db.one")) == [1, 2, 3]
    assert ids(lake.load_table("db.two")) == [2]


def test_only_the_transaction_itself_reads_its_uncommitted_rows(lake: lakescan.Catalog) -> None:
    tx = lake.transaction()
    one = tx.load_table("db.one")
    one.append(rows(3))
    one.update({"id": "id * 10"}, where="id = 3")
    one.overwrite(rows(2, 7), where="part = 'a' AND id < 10")
    lakescan.sql(f"INSERT INTO {tx.name}.db.one VALUES (8, 'b')")
    lakescan.sql(f"DELETE FROM {tx.name}.db.one WHERE id = 1")
    assert ids(one) == ids(tx.load_table("lake.db.one")) == [2, 7, 8, 30]
    assert ids(lake.load_table("db.one")) == [1, 2]
    assert str(tx.commit()) == "1 table changed: db.one"
    assert ids(lake.load_table("db.one")) == [2, 7, 8, 30]


def test_columns_are_altered_in_the_same_commit_as_rows(lake: lakescan.Catalog) -> None:
    with lake.transaction() as tx:
        tx.load_table("db.one").alter().add_column("n", "INT").set_properties({"owner": "me"}).commit()
        tx.load_table("db.one").append(pa.table({"id": [3], "part": ["a"], "n": pa.array([5], pa.int32())}))
        tx.load_table("db.two").append(pa.table({"id": [3], "m": pa.array([6], pa.int32())}), merge_schema=True)
    one, two = lake.load_table("db.one"), lake.load_table("db.two")
    assert one.properties["owner"] == "me"
    assert sorted(one.scan().to_arrow()["n"].to_pylist(), key=str) == [5, None, None]
    assert sorted(two.scan().to_arrow()["m"].to_pylist(), key=str) == [6, None, None]


def test_an_error_within_drops_all_changes_and_removes_their_files(lake: lakescan.Catalog, server: RestServer) -> None:
    before = files(server)

    def fail() -> None:
        with lake.transaction() as tx:
            tx.load_table("db.one").append(rows(3))
            tx.load_table("db.two").delete("id = 1")
            tx.load_table("db.two").update({"id": "9"}, where="id = 2")
            assert len(files(server)) > len(before)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    assert files(server) == before
    assert not server.sent(COMMIT)
    assert ids(lake.load_table("db.one")) == ids(lake.load_table("db.two")) == [1, 2]


def test_a_conflict_on_one_table_fails_all_and_removes_the_files_of_all(
    lake: lakescan.Catalog, server: RestServer
) -> None:
    tx = lake.transaction()
    tx.load_table("db.one").append(rows(3))
    tx.load_table("db.two").overwrite(rows(9), where="part = 'a'")
    lake.load_table("db.two").append(rows(4))
    before = files(server)
    with pytest.raises(lakescan.CommitConflict, match="another writer"):
        tx.commit()
    assert ids(lake.load_table("db.one")) == [1, 2]
    assert ids(lake.load_table("db.two")) == [1, 2, 4]
    assert files(server) < before
    check_no_orphans(lake)
    with pytest.raises(lakescan.InvalidOption, match="failed"):
        tx.load_table("db.one")


def test_compatible_changes_are_rebased_onto_concurrent_commits(lake: lakescan.Catalog, server: RestServer) -> None:
    with lake.transaction() as tx:
        tx.load_table("db.one").append(rows(3))
        tx.load_table("db.one").append(rows(4, part="b"))
        tx.load_table("db.two").overwrite(rows(9), where="part = 'a'")
        lake.load_table("db.one").append(rows(5))
        lake.load_table("db.two").append(rows(6, part="b"))
    assert len(server.sent(COMMIT)) == 2
    assert ids(lake.load_table("db.one")) == [1, 2, 3, 4, 5]
    assert ids(lake.load_table("db.two")) == [6, 9]
    check_no_orphans(lake)


@pytest.mark.parametrize("retries", [0, 2])
def test_a_commit_is_retried_as_often_as_each_of_its_tables_allows(
    lake: lakescan.Catalog, server: RestServer, retries: int
) -> None:
    few = {"commit.retry.num-retries": str(retries), "commit.retry.min-wait-ms": "1"}
    lake.load_table("db.two").alter().set_properties(few).commit()
    lake.load_table("db.one").alter().set_properties({"commit.retry.num-retries": "9"}).commit()
    before, tx = files(server), lake.transaction()
    tx.load_table("db.one").append(rows(3))
    tx.load_table("db.two").append(rows(3))

    def another_is_first(request: Any) -> None:
        if request.what == COMMIT:
            server.catalog.load_table("db.one").append(rows(4))

    server.before = another_is_first
    with pytest.raises(lakescan.CommitConflict, match=f"failed after {retries + 1} attempt"):
        tx.commit()
    assert len(server.sent(COMMIT)) == retries + 1
    assert set(ids(lake.load_table("db.one"))) == {1, 2, 4}
    assert ids(lake.load_table("db.two")) == [1, 2]
    assert before < files(server)
    check_no_orphans(lake)


def test_a_refused_sequence_number_after_a_commit_to_another_branch_is_a_conflict(
    lake: lakescan.Catalog, server: RestServer
) -> None:
    """Java's servers refuse it so: the branch requirement holds, but the sequence number is already taken."""
    lake.load_table("db.one").create_branch("audit")

    def late(request: Any) -> Any:
        for change in request.body["table-changes"] if request.what == COMMIT else ():
            last = server.catalog.load_table(("db", change["identifier"]["name"])).metadata.last_sequence_number
            numbers = [each["snapshot"]["sequence-number"] for each in change["updates"] if "snapshot" in each]
            if min(numbers) <= last:
                return 400, {"error": {"message": "older than last sequence number", "type": "X", "code": 400}}
        return None

    server.before = late
    with lake.transaction() as tx:
        tx.load_table("db.one").append(rows(3))
        tx.load_table("db.two").append(rows(3))
        lake.load_table("db.one").append(rows(4), branch="audit")
    assert len(server.sent(COMMIT)) == 2
    assert ids(lake.load_table("db.one")) == ids(lake.load_table("db.two")) == [1, 2, 3]
    assert ids(lake.load_table("db.one", branch="audit")) == [1, 2, 4]
    check_no_orphans(lake)


@pytest.mark.parametrize("other", [None, "append"])
def test_statements_after_others_are_not_rebased_onto_concurrent_commits(
    lake: lakescan.Catalog, other: str | None
) -> None:
    tx = lake.transaction()
    tx.load_table("db.one").append(rows(3))
    tx.load_table("db.one").delete("id = 1")
    if other:
        lake.load_table("db.one").append(rows(5))
        with pytest.raises(lakescan.CommitConflict, match="Begin the transaction again"):
            tx.commit()
        assert ids(lake.load_table("db.one")) == [1, 2, 5]
    else:
        tx.commit()
        assert ids(lake.load_table("db.one")) == [2, 3]


@pytest.mark.parametrize("status", [500, 502, 504, None])
@pytest.mark.parametrize("is_done", [True, False])
def test_a_lost_answer_is_looked_up_on_every_table(
    lake: lakescan.Catalog, server: RestServer, status: int | None, is_done: bool
) -> None:
    server.faults.append(Fault(COMMIT, status, is_done=is_done))
    tx = lake.transaction()
    tx.load_table("db.one").append(rows(3))
    tx.load_table("db.two").append(rows(4))
    if is_done:
        tx.commit()
        assert ids(lake.load_table("db.one")) == [1, 2, 3]
        assert ids(lake.load_table("db.two")) == [1, 2, 4]
        return
    kept = files(server)
    with pytest.raises(lakescan.CommitStateUnknown):
        tx.commit()
    assert {each for each in kept - files(server) if "collected-" not in each} == set()
    assert ids(lake.load_table("db.one")) == [1, 2]


def test_a_partial_commit_of_the_server_is_reported_as_such(lake: lakescan.Catalog, server: RestServer) -> None:
    def half(request: Any) -> Any:
        if request.what == COMMIT:
            server._commit(request.body["table-changes"][:1])
            return 500, {"error": {"message": "half", "type": "X", "code": 500}}
        return None

    server.before = half
    tx = lake.transaction()
    tx.load_table("db.one").append(rows(3))
    tx.load_table("db.two").append(rows(4))
    with pytest.raises(lakescan.CommitStateUnknown, match=r"db\.one has the commit, db\.two does not"):
        tx.commit()
    assert ids(lake.load_table("db.one")) == [1, 2, 3]


@pytest.mark.parametrize("status", [200, 202])
def test_a_commit_answered_by_an_unrelated_page_is_looked_up(
    lake: lakescan.Catalog, server: RestServer, status: int
) -> None:
    server.before = lambda request: (status, "sign in") if request.what == COMMIT else None
    tx = lake.transaction()
    tx.load_table("db.one").append(rows(3))
    tx.load_table("db.two").append(rows(4))
    with pytest.raises(lakescan.CommitStateUnknown):
        tx.commit()
    assert ids(lake.load_table("db.one")) == [1, 2]


_KINDS = {
    400: lakescan.UnsupportedFeature,
    403: lakescan.StorageError,
    404: lakescan.NoSuchTable,
    419: lakescan.StorageError,
    429: lakescan.StorageError,
}


@pytest.mark.parametrize("status", _KINDS)
def test_a_refusal_changes_nothing(lake: lakescan.Catalog, server: RestServer, status: int) -> None:
    before = files(server)
    server.faults.append(Fault(COMMIT, status, times=9))
    with pytest.raises(_KINDS[status], match="as the test says"), lake.transaction() as tx:
        tx.load_table("db.one").append(rows(3))
    assert files(server) == before


def test_a_token_that_cannot_be_renewed_refuses_the_commit(lake: lakescan.Catalog, server: RestServer) -> None:
    before = files(server)
    tx = lake.transaction()
    tx.load_table("db.one").append(rows(3))
    server.faults += [Fault(COMMIT, 401, times=2), Fault("tables/one", 403)]
    with pytest.raises(lakescan.StorageError, match="does not allow the transaction"):
        tx.commit()
    assert files(server) == before


def test_changes_without_rows_count_as_made_only_if_all_are(lake: lakescan.Catalog) -> None:
    """Another writer made only the last of these changes: the earlier ones are missing."""
    tx = lake.transaction()
    tx.load_table("db.one").alter().set_properties({"owner": "me"}).commit()
    tx.load_table("db.one").alter().add_column("n", "INT").commit()
    lake.load_table("db.one").alter().add_column("n", "INT").commit()
    with pytest.raises(lakescan.CommitConflict, match="Begin the transaction again"):
        tx.commit()
    assert "owner" not in lake.load_table("db.one").properties


@pytest.mark.parametrize("then", [None, {"owner": "another"}])
def test_changes_without_rows_are_looked_up_as_a_whole(
    lake: lakescan.Catalog, server: RestServer, then: dict[str, str] | None
) -> None:
    """The answer is lost, and other writers may have changed the same properties since."""
    tx = lake.transaction()
    tx.load_table("db.one").alter().set_properties({"owner": "nobody"}).commit()
    tx.load_table("db.one").alter().set_properties({"owner": "me"}).commit()
    tx.load_table("db.two").alter().add_column("n", "INT").commit()

    def lost(request: Any) -> Any:
        if request.what != COMMIT:
            return None
        server._commit(request.body["table-changes"])
        if then:
            with server.catalog.load_table("db.one").transaction() as other:
                other.set_properties(then)
        return 500, {"error": {"message": "lost", "type": "X", "code": 500}}

    server.before = lost
    assert tx.commit().tables == ("db.one", "db.two")
    assert lake.load_table("db.one").properties["owner"] == (then or {"owner": "me"})["owner"]


def test_files_are_removed_even_if_the_base_metadata_is_gone(lake: lakescan.Catalog) -> None:
    """Other writers removed the metadata file and the snapshots that the transaction started from."""
    tx = lake.transaction()
    tx.load_table("db.one").append(rows(3))
    tx.load_table("db.one").delete("id = 1")
    for number in (4, 5, 6):
        lake.load_table("db.one").overwrite(rows(number))
    lake.load_table("db.one").expire_snapshots(older_than="2100-01-01", clean_expired_files=True)
    Path(tx._tables.changed_tables[0].base.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(lakescan.CommitConflict):
        tx.commit()
    check_no_orphans(lake)
    assert ids(lake.load_table("db.one")) == [6]


def test_a_catalog_without_the_endpoint_refuses_transactions(
    lake: lakescan.Catalog, server: RestServer, tmp_path: Path
) -> None:
    server.endpoints = [each for each in ENDPOINTS if "transactions" not in each]
    other = lakescan.catalog("other", type="rest", uri=server.config["defaults"]["uri"])
    with pytest.raises(lakescan.UnsupportedFeature, match=r"POST /v1/\{prefix\}/transactions/commit"):
        other.transaction()
    embedded = lakescan.catalog("embedded", warehouse=tmp_path / "embedded")
    with pytest.raises(lakescan.UnsupportedFeature, match="Only catalogs of type rest"):
        embedded.transaction()


def test_operations_outside_of_transactions_are_refused_by_name(lake: lakescan.Catalog, server: RestServer) -> None:
    before = files(server)
    with lake.transaction() as tx:
        one = tx.load_table("db.one")
        for change in (
            lambda: one.expire_snapshots(),
            lambda: one.remove_orphans(),
            lambda: one.create_tag("t"),
            lambda: one.compute_statistics(),
            lambda: lakescan.sql(f"CREATE TABLE {tx.name}.db.three (id INT)"),
            lambda: lakescan.sql(f"DROP TABLE {tx.name}.db.one"),
        ):
            with pytest.raises(lakescan.UnsupportedFeature, match="in a transaction"):
                change()
    assert files(server) == before
    assert not server.sent(COMMIT)


def test_a_concurrently_recreated_table_is_not_written_to(lake: lakescan.Catalog, server: RestServer) -> None:
    tx = lake.transaction()
    tx.load_table("db.one").append(rows(3))
    tx.load_table("db.two").append(rows(3))
    lake.drop_table("db.two")
    lake.create_table("db.two", "id BIGINT")
    with pytest.raises(lakescan.CommitConflict, match="recreated"):
        tx.commit()
    assert ids(lake.load_table("db.one")) == [1, 2]


def test_a_batch_committed_by_another_writer_is_not_committed_twice(lake: lakescan.Catalog) -> None:
    tx = lake.transaction()
    tx.load_table("db.one").append(rows(3), txnAppId="loader", txnVersion=1)
    lake.load_table("db.one").append(rows(3), txnAppId="loader", txnVersion=1)
    with pytest.raises(lakescan.CommitConflict, match="batch 1"):
        tx.commit()
    assert ids(lake.load_table("db.one")) == [1, 2, 3]


def test_tables_of_an_ended_transaction_raise_an_error(lake: lakescan.Catalog) -> None:
    with lake.transaction() as tx:
        table = tx.load_table("db.one")
        table.append(rows(3))
    with pytest.raises(lakescan.NoSuchCatalog, match="has ended"):
        table.append(rows(4))
    assert ids(lake.load_table("db.one")) == [1, 2, 3]
    with pytest.raises(lakescan.InvalidOption, match="has been committed"):
        tx.commit()
    assert repr(tx) == "Transaction('lake', committed, changes db.one)"
