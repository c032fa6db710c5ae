"""Metadata tables have the rows and columns that Iceberg's own reader gives them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.iceberg_deletes import commit_deletes, write_deletion_vectors, write_position_deletes
from samples.shop import Shop

import lakescan
from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.common.types import LONG, Field
from lakescan.iceberg.manifests.bounds import encode_value
from lakescan.iceberg.metadata.partition_spec import PartitionField, Transform
from lakescan.iceberg.metadata_tables import METADATA_TABLES, OF_SNAPSHOT
from lakescan.iceberg.metadata_tables.entries import metrics_column, metrics_type
from lakescan.iceberg.metadata_tables.manifests import bound_text
from tests.support.catalog import local_catalog
from tests.support.rows import differences

SIXTEEN = {
    "entries", "files", "data_files", "delete_files", "history", "metadata_log_entries", "snapshots", "refs",
    "manifests", "partitions", "all_data_files", "all_delete_files", "all_files", "all_manifests", "all_entries",
    "position_deletes",
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Partitioned by name: {1, 2, 3} under a and {4} under b, then 5 under b, after a delete of 1."""
    from pyiceberg.transforms import IdentityTransform

    folder = tmp_path_factory.mktemp("tables")
    catalog = local_catalog(folder)
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "name")
    table.append(pa.table({"id": [1, 2, 3, 4], "name": ["a", "a", "a", "b"]}))
    table.delete("id = 1")
    table.append(pa.table({"id": [5], "name": ["b"]}))
    table.manage_snapshots().create_tag(table.history()[0].snapshot_id, "first").commit()
    return table


def unpartitioned(folder: Path) -> Any:
    catalog = local_catalog(folder)
    return catalog.create_table("n.t", pa.schema([("id", pa.int64())]))


def opened(table: Any) -> lakescan.Table:
    return lakescan.table(table.metadata_location)


def test_there_are_sixteen_metadata_tables(table: Any) -> None:
    assert set(opened(table).metadata_tables) == set(METADATA_TABLES) == SIXTEEN


def test_an_unknown_name_is_refused_with_the_nearest_one(table: Any) -> None:
    with pytest.raises(lakescan.InvalidOption, match="Did you mean 'snapshots'"):
        opened(table).inspect("snapshot")


def test_files_of_a_range_of_commits_are_refused(table: Any) -> None:
    """Options for appended rows select no single snapshot: `files` is refused, tables of the whole table are not."""
    first = table.history()[0].snapshot_id
    since = lakescan.table(table.metadata_location, **{"start-snapshot-id": first})
    assert since.inspect("snapshots").equals(opened(table).inspect("snapshots"))
    for name in sorted(OF_SNAPSHOT):
        with pytest.raises(lakescan.InvalidOption, match=f"'{name}' shows one snapshot"):
            since.inspect(name)
    latest = table.current_snapshot().snapshot_id
    assert lakescan.table(table.metadata_location, **{"snapshot-id": latest}).inspect("files").num_rows


def test_snapshots_have_their_operation_and_summary(table: Any) -> None:
    found = opened(table).inspect("snapshots").to_pylist()
    expected = table.inspect.snapshots().to_pylist()
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine["snapshot_id"], mine["parent_id"]) == (theirs["snapshot_id"], theirs["parent_id"])
        assert (mine["operation"], mine["manifest_list"]) == (theirs["operation"], theirs["manifest_list"])
        assert dict(mine["summary"]) == dict(theirs["summary"])


def test_history_and_log_end_with_the_current_state(table: Any) -> None:
    found = opened(table).inspect("history")
    assert found.column_names == ["made_current_at", "snapshot_id", "parent_id", "is_current_ancestor"]  # as Java's
    more = opened(table).history()
    assert more.column_names == [*found.column_names, "operation", "summary"]
    assert found.equals(more.select(found.column_names))
    history = found.to_pylist()
    assert [r["snapshot_id"] for r in history] == [e.snapshot_id for e in table.history()]
    assert all(r["is_current_ancestor"] for r in history)
    last = opened(table).inspect("metadata_log_entries").to_pylist()[-1]
    assert last["file"] == table.metadata_location
    assert last["latest_snapshot_id"] == history[-1]["snapshot_id"]


def test_refs_are_branches_and_tags(table: Any) -> None:
    found = {r["name"]: r["type"] for r in opened(table).inspect("refs").to_pylist()}
    assert found == {"main": "BRANCH", "first": "TAG"}


