"""Processes killed while committing two tables: both tables change or neither does, and leftover files are found."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from requests import Session

import lakescan
from lakescan.storage import Storage
from tests.support.rest_server import rest_server

SURVIVED, KILLED = 0, 9
MOST = 60  # calls of a transaction that change anything
CALLS: list[tuple[Any, str]] = [(Storage, "create"), (Storage, "remove"), (Session, "send")]  # that change anything


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(lake: lakescan.Catalog, name: str) -> list[int]:
    return sorted(lake.load_table(f"db.{name}").scan().to_arrow()["id"].to_pylist())


def die_at(number: int, after: bool) -> None:
    """Kill this process, without cleanup, before or after its call with this number."""
    calls = 0

    def through(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == number and not after:
                os._exit(KILLED)
            result = real(*arguments, **named)
            if calls == number:
                os._exit(KILLED)
            return result

        return call

    for owner, name in CALLS:
        setattr(owner, name, through(getattr(owner, name)))


def in_a_process(work: Callable[[], None]) -> int:
    """Run `work` in a fork of this process and return its exit status."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = SURVIVED
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before a call", "after a call"])
def test_both_tables_are_changed_or_neither_wherever_the_process_is_killed(tmp_path: Path, after: bool) -> None:
    with rest_server(tmp_path) as (_, uri):
        lake = lakescan.catalog("lake", type="rest", uri=uri)
        lake.create_namespace("db")
        for name in ("one", "two"):
            lake.create_table(f"db.{name}", "id BIGINT").append(rows(*range(-MOST, 0)))
        number, status, outcomes = 0, KILLED, set[bool]()
        while status == KILLED:
            number += 1

            def change(number: int = number) -> None:
                die_at(number, after)
                with lakescan.catalog("child", type="rest", uri=uri).transaction() as tx:
                    tx.load_table("db.one").append(rows(number))
                    tx.load_table("db.two").delete(f"id = {-number}")

            status = in_a_process(change)
            is_made = number in ids(lake, "one")
            assert is_made == (-number not in ids(lake, "two"))
            outcomes.add(is_made)
        assert (status, outcomes) == (SURVIVED, {False, True})
        assert 10 < number <= MOST
        for name in ("one", "two"):
            before, table = ids(lake, name), lake.load_table(f"db.{name}")
            for file in table.remove_orphans(older_than="2100-01-01", dry_run=True).files:
                Path(file.removeprefix("file://")).unlink()
            table.append(rows(0))
            assert ids(lake, name) == sorted([*before, 0])
