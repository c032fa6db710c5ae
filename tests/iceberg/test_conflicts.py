"""Conflicts between concurrent commits.

The scenarios are those of Iceberg's own tests: `TestRowDelta`, `TestRewriteFiles`, `TestOverwriteWithValidation` and
`TestReplacePartitions`. Each commit starts from the same table. Another commit is made, and then the first is rebased
onto it or conflicts with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.api.rows import as_rows
from lakescan.expressions.bind import bind
from lakescan.expressions.sql import parse_filter
from lakescan.iceberg.commit.conflicts import Validation
from lakescan.iceberg.commit.file_changes import SnapshotChanges, added_files
from lakescan.maintenance import compact
from lakescan.options.write import WriteOptions
from lakescan.tables.write_rows import append_rows, overwrite_rows
from lakescan.writing.parquet_writer import write_rows
from tests.support import row_deltas
from tests.tables.support import Row, data_files, maker, now, pairs, rows

pytestmark = pytest.mark.usefixtures("no_other_catalogs")

Rows = list[Row]
NO_OPTIONS = WriteOptions()
A, B = [(1, "a"), (2, "a"), (3, "a")], [(4, "b"), (5, "b"), (6, "b")]


@pytest.fixture(params=["iceberg", "iceberg version 3"])
def table(request: pytest.FixtureRequest, local: lakescan.Catalog) -> lakescan.Table:
    """Make a table with two files in the partition `a` and two in `b`."""
    maker(str(request.param), local)()
    now().append(rows(*A[:2], *B[:2]))
    now().append(rows(A[2], B[2]))
    return now()


def bound(where: str) -> Any:
    return bind(parse_filter(where), now()._spec.snapshot.schema)


# The concurrent commits, and the rows after each.


def delta(deletes: list[Any]) -> None:
    commit = row_deltas.commit()
    commit.row_delta(SnapshotChanges(added_deletes=row_deltas.added_deletes(deletes)), Validation.create(commit.base))


def files_of(part: str) -> pa.Array:
    found = now().scan().where(f"part = '{part}'").plan().files["path"]
    return found.combine_chunks()


def drop(part: str) -> None:
    row_deltas.publish("delete", SnapshotChanges(removed=files_of(part)))


THEIRS: dict[str, tuple[Callable[[], object], Callable[[Row], bool], Rows]] = {
    "append to a": (lambda: now().append(rows((7, "a"))), lambda row: True, [(7, "a")]),
    "append to b": (lambda: now().append(rows((8, "b"))), lambda row: True, [(8, "b")]),
    "delete by position in a": (lambda: delta(row_deltas.by_position("id = 2")), lambda row: row[0] != 2, []),
    "delete by position in b": (lambda: delta(row_deltas.by_position("id = 5")), lambda row: row[0] != 5, []),
    "delete by key in a": (lambda: delta(row_deltas.equality_deletes([2], "a")), lambda row: row[0] != 2, []),
    "delete by key in b": (lambda: delta(row_deltas.equality_deletes([5], "b")), lambda row: row[0] != 5, []),
    "overwrite a": (lambda: now().overwrite(rows(), where="part = 'a'"), lambda row: row[1] != "a", []),
    "overwrite b": (lambda: now().overwrite(rows(), where="part = 'b'"), lambda row: row[1] != "b", []),
    "delete the files of a": (lambda: drop("a"), lambda row: row[1] != "a", []),
    "delete the files of b": (lambda: drop("b"), lambda row: row[1] != "b", []),
    "compact a": (lambda: now().compact(where="part = 'a'"), lambda row: True, []),
    "compact b": (lambda: now().compact(where="part = 'b'"), lambda row: True, []),
    "rewrite manifests": (lambda: now().rewrite_manifests(), lambda row: True, []),
}


def after_theirs(name: str) -> Rows:
    _, keeps, new = THEIRS[name]
    return [*filter(keeps, [*A, *B]), *new]


# Our commits: each begins now, and commits when the returned function is called.


def overwriting(where: str | None, new: Rows, **options: Any) -> Callable[[], object]:
    parsed = WriteOptions.parse(options)
    target = now()._target(parsed)
    assert target.scan.snapshot.id is not None
    return lambda: overwrite_rows(target, as_rows(rows(*new)), parsed, where)


def compacting() -> Callable[[], object]:
    target = now()._target(WriteOptions())
    assert target.scan.snapshot.id is not None
    return lambda: compact(target, None)


def deleting(where: str, **read: Any) -> Callable[[], object]:
    """Begin a row delta that deletes the matching rows by position, as DELETE does."""
    commit = row_deltas.commit()
    changes = SnapshotChanges(added_deletes=row_deltas.added_deletes(row_deltas.by_position(where)))
    referenced = pa.array(list(row_deltas.positions_of(where)), pa.string())
    read = {"ignores_deletes": True, **read}
    validation = Validation.create(commit.base, where=bound(where), referenced=referenced, **read)
    return lambda: commit.row_delta(changes, validation)


def updating(where: str, new: Rows) -> Callable[[], object]:
    """Begin a row delta that deletes the matching rows by position and adds new rows, as UPDATE and MERGE do."""
    commit = row_deltas.commit()
    written = write_rows(commit.writes, rows(*new).to_batches(), "w")
    changes = SnapshotChanges(
        added_files(written, commit.base), added_deletes=row_deltas.added_deletes(row_deltas.by_position(where))
    )
    referenced = pa.array(list(row_deltas.positions_of(where)), pa.string())
    validation = Validation.create(commit.base, where=bound(where), referenced=referenced, checks_deletes=True)
    return lambda: commit.row_delta(changes, validation)


IN_A, EVERYWHERE = "part = 'a'", "id < 100"
ANY = set(THEIRS) - {"rewrite manifests"}
IN_PART_A = {name for name in ANY if not name.endswith("b")}
Begin = Callable[[], Callable[[], object]]
OURS: dict[str, tuple[Begin, Callable[[Row], bool], Rows, set[str]]] = {
    "overwrite of a": (lambda: overwriting(IN_A, [(9, "a")]), lambda row: row[1] != "a", [(9, "a")], IN_PART_A),
    "overwrite of some rows of a file": (
        lambda: overwriting("id = 1", [(1, "z")]),
        lambda row: row[0] != 1,
        [(1, "z")],
        IN_PART_A - {"append to a"},
    ),
    "overwrite of partitions": (
        lambda: overwriting(None, [(9, "a")], overwrite_mode="dynamic"),
        lambda row: row[1] != "a",
        [(9, "a")],
        IN_PART_A,
    ),
    "overwrite of all": (lambda: overwriting(None, [(9, "a")]), lambda row: False, [(9, "a")], ANY),
    "compaction": (
        compacting,
        lambda row: True,
        [],
        {name for name in ANY if not name.startswith(("append", "delete by key"))},
    ),
    "delete of a row": (
        lambda: deleting("id = 1"),
        lambda row: row[0] != 1,
        [],
        {"overwrite a", "compact a"},  # and, with vectors, deletes by position of the same file
    ),
    "update of a row": (
        lambda: updating("part = 'a' and id = 1", [(1, "b")]),
        lambda row: row != (1, "a"),
        [(1, "b")],
        {"overwrite a", "compact a", "delete the files of a", "delete by position in a", "delete by key in a"},
    ),
}


def outcome(ours: str, theirs: str) -> str:
    """Return whether our commit conflicts with theirs, after checking the resulting rows."""
    begin, keeps, new, _ = OURS[ours]
    make = begin()
    THEIRS[theirs][0]()
    names_theirs = rf"its snapshot {row_deltas.head_snapshot().id} \(\w+\) (added|removed) .*/data/"
    try:
        make()
    except lakescan.CommitConflict as error:
        left, end = after_theirs(theirs), "conflict" if re.search(names_theirs, str(error)) else str(error)
    else:
        left, end = [*filter(keeps, after_theirs(theirs)), *new], "goes on"
    assert pairs() == sorted(left), theirs
    return end


V2, V3 = "iceberg", "iceberg version 3"
SOME = ("append to a", "delete by position in a", "delete by position in b", "delete by key in a", "compact a")
FAR = ("delete by position in b", "overwrite b", "delete the files of b", "compact b")
NEAR = tuple(name for name in THEIRS if name not in FAR)


def cases() -> Iterator[Any]:
    """Yield the kind of table, our commit and theirs. Some overwrites stand for the others where tests must be fast."""
    for ours in OURS:
        others = [pytest.mark.slow] if ours in ("overwrite of partitions", "overwrite of all") else []
        yield pytest.param(V2, ours, NEAR, id=f"{ours}-near", marks=others)
        yield pytest.param(V2, ours, FAR, id=f"{ours}-far", marks=pytest.mark.slow)
        vectors_are_as_files = [pytest.mark.slow] if ours.startswith("overwrite") else []
        yield pytest.param(V3, ours, SOME, id=f"{ours}-version 3", marks=vectors_are_as_files)


@pytest.mark.parametrize(("table", "ours", "others"), list(cases()), indirect=["table"])
def test_a_commit_is_rebased_onto_another_or_conflicts_with_it(
    ours: str, others: Sequence[str], table: lakescan.Table
) -> None:
    conflicts = set(OURS[ours][3])
    if ours == "delete of a row" and row_deltas.commit_base().format_version > 2:  # a vector for the same file
        conflicts.add("delete by position in a")
    begun, found = row_deltas.head_snapshot().id, {}
    for theirs in others:
        found[theirs] = outcome(ours, theirs)
        row_deltas.roll_back(begun)
    assert found == {theirs: "conflict" if theirs in conflicts else "goes on" for theirs in found}


# Isolation levels, and the snapshot after which commits are checked


@pytest.mark.parametrize("options", [{}, {"overwrite_mode": "dynamic"}], ids=str)
def test_concurrently_added_rows_stay_in_snapshot_isolation(options: Any, table: lakescan.Table) -> None:
    where = None if options else IN_A
    make = overwriting(where, [(9, "a")], isolation_level="snapshot", **options)
    now().append(rows((7, "a")))
    make()
    assert pairs() == [*B, (7, "a"), (9, "a")]
    make = overwriting(where, [(10, "a")], isolation_level="snapshot", **options)
    delta(row_deltas.equality_deletes([7], "a"))
    with pytest.raises(lakescan.CommitConflict, match="which may delete rows of data files that this commit replaces"):
        make()


def test_an_overwrite_is_checked_from_the_snapshot_that_its_rows_were_made_from(table: lakescan.Table) -> None:
    read = row_deltas.head_snapshot().id
    now().append(rows((7, "b")))
    overwriting(IN_A, [(9, "a")], validate_from_snapshot_id=read)()
    now().append(rows((8, "a")))
    with pytest.raises(lakescan.CommitConflict, match=r"\(overwrite\) added .*part=a.*part = 'a'"):
        overwriting(IN_A, [(10, "a")], validate_from_snapshot_id=read)()
    with pytest.raises(lakescan.InvalidOption, match="for overwrites only"):
        now().append(rows((1, "a")), isolation_level="snapshot")


def test_commits_whose_snapshots_expired_cannot_be_checked(table: lakescan.Table) -> None:
    make = overwriting(IN_A, [(9, "a")])
    now().append(rows((7, "b")))
    now().append(rows((8, "b")))
    now().expire_snapshots("2100-01-01", clean_expired_files=False)
    with pytest.raises(lakescan.CommitConflict, match="cannot be checked: snapshots have expired"):
        make()
    assert pairs() == sorted([*A, *B, (7, "b"), (8, "b")])


@pytest.mark.parametrize("counter", ["added-data-files", "deleted-data-files", "added-delete-files"])
def test_removals_without_manifest_entries_are_a_conflict(counter: str, table: lakescan.Table) -> None:
    """Some writers drop manifests from the list instead of writing entries for the removed files."""
    make = overwriting(IN_A, [(9, "a")])
    now().append(rows((7, "b")))
    row_deltas.record(lambda summary: summary.update({counter: "3"}))
    with pytest.raises(lakescan.CommitConflict, match=rf"{counter}=3 in its summary, but its manifests name only [01]"):
        make()


def test_a_branch_that_was_rolled_back_is_a_conflict(table: lakescan.Table) -> None:
    first = now().history()["snapshot_id"][0].as_py()
    make = overwriting(IN_A, [(9, "a")])
    row_deltas.roll_back(first)
    with pytest.raises(lakescan.CommitConflict, match="or the branch was rolled back"):
        make()


def test_the_first_commit_of_another_writer_is_checked_too(local: lakescan.Catalog) -> None:
    maker("iceberg", local)()
    make = lambda parsed, target: overwrite_rows(target, as_rows(rows((9, "a"))), parsed, IN_A)  # noqa: E731
    first, second = (now()._target(NO_OPTIONS) for _ in range(2))
    now().append(rows((1, "b")))
    make(NO_OPTIONS, first)
    assert pairs() == [(1, "b"), (9, "a")]
    with pytest.raises(lakescan.CommitConflict, match="which may have rows that match part = 'a'"):
        make(NO_OPTIONS, second)


@pytest.mark.parametrize("kind", ["append", "overwrite", "rewrite manifests"])
def test_a_concurrently_removed_branch_is_not_recreated(kind: str, table: lakescan.Table) -> None:
    """A new branch would lack the rows of the removed one."""
    options = WriteOptions.parse({"branch": "dev"})
    target = now()._target(options)
    make = {
        "append": lambda: append_rows(target, as_rows(rows((9, "a"))), options),
        "overwrite": lambda: overwrite_rows(target, as_rows(rows((9, "a"))), options, IN_A),
        "rewrite manifests": target.rewrite_manifests,
    }[kind]
    assert target.scan.snapshot.id is not None
    with row_deltas.open_table()[0].manage_snapshots() as refs:
        refs.remove_branch("dev")
    with pytest.raises(lakescan.CommitConflict, match="another writer removed the branch 'dev'"):
        make()
    assert list(row_deltas.commit_base().metadata.refs) == ["main"]


@pytest.mark.parametrize(("when", "message"), [("before", "'x' is a tag of"), ("meanwhile", "'x' is now a tag")])
def test_a_tag_is_not_written_to(when: str, message: str, table: lakescan.Table) -> None:
    tagged, options = row_deltas.head_snapshot().id, WriteOptions.parse({"branch": "x"})
    target = now()._target(options) if when == "meanwhile" else None
    with row_deltas.open_table()[0].manage_snapshots() as refs:
        if target is not None:
            refs.remove_branch("x")
        refs.create_tag(tagged, "x")
    now().append(rows((8, "b")))
    with pytest.raises((lakescan.CommitConflict, lakescan.InvalidOption), match=message):
        append_rows(target or now()._target(options), as_rows(rows((9, "a"))), options)
    reference = row_deltas.commit_base().metadata.refs["x"]
    assert (reference.kind, reference.snapshot_id) == ("tag", tagged)


@pytest.mark.parametrize("merged", ["1", "100"])
def test_the_first_commit_of_another_writer_is_missed_once_it_has_expired(merged: str, local: lakescan.Catalog) -> None:
    """pyiceberg omits the parent of a snapshot if it has expired, so the next snapshot looks like the first."""
    maker("iceberg", local)(properties={"commit.manifest.min-count-to-merge": merged})
    target = now()._target(NO_OPTIONS)
    assert target.scan.snapshot.id is None
    now().append(rows((1, "a")))
    first = row_deltas.head_snapshot().id
    now().append(rows((2, "b")))
    row_deltas.open_table()[0].maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(lakescan.CommitConflict, match=r"since the table was empty, .* cannot be checked"):
        overwrite_rows(target, as_rows(rows((9, "a"))), NO_OPTIONS, IN_A)
    assert pairs() == [(1, "a"), (2, "b")]


def test_no_data_file_is_rewritten(table: lakescan.Table, tmp_path: Path) -> None:
    make = overwriting("id = 1", [(1, "z")])
    now().append(rows((7, "b")))
    before = data_files(tmp_path)
    make()
    assert data_files(tmp_path) == before + 2  # the new row, and the remaining rows of its file


# Row deltas on their own


def test_the_operation_of_a_row_delta_describes_its_changes(table: lakescan.Table) -> None:
    delta(row_deltas.by_position("id = 1"))
    assert row_deltas.head_snapshot().operation == "delete"
    updating("id = 4", [(4, "c")])()
    assert row_deltas.head_snapshot().operation == "overwrite"
    assert pairs() == [(2, "a"), (3, "a"), (4, "c"), (5, "b"), (6, "b")]
    commit = row_deltas.commit()
    written = write_rows(commit.writes, rows((7, "a")).to_batches(), "w")
    commit.row_delta(SnapshotChanges(added_files(written, commit.base)), Validation.create(commit.base))
    assert row_deltas.head_snapshot().operation == "append"


def test_a_vector_replaces_the_one_before_and_no_other(local: lakescan.Catalog) -> None:
    maker("iceberg version 3", local)().append(rows(*A))
    delta(row_deltas.vectors("id = 1"))
    [old] = now().inspect("delete_files").to_pylist()
    [path] = row_deltas.positions_of("id > 0")
    both = row_deltas.vectors_of({path: [0, 1]})
    commit = row_deltas.commit()
    alone = SnapshotChanges(added_deletes=row_deltas.added_deletes(both))
    with pytest.raises(lakescan.CommitConflict, match="already has a deletion vector"):
        commit.row_delta(alone, Validation.create(commit.base))
    removed = pa.table({"path": [old["file_path"]], "content_offset": [old["content_offset"]]})
    replacing = SnapshotChanges(added_deletes=row_deltas.added_deletes(both), removed_deletes=removed)
    commit.row_delta(replacing, Validation.create(commit.base))
    assert pairs() == [(3, "a")]
    assert now().inspect("delete_files").num_rows == 1
    again = row_deltas.commit()
    with pytest.raises(lakescan.CommitConflict, match="of the delete files to remove are not in the branch"):
        again.row_delta(SnapshotChanges(removed_deletes=removed), Validation.create(again.base))


@pytest.mark.parametrize(
    ("kind", "deletes", "what"),
    [
        ("iceberg version 1", row_deltas.position_deletes, "delete files in .*, of format version 1"),
        ("iceberg", row_deltas.vectors, "deletion vectors in .*, of format version 2"),
        ("iceberg version 3", row_deltas.position_deletes, "new position delete files in .*, of format version 3"),
    ],
)
def test_delete_files_that_the_format_version_does_not_have_are_refused(
    kind: str, deletes: Any, what: str, local: lakescan.Catalog
) -> None:
    maker(kind, local)().append(rows(*A))
    with pytest.raises(lakescan.UnsupportedFeature, match=what):
        delta(deletes("id = 1"))
    assert pairs() == A


def test_a_commit_cannot_remove_a_data_file_and_delete_its_rows(table: lakescan.Table) -> None:
    deletes = row_deltas.by_position("id = 1")
    commit = row_deltas.commit()
    both = SnapshotChanges(
        removed=pa.array(list(row_deltas.positions_of("id = 1"))), added_deletes=row_deltas.added_deletes(deletes)
    )
    with pytest.raises(lakescan.CommitConflict, match="would be removed, but delete files to add refer to it"):
        commit.row_delta(both, Validation.create(commit.base, referenced=both.removed))


def test_a_copy_on_write_delete_counts_as_moving_rows(table: lakescan.Table) -> None:
    """Some writers use the operation `delete` for copy-on-write deletes, as if no row of the removed files remained."""
    make = deleting("id = 1", isolation="snapshot")
    commit = row_deltas.commit()
    written = write_rows(commit.writes, rows((1, "a")).to_batches(), "w")
    row_deltas.publish("delete", SnapshotChanges(added_files(written, commit.base), files_of("a")))
    with pytest.raises(lakescan.CommitConflict, match="to which delete files of this commit refer"):
        make()
    assert pairs() == [(1, "a"), *B]


def test_position_deletes_of_unknown_data_files_are_refused(local: lakescan.Catalog) -> None:
    """Another commit may have rewritten the data files, and the deleted rows would return."""
    maker("iceberg", local)().append(rows(*A))
    nameless = [replace(each, referenced_data_file=None) for each in row_deltas.position_deletes("id = 1")]
    with pytest.raises(lakescan.UnsupportedFeature, match="without referenced data files"):
        delta(nameless)
    assert pairs() == A


def test_two_vectors_of_one_data_file_are_refused(local: lakescan.Catalog) -> None:
    maker("iceberg version 3", local)().append(rows(*A))
    with pytest.raises(lakescan.CommitConflict, match="of the same data file: merge them"):
        delta([*row_deltas.vectors("id = 1"), *row_deltas.vectors("id = 2")])


def test_a_compaction_after_equality_deletes_keeps_the_age_of_its_rows(table: lakescan.Table) -> None:
    """Java's `testConcurrentNonConflictingRowDeltaAndRewriteFilesWithSequenceNumber`."""
    make = compacting()
    delta(row_deltas.equality_deletes([2], "a"))
    make()
    now().append(rows((2, "a")))  # a new row with the key is younger than the delete
    assert pairs() == sorted([(1, "a"), (2, "a"), (3, "a"), *B])
    assert now().compact().removed_files > 0
    assert pairs() == sorted([(1, "a"), (2, "a"), (3, "a"), *B])


