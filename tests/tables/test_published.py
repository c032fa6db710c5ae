"""Staged and earlier rows published after the table has changed: they fit it, or are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import CommitConflict, CorruptMetadata, InvalidOption, NoSuchSnapshot, UnsupportedFeature

Rows = list[dict[str, Any]]


@pytest.fixture(params=["1", "2", "3"])
def table(request: pytest.FixtureRequest, local: lakescan.Catalog) -> lakescan.Table:
    """Make a table with the row 1, and the row 2 staged as `load`."""
    return staged(local, request.param)


def staged(local: lakescan.Catalog, version: str = "2", second: Any = "b") -> lakescan.Table:
    properties = {"write.wap.enabled": "true", "format-version": version}
    table = local.create_table("db.t", "id BIGINT, part STRING, n INT", properties=properties)
    table.append(rows((1, "a", 1)))
    table.append(rows((2, second, None)), wap_id="load")
    return table


def rows(*values: tuple[Any, ...]) -> pa.Table:
    names = {"id": pa.int64(), "part": pa.string(), "n": pa.int32()}
    return pa.table(
        {name: pa.array([each[i] for each in values], kind) for i, (name, kind) in enumerate(names.items())}
    )


def now(table: lakescan.Table) -> Rows:
    return sorted(lakescan.table(table.name).to_arrow().to_pylist(), key=lambda each: each["id"])


def appended(table: lakescan.Table) -> None:
    names = set(table.schema.names)
    more = {"id": [3], "part": ["c"]}
    table.append(pa.table({name: values for name, values in more.items() if name in names}))


@pytest.fixture(params=["at once", "after another commit"])
def publish(request: pytest.FixtureRequest) -> Callable[[lakescan.Table], Rows]:
    """Return a function that publishes `load`: by fast-forward to the staged snapshot, or by a new one."""

    def published(table: lakescan.Table) -> Rows:
        if request.param != "at once":
            appended(table)
        table.publish("load")
        return [each for each in now(table) if each["id"] < 3]

    return published


CHANGES: dict[str, tuple[Callable[[Any], Any], Rows]] = {
    "drop": (lambda alter: alter.drop_column("part"), [{"id": 1, "n": 1}, {"id": 2, "n": None}]),
    "rename": (
        lambda alter: alter.rename_column("part", "p"),
        [{"id": 1, "p": "a", "n": 1}, {"id": 2, "p": "b", "n": None}],
    ),
    "widen": (
        lambda alter: alter.change_column("n", type="BIGINT"),
        [{"id": 1, "part": "a", "n": 1}, {"id": 2, "part": "b", "n": None}],
    ),
    "add": (
        lambda alter: alter.add_column("x", "INT"),
        [{"id": 1, "part": "a", "n": 1, "x": None}, {"id": 2, "part": "b", "n": None, "x": None}],
    ),
    "partition": (
        lambda alter: alter.add_partition_field("bucket(4, id)"),
        [{"id": 1, "part": "a", "n": 1}, {"id": 2, "part": "b", "n": None}],
    ),
    "key": (
        lambda alter: alter.change_column("id", required=True).set_key("id"),
        [{"id": 1, "part": "a", "n": 1}, {"id": 2, "part": "b", "n": None}],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_published_rows_are_read_by_the_current_columns(
    table: lakescan.Table, change: str, publish: Callable[[lakescan.Table], Rows]
) -> None:
    make, expected = CHANGES[change]
    make(table.alter()).commit()
    assert publish(table) == expected


def test_a_readded_column_has_no_old_values(table: lakescan.Table, publish: Callable[[lakescan.Table], Rows]) -> None:
    table.alter().drop_column("part").commit()
    table.alter().add_column("part", "STRING").commit()
    assert [each["part"] for each in publish(table)] == [None, None]


@pytest.mark.parametrize("version", ["2", "3"])
def test_rows_staged_before_an_upgrade_are_published(
    local: lakescan.Catalog, version: str, publish: Callable[[lakescan.Table], Rows]
) -> None:
    table = staged(local, str(int(version) - 1))
    table.alter().set_properties({"format-version": version}).commit()
    assert [each["id"] for each in publish(table)] == [1, 2]
    table.append(rows((4, "d", 4)))
    table.delete("id = 2")
    assert [each["id"] for each in now(table) if each["id"] != 3] == [1, 4]
    if version == "3":
        ids = lakescan.table(table.name).scan().select("id", "_row_id").to_arrow()["_row_id"].to_pylist()
        assert None not in ids
        assert len(set(ids)) == len(ids)


def test_nulls_in_a_now_required_column_are_refused(
    table: lakescan.Table, publish: Callable[[lakescan.Table], Rows]
) -> None:
    table.alter().change_column("part", required=True).change_column("id", required=True).commit()
    assert [each["part"] for each in publish(table)] == ["a", "b"]


@pytest.mark.parametrize("column", ["part", "id"])
def test_rows_without_nulls_are_published(
    local: lakescan.Catalog, publish: Callable[[lakescan.Table], Rows], column: str
) -> None:
    table = staged(local, second=None)
    table.alter().change_column(column, required=True).commit()
    if column == "id":
        assert len(publish(table)) == 2
        return
    with pytest.raises(UnsupportedFeature, match=r"part was NOT NULL.*Of its rows, 1 have a null.*DROP NOT NULL"):
        publish(table)
    assert [each["id"] for each in now(table) if each["id"] < 3] == [1]
    table.alter().change_column("part", required=False).commit()
    assert len(publish(table)) == 2


@pytest.mark.parametrize(
    "move",
    [
        lambda table, first: table.rollback(version=first),
        lambda table, first: table.set_current_snapshot(version=first),
        lambda table, first: table.restore(version=first),
        lambda table, first: table.create_branch("b", version=first),
        lambda table, first: table.replace_branch("there", version=first),
    ],
    ids=["rollback", "set_current", "restore", "create_branch", "replace_branch"],
)
def test_no_branch_gets_a_state_with_forbidden_nulls(local: lakescan.Catalog, move: Any) -> None:
    table = local.create_table("db.t", "id BIGINT, part STRING, n INT")
    table.append(rows((1, None, None)))
    first = table.version
    table.overwrite(rows((1, "a", None)))
    table.create_branch("there")
    table.alter().change_column("part", required=True).commit()
    with pytest.raises(UnsupportedFeature, match="DROP NOT NULL"):
        move(table, first)
    assert now(table) == [{"id": 1, "part": "a", "n": None}]
    table.create_tag("old", version=first)  # it is read with its own columns
    assert lakescan.table(table.name).scan().as_of(tag="old").to_arrow()["part"].to_pylist() == [None]
    table.alter().change_column("part", required=False).commit()
    move(table, first)


def test_a_column_with_a_default_has_no_nulls_in_older_rows(local: lakescan.Catalog) -> None:
    table = staged(local, "3")
    lakescan.sql("ALTER TABLE local.db.t ADD COLUMN x INT DEFAULT 7")
    table.alter().change_column("x", required=True).commit()
    table.publish("load")
    assert [each["x"] for each in now(table)] == [7, 7]


def test_members_of_structs_are_checked(local: lakescan.Catalog) -> None:
    properties = {"write.wap.enabled": "true"}
    table = local.create_table("db.t", "id BIGINT, s STRUCT<a: INT>", properties=properties)
    kind = pa.struct([("a", pa.int32())])

    def of(number: int, value: Any) -> pa.Table:
        return pa.table({"id": pa.array([number], pa.int64()), "s": pa.array([value], kind)})

    table.append(of(1, {"a": 1}))
    for number, value in enumerate(({"a": None}, None, {"a": 2})):
        table.append(of(number + 2, value), wap_id=str(number))
    table.alter().change_column("s.a", required=True).commit()
    with pytest.raises(UnsupportedFeature, match=r"s\.a was NOT NULL"):
        table.publish("0")
    table.publish("1")
    table.publish("2")
    assert [each["s"] for each in now(table)] == [{"a": 1}, None, {"a": 2}]


def test_a_file_is_in_the_table_once_however_it_is_picked(local: lakescan.Catalog) -> None:
    """The copy of a cherry-picked snapshot has the same files."""
    table = staged(local)
    source = max(table.inspect("snapshots")["snapshot_id"].to_pylist(), key=lambda each: each != table.version)
    appended(table)
    before = table.version
    table.cherry_pick(source)
    copy = table.version
    assert copy != source
    table.rollback(version=before)
    table.cherry_pick(source)
    with pytest.raises(InvalidOption, match=r"already has .*, which snapshot \d+ added: its rows would be duplicated"):
        table.cherry_pick(copy)
    assert [each["id"] for each in now(table)] == [1, 2, 3]


def test_files_that_have_expired_are_not_published(local: lakescan.Catalog) -> None:
    from datetime import UTC, datetime, timedelta

    table = staged(local)
    appended(table)
    table.expire_snapshots(datetime.now(UTC) + timedelta(minutes=1), clean_expired_files=True)
    with pytest.raises(NoSuchSnapshot, match="staged with wap-id 'load'"):
        table.publish("load")


def test_rows_of_a_removed_partition_spec_are_refused(local: lakescan.Catalog) -> None:
    from pyiceberg.table.update import RemovePartitionSpecsUpdate

    from lakescan.catalogs.registry import connection

    properties = {"write.wap.enabled": "true"}
    table = local.create_table("db.t", "id BIGINT, part STRING, n INT", properties=properties)
    table.append(rows((2, "b", None)), wap_id="load")
    table.alter().add_partition_field("part").commit()
    theirs = connection("local").load_table("db.t")
    theirs.catalog.commit_table(theirs, (), (RemovePartitionSpecsUpdate(spec_ids=[0]),))
    table.append(rows((1, "a", 1)))
    with pytest.raises(CorruptMetadata, match="partition spec"):
        table.publish("load")
    assert [each["id"] for each in now(table)] == [1]


def test_partitions_replaced_under_another_spec_are_published(local: lakescan.Catalog) -> None:
    properties = {"write.wap.enabled": "true"}
    table = local.create_table("db.t", "id BIGINT, part STRING, n INT", partition_by=["part"], properties=properties)
    table.append(rows((1, "a", 1), (2, "b", 2)))
    table.overwrite(rows((9, "a", 9)), overwrite_mode="dynamic", wap_id="load")
    table.alter().add_partition_field("bucket(2, id)").commit()
    table.append(rows((3, "b", 3)))
    table.publish("load")
    assert [each["id"] for each in now(table)] == [2, 3, 9]


def test_partitions_that_were_compacted_into_another_layout_are_not_replaced(local: lakescan.Catalog) -> None:
    properties = {"write.wap.enabled": "true"}
    table = local.create_table("db.t", "id BIGINT, part STRING, n INT", partition_by=["part"], properties=properties)
    table.append(rows((1, "a", 1), (2, "b", 2)))
    table.overwrite(rows((9, "a", 9)), overwrite_mode="dynamic", wap_id="load")
    table.alter().add_partition_field("bucket(2, id)").commit()
    table.compact(rewrite_all=True)
    with pytest.raises(CommitConflict):
        table.publish("load")
    assert [each["id"] for each in now(table)] == [1, 2]
