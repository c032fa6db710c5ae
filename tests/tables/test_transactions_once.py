"""An application's transaction is committed once, also after its snapshot has expired."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import lakescan
from lakescan.catalogs.registry import connection
from lakescan.errors import CommitStateUnknown, CorruptMetadata
from lakescan.iceberg.metadata.application_transactions import EPOCH, PREFIX, QUERY
from tests.tables.support import NAME, Make, now, pairs, rows

LATER = datetime.now(UTC) + timedelta(days=2)


def transaction(version: int, application: str = "nightly", **options: Any) -> Any:
    return now().append(rows((version, application)), txn_app_id=application, txn_version=version, **options)


def other(number: int = 50, **options: Any) -> None:
    now().append(rows((number, "other")), **options)


def expire() -> None:
    now().expire_snapshots(older_than=LATER, retain_last=1)


def expire_by_another_engine() -> None:
    """Expire all unreferenced snapshots, as an engine that keeps no transaction records."""
    table = connection("local").load_table(("db", "t"))
    kept = {each.snapshot_id for each in table.metadata.refs.values()}
    gone = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id not in kept]
    table.maintenance.expire_snapshots().by_ids(gone).commit()


@pytest.fixture(params=["1", "2", "3"])
def iceberg(request: pytest.FixtureRequest, local: lakescan.Catalog) -> None:
    local.create_table("db.t", "id BIGINT, part STRING", properties={"format-version": request.param})


def of(application: str) -> list[int]:
    return [number for number, part in pairs() if part == application]


COMMITS: dict[str, Callable[[], Any]] = {
    "append": other,
    "compaction": lambda: now().compact(min_input_files=1),
    "other application": lambda: transaction(9, "hourly"),
    "properties": lambda: now().alter().set_properties({"owner": "x"}).commit(),
    "column": lambda: now().alter().add_column("c", "INT").commit(),
}


@pytest.mark.parametrize("between", COMMITS)
def test_a_repeated_transaction_adds_nothing_after_its_snapshot_expired(iceberg: None, between: str) -> None:
    transaction(1)
    transaction(2)
    COMMITS[between]()
    other()
    expire()
    for version in (2, 1):
        assert transaction(version).rows == 0
    assert of("nightly") == [1, 2]
    transaction(3)
    assert of("nightly") == [1, 2, 3]
    other()
    expire()
    expire()
    transaction(3)
    assert of("nightly") == [1, 2, 3]


@pytest.mark.parametrize("by", ["rollback", "branch"])
def test_a_snapshot_before_a_later_transaction_still_has_an_expired_one(iceberg: None, by: str) -> None:
    """The record of the later transaction does not replace it."""
    transaction(1)
    other()
    between = now().snapshot_id
    transaction(2)
    for _ in range(2):
        now().expire_snapshots(older_than=LATER, retain_last=2)
    if by == "rollback":
        now().set_current_snapshot(version=between)
        assert transaction(1).rows == 0
        assert transaction(2).rows == 1
        assert of("nightly") == [1, 2]
    else:
        now().create_branch("audit", version=between)
        assert transaction(1, branch="audit").rows == 0
        assert transaction(2, branch="audit").rows == 1
        assert sorted(now().scan().as_of(branch="audit").to_arrow()["id"].to_pylist()) == [1, 2, 50]


def test_delta_has_the_same_rule(made: Make) -> None:
    made()
    transaction(1)
    transaction(2)
    other()
    if now().format == "iceberg":
        expire()
    else:
        now().checkpoint()
    transaction(2)
    transaction(1)
    assert of("nightly") == [1, 2]


def test_statements_can_be_transactions(iceberg: None) -> None:
    other(1)
    now().overwrite(rows((7, "nightly")), txn_app_id="nightly", txn_version=7)
    other(2)
    expire()
    now().overwrite(rows((8, "nightly")), txn_app_id="nightly", txn_version=7)
    assert pairs() == [(2, "other"), (7, "nightly")]


def test_a_table_created_by_a_transaction_records_it(local: lakescan.Catalog) -> None:
    for _ in range(2):
        lakescan.save(rows((1, "nightly")), NAME, mode="append", txn_app_id="nightly", txn_version=1)
        other()
        expire()
    assert of("nightly") == [1]


def test_a_rolled_back_transaction_may_be_repeated(iceberg: None) -> None:
    transaction(1)
    before = now().snapshot_id
    transaction(2)
    now().rollback(version=before)
    transaction(2)
    assert of("nightly") == [1, 2]
    now().rollback(version=before)
    expire()
    transaction(1)
    assert of("nightly") == [1]
    transaction(2)
    assert of("nightly") == [1, 2]


def test_each_branch_has_its_transactions(iceberg: None) -> None:
    transaction(1)
    now().create_branch("audit")
    transaction(2, branch="audit")
    other(branch="audit")
    other()
    expire()
    transaction(2, branch="audit")
    transaction(1, branch="audit")
    assert now().scan().as_of(branch="audit").to_arrow().num_rows == 3
    transaction(2)
    assert of("nightly") == [1, 2]
    transaction(1)
    assert of("nightly") == [1, 2]


def test_a_branch_has_the_transactions_of_those_it_came_from(iceberg: None) -> None:
    transaction(1)
    other()
    now().create_tag("t")
    other()
    expire()
    now().create_branch("again", tag="t")
    transaction(1, branch="again")
    assert now().scan().as_of(branch="again").to_arrow().num_rows == 2


def test_a_recreated_branch_has_no_transactions_of_the_earlier_one(iceberg: None) -> None:
    other()
    now().create_branch("audit")
    transaction(1, branch="audit")
    now().drop_branch("audit")
    other()
    expire()
    now().create_branch("audit")
    transaction(1, branch="audit")
    assert now().scan().as_of(branch="audit").to_arrow().num_rows == 3


def test_an_unknown_transaction_outcome_is_an_error(iceberg: None) -> None:
    transaction(1)
    transaction(2)
    other()
    expire_by_another_engine()
    for version in (1, 2):
        with pytest.raises(CommitStateUnknown, match="another engine then expired its snapshot"):
            transaction(version)
    transaction(3)
    transaction(3)
    transaction(2)
    assert of("nightly") == [1, 2, 3]
    transaction(1, "hourly")
    assert of("hourly") == [1]


def test_expiry_keeps_the_transactions_of_other_sinks(iceberg: None) -> None:
    """Iceberg's Spark sink records batches only in summaries."""
    now().append(rows((4, "stream")), **{f"snapshot-property.{QUERY}": "q", f"snapshot-property.{EPOCH}": "4"})
    assert not any(name.startswith(PREFIX) for name in now().properties)
    other()
    expire()
    transaction(4, "q")
    assert of("q") == []
    transaction(5, "q")
    assert of("q") == [5]


def test_records_of_dropped_branches_are_removed(iceberg: None) -> None:
    other()
    first = now().snapshot_id
    transaction(1)
    now().rollback(version=first)
    other()
    expire()
    assert not any(name.startswith(PREFIX) for name in now().properties)


def test_a_table_with_copied_properties_has_no_transactions(local: lakescan.Catalog) -> None:
    lakescan.save(rows((1, "nightly")), NAME, txn_app_id="nightly", txn_version=1)
    properties = {name: value for name, value in now().properties.items() if name.startswith(PREFIX)}
    assert len(properties) == 1
    local.drop_table("db.t")
    local.create_table("db.t", "id BIGINT, part STRING", properties=properties)
    transaction(1)
    other()
    expire()
    assert of("nightly") == [1]


def test_a_damaged_record_is_an_error(iceberg: None) -> None:
    now().alter().set_properties({f"{PREFIX}x": "{"}).commit()
    with pytest.raises(CorruptMetadata, match="record of a committed transaction, is damaged"):
        transaction(1)
