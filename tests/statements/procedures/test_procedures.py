"""Iceberg's procedures: their arguments, and results with the columns that Iceberg documents."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import InvalidOption, UnsupportedFeature
from lakescan.statements.procedures import PROCEDURES, bind_arguments, changes_of, find_procedure
from tests.statements.procedures.conftest import Called
from tests.tables.support import data_files, now, pairs, rows

LATER = "2100-01-01"


def ids(table: lakescan.Table) -> list[int]:
    """Return the current snapshot and its ancestors, newest first."""
    return table.ancestors()["snapshot_id"].to_pylist()


def only(result: pa.Table) -> dict[str, Any]:
    (row,) = result.to_pylist()
    return row


def test_a_table_is_rolled_back_and_forth(table: lakescan.Table, call: Called) -> None:
    second, first = ids(table)
    moved = {"previous_snapshot_id": second, "current_snapshot_id": first}
    assert only(call("rollback_to_snapshot", "db.t", first)) == moved
    back = {"previous_snapshot_id": first, "current_snapshot_id": second}
    assert only(call("set_current_snapshot", table="local.db.t", snapshot_id=second)) == back
    table.create_tag("t", version=first)
    assert only(call("set_current_snapshot", table="db.t", ref="t")) == moved
    call("set_current_snapshot", "db.t", second)
    at = table.ancestors()["committed_at"][0].as_py()
    after = at + timedelta(milliseconds=1)
    assert only(call("rollback_to_timestamp", "db.t", after))["current_snapshot_id"] == second
    assert pairs() == [(1, "a"), (2, "a")]


def test_set_current_snapshot_takes_either_of_two_arguments(table: lakescan.Table, call: Called) -> None:
    for arguments in ({}, {"snapshot_id": 1, "ref": "main"}):
        with pytest.raises(InvalidOption, match="either snapshot_id or ref"):
            call("set_current_snapshot", table="db.t", **arguments)


def test_changes_are_picked_and_published(table: lakescan.Table, call: Called) -> None:
    table.create_branch("b")
    table.append(rows((3, "b")), branch="b")
    picked = table.branches["b"].snapshot_id
    table.append(rows((4, "b")))
    result = only(call("cherrypick_snapshot", "db.t", picked))
    assert result == {"source_snapshot_id": picked, "current_snapshot_id": ids(now())[0]}
    assert pairs() == [(1, "a"), (2, "a"), (3, "b"), (4, "b")]


def test_staged_changes_are_published(local: lakescan.Catalog, call: Called) -> None:
    table = local.create_table("db.t", "id BIGINT, part STRING", properties={"write.wap.enabled": "true"})
    table.append(rows((1, "a")))
    table.append(rows((2, "b")), wap_id="load")
    table.append(rows((3, "b")))
    result = only(call("publish_changes", "db.t", "load"))
    assert result["current_snapshot_id"] == now().version
    staged = now().inspect("snapshots").select(["snapshot_id", "summary"]).to_pylist()
    assert [each["snapshot_id"] for each in staged if dict(each["summary"]).get("wap.id")] == [
        result["source_snapshot_id"]
    ]
    assert pairs() == [(1, "a"), (2, "b"), (3, "b")]


def test_a_branch_is_fast_forwarded(table: lakescan.Table, call: Called) -> None:
    before = table.version
    table.create_branch("audit")
    table.append(rows((3, "b")), branch="audit")
    assert only(call("fast_forward", "db.t", "main", "audit")) == {
        "branch_updated": "main",
        "previous_ref": before,
        "updated_ref": table.branches["audit"].snapshot_id,
    }


def test_ancestors_are_listed_newest_first(table: lakescan.Table, call: Called) -> None:
    second, first = ids(table)
    found = call("ancestors_of", "db.t")
    assert found["snapshot_id"].to_pylist() == [second, first]
    assert found.schema.types == [pa.int64(), pa.int64()]
    table.rollback(version=first)
    assert call("ancestors_of", "db.t")["snapshot_id"].to_pylist() == [first]
    assert call("ancestors_of", table="db.t", snapshot_id=second)["snapshot_id"].to_pylist() == [second, first]


def test_expired_snapshots_are_removed_with_their_files(table: lakescan.Table, call: Called, tmp_path: Path) -> None:
    table.overwrite(rows((3, "a")))
    assert data_files(tmp_path) == 3
    result = only(call("expire_snapshots", "db.t", LATER))
    assert (result["deleted_data_files_count"], result["deleted_manifest_lists_count"]) == (2, 2)
    assert data_files(tmp_path) == 1
    assert pairs() == [(3, "a")]
    assert len(list(tmp_path.rglob("snap-*.avro"))) == 1
    again = only(call("expire_snapshots", "db.t", LATER))
    assert set(again.values()) == {0}


def test_files_of_branches_tags_and_staged_rows_stay(table: lakescan.Table, call: Called) -> None:
    first = ids(table)[1]
    table.create_tag("first", version=first)
    table.overwrite(rows((3, "a")))
    result = only(call("expire_snapshots", table="db.t", older_than=LATER, retain_last=1))
    assert result["deleted_manifest_lists_count"] == 1
    assert sorted(now().scan().as_of(tag="first").to_arrow()["id"].to_pylist()) == [1]


def test_files_of_another_table_in_the_same_folder_stay(local: lakescan.Catalog, call: Called, tmp_path: Path) -> None:
    """A table that was dropped without purge keeps its files: it may be registered again."""
    folder = f"file://{tmp_path}/shared"
    local.create_table("db.old", "id BIGINT, part STRING", location=folder).append(rows((1, "a")))
    (shared,) = tmp_path.joinpath("shared").rglob("*.parquet")
    local.drop_table("db.old")
    table = local.create_table("db.t", "id BIGINT, part STRING", location=folder)
    call("add_files", "db.t", f"`parquet`.`{shared}`")
    table.refresh().overwrite(rows((2, "b")))
    result = only(call("expire_snapshots", "db.t", LATER))
    assert (result["deleted_data_files_count"], result["deleted_manifest_lists_count"]) == (0, 1)
    assert shared.exists()


def test_chosen_snapshots_expire(table: lakescan.Table, call: Called) -> None:
    second, first = ids(table)
    call("expire_snapshots", table="db.t", snapshot_ids=[first])
    assert ids(now()) == [second]
    assert pairs() == [(1, "a"), (2, "a")]
    with pytest.raises(InvalidOption, match="branch or tag 'main' names it"):
        call("expire_snapshots", table="db.t", snapshot_ids=[second])
    with pytest.raises(lakescan.NoSuchSnapshot):
        call("expire_snapshots", table="db.t", snapshot_ids=[first])


def test_delete_files_of_expired_snapshots_are_counted(table: lakescan.Table, call: Called) -> None:
    table.append(rows((5, "b"), (6, "b")))
    table.delete("id = 5", row_change_mode="merge-on-read")
    table.overwrite(rows((7, "a")))
    result = only(call("expire_snapshots", "db.t", LATER))
    assert result["deleted_position_delete_files_count"] == 1
    assert result["deleted_data_files_count"] == 3
    assert result["deleted_equality_delete_files_count"] == 0


def test_orphans_are_listed(table: lakescan.Table, call: Called, tmp_path: Path) -> None:
    import os

    (kept,) = {path.parent for path in tmp_path.rglob("*.parquet")}
    orphan = kept / "orphan.parquet"
    orphan.write_bytes(b"x")
    os.utime(orphan, (0, 0))
    found = call("remove_orphan_files", table="db.t", dry_run=True)
    assert [each.rpartition("/")[2] for each in found["orphan_file_location"].to_pylist()] == ["orphan.parquet"]
    assert orphan.exists()
    call("remove_orphan_files", "db.t")
    assert not orphan.exists()


def test_data_files_are_rewritten(table: lakescan.Table, call: Called) -> None:
    result = only(call("rewrite_data_files", "db.t"))
    assert result["rewritten_data_files_count"] == 0, "Iceberg rewrites from 5 files on"
    result = only(call("rewrite_data_files", table="db.t", options={"min-input-files": "2"}))
    assert (result["rewritten_data_files_count"], result["added_data_files_count"]) == (2, 1)
    assert result["rewritten_bytes_count"] > 0
    assert (result["failed_data_files_count"], result["removed_delete_files_count"]) == (0, 0)
    assert pairs() == [(1, "a"), (2, "a")]


def test_delete_files_of_rewritten_files_are_counted(local: lakescan.Catalog, call: Called) -> None:
    table = local.create_table("db.t", "id BIGINT, part STRING")
    table.append(rows(*((n, "a") for n in range(10))))
    table.delete("id < 5", row_change_mode="merge-on-read")
    result = only(call("rewrite_data_files", "db.t"))
    assert (result["rewritten_data_files_count"], result["removed_delete_files_count"]) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"strategy": "sort", "sort_order": "id DESC NULLS LAST"}, [2, 1]),
        ({"sort_order": "zorder(id, part)", "strategy": "sort"}, [1, 2]),
    ],
)
def test_data_files_are_sorted(table: lakescan.Table, call: Called, arguments: dict, expected: list[int]) -> None:
    call("rewrite_data_files", table="db.t", **arguments, options={"rewrite-all": "true"})
    assert now().to_arrow()["id"].to_pylist() == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "zort"}, "expected binpack or sort"),
        ({"strategy": "binpack", "sort_order": "id"}, "sort_order is for"),
        ({"options": {"strategy": "sort"}}, "parameter of the procedure"),
        ({"options": {"min-input-file": "2"}}, "min-input-files"),
        ({"options": "min-input-files"}, "expected a map"),
    ],
)
def test_wrong_rewrites_are_refused(table: lakescan.Table, call: Called, arguments: dict, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        call("rewrite_data_files", table="db.t", **arguments)


def test_manifests_and_position_deletes_are_rewritten(table: lakescan.Table, call: Called) -> None:
    assert only(call("rewrite_manifests", "db.t")) == {"rewritten_manifests_count": 2, "added_manifests_count": 1}
    with pytest.raises(UnsupportedFeature, match="sort_by"):
        call("rewrite_manifests", table="db.t", sort_by=["part"])
    table.append(rows((3, "a"), (4, "a"), (5, "a")))
    for number in (3, 4):
        table.delete(f"id = {number}", row_change_mode="merge-on-read")
    result = only(
        call("rewrite_position_delete_files", table="db.t", options={"rewrite-all": "true", "min-input-files": "2"})
    )
    assert (result["rewritten_delete_files_count"], result["added_delete_files_count"]) in [(1, 1), (2, 1)]
    with pytest.raises(UnsupportedFeature, match="'max-files'"):
        call("rewrite_position_delete_files", table="db.t", options={"max-files": "2"})


def test_a_table_gets_another_name(table: lakescan.Table, call: Called) -> None:
    location = table.scan().spec.table.metadata.source  # type: ignore[attr-defined]
    assert only(call("register_table", "db.other", location)) == {
        "current_snapshot_id": table.version,
        "total_records_count": 2,
        "total_data_files_count": 2,
    }


def test_changelog_procedures_return_rows(table: lakescan.Table, call: Called, local: lakescan.Catalog) -> None:
    first = ids(table)[1]
    table.update({"part": "'b'"}, where="id = 1")
    found = call("create_changelog_view", table="db.t", options={"start-snapshot-id": str(first)})
    kinds = sorted((row["id"], row["part"], row["_change_type"]) for row in found.to_pylist())
    assert kinds == [(1, "a", "DELETE"), (1, "b", "INSERT"), (2, "a", "INSERT")]
    found = call("create_changelog_view", table="db.t", identifier_columns=["id"], options={"end-snapshot-id": first})
    assert found["_change_type"].to_pylist() == ["INSERT"]
    images = call("create_changelog_view", table="db.t", identifier_columns=["id"])
    assert sorted(set(images["_change_type"].to_pylist())) == ["INSERT", "UPDATE_AFTER", "UPDATE_BEFORE"]
    name, _ = changes_of(local, bind_arguments(find_procedure("create_changelog_view"), ["db.t"], {}))
    assert name == "t_changes"
    net = call("create_changelog_view", table="db.t", net_changes=True)
    assert sorted((row["id"], row["part"], row["_change_type"]) for row in net.to_pylist()) == [
        (1, "b", "INSERT"),
        (2, "a", "INSERT"),
    ]
    with pytest.raises(InvalidOption, match="net_changes excludes"):
        call("create_changelog_view", table="db.t", net_changes=True, identifier_columns=["id"])
    with pytest.raises(InvalidOption, match="no identifier fields"):
        call("create_changelog_view", table="db.t", compute_updates=True)


def test_values_by_position_come_before_those_by_name(table: lakescan.Table, call: Called) -> None:
    second, first = ids(table)
    found = only(call("rollback_to_snapshot", "db.t", snapshot_id=first))
    assert found == {"previous_snapshot_id": second, "current_snapshot_id": first}


@pytest.mark.parametrize(
    ("name", "positional", "named", "message"),
    [
        ("rollback_to_snapshots", (), {}, "Did you mean 'rollback_to_snapshot'"),
        ("rollback_to_snapshot", ("db.t",), {}, "needs snapshot_id"),
        ("rollback_to_snapshot", (), {}, "needs table and snapshot_id"),
        ("rollback_to_snapshot", ("db.t", "1"), {}, "expected a whole number of 64 bits"),
        ("rollback_to_snapshot", ("db.t", 2**63), {}, "expected a whole number of 64 bits"),
        ("rollback_to_snapshot", ("db.t", True), {}, "expected a whole number of 64 bits"),
        ("rollback_to_snapshot", ("db.t", 1, 2), {}, "takes 2 arguments"),
        ("rollback_to_snapshot", (), {"table": "db.t", "snapshot": 1}, "Did you mean 'snapshot_id'"),
        ("rollback_to_snapshot", ("db.t",), {"table": "db.t", "snapshot_id": 1}, "table is given twice"),
        ("rollback_to_timestamp", ("db.t", 5), {}, "expected a timestamp"),
        ("expire_snapshots", (), {"table": "db.t", "snapshot_ids": 5}, "expected an array"),
        ("expire_snapshots", (), {"table": "db.t", "max_concurrent_deletes": 0}, "above 0"),
    ],
)
def test_arguments_are_checked(
    table: lakescan.Table, call: Called, name: str, positional: tuple, named: dict, message: str
) -> None:
    with pytest.raises(InvalidOption, match=message):
        call(name, *positional, **named)


def test_unsupported_procedures_are_refused_with_alternatives(call: Called) -> None:
    with pytest.raises(UnsupportedFeature, match="migrate") as error:
        call("migrate", "db.t")
    assert len(error.value.detail) > 40


def test_all_of_icebergs_procedures_are_known() -> None:
    """The names come from `SparkProcedures`."""
    assert sorted(PROCEDURES) == [
        "add_files",
        "ancestors_of",
        "cherrypick_snapshot",
        "compute_partition_stats",
        "compute_table_stats",
        "create_changelog_view",
        "expire_snapshots",
        "fast_forward",
        "migrate",
        "publish_changes",
        "register_table",
        "remove_orphan_files",
        "rewrite_data_files",
        "rewrite_manifests",
        "rewrite_position_delete_files",
        "rewrite_table_path",
        "rollback_to_snapshot",
        "rollback_to_timestamp",
        "set_current_snapshot",
        "snapshot",
    ]


def test_rewriting_files_of_a_delta_table_is_refused_by_name(local: lakescan.Catalog, call: Called) -> None:
    local.create_table("db.d", "id BIGINT", format="delta")
    with pytest.raises(UnsupportedFeature, match=r"rewrite_data_files of the delta table .*OPTIMIZE"):
        call("rewrite_data_files", "db.d")
