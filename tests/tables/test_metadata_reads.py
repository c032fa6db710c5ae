"""The metadata file of each state of an Iceberg table is read once, whatever operations use the state."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable

import pytest

import lakescan
from lakescan.catalogs.committer import CatalogCommitter
from lakescan.iceberg.target import IcebergTarget
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from tests.tables.support import now, rows


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the reads of each metadata file, by location."""
    counts: Counter[str] = Counter()
    read = Storage.read

    def counted(self: Storage, location: str, *args: int, **named: int) -> bytes:
        if location.endswith(".metadata.json"):
            counts[location] += 1
        return read(self, location, *args, **named)

    monkeypatch.setattr(Storage, "read", counted)
    return counts


@pytest.fixture
def table(local: lakescan.Catalog) -> lakescan.Table:
    local.create_table("db.t", "id BIGINT, part STRING", partition_by=["part"])
    now().append(rows((1, "a")))
    return now()


def _scan(table: lakescan.Table) -> None:
    table.scan().where("id = 1").to_arrow()


def _append(table: lakescan.Table) -> None:
    table.append(rows((2, "b")))


def _overwrite(table: lakescan.Table) -> None:
    table.overwrite(rows((3, "a")), where="part = 'a'")


def _compact(table: lakescan.Table) -> None:
    table.compact()


def _refresh(table: lakescan.Table) -> None:
    table.refresh()


@pytest.mark.parametrize(
    "steps",
    [
        (_scan, _append, _scan),
        (_append, _append, _scan),
        (_scan, _overwrite, _refresh, _scan, _append),
        (_append, _append, _compact, _scan, _refresh),
    ],
    ids=lambda steps: "-".join(step.__name__.strip("_") for step in steps),
)
def test_each_state_is_read_once(
    local: lakescan.Catalog, table: lakescan.Table, reads: Counter[str], steps: tuple[Callable[[lakescan.Table], None]]
) -> None:
    reads.clear()
    opened = now()
    for step in steps:
        step(opened)
    assert reads
    assert set(reads.values()) == {1}


def test_a_table_that_replaces_another_is_read_again(
    local: lakescan.Catalog, table: lakescan.Table, reads: Counter[str]
) -> None:
    """Cached metadata is used only for the same file of the same table."""
    known = IcebergTarget.open(CatalogCommitter(table.name), WriteOptions()).opened.metadata  # type: ignore[arg-type]
    same = IcebergTarget.open(CatalogCommitter(table.name), WriteOptions(), known=known)  # type: ignore[arg-type]
    assert same.opened.metadata is known
    _append(now())
    later = IcebergTarget.open(CatalogCommitter(table.name), WriteOptions(), known=known)  # type: ignore[arg-type]
    assert later.opened.metadata.current_snapshot_id != known.current_snapshot_id
    assert len(later.opened.metadata.snapshots) == 2


def test_write_settings_reach_workers_completely(local: lakescan.Catalog, table: lakescan.Table) -> None:
    writes = IcebergTarget.open(CatalogCommitter(table.name), WriteOptions()).writes  # type: ignore[arg-type]
    sent = pickle.loads(pickle.dumps(writes))
    assert sent.schema == writes.schema
    assert sent.partition_names == writes.partition_names == ["part"]
    assert sent.data_folder == writes.data_folder
    assert sent.metadata == writes.metadata
