"""Branches and tags are created, moved and dropped; tables roll back, and cherry-pick changes."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import lakescan
from lakescan.errors import CommitConflict, InvalidOption, NoSuchSnapshot, UnsupportedFeature
from tests.tables.support import Make, maker, now, pairs, rows


@pytest.fixture(params=["iceberg version 1", "iceberg version 2", "iceberg version 3"])
def make(request: pytest.FixtureRequest, local: lakescan.Catalog) -> Make:
    return maker(request.param, local)


@pytest.fixture
def table(make: Make) -> lakescan.Table:
    """A table of two snapshots: the first has the row 1, the second 1 and 2."""
    table = make()
    table.append(rows((1, "a")))
    table.append(rows((2, "a")))
    return table


def line(table: lakescan.Table, version: int | str | None = None) -> list[int]:
    """Return the snapshot and its ancestors, newest first."""
    return table.ancestors(version)["snapshot_id"].to_pylist()


def test_a_branch_names_the_current_snapshot_and_grows_on_its_own(table: lakescan.Table) -> None:
    result = table.create_branch("audit")
    assert (result.name, result.previous, result.current) == ("audit", None, table.version)
    table.append(rows((3, "b")), branch="audit")
    assert pairs() == [(1, "a"), (2, "a")]
    assert sorted(table.scan().as_of(branch="audit").to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert list(table.branches) == ["main", "audit"]
    assert table.branches["audit"].snapshot_id == line(table, "audit")[0] != table.version


def test_a_branch_can_begin_at_any_state(table: lakescan.Table) -> None:
    second, first = line(table)
    table.create_branch("by_version", version=first)
    table.create_tag("named", version=first)
    table.create_branch("by_tag", tag="named")
    table.create_branch("by_branch", branch="by_tag")
    at = table.history()["made_current_at"][0].as_py()
    table.create_branch("by_time", timestamp=at)
    others = {name: ref.snapshot_id for name, ref in table.branches.items()}
    assert others == {"main": second, **dict.fromkeys(("by_version", "by_tag", "by_branch", "by_time"), first)}


def test_a_tag_keeps_its_snapshot_from_expiring(table: lakescan.Table) -> None:
    second, first = line(table)
    table.create_tag("first", version=first, max_ref_age=timedelta(days=30))
    assert table.tags == {"first": lakescan.SnapshotRef(first, max_ref_age=timedelta(days=30))}
    assert table.expire_snapshots("2100-01-01").snapshots == ()
    table.drop_tag("first")
    assert table.tags == {}
    assert table.expire_snapshots("2100-01-01").snapshots == (first,)
    assert line(table) == [second]


def test_a_used_name_is_refused(table: lakescan.Table) -> None:
    second, first = line(table)
    table.create_tag("t", version=first)
    for create in (table.create_branch, table.create_tag):
        with pytest.raises(InvalidOption, match="already has a tag 't'"):
            create("t")
        assert create("t", if_not_exists=True).previous == first
    with pytest.raises(InvalidOption, match="'t' is a tag"):
        table.create_branch("t", replace=True)
    with pytest.raises(InvalidOption, match="contradict"):
        table.create_tag("t", replace=True, if_not_exists=True)
    assert table.create_tag("t", replace=True).current == second
    assert table.tags["t"].snapshot_id == second


def test_a_replaced_reference_keeps_its_retention(table: lakescan.Table) -> None:
    second, first = line(table)
    week, day = timedelta(days=7), timedelta(days=1)
    table.create_branch("b", version=first, max_ref_age=week, max_snapshot_age=day, min_snapshots_to_keep=3)
    table.create_branch("b", replace=True, min_snapshots_to_keep=5)
    assert table.branches["b"] == lakescan.SnapshotRef(second, week, day, 5)
    table.replace_branch("b", version=first, max_ref_age=day)
    assert table.branches["b"] == lakescan.SnapshotRef(first, day, day, 5)
    table.append(rows((3, "a")), branch="b")
    assert table.branches["b"].min_snapshots_to_keep == 5


def test_only_existing_references_are_replaced_or_dropped(table: lakescan.Table) -> None:
    table.create_tag("audited")
    for change in (table.replace_branch, table.replace_tag, table.drop_branch, table.drop_tag):
        with pytest.raises(NoSuchSnapshot, match=r"has no (branch|tag) 'nothing'"):
            change("nothing")
    with pytest.raises(NoSuchSnapshot, match="Did you mean 'audited'"):
        table.drop_tag("audit")
    with pytest.raises(InvalidOption, match="'audited' is a tag"):
        table.drop_branch("audited")
    with pytest.raises(InvalidOption, match="'main' cannot be dropped"):
        table.drop_branch("main")
    assert table.drop_branch("nothing", if_exists=True).current is None
    assert list(table.tags) == ["audited"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": 1, "tag": "t"}, "version and tag each select a state"),
        ({"version": "main"}, "expected the id of a snapshot"),
        ({"max_ref_age": 7}, "expected a positive timedelta"),
        ({"max_snapshot_age": timedelta(0)}, "expected a positive timedelta"),
        ({"min_snapshots_to_keep": 0}, "at least 1"),
    ],
)
def test_invalid_arguments_are_refused(table: lakescan.Table, arguments: dict, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        table.create_branch("b", **arguments)
    assert list(table.branches) == ["main"]


def test_a_branch_of_a_table_without_snapshots_begins_with_an_empty_one(make: Make) -> None:
    table = make()
    with pytest.raises(NoSuchSnapshot, match="no snapshot yet"):
        table.create_tag("t")
    table.create_branch("b", min_snapshots_to_keep=2)
    assert table.version is None
    assert table.branches["b"].min_snapshots_to_keep == 2
    table.append(rows((1, "a")), branch="b")
    assert (table.count(), table.scan().as_of(branch="b").count()) == (0, 1)
    table.fast_forward("main", "b")
    assert pairs() == [(1, "a")]


def test_main_moves_forward_to_a_branch_that_has_all_its_commits(table: lakescan.Table) -> None:
    before = table.version
    table.create_branch("audit")
    table.append(rows((3, "b")), branch="audit")
    result = table.fast_forward("main", "audit")
    assert (result.previous, result.current) == (before, table.branches["audit"].snapshot_id)
    assert pairs() == [(1, "a"), (2, "a"), (3, "b")]
    assert str(table.fast_forward("main", "audit")) == "main: nothing to do"


def test_the_retention_of_a_branch_can_be_changed(table: lakescan.Table) -> None:
    table.create_branch("audit")
    text = "ALTER TABLE local.db.t REPLACE BRANCH audit RETAIN 7 DAYS"
    assert str(lakescan.sql(text)) == f"audit: retention changed, at snapshot {table.version}"
    assert str(lakescan.sql(text)) == "audit: nothing to do"


def test_a_fast_forward_to_a_diverged_branch_is_refused(table: lakescan.Table) -> None:
    table.create_branch("audit")
    table.append(rows((3, "b")), branch="audit")
    table.append(rows((4, "b")))
    with pytest.raises(UnsupportedFeature, match="lacks its snapshot"):
        table.fast_forward("main", "audit")
    with pytest.raises(NoSuchSnapshot, match="Did you mean 'audit'"):
        table.fast_forward("main", "audi")
    assert pairs() == [(1, "a"), (2, "a"), (4, "b")]


def test_a_table_is_rolled_back_to_an_ancestor(table: lakescan.Table) -> None:
    second, first = line(table)
    result = table.rollback(version=first)
    assert (result.previous, result.current, table.version) == (second, first, first)
    assert pairs() == [(1, "a")]
    with pytest.raises(UnsupportedFeature, match="not an ancestor"):
        table.rollback(version=second)
    with pytest.raises(NoSuchSnapshot, match="has no snapshot 1"):
        table.rollback(version=1)
    table.append(rows((3, "a")))
    assert pairs() == [(1, "a"), (3, "a")]
    assert line(table)[1:] == [first]


def test_a_table_is_rolled_back_to_a_time(table: lakescan.Table) -> None:
    second, first = line(table)
    when = dict(zip(*table.ancestors().to_pydict().values(), strict=True))
    with pytest.raises(NoSuchSnapshot, match="from before"):
        table.rollback(timestamp=when[first])
    assert table.rollback(timestamp=when[second] + timedelta(seconds=1)).current == second
    if when[first] < when[second]:
        assert table.rollback(timestamp=when[second]).current == first


def test_any_snapshot_can_become_current(table: lakescan.Table) -> None:
    second, first = line(table)
    table.create_tag("first", version=first)
    assert table.set_current_snapshot(ref="first").current == first
    assert table.set_current_snapshot(version=second).previous == first
    table.create_branch("b", version=first)
    assert table.set_current_snapshot(ref="b").current == first
    with pytest.raises(InvalidOption, match="either version= or ref="):
        table.set_current_snapshot()
    with pytest.raises(NoSuchSnapshot):
        table.set_current_snapshot(ref="nothing")


def test_appends_of_a_branch_are_cherry_picked(table: lakescan.Table) -> None:
    table.create_branch("b")
    table.append(rows((3, "b"), (4, "c")), branch="b")
    table.append(rows((5, "a")))
    picked, before = table.branches["b"].snapshot_id, table.version
    result = table.cherry_pick(picked)
    assert result.previous == before
    assert result.current == table.version not in (picked, before)
    assert pairs() == [(1, "a"), (2, "a"), (3, "b"), (4, "c"), (5, "a")]
    summary = dict(table.inspect("snapshots")["summary"].to_pylist()[-1])
    assert summary["source-snapshot-id"] == str(picked)
    assert (summary["added-records"], summary["total-records"]) == ("2", "5")
    for again in (picked, before):
        with pytest.raises(InvalidOption, match="already"):
            table.cherry_pick(again)


def test_a_child_of_the_current_snapshot_becomes_the_current_one(table: lakescan.Table) -> None:
    table.create_branch("b")
    table.delete("id = 1", branch="b")
    child = table.branches["b"].snapshot_id
    assert table.cherry_pick(child).current == table.version == child
    assert pairs() == [(2, "a")]


def test_other_changes_are_not_cherry_picked(table: lakescan.Table) -> None:
    table.create_branch("b")
    table.delete("id = 1", branch="b")
    table.append(rows((5, "a")))
    with pytest.raises(UnsupportedFeature, match="Only appends and dynamic overwrites"):
        table.cherry_pick(table.branches["b"].snapshot_id)
    with pytest.raises(NoSuchSnapshot, match="no snapshot 7"):
        table.cherry_pick(7)
    assert pairs() == [(1, "a"), (2, "a"), (5, "a")]


def test_overwritten_partitions_are_cherry_picked_if_unchanged(table: lakescan.Table) -> None:
    table.create_branch("b")
    table.overwrite(rows((9, "a")), overwrite_mode="dynamic", branch="b")
    picked = table.branches["b"].snapshot_id
    table.append(rows((5, "b")))
    here = table.version
    table.cherry_pick(picked)
    assert pairs() == [(5, "b"), (9, "a")]
    table.rollback(version=here)
    table.append(rows((6, "a")))
    with pytest.raises(CommitConflict, match="rows of a partition that this commit replaces"):
        table.cherry_pick(picked)
    assert pairs() == [(1, "a"), (2, "a"), (5, "b"), (6, "a")]


def test_references_of_a_delta_table_are_refused_with_alternatives(local: lakescan.Catalog) -> None:
    table = maker("delta", local)()
    table.append(rows((1, "a")))
    calls = [
        lambda: table.branches,
        lambda: table.tags,
        table.ancestors,
        lambda: table.create_branch("b"),
        lambda: table.create_tag("t"),
        lambda: table.replace_branch("b"),
        lambda: table.drop_tag("t", if_exists=True),
        lambda: table.fast_forward("main", "b"),
        lambda: table.rollback(version=0),
        lambda: table.set_current_snapshot(version=0),
        lambda: table.cherry_pick(0),
        lambda: table.publish("x"),
    ]
    for call in calls:
        with pytest.raises(UnsupportedFeature, match=r"Table\.restore"):
            call()


def test_a_branch_survives_concurrent_commits_to_another(table: lakescan.Table) -> None:
    """A stale table object writes onto the newest state, so concurrent commits are kept."""
    stale = now()
    table.append(rows((3, "a")))
    stale.create_branch("b")
    assert table.branches["b"].snapshot_id == table.version
    assert pa.compute.max(stale.scan().as_of(branch="b").to_arrow()["id"]).as_py() == 3


def test_an_earlier_state_is_restored(table: lakescan.Table) -> None:
    second, first = line(table)
    table.create_tag("t", version=first)
    at = table.history()["made_current_at"][0].as_py()
    result = table.restore(version=first)
    assert (result.version, result.num_removed_files, result.num_of_files_after_restore) == (first, 1, 1)
    assert pairs() == [(1, "a")]
    back = table.restore(version=second)
    assert (back.num_restored_files, back.restored_files_size) == (1, result.removed_files_size)
    assert pairs() == [(1, "a"), (2, "a")]
    for arguments in ({"version": "t"}, {"timestamp": at}):
        assert table.restore(**arguments).version == first
        table.restore(version=second)
