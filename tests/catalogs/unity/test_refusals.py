"""A refusal proves nothing by itself: the commit may have been made earlier, and then its files are referenced.

Proxies can answer for servers and repeat requests. An answer of the server itself has the server's name of the error
(`kind`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lakescan
from lakescan.catalogs.unity import client, creation
from lakescan.catalogs.unity import table as unity_table
from lakescan.common.retries import RetryPolicy
from lakescan.delta.commit import staged_commits as staged
from lakescan.errors import CommitStateUnknown, LakescanError
from tests.support.unity_server import Problem, UnityServer
from tests.support.unity_tables import NAME, data_files, ids, rows, staged_files

Step = Callable[[Callable[[], Any]], Any]
TABLE, TABLES = "/tables/t", "/schemas/db/tables"
REFUSALS = [Problem(status, "") for status in (302, 403, 404, 408, 409, 429, 503)] + [
    Problem(400, "InvalidParameterValueException"),
    Problem(401, "NotAuthorizedException"),
    Problem(404, "NoSuchTableException"),
    Problem(409, "CommitVersionConflictException"),
    Problem(409, "UpdateRequirementConflictException"),
    Problem(429, "ResourceExhaustedException"),
]
CONFLICTS = [each for each in REFUSALS if each.kind == "CommitVersionConflictException"]
OWN = [each for each in REFUSALS if each.kind and each not in CONFLICTS]


def named(problem: Problem) -> str:
    return f"{problem.status} {problem.kind}"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    quick = RetryPolicy(attempts=3, first=0.001)
    monkeypatch.setattr(client, "_READS", quick)
    monkeypatch.setattr(creation, "LOOKS", quick)
    monkeypatch.setattr(staged, "_FULL", quick)
    for name in ("_LOST", "_BUSY"):
        monkeypatch.setattr(unity_table, name, quick)


@pytest.fixture
def script(server: UnityServer) -> Iterator[Callable[..., None]]:
    """Return a function that scripts the next requests of a method whose path ends with a given text."""
    answer = server.answer

    def scripted(method: str, path: str, *steps: Step, then: Step | None = None) -> None:
        left = list(steps)
        before = server.answer

        def answering(asked: str, where: str, query: Any, body: Any) -> Any:
            def carry_out() -> Any:
                return before(asked, where, query, body)

            is_meant = asked == method and where.endswith(path)
            if not is_meant or (asked == "POST" and "updates" in body and body["updates"][0]["action"] != "add-commit"):
                return carry_out()
            step = left.pop(0) if left else then
            return carry_out() if step is None else step(carry_out)

        server.answer = answering  # type: ignore[method-assign]

    yield scripted
    server.answer = answer  # type: ignore[method-assign]


def made(problem: Problem) -> Step:
    def step(carry_out: Callable[[], Any]) -> Any:
        carry_out()
        raise problem

    return step


def refused(problem: Problem) -> Step:
    def step(carry_out: Callable[[], Any]) -> Any:
        raise problem

    return step


LOST = made(Problem(504, ""))


def late(later: list[Callable[[], Any]]) -> Step:
    """Lose the answer, and let the request arrive when the test carries it out."""

    def step(carry_out: Callable[[], Any]) -> Any:
        later.append(carry_out)
        raise Problem(504, "")

    return step


@pytest.mark.parametrize("problem", REFUSALS, ids=named)
@pytest.mark.parametrize("before", [[], [LOST]], ids=["", "lost"])
def test_a_commit_that_was_made_and_then_refused_counts_as_made(
    table: lakescan.Table, server: UnityServer, script: Callable[..., None], problem: Problem, before: list[Step]
) -> None:
    script("POST", TABLE, *before, made(problem))
    table.append(rows(1))
    table.append(rows(2))
    assert ids() == [1, 2]
    assert len(staged_files(server)) == data_files(server) == 2


@pytest.mark.parametrize("problem", REFUSALS, ids=named)
def test_a_commit_keeps_its_files_if_the_catalog_then_refuses_everything(
    table: lakescan.Table, server: UnityServer, script: Callable[..., None], problem: Problem
) -> None:
    """The token has expired, or a proxy asks for a login."""
    answer = server.answer

    def step(carry_out: Callable[[], Any]) -> Any:
        script("GET", TABLE, then=refused(problem))
        return made(problem)(carry_out)

    script("POST", TABLE, step, then=refused(problem))
    with pytest.raises(LakescanError) as error:
        table.append(rows(1))
    is_gone = problem.status == 404 and problem.kind
    assert isinstance(error.value, lakescan.NoSuchTable if is_gone else CommitStateUnknown)
    server.answer = answer  # type: ignore[method-assign]
    assert ids() == [1]


@pytest.mark.parametrize("problem", REFUSALS, ids=named)
def test_a_failed_commit_keeps_its_files_unless_the_server_itself_refused_it(
    table: lakescan.Table, server: UnityServer, script: Callable[..., None], problem: Problem
) -> None:
    script("POST", TABLE, then=refused(problem))
    with pytest.raises(LakescanError) as error:
        table.append(rows(1))
    assert ids() == []
    is_known = not isinstance(error.value, CommitStateUnknown)
    assert is_known == (problem in OWN)
    assert (len(staged_files(server)), data_files(server)) == ((0, 0) if is_known else (1, 1))


@pytest.mark.parametrize("problem", REFUSALS, ids=named)
def test_a_request_that_arrives_after_its_refused_retry_finds_its_files(
    table: lakescan.Table, script: Callable[..., None], problem: Problem
) -> None:
    later: list[Callable[[], Any]] = []
    script("POST", TABLE, late(later), then=refused(problem))
    with pytest.raises(CommitStateUnknown):
        table.append(rows(1))
    later[0]()
    assert ids() == [1]


@pytest.mark.parametrize("problem", REFUSALS, ids=named)
@pytest.mark.parametrize("before", [[], [LOST]], ids=["", "lost"])
def test_a_table_that_was_created_and_then_refused_is_created_once(
    main: lakescan.Catalog, script: Callable[..., None], problem: Problem, before: list[Step]
) -> None:
    script("POST", TABLES, *before, made(problem))
    lakescan.save(rows(1), NAME, format="delta")
    assert ids() == [1]


@pytest.mark.parametrize("problem", REFUSALS, ids=named)
def test_a_table_that_the_server_refuses_does_not_exist(
    main: lakescan.Catalog, script: Callable[..., None], problem: Problem
) -> None:
    script("POST", TABLES, then=refused(problem))
    with pytest.raises(LakescanError) as error:
        lakescan.save(rows(1), NAME, format="delta")
    assert isinstance(error.value, CommitStateUnknown) == (not problem.kind and problem.status != 404)
    assert not main.table_exists("db.t")


@pytest.mark.parametrize("problem", REFUSALS, ids=named)
def test_a_table_created_after_its_refused_retry_has_its_rows(
    main: lakescan.Catalog, script: Callable[..., None], problem: Problem
) -> None:
    later: list[Callable[[], Any]] = []
    script("POST", TABLES, late(later), then=refused(problem))
    with pytest.raises(CommitStateUnknown):
        lakescan.save(rows(1), NAME, format="delta")
    later[0]()
    assert ids() == [1]


def test_a_name_taken_by_an_invisible_table_is_reported_without_retries(
    main: lakescan.Catalog, script: Callable[..., None]
) -> None:
    """Retrying the save as an append would be refused every time."""
    for path in (TABLES, "/staging-tables"):
        script("POST", path, then=refused(Problem(409, "AlreadyExistsException")))
        with pytest.raises(lakescan.TableExists, match="visible to you"):
            lakescan.save(rows(1), NAME, format="delta", mode="append")


def test_a_save_to_a_concurrently_created_table_becomes_an_append(
    main: lakescan.Catalog, script: Callable[..., None]
) -> None:
    def rival(carry_out: Callable[[], Any]) -> Any:
        main.create_table("db.t", "id BIGINT, part STRING", format="delta").append(rows(5))
        return carry_out()

    script("POST", TABLES, rival)
    lakescan.save(rows(1), NAME, format="delta", mode="append")
    assert ids() == [1, 5]
