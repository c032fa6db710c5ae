"""No compaction changes rows, with earlier deletes, concurrent deletes, or an end at any point."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import count
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.delta.target import DeltaTarget
from lakescan.iceberg.commit.conflicts import Validation
from lakescan.iceberg.commit.file_changes import SnapshotChanges
from lakescan.iceberg.target import IcebergTarget
from lakescan.maintenance import compact
from lakescan.options.compact import CompactOptions
from lakescan.options.write import WriteOptions
from lakescan.statements.rows import table_methods as calls
from tests.support import row_deltas
from tests.tables.support import maker, now, pairs, rows

MODES = dict.fromkeys(("write.delete.mode", "write.update.mode", "write.merge.mode"), "merge-on-read")
KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "iceberg, a delete file for each file": ("iceberg", MODES),
    "iceberg, a delete file for each partition": ("iceberg", {**MODES, "write.delete.granularity": "partition"}),
    "iceberg, vectors": ("iceberg version 3", MODES),
    "delta, vectors": ("delta", {"delta.enableDeletionVectors": "true"}),
    "delta, vectors and row tracking": (
        "delta",
        {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
    ),
    "delta, vectors, column mapping and feed": (
        "delta",
        {
            "delta.enableDeletionVectors": "true",
            "delta.columnMapping.mode": "name",
            "delta.enableChangeDataFeed": "true",
        },
    ),
}
ROWS = 24
_number = count()


def make(kind: str, local: lakescan.Catalog) -> None:
    """Make three files in each of two partitions, with ids from 0: even ones in `a`, odd ones in `b`."""
    format, properties = KINDS[kind]
    maker(format, local)(properties=properties)
    for start in range(0, ROWS, 8):
        now().append(rows(*((n, "ab"[n % 2]) for n in range(start, start + 8))))


def row_ids() -> dict[int, Any]:
    """Return the row id by column `id`; empty if the table does not track rows."""
    if "_row_id" not in now()._spec.selectable.names:
        return {}
    return {row["id"]: row["_row_id"] for row in now().scan().select("id", "_row_id").to_arrow().to_pylist()}


COMPACTIONS: list[dict[str, Any]] = [
    {},
    {"purge": True},
    {"rewrite_all": True},
    {"delete_ratio_threshold": 0.5},
    {"delete_file_threshold": 2, "min_input_files": 4},
    {"strategy": "sort", "sort_order": "id DESC"},
    {"strategy": "zorder", "zorder_by": ["id", "part"]},
    {"partial_progress_enabled": True},
    {"rewrite_all": True, "max_file_group_size_bytes": 1, "partial_progress_enabled": True},
    {"where": "part = 'a'"},
    {"where": "id < 5", "rewrite_all": True},
]
OF_ICEBERG: list[dict[str, Any]] = [
    {"use_starting_sequence_number": True},
    {"use_starting_sequence_number": False},
    {"remove_dangling_deletes": True},
    {"remove_dangling_deletes": True, "where": "part = 'b'"},
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(KINDS))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_rows_are_the_same_after_any_compaction(kind: str, no_other_catalogs: None, data: st.DataObject) -> None:
    choices = COMPACTIONS + (OF_ICEBERG if kind.startswith("iceberg") else [])
    steps = data.draw(
        st.lists(
            st.one_of(st.sets(st.integers(0, ROWS - 1), min_size=1, max_size=6), st.sampled_from(choices)),
            min_size=2,
            max_size=6,
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        local = lakescan.catalog("local", warehouse=folder)
        local.create_namespace("db")
        make(kind, local)
        expected, ids = set(range(ROWS)), row_ids()
        for step in steps:
            if isinstance(step, set):
                now().delete(f"id in ({', '.join(map(str, sorted(step)))})")
                expected -= step
            else:
                now().compact(**step)
            assert pairs() == sorted((n, "ab"[n % 2]) for n in expected)
            assert row_ids() == {n: ids[n] for n in ids if n in expected}


# Concurrent changes of rows.

OTHERS: dict[str, Callable[[Any], object]] = {
    "delete": lambda target: calls.delete(target, "id in (2, 3)"),
    "delete a file": lambda target: calls.delete(target, "id < 8 and part = 'a'"),
    "update": lambda target: calls.update(target, {"id": "id + 100"}, "id in (2, 3)"),
    "merge": lambda target: (
        calls.merge(lambda run: run(target), rows((2, "a"), (100, "b")), "t.id = s.id", "s", "t")
        .when_matched_delete()
        .when_not_matched_insert_all()
        .execute()
    ),
}


ALL = [(n, "ab"[n % 2]) for n in range(ROWS)]
AFTER = {
    "delete": [row for row in ALL if row[0] not in (2, 3)],
    "delete a file": [row for row in ALL if row[0] >= 8 or row[1] == "b"],
    "update": [*(row for row in ALL if row[0] not in (2, 3)), (102, "a"), (103, "b")],
    "merge": [*(row for row in ALL if row[0] != 2), (100, "b")],
}


def begun(options: Any = None) -> Any:
    """Return the table as a writer has opened it."""
    target = now()._target(options or WriteOptions())
    assert target.scan.snapshot.id is not None
    return target


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("other", list(OTHERS))
def test_rows_that_others_change_during_a_compaction_stay_changed(
    kind: str, other: str, local: lakescan.Catalog
) -> None:
    make(kind, local)
    target = begun()
    OTHERS[other](begun())
    expected, files = pairs(), data_files()
    assert expected == AFTER[other]
    with pytest.raises(lakescan.CommitConflict):
        compact(target)
    assert pairs() == expected
    assert data_files() == files
    assert now().compact().removed_files  # and a new one works
    assert pairs() == expected


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("other", list(OTHERS))
def test_statements_that_began_before_a_compaction_conflict_or_find_the_rows(
    kind: str, other: str, local: lakescan.Catalog
) -> None:
    make(kind, local)
    before, changed = pairs(), AFTER[other]
    target = begun()
    assert now().compact().removed_files == 6
    try:
        OTHERS[other](target)
    except lakescan.CommitConflict:
        assert pairs() == before
    else:
        assert pairs() == changed


def data_files() -> int:
    return int(now().scan().plan().files.num_rows)


def with_deletes() -> int:
    return sum(number > 0 for number in now().scan().plan().table.references.counts.tolist())


@pytest.mark.parametrize("kind", list(KINDS))
def test_groups_that_are_committed_stay_where_others_conflict(kind: str, local: lakescan.Catalog) -> None:
    make(kind, local)
    options = CompactOptions.parse({"partial-progress.enabled": True})
    target = begun(options)
    now().delete("id = 2")
    expected = pairs()
    done = compact(target, options=options)
    assert (done.removed_files, done.files, done.failed_files) == (3, 1, 3)
    assert str(done).endswith("; 3 files stayed after conflicts")
    assert pairs() == expected
    assert with_deletes() == 1


def test_a_compaction_all_of_whose_groups_conflict_fails(local: lakescan.Catalog) -> None:
    make("delta, vectors", local)
    options = CompactOptions.parse({"partial-progress.enabled": True})
    target = begun(options)
    now().delete("id in (2, 3)")
    with pytest.raises(lakescan.CommitConflict):
        compact(target, options=options)


class Killed(BaseException):
    """The end of the simulated process: a BaseException, which no error handler catches."""


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_compaction_that_is_killed_keeps_the_groups_that_it_has_committed(kind: str, local: lakescan.Catalog) -> None:
    make(kind, local)
    now().delete("id in (1, 2)")
    expected, before = pairs(), now().history().num_rows
    owner = DeltaTarget if kind.startswith("delta") else IcebergTarget
    real, calls = owner.rewrite, []

    def rewrite(*arguments: Any, **named: Any) -> None:
        calls.append(arguments)
        if len(calls) > 1:
            raise Killed
        real(*arguments, **named)

    with patch.object(owner, "rewrite", rewrite), pytest.raises(Killed):
        now().compact(partial_progress_enabled=True)
    assert now().history().num_rows == before + 1
    assert data_files() == 4  # a partition is done
    assert pairs() == expected
    now().compact(partial_progress_enabled=True)
    assert (data_files(), with_deletes(), pairs()) == (2, 0, expected)


@pytest.mark.parametrize(("most", "commits"), [(1, 1), (10, 2)])
def test_a_number_of_commits_is_not_exceeded(most: int, commits: int, local: lakescan.Catalog) -> None:
    make("iceberg, vectors", local)
    before = now().history().num_rows
    now().compact(partial_progress_enabled=True, partial_progress_max_commits=most)
    assert now().history().num_rows == before + commits


# Deletes are removed with the files that they apply to.


def delete_files() -> int:
    return int(now()._spec.file_table().deletes.num_rows)


@pytest.mark.parametrize("options", [{}, {"where": "part = 'a'"}, {"partial_progress_enabled": True}])
def test_deletes_of_only_rewritten_files_are_removed_with_them(
    options: dict[str, Any], local: lakescan.Catalog
) -> None:
    make("iceberg, a delete file for each partition", local)
    now().delete("id in (0, 2, 8, 16)")  # one delete file for three files of a
    now().delete("id = 1")
    assert delete_files() == 2
    expected = pairs()
    now().compact(**options)
    assert delete_files() == (1 if "where" in options else 0)
    assert pairs() == expected


def test_a_delete_stays_as_long_as_a_file_needs_it(local: lakescan.Catalog) -> None:
    make("iceberg, a delete file for each partition", local)
    now().delete("id in (0, 2, 8)")  # half of one file, a quarter of another
    expected = pairs()
    now().compact(where="id = 4", rewrite_all=True)
    assert with_deletes() >= 1
    assert delete_files() == 1
    assert pairs() == expected


def test_equality_deletes_are_removed_with_the_last_older_file(local: lakescan.Catalog) -> None:
    maker("iceberg", local)()
    now().append(rows((1, "a"), (2, "a")))
    now().append(rows((3, "b")))
    row_deltas.publish(
        "delete", SnapshotChanges(added_deletes=row_deltas.added_deletes(row_deltas.equality_deletes([2], "a")))
    )
    assert delete_files() == 1
    assert now().compact().removed_files == 1
    assert delete_files() == 0
    assert pairs() == [(1, "a"), (3, "b")]


def test_dangling_deletes_are_removed_on_request(local: lakescan.Catalog) -> None:
    make("iceberg, a delete file for each partition", local)
    now().delete("id in (0, 8)")
    files = now().scan().where("part = 'a'").plan().files["path"].combine_chunks()
    row_deltas.publish("delete", SnapshotChanges(removed=files))
    assert now().compact(where="part = 'a'").removed_files == 0
    assert delete_files() == 1
    assert now().compact(where="part = 'a'", remove_dangling_deletes=True).removed_files == 0
    assert delete_files() == 0
    assert [n for n, _ in pairs()] == list(range(1, ROWS, 2))


# Sequence numbers decide which concurrent equality deletes apply to rewritten rows.


def sequence_numbers() -> set[int]:
    return set(now().scan().plan().files["sequence_number"].to_pylist())


@pytest.mark.parametrize(("given", "old"), [(None, False), (True, True), (False, False)])
def test_new_files_have_the_starting_sequence_number_on_request(
    given: bool | None, old: bool, local: lakescan.Catalog
) -> None:
    make("iceberg, vectors", local)
    start = row_deltas.head_snapshot().sequence_number
    options = {} if given is None else {"use_starting_sequence_number": given}
    now().compact(**options)
    assert sequence_numbers() == {start if old else start + 1}


@pytest.mark.parametrize("given", [None, True, False])
def test_concurrent_equality_deletes_apply_or_conflict(given: bool | None, local: lakescan.Catalog) -> None:
    make("iceberg, vectors", local)
    values = {} if given is None else {"use-starting-sequence-number": given}
    options = CompactOptions.parse(values)
    target = begun(options)
    commit = row_deltas.commit()
    added = row_deltas.added_deletes(row_deltas.equality_deletes([2], "a"))
    commit.row_delta(SnapshotChanges(added_deletes=added), Validation.create(commit.base))
    if given is False:
        with pytest.raises(lakescan.CommitConflict):
            compact(target, options=options)
    else:
        compact(target, options=options)
        assert data_files() == 2
    assert [n for n, _ in pairs()] == [n for n in range(ROWS) if n != 2]


# Readers of changes do not see it.


@pytest.mark.parametrize("kind", [each for each in KINDS if each.startswith("delta")])
@pytest.mark.parametrize("options", [{}, {"strategy": "zorder", "zorder_by": "id"}])
def test_streams_and_change_feeds_skip_compactions_of_files_with_vectors(
    kind: str, options: dict[str, Any], local: lakescan.Catalog
) -> None:
    make(kind, local)
    now().delete("id in (2, 3)")
    version = now().history().num_rows - 1
    assert now().compact(**options).removed_files == 6
    now().append(rows((100, "a")))
    found = list(now().stream(wait=False, startingVersion=version + 1))
    assert pa.Table.from_batches(found)["id"].to_pylist() == [100]
    if "feed" in kind:
        changes = now().changes(version + 1).to_arrow()
        assert changes.filter(pc.not_equal(changes["_change_type"], "insert")).num_rows == 0
        assert changes["id"].to_pylist() == [100]
