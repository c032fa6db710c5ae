"""Commits that rewrite rows of a Delta table: the change feed has exactly the changed rows, and rows keep their ids."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.delta_deletes import commit_vectors, inline_vector

import lakescan
from lakescan.delta.commit import commit as commits
from lakescan.options.write import WriteOptions
from lakescan.tables.base import OverwriteScope
from lakescan.tables.copy_on_write import as_removed_files
from lakescan.writing.parquet_writer import write_rows
from tests.support.delta_row_changes import delete, target_of
from tests.support.delta_state import newest_version
from tests.support.two_commits import save_in_two_commits
from tests.tables.support import rows

FEED = {"delta.enableChangeDataFeed": "true"}
IDS = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
A, B, C, D = (1, "a"), (2, "a"), (3, "b"), (4, None)


def made(folder: Path, properties: dict[str, str], by: str | None = None) -> lakescan.Table:
    """Make a table with the rows A to D, in one file or in one per partition."""
    more = {} if by is None else {"partition_by": by}
    save_in_two_commits(rows(A, B, C, D), folder, format="delta", properties=properties, **more)
    return lakescan.table(folder)


def changes(folder: Path, version: int | None = None) -> list[tuple[str, int]]:
    """Return the kind and the id of each row change of a version, by default the newest."""
    version = newest_version(folder) if version is None else version
    found = lakescan.table(folder).changes(start=version - 1, end=version).to_arrow()
    return sorted((row["_change_type"], row["id"]) for row in found.to_pylist())


def actions(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the actions of one name in the newest commit."""
    lines = (folder / "_delta_log" / f"{newest_version(folder):020d}.json").read_text().splitlines()
    return [json.loads(line)[name] for line in lines if name in json.loads(line)]


def change_files(folder: Path) -> list[Path]:
    return sorted((folder / "_change_data").rglob("*.parquet"))


def lineage(folder: Path) -> dict[int, tuple[int, int]]:
    """Return the row id and the version that wrote it, for each row by its column `id`."""
    found = lakescan.table(folder).scan().select("id", "_row_id", "_row_commit_version").to_arrow().to_pylist()
    return {row["id"]: (row["_row_id"], row["_row_commit_version"]) for row in found}


@pytest.mark.parametrize("by", [None, "part"])
@pytest.mark.parametrize("properties", [FEED, FEED | MAPPED, FEED | IDS | MAPPED], ids=["", "mapped", "mapped, ids"])
def test_rows_that_only_move_are_not_changes(tmp_path: Path, properties: dict[str, str], by: str | None) -> None:
    table = made(tmp_path, properties, by)
    table.overwrite(rows((2, "a"), (2, "c")), where="id = 2 OR id = 4")
    assert changes(tmp_path) == [("delete", 2), ("delete", 4), ("insert", 2), ("insert", 2)]
    assert sorted(lakescan.table(tmp_path).to_arrow()["id"].to_pylist()) == [1, 2, 2, 3]


@pytest.mark.parametrize("by", [None, "part"])
def test_deltalake_reads_the_same_changes(tmp_path: Path, by: str | None) -> None:
    made(tmp_path, FEED, by).overwrite(rows((2, "a"), (2, "c")), where="id = 2 OR id = 4")
    found = pa.table(DeltaTable(tmp_path).load_cdf(starting_version=newest_version(tmp_path))).to_pylist()
    assert sorted((row["_change_type"], row["id"]) for row in found) == changes(tmp_path)


@pytest.mark.parametrize("properties", [FEED, FEED | MAPPED], ids=["by name", "mapped"])
def test_change_files_follow_the_protocol(tmp_path: Path, properties: dict[str, str]) -> None:
    made(tmp_path, properties, "part").overwrite(rows(), where="id = 2 OR id = 3")
    cdc, files = actions(tmp_path, "cdc"), change_files(tmp_path)
    assert {each["path"] for each in cdc} == {str(file.relative_to(tmp_path)) for file in files}
    assert all(set(each) == {"path", "partitionValues", "size", "dataChange"} for each in cdc)
    assert all((tmp_path / each["path"]).stat().st_size == each["size"] and not each["dataChange"] for each in cdc)
    values = [each["partitionValues"] for each in cdc]
    assert sorted(tuple(value.values()) for value in values) == [("a",), ("b",)]
    assert {name for value in values for name in value} == {
        name for e in actions(tmp_path, "add") for name in e["partitionValues"]
    }
    (data,) = (tmp_path / each["path"] for each in actions(tmp_path, "add"))
    assert pq.read_schema(files[0]).names == [*pq.read_schema(data).names, "_change_type"]
    if properties is FEED:
        assert [file.parent.name for file in files] == ["part=a", "part=b"]


