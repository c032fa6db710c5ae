"""Row changes between two snapshots or versions of a table: applied to the first, they give the second."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from samples.iceberg_deletes import (
    commit_deletes,
    write_deletion_vectors,
    write_equality_deletes,
    write_position_deletes,
)

import lakescan
from lakescan.reading.net_changes import drop_carry_overs, drop_round_trips, pair_updates, row_numbers
from tests.support.catalog import local_catalog

SCHEMA = pa.schema({"id": pa.int64(), "v": pa.string()})


def some(*ids: int, v: str = "a") -> pa.Table:
    return pa.table([list(ids), [v] * len(ids)], schema=SCHEMA)


class Changing:
    """An Iceberg table that tests change in every possible way. `location` is its newest metadata file."""

    def __init__(self, folder: Path, version: int = 2) -> None:
        properties = {"format-version": str(version)}
        self.table = local_catalog(folder).create_table("n.t", SCHEMA, properties=properties)
        self.folder, self.count, self.keys = folder, 0, False
        self.location: str = self.table.metadata_location

    def append(self, *ids: int, v: str = "a") -> None:
        self._changed(lambda table: table.append(some(*ids, v=v)))

    def rewrite_without(self, number: int) -> None:
        """Delete a number by copy-on-write; lakescan's own writer does not do that to tables with equality deletes."""
        if not self.keys:
            self._changed(lambda table: table.delete(f"id = {number}"))

    def _changed(self, change: Any) -> None:
        self.count += 1
        table = local_catalog(self.folder, f"c{self.count}").register_table("n.t", self.location)
        change(table)
        self.location = table.metadata_location

    def paths(self) -> list[str]:
        return lakescan.table(self.location).scan().plan().files["path"].to_pylist()

    def delete_first_rows(self, *, vectors: bool = False) -> None:
        """Delete the first row of each file, by position."""
        self.count += 1
        base = f"{self.table.location()}/data/d{self.count}"
        paths = self.paths()
        if not paths:
            return
        if vectors:
            found = write_deletion_vectors(f"{base}.puffin", {path: [0] for path in paths})
        else:
            found = [write_position_deletes(f"{base}.parquet", [(path, 0) for path in paths])]
        self.location = commit_deletes(self.location, found, format_version=3 if vectors else None)

    def delete_keys(self, *ids: int) -> None:
        if not self.states():
            return
        self.count, self.keys = self.count + 1, True
        path = f"{self.table.location()}/data/e{self.count}.parquet"
        self.location = commit_deletes(
            self.location, [write_equality_deletes(path, pa.table({"id": pa.array(ids, pa.int64())}), {"id": 1})]
        )

    def states(self) -> list[int]:
        return lakescan.table(self.location).history()["snapshot_id"].to_pylist()

    def rows(self, snapshot: int | None = None) -> Counter[Any]:
        scan = lakescan.table(self.location).scan()
        scan = scan if snapshot is None else scan.as_of(version=snapshot)
        return Counter(tuple(row.values()) for row in scan.to_arrow().to_pylist())

    def changes(self, *ends: Any, **options: Any) -> list[dict[str, Any]]:
        return lakescan.table(self.location).changes(*ends, **options).to_arrow().to_pylist()


def applied(rows: Counter[Any], changes: list[dict[str, Any]]) -> Counter[Any]:
    """Apply changes to rows; changes of one commit must not cancel each other."""
    found = Counter(rows)
    for row in changes:
        found[row["id"], row["v"]] += 1 if row["_change_type"] in ("INSERT", "UPDATE_AFTER") else -1
    assert all(count >= 0 for count in found.values())
    sides: dict[Any, set[str]] = {}
    for row in changes:
        sides.setdefault((row["_change_ordinal"], row["id"], row["v"]), set()).add(row["_change_type"])
    assert all(len(side) == 1 for side in sides.values())
    return +found


