"""Statements that change rows while one call to storage or the catalog fails, before it takes effect or after.

The table is unchanged, or as the statement makes it. The statement works when it is retried.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lakescan
from lakescan.errors import LakescanError
from tests.support.row_changes import MERGE_ON_READ
from tests.support.saved_warehouse import SavedWarehouse
from tests.tables.support import maker, now, pairs, rows
from tests.tables.test_kills import watched

RECORDED = {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"}
KINDS = {
    "iceberg": {},
    "iceberg, in place": MERGE_ON_READ,
    "iceberg version 3, in place": MERGE_ON_READ,
    "delta": RECORDED,
    "delta, in place": {"delta.enableDeletionVectors": "true", **RECORDED},
}
A, B, C, D = (1, "a"), (2, "b"), (3, "a"), (4, "c")


def merge(on: str = "t.id = s.id") -> Any:
    found = now().merge(rows((1, "x"), D), on=on).when_matched_delete("s.part = 'x'")
    return found.when_matched_update_all().when_not_matched_insert_all("s.part <> 'x'").execute()


STATEMENTS: dict[str, tuple[Callable[[], object], list[Any]]] = {
    "delete": (lambda: now().delete("sqrt(id) = 1"), [B, C]),
    "delete whole files": (lambda: now().delete("id = 3"), [A, B]),
    "update": (lambda: now().update({"part": "'z'"}, "abs(id) = 1"), [(1, "z"), B, C]),
    "merge": (merge, [B, C, D]),
    "upsert": (lambda: now().upsert(rows((1, "u"), D), "id"), [(1, "u"), B, C, D]),
    "upsert by equality": (
        lambda: now().upsert(rows((1, "u"), D), "id", upsert_mode="equality"),
        [(1, "u"), B, C, D],
    ),
    "compact": (lambda: now().compact(rewrite_all=True), [A, B, C]),
    "rewrite position deletes": (lambda: now().rewrite_position_deletes(rewrite_all=True), [A, B, C]),
    "convert equality deletes": (lambda: now().convert_equality_deletes(), [A, B, C]),
}
OF_ICEBERG = {"upsert by equality", "rewrite position deletes", "convert equality deletes"}


class Fault:
    """Fail one call, before or after it takes effect, and count all calls."""

    def __init__(self, number: int = -1, *, works: bool = False) -> None:
        self.calls, self._number, self._works = 0, number, works

    def __call__(self, real: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls - 1 != self._number:
            return real(*arguments, **named)
        if self._works:
            real(*arguments, **named)
        raise OSError("the connection is lost")


def table_in(folder: Path, kind: str, statement: str) -> None:
    """Make a table with rows A and B in a file that had more, and C in another."""
    folder.mkdir()
    local = lakescan.catalog("local", warehouse=folder)
    local.create_namespace("db")
    table = maker(kind.split(",")[0], local)(partition_by=(), properties=KINDS[kind])
    if statement == "convert equality deletes":
        table.append(rows((1, "old"), B))
        table.upsert(rows(A), "id", upsert_mode="equality")
    else:
        table.append(rows(A, B, (8, "gone"), (9, "gone")))
        now().delete("abs(id) = 8")
        now().delete("abs(id) = 9")
    now().append(rows(C))


@pytest.mark.slow
@pytest.mark.parametrize("works", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        *(("iceberg, in place", each) for each in STATEMENTS),
        *(("delta, in place", each) for each in STATEMENTS if each not in OF_ICEBERG),
        ("iceberg version 3, in place", "merge"),
        ("iceberg", "update"),
        ("delta", "merge"),
    ],
)
def test_one_failing_call_leaves_the_table_unchanged_or_changed(
    kind: str, statement: str, works: bool, tmp_path: Path
) -> None:
    act, after = STATEMENTS[statement]
    table_in(tmp_path / "lake", kind, statement)
    saved = SavedWarehouse(tmp_path / "lake")
    whole = Fault()
    with watched(kind, whole):  # type: ignore[arg-type]
        act()
    assert pairs() == after
    assert whole.calls > 3
    for number in range(whole.calls):
        saved.restore()
        with watched(kind, Fault(number, works=works)):  # type: ignore[arg-type]
            try:
                act()
            except (LakescanError, OSError):
                found = pairs()
            else:
                found = after
        assert pairs() == found
        assert found in ([A, B, C], after), number
        act()
        assert pairs() == after, number
