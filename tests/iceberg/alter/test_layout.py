"""ALTER TABLE of partition fields, the sort order, properties, the location and the format version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan import InvalidOption, NoSuchColumn, UnsupportedFeature
from tests.iceberg.alter.support import ROWS, make, metadata, now, rows, spec

VERSIONS = (1, 2, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_new_files_have_the_new_partition_fields_named_as_java_names_them(
    local: lakescan.Catalog, version: int
) -> None:
    make(local, version).append(ROWS)
    alter = now().alter().add_partition_field("PART").add_partition_field("days(at)")
    alter = alter.add_partition_field("bucket(16, id)").add_partition_field("truncate(4, address.city)")
    alter.add_partition_field("years(day)", "y").commit()
    assert spec() == [
        "1000 part: identity of part",
        "1001 at_day: day of at",
        "1002 id_bucket_16: bucket[16] of id",
        "1003 address.city_trunc_4: truncate[4] of address.city",
        "1004 y: year of day",
    ]
    now().append(ROWS)
    assert [row["id"] for row in rows()] == [1, 1, 2, 2]
    assert now().scan().where("part = 'a' AND address.city = 'Oslo' AND id = 1").count() == 2


def test_a_dropped_field_is_void_in_version_1_and_removed_from_version_2(local: lakescan.Catalog) -> None:
    make(local, 1, partition_by=["part", "days(at)"]).append(ROWS)
    now().alter().drop_partition_field("part").commit()
    assert spec() == ["1000 part: void of part", "1001 at_day: day of at"]
    now().append(ROWS)
    now().alter().add_partition_field("bucket(4, part)", "part").commit()
    assert spec() == ["1000 part_1000: void of part", "1001 at_day: day of at", "1002 part: bucket[4] of part"]
    now().append(ROWS)
    assert [row["id"] for row in rows()] == [1, 1, 1, 2, 2, 2]
    local.drop_table("db.t")
    make(local, 2, partition_by=["part", "days(at)"])
    now().alter().drop_partition_field("part").commit()
    assert spec() == ["1001 at_day: day of at"]


@pytest.mark.parametrize("version", [1, 2])
def test_the_column_of_a_void_field_stays_until_the_field_is_gone(local: lakescan.Catalog, version: int) -> None:
    """Version 1 keeps partition fields, and writers need the type of each one."""
    make(local, 1, partition_by=["part"]).append(ROWS)
    now().alter().drop_partition_field("part").set_properties({"format-version": version}).commit()
    with pytest.raises(InvalidOption, match=r"the partition field 'part' needs it\. .*DROP PARTITION FIELD part"):
        now().alter().drop_column("part").commit()
    now().alter().set_properties({"format-version": 2}).drop_partition_field("part").drop_column("part").commit()
    now().append(ROWS.drop_columns(["part"]))
    assert [row["id"] for row in rows()] == [1, 1, 2, 2]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_field_is_dropped_by_its_name_or_its_transform(local: lakescan.Catalog, version: int) -> None:
    make(local, version, partition_by=["part", "days(at)", "bucket(4, id)"])
    alter = now().alter().drop_partition_field("ID_BUCKET").drop_partition_field("days(AT)")
    alter.drop_partition_field("Part").commit()
    assert metadata().specs[metadata().default_spec_id].is_unpartitioned
    now().append(ROWS)
    assert [row["id"] for row in rows()] == [1, 2]


def test_a_readded_field_gets_its_earlier_id_and_name(local: lakescan.Catalog) -> None:
    make(local, 2, partition_by=["part"])
    now().alter().replace_partition_field("part", "days(at)", "on").commit()
    assert spec() == ["1001 on: day of at"]
    now().alter().replace_partition_field("on", "part").commit()
    assert (spec(), metadata().default_spec_id) == (["1000 part: identity of part"], 0)
    now().alter().add_partition_field("days(at)").commit()
    assert spec() == ["1000 part: identity of part", "1001 on: day of at"]
    now().alter().drop_partition_field("part").add_partition_field("part").commit()
    assert spec() == ["1000 part: identity of part", "1001 on: day of at"]
    assert len(metadata().specs) == 3


@pytest.mark.parametrize("version", VERSIONS)
def test_each_file_is_pruned_by_the_partitions_that_it_was_written_in(local: lakescan.Catalog, version: int) -> None:
    make(local, version, partition_by=["part"]).append(ROWS)
    now().alter().replace_partition_field("part", "bucket(4, part)").commit()
    now().append(ROWS)
    now().alter().replace_partition_field("bucket(4, part)", "truncate(1, part)").commit()
    now().append(ROWS)
    assert len(now().scan().where("part = 'a'").plan().table) == 3
    assert now().overwrite(ROWS.slice(0, 1), where="part = 'a'").rows == 1
    assert [row["id"] for row in rows()] == [1, 2, 2, 2]
    now().compact()
    assert [row["id"] for row in rows()] == [1, 2, 2, 2]


@pytest.mark.parametrize(
    ("term", "why"),
    [
        ("part", "the table is already partitioned by part: the partition field 'part'"),
        ("hours(day)", "column day is date, which has no such transform"),
        ("days(id)", "column id is long, which has no such transform"),
        ("address", "column address is struct"),
        ("lines.element.sku", "is in a list or a map"),
    ],
)
def test_an_invalid_partition_field_is_refused(local: lakescan.Catalog, term: str, why: str) -> None:
    make(local, partition_by=["part"])
    with pytest.raises(InvalidOption, match=why):
        now().alter().add_partition_field(term).commit()


def test_names_of_partition_fields_are_unique(local: lakescan.Catalog) -> None:
    make(local, partition_by=["days(at)"])
    with pytest.raises(InvalidOption, match="a partition field cannot be called 'n', because a column has this name"):
        now().alter().add_partition_field("bucket(4, id)", "n").commit()
    with pytest.raises(InvalidOption, match="there already is a partition field 'at_day'"):
        now().alter().add_partition_field("id", "at_day").commit()
    with pytest.raises(InvalidOption, match="a column cannot be called 'at_day', because a partition field"):
        now().alter().add_column("at_day", "DATE").commit()
    with pytest.raises(InvalidOption, match="a column cannot be called 'at_day', because a partition field"):
        now().alter().rename_column("n", "at_day").commit()
    with pytest.raises(
        InvalidOption, match=r"no partition field at_dy\. Did you mean 'at_day'\? .* partitioned by at_day"
    ):
        now().alter().drop_partition_field("at_dy").commit()
    with pytest.raises(NoSuchColumn, match="no column 'att'"):
        now().alter().add_partition_field("days(att)").commit()


def test_the_sort_order_is_set_and_an_earlier_one_gets_its_id_back(local: lakescan.Catalog) -> None:
    make(local, partition_by=["part"])
    now().alter().set_sort_order("N desc", "bucket(4, id) nulls last", distribution="range").commit()
    order = metadata().sort_order
    assert (order.id, order.describe(metadata().schema)) == (1, "n desc nulls last, bucket(4, id) asc nulls last")
    assert metadata().properties["write.distribution-mode"] == "range"
    now().alter().set_sort_order("id").commit()
    assert metadata().sort_order.id == 2
    now().alter().set_sort_order("n desc", "bucket(4, id) asc nulls last").commit()
    assert metadata().sort_order.id == 1
    now().append(ROWS)
    assert [row["id"] for row in rows()] == [1, 2]
    now().alter().set_sort_order(distribution="none").commit()
    assert (metadata().sort_order.id, metadata().sort_order.fields) == (0, ())


def test_a_sorted_table_becomes_unsorted(local: lakescan.Catalog) -> None:
    make(local, sort_by=["n"])
    now().alter().set_sort_order().commit()
    assert metadata().sort_order.id == 0
    with pytest.raises(InvalidOption, match=r"'write\.distribution-mode'='rage'"):
        now().alter().set_sort_order("n", distribution="rage").commit()


def test_properties_are_set_and_unset(local: lakescan.Catalog) -> None:
    make(local)
    now().alter().set_properties({"owner": "sales", "write.delete.mode": "merge-on-read", "n": 1, "b": True}).commit()
    assert {**metadata().properties} == {"owner": "sales", "write.delete.mode": "merge-on-read", "n": "1", "b": "true"}
    now().alter().unset_properties("n", "b", "gone").set_comment("all orders").commit()
    assert {**metadata().properties} == {
        "owner": "sales",
        "write.delete.mode": "merge-on-read",
        "comment": "all orders",
    }
    with pytest.raises(InvalidOption, match=r"the table has no property 'ownr'\. Did you mean 'owner'"):
        now().alter().unset_properties("ownr", if_exists=False).commit()
    now().alter().set_comment(None).unset_properties("owner", "write.delete.mode").commit()
    assert not metadata().properties


@pytest.mark.parametrize(
    ("name", "value", "error", "why"),
    [
        ("write.delete.mode", "merge-on-reed", InvalidOption, "expected copy-on-write or merge-on-read"),
        ("write.format.default", "orc", UnsupportedFeature, "for a table that is altered"),
        ("current-snapshot-id", "1", InvalidOption, "cannot be set as a property"),
        ("uuid", "x", InvalidOption, "cannot be set as a property"),
        ("sort-order", "id", InvalidOption, "WRITE ORDERED BY"),
        ("identifier-fields", "id", InvalidOption, "SET IDENTIFIER FIELDS"),
        ("location", "/tmp", InvalidOption, "SET LOCATION"),
        ("encryption.key-id", "k", InvalidOption, "from its creation on"),
        ("format-version", "1", InvalidOption, "which cannot be lowered"),
        ("format-version", "4", InvalidOption, "must be 1, 2 or 3"),
    ],
)
def test_an_invalid_property_is_refused(
    local: lakescan.Catalog, name: str, value: str, error: type[Exception], why: str
) -> None:
    make(local)
    with pytest.raises(error, match=why):
        now().alter().set_properties({name: value}).commit()


def test_new_files_are_in_the_new_location_and_old_ones_stay(local: lakescan.Catalog, tmp_path: Path) -> None:
    make(local).append(ROWS)
    now().alter().set_location(f"{tmp_path}/elsewhere/").commit()
    now().append(ROWS)
    assert [row["id"] for row in rows()] == [1, 1, 2, 2]
    assert metadata().location == f"{tmp_path}/elsewhere"
    assert len(list((tmp_path / "elsewhere" / "data").rglob("*.parquet"))) == 1
    assert len(list((tmp_path / "lake").rglob("*.parquet"))) == 1
    with pytest.raises(InvalidOption, match="give an absolute path"):
        now().alter().set_location("elsewhere").commit()


def written() -> dict[str, Any]:
    """Return the metadata file."""
    return json.loads(Path(metadata().source.removeprefix("file://")).read_text())  # type: ignore[no-any-return]


@pytest.mark.parametrize(("version", "to"), [(1, 2), (1, 3), (2, 3)])
def test_an_upgraded_table_has_its_rows_and_takes_changes_of_its_version(
    local: lakescan.Catalog, version: int, to: int
) -> None:
    make(local, version, partition_by=["part"]).append(ROWS)
    now().alter().set_properties({"format-version": to, "write.delete.mode": "merge-on-read"}).commit()
    found = written()
    assert (found["format-version"], found.get("next-row-id"), len(found["metadata-log"])) == (
        to,
        0 if to == 3 else None,
        2,
    )
    assert "format-version" not in found["properties"]
    assert [row["id"] for row in rows()] == [1, 2]
    now().append(ROWS)
    now().delete("id = 1")
    assert [row["id"] for row in rows()] == [2, 2]
    now().alter().drop_partition_field("part").add_partition_field("bucket(4, id)").commit()
    now().append(ROWS)
    now().compact()
    assert [row["id"] for row in rows()] == [1, 2, 2, 2]
    assert written()["partition-specs"][-1]["fields"][-1]["name"] == "id_bucket_4"


def test_rows_deleted_by_files_of_version_2_stay_deleted_in_version_3(local: lakescan.Catalog) -> None:
    table = make(local, 2, "id BIGINT", properties={"write.delete.mode": "merge-on-read"})
    table.append(pa.table({"id": list(range(10))}))
    now().delete("id = 3")
    now().alter().set_properties({"format-version": 3}).commit()
    now().delete("id = 5")
    now().append(pa.table({"id": [10]}))
    assert sorted(row["id"] for row in rows()) == [0, 1, 2, 4, 6, 7, 8, 9, 10]
    ids = now().scan().select("_row_id").to_arrow()["_row_id"].to_pylist()
    assert len(set(ids)) == 9


def test_metadata_of_version_1_has_the_current_schema_and_spec_for_readers_that_know_no_others(
    local: lakescan.Catalog,
) -> None:
    make(local, 1, columns="id BIGINT, part STRING")
    now().alter().rename_column("id", "key").add_partition_field("part").commit()
    found = written()
    assert found["schema"] == found["schemas"][1]
    assert found["partition-spec"] == found["partition-specs"][1]["fields"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("term", ["n", "bucket(4, n)", "truncate(10, n)"])
def test_columns_that_files_are_partitioned_by_become_wider(local: lakescan.Catalog, version: int, term: str) -> None:
    make(local, version, "n INT, price DECIMAL(9, 2)", partition_by=[term, "price"])
    price = pa.array(["1.00", "2.00", "3.00"]).cast(pa.decimal128(9, 2))
    now().append(pa.table({"n": pa.array([1, -25, None], pa.int32()), "price": price}))
    now().alter().change_column("n", type="BIGINT").change_column("price", type="DECIMAL(20, 2)").commit()
    now().append(pa.table({"n": [1, 2**40], "price": price.slice(0, 2)}))
    assert sorted((row["n"] for row in rows() if row["n"] is not None), key=int) == [-25, 1, 1, 2**40]
    assert now().scan().where("n = 1 AND price = 1.00").count() == 2
    assert now().scan().where("n < 0").count() == 1
    now().overwrite(pa.table({"n": [1], "price": price.slice(0, 1)}), partition_overwrite_mode="dynamic")
    assert now().scan().where("n = 1").count() == 1
    now().delete("n = -25")
    now().compact()
    assert now().scan().count() == 3
    assert len(now().inspect("partitions")) == 3
