"""Concurrent writers: no row is lost or duplicated, and no file that a table may reference is removed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.api.rows import as_rows
from lakescan.catalogs.registry import connection
from lakescan.errors import StorageError
from lakescan.options.write import WriteOptions
from lakescan.tables.commit_files import append
from lakescan.tables.write_rows import append_rows, overwrite_rows
from lakescan.writing.parquet_writer import write_rows
from tests.tables.support import Make, data_files, maker, now, pairs, rows

A, B = (1, "a"), (2, "b")
NO_OPTIONS = WriteOptions()


def target_of(table: lakescan.Table) -> Any:
    """Return the table as a target, in its current state."""
    return table._target(NO_OPTIONS)


def test_a_delta_overwrite_restarts_from_the_concurrent_commit(local: lakescan.Catalog, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", format="delta").append(rows(A, B))
    before = target_of(now())
    now().append(rows((3, "a"), (4, "b")))
    overwrite_rows(before, as_rows(rows((9, "a"))), NO_OPTIONS, "part = 'a'")
    assert pairs() == [B, (4, "b"), (9, "a")]
    assert data_files(tmp_path) == 4  # two appends, the new rows, the rows that stay; no uncommitted rows


def test_an_iceberg_overwrite_conflicts_with_concurrently_added_matching_rows(local, tmp_path: Path) -> None:
    local.create_table("db.t", "id BIGINT, part STRING").append(rows(A, B))
    before = target_of(now())
    now().append(rows((3, "a")))
    files = data_files(tmp_path)
    with pytest.raises(lakescan.CommitConflict, match="Read them again, and retry"):
        overwrite_rows(before, as_rows(rows((9, "a"))), NO_OPTIONS, "part = 'a'")
    assert pairs() == [A, B, (3, "a")]
    assert data_files(tmp_path) == files


def test_appends_are_rebased_onto_concurrent_commits(made: Make) -> None:
    made()
    before = target_of(now())
    now().append(rows(A))
    append_rows(before, as_rows(rows(B)), NO_OPTIONS)
    assert pairs() == [A, B]


def test_a_commit_with_an_unknown_outcome_keeps_its_files(made: Make, monkeypatch, tmp_path: Path) -> None:
    """The commit was made and the answer was lost: the rows exist and stay readable."""
    made()
    target = target_of(now())
    kind = type(target)
    commit = kind.append

    def lost(self: Any, files: Any) -> None:
        commit(self, files)
        raise StorageError("the connection was lost")

    monkeypatch.setattr(kind, "append", lost)
    with pytest.raises(StorageError):
        append_rows(target, as_rows(rows(A)), NO_OPTIONS)
    assert pairs() == [A]


def test_referenced_files_are_not_removed_even_after_a_conflict(made: Make, monkeypatch) -> None:
    """A catalog may report a failure for a commit that it made."""
    made()
    target = target_of(now())
    kind = type(target)
    commit = kind.append

    def wrong(self: Any, files: Any) -> None:
        commit(self, files)
        raise lakescan.CommitConflict("it failed")

    monkeypatch.setattr(kind, "append", wrong)
    with pytest.raises(lakescan.CommitConflict):
        append(target, write_rows(target.writes, rows(A).to_batches(), "w"))
    assert pairs() == [A]


def test_an_append_with_a_lost_answer_is_not_repeated(local, monkeypatch) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    local.create_table("db.t", "id BIGINT, part STRING")
    commit, calls = SqlCatalog.commit_table, []

    def lost(self: Any, *arguments: Any) -> Any:
        calls.append(commit(self, *arguments))
        raise CommitFailedException("no answer")

    monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    now().append(rows(A))
    assert (pairs(), len(calls)) == ([A], 1)


def test_an_overwrite_is_rebased_onto_changes_of_other_rows(made: Make, tmp_path: Path) -> None:
    made().append(rows(A, B))
    before = target_of(now())
    now().append(rows((3, "b")))
    overwrite_rows(before, as_rows(rows((9, "a"))), NO_OPTIONS, "part = 'a'")
    assert pairs() == [B, (3, "b"), (9, "a")]
    assert data_files(tmp_path) == 4


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3"])
@pytest.mark.parametrize("how", ["append", "overwrite", "dynamic"])
def test_files_stay_in_the_partition_spec_that_they_were_written_for(kind: str, how: str, local, tmp_path) -> None:
    """The default spec changes before the commit, and other rows are added with the new spec."""
    maker(kind, local)().append(rows(A))
    options = WriteOptions.parse({"overwrite-mode": "dynamic"} if how == "dynamic" else {}, "iceberg")
    before = now()._target(options)
    with connection("local").load_table("db.t").update_spec() as update:
        update.add_field("id", "bucket[4]", "id_bucket")
    now().append(rows(B))
    if how == "append":
        append_rows(before, as_rows(rows((3, "c"))), options)
    else:
        overwrite_rows(before, as_rows(rows((3, "a"))), options, "part = 'a'" if how == "overwrite" else None)
    expected = [A, B, (3, "c")] if how == "append" else [B, (3, "a")]
    assert pairs() == expected
    for row in expected:
        assert now().scan().where(f"part = '{row[1]}' AND id = {row[0]}").count() == 1
    assert connection("local").load_table("db.t").scan().count() == len(expected)
    specs = now().inspect("files")["spec_id"].to_pylist()
    assert sorted(specs) == ([0, 0, 1] if how == "append" else [0, 1])
    now().compact()
    assert pairs() == expected


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3"])
def test_files_of_a_partition_spec_that_was_removed_are_not_committed(kind: str, local, tmp_path: Path) -> None:
    from pyiceberg.table.update import RemovePartitionSpecsUpdate

    maker(kind, local)()
    before = target_of(now())
    theirs = connection("local").load_table("db.t")
    with theirs.update_spec() as update:
        update.add_field("id", "bucket[4]", "id_bucket")
    theirs.catalog.commit_table(theirs, (), (RemovePartitionSpecsUpdate(spec_ids=[0]),))
    with pytest.raises(lakescan.CommitConflict, match="removed the partition spec 0"):
        append_rows(before, as_rows(rows(A)), NO_OPTIONS)
    assert (pairs(), data_files(tmp_path)) == ([], 0)


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_the_first_rows_of_a_table_may_be_those_of_a_branch(local: lakescan.Catalog, version: str) -> None:
    table = local.create_table("db.t", "id BIGINT, part STRING", properties={"format-version": version})
    late = table._target(WriteOptions.parse({"branch": "late"}))
    table.append(rows(A), branch="audit")
    table.append(rows(B), branch="audit")
    assert (pairs(), list(now().branches)) == ([], ["audit"])
    assert sorted(now().scan().as_of(branch="audit").to_arrow()["id"].to_pylist()) == [A[0], B[0]]
    append_rows(late, as_rows(rows(A)), NO_OPTIONS)
    assert now().scan().as_of(branch="late").count() == 1
    later = table._target(WriteOptions.parse({"branch": "later"}))
    table.fast_forward("main", "audit")
    with pytest.raises(lakescan.CommitConflict, match="the table's first rows, which the branch 'later' must include"):
        append_rows(later, as_rows(rows(A)), NO_OPTIONS)
    assert pairs() == sorted([A, B])


@pytest.mark.parametrize("options", [{}, {"overwrite_mode": "dynamic"}, {"where": "id < 9"}], ids=str)
@pytest.mark.parametrize("change", ["columns", "partitions", "constraint", "property"])
def test_a_delta_overwrite_is_not_restarted_under_changed_rules(
    local, tmp_path: Path, options: dict[str, Any], change: str
) -> None:
    """Its rows were written and checked for the columns and constraints that the table had before."""
    from deltalake import DeltaTable, write_deltalake

    table = local.create_table("db.t", "id BIGINT, part STRING", format="delta")
    table.append(rows(A, B))
    before, place = target_of(now()), table.location
    match change:
        case "columns":
            now().overwrite(pa.table({"id": ["x"]}), overwriteSchema=True)
        case "partitions":
            other = {"mode": "overwrite", "schema_mode": "overwrite", "partition_by": ["part"]}
            write_deltalake(place, rows(A, B), **other)
        case "constraint":
            DeltaTable(place).alter.add_constraint({"positive": "id > 0"})
        case "property":
            DeltaTable(place).alter.set_table_properties({"delta.appendOnly": "true"})
    left, files = now().scan().to_arrow(), data_files(tmp_path)
    said = WriteOptions.parse({k: v for k, v in options.items() if k != "where"}, "delta")
    with pytest.raises(lakescan.CommitConflict):
        overwrite_rows(replace(before, options=said), as_rows(rows((-7, "c"))), said, options.get("where"))
    assert now().scan().to_arrow() == left
    assert data_files(tmp_path) == files