@pytest.mark.slow
def test_every_kind_of_change_is_returned(tmp_path: Path) -> None:
    table = Changing(tmp_path)
    table.append(1, 2, 3)
    table.delete_first_rows()
    table.append(4, 5)
    table.rewrite_without(3)
    table.delete_keys(2, 4)
    table.append(4, v="b")
    states = table.states()
    found = table.changes()
    told = [(r["_change_ordinal"], r["_change_type"], r["id"], r["v"]) for r in found]
    assert sorted(told) == [
        (0, "INSERT", 1, "a"),
        (0, "INSERT", 2, "a"),
        (0, "INSERT", 3, "a"),
        (1, "DELETE", 1, "a"),
        (2, "INSERT", 4, "a"),
        (2, "INSERT", 5, "a"),
        (3, "DELETE", 3, "a"),
        (4, "DELETE", 2, "a"),
        (4, "DELETE", 4, "a"),
        (5, "INSERT", 4, "b"),
    ]
    assert [r["_commit_snapshot_id"] for r in found] == [states[r["_change_ordinal"]] for r in found]
    for first in range(len(states)):
        for last in range(first, len(states)):
            between = table.changes(states[first], states[last])
            assert applied(table.rows(states[first]), between) == table.rows(states[last])


def test_rows_that_a_commit_rewrites_unchanged_are_not_changes(tmp_path: Path) -> None:
    table = Changing(tmp_path)
    table.append(1, 2, 3, 3)
    table.rewrite_without(2)
    start = table.states()[0]
    assert [(r["_change_type"], r["id"]) for r in table.changes(start)] == [("DELETE", 2)]
    raw = lakescan.table(table.location).changes(start).scan.to_arrow()
    assert Counter(raw["_change_type"].to_pylist()) == {"DELETE": 4, "INSERT": 3}


def test_rows_deleted_by_vectors_are_deletes(tmp_path: Path) -> None:
    table = Changing(tmp_path)
    table.append(1, 2, 3)
    table.delete_first_rows(vectors=True)
    assert [(r["_change_type"], r["id"]) for r in table.changes(table.states()[0])] == [("DELETE", 1)]


def test_rows_with_the_same_identity_are_updates(tmp_path: Path) -> None:
    table = Changing(tmp_path)
    table.append(1, 2, v="a")
    start = table.states()[-1]

    def upsert(opened: Any) -> None:
        with opened.transaction() as transaction:
            transaction.delete("id = 1")
            transaction.append(some(1, v="b"))

    table._changed(upsert)
    plain = [(r["_change_type"], r["id"], r["v"]) for r in table.changes(start)]
    assert {("DELETE", 1, "a"), ("INSERT", 1, "b")} == set(plain)
    with pytest.raises(lakescan.NoSuchColumn, match="nothing"):
        table.changes(start, identity=["nothing"])


def test_a_delete_of_rows_and_its_file_in_ranges_of_times_and_tags(tmp_path: Path) -> None:
    table = Changing(tmp_path)
    for number in range(3):
        table.append(number)
    first, second, _ = table.states()
    opened = local_catalog(tmp_path, "tags").register_table("n.t", table.location)
    opened.manage_snapshots().create_tag(first, "one").create_tag(second, "two").commit()
    table.location = opened.metadata_location
    assert [r["id"] for r in table.changes("one", "two")] == [1]
    times = lakescan.table(table.location).history()["made_current_at"].to_pylist()
    assert [r["id"] for r in table.changes(times[0], times[1])] == [1]
    assert [r["id"] for r in table.changes(end=first)] == [0]
    assert table.changes("one", "two", where="id > 5") == []
    for ends in ((None, 999), (999, 999)):
        with pytest.raises(lakescan.NoSuchSnapshot, match="no snapshot 999"):
            table.changes(*ends)


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 5), min_size=1, max_size=4)),
        st.tuples(st.just("keys"), st.lists(st.integers(0, 5), min_size=1, max_size=2)),
        st.tuples(st.just("rewrite"), st.integers(0, 5)),
        st.tuples(st.just("positions"), st.none()),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@settings(max_examples=15)
