"""Two concurrent writers: the table is as if one ran after the other, or one of them is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.api.rows import as_rows
from lakescan.expressions.bind import bind
from lakescan.expressions.sql import parse_filter
from lakescan.iceberg.commit.conflicts import Validation
from lakescan.iceberg.commit.file_changes import SnapshotChanges, added_files
from lakescan.maintenance import compact
from lakescan.options.write import WriteOptions
from lakescan.tables.write_rows import append_rows, overwrite_rows
from lakescan.writing.parquet_writer import write_rows
from tests.support import row_deltas
from tests.tables.support import Row, maker, now, pairs, rows

pytestmark = pytest.mark.usefixtures("no_other_catalogs")

NO_OPTIONS = WriteOptions()
PARTS = ("a", "b")


@dataclass(frozen=True)
class Change:
    """What a transaction changes: the rows with an `id` in a range and in one part."""

    kind: str
    low: int
    high: int
    part: str

    @property
    def where(self) -> str:
        return f"part = '{self.part}' and id >= {self.low} and id <= {self.high}"

    def matches(self, row: Row) -> bool:
        return row[1] == self.part and self.low <= row[0] <= self.high

    def new(self, before: Iterable[Row], number: int) -> list[Row]:
        """Return the rows that the change adds to a state: an update depends on the rows it read."""
        if self.kind in ("append", "partitions"):
            return [(number, self.part)]
        if self.kind == "overwrite":
            return [(self.low, self.part)]
        if self.kind == "update":
            return [(number + 10 * row[0], row[1]) for row in before if self.matches(row)]
        return []

    def apply(self, before: list[Row], number: int) -> list[Row]:
        """Return the rows after only this change."""
        match self.kind:
            case "append" | "compact":
                stay = before
            case "partitions":
                stay = [row for row in before if row[1] != self.part]
            case _:
                stay = [row for row in before if not self.matches(row)]
        return sorted([*stay, *self.new(before, number)])

    def begin(self, before: list[Row], number: int) -> Callable[[], object]:
        """Read the table now; the returned function makes the change later."""
        target = now()._target(
            WriteOptions.parse({"overwrite_mode": "dynamic"}) if self.kind == "partitions" else NO_OPTIONS
        )
        assert target.scan.snapshot.id is not None
        new = as_rows(rows(*self.new(before, number)))
        match self.kind:
            case "append":
                return lambda: append_rows(target, new, NO_OPTIONS)
            case "overwrite":
                return lambda: overwrite_rows(target, new, NO_OPTIONS, self.where)
            case "partitions":
                return lambda: overwrite_rows(target, new, target.options, None)
            case "compact":
                return lambda: compact(target, None)
        return self._row_delta(before, number)

    def _row_delta(self, before: list[Row], number: int) -> Callable[[], object]:
        commit = row_deltas.commit()
        updates = self.kind == "update"
        deletes = row_deltas.by_position(self.where)
        if self.kind == "delete by key":
            keys = [row[0] for row in before if self.matches(row)]
            deletes = row_deltas.equality_deletes(keys, self.part) if keys else []
        written = write_rows(commit.writes, rows(*self.new(before, number)).to_batches(), "w")
        changes = SnapshotChanges(
            added_files(written, commit.base), added_deletes=row_deltas.added_deletes(deletes) if deletes else {}
        )
        where = bind(parse_filter(self.where), now()._spec.snapshot.schema)
        validation = Validation.create(commit.base, where=where, checks_deletes=updates, ignores_deletes=not updates)
        return lambda: commit.row_delta(changes, validation) if deletes or written else None


KINDS = ("update", "update", "append", "overwrite", "partitions", "compact", "delete by position", "delete by key")
# All ranges contain row 3.
CHANGES = st.builds(
    Change, st.sampled_from(KINDS), st.integers(1, 3), st.integers(3, 6), st.sampled_from(("a", "a", *PARTS))
)
UPDATE, REPLACED = Change("update", 2, 3, "a"), Change("overwrite", 3, 3, "a")
COMPACTED = Change("compact", 1, 6, "a")
BY_POSITION, BY_KEY = Change("delete by position", 3, 3, "a"), Change("delete by key", 3, 3, "a")


@pytest.mark.parametrize("kind", ["iceberg", "iceberg version 3"])
def test_two_transactions_have_a_serial_order_or_one_is_refused(kind: str) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
    @given(CHANGES, CHANGES)
    @example(UPDATE, UPDATE)
    @example(REPLACED, UPDATE)
    @example(COMPACTED, BY_POSITION)
    @example(BY_POSITION, COMPACTED)
    @example(BY_KEY, COMPACTED)
    @example(BY_KEY, REPLACED)
    def check(first: Change, second: Change) -> None:
        row_deltas.roll_back(begun)
        before = pairs()
        make_first, make_second = first.begin(before, 100), second.begin(before, 200)
        make_first()
        only_first = pairs()
        assert only_first == first.apply(before, 100)
        try:
            make_second()
        except lakescan.CommitConflict:
            assert pairs() == only_first
        else:
            one_way = second.apply(first.apply(before, 100), 200)
            assert pairs() in (one_way, first.apply(second.apply(before, 200), 100))

    with tempfile.TemporaryDirectory() as folder:
        local = lakescan.catalog("local", warehouse=folder)
        local.create_namespace("db")
        maker(kind, local)()
        for some in ([1, 2], [3, 4], [5, 6]):
            now().append(rows(*((number, part) for number in some for part in PARTS)))
        begun = row_deltas.head_snapshot().id
        check()