@pytest.mark.parametrize("name", ["files", "data_files", "delete_files"])
def test_files_are_the_live_ones_of_the_snapshot(table: Any, name: str) -> None:
    theirs = getattr(table.inspect, name)()
    mine = opened(table).inspect(name)
    kept = ["content", "file_path", "partition", "record_count", "file_size_in_bytes", "split_offsets"]
    assert differences(mine.select(kept), theirs.select(kept)) == ""
    assert mine.num_rows == theirs.num_rows


def test_readable_metrics_are_by_column_in_its_type(table: Any) -> None:
    rows = opened(table).inspect("files").to_pylist()
    (added,) = [r for r in rows if r["readable_metrics"]["id"]["lower_bound"] == 5]
    assert added["readable_metrics"]["name"]["upper_bound"] == "b"
    assert added["readable_metrics"]["id"] | {"column_size": 0} == {
        "column_size": 0,
        "value_count": 1,
        "null_value_count": 0,
        "nan_value_count": None,
        "lower_bound": 5,
        "upper_bound": 5,
    }


@settings(max_examples=60)
@given(st.lists(st.none() | st.dictionaries(st.integers(1, 5), st.integers(-9, 9)), max_size=5))
def test_readable_metrics_are_the_values_of_each_columns_key(maps: list[dict[int, int] | None]) -> None:
    schema = Schema(tuple(Field(i, f"c{i}", LONG) for i in (2, 4, 9)))
    kind = pa.map_(pa.int32(), pa.int64())
    counts = pa.array([None if m is None else list(m.items()) for m in maps], kind)
    none = pa.array([None] * len(maps), pa.map_(pa.int32(), pa.binary()))
    names = ["column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"]
    files = pa.StructArray.from_arrays([counts] * 4 + [none] * 2, names=names)
    found = metrics_column(files, schema, metrics_type(schema)).to_pylist()
    assert [{n: row[n]["value_count"] for n in row} for row in found] == [
        {f"c{i}": (m or {}).get(i) for i in (2, 4, 9)} for m in maps
    ]


def test_entries_include_deleted_files_and_inherit_from_their_manifest(table: Any) -> None:
    snapshots = [e.snapshot_id for e in table.history()]
    rows = opened(table).inspect("entries", version=snapshots[1]).to_pylist()
    assert sorted(r["status"] for r in rows) == [0, 1, 2]
    assert {r["sequence_number"] for r in rows if r["status"] == 1} == {2}
    assert all(r["snapshot_id"] in snapshots for r in rows)


def test_all_tables_read_every_snapshot_once(table: Any) -> None:
    current = set(opened(table).inspect("files")["file_path"].to_pylist())
    ever = opened(table).inspect("all_files")["file_path"].to_pylist()
    assert current < set(ever)
    manifests = opened(table).inspect("all_manifests")
    assert len(opened(table).inspect("all_entries")) >= len(ever)
    per_snapshot = [opened(table).inspect("manifests", version=e.snapshot_id).num_rows for e in table.history()]
    assert manifests.num_rows == sum(per_snapshot)


def test_manifests_have_their_partition_bounds_as_text(table: Any) -> None:
    for row in opened(table).inspect("manifests").to_pylist():
        (summary,) = row["partition_summaries"]
        assert summary["lower_bound"] in ("a", "b")
        assert row["added_delete_files_count"] == 0


def test_partitions_have_file_counts_and_their_last_change(table: Any) -> None:
    rows = {r["partition"]["name"]: r for r in opened(table).inspect("partitions").to_pylist()}
    assert {n: (r["record_count"], r["file_count"]) for n, r in rows.items()} == {"a": (2, 1), "b": (2, 2)}
    assert rows["b"]["last_updated_snapshot_id"] == table.history()[-1].snapshot_id


