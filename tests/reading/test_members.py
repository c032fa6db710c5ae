"""Struct members read on their own have the values of the whole struct, however the schema changed."""

from __future__ import annotations

import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from lakescan.common import types as t
from lakescan.common.schema import FieldMatching, Schema
from lakescan.common.selection import SelectedColumn, Selection, prune_columns
from lakescan.expressions.predicate import TRUE
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.field_ids import read_fields
from lakescan.reading.projection import resolve
from lakescan.storage import Storage

NO_END = 1 << 62
LEAVES = (t.LONG, t.STRING, t.BOOLEAN)


@st.composite
def structs(draw: st.DrawFn, depth: int = 3) -> t.Struct:
    """Draw a struct type; ids are assigned later."""
    count = draw(st.integers(1, 4))
    kinds = st.sampled_from(LEAVES) | st.builds(lambda kind: t.ListOf(t.Field(0, "element", kind)), st.just(t.LONG))
    if depth:
        inner = structs(depth - 1)
        kinds |= inner | inner.map(lambda kind: t.ListOf(t.Field(0, "element", kind)))
    return t.Struct(tuple(t.Field(0, f"m{i}", draw(kinds)) for i in range(count)))


def numbered(kind: t.Type, ids: Any) -> t.Type:
    match kind:
        case t.Struct():
            return t.Struct(tuple(replace(f, id=next(ids), type=numbered(f.type, ids)) for f in kind.fields))
        case t.ListOf():
            return t.ListOf(replace(kind.element, id=next(ids), type=numbered(kind.element.type, ids)))
    return kind


def without_booleans(kind: t.Type) -> t.Type:
    """The type with longs for booleans.

    Arrow 26 writes booleans below nested nulls wrongly into ORC files: Java's reader and Arrow's find the same other
    values in them.
    """
    match kind:
        case t.Struct():
            return t.Struct(tuple(replace(f, type=without_booleans(f.type)) for f in kind.fields))
        case t.ListOf():
            return t.ListOf(replace(kind.element, type=without_booleans(kind.element.type)))
    return t.LONG if kind == t.BOOLEAN else kind


def evolved(kind: t.Type, ids: Any, chance: random.Random) -> t.Type:
    """Draw a later state of a type: members renamed, dropped, moved and added, some under dropped names."""
    if isinstance(kind, t.ListOf):
        return t.ListOf(replace(kind.element, type=evolved(kind.element.type, ids, chance)))
    if not isinstance(kind, t.Struct):
        return kind
    members = []
    for each in kind.fields:
        fate = chance.choice(["keep", "keep", "rename", "drop", "drop and add"])
        kept = replace(each, type=evolved(each.type, ids, chance))
        if fate in ("keep", "rename"):
            members.append(kept if fate == "keep" else replace(kept, name=f"new_{each.name}"))
        elif fate == "drop and add":
            members.append(t.Field(next(ids), each.name, t.STRING, physical_name=f"p{each.name}"))
    members.append(t.Field(next(ids), "added", t.LONG, default=chance.choice([None, 7])))
    chance.shuffle(members)
    return t.Struct(tuple(members))


def value(kind: t.Type, chance: random.Random) -> Any:
    """Draw a value; a struct's value is keyed by the ids of its members."""
    if chance.random() < 0.25:
        return None
    match kind:
        case t.Struct():
            return {f.id: value(f.type, chance) for f in kind.fields}
        case t.ListOf():
            return [value(kind.element.type, chance) for _ in range(chance.randrange(3))]
        case t.LONG:
            return chance.randrange(100)
        case t.STRING:
            return chance.choice("abc")
    return chance.random() < 0.5


def stored(found: Any, kind: t.Type) -> Any:
    """Convert a value to Arrow's form, by physical names."""
    match kind:
        case t.Struct() if found is not None:
            return {f.physical_name: stored(found[f.id], f.type) for f in kind.fields}
        case t.ListOf() if found is not None:
            return [stored(each, kind.element.type) for each in found]
    return found


