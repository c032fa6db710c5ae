"""Faults at each call of a commit: rows exist once or not at all, and no file of the table is removed.

A call may fail before it takes effect, or after, so that only its answer is lost.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.api.rows import as_rows
from lakescan.common import retries
from lakescan.delta.commit import commit_file as put
from lakescan.iceberg.commit import outcomes
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from lakescan.tables.write_rows import append_rows
from tests.tables.support import NAME, data_files, maker, now, pairs, rows

A, B, C = (1, "a"), (2, "b"), (3, "a")
OPERATIONS: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "append": (lambda: now().append(rows(C)), [A, B, C]),
    "overwrite": (lambda: now().overwrite(rows(C)), [C]),
    "replace some": (lambda: now().overwrite(rows(C), where="part = 'a'"), [B, C]),
    "compact": (lambda: now().compact(), [A, B]),
    "expire": (lambda: now().expire_snapshots("2100-01-01"), [A, B]),
}


def calls_of(kind: str) -> list[tuple[Any, str]]:
    """Return the methods that are called during a commit, and after it."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io.pyarrow import PyArrowFileIO

    storage = [(Storage, name) for name in ("open", "create", "remove")]
    if kind == "delta":
        return [*storage, (put, "put_if_absent"), (Storage, "look_up"), (Storage, "read"), (Storage, "list")]
    of_catalog = [(SqlCatalog, name) for name in ("commit_table", "load_table")]
    return [*storage, *of_catalog, (PyArrowFileIO, "new_output"), (PyArrowFileIO, "new_input")]


def errors() -> list[Exception]:
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ServerError

    theirs = [CommitFailedException("409"), CommitStateUnknownException("504"), ServerError("500")]
    return [*theirs, lakescan.StorageError("503"), OSError("connection reset"), TimeoutError("timed out")]


