"""A law of removal: after any writes, refs, rollbacks, expiry and removal, each kept state is complete."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.catalogs.registry import connection
from tests.tables.aged import folder_of, make_old, write_stray_files
from tests.tables.support import maker, now, rows

NUMBER = st.integers(0, 7)
OF_BOTH = {
    "append": st.sampled_from(["main", "b"]),
    "overwrite": st.sampled_from(["main", "b"]),
    "compact": st.none(),
    "remove": st.booleans(),
}
OF_ICEBERG = {
    "add": st.sampled_from(["//", "/./", "/x/../", "file:"]),
    "branch": NUMBER,
    "tag": NUMBER,
    "forget": NUMBER,
    "rollback": NUMBER,
    "stage": st.none(),
    "expire": st.integers(1, 3),
}


def steps_of(kinds: dict[str, Any]) -> Any:
    return st.lists(st.one_of(*(st.tuples(st.just(name), of) for name, of in kinds.items())), min_size=3, max_size=9)


class History:
    """A table, and the rows of each of its states, by snapshot id or version."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count, self.states = folder, 0, dict[int, list[int]]()

    def new(self) -> pa.Table:
        self.count += 1
        return rows((self.count, "ab"[self.count % 2]))

    def check(self) -> None:
        """Check that all kept states are unchanged, and that no unexpected state exists."""
        kept = self.kept()
        for state in kept:
            found = sorted(now().scan().as_of(version=state).to_arrow()["id"].to_pylist())
            assert found == self.states.setdefault(state, found)
        assert kept

    def kept(self) -> list[int]:
        raise NotImplementedError

    def remove(self, with_strays: bool) -> None:
        """Age everything, then remove orphans: exactly the unreferenced files are deleted."""
        location = folder_of(now().scan().spec.table.location)
        strays = [location / "data" / "part=a" / "stray", location / "data" / "stray.parquet"] if with_strays else []
        write_stray_files(*strays)
        make_old(self.folder)
        now().remove_orphans()
        assert not any(each.exists() for each in strays)

    def compact(self, _: None) -> None:
        now().compact()

    def do(self, name: str, value: Any) -> None:
        getattr(self, name)(value)
        self.check()


class DeltaHistory(History):
    def kept(self) -> list[int]:
        return list(range(1, now().scan().snapshot.id + 1))

    def append(self, _: str) -> None:
        now().append(self.new())

    def overwrite(self, _: str) -> None:
        new = self.new()
        now().overwrite(new, where=f"part = '{'ab'[self.count % 2]}'")


class IcebergHistory(History):
    @property
    def theirs(self) -> Any:
        return connection("local").load_table("db.t")

    def _id(self, number: int) -> int:
        snapshots = self.theirs.metadata.snapshots
        return snapshots[number % len(snapshots)].snapshot_id

    def kept(self) -> list[int]:
        metadata = self.theirs.metadata
        for ref in metadata.refs.values():
            assert metadata.snapshot_by_id(ref.snapshot_id) is not None
        return [each.snapshot_id for each in metadata.snapshots]

    def append(self, branch: str) -> None:
        now().append(self.new(), branch=branch)

    def overwrite(self, branch: str) -> None:
        new = self.new()
        now().overwrite(new, where=f"part = '{'ab'[self.count % 2]}'", branch=branch)

    def add(self, spelling: str) -> None:
        """Add a file of another writer under another spelling of its location."""
        file = folder_of(self.theirs.metadata.location) / "data" / f"added-{self.count}.parquet"
        pq.write_table(self.new(), file)
        odd = f"file:{file}" if spelling == "file:" else f"{file.parent}{spelling}{file.name}"
        self.theirs.add_files([odd])

    def branch(self, number: int) -> None:
        self._name(number, lambda changes, name: changes.create_branch(self._id(number), f"b{name}"))

    def tag(self, number: int) -> None:
        self._name(number, lambda changes, name: changes.create_tag(self._id(number), f"t{name}"))

    def _name(self, number: int, make: Any) -> None:
        self.count += 1
        make(self.theirs.manage_snapshots(), self.count).commit()

    def forget(self, number: int) -> None:
        """Drop a branch or tag."""
        names = sorted(name for name in self.theirs.metadata.refs if name != "main")
        if names:
            name = names[number % len(names)]
            changes, kind = self.theirs.manage_snapshots(), self.theirs.metadata.refs[name].snapshot_ref_type
            (changes.remove_branch if kind == "branch" else changes.remove_tag)(name).commit()

    def rollback(self, number: int) -> None:
        line = list(self.theirs.metadata.refs)
        ancestors, at = [], self.theirs.current_snapshot()
        while at is not None:
            ancestors.append(at.snapshot_id)
            at = None if at.parent_snapshot_id is None else self.theirs.snapshot_by_id(at.parent_snapshot_id)
        assert "main" in line
        self.theirs.manage_snapshots().rollback_to_snapshot(ancestors[number % len(ancestors)]).commit()

    def stage(self, _: None) -> None:
        """Stage a snapshot outside of all branches, as write-audit-publish does."""
        with self.theirs.transaction() as transaction:
            transaction.append(self.new(), branch=None)

    def expire(self, retain_last: int) -> None:
        before = self.kept()
        heads = {ref.snapshot_id for ref in self.theirs.metadata.refs.values()}
        time.sleep(0.002)
        now().expire_snapshots("2100-01-01", retain_last=retain_last)
        assert heads <= set(self.kept()) <= set(before)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3", "delta"])
@pytest.mark.parametrize("partition_by", [(), ("part",)])
def test_each_kept_state_is_complete(kind: str, partition_by: tuple[str, ...]) -> None:
    kinds = OF_BOTH if kind == "delta" else OF_BOTH | OF_ICEBERG
    if kind.endswith("3"):
        kinds = {name: of for name, of in kinds.items() if name not in ("add", "stage")}  # pyiceberg cannot write it

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps_of(kinds))
    def check(steps: list[tuple[str, Any]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            local = lakescan.catalog("local", warehouse=folder)
            local.create_namespace("db")
            maker(kind, local)(partition_by=partition_by)
            history = (DeltaHistory if kind == "delta" else IcebergHistory)(Path(os.fspath(folder)))
            history.do("append", "main")
            for name, value in [*steps, ("remove", True)]:
                history.do(name, value)

    check()
