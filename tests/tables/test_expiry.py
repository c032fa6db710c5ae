"""Snapshots expire as branches, tags and table properties require; concurrent commits are respected."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.iceberg.metadata.snapshot_retention import Expiration, Retention
from lakescan.iceberg.metadata.table_metadata import TableMetadata
from lakescan.iceberg.metadata.table_properties import IcebergProperties
from lakescan.options.write import WriteOptions
from tests.tables.support import Make, maker, now, rows

DAY = 24 * 60 * 60 * 1000
LATER = datetime.now(UTC) + timedelta(days=1)


class At:
    """Metadata with snapshots by age in days: one line of them, its branches and tags."""

    def __init__(self, *ages: float, parents: dict[int, int | None] | None = None, **refs: tuple[int, str, dict]):
        from types import SimpleNamespace

        line = {n: n - 1 if n else None for n in range(len(ages))} | (parents or {})
        self.snapshots = {
            n: SimpleNamespace(id=n, parent_id=line[n], timestamp_ms=int(-age * DAY)) for n, age in enumerate(ages)
        }
        self.refs = {
            name: SimpleNamespace(snapshot_id=snapshot, kind=kind, retention=own)
            for name, (snapshot, kind, own) in refs.items()
        }


def expired(metadata: Any, older_than: float | None = None, at_least: int | None = None, **own: int) -> Expiration:
    said = {f"history.expire.{name.replace('_', '-')}": str(value) for name, value in own.items()}
    before = None if older_than is None else int(-older_than * DAY)
    found: TableMetadata = metadata
    return Retention.create(IcebergProperties(said, "the table"), 0, before, at_least).find_expiration(found)


MAIN = {"main": (4, "branch", {})}
YOUNG = {"max-ref-age-ms": DAY}
BRANCH = {"main": (4, "branch", {}), "audit": (2, "branch", {"max-snapshot-age-ms": 30 * DAY})}


@pytest.mark.parametrize(
    ("metadata", "asked", "gone", "refs"),
    [
        (At(40, 30, 20, 4, 1, **MAIN), {}, {0, 1, 2}, set()),
        (At(40, 30, 20, 4, 1, **MAIN), {"older_than": 25}, {0, 1}, set()),
        (At(40, 30, 20, 4, 1, **MAIN), {"older_than": 0, "at_least": 3}, {0, 1}, set()),
        (At(40, 30, 20, 4, 1, **MAIN), {"older_than": 0, "min_snapshots_to_keep": 4}, {0}, set()),
        (
            At(40, 30, 20, 4, 1, **MAIN),
            {"older_than": 0, "at_least": 1, "min_snapshots_to_keep": 4},
            {0, 1, 2, 3},
            set(),
        ),
        (At(40, 30, 20, 4, 1, **MAIN), {"max_snapshot_age_ms": 21 * DAY}, {0, 1}, set()),
        (At(40, 30, 20, 4, 1, main=(4, "branch", {"min-snapshots-to-keep": 5})), {"older_than": 0}, set(), set()),
        (At(40, 30, 20, 4, 1, **BRANCH), {"older_than": 0}, {0, 3}, set()),
        (At(40, 30, 20, 4, 1, **MAIN, tag=(0, "tag", {})), {"older_than": 0}, {1, 2, 3}, set()),
        (
            At(40, 30, 20, 4, 1, **MAIN, tag=(0, "tag", {"max-ref-age-ms": DAY})),
            {"older_than": 0},
            {0, 1, 2, 3},
            {"tag"},
        ),
        (
            At(40, 30, 20, 4, 1, **MAIN, tag=(0, "tag", {})),
            {"older_than": 0, "max_ref_age_ms": DAY},
            {0, 1, 2, 3},
            {"tag"},
        ),
        (At(40, 30, 20, 4, 1, main=(1, "branch", YOUNG)), {"older_than": 10}, {0, 2}, set()),
        (At(3, 2, 1, parents={2: None}, main=(1, "branch", {})), {"older_than": 1.5}, {0}, set()),
    ],
)
def test_the_same_snapshots_expire_as_in_the_reference(
    metadata: At, asked: dict, gone: set[int], refs: set[str]
) -> None:
    found = expired(metadata, **asked)
    assert (set(found.snapshots), set(found.refs)) == (gone, refs)


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    """Three snapshots."""
    made = local.create_table("db.t", "id BIGINT, part STRING")
    for number in range(3):
        made.append(rows((number, "a")))
    return now()


def ids() -> list[int]:
    return [each.snapshot_id for each in connection("local").load_table("db.t").metadata.snapshots]


@pytest.mark.parametrize("what", ["rollback", "tag", "branch"])
def test_concurrent_commits_are_not_lost(table: lakescan.Table, what: str) -> None:
    first = ids()[0]
    before: Any = table._target(WriteOptions())
    _ = before.opened
    changes = connection("local").load_table("db.t").manage_snapshots()
    {
        "rollback": lambda: changes.rollback_to_snapshot(first),
        "tag": lambda: changes.create_tag(first, "kept"),
        "branch": lambda: changes.create_branch(first, "kept"),
    }[what]().commit()
    before.expire(LATER, 1)
    assert first in ids()
    loaded = connection("local").load_table("db.t").metadata
    assert all(ref.snapshot_id in ids() for ref in loaded.refs.values())
    assert ("kept" in loaded.refs) == (what != "rollback")
    assert now().scan().to_arrow().num_rows == (1 if what == "rollback" else 3)


def test_a_lost_answer_is_looked_up(table: lakescan.Table, monkeypatch) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    commit = SqlCatalog.commit_table

    def lost(self: Any, *arguments: Any) -> None:
        commit(self, *arguments)
        raise TimeoutError("no answer")

    monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    assert int(table.expire_snapshots(LATER)) == 2
    assert len(ids()) == 1


def test_times_without_an_offset_are_utc(table: lakescan.Table, monkeypatch) -> None:
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    an_hour_ago = (datetime.now(UTC) - timedelta(hours=1)).replace(tzinfo=None)
    assert int(table.expire_snapshots(an_hour_ago, dry_run=True)) == 0
    assert int(table.expire_snapshots(an_hour_ago + timedelta(hours=1, seconds=1), dry_run=True)) == 2
    assert int(table.expire_snapshots()) == 0
    with pytest.raises(lakescan.InvalidOption, match="must be a whole number of at least 1"):
        table.expire_snapshots(LATER, retain_last=0)


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3"])
def test_commits_keep_the_retention_of_their_branch(local: lakescan.Catalog, kind: str) -> None:
    make: Make = maker(kind, local)
    make().append(rows((1, "a")))
    loaded = connection("local").load_table("db.t")
    at = loaded.metadata.current_snapshot_id
    said = {"max_snapshot_age_ms": 7, "min_snapshots_to_keep": 5, "max_ref_age_ms": 9 * DAY}
    loaded.manage_snapshots().create_branch(at, "audit", **said).commit()
    now().append(rows((2, "a")), branch="audit")
    now().overwrite(rows((2, "a")), branch="audit", where="id = 2")
    now().compact(branch="audit")
    ref = connection("local").load_table("db.t").metadata.refs["audit"]
    assert {name: getattr(ref, name) for name in said} == said
    assert ref.snapshot_id != at