@contextmanager
def fault(owner: Any, name: str, number: int, error: Exception, *, after: bool) -> Iterator[None]:
    """Raise an error at the nth call of a method, before or after it takes effect."""
    real, left = getattr(owner, name), [number]

    def call(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not after:
            raise error
        found = real(*arguments, **named)
        if left[0] == 0:
            raise error
        return found

    with patch.object(owner, name, call):
        yield


@contextmanager
def looks(number: int) -> Iterator[None]:
    """Limit the lookups of a commit with an unknown outcome to `number`, without waiting."""
    policy = retries.RetryPolicy(attempts=number, first=0)
    with patch.object(retries, "LOOKS", policy), patch.object(put, "PUTS", policy):
        yield


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3", "delta"])
def test_rows_exist_once_or_not_at_all_wherever_a_call_fails(kind: str) -> None:
    operations = [name for name in OPERATIONS if kind != "delta" or name != "expire"]

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from(operations),
        st.sampled_from(calls_of(kind)),
        st.integers(1, 6),
        st.sampled_from(errors()),
        st.booleans(),
    )
    def check(operation: str, call: tuple[Any, str], number: int, error: Exception, after: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            local = lakescan.catalog("local", warehouse=folder)
            local.create_namespace("db")
            maker(kind, local)().append(rows(A, B))
            act, expected = OPERATIONS[operation]
            is_done = False
            with fault(*call, number, error, after=after), looks(2):
                try:
                    act()
                    is_done = True
                except (lakescan.LakescanError, OSError, type(error)):
                    pass
            assert pairs() == expected if is_done else pairs() in (expected, [A, B])
            _states_are_whole(kind)

    check()


def _states_are_whole(kind: str) -> None:
    """Check that every state that the table still has can be read."""
    if kind == "delta":
        for version in range(1, now().scan().snapshot.id + 1):
            lakescan.table(now().location, versionAsOf=version).scan().to_arrow()
        return
    for snapshot in now().inspect("snapshots")["snapshot_id"].to_pylist():
        now().scan().as_of(version=snapshot).to_arrow()


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_commit_with_an_unknown_outcome_reports_it_and_keeps_its_files(kind: str, local, tmp_path: Path) -> None:
    maker(kind, local)()
    owner, name = calls_of(kind)[3]
    with (
        patch.object(owner, name, side_effect=TimeoutError("no answer")),
        looks(1),
        pytest.raises(lakescan.CommitStateUnknown, match=r"files (stay|are kept)"),
    ):
        now().append(rows(A))
    assert (pairs(), data_files(tmp_path)) == ([], 1)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_zombie_does_not_commit_a_transaction_again(kind: str, local, tmp_path: Path) -> None:
    """Both looked before either committed; the table changes in between."""
    maker(kind, local)()
    said = WriteOptions(txn_app_id="query", txn_version=7)
    first, zombie = now()._target(said), now()._target(said)
    assert append_rows(first, as_rows(rows(A)), said).rows == 1
    now().append(rows(B))
    assert append_rows(zombie, as_rows(rows(A)), said).rows == 0
    assert (pairs(), data_files(tmp_path)) == ([A, B], 2)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
@pytest.mark.parametrize("was_read", [False, True])
def test_a_handle_does_not_write_to_another_table_in_its_place(kind: str, was_read: bool, local) -> None:
    table = maker(kind, local)()
    if was_read:
        table.scan().to_arrow()
    location = Path(table.location.removeprefix("file://"))
    local.drop_table("db.t")
    if kind == "delta":
        location.rename(location.with_name("before"))
    maker(kind, local)()
    for write in (lambda: table.append(rows(A)), lambda: table.overwrite(rows(A)), table.compact):
        with pytest.raises(lakescan.CommitConflict, match=r"made again|recreated"):
            write()
    assert (pairs(), NAME) == ([], "local.db.t")


def test_a_snapshot_is_found_however_many_commits_came_after_it(local: lakescan.Catalog) -> None:
    """The answer is lost, and other commits come before the lookup; the catalog shows only the newest snapshot."""
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    maker("iceberg", local)()
    commit, load = SqlCatalog.commit_table, SqlCatalog.load_table

    def lost(self: Any, *arguments: Any) -> Any:
        with patch.object(SqlCatalog, "commit_table", commit):
            commit(self, *arguments)
            now().append(rows(B))
        raise CommitFailedException("no answer")

    def newest(self: Any, name: Any) -> Any:
        found = load(self, name)
        heads = [each for each in found.metadata.snapshots if each.snapshot_id == found.metadata.current_snapshot_id]
        found.metadata = found.metadata.model_copy(update={"snapshots": heads})
        return found

    with patch.object(SqlCatalog, "commit_table", lost), patch.object(SqlCatalog, "load_table", newest):
        now().append(rows(A))
    assert pairs() == [A, B]


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3"])
def test_a_concurrent_commit_to_another_branch_is_no_obstacle(kind: str, local: lakescan.Catalog) -> None:
    maker(kind, local)().append(rows(A))
    now().append(rows(B), branch="other")
    before = now()._target(WriteOptions())
    now().append(rows(C), branch="other")
    append_rows(before, as_rows(rows(C)), WriteOptions())
    assert pairs() == [A, C]


def _writer(kind: type, table: lakescan.Table) -> tuple[Any, Any]:
    """Return a Spark writer, and the message of its only task."""
    from lakescan.catalogs.registry import all_configurations
    from lakescan.spark.writing.sink import Sink

    writer = kind(
        Sink(NAME, None, WriteOptions(txn_app_id="query", txn_version=0), all_configurations()), table.schema, False
    )
    return writer, writer.write(iter(rows(A).to_batches()))


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_an_abort_after_a_commit_was_begun_removes_nothing(kind: str, local, tmp_path: Path) -> None:
    """Spark aborts a write whose commit raises; here it was made, but its answer is lost and the table unreadable."""
    from lakescan.spark.writing.sink import BatchWriter

    writer, written = _writer(BatchWriter, maker(kind, local)())
    owner, name = calls_of(kind)[3]
    with (
        fault(owner, name, 1, TimeoutError("no answer"), after=True),
        patch.object(outcomes, "reload_table", side_effect=TimeoutError),
        patch.object(put, "_is_own", side_effect=TimeoutError),
        looks(1),
        pytest.raises(lakescan.CommitStateUnknown),
    ):
        writer.commit([written])
    writer.abort([written])
    writer.abort([written, None])
    assert (pairs(), data_files(tmp_path)) == ([A], 1)


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_micro_batch_that_is_committed_twice_by_one_writer_keeps_its_files(kind: str, local, tmp_path) -> None:
    from lakescan.spark.writing.sink import MicroBatchWriter

    writer, written = _writer(MicroBatchWriter, maker(kind, local)())
    for _ in range(2):
        writer.commit([written], 0)
    assert (pairs(), data_files(tmp_path)) == ([A], 1)
    again = _writer(MicroBatchWriter, now())
    again[0].commit([again[1]], 0)
    assert (pairs(), data_files(tmp_path)) == ([A], 1)


def test_a_sink_shows_no_secrets() -> None:
    from lakescan.spark.writing.sink import Sink

    sink = Sink("p", None, WriteOptions(storage_options={"key": "SECRET"}), {"c": {"token": "SECRET"}})
    assert "SECRET" not in repr(sink)
