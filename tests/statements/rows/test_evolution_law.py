"""Statements that change rows, between changes of columns and partitions: every state equals that of a list model."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from tests.tables.support import maker, now

MERGE_ON_READ = {f"write.{each}.mode": "merge-on-read" for each in ("delete", "update", "merge")}
MAPPED = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
KINDS = {
    "iceberg version 1": {},
    "iceberg": {},
    "iceberg, merge-on-read": MERGE_ON_READ,
    "iceberg version 3": {},
    "iceberg version 3, merge-on-read": MERGE_ON_READ,
    "delta": MAPPED,
    "delta, vectors": MAPPED | VECTORS,
    "delta, vectors, feed and row tracking": MAPPED
    | VECTORS
    | {"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"},
}
TERMS = ("part", "bucket(2, k)", "truncate(1, part)", "truncate(2, k)")
PLACE = st.integers(0, 5)
NUMBER = st.one_of(st.none(), st.integers(-3, 6))
KEYS = st.lists(st.integers(0, 6), max_size=4, unique=True)
CONDITION = st.tuples(PLACE, st.booleans(), st.integers(-2, 5))  # a leaf; whether it is null, or less than a number
STATEMENTS = st.one_of(
    st.tuples(st.just("append"), KEYS, NUMBER),
    st.tuples(st.just("delete"), CONDITION),
    st.tuples(st.just("update"), CONDITION, PLACE, NUMBER),
    st.tuples(st.just("upsert"), KEYS, NUMBER),
    st.tuples(st.just("compact")),
)
CHANGES = st.one_of(
    st.tuples(st.just("add")),
    st.tuples(st.just("add member")),
    st.tuples(st.just("rename"), PLACE),
    st.tuples(st.just("drop"), PLACE),
    st.tuples(st.just("widen")),
    st.tuples(st.just("partition"), st.integers(0, len(TERMS) - 1)),
)
STEPS = st.lists(st.one_of(STATEMENTS, CHANGES), min_size=4, max_size=12)


@dataclass
class Leaf:
    """A column, or a member of the struct `s`."""

    name: str
    type: pa.DataType
    in_struct: bool = False

    @property
    def reference(self) -> str:
        return f"s.{self.name}" if self.in_struct else self.name


@dataclass
class Model:
    """The expected rows of the table: lists of values, one for each leaf."""

    leaves: list[Leaf]
    rows: list[list[Any]] = field(default_factory=list)
    terms: list[str] = field(default_factory=list)
    names: int = 0

    def follow(self, step: tuple[Any, ...], *, is_delta: bool, **options: Any) -> None:
        """Apply a step to the model and to the table; skip a step that the table does not support."""
        match step:
            case ("append", keys, number):
                new = [self._new(key, number) for key in keys]
                self.rows += new
                now().append(self.table(new))
            case ("delete", condition):
                self.rows = [row for row in self.rows if not self._holds(condition, row)]
                now().delete(self._text(condition), **options)
            case ("update", condition, place, number):
                at = self._changed(place)
                value = None if number is None else "ab"[number % 2] if at == 1 else number
                now().update(
                    {self.leaves[at].reference: "NULL" if value is None else repr(value)},
                    self._text(condition),
                    **options,
                )
                for row in self.rows:
                    if self._holds(condition, row):
                        row[at] = value
            case ("upsert", keys, number):
                new = [self._new(key, number) for key in keys]
                now().upsert(self.table(new), "k", **options)
                by_key = {row[0]: row for row in new}
                kept = [by_key.get(row[0], row)[:] for row in self.rows]
                known = {row[0] for row in self.rows}
                self.rows = kept + [row for row in new if row[0] not in known]
            case ("compact",):
                now().compact()
            case ("partition", place):
                self._partition(TERMS[place], is_delta)
            case _:
                self._evolve(step)

    def _evolve(self, step: tuple[Any, ...]) -> None:
        alter = now().alter()
        match step:
            case ("add",):
                self._add(Leaf(self._new_name(), pa.int64()))
                alter = alter.add_column(self.leaves[-1].name, "BIGINT")
            case ("add member",):
                self._add(Leaf(self._new_name(), pa.int64(), in_struct=True))
                alter = alter.add_column(self.leaves[-1].reference, "BIGINT")
            case ("rename", place):
                leaf = self.leaves[self._changed(place)]
                before, leaf.name = leaf.reference, self._new_name()
                self.terms = [each.replace(before, leaf.name) for each in self.terms]
                alter = alter.rename_column(before, leaf.name)
            case ("drop", place):
                at = self._changed(place)
                if at <= 3:  # leaves that other steps need
                    return
                alter = alter.drop_column(self.leaves.pop(at).reference)
                for row in self.rows:
                    row.pop(at)
                self.names = 0  # the next column may reuse the name of a dropped one
            case ("widen",):
                if self.leaves[2].type == pa.int64():
                    return
                self.leaves[2].type = pa.int64()
                alter = alter.change_column(self.leaves[2].name, type="BIGINT")
        alter.commit()

    def _partition(self, term: str, is_delta: bool) -> None:
        if is_delta:
            return
        term = term.replace("part", self.leaves[1].name)
        if term in self.terms:
            self.terms.remove(term)
            now().alter().drop_partition_field(term).commit()
        else:
            self.terms.append(term)
            now().alter().add_partition_field(term).commit()

    def _new_name(self) -> str:
        taken = {leaf.name for leaf in self.leaves}
        while True:
            self.names += 1
            if (name := f"x{self.names}") not in taken:
                return name

    def _add(self, leaf: Leaf) -> None:
        self.leaves.append(leaf)
        for row in self.rows:
            row.append(None)

    def _new(self, key: int, number: int | None) -> list[Any]:
        values = [None if number is None else number + n for n in range(len(self.leaves))]
        return [key, "ab"[key % 2] if number != 0 else None, *values[2:]]

    def _changed(self, place: int) -> int:
        """Return the index of a leaf that is not the key."""
        return 1 + place % (len(self.leaves) - 1)

    def _holds(self, condition: tuple[int, bool, int], row: list[Any]) -> bool:
        place, is_null, number = condition
        value = row[place % len(self.leaves)]
        if is_null or value is None:
            return is_null and value is None
        return bool(value == "ab"[number % 2] if isinstance(value, str) else value < number)

    def _text(self, condition: tuple[int, bool, int]) -> str:
        place, is_null, number = condition
        leaf = self.leaves[place % len(self.leaves)]
        if is_null:
            return f"{leaf.reference} IS NULL"
        if pa.types.is_string(leaf.type):
            return f"{leaf.reference} = '{'ab'[number % 2]}'"
        return f"{leaf.reference} < {number}"

    def shown(self, rows: list[list[Any]]) -> list[dict[str, Any]]:
        """Return rows in the table's form."""
        found = []
        for row in rows:
            given = list(zip(self.leaves, row, strict=True))
            columns = {leaf.name: value for leaf, value in given if not leaf.in_struct}
            found.append({**columns, "s": {leaf.name: value for leaf, value in given if leaf.in_struct}})
        return found

    def table(self, rows: list[list[Any]]) -> pa.Table:
        members = [(leaf.name, leaf.type) for leaf in self.leaves if leaf.in_struct]
        columns = [(leaf.name, leaf.type) for leaf in self.leaves if not leaf.in_struct]
        return pa.Table.from_pylist(self.shown(rows), pa.schema([*columns, ("s", pa.struct(members))]))


