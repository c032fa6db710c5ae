"""Concurrent moves of branches and tags, and lost answers: no reference is moved unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import ServerError

import lakescan
from lakescan.errors import CommitConflict, NoSuchSnapshot
from tests.tables.support import maker, now, pairs, rows

Action = Callable[[lakescan.Table], Any]


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    table = maker("iceberg", local)()
    table.append(rows((1, "a")))
    table.append(rows((2, "a")))
    table.create_branch("b", version=first(table))
    table.append(rows((3, "b")), branch="b")
    table.create_tag("t", version=first(table))
    return table


def first(table: lakescan.Table) -> int:
    return table.ancestors()["snapshot_id"].to_pylist()[-1]


ACTIONS: dict[str, Action] = {
    "create": lambda table: table.create_branch("new"),
    "replace": lambda table: table.create_tag("t", replace=True),
    "drop": lambda table: table.drop_branch("b"),
    "forward": lambda table: table.fast_forward("x", "main"),
    "rollback": lambda table: table.rollback(version=first(table)),
    "set": lambda table: table.set_current_snapshot(ref="b"),
    "pick": lambda table: table.cherry_pick(table.branches["b"].snapshot_id),
}


def during(action: Action, meanwhile: Callable[[], Any]) -> Any:
    """Run something between an action's read of the table and its commit."""
    original, done = SqlCatalog.commit_table, []

    def commit(self: Any, *arguments: Any) -> Any:
        if not done:
            done.append(True)
            meanwhile()
        return original(self, *arguments)

    with patch.object(SqlCatalog, "commit_table", commit):
        return action(now())


@pytest.mark.parametrize("name", ACTIONS)
def test_unrelated_commits_do_not_conflict(table: lakescan.Table, name: str) -> None:
    during(ACTIONS[name], lambda: now().create_tag("of another"))
    assert "of another" in now().tags


@pytest.mark.parametrize(
    ("name", "meanwhile"),
    [
        ("create", lambda: now().create_tag("new", version=first(now()))),
        ("replace", lambda: now().drop_tag("t")),
        ("drop", lambda: now().append(rows((4, "b")), branch="b")),
        ("forward", lambda: now().create_branch("x", version=first(now()))),
        ("rollback", lambda: now().append(rows((4, "b")))),
        ("set", lambda: now().append(rows((4, "b")))),
    ],
)
def test_a_concurrently_moved_reference_is_a_conflict(
    table: lakescan.Table, name: str, meanwhile: Callable[[], Any]
) -> None:
    with pytest.raises(CommitConflict, match="another writer moved"):
        during(ACTIONS[name], meanwhile)
    after = {**now().branches, **now().tags}
    meant = {"create": "new", "forward": "x", "drop": "b"}
    if name in meant:
        assert after[meant[name]].snapshot_id != now().version
    if name in ("rollback", "set"):
        assert pairs() == [(1, "a"), (2, "a"), (4, "b")]


def test_a_cherry_pick_is_rebased_onto_concurrent_commits(table: lakescan.Table) -> None:
    during(ACTIONS["pick"], lambda: now().append(rows((4, "c"))))
    assert pairs() == [(1, "a"), (2, "a"), (3, "b"), (4, "c")]


def test_a_snapshot_that_is_no_longer_a_child_is_picked_as_a_new_one(table: lakescan.Table) -> None:
    table.create_branch("c")
    table.append(rows((5, "c")), branch="c")
    child = table.branches["c"].snapshot_id
    result = during(lambda each: each.cherry_pick(child), lambda: now().append(rows((4, "c"))))
    assert result.current != child
    assert pairs() == [(1, "a"), (2, "a"), (4, "c"), (5, "c")]


@pytest.mark.parametrize("name", ACTIONS)
def test_a_lost_answer_is_looked_up(table: lakescan.Table, name: str) -> None:
    original = SqlCatalog.commit_table

    def commit(self: Any, *arguments: Any) -> Any:
        original(self, *arguments)
        raise ServerError("500")

    with patch.object(SqlCatalog, "commit_table", commit):
        result = ACTIONS[name](now())
    refs = {**now().branches, **now().tags}
    assert result.current == (None if name == "drop" else refs[result.name].snapshot_id)
    assert pairs() == {
        "rollback": [(1, "a")],
        "set": [(1, "a"), (3, "b")],
        "pick": [(1, "a"), (2, "a"), (3, "b")],
    }.get(name, [(1, "a"), (2, "a")])


def test_a_concurrently_expired_staged_snapshot_is_not_published(local: lakescan.Catalog) -> None:
    """Its files may be deleted with it, so they must not enter the current state."""
    table = maker("iceberg", local)(properties={"write.wap.enabled": "true"})
    table.append(rows((1, "a")))
    table.append(rows((2, "a")), wap_id="x")
    table.append(rows((3, "a")))
    with pytest.raises(NoSuchSnapshot, match="no snapshot"):
        during(lambda each: each.publish("x"), lambda: now().expire_snapshots("2100-01-01"))
    assert pairs() == [(1, "a"), (3, "a")]