def test_bounds_of_numbers_are_formatted_as_in_java(tmp_path: Path) -> None:
    from pyiceberg.transforms import IdentityTransform

    catalog = local_catalog(tmp_path)
    table = catalog.create_table("n.t", pa.schema([("d", pa.float64()), ("f", pa.float32())]))
    with table.update_spec() as update:
        update.add_field("d", IdentityTransform(), "d")
        update.add_field("f", IdentityTransform(), "f")
    table.append(pa.table({"d": [1e-30, 1e10], "f": pa.array([0.1, 1.5], pa.float32())}))
    (row,) = lakescan.table(catalog.load_table("n.t").metadata_location).inspect("manifests").to_pylist()
    bounds = [(each["lower_bound"], each["upper_bound"]) for each in row["partition_summaries"]]
    assert bounds == [("1.0E-30", "1.0E10"), ("0.1", "1.5")]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (t.Timestamp("us", zoned=True), -1, "1969-12-31T23:59:59.999999+00:00"),
        (t.Timestamp("us", zoned=True), 100_000, "1970-01-01T00:00:00.1+00:00"),
        (t.Timestamp("us", zoned=True), 0, "1970-01-01T00:00:00+00:00"),
        (t.Timestamp("us", zoned=False), 60_000_120, "1970-01-01T00:01:00.00012"),
        (t.Timestamp("us", zoned=False), 10_000_000, "1970-01-01T00:00:10"),
        (t.Timestamp("ns", zoned=True), -1, "1969-12-31T23:59:59.999999999+00:00"),
        (t.Timestamp("ns", zoned=False), 1_500, "1970-01-01T00:00:00.0000015"),
        (t.Timestamp("us", zoned=True), 253_402_300_800_000_000, "+10000-01-01T00:00:00+00:00"),
        (t.Timestamp("us", zoned=False), -62_167_305_600_000_000, "-0001-12-31T00:00:00"),
        (t.DATE, 0, "1970-01-01"),
        (t.DATE, -719_162, "0001-01-01"),
        (t.DATE, 2_932_896, "9999-12-31"),
        (t.DATE, 2_932_897, "10000-01-01"),
        (t.TIME, 0, "00:00"),
        (t.TIME, 3_600_000_000, "01:00"),
        (t.TIME, 1_000_000, "00:00:01"),
        (t.TIME, 100_000, "00:00:00.100"),
        (t.TIME, 100_010, "00:00:00.100010"),
    ],
)
def test_bounds_of_times_are_formatted_as_in_java(kind: t.Type, value: int, text: str) -> None:
    field = PartitionField(1000, "p", 1, Transform("identity"), kind)
    assert bound_text(encode_value(value, kind), field) == text


@pytest.mark.parametrize(
    ("transform", "value", "text"),
    [
        ("year", -1969, "0001"),
        ("month", -1, "1969-12"),
        ("hour", -1, "1969-12-31-23"),
        ("hour", -719_162 * 24 + 5, "0001-01-01-05"),
        ("hour", 2_932_897 * 24, "10000-01-01-00"),
    ],
)
def test_bounds_of_periods_have_years_of_four_digits(transform: str, value: int, text: str) -> None:
    field = PartitionField(1000, "p", 1, Transform(transform), t.INT)
    assert bound_text(encode_value(value, t.INT), field) == text