def in_table(found: Any, kind: t.Type) -> Any:
    """Convert a value of a file to one of the table's later type."""
    match kind:
        case t.Struct() if found is not None:
            return {f.name: in_table(found[f.id], f.type) if f.id in found else f.default for f in kind.fields}
        case t.ListOf() if found is not None:
            return [in_table(each, kind.element.type) for each in found]
    return found


def struct_paths(field: t.Field) -> list[tuple[t.Field, ...]]:
    below = field.type.fields if isinstance(field.type, t.Struct) else ()
    return [(field,), *((field, *path) for member in below for path in struct_paths(member))]


def avro_type(kind: t.Type, names: Any) -> Any:
    match kind:
        case t.Struct():
            fields = [{"name": f.physical_name, "type": ["null", avro_type(f.type, names)]} for f in kind.fields]
            for each, f in zip(fields, kind.fields, strict=True):
                each["field-id"] = f.id
            return {"type": "record", "name": f"r{next(names)}", "fields": fields}
        case t.ListOf():
            items = ["null", avro_type(kind.element.type, names)]
            return {"type": "array", "items": items, "element-id": kind.element.id}
    return str(kind)


def write(path: str, file_format: str, schema: Schema, rows: list[dict[str, Any]]) -> None:
    if file_format == "avro":
        with open(path, "wb") as out:
            fastavro.writer(out, avro_type(schema.struct(), iter(range(1000))), rows)
        return
    table = pa.Table.from_pylist(rows, schema=schema.arrow())
    if file_format == "orc":
        orc.write_table(table, path, stripe_size=64, batch_size=7)
    else:
        pq.write_table(table, path, row_group_size=7)


def read(path: str, file_format: str, context: ReadContext) -> tuple[list[dict[str, Any]], pa.RecordBatch]:
    """Return the rows of a file, and the first batch as decoded."""
    columns = context.columns_for(TRUE)
    rows, decoded = [], []
    with open_data_file(Storage(), path, file_format) as data:
        projection = resolve(read_fields(data.schema, context.matching), columns, context.matching, {})
        for _, batch in data.batches(data.chunks(0, NO_END), projection, 5):
            whole = pa.RecordBatch.from_arrays(projection.apply(batch), schema=columns.arrow())
            rows += context.select_output(whole, columns).to_pylist()
            decoded.append(batch)
    return rows, decoded[0]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@settings(max_examples=40)
@given(kind=structs(), seed=st.integers(0, 2**32), data=st.data())
def test_selected_members_have_the_values_of_their_structs(
    file_format: str, kind: t.Struct, seed: int, data: st.DataObject
) -> None:
    chance, ids = random.Random(seed), iter(range(1, 10_000))
    old = numbered(without_booleans(kind) if file_format == "orc" else kind, ids)
    assert isinstance(old, t.Struct)
    values = [{f.id: value(f.type, chance) for f in old.fields} for _ in range(20)]
    now = evolved(old, ids, chance)
    assert isinstance(now, t.Struct)
    paths = [path for field in now.fields for path in struct_paths(field)]
    chosen = data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=5))
    selection = Selection(tuple(SelectedColumn(path, f"c{i}") for i, path in enumerate(chosen)))
    # ORC files that Arrow writes have no ids: names are looked up, as in Delta's name mode.
    matching = FieldMatching(by_id=file_format != "orc")
    context = ReadContext(Storage(), selection, Schema(now.fields), matching, ())
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "f"))
        rows = [stored(each, old) for each in values]
        write(path, file_format, Schema(old.fields), rows)
        if file_format == "orc":  # Arrow writes some nested nulls with the values of other rows
            assume(orc.read_table(path).equals(pa.Table.from_pylist(rows, schema=Schema(old.fields).arrow())))
        found, _ = read(path, file_format, context)
    for row, each in zip(found, values, strict=True):
        for name, path_to in zip(row, chosen, strict=True):
            wanted: Any = in_table(each, now)
            for field in path_to:
                wanted = None if wanted is None else wanted[field.name]
            assert row[name] == wanted, [field.name for field in path_to]


