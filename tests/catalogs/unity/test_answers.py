"""Malformed answers of a Unity Catalog server raise an error that names the request, and commits are looked up."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import lakescan
from lakescan.catalogs.unity import client
from lakescan.catalogs.unity import table as unity_table
from lakescan.catalogs.unity.client import UnityResponse
from lakescan.catalogs.unity.credentials import IssuedCredentials, valid_credentials
from lakescan.common.retries import RetryPolicy
from lakescan.errors import CommitStateUnknown, CorruptMetadata, StorageError
from tests.support.unity_server import Fault, UnityServer
from tests.support.unity_tables import NAME, ids, rows

Change = Callable[[dict[str, Any]], Any]
DESCRIBED: list[Change] = [
    lambda found: found | {"metadata": 7},
    lambda found: found | {"metadata": {**found["metadata"], "properties": ["a"]}},
    lambda found: found | {"metadata": {**found["metadata"], "table-uuid": [None]}},
    lambda found: found | {"commits": 7},
    lambda found: found | {"commits": "x"},
    lambda found: found | {"commits": [None]},
    lambda found: found | {"latest-table-version": "x"},
    lambda found: found | {"latest-table-version": True},
    lambda found: found | {"latest-table-version": 10**30},
]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_READS", RetryPolicy(attempts=1, first=0.01))
    monkeypatch.setattr(unity_table, "_LOST", RetryPolicy(attempts=2, first=0.01))


def changing(server: UnityServer, method: str, path: str, change: Change, times: int = 99) -> None:
    """Change the next `times` answers to requests of `method` whose path ends with `path`."""
    answer, left = server.answer, [times]

    def answering(asked: str, where: str, query: Any, body: Any) -> Any:
        found = answer(asked, where, query, body)
        if asked != method or not where.endswith(path) or not left[0]:
            return found
        left[0] -= 1
        return change(found)

    server.answer = answering  # type: ignore[method-assign]


@pytest.mark.parametrize("change", DESCRIBED)
def test_a_table_answer_with_wrong_members_is_reported_with_the_request(
    table: lakescan.Table, server: UnityServer, change: Change
) -> None:
    changing(server, "GET", "/tables/t", change)
    with pytest.raises(CorruptMetadata, match=f"GET {server.uri}.*/tables/t is answered with .*operator"):
        lakescan.table(NAME).count()


@pytest.mark.parametrize("change", [*DESCRIBED, lambda found: [], lambda found: found | {"commits": [{"version": 1}]}])
def test_a_commit_with_an_unreadable_answer_is_retried_and_made_once(
    table: lakescan.Table, server: UnityServer, impatient: None, change: Change
) -> None:
    changing(server, "POST", "/tables/t", change, times=1)
    table.append(rows(1))
    table.append(rows(2))
    assert ids() == [1, 2]


@pytest.mark.parametrize("change", DESCRIBED[2:4])
def test_a_commit_without_a_readable_answer_has_an_unknown_outcome(
    table: lakescan.Table, server: UnityServer, impatient: None, change: Change
) -> None:
    opened = table
    changing(server, "POST", "/tables/t", change)
    with pytest.raises(CommitStateUnknown, match="Check the table"):
        opened.append(rows(1))
    assert ids() == [1]  # the commit was made


@pytest.mark.parametrize("listed", [7, "x", [None], [{"title": "db"}], [{"name": 3}]])
def test_lists_with_wrong_members_are_reported_with_the_request(
    main: lakescan.Catalog, table: lakescan.Table, server: UnityServer, listed: Any
) -> None:
    changing(server, "GET", "/schemas", lambda found: {"schemas": listed})
    changing(server, "GET", "/tables", lambda found: {"tables": listed})
    for ask in (main.list_namespaces, lambda: main.list_tables("db")):
        with pytest.raises(CorruptMetadata, match=f"GET {server.uri}.* is answered "):
            ask()


def test_a_list_whose_pages_repeat_is_an_error(main: lakescan.Catalog, server: UnityServer) -> None:
    changing(server, "GET", "/schemas", lambda found: found | {"next_page_token": "again"})
    with pytest.raises(CorruptMetadata, match="same next page"):
        main.list_namespaces()


def test_invalid_schema_properties_are_reported(main: lakescan.Catalog, server: UnityServer) -> None:
    changing(server, "GET", "/schemas/main.db", lambda found: found | {"properties": 7})
    with pytest.raises(CorruptMetadata, match="'properties' as a number, not an object"):
        main.namespace_properties("db")


def test_an_answer_that_is_not_an_object_is_reported(
    main: lakescan.Catalog, table: lakescan.Table, server: UnityServer, impatient: None
) -> None:
    changing(server, "GET", "/tables/t", lambda found: [])
    with pytest.raises(StorageError, match=r"is not a JSON object\. Is that the address of a Unity Catalog server"):
        lakescan.table(NAME)


def test_an_unknown_endpoint_is_not_reported_as_a_missing_name(main: lakescan.Catalog, server: UnityServer) -> None:
    server.faults.append(Fault("GET", "/tables/main.db.gone$", 404, kind=""))
    server.faults.append(Fault("GET", "/tables/gone$", 404, kind=""))
    with pytest.raises(StorageError, match=r"'main' failed to respond for main\.db\.gone: GET .*status 404"):
        lakescan.table("main.db.gone")
    server.faults.append(Fault("GET", "/schemas/main.db$", 404, kind=""))
    with pytest.raises(StorageError, match="status 404"):
        main.namespace_exists("db")


def test_messages_contain_no_values() -> None:
    answer = UnityResponse({"config": {"s3.secret-access-key": ["hidden"]}, "table_id": ["hidden"]}, "GET http://unity")
    for read in (lambda: answer.texts("config"), lambda: answer.text("table_id"), lambda: answer.number("table_id")):
        with pytest.raises(CorruptMetadata) as error:
            read()
        assert "hidden" not in str(error.value)


def test_unreadable_credentials_keep_valid_ones_in_use() -> None:
    def answer() -> IssuedCredentials:
        raise CorruptMetadata("malformed")

    good, expired = (
        IssuedCredentials({}, renewal=0.0, expiry=time.time() + 60),
        IssuedCredentials({}, renewal=0.0, expiry=1.0),
    )
    assert valid_credentials(good, answer) is good
    with pytest.raises(CorruptMetadata):
        valid_credentials(expired, answer)
