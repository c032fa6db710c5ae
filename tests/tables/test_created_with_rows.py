"""Tables created or replaced with rows: one commit or nothing, wherever a call fails."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.definition.table_definition import TableDefinition, Term
from lakescan.delta.commit import commit_file as put
from lakescan.storage import Storage
from tests.tables.test_outcomes import errors, fault, looks

KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "iceberg": ("iceberg", {}),
    "iceberg version 1": ("iceberg", {"format-version": "1"}),
    "iceberg version 3": ("iceberg", {"format-version": "3"}),
    "delta": ("delta", {}),
    "delta with row ids": ("delta", {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}),
}
OLD = pa.table({"id": pa.array([1, 2], pa.int64()), "part": ["a", "b"]})
NEW = pa.table({"id": pa.array([7, 8, 9], pa.int64()), "part": ["x", "y", "x"], "more": [True, False, None]})


def create(lake: lakescan.Catalog, kind: str, rows: Any = NEW, *, replace: bool = False) -> Any:
    format, properties = KINDS[kind]
    definition = TableDefinition((), partition_by=(Term("part"),), properties=properties)
    return lake.create_with("db.t", definition, rows, format=format, replace=replace)


def rows_now() -> list[dict[str, Any]] | None:
    """Return the rows that a reader sees; None if the table does not exist."""
    try:
        return sorted(lakescan.table("local.db.t").to_arrow().to_pylist(), key=lambda row: row["id"])
    except lakescan.NotATable:
        return None


def expected(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: row["id"])


def files(folder: str | Path) -> set[str]:
    return {str(each) for each in Path(folder).rglob("*") if each.is_file() and ".db" not in each.name}


def calls_of(kind: str) -> list[tuple[Any, str]]:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.io.pyarrow import PyArrowFileIO

    storage = [(Storage, name) for name in ("open", "create", "read", "find")]
    if kind.startswith("delta"):
        return [*storage, (put, "put_if_absent"), (SqlCatalog, "namespace_exists"), (SqlCatalog, "load_table")]
    of_catalog = ("register_table", "commit_table", "load_table", "create_table_transaction", "namespace_exists")
    return [*storage, *((SqlCatalog, name) for name in of_catalog), (PyArrowFileIO, "new_output")]


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("replace", [False, True])
def test_a_table_has_its_rows_from_its_first_commit(kind: str, replace: bool, local: lakescan.Catalog) -> None:
    if replace:
        create(local, kind, OLD)
    assert create(local, kind, replace=replace).rows == 3
    table = local.load_table("db.t")
    assert (rows_now(), table.partitioning) == (expected(NEW), "part")
    if kind.startswith("delta"):
        assert lakescan.table(table.location).version == (1 if replace else 0)
    else:
        operations = table.inspect("snapshots")["operation"].to_pylist()
        assert operations == (["append", "overwrite"] if replace else ["append"])
    table.append(NEW)
    assert table.count() == 6
    if replace:
        first = table.history()
        assert len(first) == 3


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3", "delta", "delta with row ids"])
def test_nobody_sees_a_table_without_its_rows(kind: str, local: lakescan.Catalog) -> None:
    """Another reader looks at each call that creates a table, and at each that replaces it."""
    seen: list[Any] = []

    @contextmanager
    def watched() -> Iterator[None]:
        looking: list[bool] = []

        def look() -> None:
            if not looking:
                looking.append(True)
                seen.append(rows_now())
                looking.clear()

        def watching(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **named: Any) -> Any:
                if looking:
                    return real(*arguments, **named)
                look()
                try:
                    return real(*arguments, **named)
                finally:
                    look()

            return call

        patches = [patch.object(*each, watching(getattr(*each))) for each in calls_of(kind)]
        for each in patches:
            each.start()
        try:
            yield
        finally:
            for each in patches:
                each.stop()

    with watched():
        create(local, kind, OLD)
    assert {str(each) for each in seen} == {str(None), str(expected(OLD))}
    seen.clear()
    with watched():
        create(local, kind, NEW, replace=True)
    assert {str(each) for each in seen} == {str(expected(OLD)), str(expected(NEW))}


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3", "delta"])
@pytest.mark.parametrize("replace", [False, True])
def test_creation_is_all_or_nothing_wherever_a_call_fails(kind: str, replace: bool) -> None:
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(calls_of(kind)), st.integers(1, 6), st.sampled_from(errors()), st.booleans())
    def check(call: tuple[Any, str], number: int, error: Exception, after: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            local = lakescan.catalog("local", warehouse=folder)
            local.create_namespace("db")
            if replace:
                create(local, kind, OLD)
            before, kept, outcome = rows_now(), files(folder), "made"
            with fault(*call, number, error, after=after), looks(2):
                try:
                    create(local, kind, replace=replace)
                except lakescan.CommitStateUnknown:
                    outcome = "unknown"
                except (lakescan.LakescanError, OSError, type(error)):
                    outcome = "failed"
            assert rows_now() in {"made": [expected(NEW)], "failed": [before]}.get(outcome, [before, expected(NEW)])
            if outcome == "failed":
                if not replace:
                    assert files(folder) == kept
                    assert local.list_tables("db") == []
                create(local, kind, replace=replace)
                assert rows_now() == expected(NEW)

    check()


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_permanently_lost_answer_keeps_all_files(kind: str, local: lakescan.Catalog, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    owner, name = (put, "put_if_absent") if kind == "delta" else (SqlCatalog, "register_table")
    with (
        patch.object(owner, name, side_effect=TimeoutError("no answer")),
        looks(1),
        pytest.raises(lakescan.CommitStateUnknown),
    ):
        create(local, kind)
    assert len([each for each in files(tmp_path) if each.endswith(".parquet")]) == 2


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3", "delta"])
def test_rows_that_fail_leave_no_table_and_no_files(kind: str, local: lakescan.Catalog, tmp_path: Path) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from NEW.to_batches()
        raise ValueError("the query failed")

    with pytest.raises(ValueError, match="the query failed"):
        create(local, kind, pa.RecordBatchReader.from_batches(NEW.schema, batches()))
    assert (rows_now(), local.list_tables("db"), files(tmp_path)) == (None, [], set())


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3", "delta"])
def test_of_two_creations_the_later_fails_and_leaves_no_files(
    kind: str, local: lakescan.Catalog, tmp_path: Path
) -> None:
    kept: set[str] = set()

    def batches() -> Iterator[pa.RecordBatch]:
        yield from NEW.to_batches()
        create(local, kind, OLD)
        kept.update(each for each in files(tmp_path))

    reader = pa.RecordBatchReader.from_batches(NEW.schema, batches())
    before = files(tmp_path)
    with pytest.raises(lakescan.CreatedConcurrently):
        create(local, kind, reader)
    assert rows_now() == expected(OLD)
    assert not {each for each in files(tmp_path) - before - kept if not each.endswith(".crc")}


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_replacement_conflicts_with_concurrently_added_rows(kind: str, local: lakescan.Catalog) -> None:
    create(local, kind, OLD)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from NEW.to_batches()
        local.load_table("db.t").append(OLD)

    with pytest.raises(lakescan.CommitConflict):
        create(local, kind, pa.RecordBatchReader.from_batches(NEW.schema, batches()), replace=True)
    assert rows_now() == sorted(expected(OLD) * 2, key=lambda row: row["id"])


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_query_without_rows_makes_an_empty_table(kind: str, local: lakescan.Catalog) -> None:
    assert create(local, kind, NEW.slice(0, 0)).rows == 0
    assert (rows_now(), local.load_table("db.t").schema.names) == ([], ["id", "part", "more"])
    create(local, kind, OLD, replace=True)
    create(local, kind, NEW.slice(0, 0), replace=True)
    assert (rows_now(), local.load_table("db.t").schema.names) == ([], ["id", "part", "more"])


def test_a_replacement_sets_the_order_of_new_files(local: lakescan.Catalog) -> None:
    lakescan.sql("CREATE TABLE local.db.t (id BIGINT, part STRING) WRITE ORDERED BY part")
    lakescan.sql("CREATE OR REPLACE TABLE local.db.t WRITE ORDERED BY id DESC AS SELECT 1L AS id UNION ALL SELECT 2L")
    table = local.load_table("db.t")
    assert table.sort_order == "id desc nulls last"
    assert table.to_arrow()["id"].to_pylist() == [2, 1]
    lakescan.sql("CREATE OR REPLACE TABLE local.db.t (id BIGINT)")
    assert local.load_table("db.t").sort_order == "unsorted"


def test_branch_options_need_an_existing_table(local: lakescan.Catalog) -> None:
    with pytest.raises(lakescan.InvalidOption, match="first rows in the branch main"):
        local.create_with("db.t", TableDefinition(()), NEW, options={"branch": "audit"})
    assert not local.table_exists("db.t")


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_save_makes_a_table_with_its_rows_or_none(local: lakescan.Catalog, tmp_path: Path, format: str) -> None:
    lakescan.save(NEW, "local.db.t", format=format, partition_by="part", user_metadata="first")
    table = local.load_table("db.t")
    assert (len(table.history()), table.count()) == (1, NEW.num_rows)
    bad = pa.RecordBatchReader.from_batches(NEW.schema, _failing())
    for mode in ("error", "append", "overwrite"):
        with pytest.raises(lakescan.SchemaMismatch, match="ZeroDivisionError"):
            lakescan.save(bad, "local.db.u", format=format, mode=mode)
        bad = pa.RecordBatchReader.from_batches(NEW.schema, _failing())
    assert not local.table_exists("db.u")
    assert [path for path in (tmp_path / "lake" / "db").rglob("*") if "/u/" in str(path) and path.is_file()] == []


def _failing() -> Iterator[pa.RecordBatch]:
    yield from NEW.to_batches()
    raise ZeroDivisionError


def test_a_save_makes_a_delta_table_in_a_folder_with_its_rows_or_none(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    bad = pa.RecordBatchReader.from_batches(NEW.schema, _failing())
    with pytest.raises(lakescan.SchemaMismatch, match="ZeroDivisionError"):
        lakescan.save(bad, folder, format="delta")
    assert not any(path.is_file() for path in folder.rglob("*"))
    lakescan.save(NEW, folder, format="delta", txn_app_id="a", txn_version=1)
    assert lakescan.table(folder).version == 0
    lakescan.save(NEW, folder, mode="append", txn_app_id="a", txn_version=1)  # the table exists
    assert lakescan.table(folder).count() == NEW.num_rows
    with pytest.raises(lakescan.SchemaMismatch, match="replaceWhere"):
        lakescan.save(NEW, tmp_path / "u", format="delta", mode="overwrite", replace_where="id = 100")
    assert not (tmp_path / "u" / "_delta_log").exists()


@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_a_concurrently_created_table_gets_the_rows(
    local: lakescan.Catalog, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    from lakescan.tables import write_rows as new_tables

    write, others = new_tables.commit_new_table, [True] * 4

    def late(new: Any, files: Any) -> Any:
        if others:
            others.clear()
            local.create_with("db.t", TableDefinition(()), NEW, format=format)
        return write(new, files)

    monkeypatch.setattr(new_tables, "commit_new_table", late)
    lakescan.save(NEW, "local.db.t", format=format, mode="append")
    assert local.load_table("db.t").count() == 2 * NEW.num_rows
    local.drop_table("db.t", purge=format == "iceberg")


def test_the_rows_of_a_new_audited_table_are_staged(local: lakescan.Catalog) -> None:
    audited = {"write.wap.enabled": "true"}
    lakescan.save(NEW, "local.db.t", properties=audited, wap_id="load")
    lakescan.save(NEW, "local.db.u", properties=audited, wap_branch="audit")
    tables = [local.load_table(f"db.{name}") for name in "tu"]
    assert [table.count() for table in tables] == [0, 0]
    tables[0].publish("load")
    tables[1].fast_forward("main", "audit")
    assert [table.count() for table in tables] == [NEW.num_rows] * 2
    with pytest.raises(lakescan.InvalidOption, match=r"write\.wap\.enabled is not true"):
        lakescan.save(NEW, "local.db.v", wap_id="load")
    with pytest.raises(lakescan.UnsupportedFeature, match="rows that are staged"):
        local.create_with(
            "db.t", TableDefinition((), properties=audited), NEW, replace=True, options={"wap-id": "again"}
        )
    assert not local.table_exists("db.v")
