"""Concurrent commits that a DELETE, UPDATE or MERGE of a Delta table is rebased onto, and those that conflict with it.

The rules are those of Delta on Spark's `ConflictChecker`. In addition, concurrently added files are compared with the
condition by their statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lakescan
from lakescan.delta.target import DeltaTarget
from lakescan.expressions.sql import parse_filter
from lakescan.tables.base import OverwriteScope
from lakescan.tables.row_changes import RowChanges, RowCounts, RowLevelCommand
from lakescan.writing.parquet_writer import write_rows
from tests.support.delta_row_changes import (
    IDS,
    VECTORS,
    actions,
    delete,
    files_to_remove,
    found,
    ids,
    mark,
    target_of,
    update,
)
from tests.support.delta_state import newest_version
from tests.support.two_commits import save_in_two_commits
from tests.tables.support import rows

# A table with the rows (1, a) and (2, a) in one file, (3, b) and (4, b) in another.
Write = Callable[[DeltaTarget], object]


def made(folder: Path, properties: dict[str, str]) -> Path:
    for some in (rows((1, "a"), (2, "a")), rows((3, "b"), (4, "b"))):
        save_in_two_commits(
            some, folder, format="delta", mode="append", partition_by="part", properties=VECTORS | properties
        )
    return folder


def appends(number: int, part: str) -> Write:
    return lambda target: target.append(write_rows(target.writes, rows((number, part)).to_batches(), "append"))


def deletes(where: str) -> Write:
    return lambda target: delete(target, where)


def compacts(part: str) -> Write:
    def compact(target: DeltaTarget) -> None:
        where = f"part = '{part}'"
        same = found(target, where).select(["id", "part"])
        target.rewrite(files_to_remove(target, where), write_rows(target.writes, same.to_batches(), "compact"))

    return compact


def copies(target: DeltaTarget) -> None:
    """Copy-on-write: change id 2 to 20, and write id 1 to another file."""
    new = write_rows(target.writes, rows((1, "a"), (20, "a")).to_batches(), "copy")
    read = parse_filter("id = 2")
    target.change(RowChanges(RowLevelCommand.UPDATE, read, files_to_remove(target, "id = 2"), files=new))


def inserts(read: str | None) -> Write:
    """Begin a MERGE that only inserts 9, because the rows it read do not have it."""

    def merge(target: DeltaTarget) -> None:
        new = write_rows(target.writes, rows((9, "a")).to_batches(), "insert")
        predicate = None if read is None else parse_filter(read)
        target.change(RowChanges(RowLevelCommand.MERGE, predicate, files=new, counts=RowCounts(inserted=1)))

    return merge


def adds_column(target: DeltaTarget) -> None:
    lakescan.table(target.location).append(rows().append_column("more", pa.array([], pa.int64())), merge_schema=True)


OTHERS: dict[str, tuple[Write, Callable[[list[int]], list[int]]]] = {
    "append 2": (appends(2, "a"), lambda before: [*before, 2]),
    "append 9 to b": (appends(9, "b"), lambda before: [*before, 9]),
    "delete 1": (deletes("id = 1"), lambda before: [each for each in before if each != 1]),
    "delete 3": (deletes("id = 3"), lambda before: [each for each in before if each != 3]),
    "delete b": (deletes("part = 'b'"), lambda before: [each for each in before if each not in (3, 4)]),
    "insert 9": (inserts("id = 9"), lambda before: [*before, 9]),
    "compact a": (compacts("a"), lambda before: before),
    "compact b": (compacts("b"), lambda before: before),
    "overwrite": (lambda target: target.replace_all([], []), lambda before: []),
    "add column": (adds_column, lambda before: before),
}
OWN: dict[str, tuple[Write, Callable[[list[int]], list[int]]]] = {
    "delete 2": (deletes("id = 2"), lambda before: [each for each in before if each != 2]),
    "update 2": (lambda t: update(t, "id = 2", rows((20, "a"))), lambda before: [20 if n == 2 else n for n in before]),
    "copy 2": (copies, lambda before: [20 if each == 2 else each for each in before]),
    "delete a": (deletes("part = 'a'"), lambda before: [each for each in before if each > 2]),
    "delete 2, reading all": (lambda t: reads_all(t), lambda before: [each for each in before if each != 2]),
    "insert 9": (inserts("id = 9"), lambda before: [*before, 9]),
    "insert 9, reading all": (inserts(None), lambda before: [*before, 9]),
}
_OF_B = {"append 9 to b", "delete 3", "delete b", "insert 9", "compact b"}
FITS_AFTER = {
    "delete 2": _OF_B,
    "update 2": _OF_B,
    "copy 2": _OF_B,
    "delete a": _OF_B - {"insert 9"},
    "delete 2, reading all": set(),
    "insert 9": {"append 2", "delete 1", "delete 3", "delete b", "compact a", "compact b", "overwrite"},
    "insert 9, reading all": {"compact a", "compact b"},
}
# In WriteSerializable, appends that read nothing do not conflict.
APPENDS = {"append 2", "append 9 to b"}


def reads_all(target: DeltaTarget) -> None:
    deleted = mark(target, "id = 2")
    target.change(RowChanges(RowLevelCommand.DELETE, parse_filter("id > 0"), deletes=deleted))


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("isolation", ["Serializable", "WriteSerializable"])
def test_a_statement_is_rebased_onto_commits_that_it_could_not_have_read(
    isolation: str, other: str, own: str, tmp_path: Path
) -> None:
    made(tmp_path, {"delta.isolationLevel": isolation})
    first, second = target_of(tmp_path), target_of(tmp_path)
    before = ids(tmp_path)
    (act, after), (change, changed) = OTHERS[other], OWN[own]
    act(first)
    expected, new = after(before), after([])
    assert ids(tmp_path) == sorted(expected)
    if other in FITS_AFTER[own] | (APPENDS if isolation == "WriteSerializable" else set()):
        change(second)
        expected = [*changed(expected[: len(expected) - len(new)]), *new]  # the other writer's added rows are unchanged
    else:
        with pytest.raises(lakescan.CommitConflict, match="the concurrent commit of version"):
            change(second)
    assert ids(tmp_path) == sorted(expected)


@pytest.mark.parametrize(("number", "fits"), [(9, True), (2, False)])
def test_an_overwrite_is_rebased_onto_files_without_matching_rows(tmp_path: Path, number: int, fits: bool) -> None:
    made(tmp_path, {})
    target, where = target_of(tmp_path), parse_filter("part = 'a' AND id < 3")
    appends(number, "a")(target_of(tmp_path))
    if fits:
        target.replace(files_to_remove(target, "part = 'a'"), [], OverwriteScope(where))
        assert ids(tmp_path) == [3, 4, 9]
    else:
        with pytest.raises(lakescan.CommitConflict, match="whose rows this commit may depend on"):
            target.replace(files_to_remove(target, "part = 'a'"), [], OverwriteScope(where))


def test_a_vector_does_not_replace_a_concurrent_one(tmp_path: Path) -> None:
    """Two statements delete rows of one file. The second must restart, and keeps the deletes of the first."""
    made(tmp_path, {})
    first, second = target_of(tmp_path), target_of(tmp_path)
    delete(first, "id = 1")
    with pytest.raises(lakescan.CommitConflict, match=r"removed or changed .*, which this commit removes"):
        delete(second, "id = 2")
    delete(target_of(tmp_path), "id = 2")
    assert ids(tmp_path) == [3, 4]


def test_a_rebased_commit_has_the_ids_and_time_of_its_version(tmp_path: Path) -> None:
    """Only the commit is rewritten, with the row ids and the time of its new version."""
    made(tmp_path, IDS | {"delta.enableInCommitTimestamps": "true"})
    first, second = target_of(tmp_path), target_of(tmp_path)
    inserts("id = 9")(first)
    vectors = len(list(tmp_path.rglob("*.bin")))
    update(second, "id = 3", rows((30, "b")))
    assert len(list(tmp_path.rglob("*.bin"))) == vectors + 1
    old, new = actions(tmp_path, "add")
    assert (old["baseRowId"], old["defaultRowCommitVersion"]) == (2, 2)
    assert (new["baseRowId"], new["defaultRowCommitVersion"]) == (5, newest_version(tmp_path))
    times = [
        actions(tmp_path, "commitInfo", each)[0]["inCommitTimestamp"] for each in range(newest_version(tmp_path) + 1)
    ]
    assert times == sorted(set(times))


def test_a_transaction_is_not_committed_twice(tmp_path: Path) -> None:
    made(tmp_path, {})
    first, second = (target_of(tmp_path, txnAppId="app", txnVersion=1) for _ in range(2))
    deletes("id = 1")(first)
    with pytest.raises(lakescan.CommitConflict, match="has the same application id, 'app'"):
        deletes("id = 3")(second)
    assert ids(tmp_path) == [2, 3, 4]
