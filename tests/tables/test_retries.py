"""Retries follow a policy; a commit that keeps losing reports its attempts; unknown outcomes are looked up."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakescan
from lakescan.common import retries
from lakescan.common.retries import Attempts, RetryPolicy, outcome_of
from tests.tables.support import maker, now, pairs, rows

QUICK = RetryPolicy(attempts=3, first=0)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Record the waits. They take no real time, and only they advance the clock."""
    waits: list[float] = []
    monkeypatch.setattr(retries, "time", SimpleNamespace(sleep=waits.append, monotonic=lambda: sum(waits)))
    return waits


@given(st.none() | st.integers(1, 50), st.floats(0, 10), st.floats(1, 4), st.floats(0, 10))
def test_waits_grow_up_to_a_ceiling(attempts: int | None, first: float, factor: float, ceiling: float) -> None:
    waits = list(islice(RetryPolicy(attempts, first, factor, ceiling).waits(), 100))
    assert len(waits) == (100 if attempts is None else attempts - 1)
    assert all(a <= b <= ceiling for a, b in pairwise(waits))
    assert waits[:1] in ([], [min(first, ceiling)])
    assert all(b in (ceiling, pytest.approx(a * factor)) for a, b in pairwise(waits))


def test_writers_that_collided_wait_differently(slept: list[float]) -> None:
    for _ in range(20):
        assert Attempts(RetryPolicy(attempts=2, first=1)).wait()
    assert len(set(slept)) > 1
    assert all(1 <= wait <= 1.5 for wait in slept)


def test_no_wait_begins_after_the_timeout(slept: list[float]) -> None:
    attempts = Attempts(RetryPolicy(attempts=None, first=1, ceiling=1, timeout=10))
    while attempts.wait():
        pass
    assert 10 < sum(slept) <= 11.5
    assert attempts.number == len(slept) + 1


def test_the_last_conflict_reports_the_number_of_attempts(slept: list[float]) -> None:
    attempts = Attempts(QUICK)
    lost = lakescan.CommitConflict("db.t: the branch has changed")
    attempts.wait_or_raise("db.t", lost)
    attempts.wait_or_raise("db.t", lost)
    with pytest.raises(lakescan.CommitConflict, match=r"^db\.t: .* after 3 attempts .*: the branch has changed$"):
        attempts.wait_or_raise("db.t", lost)


LOST = TimeoutError("no answer")


def test_an_outcome_is_looked_up_until_there_is_one(slept: list[float]) -> None:
    answers = iter([None, OSError("unreachable"), False])

    def look() -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert outcome_of("db.t", LOST, look) is False
    assert len(slept) == 2


def test_an_outcome_that_is_never_seen_is_unknown(slept: list[float]) -> None:
    with pytest.raises(lakescan.CommitStateUnknown, match=r"db\.t ended with TimeoutError: no answer") as unknown:
        outcome_of("db.t", LOST, lambda: None)
    assert unknown.value.__cause__ is LOST
    assert len(slept) == 3

    def unreachable() -> None:
        raise OSError("unreachable")

    with pytest.raises(lakescan.CommitStateUnknown, match=r"unknown \(unreachable\)"):
        outcome_of("db.t", LOST, unreachable)


def test_a_definite_error_of_the_lookup_is_the_outcome(slept: list[float]) -> None:
    def look() -> None:
        raise lakescan.NoSuchTable("db.t was dropped")

    with pytest.raises(lakescan.NoSuchTable):
        outcome_of("db.t", LOST, look, definite=(lakescan.NoSuchTable,))
    assert slept == []


A, B = (1, "a"), (2, "b")
COMMITS = {
    "append": lambda: now().append(rows(B)),
    "overwrite": lambda: now().overwrite(rows(B)),
    "compact": lambda: now().compact(),
    "expire": lambda: now().expire_snapshots("2100-01-01"),
    "branch": lambda: now().append(rows(B), branch="new"),
}


@pytest.mark.parametrize("operation", COMMITS)
def test_a_commit_that_always_loses_gives_up_with_the_number_of_attempts(
    operation: str, local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    maker("iceberg", local)()
    now().append(rows(A))
    now().append(rows(A))
    tried: list[Any] = []

    def lose(self: Any, *arguments: Any) -> Any:
        tried.append(arguments)
        raise CommitFailedException("another was first")

    with monkeypatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", lose)
        patched.setattr("lakescan.iceberg.target.COMMITS", QUICK)
        patched.setattr("lakescan.iceberg.commit.snapshot_refs.COMMITS", QUICK)
        patched.setattr("lakescan.iceberg.commit.commit.COMMITS", QUICK)
        patched.setattr("lakescan.iceberg.commit.commit.APPENDS", QUICK)
        with pytest.raises(lakescan.CommitConflict, match=r"after 3 attempts in .* another was first"):
            COMMITS[operation]()
    assert len(tried) == 3
    assert pairs() == [A, A]


def test_an_append_succeeds_after_any_number_of_other_commits(local: lakescan.Catalog, slept: list[float]) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    maker("iceberg", local)()
    commit, lost = SqlCatalog.commit_table, iter(range(40))

    def lose(self: Any, *arguments: Any) -> Any:
        if next(lost, None) is not None:
            raise CommitFailedException("another was first")
        return commit(self, *arguments)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SqlCatalog, "commit_table", lose)
        now().append(rows(A))
    assert pairs() == [A]
    assert len(slept) == 40
