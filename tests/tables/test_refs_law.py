"""Branches, tags and their snapshots equal a model, after any sequence of operations."""

from __future__ import annotations

import itertools
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import lakescan
from tests.tables.support import rows

MAIN = "main"
BRANCHES, TAGS = (MAIN, "a", "b"), ("t", "u")
_CATALOGS = itertools.count()
_EMPTY: frozenset[int] = frozenset()


class Refs(RuleBasedStateMachine):
    """The model: ids of rows, the parent and the appended ids of each snapshot; the snapshot of each name."""

    @initialize(version=st.sampled_from(["1", "2", "3"]))
    def made(self, version: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.catalog = f"refs{next(_CATALOGS)}"
        catalog = lakescan.catalog(self.catalog, warehouse=Path(self.folder.name, "lake"))
        catalog.create_namespace("db")
        self.name = f"{self.catalog}.db.t"
        catalog.create_table("db.t", "id BIGINT, part STRING", properties={"format-version": version})
        self.ids, self.next = dict[int, frozenset[int]](), 0
        self.parents, self.appended = dict[int, int | None](), dict[int, frozenset[int]]()
        self.picked = dict[int, int]()  # the source of each snapshot that was cherry-picked
        self.refs = dict[str, int]()
        self.appends(MAIN, 1)
        self.appends(MAIN, 1)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()

    @property
    def table(self) -> lakescan.Table:
        return lakescan.table(self.name)

    def _head(self, branch: str) -> int:
        return int(self.table.branches[branch].snapshot_id)

    def _moved(self, branch: str, ids: frozenset[int], appended: frozenset[int] = _EMPTY) -> None:
        """Record a new snapshot of a branch."""
        new = self._head(branch)
        assert new not in self.ids
        self.ids[new], self.parents[new], self.appended[new] = ids, self.refs.get(branch), appended
        self.refs[branch] = new

    def _line(self, snapshot: int | None) -> list[int]:
        """Return a snapshot and its existing ancestors."""
        found = []
        while snapshot in self.ids:
            found.append(snapshot)
            snapshot = self.parents[snapshot]
        return found

    @rule(branch=st.sampled_from(BRANCHES), count=st.integers(1, 2))
    def appends(self, branch: str, count: int) -> None:
        if branch not in self.refs and self.refs:
            return
        new = frozenset(range(self.next, self.next + count))
        self.next += count
        self.table.append(rows(*((each, "p") for each in sorted(new))), branch=branch)
        self._moved(branch, self.ids.get(self.refs.get(branch, -1), _EMPTY) | new, new)

    @rule(branch=st.sampled_from(BRANCHES), data=st.data())
    def deletes(self, branch: str, data: st.DataObject) -> None:
        if branch not in self.refs or not (there := sorted(self.ids[self.refs[branch]])):
            return
        gone = data.draw(st.sampled_from(there))
        lakescan.sql(f"DELETE FROM {self.name}.branch_{branch} WHERE id = {gone}")
        self._moved(branch, self.ids[self.refs[branch]] - {gone})

    @rule(name=st.sampled_from([*BRANCHES[1:], *TAGS]), data=st.data(), replace=st.booleans())
    def creates(self, name: str, data: st.DataObject, replace: bool) -> None:
        at = data.draw(st.sampled_from(list(self.ids)))
        create = self.table.create_tag if name in TAGS else self.table.create_branch
        if name in self.refs and not replace:
            with pytest.raises(lakescan.InvalidOption):
                create(name, version=at)
        else:
            create(name, version=at, replace=replace)
            self.refs[name] = at

    @rule(name=st.sampled_from([*BRANCHES[1:], *TAGS]))
    def drops(self, name: str) -> None:
        drop = self.table.drop_tag if name in TAGS else self.table.drop_branch
        if name in self.refs:
            drop(name)
            del self.refs[name]
        else:
            with pytest.raises(lakescan.NoSuchSnapshot):
                drop(name)

    @rule(branch=st.sampled_from(BRANCHES), to=st.sampled_from([*BRANCHES, *TAGS]))
    def fast_forwards(self, branch: str, to: str) -> None:
        if branch not in self.refs or to not in self.refs:
            return
        if self.refs[branch] in self._line(self.refs[to]):
            self.table.fast_forward(branch, to)
            self.refs[branch] = self.refs[to]
        else:
            with pytest.raises(lakescan.LakescanError):
                self.table.fast_forward(branch, to)

    @rule(data=st.data())
    def rolls_back(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(list(self.ids)))
        if at in self._line(self.refs[MAIN]):
            self.table.rollback(version=at)
            self.refs[MAIN] = at
        else:
            with pytest.raises(lakescan.LakescanError):
                self.table.rollback(version=at)

    @rule(data=st.data())
    def sets_current(self, data: st.DataObject) -> None:
        at = data.draw(st.sampled_from(list(self.ids)))
        self.table.set_current_snapshot(version=at)
        self.refs[MAIN] = at

    @rule(data=st.data())
    def cherry_picks(self, data: st.DataObject) -> None:
        """Cherry-pick a snapshot: an append can be picked once; a child of the current snapshot becomes current."""
        at = data.draw(st.sampled_from(list(self.ids)))
        now, line = self.refs[MAIN], self._line(self.refs[MAIN])
        had = {self.picked.get(each, each) for each in line}
        if self.parents[at] == now:
            self.table.cherry_pick(at)
            self.refs[MAIN] = at
        elif self.appended[at] and at not in had and at not in self.picked and not self.appended[at] & self.ids[now]:
            self.table.cherry_pick(at)
            self._moved(MAIN, self.ids[now] | self.appended[at], self.appended[at])
            self.picked[self.refs[MAIN]] = at
        elif not self.appended[at] or at in line:
            with pytest.raises(lakescan.LakescanError):
                self.table.cherry_pick(at)

    @rule()
    def expires(self) -> None:
        """Expire snapshots that no name leads to, and no others."""
        self.table.expire_snapshots(datetime.now(UTC) + timedelta(days=1), retain_last=1)
        left = set(self.table.inspect("snapshots")["snapshot_id"].to_pylist())
        assert set(self.refs.values()) == left
        for each in set(self.ids) - left:
            del self.ids[each]

    @invariant()
    def names_have_the_rows_of_the_model(self) -> None:
        if not hasattr(self, "refs"):
            return
        table = self.table
        found = {name: each.snapshot_id for name, each in {**table.branches, **table.tags}.items()}
        assert found == self.refs
        for name, at in self.refs.items():
            which: dict[str, Any] = {"tag": name} if name in TAGS else {"branch": name}
            ids = table.scan().as_of(**which).to_arrow()["id"].to_pylist()
            assert sorted(ids) == sorted(self.ids[at]), name
        assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(self.ids[self.refs[MAIN]])


Refs.TestCase.settings = settings(
    max_examples=12, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
)
test_names_equal_their_model = Refs.TestCase
