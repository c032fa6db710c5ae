"""Commits of ALTER TABLE: concurrent changes both succeed or one is refused; lost answers are looked up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import lakescan
from lakescan import InvalidOption, NoSuchColumn
from lakescan.api.alter import AlterBuilder
from lakescan.api.rows import as_rows
from lakescan.common import types as t
from lakescan.common.retries import RetryPolicy
from lakescan.definition.table_changes import AddColumn, ChangeColumn, DropColumn, TableChange
from lakescan.iceberg.alter import alter_table as iceberg_alter
from lakescan.options.write import WriteOptions
from lakescan.tables.write_rows import append_rows
from tests.iceberg.alter.support import ROWS, make, metadata, names, now, rows, spec
from tests.tables.test_outcomes import calls_of, errors, fault, looks


def stale() -> Any:
    """Return a handle of the current table, to write with after other writers changed the table."""
    target: Any = now()._target(WriteOptions())
    _ = target.opened, target.writes.schema
    return target


def int_column(name: str) -> AddColumn:
    return AddColumn((), t.Field(0, name, t.INT))


def test_columns_of_two_writers_have_different_ids(local: lakescan.Catalog) -> None:
    make(local, columns="id BIGINT")
    mine = stale()
    now().alter().add_column("theirs", "INT").commit()
    mine.alter([int_column("mine")])
    assert metadata().schema.path_of == {1: "id", 2: "theirs", 3: "mine"}


def test_changes_apply_to_the_table_after_concurrent_commits(local: lakescan.Catalog) -> None:
    make(local)
    mine, other = stale(), stale()
    now().alter().rename_column("n", "m").add_column("x", "INT").commit()
    with pytest.raises(NoSuchColumn, match="no column 'n'"):
        mine.alter([DropColumn(("n",))])
    with pytest.raises(InvalidOption, match="column x already exists"):
        other.alter([int_column("x"), int_column("y")])
    assert "y" not in names()


def test_a_column_that_others_concurrently_partition_by_is_not_dropped(local: lakescan.Catalog) -> None:
    make(local)
    mine = stale()
    now().alter().add_partition_field("part").commit()
    with pytest.raises(InvalidOption, match="the partition field 'part' needs it"):
        mine.alter([DropColumn(("part",))])
    assert spec() == ["1000 part: identity of part"]


def test_concurrently_set_properties_stay(local: lakescan.Catalog) -> None:
    make(local, properties={"a": "1", "b": "2"})
    mine = now().alter().set_properties({"a": "mine"}).unset_properties("b")
    now().alter().set_properties({"c": "3"}).unset_properties("b").commit()
    mine.commit()
    assert {**metadata().properties} == {"a": "mine", "c": "3"}


def test_rows_written_before_a_change_are_committed_after_it(local: lakescan.Catalog) -> None:
    make(local, partition_by=["part"]).append(ROWS)
    mine, options = stale(), WriteOptions()

    def alter() -> None:
        change = now().alter().rename_column("n", "m").change_column("m", type="BIGINT").drop_column("day")
        change.replace_partition_field("part", "bucket(4, id)").set_properties({"format-version": 3}).commit()

    committing(mine, alter, lambda: append_rows(mine, as_rows(ROWS), options))
    assert [(row["id"], row["m"]) for row in rows()] == [(1, 10), (1, 10), (2, None), (2, None)]


def committing(target: Any, meanwhile: Callable[[], None], write: Callable[[], Any]) -> None:
    """Write to a table that another writer changes just before the commit, after the data files were written."""
    kind, left = type(target), [meanwhile]
    real = kind.append

    def append(self: Any, files: Any) -> None:
        if left:
            left.pop()()
        real(self, files)

    with patch.object(kind, "append", append):
        write()


@pytest.mark.parametrize("change", ["not null", "a required column"])
def test_rows_with_nulls_are_not_committed_after_a_change_that_forbids_them(
    local: lakescan.Catalog, change: str
) -> None:
    make(local).append(ROWS.slice(0, 1))
    mine, options = stale(), WriteOptions()
    builders: dict[str, Callable[[AlterBuilder], AlterBuilder]] = {
        "not null": lambda a: a.change_column("n", required=True),
        "a required column": lambda a: a.add_column("more", "INT", required=True),
    }
    if change == "a required column":
        now().delete("true")

    def alter() -> None:
        builders[change](now().alter()).commit()

    with pytest.raises(lakescan.CommitConflict, match="NOT NULL"):
        committing(mine, alter, lambda: append_rows(mine, as_rows(ROWS), options))
    assert len(rows()) == (1 if change == "not null" else 0)


def test_not_null_is_refused_if_others_add_nulls_before_the_commit(local: lakescan.Catalog) -> None:
    make(local).append(ROWS.slice(0, 1))
    mine, real, left = stale(), iceberg_alter.commit_draft, [ROWS]

    def commit(*arguments: Any) -> Any:
        if left:
            now().append(left.pop())
        return real(*arguments)

    with (
        patch.object(iceberg_alter, "commit_draft", commit),
        pytest.raises(InvalidOption, match="n cannot be NOT NULL: 1 row has a null in it"),
    ):
        mine.alter([ChangeColumn(("n",), required=True)])
    assert not metadata().schema.field("n").required


def test_columns_and_rows_of_concurrent_writers_are_all_kept(local: lakescan.Catalog) -> None:
    often = {"commit.retry.num-retries": "200", "commit.retry.max-wait-ms": "50", "commit.retry.min-wait-ms": "1"}
    make(local, 2, "id BIGINT", properties=often)

    def work(number: int) -> None:
        if number % 2:
            now().alter().add_column(f"c{number}", "INT").commit()
        else:
            now().append(pa.table({"id": [number]}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(12)))
    assert sorted(names()) == ["c1", "c11", "c3", "c5", "c7", "c9", "id"]
    assert len(metadata().schema.by_id) == 7
    assert [row["id"] for row in rows()] == [0, 10, 2, 4, 6, 8] or {row["id"] for row in rows()} == {0, 2, 4, 6, 8, 10}


def test_retries_follow_the_properties_of_the_table(local: lakescan.Catalog) -> None:
    make(local, properties={"commit.retry.num-retries": "2", "commit.retry.min-wait-ms": "1"})
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import CommitFailedException

    with (
        patch.object(SqlCatalog, "commit_table", side_effect=CommitFailedException("409")) as commits,
        pytest.raises(lakescan.CommitConflict, match="the commit failed after 3 attempts"),
    ):
        now().alter().add_column("x", "INT").commit()
    assert commits.call_count == 3


def test_refusals_of_a_metastore_are_quoted(local: lakescan.Catalog) -> None:
    from hive_metastore.ttypes import InvalidOperationException
    from pyiceberg.catalog.sql import SqlCatalog

    make(local)
    why = InvalidOperationException(message="The following columns have types incompatible with the existing columns")
    with (
        patch.object(SqlCatalog, "commit_table", side_effect=why),
        pytest.raises(lakescan.StorageError, match="types incompatible with the existing columns"),
    ):
        now().alter().drop_column("n").commit()
    assert "n" in names()


def test_refusals_of_a_server_are_quoted(local: lakescan.Catalog) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import BadRequestError

    make(local)
    with (
        patch.object(SqlCatalog, "commit_table", side_effect=BadRequestError("no version 3 here")),
        pytest.raises(lakescan.UnsupportedFeature, match="nothing was changed: no version 3 here"),
    ):
        now().alter().set_properties({"format-version": 3}).commit()
    assert metadata().format_version == 2


CHANGES: dict[str, Callable[[AlterBuilder], AlterBuilder]] = {
    "columns": lambda a: a.add_column("x", "INT").rename_column("part", "area"),
    "columns as before": lambda a: a.change_column("id", comment=None),
    "layout": lambda a: a.add_partition_field("part").set_sort_order("id"),
    "properties": lambda a: a.set_properties({"x": "y"}).unset_properties("gone").set_comment("c"),
    "version": lambda a: a.set_properties({"format-version": 3}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("after", [False, True])
def test_changes_are_made_once_or_not_at_all_wherever_a_call_fails(
    local: lakescan.Catalog, name: str, after: bool
) -> None:
    calls = [call for call in calls_of("iceberg") if call[1] in ("commit_table", "load_table", "new_output")]
    for call in calls:
        for number in (1, 2):
            for error in errors()[:3]:
                make(local, 2, "id BIGINT, part STRING", properties={"gone": "1"})
                now().alter().change_column("id", comment="key").commit()
                before, builder = _state(), CHANGES[name](now().alter())
                is_done = False
                with fault(*call, number, error, after=after), looks(2):
                    try:
                        builder.commit()
                        is_done = True
                    except (lakescan.LakescanError, OSError, type(error)):
                        pass
                found = _state()
                local.drop_table("db.t")
                make(local, 2, "id BIGINT, part STRING", properties={"gone": "1"})
                now().alter().change_column("id", comment="key").commit()
                CHANGES[name](now().alter()).commit()
                expected = _state()
                local.drop_table("db.t")
                assert found == expected if is_done else found in (before, expected), (call[1], number, error)


def _state() -> Any:
    found = metadata()
    schema = found.schema
    return schema, spec(), found.sort_order, dict(found.properties), found.format_version


class Recorded:
    """A REST catalog that records commit requests and scripts its answers."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def __call__(self, table: Any, requirements: Sequence[Any], updates: Sequence[Any]) -> Any:
        self.sent.append((list(requirements), list(updates)))
        raise AssertionError("enough")


def test_requests_to_a_catalog_equal_those_of_java(local: lakescan.Catalog) -> None:
    """The requirements of Java's `UpdateRequirements`, with the schema, spec and order in one request."""
    make(local)
    recorded = Recorded()
    target = stale()
    changes: list[TableChange] = list(
        now().alter().add_column("x", "INT").add_partition_field("x").set_sort_order("x").set_comment("c")._changes
    )
    with (
        patch.object(type(target._table.catalog), "commit_table", lambda self, *a: recorded(*a)),
        looks(1),
        pytest.raises(lakescan.CommitStateUnknown),
    ):
        iceberg_alter.alter(target._table, target.opened, target.storage, changes, RetryPolicy(1, 0))
    requirements, updates = recorded.sent[0]
    assert [each.action for each in updates] == [
        *("add-schema", "set-current-schema", "add-spec", "set-default-spec", "add-sort-order"),
        *("set-default-sort-order", "set-properties"),
    ]
    assert [each.type for each in requirements] == [
        *("assert-current-schema-id", "assert-default-spec-id", "assert-default-sort-order-id"),
        *("assert-last-assigned-field-id", "assert-last-assigned-partition-id"),
        *("assert-table-uuid", "assert-table-uuid"),
    ]
