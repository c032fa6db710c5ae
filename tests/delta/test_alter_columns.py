"""Changes of a Delta table's columns: the resulting schema and rows, and the refused changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.api.alter import AlterBuilder
from tests.support.delta_state import newest_version, state
from tests.support.two_commits import save_in_two_commits

Change = Callable[[AlterBuilder], AlterBuilder]
NESTED = pa.struct([("a", pa.int32()), ("b", pa.string())])
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int32()),
        "s": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}], NESTED),
        "l": pa.array([[1, None], [], None], pa.list_(pa.int32())),
        "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "f": pa.array([0.5, None, 2.5], pa.float32()),
        "part": ["p", "q", None],
    }
)
MAPPED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": "true"}


@pytest.fixture
def plain(tmp_path: Path) -> lakescan.Table:
    """Make a table of three rows, partitioned by `part`, without column mapping."""
    save_in_two_commits(ROWS, tmp_path / "t", format="delta", partition_by=["part"])
    return lakescan.table(tmp_path / "t")


@pytest.fixture
def mapped(plain: lakescan.Table) -> lakescan.Table:
    """The same table after column mapping was enabled."""
    plain.alter().set_properties(MAPPED).commit()
    return plain


def rows(table: lakescan.Table) -> list[dict[str, Any]]:
    """Return the rows, sorted by the id column, which may have been renamed."""
    return sorted(table.to_arrow().to_pylist(), key=lambda row: str(next(iter(row.values()))))


def fields(table: lakescan.Table) -> dict[str, dict[str, Any]]:
    """Return the columns as the schema in the log has them."""
    return {each["name"]: each for each in json.loads(state(Path(table.location))[1].schema_string)["fields"]}


def refused(table: lakescan.Table, change: Change, *parts: str) -> None:
    """Check that the change is refused with these parts of a message, and that nothing is committed."""
    before = newest_version(Path(table.location))
    with pytest.raises(lakescan.LakescanError) as error:
        change(table.alter()).commit()
    for part in parts:
        assert part in str(error.value)
    assert newest_version(Path(table.location)) == before


def test_existing_rows_have_nulls_in_a_new_column(plain: lakescan.Table) -> None:
    plain.alter().add_column("note", "STRING", comment="a note").commit()
    assert [row["note"] for row in rows(plain)] == [None] * 3
    assert fields(plain)["note"]["metadata"] == {"comment": "a note"}


def test_new_columns_get_the_requested_position(plain: lakescan.Table) -> None:
    plain.alter().add_column("z", "INT", first=True).add_column("y", "INT", after="ID").commit()
    assert plain.schema.names == ["z", "id", "y", "s", "l", "m", "f", "part"]
    assert rows(plain)[0]["f"] in (0.5, None, 2.5)


def test_a_struct_gets_a_member_at_any_depth(plain: lakescan.Table) -> None:
    plain.alter().add_column("s.n", "STRUCT<x: INT>", after="a").add_column("s.n.y", "INT", first=True).commit()
    assert [row["s"] for row in rows(plain)] == [
        {"a": 1, "n": None, "b": "x"},
        None,
        {"a": None, "n": None, "b": "y"},
    ]
    assert [each["name"] for each in fields(plain)["s"]["type"]["fields"][1]["type"]["fields"]] == ["y", "x"]


@pytest.mark.parametrize("name", ["ID", "S.a", "part"])
def test_a_used_name_is_refused_in_any_case(plain: lakescan.Table, name: str) -> None:
    refused(plain, lambda t: t.add_column(name, "INT"), "already")
    plain.alter().add_column(name, "INT", if_not_exists=True).commit()
    assert newest_version(Path(plain.location)) == 1


def test_a_new_column_can_be_not_null_only_in_an_empty_table(plain: lakescan.Table) -> None:
    refused(plain, lambda t: t.add_column("n", "INT", required=True), "NOT NULL", "Add it without")
    plain.delete()
    plain.alter().add_column("n", "INT", required=True).commit()
    assert fields(plain)["n"]["nullable"] is False


def test_the_metadata_of_other_columns_is_kept(plain: lakescan.Table) -> None:
    plain.alter().change_column("id", comment="key").commit()
    before = fields(plain)
    plain.alter().add_column("n", "INT").commit()
    assert {name: each for name, each in fields(plain).items() if name != "n"} == before


def test_names_that_files_cannot_have_need_column_mapping(plain: lakescan.Table) -> None:
    refused(plain, lambda t: t.add_column("`a b`", "INT"), "delta.columnMapping.mode")
    plain.alter().set_properties(MAPPED).add_column("`a b`", "INT").commit()
    assert "a b" in plain.schema.names


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda t: t.drop_column("f"), ["dropping column f", "'delta.columnMapping.mode'='name'"]),
        (lambda t: t.rename_column("f", "g"), ["renaming column f", "'delta.columnMapping.mode'='name'"]),
        (lambda t: t.drop_column("ff"), ["no column 'ff'", "Did you mean 'f'?"]),
        (lambda t: t.add_column("s.a.x", "INT"), ["s.a is integer, not a struct"]),
        (lambda t: t.add_column("x", "INT", after="none"), ["no column 'none' in the table"]),
        (lambda t: t.change_column("l.key", type="BIGINT"), ["It has element."]),
        (lambda t: t.add_column("x", "UUID"), ["type uuid"]),
        (lambda t: t.add_column("x", "INT", default=5), ["'delta.feature.allowColumnDefaults'='supported'"]),
    ],
)
def test_changes_that_need_column_mapping_are_refused_with_advice(
    plain: lakescan.Table, change: Change, parts: list[str]
) -> None:
    refused(plain, change, *parts)


def test_column_mapping_gives_columns_ids_and_keeps_their_names_in_files(plain: lakescan.Table) -> None:
    plain.alter().set_properties(MAPPED).commit()
    found = fields(plain)
    names = {name: each["metadata"]["delta.columnMapping.physicalName"] for name, each in found.items()}
    assert names == {name: name for name in ROWS.column_names}
    assert found["s"]["type"]["fields"][0]["metadata"]["delta.columnMapping.physicalName"] == "a"
    assert plain.properties["delta.columnMapping.maxColumnId"] == "8"
    assert rows(plain) == rows(lakescan.table(plain.location))
    assert "columnMapping" in state(Path(plain.location))[0].features


def test_columns_are_renamed_without_rewriting_files(mapped: lakescan.Table) -> None:
    before = [row["s"] and row["s"]["a"] for row in rows(mapped)]
    mapped.alter().rename_column("s.a", "x").rename_column("id", "key").rename_column("part", "p").commit()
    assert [row["s"] and row["s"]["x"] for row in rows(mapped)] == before
    assert mapped.partitioning == "p"
    mapped.append(
        ROWS.rename_columns(["key", "s", "l", "m", "f", "p"]).drop_columns(["s"]).slice(0, 1), merge_schema=True
    )
    assert mapped.scan().where("p = 'p'").count() == 2


def test_a_column_with_a_dropped_name_is_a_new_column(mapped: lakescan.Table) -> None:
    mapped.alter().drop_column("f").drop_column("s.b").commit()
    mapped.alter().add_column("f", "STRING").add_column("s.b", "INT").commit()
    assert {row["f"] for row in rows(mapped)} == {None}
    assert [row["s"] for row in rows(mapped)] == [{"a": 1, "b": None}, None, {"a": None, "b": None}]


def test_only_an_existing_column_is_dropped(mapped: lakescan.Table) -> None:
    mapped.alter().drop_column("x", if_exists=True).commit()
    refused(mapped, lambda t: t.drop_column("x"), "no column 'x'")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda t: t.drop_column("part"), "The table is partitioned by it"),
        (lambda t: t.drop_column("s.a").drop_column("s.b"), "It is the last one"),
        (lambda t: t.drop_column("l.element"), "cannot be dropped"),
        (lambda t: t.rename_column("m.key", "k"), "and the key and value of a map, have fixed names"),
        (lambda t: t.rename_column("id", "PART"), "already"),
    ],
)
def test_a_column_that_is_needed_stays(mapped: lakescan.Table, change: Change, why: str) -> None:
    refused(mapped, change, why)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.drop_column("id"),
        lambda t: t.rename_column("id", "x"),
        lambda t: t.change_column("id", type="BIGINT"),
    ],
)
def test_a_column_that_a_constraint_reads_stays(mapped: lakescan.Table, change: Change) -> None:
    mapped.alter().set_properties(WIDENING).add_constraint("low", "id < 100 or s.a > 0").commit()
    refused(mapped, change, "The constraint 'low' reads it", "DROP CONSTRAINT low")
    mapped.alter().rename_column("f", "g").commit()
    refused(mapped, lambda t: t.drop_column("s"), "low")
    refused(mapped, lambda t: t.rename_column("s.a", "x"), "low")
    mapped.alter().rename_column("s.b", "x").commit()


def test_clustering_columns_stay(tmp_path: Path) -> None:
    save_in_two_commits(ROWS, tmp_path / "t", format="delta")
    table = lakescan.table(tmp_path / "t")
    table.alter().set_properties(MAPPED).cluster_by("s.a").commit()
    refused(table, lambda t: t.drop_column("s"), "clustered by it")
    table.alter().rename_column("s.a", "x").commit()
    table.append(ROWS.select(["id"]), merge_schema=True)
    table.alter().cluster_by().drop_column("s.x").commit()


def test_statistics_follow_a_renamed_column(mapped: lakescan.Table) -> None:
    mapped.alter().set_properties({"delta.dataSkippingStatsColumns": "id, s.a,f"}).commit()
    mapped.alter().rename_column("s", "t").drop_column("f").commit()
    assert mapped.properties["delta.dataSkippingStatsColumns"] == "id,t.a"


@pytest.mark.parametrize(
    ("name", "type", "expected"),
    [
        ("id", "BIGINT", [1, 2, 3]),
        ("id", "DOUBLE", [1.0, 2.0, 3.0]),
        ("f", "DOUBLE", [0.5, None, 2.5]),
        ("l.element", "BIGINT", [[1, None], [], None]),
        ("m.value", "DECIMAL(12, 1)", [[("k", 1)], None, []]),
        ("s.a", "BIGINT", [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
    ],
)
def test_types_are_widened_and_older_files_read_as_the_wider_type(
    plain: lakescan.Table, name: str, type: str, expected: list[Any]
) -> None:
    plain.alter().set_properties(WIDENING).change_column(name, type=type).commit()
    column = name.split(".")[0]
    assert [row[column] for row in rows(plain)] == expected
    changes = fields(plain)[column]
    if column == "s":
        changes = changes["type"]["fields"][0]
    assert len(changes["metadata"]["delta.typeChanges"]) == 1
    assert changes["metadata"]["delta.typeChanges"][0].get("fieldPath") == (
        name.split(".")[1] if column in "lm" else None
    )


def test_a_wider_type_takes_wider_values_and_filters_older_files(plain: lakescan.Table) -> None:
    plain.alter().set_properties(WIDENING).change_column("id", type="BIGINT").commit()
    plain.append(pa.table({"id": [5_000_000_000]}), merge_schema=True)
    assert plain.scan().where("id > 2").select("id").to_arrow()["id"].to_pylist() in (
        [3, 5_000_000_000],
        [5_000_000_000, 3],
    )
    plain.alter().change_column("id", type="DECIMAL(22, 2)").commit()
    assert plain.scan().where("id = 5000000000").count() == 1
    assert [each["toType"] for each in fields(plain)["id"]["metadata"]["delta.typeChanges"]] == [
        "long",
        "decimal(22,2)",
    ]


def test_dates_of_partitions_become_timestamps(tmp_path: Path) -> None:
    given = pa.table({"n": [1, 2], "d": pa.array([date(2026, 1, 2), None], pa.date32())})
    save_in_two_commits(given, tmp_path / "t", format="delta", partition_by=["d"])
    table = lakescan.table(tmp_path / "t")
    table.alter().set_properties(WIDENING).change_column("d", type="TIMESTAMP_NTZ").commit()
    assert {row["n"]: row["d"] for row in table.to_arrow().to_pylist()} == {1: datetime(2026, 1, 2), 2: None}


@pytest.mark.parametrize(
    ("name", "type", "why"),
    [
        ("f", "INT", "does not hold all its values"),
        ("id", "FLOAT", "does not hold all its values"),
        ("id", "STRING", "does not hold all its values"),
        ("s", "STRUCT<a: BIGINT, b: STRING>", "Change its members one by one"),
        ("id", "STRUCT<a: BIGINT>", "Change its members one by one"),
    ],
)
def test_a_type_that_loses_values_is_refused(plain: lakescan.Table, name: str, type: str, why: str) -> None:
    plain.alter().set_properties(WIDENING).commit()
    refused(plain, lambda t: t.change_column(name, type=type), why)


def test_a_type_changes_only_with_type_widening(plain: lakescan.Table) -> None:
    refused(plain, lambda t: t.change_column("id", type="BIGINT"), "'delta.enableTypeWidening'='true'")
    plain.alter().change_column("id", type="INT").commit()


def test_not_null_is_allowed_for_columns_without_nulls(plain: lakescan.Table) -> None:
    refused(plain, lambda t: t.change_column("f", required=True), "which has nulls")
    refused(plain, lambda t: t.change_column("s.b", required=True), "which has nulls")
    refused(plain, lambda t: t.change_column("l.element", required=True), "l.element")
    plain.alter().change_column("id", required=True).commit()
    with pytest.raises(lakescan.SchemaMismatch):
        plain.append(pa.table({"id": pa.array([None], pa.int32())}), merge_schema=True)
    plain.alter().change_column("id", required=False).commit()
    plain.append(pa.table({"id": pa.array([None], pa.int32())}), merge_schema=True)


def test_a_renamed_column_is_checked_by_its_values(mapped: lakescan.Table) -> None:
    swapped = mapped.alter().rename_column("id", "x").rename_column("f", "id")
    with pytest.raises(lakescan.InvalidOption, match="which has nulls"):
        swapped.change_column("id", required=True).commit()
    swapped.change_column("x", required=True).commit()
    assert fields(mapped)["x"]["nullable"] is False


def test_defaults_are_for_new_rows(plain: lakescan.Table) -> None:
    supported = {"delta.feature.allowColumnDefaults": "supported"}
    plain.alter().set_properties(supported).change_column("f", default=1.5).add_column("n", "INT", default=7).commit()
    assert fields(plain)["f"]["metadata"] == {"CURRENT_DEFAULT": "1.5D"}
    assert [row["n"] for row in rows(plain)] == [None] * 3
    plain.append(pa.table({"id": pa.array([9], pa.int32()), "part": ["z"]}), merge_schema=True)
    row = plain.scan().where("id = 9").to_arrow().to_pylist()[0]
    assert (row["f"], row["n"]) == (1.5, 7)
    plain.alter().change_column("f", default=None).commit()
    assert fields(plain)["f"]["metadata"] == {}
    refused(plain, lambda t: t.change_column("f", default="text"), "f")
    refused(plain, lambda t: t.change_column("s.a", default=1), "Only columns have one")


def test_columns_move_within_their_struct(plain: lakescan.Table) -> None:
    plain.alter().change_column("f", first=True).change_column("s.a", after="b").change_column("m", after="id").commit()
    assert plain.schema.names == ["f", "id", "m", "s", "l", "part"]
    assert next(row["s"] for row in sorted(rows(plain), key=lambda row: row["id"])) == {"b": "x", "a": 1}
    refused(plain, lambda t: t.change_column("f", after="a"), "no column 'a'")


def test_replaced_columns_are_matched_by_their_names(mapped: lakescan.Table) -> None:
    refused(mapped, lambda t: t.replace_columns("id INT, part STRING, g FLOAT"), "RENAME COLUMN")
    refused(mapped, lambda t: t.replace_columns("id INT, f FLOAT"), "partitioned by it")
    mapped.alter().replace_columns("part STRING, id INT COMMENT 'key'").commit()
    assert rows(mapped) == [
        {"part": None, "id": 3},
        {"part": "p", "id": 1},
        {"part": "q", "id": 2},
    ]
    refused(mapped, lambda t: t.replace_columns("part STRING"), "dropping id")
    mapped.alter().replace_columns("part STRING, id INT, f DOUBLE").commit()
    assert {row["f"] for row in rows(mapped)} == {None}


def test_several_changes_are_one_commit_or_none(mapped: lakescan.Table) -> None:
    before = newest_version(Path(mapped.location))
    refused(mapped, lambda t: t.add_column("n", "INT").drop_column("none"), "none")
    mapped.alter().add_column("n", "INT").rename_column("n", "o").change_column("o", comment="new").commit()
    assert newest_version(Path(mapped.location)) == before + 1
    assert fields(mapped)["o"]["metadata"]["comment"] == "new"
