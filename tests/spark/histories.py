"""Tables whose columns were renamed, swapped, dropped, added again and moved between writes, with the rows expected.

A history is a list of steps. It is made as an Iceberg table, or as a Delta table with column mapping, each by its own
means. The expected rows are kept by column identity, not by column name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from tests.support.catalog import local_catalog

KINDS: dict[str, tuple[pa.DataType, str, list[Any]]] = {
    "int": (pa.int32(), "integer", [None, -7, 0, 5, 2_000_000]),
    "string": (pa.string(), "string", [None, "", "a", "zz"]),
    "double": (pa.float64(), "double", [None, -7.5, 0.0, 5.0, float("nan")]),
}
# Places of columns: at the top, or in the struct, which is initially called `s`.
PLACES = ("", "s")
NAMES = st.sampled_from(["a", "b", "c"])
Step = tuple[Any, ...]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("rename"), st.sampled_from(PLACES), NAMES, NAMES),
        st.tuples(st.just("swap"), st.sampled_from(PLACES), NAMES, NAMES),
        st.tuples(st.just("drop"), st.sampled_from(PLACES), NAMES),
        st.tuples(st.just("add"), st.sampled_from(PLACES), NAMES, st.sampled_from([*KINDS])),
        st.tuples(st.just("move"), st.sampled_from(PLACES), NAMES),
        st.tuples(st.just("call"), st.sampled_from(["s", "t"])),
        st.tuples(st.just("write"), st.integers(0, 4)),
    ),
    min_size=2,
    max_size=8,
)


@dataclass
class Column:
    """A column's identity: its number stays, its name does not. `written` is its name in files (Delta)."""

    number: int
    name: str
    kind: str
    written: str


@dataclass
class History:
    """The table's current columns and all rows so far: values by the numbers of their columns."""

    places: dict[str, list[Column]] = field(default_factory=dict)
    rows: list[dict[int, Any]] = field(default_factory=list)
    struct: str = "s"
    _last: int = 2  # 1 is the key, 2 the struct

    def __post_init__(self) -> None:
        for place in PLACES:
            self.places[place] = [self._new("a", "int", fresh=False), self._new("b", "string", fresh=False)]

    def _new(self, name: str, kind: str, *, fresh: bool = True) -> Column:
        self._last += 1
        return Column(self._last, name, kind, f"col-{self._last}" if fresh else name)

    def find(self, place: str, name: str) -> Column | None:
        """Return the column that currently has that name."""
        return next((column for column in self.places[place] if column.name == name), None)

    def changed(self, steps: list[Step]) -> Iterator[Step]:
        """Yield the steps that apply to the current columns; each change is made when it is yielded."""
        for step in [*steps, ("write", 1)]:
            match step:
                case ("rename", place, old, new) if (one := self.find(place, old)) and not self.find(place, new):
                    one.name = new
                case ("swap", place, old, new) if (one := self.find(place, old)) and (other := self.find(place, new)):
                    one.name, other.name = other.name, one.name
                case ("drop", place, name) if (one := self.find(place, name)) and len(self.places[place]) > 1:
                    self.places[place].remove(one)
                case ("add", place, name, kind) if not self.find(place, name):
                    self.places[place].append(self._new(name, kind))
                case ("move", place, name) if one := self.find(place, name):
                    self.places[place].remove(one)
                    self.places[place].insert(0, one)
                case ("call", name) if name != self.struct:
                    self.struct = name
                case ("write", _):
                    pass
                case _:
                    continue
            yield step

    def new_rows(self, shift: int) -> list[dict[int, Any]]:
        """Return five new rows; `shift` selects their values."""
        start = len(self.rows)
        columns = [column for place in PLACES for column in self.places[place]]
        for n in range(5):
            values = {c.number: KINDS[c.kind][2][(n + shift + c.number) % len(KINDS[c.kind][2])] for c in columns}
            self.rows.append({1: start + n, **values})
        return self.rows[start:]

    def as_arrow(self, rows: list[dict[int, Any]], *, written: bool = False) -> pa.Table:
        """Return rows under the current column names, or under those in files."""
        arrays = {"k": pa.array([row[1] for row in rows], pa.int64())}
        at = {place: self._arrays(place, rows, written) for place in PLACES}
        arrays |= at[""]
        arrays["s" if written else self.struct] = pa.StructArray.from_arrays([*at["s"].values()], [*at["s"]])
        return pa.table(arrays)

    def _arrays(self, place: str, rows: list[dict[int, Any]], written: bool) -> dict[str, pa.Array]:
        return {
            c.written if written else c.name: pa.array([row.get(c.number) for row in rows], KINDS[c.kind][0])
            for c in self.places[place]
        }

    def conditions(self, choice: int) -> list[str]:
        """Return filters on every column: all of them for 0, else one per column, chosen by the number."""
        found = []
        for place in PLACES:
            for c in self.places[place]:
                path = f"{self.struct}.{c.name}" if place else c.name
                values = [repr(v) for v in KINDS[c.kind][2] if v is not None and v == v]
                one = values[choice % len(values)]
                tests = [f"{path} is null", f"{path} = {one}", f"{path} < {one}", f"{path} in ({', '.join(values)})"]
                found += tests if choice == 0 else [tests[(choice + c.number) % len(tests)]]
        return found


