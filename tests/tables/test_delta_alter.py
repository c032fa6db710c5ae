"""Changes of a Delta table with concurrent writers, and in any order with writes: the table equals a model."""

from __future__ import annotations

import shutil
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.common import types as t
from lakescan.definition.table_changes import AddColumn, AddConstraint, ChangeColumn, SetProperties, TableChange
from lakescan.delta.commit import commit_file as put
from lakescan.delta.target import DeltaTarget
from lakescan.options.write import WriteOptions
from lakescan.storage import Storage
from tests.support.delta_state import newest_version, state
from tests.support.two_commits import save_in_two_commits

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "text": ["a", "b"]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_in_two_commits(ROWS, tmp_path / "t", format="delta")
    return tmp_path / "t"


def opened(folder: Path) -> DeltaTarget:
    return DeltaTarget.open(str(folder), WriteOptions(), Storage())


def add(name: str) -> AddColumn:
    return AddColumn((), t.Field(0, name, t.INT))


def test_a_change_is_rebased_onto_concurrent_appends(folder: Path) -> None:
    target = opened(folder)
    lakescan.table(folder).append(ROWS)
    target.alter([add("n")])
    assert lakescan.table(folder).schema.names == ["id", "text", "n"]
    assert lakescan.table(folder).count() == 4


def test_concurrent_changes_are_kept(folder: Path) -> None:
    target = opened(folder)
    lakescan.table(folder).alter().add_column("m", "INT").set_properties({"owner": "a"}).commit()
    target.alter([add("n")])
    assert lakescan.table(folder).schema.names == ["id", "text", "m", "n"]
    assert lakescan.table(folder).properties == {"owner": "a"}


def test_a_concurrently_made_change_is_refused_as_a_repetition(folder: Path) -> None:
    target = opened(folder)
    lakescan.table(folder).alter().add_column("n", "STRING").commit()
    with pytest.raises(lakescan.InvalidOption, match="already has a column n"):
        target.alter([add("n")])


def test_concurrently_appended_rows_are_checked(folder: Path) -> None:
    target = opened(folder)
    _ = target.version
    lakescan.table(folder).append(pa.table({"id": pa.array([-1], pa.int32()), "text": [None]}, ROWS.schema))
    with pytest.raises(lakescan.InvalidOption, match="1 rows violate"):
        target.alter([AddConstraint("c", "id > 0")])
    with pytest.raises(lakescan.InvalidOption, match="which has nulls"):
        target.alter([ChangeColumn(("text",), required=True)])
    lakescan.table(folder).delete("id < 0")
    target.alter([AddConstraint("c", "id > 0"), ChangeColumn(("text",), required=True)])


def test_concurrently_added_files_get_row_ids(folder: Path) -> None:
    target = opened(folder)
    lakescan.table(folder).append(ROWS)
    lakescan.table(folder).compact(min_input_files=1, rewrite_all=True)
    target.alter([SetProperties({"delta.enableRowTracking": "true"})])
    found = lakescan.table(folder).scan().select("_row_id").to_arrow()["_row_id"].to_pylist()
    assert sorted(found) == [0, 1, 2, 3]


def test_a_recreated_table_is_not_changed(folder: Path) -> None:
    table = lakescan.table(folder)
    save_in_two_commits(
        ROWS.rename_columns(["x", "y"]), folder, format="delta", mode="overwrite", overwrite_schema=True
    )
    shutil.rmtree(folder)
    save_in_two_commits(ROWS, folder, format="delta")
    with pytest.raises(lakescan.CommitConflict):
        table.alter().add_column("n", "INT").commit()


def test_concurrent_appends_and_changes_are_all_kept(folder: Path) -> None:
    def append() -> None:
        for _ in range(5):
            lakescan.table(folder).append(ROWS, merge_schema=True)

    def change(name: str) -> None:
        for n in range(4):
            lakescan.table(folder).alter().add_column(f"{name}{n}", "INT").commit()

    failures: list[BaseException] = []

    def run(work: Any, *given: Any) -> None:
        try:
            work(*given)
        except lakescan.CommitConflict as error:  # the user must repeat an append to concurrently changed columns
            failures.append(error)

    threads = [threading.Thread(target=run, args=each) for each in ((append,), (change, "a"), (change, "b"))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    names = lakescan.table(folder).schema.names
    assert sorted(names[2:]) == sorted(f"{each}{n}" for each in "ab" for n in range(4))
    assert all("columns or properties" in str(each) for each in failures)
    assert lakescan.table(folder).count() == lakescan.table(folder).to_arrow().num_rows


@dataclass
class Model:
    """A table of whole numbers: its columns by name, in order, whether each is long, and its rows."""

    columns: dict[str, bool] = field(default_factory=lambda: {"c0": False})
    rows: list[dict[str, int | None]] = field(default_factory=list)
    made: int = 1

    def new_name(self) -> str:
        self.made += 1
        return f"c{self.made}"


STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3)),
    st.tuples(st.just("add"), st.sampled_from(["first", "last", "after"])),
    st.tuples(st.just("drop"), st.integers(0, 9)),
    st.tuples(st.just("rename"), st.integers(0, 9)),
    st.tuples(st.just("reuse"), st.integers(0, 9)),
    st.tuples(st.just("widen"), st.integers(0, 9)),
    st.tuples(st.just("move"), st.integers(0, 9)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("compact"), st.just(0)),
    st.tuples(st.just("track"), st.just(0)),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STEP, min_size=1, max_size=14), st.booleans())
