"""Overwrites of Iceberg tables that also replace the columns: one commit, as CREATE OR REPLACE TABLE ... AS."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.api.rows import as_rows
from lakescan.catalogs.registry import connection
from lakescan.options.write import WriteOptions
from lakescan.tables.write_rows import overwrite_rows
from tests.tables.support import data_files, maker, now, rows

A, B = (1, "a"), (2, "b")
NEW = pa.table({"part": ["x", "y"], "id": ["one", None], "price": [1.5, 2.5]})


@pytest.fixture(params=["iceberg", "iceberg version 3"])
def table(request: pytest.FixtureRequest, local: lakescan.Catalog) -> lakescan.Table:
    """Make a table with one row, partitioned by `part`."""
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


def test_an_overwrite_without_rows_leaves_an_empty_table_with_the_columns(table: lakescan.Table) -> None:
    now().overwrite(NEW.slice(0, 0), overwriteSchema=True)
    assert now().scan().to_arrow().to_pydict() == {"part": [], "id": [], "price": []}


def test_the_first_rows_of_a_table_may_add_its_columns(local: lakescan.Catalog) -> None:
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
    """Unless the partition field has the column's name: then earlier partitions in the history would not fit."""
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
def test_the_columns_apply_to_all_branches(local: lakescan.Catalog, options: dict[str, Any]) -> None:
    maker("iceberg", local)(properties={"write.wap.enabled": "true"}).append(rows(A))
    with pytest.raises(lakescan.UnsupportedFeature, match=r"overwriteSchema of local\.db\.t"):
        now().overwrite(NEW, overwriteSchema=True, **options)
    assert now().scan().to_arrow().to_pylist() == [{"id": 1, "part": "a"}]


@pytest.mark.parametrize("change", ["rows", "columns"])
def test_other_columns_conflict_with_concurrent_commits(table: lakescan.Table, tmp_path: Path, change: str) -> None:
    options = WriteOptions.parse({"overwriteSchema": True}, "iceberg")
    before = replace(now()._target(options), options=options)
    if change == "rows":
        now().append(rows(B))
    else:
        now().alter().add_column("more", "string").commit()
    left, files = now().scan().to_arrow(), data_files(tmp_path)
    with pytest.raises(lakescan.CommitConflict, match="changed concurrently"):
        overwrite_rows(before, as_rows(NEW), options, None)
    assert now().scan().to_arrow() == left
    assert data_files(tmp_path) == files


def test_files_written_for_other_ids_are_not_committed(table: lakescan.Table) -> None:
    """As with `df.write`, which reopens the table after its tasks have written the files."""
    from lakescan.tables.commit_files import overwrite, prepare_target

    options = WriteOptions.parse({"overwriteSchema": True}, "iceberg")
    before = prepare_target(now()._target(options), NEW.schema, options)
    now().alter().add_column("more", "string").commit()
    after = prepare_target(now()._target(options), NEW.schema, options)
    with pytest.raises(lakescan.CommitConflict, match="changed its columns or partitions during the write"):
        after.check_rules(before.rules)
    overwrite(after, [], where=None, dynamic=False)
    assert list(ids()) == NEW.column_names


OTHER = pa.table({"name": ["A", "B"], "day": ["x", "y"], "n": pa.array([1, 2], pa.int64())})


@pytest.mark.parametrize("format", ["iceberg", "delta"])
@pytest.mark.parametrize("mapped", [False, True], ids=["", "mapped"])
def test_an_overwrite_of_the_schema_can_repartition_the_table(local, format: str, mapped: bool) -> None:
    properties = {"delta.columnMapping.mode": "name"} if mapped and format == "delta" else {}
    lakescan.save(OTHER, "local.db.t", format=format, partition_by="day", properties=properties)
    lakescan.save(OTHER, "local.db.t", mode="overwrite", partition_by=["name"], overwriteSchema=True)
    assert now().partitioning == "name"
    assert [row["partition"] for row in partitions()] == [{"name": "A"}, {"name": "B"}]
    changed = OTHER.select(["n", "day"])
    now().overwrite(changed, overwriteSchema=True, partition_by="day, n" if format == "iceberg" else "n")
    assert now().to_arrow().sort_by("n").to_pydict() == changed.to_pydict()
    now().overwrite(changed, overwriteSchema=True, partition_by=())
    assert now().partitioning == "unpartitioned"
    now().append(changed)
    assert now().scan().where("n = 2").count() == 2
    first = 0 if format == "delta" else now().history()["snapshot_id"][0].as_py()
    assert now().scan().as_of(version=first).count() == 2


