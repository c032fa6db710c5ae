"""A writer is killed before each call to storage and to the catalog, which is also after the previous call.

At every point, rows exist once or not at all, every reader opens the table, the next commit works, and files that no
commit references are found as orphans. A killed process makes no further calls, so all later calls raise, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import lakescan
from lakescan.delta.commit import commit_file as put
from lakescan.errors import QueryFailed
from lakescan.storage import Storage
from tests.tables.support import maker, now, pairs, rows

A, B, C, D = (1, "a"), (2, "b"), (3, "a"), (4, "c")
CHANGES: dict[str, tuple[Callable[[], object], list[Any]]] = {
    "append": (lambda: now().append(rows(C)), [A, B, C]),
    "overwrite some": (lambda: now().overwrite(rows(C), where="part = 'a'"), [B, C]),
    "overwrite all": (lambda: now().overwrite(rows(C)), [C]),
    "overwrite in part": (lambda: now().overwrite(rows(C), where="id <> 2"), [B, C]),
    "compact": (lambda: now().compact(), [A, B]),
    "sort in parts": (
        lambda: now().compact(strategy="sort", sort_order="id", partial_progress_enabled=True),
        [A, B],
    ),
    "delete": (lambda: now().delete("sqrt(id) = 1"), [B]),
    "update": (lambda: now().update({"id": "id + 2"}, "abs(id) = 1"), [B, C]),
    "merge": (
        lambda: (
            now()
            .merge(rows((1, "c"), (3, "a")), "t.id = s.id")
            .when_matched_delete()
            .when_not_matched_insert_all()
            .execute()
        ),
        [B, C],
    ),
}
IN_PLACE = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
RECORDED = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}


class Killed(BaseException):
    """The end of the simulated process: a BaseException, which no error handler catches."""


class Process:
    """Count calls, and stop after `lives` of them."""

    def __init__(self, lives: int = 1 << 30) -> None:
        self.calls, self._lives = 0, lives

    def __call__(self, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self.calls == self._lives:
            raise Killed
        self.calls += 1
        return real(*arguments, **named)


def calls_of(kind: str) -> Sequence[tuple[Any, str]]:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io.pyarrow import PyArrowFileIO

    storage = [(Storage, name) for name in ("open", "create", "remove", "read", "list", "walk", "look_up", "exists")]
    if kind.startswith("delta"):
        return [*storage, (put, "put_if_absent"), (os, "link"), (os, "replace"), (os, "fsync")]
    of_catalog = [(SqlCatalog, name) for name in ("commit_table", "load_table")]
    return [*storage, *of_catalog, (PyArrowFileIO, "new_output"), (PyArrowFileIO, "new_input")]


@contextmanager
def watched(kind: str, process: Process) -> Iterator[None]:
    """Route each call through the process."""

    def through(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments, **named: process(real, *arguments, **named)

    with ExitStack() as stack:
        for owner, name in calls_of(kind):
            stack.enter_context(patch.object(owner, name, through(getattr(owner, name))))
        yield


def table_in(folder: Path, kind: str) -> None:
    folder.mkdir()
    local = lakescan.catalog("local", warehouse=folder)
    local.create_namespace("db")
    if kind == "delta, recorded":
        maker("delta", local)(partition_by=(), properties=RECORDED).append(rows(A, B))
        return
    if kind.endswith(", in place"):
        more = {"delta.enableDeletionVectors": "true", **RECORDED} if kind.startswith("delta") else IN_PLACE
        maker(kind.removesuffix(", in place"), local)(partition_by=(), properties=more).append(rows(A, B))
        return
    properties = {"delta.checkpointInterval": "3"} if kind == "delta" else {}
    table = maker(kind, local)(properties=properties)
    for pair in (A, B):
        table.append(rows(pair))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("iceberg", "append"),
        ("iceberg", "overwrite some"),
        ("iceberg version 3", "compact"),
        ("iceberg", "sort in parts"),
        *(("delta", change) for change in CHANGES if change not in ("overwrite in part", "delete")),
        ("iceberg", "update"),
        ("iceberg, in place", "delete"),
        ("iceberg, in place", "merge"),
        ("iceberg version 3, in place", "update"),
        ("delta, in place", "merge"),
        ("delta, recorded", "overwrite in part"),
    ],
)
def test_a_table_is_complete_wherever_its_writer_is_killed(kind: str, change: str, tmp_path: Path) -> None:
    act, expected = CHANGES[change]
    table_in(tmp_path / "dry", kind)
    whole = Process()
    with watched(kind, whole):
        act()
    assert pairs() == expected
    assert whole.calls > 3
    for lives in range(whole.calls):
        table_in(tmp_path / str(lives), kind)
        with watched(kind, Process(lives)), pytest.raises((Killed, QueryFailed)):  # in threads of DuckDB
            act()
        _check(kind, expected)


def _check(kind: str, expected: list[Any]) -> None:
    found = pairs()
    assert found in ([A, B], expected)
    if kind != "delta, in place":  # delta-rs reads no deletion vectors
        assert _by_another_reader(kind) == found
    now().append(rows(D))
    assert pairs() == sorted([*found, D])
    named = {Path(path).name for path in now().scan().plan().files["path"].to_pylist()}
    if kind == "delta, recorded":
        changes = now().changes(start=1)
        assert sorted(changes.to_arrow()["id"].to_pylist()) == ([4] if found == [A, B] else [1, 3, 4])
        named |= {Path(path).name for path in changes.scan.plan().files["path"].to_pylist()}
        assert {file.name for file in cdc_files()} <= named | orphans()
    assert not named & orphans()


def orphans() -> set[str]:
    return {Path(each).name for each in now().remove_orphans(older_than="2100-01-01", dry_run=True)}


def cdc_files() -> Iterator[Path]:
    return (Path(now().location.removeprefix("file://")) / "_change_data").rglob("*.parquet")


def _by_another_reader(kind: str) -> list[Any]:
    if kind.startswith("delta"):
        from deltalake import DeltaTable

        found = DeltaTable(now().location).to_pyarrow_table()
    else:
        from pyiceberg.catalog import load_catalog

        from lakescan.catalogs.registry import all_configurations

        found = load_catalog("local", **all_configurations()["local"].properties).load_table("db.t").scan().to_arrow()
    return sorted((row["id"], row["part"]) for row in found.to_pylist())
