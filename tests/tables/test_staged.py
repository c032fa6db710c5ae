"""Write-audit-publish: staged rows are invisible until they are published, and are published once."""

from __future__ import annotations

import pytest

import lakescan
from lakescan.errors import InvalidOption, NoSuchSnapshot
from tests.tables.support import Make, maker, now, pairs, rows

AUDITED = {"write.wap.enabled": "true"}


@pytest.fixture(params=["iceberg version 2", "iceberg version 3"])
def make(request: pytest.FixtureRequest, local: lakescan.Catalog) -> Make:
    return maker(request.param, local)


@pytest.fixture
def table(make: Make) -> lakescan.Table:
    table = make(properties=AUDITED)
    table.append(rows((1, "a")))
    return table


def staged_as(table: lakescan.Table, wap_id: str) -> list[int]:
    snapshots = table.inspect("snapshots").select(["snapshot_id", "summary"]).to_pylist()
    return [each["snapshot_id"] for each in snapshots if dict(each["summary"]).get("wap.id") == wap_id]


def test_staged_rows_are_visible_only_after_publishing(table: lakescan.Table) -> None:
    before = table.version
    table.append(rows((2, "b")), wap_id="load-1")
    assert (pairs(), table.version) == ([(1, "a")], before)
    (snapshot,) = staged_as(table, "load-1")
    assert sorted(table.scan().as_of(version=snapshot).to_arrow()["id"].to_pylist()) == [1, 2]
    assert table.publish("load-1").current == snapshot
    assert pairs() == [(1, "a"), (2, "b")]


def test_loads_are_published_in_any_order_and_once(table: lakescan.Table) -> None:
    table.append(rows((2, "b")), wap_id="load-1")
    table.append(rows((3, "c")), wap_id="load-2")
    table.publish("load-2")
    result = table.publish("load-1")
    assert pairs() == [(1, "a"), (2, "b"), (3, "c")]
    summary = dict(table.inspect("snapshots")["summary"].to_pylist()[-1])
    assert summary["published-wap-id"] == "load-1"
    assert summary["source-snapshot-id"] == str(staged_as(table, "load-1")[0]) != str(result.current)
    for again in ("load-1", "load-2"):
        with pytest.raises(InvalidOption, match="already"):
            table.publish(again)
    assert pairs() == [(1, "a"), (2, "b"), (3, "c")]


def test_an_id_that_was_published_is_refused_for_other_rows_too(table: lakescan.Table) -> None:
    table.append(rows((2, "b")), wap_id="load")
    table.publish("load")
    table.append(rows((3, "c")), wap_id="load")
    with pytest.raises(InvalidOption, match="several snapshots"):
        table.publish("load")
    with pytest.raises(InvalidOption, match=r"'load', whose changes snapshot \d+ already published"):
        table.cherry_pick(max(staged_as(table, "load"), key=lambda each: each != table.version))
    with pytest.raises(NoSuchSnapshot, match="Did you mean 'load'"):
        table.publish("lod")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda table, **how: table.overwrite(rows((9, "z")), **how), [(9, "z")]),
        (lambda table, **how: table.delete("id = 1", **how), []),
        (lambda table, **how: table.update({"part": "'b'"}, **how), [(1, "b")]),
        (lambda table, **how: table.upsert(rows((1, "c"), (2, "c")), "id", **how), [(1, "c"), (2, "c")]),
    ],
    ids=["overwrite", "delete", "update", "upsert"],
)
def test_every_change_is_staged(table: lakescan.Table, change: object, expected: list) -> None:
    change(table, wap_id="x")  # type: ignore[operator]
    assert pairs() == [(1, "a")]
    table.publish("x")
    assert pairs() == expected


def test_the_first_rows_of_a_table_are_staged_too(make: Make) -> None:
    table = make(properties=AUDITED)
    table.append(rows((1, "a")), wap_id="first")
    table.append(rows((2, "b")), wap_id="second")
    assert (pairs(), table.version) == ([], None)
    table.publish("second")
    table.publish("first")
    assert pairs() == [(1, "a"), (2, "b")]


def test_row_ids_of_staged_rows_are_not_assigned_twice(local: lakescan.Catalog) -> None:
    table = maker("iceberg version 3", local)(properties=AUDITED)
    table.append(rows((1, "a"), (2, "a")))
    table.append(rows((3, "b")), wap_id="x")
    table.append(rows((4, "c")))
    table.publish("x")
    ids = now().scan().select("id", "_row_id").to_arrow()["_row_id"].to_pylist()
    assert len(set(ids)) == 4
    numbers = [each["sequence-number"] for each in _snapshots(table)]
    assert numbers == [1, 2, 3, 4]


def _snapshots(table: lakescan.Table) -> list[dict]:
    import json

    source = now().scan().spec.table.metadata.source  # type: ignore[attr-defined]
    return json.loads(table.scan().spec.storage.read(source))["snapshots"]


def test_rows_are_written_to_the_wap_branch(table: lakescan.Table) -> None:
    table.append(rows((2, "b")), wap_branch="audit")
    table.delete("id = 1", wap_branch="audit")
    assert pairs() == [(1, "a")]
    table.fast_forward("main", "audit")
    assert pairs() == [(2, "b")]


@pytest.mark.parametrize("option", ["wap_id", "wap_branch"])
def test_rows_are_staged_only_if_the_table_enables_it(make: Make, option: str) -> None:
    table = make()
    table.append(rows((1, "a")))
    with pytest.raises(InvalidOption, match=r"write\.wap\.enabled is not true"):
        table.append(rows((2, "b")), **{option: "x"})
    assert (pairs(), list(table.branches)) == ([(1, "a")], ["main"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wap_id": "x", "wap_branch": "b"}, "wap-id and wap-branch"),
        ({"branch": "a", "wap_branch": "b"}, "branch and wap-branch"),
        ({"wap_id": "x", "txn_app_id": "app", "txn_version": 1}, "wap-id is not for streams"),
    ],
)
def test_options_that_contradict_each_other_are_refused(table: lakescan.Table, options: dict, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        table.append(rows((2, "b")), **options)


def test_maintenance_is_not_staged(table: lakescan.Table) -> None:
    for change in (table.compact, table.rewrite_position_deletes):
        with pytest.raises(InvalidOption, match="for new rows only"):
            change(wap_id="x")


def test_a_delta_table_has_no_staging(local: lakescan.Catalog) -> None:
    table = maker("delta", local)()
    with pytest.raises(InvalidOption, match="wap-id"):
        table.append(rows((1, "a")), wap_id="x")
