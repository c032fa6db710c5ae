"""Overwrites of Iceberg tables that replace the columns, too: one commit, as CREATE OR REPLACE TABLE ... AS."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.options.write import WriteOptions
from lakescan.transaction.into import overwrite_rows
from lakescan.transaction.rows import rows_of
from tests.transaction.support import data_files, maker, now, rows

A, B = (1, "a"), (2, "b")
NEW = pa.table({"part": ["x", "y"], "id": ["one", None], "price": [1.5, 2.5]})


@pytest.fixture(params=["iceberg", "iceberg version 3"])
def table(request: pytest.FixtureRequest, local: lakescan.Catalog) -> lakescan.Table:
    """A table with a row, partitioned by `part`."""
    made = maker(request.param, local)()
    made.append(rows(A))
    return made


def ids() -> dict[str, int]:
    schema = connection("local").load_table(("db", "t")).schema()
    return {each.name: each.field_id for each in schema.fields}


def test_columns_and_rows_are_one_commit_and_the_history_stays(table: lakescan.Table) -> None:
    saved = now().overwrite(NEW, overwriteSchema=True)
    assert (saved.files, saved.rows, saved.removed_files) == (2, 2, 1)
    assert now().scan().to_arrow().sort_by("part").to_pydict() == NEW.to_pydict()
    assert now().partitioning == "part"
    assert now().history().num_rows == 2
    (first, _) = now().history()["snapshot_id"].to_pylist()
    assert now().scan().as_of(version=first).to_arrow().to_pylist() == [{"id": 1, "part": "a"}]
    now().append(NEW)
    assert now().scan().where("part = 'x'").count() == 2


def test_columns_of_the_same_name_and_type_keep_their_ids(table: lakescan.Table) -> None:
    before = ids()
    now().overwrite(NEW, overwriteSchema=True)
    after = ids()
    assert after["part"] == before["part"]
    assert after["id"] not in before.values()
    assert list(after) == ["part", "id", "price"]


def test_the_options_of_the_write_are_in_its_snapshot(table: lakescan.Table) -> None:
    now().overwrite(NEW, overwriteSchema=True, **{"snapshot-property.job": "7"})
    summary = connection("local").load_table(("db", "t")).current_snapshot().summary
    assert (summary.operation.value, summary["job"]) == ("overwrite", "7")


def test_no_rows_leave_an_empty_table_with_the_columns(table: lakescan.Table) -> None:
    now().overwrite(NEW.slice(0, 0), overwriteSchema=True)
    assert now().scan().to_arrow().to_pydict() == {"part": [], "id": [], "price": []}


def test_the_first_rows_of_a_table_may_bring_its_columns(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT")
    now().overwrite(NEW, overwriteSchema=True)
    assert now().scan().to_arrow().to_pydict() == NEW.to_pydict()


def test_sort_orders_and_properties_stay(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, price DOUBLE", properties={"owner": "me"})
    now().alter().set_sort_order("price DESC").commit()
    now().overwrite(NEW, overwriteSchema=True)
    assert now().properties["owner"] == "me"
    stored = connection("local").load_table(("db", "t"))
    (field,) = stored.sort_order().fields
    assert (stored.schema().find_column_name(field.source_id), field.direction.value) == ("price", "desc")


def test_a_partition_column_may_have_another_type(local: lakescan.Catalog) -> None:
    """Unless the partition field has its name: then earlier partitions, which stay in the history, would not fit."""
    maker("iceberg", local)(partition_by=("bucket(4, id)",)).append(rows(A))
    now().overwrite(NEW, overwriteSchema=True)
    assert now().scan().where("id = 'one'").to_arrow()["price"].to_pylist() == [1.5]
    assert now().scan().where("id = 'one'").plan().files.num_rows == 1
    now().alter().add_partition_field("price").commit()
    with pytest.raises(lakescan.UnsupportedFeature, match=r"overwriteSchema.*Drop the partition field by ALTER TABLE"):
        now().overwrite(pa.table({"id": ["x"], "price": ["1"]}), overwriteSchema=True)


@pytest.mark.parametrize(
    ("by", "new", "message"),
    [
        (("part",), {"id": [1]}, "drops 'part', which the table's partition spec needs"),
        (("bucket(4, id)",), {"id": [1.5]}, "makes 'id', of the table's partition spec, double"),
    ],
)
def test_columns_that_partitions_need_stay(local, tmp_path: Path, by: tuple[str, ...], new, message: str) -> None:
    maker("iceberg", local)(partition_by=by).append(rows(A))
    files = data_files(tmp_path)
    with pytest.raises(lakescan.UnsupportedFeature, match=message):
        now().overwrite(pa.table(new), overwriteSchema=True)
    assert now().scan().to_arrow().to_pylist() == [{"id": 1, "part": "a"}]
    assert data_files(tmp_path) == files


def test_columns_that_the_sort_order_needs_stay(local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, price DOUBLE").alter().set_sort_order("price").commit()
    with pytest.raises(lakescan.UnsupportedFeature, match="drops 'price', which the table's sort order needs"):
        now().overwrite(pa.table({"id": [1]}), overwriteSchema=True)


@pytest.mark.parametrize("options", [{"branch": "audit"}, {"wap-id": "7"}, {"validate-from-snapshot-id": 1}], ids=str)
def test_columns_are_those_of_all_branches(local: lakescan.Catalog, options: dict[str, Any]) -> None:
    maker("iceberg", local)(properties={"write.wap.enabled": "true"}).append(rows(A))
    with pytest.raises(lakescan.UnsupportedFeature, match=r"overwriteSchema of local\.db\.t"):
        now().overwrite(NEW, overwriteSchema=True, **options)
    assert now().scan().to_arrow().to_pylist() == [{"id": 1, "part": "a"}]


@pytest.mark.parametrize("change", ["rows", "columns"])
def test_other_columns_conflict_with_commits_since(table: lakescan.Table, tmp_path: Path, change: str) -> None:
    options = WriteOptions.of({"overwriteSchema": True}, "iceberg")
    before = replace(now()._target(options), options=options)
    if change == "rows":
        now().append(rows(B))
    else:
        now().alter().add_column("more", "string").commit()
    left, files = now().scan().to_arrow(), data_files(tmp_path)
    with pytest.raises(lakescan.CommitConflict, match="changed concurrently"):
        overwrite_rows(before, rows_of(NEW), options, None)
    assert now().scan().to_arrow() == left
    assert data_files(tmp_path) == files


def test_files_written_for_other_ids_are_not_committed(table: lakescan.Table) -> None:
    """As `df.write` does it, which opens the table again after its tasks have written the files."""
    from lakescan.transaction.save import overwrite, prepared

    options = WriteOptions.of({"overwriteSchema": True}, "iceberg")
    before = prepared(now()._target(options), NEW.schema, options)
    now().alter().add_column("more", "string").commit()
    after = prepared(now()._target(options), NEW.schema, options)
    with pytest.raises(lakescan.CommitConflict, match="changed its columns or partitions meanwhile"):
        after.check_rules(before.rules)
    overwrite(after, [], where=None, dynamic=False)
    assert list(ids()) == NEW.column_names