def iceberg_history(history: History, steps: list[Step], folder: Path) -> str:
    """Make the table with pyiceberg; every column change adds a schema."""
    struct = history.struct
    table = local_catalog(folder).create_table("n.t", history.as_arrow([]).schema)
    for step in history.changed(steps):
        if step[0] == "write":
            rows = history.as_arrow(history.new_rows(step[1]))
            table.append(rows.select(table.schema().as_arrow().names).cast(table.schema().as_arrow()))
            continue
        name, place = step[0], step[1]
        path = [(struct, each) if place else (each,) for each in step[2:4]]
        if name == "call":
            with table.update_schema() as update:
                update.rename_column(struct, history.struct)
            struct = history.struct
            continue
        if name == "swap":
            renames = [(path[0], "spare"), (path[1], path[0][-1]), ((*path[0][:-1], "spare"), path[1][-1])]
            for old, new in renames if path[0] != path[1] else []:
                with table.update_schema() as update:
                    update.rename_column(old, new)
            continue
        with table.update_schema() as update:
            match name:
                case "rename":
                    update.rename_column(path[0], path[1][-1])
                case "drop":
                    update.delete_column(path[0])
                case "add":
                    update.add_column(path[0], _iceberg_type(step[3]))
                case "move":
                    update.move_first(path[0])
    return str(table.metadata_location)


def _iceberg_type(kind: str) -> Any:
    from pyiceberg import types as t

    return {"int": t.IntegerType(), "string": t.StringType(), "double": t.DoubleType()}[kind]


def delta_history(history: History, steps: list[Step], folder: Path, mode: str) -> str:
    """Write the table by hand, with column mapping by name or id. In id mode, files have the names of their time."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    commits: list[list[dict[str, Any]]] = [[{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}]]
    commits[0].append(_metadata(history, mode))
    for step in history.changed(steps):
        if step[0] != "write":
            commits.append([_metadata(history, mode)])
            continue
        rows = history.as_arrow(history.new_rows(step[1]), written=mode == "name")
        path = folder / f"{len(commits)}.parquet"
        pq.write_table(rows.cast(_with_ids(rows.schema, history)), path)
        size = path.stat().st_size
        add = {"path": path.name, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
        commits.append([{"add": add}])
    for version, actions in enumerate(commits):
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return str(folder)


def _metadata(history: History, mode: str) -> dict[str, Any]:
    def named(name: str, kind: Any, number: int, written: str) -> dict[str, Any]:
        mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": written}
        return {"name": name, "type": kind, "nullable": True, "metadata": mapping}

    at = {
        place: [named(c.name, KINDS[c.kind][1], c.number, c.written) for c in history.places[place]] for place in PLACES
    }
    struct = named(history.struct, {"type": "struct", "fields": at["s"]}, 2, "s")
    schema = {"type": "struct", "fields": [named("k", "long", 1, "k"), *at[""], struct]}
    configuration = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "99"}
    made = {"id": "histories", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
    return {"metaData": made | {"schemaString": json.dumps(schema), "configuration": configuration}}


def _with_ids(schema: pa.Schema, history: History) -> pa.Schema:
    """Return the schema with the columns' field ids, in their order."""

    def numbered(one: pa.Field, number: int) -> pa.Field:
        return one.with_metadata({"PARQUET:field_id": str(number)})

    top, members = ([c.number for c in history.places[place]] for place in PLACES)
    name = schema.names[-1]
    inner = schema.field(name).type
    struct = pa.struct([numbered(inner.field(i), n) for i, n in enumerate(members)])
    fields = [numbered(schema.field(i), n) for i, n in enumerate([1, *top])]
    return pa.schema([*fields, numbered(pa.field(name, struct), 2)])