def test_a_partition_of_two_specs_is_one_row_with_the_spec_of_its_newest_file(tmp_path: Path) -> None:
    from pyiceberg.transforms import IdentityTransform

    catalog = local_catalog(tmp_path)
    table = catalog.create_table("n.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    with table.update_spec() as update:
        update.add_field("name", IdentityTransform(), "name")
    table.append(pa.table({"id": [1, 2], "name": [None, "a"]}, table.schema().as_arrow()))
    with table.update_spec() as update:
        update.remove_field("name")
    table.append(pa.table({"id": [3], "name": ["b"]}))
    rows = {r["partition"]["name"]: r for r in opened(table).inspect("partitions").to_pylist()}
    assert {n: (r["spec_id"], r["record_count"], r["file_count"]) for n, r in rows.items()} == {
        None: (table.spec().spec_id, 2, 2),
        "a": (1, 1, 1),
    }
    assert rows[None]["last_updated_snapshot_id"] == table.history()[-1].snapshot_id


@pytest.mark.parametrize(
    ("kind", "term"),
    [
        ("TIMESTAMP", "years(c)"),
        ("TIMESTAMP", "hours(c)"),
        ("TIMESTAMP", "bucket(4, c)"),
        ("DATE", "days(c)"),
        ("STRING", "truncate(2, c)"),
        ("STRING", "bucket(4, c)"),
    ],
)
def test_fields_that_version_1_dropped_are_null_whatever_their_type(tmp_path: Path, kind: str, term: str) -> None:
    """They are void, and have the type of their source, not that of the dropped transform."""
    lakescan.catalog("dropped", warehouse=str(tmp_path)).create_namespace("db")
    name = "dropped.db.t"
    lakescan.sql(f"CREATE TABLE {name} (c {kind}) PARTITIONED BY ({term}) TBLPROPERTIES ('format-version' = '1')")
    lakescan.sql(f"INSERT INTO {name} SELECT CAST(CAST('2026-01-31' AS STRING) AS {kind})")
    lakescan.sql(f"ALTER TABLE {name} DROP PARTITION FIELD {term}")
    lakescan.sql(f"INSERT INTO {name} SELECT CAST(CAST('2026-02-28' AS STRING) AS {kind})")
    opened = lakescan.table(name)
    for each in ("entries", "files", "all_entries", "all_data_files", "partitions"):
        rows = opened.inspect(each).to_pylist()
        partitions = [row["partition"] if "partition" in row else row["data_file"]["partition"] for row in rows]
        assert sorted(value is None for partition in partitions for value in partition.values()) == [False, True], each


def test_a_table_without_partitions_is_one_row_without_a_partition(tmp_path: Path) -> None:
    plain = unpartitioned(tmp_path)
    plain.append(pa.table({"id": [1, 2]}))
    plain.append(pa.table({"id": [3]}))
    (row,) = lakescan.table(plain.metadata_location).inspect("partitions").to_pylist()
    assert (row["record_count"], row["file_count"]) == (3, 2)
    assert "partition" not in row


@pytest.mark.parametrize("name", sorted(SIXTEEN))
def test_an_empty_table_has_all_metadata_tables(tmp_path: Path, name: str) -> None:
    found = lakescan.table(unpartitioned(tmp_path).metadata_location).inspect(name)
    assert found.num_rows == (1 if name == "metadata_log_entries" else 0)


def test_position_deletes_include_those_of_files_and_vectors(table: Any) -> None:
    path = next(f["file_path"] for f in table.inspect.files().to_pylist() if f["record_count"] == 2)
    where = {"partition": {"name": "a"}, "spec_id": table.spec().spec_id}
    file = write_position_deletes(f"{table.location()}/data/p.parquet", [(path, 1)], **where)
    vectors = write_deletion_vectors(f"{table.location()}/data/p.puffin", {path: [0, 1]}, **where)
    location = commit_deletes(table.metadata_location, [file, *vectors])
    rows = lakescan.table(location).inspect("position_deletes").to_pylist()
    assert sorted((r["file_path"], r["pos"]) for r in rows) == [(path, 0), (path, 1), (path, 1)]
    assert {(r["partition"]["name"], r["spec_id"]) for r in rows} == {("a", table.spec().spec_id)}


def test_files_of_the_shop_equal_those_of_pyiceberg(shop: Shop) -> None:
    from pyiceberg.table import StaticTable

    theirs = StaticTable.from_metadata(shop.orders).inspect.data_files()
    mine = lakescan.table(shop.orders).inspect("data_files")
    names = ["file_path", "record_count", "split_offsets", "sort_order_id"]
    assert differences(mine.select(names), theirs.select(names)) == ""
    for side in ("lower_bounds", "upper_bounds", "value_counts", "null_value_counts", "column_sizes"):
        order = pc.sort_indices(theirs["file_path"]), pc.sort_indices(mine["file_path"])
        pairs = zip(mine[side].take(order[1]).to_pylist(), theirs[side].take(order[0]).to_pylist(), strict=True)
        assert all(sorted(a) == sorted(b) for a, b in pairs)


@pytest.mark.parametrize("name", sorted(SIXTEEN))
def test_parts_can_be_pickled_and_read_in_other_processes(shop: Shop, name: str) -> None:
    found = pickle.loads(pickle.dumps(lakescan.table(shop.orders).scan().spec.metadata_table(name)))
    parts = pickle.loads(pickle.dumps(list(found.parts())))
    rows = pa.Table.from_batches([b for p in parts for b in found.read(p)], schema=found.schema.arrow())
    assert rows.equals(lakescan.table(shop.orders).inspect(name))


def test_a_scan_of_chosen_rows_has_no_metadata_table(shop: Shop) -> None:
    with pytest.raises(lakescan.InvalidOption, match="takes no filter or limit"):
        lakescan.table(shop.orders).scan().limit(1).spec.metadata_table("files")


@pytest.mark.spark
@pytest.mark.parametrize("name", sorted(SIXTEEN))
def test_spark_reads_metadata_tables_by_path_and_name(shop: Shop, spark: Any, name: str) -> None:
    found = spark.read.format("iceberg").load(f"{shop.orders}#{name}")
    assert differences(found.toArrow(), lakescan.table(shop.orders).inspect(name)) == ""


@pytest.mark.spark
def test_spark_reads_metadata_tables_as_of_a_snapshot(shop: Shop, spark: Any) -> None:
    first = lakescan.table(shop.orders).inspect("snapshots")["snapshot_id"][0].as_py()
    found = spark.read.format("iceberg").option("versionAsOf", first).load(f"{shop.orders}#files")
    assert found.count() == lakescan.table(shop.orders).inspect("files", version=first).num_rows


@pytest.mark.spark
def test_an_unknown_metadata_table_on_spark_is_refused_with_the_existing_ones(shop: Shop, spark: Any) -> None:
    with pytest.raises(Exception, match="Did you mean 'manifests'"):
        spark.read.format("iceberg").load(f"{shop.orders}#manifest").collect()