def test_changes_and_writes_in_any_order_equal_a_model(steps: list[tuple[str, Any]], at_once: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t"
        save_in_two_commits(pa.table({"c0": pa.array([], pa.int32())}), path, format="delta")
        table, model, value = lakescan.table(path), Model(), 0
        table.alter().set_properties({"delta.columnMapping.mode": "name", "delta.enableTypeWidening": True}).commit()
        pending = table.alter()
        for step, what in steps:
            names = list(model.columns)
            name = names[what % len(names)] if isinstance(what, int) else names[0]
            if step in ("append", "delete", "compact", "track") and at_once:
                pending = committed(table, pending)
            match step:
                case "append":
                    new: list[dict[str, int | None]] = []
                    for _ in range(what):
                        value += 1
                        new.append({each: value + (2**40 if is_long else 0) for each, is_long in model.columns.items()})
                    kinds = [(each, pa.int64() if is_long else pa.int32()) for each, is_long in model.columns.items()]
                    table.append(pa.Table.from_pylist(new, pa.schema(kinds)))
                    model.rows += new
                case "add":
                    added = model.new_name()
                    after = names[-1] if what == "after" else None
                    pending = pending.add_column(added, "INT", first=what == "first", after=after)
                    entry = {added: False}
                    model.columns = {**entry, **model.columns} if what == "first" else {**model.columns, **entry}
                    model.rows = [{**row, added: None} for row in model.rows]
                case "drop" if len(names) > 1:
                    pending = pending.drop_column(name)
                    del model.columns[name]
                    model.rows = [{n: v for n, v in row.items() if n != name} for row in model.rows]
                case "rename":
                    renamed = model.new_name()
                    pending = pending.rename_column(name, renamed)
                    model.columns = {renamed if n == name else n: v for n, v in model.columns.items()}
                    model.rows = [{renamed if n == name else n: v for n, v in row.items()} for row in model.rows]
                case "reuse" if len(names) > 1:  # another column of a dropped name
                    pending = pending.drop_column(name).add_column(name, "INT")
                    del model.columns[name]
                    model.columns[name] = False
                    model.rows = [{**row, name: None} for row in model.rows]
                case "widen":
                    pending = pending.change_column(name, type="BIGINT")
                    model.columns[name] = True
                case "move":
                    pending = pending.change_column(name, first=True)
                    model.columns = {name: model.columns[name], **model.columns}
                case "delete":
                    table.delete(f"{name} = {value}")
                    model.rows = [row for row in model.rows if row[name] != value]
                case "compact":
                    table.compact(rewrite_all=True, min_input_files=1)
                case "track":
                    table.alter().set_properties({"delta.enableRowTracking": True}).commit()
            if not at_once:
                pending = committed(table, pending)
        committed(table, pending)
        found = table.to_arrow()
        assert found.schema.names == list(model.columns)
        assert [each == pa.int64() for each in found.schema.types] == list(model.columns.values())
        order = list(model.columns)
        assert sorted(map(repr, found.to_pylist())) == sorted(repr({n: row[n] for n in order}) for row in model.rows)


def committed(table: lakescan.Table, pending: Any) -> Any:
    """Commit the pending changes, if any, and return a new builder."""
    if "(" in repr(pending) and repr(pending) != "AlterBuilder()":
        pending.commit()
    return table.alter()


def test_a_commit_whose_answer_was_lost_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, calls = put.put_if_absent, iter([True])

    def lost(storage: Storage, location: str, data: bytes) -> bool:
        made = whole(storage, location, data)
        if location.endswith(".json") and next(calls, False):
            raise TimeoutError("no answer")
        return made

    monkeypatch.setattr(put, "put_if_absent", lost)
    changes: list[TableChange] = [add("n")]
    opened(folder).alter(changes)
    assert newest_version(folder) == 2
    assert "n" in state(folder)[1].schema_string
