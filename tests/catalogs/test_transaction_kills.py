"""Processes that are killed while they commit two tables: both are changed or none, and their files are found."""

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
CALLS: list[tuple[Any, str]] = [(Storage, "create"), (Storage, "remove"), (Session, "send")]  # that change anything


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(lake: lakescan.Catalog, name: str) -> list[int]:
    return sorted(lake.load_table(f"db.{name}").scan().to_arrow()["id"].to_pylist())


def die_at(number: int, after: bool) -> None:
    """This process ends without a word before or after its call of such a number."""
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
    """Run work in a fork of this process; returns how it ended."""
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
def test_both_tables_are_changed_or_none_wherever_the_process_was_killed(tmp_path: Path, after: bool) -> None:
    with rest_server(tmp_path) as (_, uri):
        lake = lakescan.catalog("lake", type="rest", uri=uri)
        lake.create_namespace("db")
        number, status, outcomes = 0, KILLED, set[bool]()
        while status == KILLED:
            number += 1
            for name in ("one", "two"):
                lake.create_table(f"db.{name}", "id BIGINT").append(rows(1, 2))

            def change(number: int = number) -> None:
                die_at(number, after)
                with lakescan.catalog("child", type="rest", uri=uri).transaction() as tx:
                    tx.load_table("db.one").append(rows(3))
                    tx.load_table("db.two").delete("id = 1")

            status = in_a_process(change)
            found = ids(lake, "one"), ids(lake, "two")
            assert found in (([1, 2], [1, 2]), ([1, 2, 3], [2]))
            outcomes.add(found == ([1, 2, 3], [2]))
            lake.load_table("db.two").append(rows(9))
            for name in ("one", "two"):
                table = lake.load_table(f"db.{name}")
                for file in table.remove_orphans(older_than="2100-01-01", dry_run=True).files:
                    Path(file.removeprefix("file://")).unlink()
                table.to_arrow()
            lake.drop_table("db.one", purge=True)
            lake.drop_table("db.two", purge=True)
        assert (status, outcomes) == (SURVIVED, {False, True})
        assert number > 10