@pytest.mark.parametrize(
    "replace",
    [
        lambda table: table.overwrite(rows((9, "a")), where="part = 'a'"),
        lambda table: table.overwrite(rows((9, "a")), overwrite_mode="dynamic"),
        lambda table: table.overwrite(rows((9, "a"))),
        lambda table: table.append(rows((9, "a"))),
        lambda table: table.compact(),
    ],
    ids=["where", "dynamic", "all", "append", "compact"],
)
def test_commits_of_whole_files_need_no_change_files(tmp_path: Path, replace: Callable[[Any], object]) -> None:
    table = made(tmp_path, FEED, "part")
    table.append(rows((5, "a")))
    before = set(table.to_arrow()["id"].to_pylist())
    replace(table)
    after = set(lakescan.table(tmp_path).to_arrow()["id"].to_pylist())
    gone, new = before - after, after - before
    assert changes(tmp_path) == [
        *(("delete", each) for each in sorted(gone)),
        *(("insert", each) for each in sorted(new)),
    ]
    assert change_files(tmp_path) == []


def test_an_overwrite_that_finds_no_row_changes_none(tmp_path: Path) -> None:
    save_in_two_commits(rows(A, C), tmp_path, format="delta", properties=FEED)
    lakescan.table(tmp_path).overwrite(rows(), where="id = 2")  # the file may have the column
    assert changes(tmp_path) == []
    assert not any(each["dataChange"] for name in ("add", "remove") for each in actions(tmp_path, name))
    assert lakescan.table(tmp_path).scan().count() == 2


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another writer act just before the next commit is put."""
    real, others = commits.put_commit, [act]

    def put(*arguments: Any) -> Any:
        if others:
            others.pop()()
        return real(*arguments)

    monkeypatch.setattr(commits, "put_commit", put)


def test_an_overwrite_that_found_no_row_finds_concurrently_added_rows(tmp_path: Path, monkeypatch) -> None:
    save_in_two_commits(rows(A, C), tmp_path, format="delta", properties=FEED)
    meanwhile(monkeypatch, lambda: lakescan.table(tmp_path).append(rows(B)))
    lakescan.table(tmp_path).overwrite(rows(), where="id = 2")
    assert sorted(lakescan.table(tmp_path).to_arrow()["id"].to_pylist()) == [1, 3]
    assert changes(tmp_path) == [("delete", 2)]
    assert len(change_files(tmp_path)) == 1


def test_changes_are_of_any_kind(tmp_path: Path) -> None:
    target = made(tmp_path, FEED)._target(WriteOptions())
    assert target.change_files is not None
    kinds = pa.chunked_array([["update_preimage", "update_postimage"]])
    images = rows(A, (1, "new")).append_column("_change_type", kinds)
    changed = write_rows(target.change_files.writes, images.to_batches(), "images")
    new = write_rows(target.writes, rows((1, "new"), B, C, D).to_batches(), "rows")
    target.replace(as_removed_files(target.scan.plan().table), new, OverwriteScope(), changed)
    assert changes(tmp_path) == [("update_postimage", 1), ("update_preimage", 1)]


def test_change_files_of_a_commit_that_failed_are_removed(tmp_path: Path, monkeypatch) -> None:
    table = made(tmp_path, FEED)
    before = sorted(tmp_path.rglob("*.parquet"))

    def put(*_: Any) -> bool:
        assert change_files(tmp_path)
        raise lakescan.UnsupportedFeature("stores without atomic creation")

    monkeypatch.setattr(commits, "put_commit", put)
    with pytest.raises(lakescan.UnsupportedFeature, match="atomic creation"):
        table.overwrite(rows((2, "x")), where="id = 2")
    assert sorted(tmp_path.rglob("*.parquet")) == before


def test_unreferenced_change_files_are_orphans(tmp_path: Path) -> None:
    made(tmp_path, FEED, "part").overwrite(rows(), where="id = 2")
    (named,) = change_files(tmp_path)
    left = named.with_name("cdc-left.parquet")
    left.write_bytes(named.read_bytes())
    found = lakescan.table(tmp_path).remove_orphans(older_than="2100-01-01", dry_run=True)
    assert {Path(each).name for each in found} & {named.name, left.name} == {left.name}


@pytest.mark.parametrize("more", [{}, FEED, MAPPED, FEED | MAPPED], ids=["", "feed", "mapped", "feed, mapped"])
def test_rows_that_move_keep_their_ids(tmp_path: Path, more: dict[str, str]) -> None:
    table = made(tmp_path, IDS | more)
    table.append(rows((5, "c")))
    before = lineage(tmp_path)
    table.overwrite(rows((2, "c")), where="id = 2")
    after = lineage(tmp_path)
    assert {each: after[each] for each in (1, 3, 4, 5)} == {each: before[each] for each in (1, 3, 4, 5)}
    assert after[2] == (max(row for row, _ in after.values()), newest_version(tmp_path))
    assert after[2][0] > max(row for row, _ in before.values())
    assert table.compact().removed_files == 3
    assert lineage(tmp_path) == after
    assert lakescan.table(tmp_path).to_arrow().column_names == ["id", "part"]
    assert actions(tmp_path, "commitInfo")[0]["tags"] == {"delta.rowTracking.preserved": "true"}
    assert set(json.loads(actions(tmp_path, "add")[0]["stats"])["nullCount"]) == set(
        json.loads(first_add(tmp_path)["stats"])["nullCount"]
    )


@pytest.mark.parametrize(
    "move",
    [lambda table: table.compact(), lambda table: table.overwrite(rows(), where="id = 1")],
    ids=["compact", "cut"],
)
def test_no_row_id_is_assigned_twice_if_rows_are_added_while_others_move(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, move: Callable[[Any], object]
) -> None:
    table = made(tmp_path, IDS)
    table.append(rows((5, "c")))
    before = lineage(tmp_path)
    meanwhile(monkeypatch, lambda: lakescan.table(tmp_path).append(rows((6, "d"))))
    move(table)
    after = lineage(tmp_path)
    assert after.keys() | {1} == {1, 2, 3, 4, 5, 6}
    assert {each: after[each] for each in after if each != 6} == {each: before[each] for each in after if each != 6}
    assert after[6][0] > max(row_id for row_id, _ in before.values())
    lakescan.table(tmp_path).append(rows((7, "e")))
    assert lineage(tmp_path)[7][0] > after[6][0]


def first_add(folder: Path) -> dict[str, Any]:
    lines = (folder / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    return next(json.loads(line)["add"] for line in lines if "add" in json.loads(line))


def changed(folder: Path, *replacements: tuple[str, str]) -> None:
    """Replace texts in the first commit."""
    first = folder / "_delta_log" / f"{0:020d}.json"
    text = first.read_text()
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    first.write_text(text)


SUSPENDED = '"delta.rowTrackingSuspended":"true","delta.enableRowTracking":"true"'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("materializedRowIdColumnName", "other", "has no columns for ids"),
        ('"delta.enableRowTracking":"true"', SUSPENDED, "enabled and suspended"),
    ],
)
def test_rows_whose_ids_cannot_be_stored_are_not_moved(tmp_path: Path, old: str, new: str, message: str) -> None:
    table = made(tmp_path, IDS)
    table.append(rows((5, "c")))
    changed(tmp_path, (old, new))
    for change in (lambda: table.compact(), lambda: table.overwrite(rows(), where="id = 1")):
        with pytest.raises(lakescan.UnsupportedFeature, match=message):
            change()
    assert lakescan.table(tmp_path).scan().count() == 5


def test_new_rows_get_no_ids_while_row_tracking_is_suspended(tmp_path: Path) -> None:
    made(tmp_path, IDS)
    changed(tmp_path, ('"delta.enableRowTracking":"true"', SUSPENDED.replace('g":"true"', 'g":"false"')))
    lakescan.table(tmp_path).append(rows((5, "c")))
    assert "baseRowId" not in actions(tmp_path, "add")[0]
    assert actions(tmp_path, "domainMetadata") == []


@pytest.mark.parametrize("name", ["_row_id", "_Row_Commit_version"])
def test_a_column_named_like_one_of_row_tracking_is_not_overwritten(tmp_path: Path, name: str) -> None:
    own = pa.table({"id": [1, 2], name: [7, 8]})
    save_in_two_commits(own, tmp_path, format="delta", properties=IDS)
    lakescan.table(tmp_path).overwrite(own.slice(0, 0), where="id = 1")
    assert lakescan.table(tmp_path).to_arrow().to_pylist() == [{"id": 2, name: 8}]


Row = tuple[int, int, str | None]  # a unique number, id and partition
SCHEMA = pa.schema([("n", pa.int64()), ("id", pa.int64()), ("part", pa.string())])
IDENTIFIERS, PARTS = st.integers(0, 3), st.sampled_from(["a", "b", None])
NEW = st.lists(st.tuples(IDENTIFIERS, PARTS), max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("append"), NEW),
    st.tuples(st.just("where"), IDENTIFIERS, st.lists(PARTS, max_size=2)),
    st.tuples(st.just("dynamic"), NEW),
    st.tuples(st.just("all"), NEW),
    st.tuples(st.just("delete"), IDENTIFIERS),
    st.tuples(st.just("mark"), IDENTIFIERS),
    st.tuples(st.just("compact")),
)


class History:
    """A table with all features that follow rows, and its expected content."""

    def __init__(self, folder: Path, mapped: bool, partitioned: bool) -> None:
        self.folder, self.partitioned = folder, partitioned
        properties = FEED | IDS | {"delta.enableDeletionVectors": "true"} | (MAPPED if mapped else {})
        by = {"partition_by": "part"} if partitioned else {}
        save_in_two_commits(SCHEMA.empty_table(), folder, format="delta", properties=properties, **by)
        self.rows: list[Row] = []
        self.marked: dict[str, set[int]] = {}  # deleted positions, by path
        self.ids: dict[int, tuple[int, int]] = {}
        self.numbers = iter(range(10**6))

    def take(self, step: tuple[Any, ...]) -> None:
        """Take a step, then check the table and its change feed."""
        before, version = set(self.rows), newest_version(self.folder)
        getattr(self, f"_{step[0]}")(*step[1:])
        table = lakescan.table(self.folder)
        assert sorted(map(repr, self._tuples(table.to_arrow()))) == sorted(map(repr, self.rows))
        self._check_ids(table)
        if newest_version(self.folder) == version:
            assert set(self.rows) == before
            return
        found = table.changes(start=version).to_arrow()
        for kind, expected in (("delete", before - set(self.rows)), ("insert", set(self.rows) - before)):
            rows_of_kind = found.filter(pa.compute.equal(found["_change_type"], kind))
            assert sorted(map(repr, self._tuples(rows_of_kind))) == sorted(map(repr, expected))
        assert found.num_rows == len(before ^ set(self.rows))

    def _check_ids(self, table: lakescan.Table) -> None:
        found = table.scan().select("n", "_row_id", "_row_commit_version").to_arrow().to_pylist()
        for row in found:
            now = (row["_row_id"], row["_row_commit_version"])
            assert self.ids.setdefault(row["n"], now) == now
        assert len({row_id for row_id, _ in self.ids.values()}) == len(self.ids)

    def _tuples(self, table: pa.Table) -> list[Row]:
        return [(row["n"], row["id"], row["part"]) for row in table.to_pylist()]

    def _new(self, values: list[tuple[int, str | None]]) -> tuple[list[Row], pa.Table]:
        new = [(next(self.numbers), *each) for each in values]
        return new, pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in new], SCHEMA)

    def _append(self, values: list[tuple[int, str | None]]) -> None:
        new, data = self._new(values)
        lakescan.table(self.folder).append(data)
        self.rows += new

    def _where(self, number: int, parts: list[str | None]) -> None:
        new, data = self._new([(number, part) for part in parts])
        lakescan.table(self.folder).overwrite(data, where=f"id = {number}")
        self.rows = [row for row in self.rows if row[1] != number] + new

    def _dynamic(self, values: list[tuple[int, str | None]]) -> None:
        if not self.partitioned:
            return self._all(values)
        new, data = self._new(values)
        lakescan.table(self.folder).overwrite(data, overwrite_mode="dynamic")
        parts = {part for _, part in values}
        self.rows = [row for row in self.rows if row[2] not in parts] + new
        return None

    def _all(self, values: list[tuple[int, str | None]]) -> None:
        new, data = self._new(values)
        lakescan.table(self.folder).overwrite(data)
        self.rows = new

    def _delete(self, number: int) -> None:
        """Delete rows as another writer would, by inline deletion vectors."""
        if paths := self._found(number):
            commit_vectors(self.folder, {path: inline_vector(sorted(self.marked[path])) for path in paths})
        self.rows = [row for row in self.rows if row[1] != number]

    def _mark(self, number: int) -> None:
        """Delete rows by deletion vectors that lakescan writes."""
        if self._found(number):
            delete(target_of(self.folder), f"id = {number}")
        self.rows = [row for row in self.rows if row[1] != number]

    def _found(self, number: int) -> set[str]:
        """Return the files with rows of this id, and record the positions of these rows as deleted."""
        hits = lakescan.table(self.folder).scan().where(f"id = {number}").select("_file", "_pos").to_arrow().to_pylist()
        for row in hits:
            self.marked.setdefault(row["_file"].rpartition(f"{self.folder}/")[2], set()).add(row["_pos"])
        return {row["_file"].rpartition(f"{self.folder}/")[2] for row in hits}

    def _compact(self) -> None:
        lakescan.table(self.folder).compact()


@pytest.mark.parametrize("mapped", [False, True], ids=["by name", "mapped"])
@pytest.mark.parametrize("partitioned", [False, True], ids=["whole", "partitioned"])
def test_changes_lead_from_state_to_state_and_rows_keep_their_ids(mapped: bool, partitioned: bool) -> None:
    @settings(max_examples=10, deadline=None)
    @given(steps=st.lists(STEPS, min_size=2, max_size=6))
    def holds(steps: list[tuple[Any, ...]]) -> None:
        with TemporaryDirectory() as folder:
            history = History(Path(folder) / "t", mapped, partitioned)
            for step in steps:
                history.take(step)

    holds()
