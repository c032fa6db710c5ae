"""Reopening a table reads only newer commits, and gives the same state as replaying the whole log."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.common.cache import CACHE
from lakescan.storage import Storage

_SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


class Log:
    """A Delta log without data files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.version = folder, -1
        self.live: set[str] = set()

    def replace(self, table: int) -> None:
        """Replace the table by another one in the same folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.version, self.live = -1, set()
        (self.folder / "_delta_log").mkdir(parents=True)
        self.commit({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, _metadata(table, "0"))

    def commit(self, *actions: dict[str, Any]) -> None:
        self.version += 1
        path = self.folder / "_delta_log" / f"{self.version:020}.json"
        path.write_text("\n".join(map(json.dumps, actions)))

    def add(self, *names: str) -> None:
        self.live |= set(names)
        self.commit(*({"add": _add(name)} for name in names))

    def remove(self, *names: str) -> None:
        self.live -= set(names)
        self.commit(*({"remove": {"path": name, "deletionTimestamp": 2**42, "dataChange": True}} for name in names))

    def paths(self, version: int | None = None) -> list[str]:
        return [name for name, _ in self.files(version)]

    def files(self, version: int | None = None) -> list[tuple[str, int | None]]:
        """Return the names of the live files, and their recorded row counts."""
        table = lakescan.table(str(self.folder), **({} if version is None else {"version_as_of": version}))
        files = table.scan().plan().files
        names = [path.rpartition("/")[2] for path in files["path"].to_pylist()]
        return list(zip(names, files["record_count"].to_pylist(), strict=True))


def _metadata(table: int, owner: str) -> dict[str, Any]:
    members = {"format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    members |= {"schemaString": json.dumps(_SCHEMA), "configuration": {"owner": owner}}
    return {"metaData": {"id": str(table), **members}}


# Statistics as different writers record them: none, with the row count first, or with it elsewhere.
_STATS = {"a": '{"numRecords":1}', "b": '{"tightBounds":true,"numRecords":2}', "c%20d": None}
_RECORDS = {"a": 1, "b": 2}


def _add(name: str) -> dict[str, Any]:
    add = {"path": name, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    return add | {"stats": _STATS.get(name)}


_NAMES = st.lists(st.sampled_from(["a", "b", "c%20d", "e%2525"]), min_size=1, max_size=3, unique=True)
_STEPS = st.one_of(
    st.tuples(st.just("add"), _NAMES),
    st.tuples(st.just("remove"), _NAMES),
    st.tuples(st.just("owner"), st.integers(1, 9)),
    st.tuples(st.sampled_from(["checkpoint", "read", "read before"]), st.none()),
    st.tuples(st.just("replace"), st.integers(1, 2)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_STEPS, max_size=20))
def test_any_history_read_step_by_step_equals_a_replay_of_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    log = Log(tmp_path_factory.mktemp("log") / "t")
    log.replace(0)
    owner = "0"
    for step, what in [*steps, ("read", None)]:
        match step:
            case "add":
                log.add(*what)
            case "remove":
                log.remove(*what)
            case "owner":
                owner = str(what)
                log.commit(_metadata(0, owner))
            case "checkpoint":
                lakescan.table(str(log.folder)).checkpoint()
            case "replace":
                log.replace(what)
                owner = "0"
            case "read before":
                log.paths(max(0, log.version - 2))
            case "read":
                found = log.files()
                assert lakescan.table(str(log.folder)).properties["owner"] == owner
                CACHE.clear()
                assert found == log.files()
                assert {name: rows for name, rows in found if rows is not None}.items() <= _RECORDS.items()
                assert {name for name, rows in found if rows is None}.isdisjoint(_RECORDS)
                assert {name for name, _ in found} == {
                    name.replace("%2525", "%25").replace("%20", " ") for name in log.live
                }


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of the log files that are read."""
    names: list[str] = []
    one = Storage.read

    def reading(self: Storage, path: str, *part: Any, **rest: Any) -> bytes:
        names.append(path.rpartition("/")[2])
        return one(self, path, *part, **rest)

    monkeypatch.setattr(Storage, "read", reading)
    return names


def test_reopening_a_table_reads_only_new_commits(tmp_path: Path, read: list[str]) -> None:
    log = Log(tmp_path / "t")
    log.replace(0)
    for number in range(20):
        log.add(f"f{number}")
    assert len(log.paths()) == 20
    log.add("new")
    log.remove("f3")
    read.clear()
    assert log.paths() == [f"f{number}" for number in range(20) if number != 3] + ["new"]
    assert {name for name in read if name.endswith(".json")} == {f"{n:020}.json" for n in (21, 22)}


def test_a_newer_checkpoint_is_not_read_if_the_state_before_it_is_cached(tmp_path: Path, read: list[str]) -> None:
    log = Log(tmp_path / "t")
    log.replace(0)
    log.add("a")
    log.paths()
    log.add("b")
    lakescan.table(str(log.folder)).checkpoint()
    log.add("c")
    before = log.paths()
    log.add("d")
    read.clear()
    assert log.paths() == [*before, "d"]
    assert {name for name in read if name.startswith("0")} == {f"{4:020}.json", f"{4:020}.crc"}