def by_value(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr([(name, row[name]) for name in sorted(row)]) for row in rows)


def check(kind: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STEPS, st.booleans())
    def run(steps: list[tuple[Any, ...]], is_partitioned: bool) -> None:
        with tempfile.TemporaryDirectory() as folder:
            local = lakescan.catalog("local", warehouse=folder)
            local.create_namespace("db")
            make = maker(kind.split(",")[0], local)
            is_delta, terms = kind.startswith("delta"), ["part"] if is_partitioned else []
            columns = "k BIGINT, part STRING, n INT, s STRUCT<a: BIGINT>"
            make(columns, partition_by=tuple(terms), properties=KINDS[kind])
            leaves = [Leaf("k", pa.int64()), Leaf("part", pa.string()), Leaf("n", pa.int32())]
            model = Model([*leaves, Leaf("a", pa.int64(), in_struct=True)], terms=terms)
            switches = "version 1" not in kind and kind != "delta"
            for number, step in enumerate(steps):
                modes = {"row_change_mode": ("merge-on-read", "copy-on-write")[number % 2]} if switches else {}
                model.follow(step, is_delta=is_delta, **modes)
                found = now().to_arrow().to_pylist()
                assert by_value(found) == by_value(model.shown(model.rows)), (number, step)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rows_equal_a_list_model_whatever_changes_between_statements(kind: str) -> None:
    check(kind, 25)


@pytest.mark.parametrize("kind", ["iceberg, merge-on-read", "iceberg version 3, merge-on-read", "delta, vectors"])
def test_a_few_histories_with_column_changes_equal_a_list_model(kind: str) -> None:
    check(kind, 4)
