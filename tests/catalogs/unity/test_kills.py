"""Writers of a Unity Catalog that are killed, and concurrent processes that commit: no row is lost or duplicated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import lakescan
from lakescan.catalogs.unity.client import UnityClient
from lakescan.errors import QueryFailed
from lakescan.storage import Storage
from tests.support.unity_server import UnityServer
from tests.support.unity_tables import ids, published, rows, stored

ROOT = Path(__file__).parents[3]
CALLS: list[tuple[Any, str]] = [(Storage, "create"), (Storage, "remove"), (UnityClient, "send")]  # that change anything


class Killed(BaseException):
    """The end of the simulated process: a BaseException, which no error handler catches."""


class Process:
    """Count calls and stop before or after one of them; all later calls stop, too."""

    def __init__(self, lives: int = 1 << 30, *, after: bool = False) -> None:
        self.calls, self._lives, self._after = 0, lives, after

    def __call__(self, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self.calls >= self._lives:
            if self._after and self.calls == self._lives:
                self.calls += 1
                real(*arguments, **named)
            raise Killed
        self.calls += 1
        return real(*arguments, **named)


@contextmanager
def watched(process: Process) -> Iterator[None]:
    def through(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: process(real, *arguments, **named)

    with ExitStack() as stack:
        for owner, name in CALLS:
            stack.enter_context(patch.object(owner, name, through(getattr(owner, name))))
        yield


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("change", ["append", "delete"])
def test_a_table_is_complete_wherever_its_writer_is_killed(
    main: lakescan.Catalog, server: UnityServer, change: str, after: bool
) -> None:
    def act(number: int | str) -> None:
        table = lakescan.table(f"main.db.t{number}")
        if change == "append":
            table.append(rows(3))
        else:
            table.delete("id = 1")

    def made(number: int | str) -> None:
        table = main.create_table(
            f"db.t{number}", "id BIGINT, part STRING", format="delta", properties={"delta.checkpointInterval": "2"}
        )
        table.append(rows(1, 2))

    expected = [1, 2, 3] if change == "append" else [2]
    made("dry")
    whole = Process()
    with watched(whole):
        act("dry")
    assert ids("main.db.tdry") == expected
    for lives in range(whole.calls):
        made(lives)
        name = f"main.db.t{lives}"
        with watched(Process(lives, after=after)), pytest.raises((Killed, QueryFailed)):
            act(lives)
        found = ids(name)
        assert found in ([1, 2], expected)
        lakescan.table(name).append(rows(9))
        assert ids(name) == [*found, 9]
        assert stored(server, name).unpublished == []


@pytest.mark.slow
def test_processes_that_append_concurrently_lose_no_row(table: lakescan.Table, server: UnityServer) -> None:
    server.most_unpublished = 3
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    script = [sys.executable, "-m", "tests.catalogs.unity.appending", server.uri]
    started = [subprocess.Popen([*script, str(number * 10), "4"], cwd=ROOT, env=environment) for number in range(4)]
    assert [each.wait(timeout=300) for each in started] == [0, 0, 0, 0]
    assert ids() == [number * 10 + each for number in range(4) for each in range(4)]
    assert published(server) == list(range(17))