@given(steps=CHANGES)
def test_changes_lead_from_each_state_to_the_next(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Changing(Path(folder))
        for name, value in steps:
            match name:
                case "append":
                    table.append(*value)
                case "keys":
                    table.delete_keys(*value)
                case "rewrite":
                    table.rewrite_without(value)
                case _:
                    table.delete_first_rows()
        states = table.states()
        assert applied(Counter(), table.changes()) == table.rows()
        for before, after in itertools.pairwise(states):
            assert applied(table.rows(before), table.changes(before, after)) == table.rows(after)


VALUES = st.none() | st.sampled_from([0.0, -0.0, 1.0, float("nan")])


@given(st.lists(st.tuples(st.sampled_from(["INSERT", "DELETE"]), VALUES, st.lists(st.integers(0, 1), max_size=1))))
def test_equal_rows_cancel_one_for_one(rows: list[Any]) -> None:
    kinds = [pa.string(), pa.float64(), pa.list_(pa.int64())]
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
    found = drop_carry_overs(pa.table(columns, ["c", "x", "l"]), "c", ["x", "l"]).to_pylist()

    def net(each: Any) -> Counter[str]:
        count: Counter[str] = Counter()
        for change, x, values in each:
            count[repr((None if x is None else "nan" if x != x else x + 0.0, values))] += (
                1 if change == "INSERT" else -1
            )
        return count

    left = [(row["c"], row["x"], row["l"]) for row in found]
    assert {k: v for k, v in net(rows).items() if v} == {k: v for k, v in net(left).items() if v}
    assert len(left) == sum(abs(v) for v in net(rows).values())


def _walked(rows: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Walk through the changes of each value, and count copies of a first row, as Iceberg's iterator does."""
    left = []
    for value in {value for _, _, value in rows}:
        first, count = None, 0
        for row in sorted((each for each in rows if each[2] == value), key=lambda each: (each[1], each[0])):
            if count == 0:
                first, count = row, 1
            else:
                assert first is not None
                count += 1 if row[0] == first[0] else -1
        left += [first] * count
    return sorted(left)


@given(st.lists(st.tuples(st.sampled_from(["INSERT", "DELETE"]), st.integers(0, 3), st.integers(0, 2)), max_size=30))
def test_net_changes_are_what_remains_of_the_changes_of_each_value(rows: list[tuple[str, int, int]]) -> None:
    names, kinds = ("c", "n", "x"), (pa.string(), pa.int32(), pa.int64())
    table = pa.table([pa.array([row[i] for row in rows], kinds[i]) for i in range(3)], names)
    found = drop_round_trips(table, "c", "n", ["x"])
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == _walked(rows)


def test_net_changes_leave_out_rows_that_a_later_commit_deletes(tmp_path: Path) -> None:
    table = Changing(tmp_path)
    table.append(1, 2, 3)
    table.rewrite_without(2)
    table.delete_keys(1)
    found = lakescan.table(table.location).changes(net=True)
    assert [(row["id"], row["_change_type"]) for row in found.to_arrow().to_pylist()] == [(3, "INSERT")]
    with pytest.raises(lakescan.InvalidOption, match="net changes have no images"):
        lakescan.table(table.location).changes(net=True, identity="id")


def test_a_deleted_and_an_inserted_row_of_an_identity_are_an_update() -> None:
    rows = pa.table(
        {
            "c": ["INSERT", "DELETE", "INSERT", "DELETE", "INSERT"],
            "k": [1, 1, 2, 3, 4],
            "v": ["new", "old", "x", "y", "z"],
        }
    )
    found = [tuple(row.values()) for row in pair_updates(rows, "c", ["k"]).to_pylist()]
    assert found == [
        ("UPDATE_BEFORE", 1, "old"),
        ("UPDATE_AFTER", 1, "new"),
        ("INSERT", 2, "x"),
        ("DELETE", 3, "y"),
        ("INSERT", 4, "z"),
    ]


def test_ordinals_depend_on_all_values_of_a_row() -> None:
    structs = pa.array([{"a": 1}, None, {"a": None}, {"a": 1}], pa.struct({"a": pa.int64()}))
    maps = pa.array([[("k", 1)], [("k", 1)], [("k", 1)], [("k", 1)]], pa.map_(pa.string(), pa.int64()))
    numbers = row_numbers([structs, maps]).tolist()
    assert numbers[0] == numbers[3]
    assert len(set(numbers)) == 3


NESTED = pa.schema({"id": pa.int64(), "s": pa.struct({"p": pa.int64(), "q": pa.string()}), "x": pa.string()})
SELECTIONS = [
    "id",
    "id,x,_change_type",
    "s.p as pp, _change_type as kind",
    "s.q, s.p as _change_type, _change_ordinal",
    "_change_type",
    "_pos, s",
]


@pytest.fixture(scope="module")
def updated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Make a table in which one commit rewrote three rows and changed a member of the first."""
    folder = tmp_path_factory.mktemp("updated")
    rows = [{"id": 1, "s": {"p": 1, "q": "a"}, "x": "u"}, {"id": 2, "s": None}, {"id": 3, "s": {"p": 3}}]
    table = lakescan.catalog("updated", type="sql", uri=f"sqlite:///{folder}/c.db", warehouse=str(folder))
    table.create_namespace("n")
    table = table.create_table("n.t", NESTED)
    table.append(pa.Table.from_pylist(rows, NESTED))
    table.overwrite(pa.Table.from_pylist([{"id": 1, "s": {"p": 10, "q": "a"}, "x": "u"}], NESTED), where="id = 1")
    return "updated.n.t"


@pytest.mark.parametrize("identity", [(), ("id",)])
@pytest.mark.parametrize("columns", SELECTIONS)
def test_selected_columns_are_those_of_the_same_changes(updated: str, columns: str, identity: tuple[str, ...]) -> None:
    table = lakescan.table(updated)
    first = table.history()["snapshot_id"][0].as_py()
    whole = table.changes(first, identity=identity)
    assert [row["id"] for row in whole.to_arrow().to_pylist()] == [1, 1]
    changes = table.changes(first, identity=identity, columns=columns)
    assert changes.to_arrow().num_rows == 2
    flat = [{**row, "_pos": 0, "p": row["s"]["p"], "q": row["s"]["q"]} for row in whole.to_arrow().to_pylist()]
    fields = [(name.strip().split(" as ")[0].split(".")[-1], name) for name in columns.split(",")]
    assert [list(row.values()) for row in changes.to_arrow().to_pylist()] == [[r[n] for n, _ in fields] for r in flat]
    if not identity:
        batches = table.stream(wait=False, columns=columns, on_change="changelog", start_snapshot_id=first)
        streamed = pa.Table.from_batches(batches, changes.schema)
        assert streamed.slice(streamed.num_rows - 2).drop_columns(
            _ordinals(changes)
        ) == changes.to_arrow().drop_columns(_ordinals(changes))


def _ordinals(changes: lakescan.Changes) -> list[str]:
    """A stream counts commits from its own start."""
    return [name for name in changes.schema.names if name == "_change_ordinal"]


def test_a_limit_counts_net_changes(updated: str) -> None:
    table = lakescan.table(updated)
    assert [table.changes(limit=rows).to_arrow().num_rows for rows in (0, 1, 4, 9)] == [0, 1, 4, 5]
    first = table.history()["snapshot_id"][0].as_py()
    assert table.changes(first, limit=1).to_arrow()["id"].to_pylist() == [1]


def test_identity_columns_must_be_columns_of_the_table(updated: str) -> None:
    table = lakescan.table(updated)
    kinds = table.changes(identity="id", columns="s.p as id, _change_type").to_arrow()["_change_type"].to_pylist()
    assert kinds == ["INSERT"] * 3 + ["UPDATE_BEFORE", "UPDATE_AFTER"]
    for wrong in ("s.p", "nothing"):
        with pytest.raises(lakescan.NoSuchColumn):
            table.changes(identity=wrong)


@pytest.mark.spark
def test_selected_columns_of_changes_on_spark_are_those_in_process(spark, updated: str, tmp_path: Path) -> None:
    lakescan.spark.register(spark)
    table = lakescan.table(updated)
    for columns in SELECTIONS:
        for changes in (table.changes(columns=columns), table.changes(columns=columns, identity="id")):
            frame, expected = changes.to_spark(spark), changes.to_arrow()
            assert frame.columns == expected.column_names
            assert Counter(map(str, frame.toArrow().to_pylist())) == Counter(map(str, expected.to_pylist()))
    assert table.changes(limit=2).to_spark(spark).count() == 2
    columns = "s.p as pp, _change_type as kind"
    stream = (
        spark.readStream.format("iceberg").option("on-change", "changelog").option("columns", columns).load(updated)
    )
    name = "changed_members"
    stream.writeStream.format("memory").queryName(name).option("checkpointLocation", str(tmp_path / "c")).trigger(
        availableNow=True
    ).start().awaitTermination()
    in_process = pa.Table.from_batches(table.stream(wait=False, columns=columns, on_change="changelog"))
    assert sorted(map(str, map(tuple, spark.table(name).collect()))) == sorted(
        str(tuple(row.values())) for row in in_process.to_pylist()
    )


@pytest.mark.spark
def test_changes_on_spark_are_those_in_process(spark, tmp_path: Path) -> None:
    table = Changing(tmp_path)
    table.append(1, 2, 3, 3)
    table.rewrite_without(2)
    table.delete_keys(1)
    for options in ({}, {"identity": ["id"]}, {"net": True}, {"lane": "arrow"}):
        changes = lakescan.table(table.location).changes(**options)
        expected = Counter(tuple(row.values()) for row in changes.to_arrow().to_pylist())
        assert Counter(tuple(row) for row in changes.to_spark(spark).collect()) == expected


def test_changes_of_delta_are_those_in_its_change_feed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_deltalake(path, some(1, 2), configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(path).delete("id = 1")
    found = lakescan.table(path).changes(0).to_arrow().to_pylist()
    assert [(r["id"], r["_change_type"], r["_commit_version"]) for r in found] == [(1, "delete", 1)]
    assert lakescan.table(path).changes().to_arrow().num_rows == 3
    assert repr(lakescan.table(path).changes(0)).startswith("Changes(Scan(delta ")
    with pytest.raises(lakescan.InvalidOption, match="is not a Delta version or timestamp"):
        lakescan.table(path).changes("x")
    with pytest.raises(lakescan.UnsupportedFeature, match="identity"):
        lakescan.table(path).changes(0, identity=["id"])


@pytest.mark.parametrize(
    ("format", "options"),
    [
        ("delta", {"startingVersion": 2}),
        ("delta", {"endingVersion": 1}),
        ("delta", {"versionAsOf": 1}),
        ("iceberg", {"start-snapshot-id": 1}),
        ("iceberg", {"branch": "audit"}),
        ("iceberg", {"tag": "eoy"}),
    ],
)
def test_options_that_select_a_range_or_a_state_conflict_with_start_and_end(
    tmp_path: Path, format: Any, options: dict[str, Any]
) -> None:
    """Such options would have no effect: the scan would return all changes."""
    catalog = lakescan.catalog("lake", warehouse=tmp_path)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id INT", format=format)
    with pytest.raises(lakescan.InvalidOption, match=f"start=, up to end=: remove option '{next(iter(options))}'"):
        table.changes(**options)
