"""Rewritten position delete files: fewer files, or vectors after an upgrade, with the same rows."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc
import pytest

import lakescan
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.options.write import WriteOptions
from lakescan.planning.delete_files import DeleteKind
from lakescan.writing.table_writes import DeleteLimits
from tests.support import row_changes, row_deltas
from tests.tables.support import maker, now, pairs, rows

PARTITION = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
FILE = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "file"}


def make(local: lakescan.Catalog, properties: dict[str, str]) -> None:
    """Make two files in each of the partitions `a` (ids 0 to 19) and `b` (20 to 39)."""
    maker("iceberg", local)(properties=properties)
    for start in (0, 10):
        now().append(
            rows(*((n, "a") for n in range(start, start + 10)), *((n + 20, "b") for n in range(start, start + 10)))
        )


def deletes(kind: DeleteKind | None = None) -> int:
    """Count the live delete files of a kind."""
    files = now()._spec.file_table().deletes
    return len(files) if kind is None else len(files.filter(pc.equal(files["kind"], kind)))


def test_many_small_files_of_a_partition_become_one(local: lakescan.Catalog) -> None:
    make(local, PARTITION)
    gone = [1, 2, 11, 12, 3]
    for n in gone:
        now().delete(f"id = {n}")
    now().delete("id = 21")
    before = pairs()
    assert deletes() == 6
    done = now().rewrite_position_deletes()
    assert (done.rewritten_delete_files, done.added_delete_files) == (5, 1)
    assert 0 < done.added_bytes < done.rewritten_bytes
    assert str(done).startswith("5 files of position deletes rewritten as 1 (")
    assert deletes() == 2  # b has one, which is not enough
    assert pairs() == before
    assert now().history().to_pylist()[-1]["operation"] == "replace"
    assert str(now().rewrite_position_deletes()) == "no position deletes to rewrite"


def test_deletes_are_as_old_as_the_newest_of_those_that_they_replace(local: lakescan.Catalog) -> None:
    make(local, PARTITION)
    for n in range(5):
        now().delete(f"id = {n}")
    number = row_deltas.head_snapshot().sequence_number
    now().append(rows((50, "a")))
    now().rewrite_position_deletes()
    assert now().scan().plan().table.deletes["sequence_number"].to_pylist() == [number]


def test_an_option_sets_the_minimum_number_of_files(local: lakescan.Catalog) -> None:
    make(local, PARTITION)
    for n in (1, 2):
        now().delete(f"id = {n}")
    assert not now().rewrite_position_deletes().rewritten_delete_files
    assert not now().rewrite_position_deletes(min_input_files=2, min_file_size_bytes=1).rewritten_delete_files
    assert now().rewrite_position_deletes(min_input_files=2).rewritten_delete_files == 2


def test_a_filter_limits_the_partitions(local: lakescan.Catalog) -> None:
    make(local, PARTITION)
    for n in (1, 2, 21, 22):
        now().delete(f"id = {n}")
    before = pairs()
    done = now().rewrite_position_deletes(where="part = 'b'", min_input_files=2)
    assert (done.rewritten_delete_files, done.added_delete_files, deletes()) == (2, 1, 3)
    assert pairs() == before


def test_deletes_by_file_are_rewritten_if_a_file_has_several(local: lakescan.Catalog) -> None:
    make(local, FILE)
    now().delete("id in (1, 11)")
    assert deletes() == 2
    assert not now().rewrite_position_deletes(min_input_files=2).rewritten_delete_files  # one for each file already
    added = row_deltas.added_deletes(row_deltas.position_deletes("id in (2, 12)"))
    row_deltas.publish("delete", SnapshotChanges(added_deletes=added))
    before = pairs()
    done = now().rewrite_position_deletes(min_input_files=2)
    assert (done.rewritten_delete_files, done.added_delete_files, deletes()) == (4, 2, 2)
    assert pairs() == before


def test_deletes_of_removed_files_are_dropped(local: lakescan.Catalog) -> None:
    make(local, PARTITION)
    now().delete("id in (1, 11)")
    files = now().scan().where("part = 'a'").plan().files["path"].combine_chunks()
    row_deltas.publish("delete", SnapshotChanges(removed=files))
    assert deletes() == 1
    assert not [n for n, part in pairs() if part == "a"]
    done = now().rewrite_position_deletes()
    assert (done.rewritten_delete_files, done.added_delete_files, deletes()) == (1, 0, 0)


@pytest.mark.parametrize("properties", [PARTITION, FILE], ids=["partition", "file"])
def test_position_deletes_become_vectors_after_an_upgrade(local: lakescan.Catalog, properties: dict[str, str]) -> None:
    make(local, properties)
    for n in (1, 2, 11, 21):
        now().delete(f"id = {n}")
    before = pairs()
    row_changes.upgrade()
    done = now().rewrite_position_deletes()
    assert done.rewritten_delete_files == (4 if properties is PARTITION else 3)
    assert (deletes(DeleteKind.POSITION), deletes(DeleteKind.VECTOR)) == (0, 3)
    assert pairs() == before
    now().delete("id = 3")
    assert pairs() == [row for row in before if row[0] != 3]


def test_vectors_of_some_partitions_leave_the_deletes_of_others(local: lakescan.Catalog) -> None:
    make(local, PARTITION)
    now().delete("id in (1, 21)")
    before = pairs()
    row_changes.upgrade()
    assert now().rewrite_position_deletes(where="part = 'a'").rewritten_delete_files == 1
    assert (deletes(DeleteKind.POSITION), deletes(DeleteKind.VECTOR)) == (1, 1)
    assert pairs() == before


def rewriting() -> Any:
    """Begin a rewrite, which has already read its inputs."""
    target = now()._target(WriteOptions())
    assert target.scan.snapshot.id is not None
    return lambda: target.rewrite_position_deletes(None, DeleteLimits(everything=True))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("other", ["delete", "compact", "append"])
def test_a_rewrite_is_rebased_or_conflicts_and_never_restores_rows(
    local: lakescan.Catalog, version: int, other: str
) -> None:
    make(local, PARTITION)
    for n in (1, 2):
        now().delete(f"id = {n}")
    if version == 3:
        row_changes.upgrade()
    ours = rewriting()
    match other:
        case "delete":
            now().delete("id = 3")
        case "compact":
            now().compact(where="part = 'a'")
        case _:
            now().append(rows((50, "a")))
    expected = pairs()
    try:
        ours()
    except lakescan.CommitConflict:
        assert (version, other) in [(2, "compact"), (3, "compact"), (3, "delete")]
    else:
        assert (version, other) not in [(2, "compact"), (3, "compact"), (3, "delete")]
    assert pairs() == expected


def test_a_compaction_that_began_before_a_rewrite_of_deletes_conflicts(local: lakescan.Catalog) -> None:
    from lakescan.maintenance import compact

    make(local, PARTITION)
    target = now()._target(WriteOptions())
    assert target.scan.snapshot.id is not None
    for n in (1, 2):
        now().delete(f"id = {n}")
    now().rewrite_position_deletes(rewrite_all=True)
    expected = pairs()
    with pytest.raises(lakescan.CommitConflict):
        compact(target)
    assert pairs() == expected


def test_delta_tables_have_no_position_deletes(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT", format="delta")
    with pytest.raises(lakescan.UnsupportedFeature, match=r"position deletes of Delta tables.*purge"):
        now().rewrite_position_deletes()
