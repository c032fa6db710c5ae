"""The law of evolution: after any sequence of table changes and appends, the rows equal those of a model.

In the model a column is an object that keeps its values through all changes of its name and type.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakescan
from tests.iceberg.alter.support import metadata, now

WIDER = {"INT": "BIGINT", "FLOAT": "DOUBLE", "DECIMAL(5, 2)": "DECIMAL(12, 2)", "DATE": "TIMESTAMP_NTZ"}
ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(5, 2)": pa.decimal128(5, 2),
    "DECIMAL(12, 2)": pa.decimal128(12, 2),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "STRING": pa.string(),
}
DATES = st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "FLOAT": st.floats(width=32, allow_nan=False),
    "DOUBLE": st.floats(allow_nan=False),
    "DECIMAL(5, 2)": st.decimals(-999, 999, places=2),
    "DECIMAL(12, 2)": st.decimals(-(10**9), 10**9, places=2),
    "DATE": DATES,
    "TIMESTAMP_NTZ": st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    "STRING": st.text("abc", max_size=3),
}
TRANSFORMS = {"INT": "bucket(4, {})", "STRING": "truncate(1, {})", "DATE": "months({})", "TIMESTAMP_NTZ": "months({})"}
NAMES = ["a", "b", "c", "d", "e"]


@dataclass(eq=False)
class Column:
    """A column, or a struct of members."""

    name: str
    type: str = ""
    members: list[Column] | None = None
    default: Any = None

    @property
    def arrow(self) -> pa.DataType:
        return ARROW[self.type] if self.members is None else pa.struct([(m.name, m.arrow) for m in self.members])

    def drawn(self, data: st.DataObject) -> Any:
        """Draw a value for the model's columns; null one time in four."""
        if data.draw(st.integers(0, 3)) == 0:
            return None
        if self.members is None:
            return data.draw(VALUES[self.type])
        return {member: member.drawn(data) for member in self.members}

    def plain(self, value: Any) -> Any:
        """Convert a value of the model to the current names."""
        if value is None:
            return None
        if self.members is None:
            return dt.datetime.combine(value, dt.time()) if type(value) is dt.date and self.type != "DATE" else value
        return {member.name: member.plain(value.get(member, member.default)) for member in self.members}


@dataclass
class Model:
    columns: list[Column]
    rows: list[dict[Column, Any]] = field(default_factory=list)

    def plain(self) -> list[dict[str, Any]]:
        return [{c.name: c.plain(row.get(c, c.default)) for c in self.columns} for row in self.rows]


def lists(model: Model) -> list[tuple[str, list[Column]]]:
    """Return the lists of sibling columns, with the prefix of their paths."""
    structs = [(f"{c.name}.", c.members) for c in model.columns if c.members is not None]
    return [("", model.columns), *structs]


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, 3])
def test_rows_equal_the_model_after_any_changes(version: int) -> None:
    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def check(data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            local = lakescan.catalog("local", warehouse=folder)
            local.create_namespace("db")
            text = "id BIGINT, a INT, s STRUCT<x: INT, y: STRING>"
            local.create_table("db.t", text, properties={"format-version": str(version)})
            struct = Column("s", members=[Column("x", "INT"), Column("y", "STRING")])
            model = Model([Column("id", "BIGINT"), Column("a", "INT"), struct])
            for number in range(data.draw(st.integers(2, 8))):
                if data.draw(st.booleans()):
                    append(data, model, number)
                else:
                    alter(data, model, version)
                if data.draw(st.integers(0, 5)) == 0:
                    now().compact()
                found = now().scan().to_arrow().to_pylist()
                assert sorted(found, key=str) == sorted(model.plain(), key=str)
                assert metadata().schema.names == [column.name for column in model.columns]

    check()


def append(data: st.DataObject, model: Model, number: int) -> None:
    rows = []
    for place in range(data.draw(st.integers(1, 3))):
        row = {column: column.drawn(data) for column in model.columns}
        row[model.columns[[c.name for c in model.columns].index("id")]] = 10 * number + place
        rows.append(row)
    schema = pa.schema([(column.name, column.arrow) for column in model.columns])
    now().append(pa.Table.from_pylist(replace(model, rows=rows).plain(), schema))
    model.rows += rows


def alter(data: st.DataObject, model: Model, version: int) -> None:
    """Make one to three changes in one commit."""
    builder = now().alter()
    sources = {each.source_id for spec in metadata().specs.values() for each in spec.fields}
    path_of = metadata().schema.path_of
    kept = {path_of[each] for each in sources if each in path_of}
    if data.draw(st.integers(0, 3)) == 0:
        layout(data, model)
        return
    for _ in range(data.draw(st.integers(1, 3))):
        prefix, columns = data.draw(st.sampled_from(lists(model)))
        free = [name for name in NAMES if name not in [column.name for column in columns]]
        own = [column for column in columns if column.name != "id"]
        kind = data.draw(st.sampled_from(["add", "drop", "rename", "widen", "move"]))
        if kind == "add" and free:
            added = Column(data.draw(st.sampled_from(free)), data.draw(st.sampled_from(list(ARROW))))
            if version == 3 and data.draw(st.booleans()):
                added.default = data.draw(VALUES[added.type])
            builder = builder.add_column(f"{prefix}{added.name}", added.type, default=added.default)
            columns.append(added)
        elif kind == "drop" and len(columns) > 1 and own:
            gone = data.draw(st.sampled_from(own))
            if not any(path.startswith(f"{prefix}{gone.name}") for path in kept):
                builder = builder.drop_column(f"{prefix}{gone.name}")
                columns.remove(gone)
        elif kind == "rename" and free and own:
            named = data.draw(st.sampled_from(own))
            if not any(path.startswith(f"{prefix}{named.name}") for path in kept):
                new = data.draw(st.sampled_from(free))
                builder = builder.rename_column(f"{prefix}{named.name}", new)
                named.name = new
        elif kind == "widen" and own:
            wide = data.draw(st.sampled_from(own))
            if wide.type in WIDER and (wide.type != "DATE" or version == 3) and f"{prefix}{wide.name}" not in kept:
                wide.type = WIDER[wide.type]
                builder = builder.change_column(f"{prefix}{wide.name}", type=wide.type)
        elif kind == "move":
            moved = data.draw(st.sampled_from(columns))
            others = [column for column in columns if column is not moved]
            place = data.draw(st.integers(0, len(others)))
            after = None if place == 0 else others[place - 1].name
            builder = builder.change_column(f"{prefix}{moved.name}", first=place == 0, after=after)
            columns[:] = [*others[:place], moved, *others[place:]]
    if "()" not in repr(builder):
        builder.commit()


def layout(data: st.DataObject, model: Model) -> None:
    """Drop or add a partition field, or set a sort order."""
    base = metadata()
    fields = [each for each in base.specs[base.default_spec_id].fields if each.transform.name != "void"]
    if fields and data.draw(st.booleans()):
        now().alter().drop_partition_field(data.draw(st.sampled_from(fields)).name).commit()
        return
    column = data.draw(st.sampled_from(model.columns))
    if column.members is None and data.draw(st.booleans()):
        now().alter().set_sort_order(column.name).commit()
        now().alter().set_sort_order("id").commit()
        return
    term = TRANSFORMS.get(column.type, "{}").format(column.name)
    used = {each.source_id for each in fields}
    is_plain = column.members is None and column.type not in ("FLOAT", "DOUBLE")
    if is_plain and base.schema.field(column.name).id not in used:
        now().alter().add_partition_field(term).commit()