def partitions() -> list[dict[str, Any]]:
    """Return the partitions with files, without fields of earlier specs."""
    found = now().inspect("partitions").to_pylist()
    return [{"partition": {k: v for k, v in row["partition"].items() if v is not None}} for row in found]


@pytest.mark.parametrize("mapping", [{}, {"delta.columnMapping.mode": "name"}], ids=["plain", "mapped"])
def test_dropped_partition_columns_no_longer_partition_the_table(local, mapping: dict[str, str]) -> None:
    lakescan.save(OTHER, "local.db.t", format="delta", partition_by=["day", "name"], properties=mapping)
    now().overwrite(OTHER.select(["name", "n"]), overwriteSchema=True)
    assert now().partitioning == "name"
    now().overwrite(OTHER.select(["n"]), overwriteSchema=True)
    assert now().partitioning == "unpartitioned"
    assert now().to_arrow().to_pydict() == {"n": [1, 2]}
    assert now().scan().as_of(version=0).to_arrow().sort_by("n").to_pydict() == OTHER.to_pydict()


def test_columns_of_the_same_name_and_type_keep_their_mapping(local: lakescan.Catalog) -> None:
    """As in Delta on Spark: other columns get new ids and physical names."""
    columns = "id BIGINT, name STRING, s STRUCT<a: INT, b: STRING>, u STRUCT<a: INT>"
    made = local.create_table("db.t", columns, format="delta", properties={"delta.columnMapping.mode": "name"})
    before = mapping_of(made)
    new = pa.table(
        {
            "s": pa.array([{"a": 1, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            "id": ["text"],
            "name": ["n"],
            "u": pa.array([{"a": 1}], pa.struct([("a", pa.int64())])),
        }
    )
    made.overwrite(new, overwriteSchema=True)
    after = mapping_of(now())
    assert {name for name in after if before.get(name) == after[name]} == {"name", "s", "s.a", "s.b"}
    fresh = [after[name] for name in ("id", "u", "u.a")]
    assert not {name for _, name in fresh} & {name for _, name in before.values()}
    assert sorted(number for number, _ in fresh) == [8, 9, 10]
    assert now().properties["delta.columnMapping.maxColumnId"] == "10"
    assert now().to_arrow().to_pylist() == new.to_pylist()


def mapping_of(table: lakescan.Table) -> dict[str, tuple[int, str]]:
    """Return the ids and physical names of a Delta table's columns and their members."""
    from lakescan.common import types as t

    schema = table.scan().spec.snapshot.schema
    return {schema.path_of[each.id]: (each.id, each.physical_name) for each in t.walk(schema.fields)}


@pytest.mark.parametrize("format", ["iceberg", "delta"])
@pytest.mark.parametrize(("mode", "by"), [("append", "name"), ("overwrite", "name"), ("append", ["day", "name"])])
def test_other_partitions_than_those_of_the_table_are_refused(local, tmp_path: Path, format, mode, by) -> None:
    lakescan.save(OTHER, "local.db.t", format=format, partition_by="day")
    files = data_files(tmp_path)
    with pytest.raises(lakescan.InvalidOption, match=r"partition-by='.*name': .* is partitioned by day"):
        lakescan.save(OTHER, "local.db.t", mode=mode, partition_by=by)
    assert data_files(tmp_path) == files
    lakescan.save(OTHER, "local.db.t", mode="append", partition_by="DAY")
    assert now().count() == 4
    lakescan.save(OTHER, "local.db.u", format=format)
    with pytest.raises(lakescan.InvalidOption, match=r"is not partitioned"):
        lakescan.save(OTHER, "local.db.u", mode="append", partition_by=by)


@pytest.mark.slow
@pytest.mark.parametrize("properties", [{}, {"delta.columnMapping.mode": "name"}], ids=["plain", "mapped"])
def test_two_concurrent_schema_overwrites_conflict(local, tmp_path: Path, properties) -> None:
    lakescan.save(OTHER, "local.db.t", format="delta", partition_by="day", properties=properties)
    options = WriteOptions.parse({"overwriteSchema": True, "partition-by": "name"}, "delta")
    target = replace(now()._target(options), options=options)
    files = data_files(tmp_path)
    now().alter().set_properties({"owner": "me"}).commit()
    with pytest.raises(lakescan.CommitConflict, match="which this write replaces"):
        overwrite_rows(target, as_rows(OTHER), options, None)
    assert (now().partitioning, data_files(tmp_path)) == ("day", files)
    target = replace(now()._target(options), options=options)
    now().append(OTHER)
    overwrite_rows(target, as_rows(OTHER), options, None)  # concurrently added rows are replaced
    assert (now().partitioning, now().count()) == ("name", 2)
