"""ALTER TABLE while one call to storage or the catalog fails: each in turn, before it takes effect or after.

The table is unchanged, or as the statement makes it. A failed statement has changed nothing, unless it reports an
unknown outcome. A statement that lost only its answer has not failed, and none is applied twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

import lakescan
from lakescan.api.alter import AlterBuilder
from lakescan.delta.commit import commit_file as put
from lakescan.errors import CommitStateUnknown, LakescanError
from tests.support.saved_warehouse import SavedWarehouse
from tests.tables.support import NAME, maker, now, rows
from tests.tables.test_kills import watched
from tests.tables.test_statement_faults import Fault

Change = Callable[[AlterBuilder], AlterBuilder]
MAPPED = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
CHANGES: dict[str, tuple[str, Change]] = {
    "add": ("both", lambda t: t.add_column("n", "INT")),
    "rename": ("both", lambda t: t.rename_column("part", "p")),
    "drop": ("both", lambda t: t.drop_column("part")),
    "widen": ("both", lambda t: t.change_column("small", type="BIGINT")),
    "not null": ("both", lambda t: t.change_column("id", required=True)),
    "properties": ("both", lambda t: t.set_properties({"owner": "me"}).unset_properties("mark")),
    "several": ("both", lambda t: t.add_column("n", "INT").rename_column("part", "p").set_properties({"owner": "me"})),
    "partition": ("iceberg", lambda t: t.add_partition_field("bucket(4, id)")),
    "order": ("iceberg", lambda t: t.set_sort_order("id")),
    "version": ("iceberg", lambda t: t.set_properties({"format-version": "3"})),
    "constraint": ("delta", lambda t: t.add_constraint("c", "id > 0")),
    "cluster": ("delta", lambda t: t.cluster_by("id")),
    "row tracking": ("delta", lambda t: t.set_properties({"delta.enableRowTracking": "true"})),
    "drop a feature": ("delta", lambda t: t.drop_feature("domainMetadata")),
}


def table_in(folder: Path, format: str) -> None:
    folder.mkdir()
    local = lakescan.catalog("local", warehouse=folder)
    local.create_namespace("db")
    properties = {"mark": "x", **({**MAPPED, "delta.checkpointInterval": "2"} if format == "delta" else {})}
    table = maker(format, local)("id BIGINT, part STRING, small INT", partition_by=(), properties=properties)
    table.append(rows((1, "a"), (2, "b")).append_column("small", pa.array([1, 2], pa.int32())))
    if format == "delta":
        table.alter().set_properties({"delta.feature.domainMetadata": "supported"}).commit()


def described() -> tuple[Any, ...]:
    """Return everything that a statement may change in a table, except names and times that differ each time."""
    table = now()
    [text] = lakescan.sql(f"SHOW CREATE TABLE {NAME}").to_arrow()[0].to_pylist()
    text = re.sub(r"LOCATION '[^']*'|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "", text)
    properties = {name: value for name, value in table.properties.items() if "olumnName" not in name}
    features = table.inspect("detail")["tableFeatures"].to_pylist() if table.format == "delta" else []
    return str(table.schema), text, properties, str(features), table.to_arrow().sort_by("id").to_pylist()


def commits() -> int:
    table = now()
    return len(table.history()) if table.format == "delta" else len(table.inspect("metadata_log_entries"))


@pytest.mark.slow
@pytest.mark.parametrize("works", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("format", "name"),
    [(each, name) for name, (of, _) in CHANGES.items() for each in ("iceberg", "delta") if of in ("both", each)],
)
def test_one_failing_call_leaves_the_table_unchanged_or_altered(
    format: str, name: str, works: bool, tmp_path: Path
) -> None:
    def act() -> None:
        CHANGES[name][1](now().alter()).commit()

    table_in(tmp_path / "lake", format)
    saved = SavedWarehouse(tmp_path / "lake")
    before, first = described(), commits()
    whole = Fault()
    with watched(format, whole):  # type: ignore[arg-type]
        act()
    after, made = described(), commits() - first
    assert (made, whole.calls > 1) == (1, True)
    for number in range(whole.calls):
        saved.restore()
        failure = None
        with watched(format, Fault(number, works=works)):  # type: ignore[arg-type]
            try:
                act()
            except (LakescanError, OSError) as error:
                failure = error
        found = described()
        if failure is None:
            assert found == after, number
        elif isinstance(failure, CommitStateUnknown):
            assert found in (before, after), number
        else:
            assert found == before, f"{number}: {failure}"
        if found == before:
            act()
            assert described() == after, number
        assert commits() == first + 1, number


def lost(owner: Any, name: str, meanwhile: Callable[[], object]) -> Any:
    """Carry out the first call and lose its answer; other writers change the table before the lookup."""
    real, calls = getattr(owner, name), []

    def call(*arguments: Any, **named: Any) -> Any:
        result = real(*arguments, **named)
        if not calls:
            calls.append(1)
            meanwhile()
            raise ConnectionError("the answer is lost")
        return result

    return patch.object(owner, name, call)


@pytest.mark.parametrize("format", ["iceberg", "delta"])
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (lambda t: t.add_column("n", "INT"), lambda t: t.drop_column("n")),
        (lambda t: t.add_column("n", "INT"), lambda t: t.rename_column("n", "m")),
        (lambda t: t.rename_column("part", "p"), lambda t: t.rename_column("p", "part")),
        (lambda t: t.set_properties({"owner": "me"}), lambda t: t.set_properties({"owner": "you"})),
        (lambda t: t.unset_properties("mark"), lambda t: t.set_properties({"mark": "y"})),
    ],
    ids=["added, dropped", "added, renamed", "renamed there and back", "set, set otherwise", "unset, set"],
)
def test_a_change_with_a_lost_answer_is_found_after_concurrent_commits(
    format: str, mine: Change, theirs: Change, tmp_path: Path
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    table_in(tmp_path / "t", format)
    first = commits()
    owner, name = (put, "put_if_absent") if format == "delta" else (SqlCatalog, "commit_table")
    with lost(owner, name, lambda: theirs(now().alter()).commit()):
        mine(now().alter()).commit()
    after = described()
    assert commits() == first + 2  # neither was applied twice
    table_in(tmp_path / "plain", format)
    mine(now().alter()).commit()
    theirs(now().alter()).commit()
    assert described() == after


STEPS: dict[str, tuple[dict[str, str], Callable[[], object]]] = {
    "deletionVectors": ({"delta.enableDeletionVectors": "true"}, lambda: now().delete("id = 2")),
    "columnMapping": (MAPPED, lambda: now().alter().rename_column("part", "p").commit()),
    "typeWidening": (MAPPED, lambda: now().alter().change_column("small", type="BIGINT").commit()),
    "v2Checkpoint": ({"delta.checkpointPolicy": "v2"}, lambda: now().checkpoint()),
}


STEPS_FROM = {feature: number for number, feature in enumerate(STEPS)}


def with_feature(folder: Path, feature: str) -> list[Any]:
    folder.mkdir()
    local = lakescan.catalog("local", warehouse=folder)
    local.create_namespace("db")
    properties, use = STEPS[feature]
    table = maker("delta", local)("id BIGINT, part STRING, small INT", partition_by=(), properties=properties)
    table.append(rows((1, "a"), (2, "b"), (3, "c")).append_column("small", pa.array([1, 2, 3], pa.int32())))
    use()
    found: list[Any] = now().to_arrow().sort_by("id").to_pylist()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("works", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("feature", STEPS)
def test_a_feature_is_dropped_by_repeating_the_statement_that_failed(feature: str, works: bool, tmp_path: Path) -> None:
    def act() -> None:
        now().alter().drop_feature(feature).commit()

    with_feature(tmp_path / "dry", feature)
    whole = Fault()
    with watched("delta", whole):  # type: ignore[arg-type]
        act()
    for number in range(STEPS_FROM[feature], whole.calls, max(1, whole.calls // 12)):  # some: there are hundreds
        expected = with_feature(tmp_path / str(number), feature)
        failed = False
        with watched("delta", Fault(number, works=works)):  # type: ignore[arg-type]
            try:
                act()
            except (LakescanError, OSError):
                failed = True
        has = feature in now().inspect("detail")["tableFeatures"][0].as_py()
        assert now().to_arrow().sort_by("id").to_pylist() == expected, number
        assert has <= failed, number
        if has:
            act()
        assert feature not in now().inspect("detail")["tableFeatures"][0].as_py()
        assert now().to_arrow().sort_by("id").to_pylist() == expected, number