MEMBERS = (
    t.Field(2, "a", t.LONG),
    t.Field(3, "in", t.Struct((t.Field(4, "x", t.STRING), t.Field(5, "y", t.LONG)))),
    t.Field(6, "list", t.ListOf(t.Field(7, "element", t.LONG))),
)
COLUMN = t.Field(1, "s", t.Struct(MEMBERS))
FILE = Schema((t.Field(8, "other", t.LONG), COLUMN))
ROWS = [{"other": 1, "s": {"a": 1, "in": {"x": "x", "y": 2}, "list": [1]}}, {"other": 2, "s": None}]


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize(
    ("path", "decoded"),
    [
        ((COLUMN, MEMBERS[0]), {"a": 1}),
        ((COLUMN, MEMBERS[1]), {"in": {"x": "x", "y": 2}}),
        ((COLUMN, MEMBERS[1], MEMBERS[1].type.fields[1]), {"in": {"y": 2}}),
        ((COLUMN, MEMBERS[2]), {"list": [1]}),
    ],
    ids=["leaf", "struct", "leaf of a struct", "list"],
)
def test_members_that_are_not_needed_are_not_decoded(
    tmp_path: Path, file_format: str, path: tuple[t.Field, ...], decoded: dict[str, Any]
) -> None:
    file = str(tmp_path / "f")
    write(file, file_format, FILE, ROWS)
    selection = Selection((SelectedColumn(path, "found"),))
    matching = FieldMatching(by_id=file_format != "orc")
    found, batch = read(file, file_format, ReadContext(Storage(), selection, FILE, matching, ()))
    assert found[1] == {"found": None}
    assert batch.to_pylist()[0] == {"s": decoded}


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_members_newer_than_the_file_read_one_member_to_find_null_structs(tmp_path: Path, file_format: str) -> None:
    file = str(tmp_path / "f")
    write(file, file_format, FILE, ROWS)
    added = t.Field(9, "added", t.STRING, default="new")
    column = replace(COLUMN, type=t.Struct((*MEMBERS[1:], added)))
    selection = Selection((SelectedColumn((column, added), "added"),))
    matching = FieldMatching(by_id=file_format != "orc")
    found, batch = read(file, file_format, ReadContext(Storage(), selection, FILE, matching, ()))
    assert found == [{"added": "new"}, {"added": None}]
    assert batch.to_pylist()[0] == {"s": {"a": 1}}


def test_an_orc_file_whose_names_have_dots_is_read(tmp_path: Path) -> None:
    """Arrow's reader treats a dot as nesting: `s.in` would select two columns."""
    member = t.Field(2, "in.x", t.LONG)
    schema = Schema((t.Field(1, "s", t.Struct((member, t.Field(3, "in", t.LONG)))), t.Field(4, "s.in", t.LONG)))
    write(str(tmp_path / "f"), "orc", schema, [{"s": {"in.x": 1, "in": 2}, "s.in": 3}, {"s": None, "s.in": 4}])
    selection = Selection((SelectedColumn((schema.fields[0], member), "x"),))
    found, batch = read(str(tmp_path / "f"), "orc", ReadContext(Storage(), selection, schema, FieldMatching(), ()))
    assert found == [{"x": 1}, {"x": None}]
    assert batch.to_pylist()[0] == {"s": {"in.x": 1}}


def test_columns_are_reduced_to_the_selected_members() -> None:
    inner = MEMBERS[1].type.fields[1]
    assert prune_columns([(COLUMN, MEMBERS[0]), (COLUMN,)]) == (COLUMN,)
    (cut,) = prune_columns([(COLUMN, MEMBERS[1], inner), (COLUMN, MEMBERS[0])])
    assert cut.type == t.Struct((MEMBERS[0], replace(MEMBERS[1], type=t.Struct((inner,)))))