def test_rows_deleted_by_equality_deletes_of_one_spec_are_not_moved_to_another(table: lakescan.Table) -> None:
    """The deletes apply only to files of their own spec. In the new spec, the deleted rows would return."""
    with row_deltas.open_table()[0].update_spec() as spec:
        spec.remove_field("part")
    make = compacting()
    delta(row_deltas.equality_deletes([2], "a"))
    with pytest.raises(lakescan.CommitConflict, match="rewrites rows in another spec"):
        make()
    assert pairs() == [row for row in [*A, *B] if row[0] != 2]
    assert now().compact().removed_files == 4
    assert pairs() == [row for row in [*A, *B] if row[0] != 2]


def test_rows_moved_to_another_spec_escape_equality_deletes_of_its_partitions(local: lakescan.Catalog) -> None:
    """Deletes of all partitions let the moved rows keep their sequence number, so other deletes would apply, too."""
    maker("iceberg", local)(partition_by=())
    now().append(rows(*A[:2]))
    now().append(rows(A[2]))
    with row_deltas.open_table()[0].update_spec() as spec:
        spec.add_identity("part")
    make = compacting()
    delta(row_deltas.equality_deletes([2]))
    commit = row_deltas.commit()
    in_partition = row_deltas.added_deletes(
        row_deltas.equality_deletes([1], "a"), row_deltas.commit_base().metadata.default_spec_id
    )
    commit.row_delta(SnapshotChanges(added_deletes=in_partition), Validation.create(commit.base))
    assert pairs() == [(1, "a"), (3, "a")]
    with pytest.raises(lakescan.CommitConflict, match="rewrites rows in another spec"):
        make()
    assert pairs() == [(1, "a"), (3, "a")]
