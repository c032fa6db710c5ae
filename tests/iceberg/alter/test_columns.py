"""ALTER TABLE of columns: the allowed changes, their effect on existing rows, and the reasons for refusals."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan import InvalidOption, NoSuchColumn, UnsupportedFeature
from tests.iceberg.alter.support import ROWS, columns, make, metadata, names, now, rows

VERSIONS = (1, 2, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_are_added_anywhere_and_old_rows_have_nulls_in_them(local: lakescan.Catalog, version: int) -> None:
    make(local, version).append(ROWS)
    alter = now().alter().add_column("note", "STRING", comment="why").add_column("first", "INT", first=True)
    alter = alter.add_column("second", "INT", after="first").add_column("address.street", "STRING", after="CITY")
    alter.add_column("lines.element.price", "DECIMAL(9, 2)").add_column("Lines.gift", "BOOLEAN", first=True).commit()
    assert names() == ["first", "second", "id", "part", "at", "n", "day", "address", "lines", "tags", "note"]
    assert columns()["address"] == "struct<city: string, street: string, zip: int>"
    assert columns()["lines"] == "list<struct<gift: boolean, sku: string, pieces: int, price: decimal(9, 2)>>"
    assert metadata().schema.field("note").doc == "why"
    assert rows()[0]["lines"] == [{"gift": None, "sku": "x", "pieces": 2, "price": None}]
    assert [(row["id"], row["note"], row["address"]) for row in rows()] == [
        (1, None, {"city": "Oslo", "street": None, "zip": 1}),
        (2, None, None),
    ]


def test_ids_of_new_columns_are_beyond_all_that_the_table_ever_assigned(local: lakescan.Catalog) -> None:
    make(local, columns="a INT, b INT")
    now().alter().drop_column("b").commit()
    now().alter().add_column("b", "STRUCT<x: INT, y: ARRAY<INT>>").add_column("c", "INT").commit()
    assert metadata().schema.path_of == {1: "a", 3: "b", 4: "b.x", 5: "b.y", 6: "b.y.element", 7: "c"}


def test_a_readded_column_has_none_of_its_old_values(local: lakescan.Catalog) -> None:
    make(local).append(ROWS)
    now().alter().drop_column("N").drop_column("address.zip").commit()
    now().alter().add_column("n", "INT").add_column("address.zip", "INT").commit()
    assert [(row["n"], row["address"]) for row in rows()] == [(None, {"city": "Oslo", "zip": None}), (None, None)]


@pytest.mark.parametrize("version", VERSIONS)
def test_renamed_columns_keep_their_values_at_any_depth(local: lakescan.Catalog, version: int) -> None:
    make(local, version, partition_by=["part"], sort_by=["n"]).append(ROWS)
    alter = now().alter().rename_column("ID", "key").rename_column("part", "PART").rename_column("n", "m")
    alter.rename_column("address.city", "town").rename_column("lines.sku", "article").rename_column("m", "n").commit()
    assert names()[:4] == ["key", "PART", "at", "n"]
    found = rows()[0]
    assert (found["key"], found["address"]["town"], found["lines"][0]["article"]) == (1, "Oslo", "x")
    assert now().scan().where("PART = 'a'").count() == 1


def test_swapped_names_swap_values(local: lakescan.Catalog) -> None:
    make(local, columns="a INT, b INT").append(
        pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([2], pa.int32())})
    )
    now().alter().rename_column("a", "c").rename_column("b", "a").rename_column("c", "b").commit()
    assert rows() == [{"b": 1, "a": 2}]


@pytest.mark.parametrize("version", VERSIONS)
def test_types_become_wider_where_no_value_is_lost(local: lakescan.Catalog, version: int) -> None:
    made = make(
        local, version, columns="i INT, f FLOAT, d DECIMAL(9, 2), s STRUCT<i: INT>, l ARRAY<INT>, m MAP<INT, INT>"
    )
    row = {"i": 2**31 - 1, "f": 1.5, "d": "1234567.89", "s": {"i": -1}, "l": [3], "m": [(4, 5)]}
    types = [pa.int32(), pa.float32(), pa.string(), pa.struct([("i", pa.int32())]), pa.list_(pa.int32())]
    fields = list(zip("ifdsl", types, strict=True))
    table = pa.Table.from_pylist([row], pa.schema([*fields, ("m", pa.map_(pa.int32(), pa.int32()))]))
    made.append(table.set_column(2, "d", table["d"].cast(pa.decimal128(9, 2))))
    alter = now().alter().change_column("i", type="BIGINT").change_column("f", type="DOUBLE")
    alter = alter.change_column("d", type="DECIMAL(20, 2)").change_column("s.i", type="BIGINT")
    alter.change_column("l.element", type="BIGINT").change_column("m.value", type="BIGINT").commit()
    assert list(columns().values()) == [
        *("long", "double", "decimal(20, 2)", "struct<i: long>", "long", "list<long>", "long", "map<int, long>"),
        *("int", "long"),
    ]
    now().append(pa.table({"i": [2**40], "f": [0.1]}))
    assert [(r["i"], r["f"], str(r["d"]), r["l"], r["m"]) for r in rows()] == [
        (2**40, 0.1, "None", None, None),
        (2**31 - 1, 1.5, "1234567.89", [3], [(4, 5)]),
    ]
    assert now().scan().where("i > 2147483648").count() == 1
    assert now().scan().where("i = 2147483647 AND f = 1.5 AND d = 1234567.89").count() == 1


def test_dates_become_timestamps_in_version_3(local: lakescan.Catalog) -> None:
    make(local, 3, columns="id INT, d DATE, e DATE", partition_by=["days(d)"])
    now().append(
        pa.table(
            {"id": pa.array([1], pa.int32()), "d": pa.array([20_000], pa.date32()), "e": pa.array([1], pa.date32())}
        )
    )
    now().alter().change_column("d", type="TIMESTAMP_NTZ").commit()
    now().alter().change_column("e", type=pa.timestamp("ns")).commit()
    assert columns() == {"id": "int", "d": "timestamp", "e": "timestamp_ns"}
    assert str(rows()[0]["d"]) == "2024-10-04 00:00:00"
    assert now().scan().where("d >= '2024-10-04 00:00:00'").count() == 1
    assert now().scan().where("d > '2024-10-04 00:00:00'").count() == 0
    assert now().scan().where("e = '1970-01-02'").count() == 1


@pytest.mark.parametrize(
    ("version", "column", "kind", "why"),
    [
        (2, "id", "INT", "the type of id, long, cannot become int"),
        (2, "n", "STRING", "the type of n, int, cannot become string: existing rows would lose values"),
        (2, "n", "DOUBLE", "It can become long"),
        (2, "price", "DECIMAL(12, 3)", "It can become a decimal of more digits, with the scale 2"),
        (2, "price", "DECIMAL(5, 2)", "cannot become"),
        (2, "day", "TIMESTAMP_NTZ", "before format version 3: set 'format-version'='3'"),
        (3, "day", "TIMESTAMP", "cannot become timestamptz"),
        (2, "address", "STRUCT<city: STRING>", "change members one by one"),
        (2, "tags", "MAP<STRING, BIGINT>", "change members one by one"),
        (2, "tags.key", "STRING", "is the key of a map"),
    ],
)
def test_a_type_that_would_lose_values_is_refused(
    local: lakescan.Catalog, version: int, column: str, kind: str, why: str
) -> None:
    make(local, version).alter().add_column("price", "DECIMAL(9, 2)").commit()
    with pytest.raises(InvalidOption, match=why):
        now().alter().change_column(column, type=kind).commit()


def test_a_date_that_files_are_partitioned_by_keeps_its_type(local: lakescan.Catalog) -> None:
    """Its partition values would change, in files of any spec."""
    make(local, 3, partition_by=["day"])
    now().alter().drop_partition_field("day").commit()
    with pytest.raises(UnsupportedFeature, match=r"files are partitioned by \(day\)"):
        now().alter().change_column("day", type="TIMESTAMP_NTZ").commit()


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_are_moved_among_their_siblings(local: lakescan.Catalog, version: int) -> None:
    make(local, version).append(ROWS)
    alter = now().alter().change_column("n", first=True).change_column("id", after="DAY")
    alter.change_column("address.zip", first=True).change_column("lines.sku", after="pieces").commit()
    assert names() == ["n", "part", "at", "day", "id", "address", "lines", "tags"]
    assert rows()[0]["address"] == {"zip": 1, "city": "Oslo"}
    with pytest.raises(NoSuchColumn, match=r"address\.zip cannot be placed after 'part', which is not its sibling"):
        now().alter().change_column("address.zip", after="part").commit()
    with pytest.raises(NoSuchColumn, match="cannot be placed after itself"):
        now().alter().change_column("n", after="n").commit()


def test_comments_are_set_and_removed(local: lakescan.Catalog) -> None:
    make(local)
    now().alter().change_column("n", comment="pieces").change_column("address.zip", comment="4 digits").commit()
    assert (metadata().schema.field("n").doc, metadata().schema.field("address.zip").doc) == ("pieces", "4 digits")
    now().alter().change_column("n", comment=None).commit()
    assert (metadata().schema.field("n").doc, metadata().schema.field("address.zip").doc) == (None, "4 digits")


def test_old_rows_have_the_first_default_and_new_ones_the_last(local: lakescan.Catalog) -> None:
    make(local, 3, columns="id BIGINT").append(pa.table({"id": [1]}))
    now().alter().add_column("status", "STRING", required=True, default="open").commit()
    now().append(pa.table({"id": [2]}))
    now().alter().change_column("status", default="new").commit()
    now().append(pa.table({"id": [3]}))
    now().alter().change_column("status", default=None, required=False).commit()
    now().append(pa.table({"id": [4]}))
    assert [(row["id"], row["status"]) for row in rows()] == [(1, "open"), (2, "open"), (3, "new"), (4, None)]


def test_defaults_need_format_version_3(local: lakescan.Catalog) -> None:
    make(local, 2, columns="id BIGINT")
    with pytest.raises(InvalidOption, match="has a default, which requires format version 3: set 'format-version'='3'"):
        now().alter().add_column("status", "STRING", default="open").commit()
    now().alter().add_column("status", "STRING", default="open").set_properties({"format-version": 3}).commit()
    assert metadata().schema.field("status").default == "open"


def test_a_required_column_needs_a_default_or_an_empty_table(local: lakescan.Catalog) -> None:
    make(local, 2, columns="id BIGINT")
    now().alter().add_column("a", "INT", required=True).commit()
    now().append(pa.table({"id": [1], "a": pa.array([1], pa.int32())}))
    with pytest.raises(InvalidOption, match="column b is NOT NULL and has no default, but the table has rows"):
        now().alter().add_column("b", "INT", required=True).commit()
    now().delete("id = 1")
    now().alter().add_column("b", "INT", required=True).commit()
    assert names() == ["id", "a", "b"]


def test_not_null_is_set_if_no_row_has_a_null(local: lakescan.Catalog) -> None:
    make(local).append(ROWS)
    with pytest.raises(InvalidOption, match=r"n cannot be NOT NULL: 1 row has a null in it.*WHERE n IS NULL"):
        now().alter().change_column("n", required=True).commit()
    now().alter().change_column("part", required=True).change_column("address.city", required=True).commit()
    assert metadata().schema.field("part").required
    assert metadata().schema.field("address.city").required
    now().delete("n IS NULL")
    now().alter().change_column("n", required=True).commit()
    with pytest.raises(lakescan.SchemaMismatch):
        now().append(pa.table({"id": [3], "part": ["c"], "n": pa.array([None], pa.int32())}))
    now().alter().change_column("n", required=False).commit()
    now().append(ROWS.slice(1))
    assert [row["n"] for row in rows()] == [10, None]
    with pytest.raises(UnsupportedFeature, match=r"NOT NULL of lines\.element\.sku"):
        now().alter().change_column("lines.sku", required=True).commit()


def test_not_null_checks_the_rows_of_all_branches(local: lakescan.Catalog) -> None:
    make(local).append(ROWS.slice(0, 1))
    now().append(ROWS, branch="audit")
    with pytest.raises(InvalidOption, match="on the branch 'audit'"):
        now().alter().change_column("n", required=True).commit()


@pytest.mark.parametrize("version", VERSIONS)
def test_replaced_columns_have_no_old_values(local: lakescan.Catalog, version: int) -> None:
    make(local, version).append(ROWS)
    now().alter().replace_columns("id BIGINT, part STRING, more ARRAY<INT>").commit()
    assert rows() == [{"id": None, "part": None, "more": None}] * 2
    assert min(metadata().schema.by_id) > 8


def test_keys_are_set_and_dropped(local: lakescan.Catalog) -> None:
    make(local).append(ROWS)
    with pytest.raises(InvalidOption, match="column part is in the key of the table, but may be null"):
        now().alter().set_key("id", "part").commit()
    now().alter().change_column("part", required=True).set_key("ID", "part").commit()
    assert metadata().schema.identifier_ids == (1, 2)
    now().alter().rename_column("part", "area").drop_key("id").commit()
    assert metadata().schema.identifier_ids == (2,)
    with pytest.raises(InvalidOption, match="id is not in the key of the table: its key is area"):
        now().alter().drop_key("id").commit()
    with pytest.raises(InvalidOption, match="column area is in the key of the table, but may be null"):
        now().alter().change_column("area", required=False).commit()
    now().alter().set_key().commit()
    assert metadata().schema.identifier_ids == ()
    with pytest.raises(InvalidOption, match="keys cannot have float"):
        now().alter().add_column("f", "DOUBLE").set_key("f").commit()


def _refused() -> list[tuple[Any, type[Exception], str]]:
    return [
        (lambda a: a.add_column("PART", "INT"), InvalidOption, "column PART already exists as part"),
        (lambda a: a.add_column("address.Zip", "INT"), InvalidOption, "column address.Zip already exists as zip"),
        (lambda a: a.add_column("s", "STRUCT<a: INT, A: INT>"), InvalidOption, "s has two members named"),
        (lambda a: a.add_column("nowhere.x", "INT"), NoSuchColumn, "no column 'nowhere' in the table"),
        (lambda a: a.add_column("part.x", "INT"), InvalidOption, "part is string, not a struct, so it has no members"),
        (lambda a: a.drop_column("parts"), NoSuchColumn, "Did you mean 'part'"),
        (lambda a: a.drop_column("lines.element"), InvalidOption, "lines.element is part of a list"),
        (lambda a: a.drop_column("tags.key"), InvalidOption, "is the key of a map"),
        (
            lambda a: a.rename_column("n", "ID"),
            InvalidOption,
            "n cannot be called ID: there is a column of that name as id",
        ),
        (lambda a: a.rename_column("address.city", "ZIP"), InvalidOption, "cannot be called ZIP"),
        (lambda a: a.rename_column("lines.element", "x"), InvalidOption, "is part of a list"),
        (
            lambda a: a.drop_column("part"),
            InvalidOption,
            "the partition field 'part' needs it. First: DROP PARTITION FIELD",
        ),
        (
            lambda a: a.drop_column("n"),
            InvalidOption,
            "column n cannot be dropped: the sort order needs it. First: WRITE UN",
        ),
        (lambda a: a.drop_column("id"), InvalidOption, "column id cannot be dropped: it is in the key"),
        (lambda a: a.replace_columns("x INT"), InvalidOption, "cannot be dropped"),
        (
            lambda a: a.drop_column("address.zip").drop_column("address.city"),
            InvalidOption,
            "the only member of address",
        ),
        (lambda a: a.change_column("nn", comment="x"), NoSuchColumn, "no column 'nn'"),
        (lambda a: a.cluster_by("id"), UnsupportedFeature, "WRITE ORDERED BY"),
        (lambda a: a.add_constraint("c", "id > 0"), UnsupportedFeature, "constraint c of an Iceberg table"),
        (lambda a: a.drop_constraint("c"), UnsupportedFeature, "constraint c of an Iceberg table"),
        (lambda a: a.drop_feature("deletionVectors"), UnsupportedFeature, "format versions cannot be lowered"),
    ]


@pytest.mark.parametrize("number", range(len(_refused())))
def test_forbidden_changes_are_refused_and_nothing_is_changed(local: lakescan.Catalog, number: int) -> None:
    change, error, why = _refused()[number]
    make(local, partition_by=["part"], sort_by=["n"], primary_key=["id"])
    before = metadata()
    with pytest.raises(error, match=why):
        change(now().alter().add_column("more", "INT")).commit()
    assert (metadata().source, names()) == (before.source, before.schema.names)


def test_a_partition_column_is_dropped_with_its_field_in_one_commit(local: lakescan.Catalog) -> None:
    make(local, partition_by=["part"], sort_by=["part"]).append(ROWS)
    now().alter().drop_column("part").drop_partition_field("part").set_sort_order().commit()
    assert "part" not in names()
    assert [row["id"] for row in rows()] == [1, 2]
    now().append(ROWS.drop_columns(["part"]))
    assert [row["id"] for row in rows()] == [1, 1, 2, 2]


def test_if_exists_and_if_not_exists_change_nothing(local: lakescan.Catalog) -> None:
    make(local)
    before = metadata().source
    now().alter().add_column("N", "STRING", if_not_exists=True).drop_column("gone", if_exists=True).commit()
    assert metadata().source == before


def test_restoring_columns_restores_the_schema(local: lakescan.Catalog) -> None:
    make(local)
    now().alter().change_column("n", comment="pieces").commit()
    now().alter().change_column("n", comment=None).commit()
    assert (len(metadata().schemas), metadata().current_schema_id) == (2, 0)


MAPPING = "schema.name-mapping.default"


def test_the_name_mapping_follows_columns(local: lakescan.Catalog) -> None:
    """As in Java, earlier names stay because files have them, and new columns get entries of their own."""
    mapping = [
        {"field-id": 1, "names": ["a"]},
        {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]},
    ]
    make(local, columns="a INT, s STRUCT<x: INT>", properties={MAPPING: json.dumps(mapping)})
    now().alter().rename_column("a", "b").add_column("a", "STRUCT<y: INT>").rename_column("s.x", "z").commit()
    assert json.loads(metadata().properties[MAPPING]) == [
        {"field-id": 1, "names": ["b"]},
        {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x", "z"]}]},
        {"field-id": 4, "names": ["a"], "fields": [{"field-id": 5, "names": ["y"]}]},
    ]
    now().alter().drop_column("b").add_column("s.w", "INT").commit()
    found = json.loads(metadata().properties[MAPPING])
    assert found[0] == {"field-id": 1, "names": ["b"]}
    assert found[1]["fields"] == [{"field-id": 3, "names": ["x", "z"]}, {"field-id": 6, "names": ["w"]}]


def test_column_properties_follow_renamed_and_dropped_columns(local: lakescan.Catalog) -> None:
    prefix, bloom = "write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column."
    given = {f"{prefix}n": "counts", f"{prefix}part": "none", f"{prefix}address.city": "full", f"{bloom}id": "true"}
    make(local, properties=given)
    now().alter().rename_column("n", "m").drop_column("part").rename_column("address", "home").commit()
    kept = {name: value for name, value in metadata().properties.items() if ".column." in name}
    assert kept == {f"{prefix}m": "counts", f"{prefix}home.city": "full", f"{bloom}id": "true"}
