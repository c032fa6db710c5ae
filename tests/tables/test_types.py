"""Written values are read back unchanged: rows of every type, in every layout, from the table and from its file.

Values are made in Python, put into Arrow's layouts of a type, saved, and compared with the originals.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import lakescan
from lakescan.common.schema import Schema
from lakescan.definition.arrow_schema import columns_of
from lakescan.definition.table_definition import assign_ids
from lakescan.writing.conform import Fit, retype


@dataclass(frozen=True, repr=False)
class Kind:
    """An Arrow type, values of it, and how a value is read back."""

    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    read: Callable[[Any], Any] = lambda value: value
    is_key: bool = False

    def __repr__(self) -> str:
        return str(self.arrow)


def whole(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)))


TEXT = st.text(max_size=4)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
SECONDS = MOMENTS.map(lambda value: value.replace(microsecond=0))
MILLIS = MOMENTS.map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000))
NANOS = st.datetimes(datetime(1678, 1, 1), datetime(2262, 1, 1))
INSTANTS = MOMENTS.map(lambda value: value.replace(tzinfo=UTC))
TIMES = st.times()
FLOATS = st.floats(width=32, allow_nan=False)

LEAVES = [
    Kind(pa.bool_(), st.booleans()),
    *[Kind(getattr(pa, f"int{bits}")(), whole(bits), is_key=True) for bits in (8, 16, 32, 64)],
    *[Kind(getattr(pa, f"uint{bits}")(), whole(bits, signed=False), is_key=True) for bits in (8, 16, 32)],
    Kind(pa.uint64(), whole(64, signed=False), Decimal),
    Kind(pa.float16(), st.floats(width=16, allow_nan=False)),
    Kind(pa.float32(), FLOATS),
    Kind(pa.float64(), st.floats(allow_nan=False)),
    Kind(pa.string(), TEXT, is_key=True),
    Kind(pa.large_string(), TEXT, is_key=True),
    Kind(pa.string_view(), st.text(max_size=20), is_key=True),
    Kind(pa.binary(), st.binary(max_size=4)),
    Kind(pa.large_binary(), st.binary(max_size=4)),
    Kind(pa.binary_view(), st.binary(max_size=20)),
    Kind(pa.decimal32(5, 2), decimals(5, 2)),
    Kind(pa.decimal64(15, 3), decimals(15, 3)),
    Kind(pa.decimal128(38, 10), decimals(38, 10)),
    Kind(pa.decimal256(30, 0), decimals(30, 0)),
    Kind(pa.date32(), st.dates(), is_key=True),
    Kind(pa.date64(), st.dates()),
    Kind(pa.timestamp("s"), SECONDS),
    Kind(pa.timestamp("ms"), MILLIS),
    Kind(pa.timestamp("us"), MOMENTS),
    Kind(pa.timestamp("us", "UTC"), INSTANTS),
    Kind(pa.timestamp("us", "Europe/Berlin"), INSTANTS),
    Kind(pa.timestamp("ns"), NANOS),
    Kind(pa.bool8(), st.booleans()),
    Kind(pa.json_(), TEXT),
]
ICEBERG_ALONE = [
    Kind(pa.time32("s"), TIMES.map(lambda value: value.replace(microsecond=0))),
    Kind(pa.time32("ms"), TIMES.map(lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000))),
    Kind(pa.time64("us"), TIMES),
    Kind(pa.time64("ns"), TIMES),
]
CHANGED_BY_DELTA = [Kind(pa.uuid(), st.uuids(), str), Kind(pa.binary(3), st.binary(min_size=3, max_size=3))]
KEPT_BY_ICEBERG = [Kind(pa.uuid(), st.uuids()), Kind(pa.binary(3), st.binary(min_size=3, max_size=3))]


def read(value: Any, of: Kind) -> Any:
    return None if value is None else of.read(value)


def optional(of: Kind) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), of.values)


def a_list(of: Kind, layout: Callable[[pa.DataType], pa.DataType]) -> Kind:
    values = st.lists(optional(of), max_size=3)
    return Kind(layout(of.arrow), values, lambda value: [read(each, of) for each in value])


def fixed_list(of: Kind, size: int) -> Kind:
    values = st.lists(optional(of), min_size=size, max_size=size)
    return Kind(pa.list_(of.arrow, size), values, lambda value: [read(each, of) for each in value])


def a_struct(members: list[Kind]) -> Kind:
    arrow = pa.struct([(f"m{place}", each.arrow) for place, each in enumerate(members)])
    values = st.fixed_dictionaries({f"m{place}": optional(each) for place, each in enumerate(members)})
    of = {f"m{place}": each for place, each in enumerate(members)}
    return Kind(arrow, values, lambda value: {name: read(value[name], each) for name, each in of.items()})


def a_map(key: Kind, item: Kind) -> Kind:
    values = st.dictionaries(key.values, optional(item), max_size=3).map(lambda value: list(value.items()))
    return Kind(pa.map_(key.arrow, item.arrow), values, lambda value: [(read(k, key), read(v, item)) for k, v in value])


LISTS = (pa.list_, pa.large_list, pa.list_view, pa.large_list_view)


def kinds(leaves: list[Kind]) -> st.SearchStrategy[Kind]:
    keys = st.sampled_from([leaf for leaf in leaves if leaf.is_key])

    def nested(of: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
        return st.one_of(
            st.builds(a_list, of, st.sampled_from(LISTS)),
            st.builds(fixed_list, of, st.integers(1, 3)),
            st.builds(a_struct, st.lists(of, min_size=1, max_size=3)),
            st.builds(a_map, keys, of),
        )

    return st.recursive(st.sampled_from(leaves), nested, max_leaves=4)


def array_of(values: list[Any], arrow: pa.DataType) -> pa.Array:
    """Return an array of values whose nulls hide values, as Arrow allows and other libraries produce."""
    shown = [v for v in values if v is not None]
    if isinstance(arrow, pa.BaseExtensionType):
        stored = [v.bytes if isinstance(v, uuid.UUID) else int(v) if isinstance(v, bool) else v for v in shown]
        dense = pa.ExtensionArray.from_storage(arrow, array_of(stored, arrow.storage_type))
    elif pa.types.is_struct(arrow):
        members = [array_of([value[f.name] for value in shown], f.type) for f in arrow]
        dense = pa.StructArray.from_arrays(members, fields=list(arrow))
    elif pa.types.is_map(arrow):
        entries = [pair for value in shown for pair in value]
        keys, items = (
            array_of([k for k, _ in entries], arrow.key_type),
            array_of([v for _, v in entries], arrow.item_type),
        )
        dense = pa.MapArray.from_arrays(offsets([len(v) for v in shown], pa.int32()), keys, items, type=arrow)
    elif pa.types.is_fixed_size_list(arrow):
        dense = pa.FixedSizeListArray.from_arrays(array_of([e for v in shown for e in v], arrow.value_type), type=arrow)
    elif pa.types.is_nested(arrow):
        inner, lengths = array_of([e for v in shown for e in v], arrow.value_type), [len(v) for v in shown]
        layout = str(arrow).split("<")[0]
        large = "large" in layout
        ends = offsets(lengths, pa.int64() if large else pa.int32())
        if "view" in layout:
            of_views = pa.LargeListViewArray if large else pa.ListViewArray
            dense = of_views.from_arrays(ends[:-1], pa.array(lengths, ends.type), inner, type=arrow)
        else:
            dense = (pa.LargeListArray if large else pa.ListArray).from_arrays(ends, inner, type=arrow)
    else:
        dense = pa.array(shown, arrow)
    return hiding(dense, [value is None for value in values])


def offsets(lengths: list[int], of: pa.DataType) -> pa.Array:
    return pa.array(np.cumsum([0, *lengths]), of)


def hiding(dense: pa.Array, nulls: list[bool]) -> pa.Array:
    """Return the values with nulls between them; each null hides the preceding value."""
    if not any(nulls):
        return dense
    if not len(dense):
        return pa.nulls(len(nulls), dense.type)
    place, at = 0, []
    for is_null in nulls:
        at.append(min(max(place - 1, 0) if is_null else place, len(dense) - 1))
        place += not is_null
    spread = pa.concat_arrays([dense.slice(each, 1) for each in at])
    if isinstance(spread, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(spread.type, masked(spread.storage, nulls))
    return masked(spread, nulls)


def masked(array: pa.Array, nulls: list[bool]) -> pa.Array:
    buffers = array.buffers()
    valid = pa.array([not each for each in nulls]).buffers()[1]
    if pa.types.is_nested(array.type):
        children = [array.field(n) for n in range(array.type.num_fields)] if pa.types.is_struct(array.type) else None
        if children is None:
            children = [map_entries(array)] if pa.types.is_map(array.type) else [array.values]
        own = {True: 3, False: 1 if pa.types.is_struct(array.type) or pa.types.is_fixed_size_list(array.type) else 2}
        count = own["view" in str(array.type).split("<")[0]]
        return pa.Array.from_buffers(array.type, len(array), [valid, *buffers[1:count]], children=children)
    return pa.Array.from_buffers(array.type, len(array), [valid, *buffers[1:]])


def map_entries(array: pa.MapArray) -> pa.Array:
    return pa.StructArray.from_arrays([array.keys, array.items], fields=[array.type.key_field, array.type.item_field])


@st.composite
def columns(draw: Any, leaves: list[Kind], rows: int | None = None) -> tuple[Kind, list[Any], pa.Array]:
    """Draw a kind, values of it, and an array of them: whole, sliced, encoded."""
    of = draw(kinds(leaves))
    values = draw(st.lists(optional(of), min_size=rows or 0, max_size=rows or 6))
    before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    filler = (values or [None])[:1]
    array = array_of(filler * before + values + filler * after, of.arrow)
    layout = draw(st.sampled_from(["plain", "dictionary", "runs"]))
    if layout == "dictionary":
        array = pa.DictionaryArray.from_arrays(pa.array(range(len(array)), pa.int16()), array)
    elif layout == "runs":
        array = pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(array) + 1), pa.int32()), array)
    return of, values, array.slice(before, len(values))


def schema_of(schema: pa.Schema) -> Schema:
    return Schema(assign_ids(columns_of(schema)))


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(columns([*LEAVES, *ICEBERG_ALONE, *KEPT_BY_ICEBERG]))
def test_fitted_rows_equal_the_given_ones_in_any_layout(column: tuple[Kind, list[Any], pa.Array]) -> None:
    of, values, array = column
    expected = [read(value, of) for value in values]
    given_schema = pa.schema([("c", array.type)])
    schema = schema_of(given_schema)
    found = Fit.match_columns(schema, given_schema).apply(pa.record_batch([array], schema=given_schema)).column(0)
    found.validate(full=True)
    assert found.type == schema.fields[0].type.arrow()
    assert micros(found.to_pylist()) == expected
    assert micros(retype(found, schema.fields[0].type.arrow()).to_pylist()) == expected
    assert not hides_anything(found)


def micros(value: Any) -> Any:
    """Convert times in nanoseconds to Python's."""
    match value:
        case list():
            return [micros(each) for each in value]
        case tuple():
            return tuple(micros(each) for each in value)
        case dict():
            return {name: micros(each) for name, each in value.items()}
        case datetime() if hasattr(value, "to_pydatetime"):
            return value.to_pydatetime()
    return value


def hides_anything(array: pa.Array) -> bool:
    """Return whether a null list or map has elements."""
    if pa.types.is_struct(array.type):
        return any(hides_anything(array.field(place)) for place in range(array.type.num_fields))
    if not (pa.types.is_list(array.type) or pa.types.is_map(array.type)):
        return False
    lengths = np.diff(array.offsets.to_numpy())
    children = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    return any(map(hides_anything, children)) or bool(lengths[array.is_null().to_numpy(zero_copy_only=False)].any())


def stored(value: Any) -> Any:
    """Return a value as stored in files, which have no UUIDs."""
    match value:
        case list():
            return [stored(each) for each in value]
        case tuple():
            return tuple(stored(each) for each in value)
        case dict():
            return {name: stored(each) for name, each in value.items()}
        case uuid.UUID():
            return value.bytes
    return value


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "leaves"),
    [("iceberg", [*LEAVES, *ICEBERG_ALONE, *KEPT_BY_ICEBERG]), ("delta", [*LEAVES, *CHANGED_BY_DELTA])],
)
def test_saved_rows_equal_the_given_ones(format: str, leaves: list[Kind]) -> None:
    """In the table, and in its files as another Parquet reader reads them."""

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(columns(leaves, rows=4), min_size=1, max_size=4))
    def check(drawn: list[tuple[Kind, list[Any], pa.Array]]) -> None:
        expected = {f"c{n}": [read(value, of) for value in values] for n, (of, values, _) in enumerate(drawn)}
        given_rows = pa.table({f"c{n}": array for n, (_, _, array) in enumerate(drawn)})
        with tempfile.TemporaryDirectory() as folder:
            lakescan.catalog("types", warehouse=folder).create_namespace("db")
            target = "types.db.t" if format == "iceberg" else f"{folder}/t"
            try:
                lakescan.save(given_rows, target, format=format)
            except lakescan.UnsupportedFeature as error:
                assume("timestamps without time zone only inside maps" not in str(error))
                raise
            found = lakescan.table(target).scan().to_arrow()
            (file,) = Path(folder).rglob("*.parquet")
            in_file = pq.ParquetFile(file).read()
        assert {name: micros(found[name].to_pylist()) for name in found.column_names} == expected
        assert {name: micros(in_file[name].to_pylist()) for name in in_file.column_names} == stored(expected)

    check()


REFUSED = {
    "duration": pa.array([1], pa.duration("us")),
    "months": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "union": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1]), pa.array(["a"])]),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1]), pa.array(["a"])]
    ),
    "opaque": pa.ExtensionArray.from_storage(pa.opaque(pa.binary(), "t", "v"), pa.array([b"a"])),
    "wide decimal": pa.array([Decimal(1)], pa.decimal256(39, 0)),
    "struct without members": pa.array([{}], pa.struct([])),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("nest", ["column", "list", "struct", "map", "dictionary"])
def test_types_that_tables_cannot_hold_are_refused_by_path(name: str, nest: str, tmp_path: Path) -> None:
    array = REFUSED[name]
    path = {"list": "c.element", "struct": "c.x", "map": "c.value"}.get(nest, "c")
    nested = {
        "column": lambda: array,
        "list": lambda: pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), array),
        "struct": lambda: pa.StructArray.from_arrays([array], ["x"]),
        "map": lambda: pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["k"]), array),
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0]), array),
    }[nest]()
    with pytest.raises(lakescan.UnsupportedFeature, match=f"column '{path}' of Arrow type"):
        lakescan.save(pa.table({"c": nested}), tmp_path / "t", format="delta")
    assert not (tmp_path / "t").exists()


def test_extension_types_that_arrow_does_not_know_are_refused_by_their_name(tmp_path: Path) -> None:
    field = pa.field("c", pa.binary(), metadata={"ARROW:extension:name": "geoarrow.wkb"})
    with pytest.raises(lakescan.UnsupportedFeature, match=r"column 'c' of Arrow type extension<geoarrow.wkb>"):
        lakescan.save(pa.table([pa.array([b"a"])], schema=pa.schema([field])), tmp_path / "t", format="delta")


@pytest.mark.parametrize("of", [lambda kind: pa.map_(pa.int8(), kind), lambda kind: pa.list_(pa.map_(kind, pa.int8()))])
def test_delta_tables_have_zoneless_timestamps_in_maps(of: Callable[[pa.DataType], pa.DataType], tmp_path) -> None:
    maps = pa.table({"m": pa.nulls(1, of(pa.timestamp("us")))})
    lakescan.save(maps, tmp_path / "t", format="delta")
    assert lakescan.table(tmp_path / "t").scan().to_arrow().equals(maps)


@pytest.mark.parametrize("kind", [pa.null(), pa.list_(pa.null()), pa.struct([("x", pa.null())])])
def test_columns_of_only_nulls_have_no_type(kind: pa.DataType, tmp_path: Path) -> None:
    with pytest.raises(lakescan.SchemaMismatch, match="contains only nulls"):
        lakescan.save(pa.table({"c": pa.nulls(2, kind)}), tmp_path / "t", format="delta")
    lakescan.save(pa.table({"id": [1], "c": [[1]]}), tmp_path / "t", format="delta")
    lakescan.table(tmp_path / "t").append(pa.table({"id": [2], "c": pa.nulls(1)}))
    assert lakescan.table(tmp_path / "t").scan().to_arrow().sort_by("id")["c"].to_pylist() == [[1], None]


def test_nanoseconds_are_kept_or_refused(local: lakescan.Catalog) -> None:
    fine = pa.table({"t": pa.array([1001], pa.timestamp("ns"))})
    with pytest.raises(lakescan.SchemaMismatch, match=r"table-property\.format-version=3"):
        lakescan.save(fine, "local.db.t")
    lakescan.save(fine, "local.db.u", **{"table-property.format-version": 3})
    assert lakescan.table("local.db.u").scan().to_arrow().equals(fine)
    lakescan.table("local.db.u").append(pa.table({"t": fine["t"], "new": fine["t"]}), merge_schema=True)
    assert lakescan.table("local.db.u").schema.field("new").type == pa.timestamp("ns")


def test_decimals_with_more_digits_than_their_type_are_refused(tmp_path: Path) -> None:
    """DuckDB passes its 128-bit integers in this form."""
    data = pa.Array.from_buffers(
        pa.decimal128(38, 0), 1, [None, pa.py_buffer((10**38).to_bytes(16, "little", signed=True))]
    )
    with pytest.raises(lakescan.SchemaMismatch, match="more digits"):
        lakescan.save(pa.table({"c": data}), tmp_path / "t", format="delta")


def test_members_whose_names_differ_in_case_are_distinguished(tmp_path: Path) -> None:
    kind = pa.struct([("a", pa.int64()), ("A", pa.int64())])
    schema = schema_of(pa.schema([("s", kind)]))
    rows = pa.record_batch({"s": pa.array([{"a": 1, "A": 2}, None], kind)})
    assert Fit.match_columns(schema, rows.schema).apply(rows).to_pylist() == rows.to_pylist()
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    with pytest.raises(lakescan.SchemaMismatch, match=r"'s\.x' occurs twice"):
        Fit.match_columns(schema_of(pa.schema([("s", pa.struct([("x", pa.int64())]))])), pa.schema([("s", twice.type)]))


@pytest.mark.parametrize("partition_by", [(), ("p",)])
@pytest.mark.parametrize("format", ["iceberg", "delta"])
def test_required_members_are_written_next_to_null_structs(
    format: str, partition_by: tuple[str, ...], local: lakescan.Catalog
) -> None:
    texts = pa.field("l", pa.list_(pa.field("element", pa.string(), nullable=False)), nullable=False)
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False), texts])
    of_inner = pa.field("value", inner, nullable=False)
    columns = {"p": pa.string(), "s": inner, "ls": pa.list_(of_inner), "m": pa.map_(pa.string(), of_inner)}
    rows = [
        {"p": "a", "s": None, "ls": [{"x": 1, "l": []}], "m": [("k", {"x": 1, "l": ["a"]})]},
        {"p": "b", "s": {"x": 2, "l": ["b"]}, "ls": None, "m": None},
        {"p": "c", "s": None, "ls": [], "m": []},
    ]
    member = pa.struct([("x", pa.int32()), ("l", pa.list_(pa.string()))])
    loose = pa.schema(
        [("p", pa.string()), ("s", member), ("ls", pa.list_(member)), ("m", pa.map_(pa.string(), member))]
    )
    table = local.create_table("db.t", pa.schema(columns), format=format, partition_by=partition_by)
    table.append(pa.Table.from_pylist(rows, loose))
    lakescan.table("local.db.t").compact()
    found = lakescan.table("local.db.t").scan().to_arrow().sort_by("p")
    found.validate(full=True)
    assert found.to_pylist() == rows
    with pytest.raises(lakescan.SchemaMismatch, match=r"'s\.x' is required, but is null in 1 rows"):
        table.append(pa.Table.from_pylist([{"s": {"x": None, "l": []}}, {"s": None}], loose))


def test_columns_of_unknown_type_are_in_no_file(local: lakescan.Catalog) -> None:
    columns = pa.schema([("u", pa.null()), ("id", pa.int64()), ("p", pa.string())])
    how = {"properties": {"format-version": "3"}, "sort_by": ["id desc"], "partition_by": ["p"]}
    local.create_table("db.t", columns, **how).append(pa.table({"id": [1, 3], "u": pa.nulls(2), "p": ["a", "a"]}))
    assert lakescan.table("local.db.t").scan().to_arrow().to_pylist() == [
        {"u": None, "id": 3, "p": "a"},
        {"u": None, "id": 1, "p": "a"},
    ]
    (location,) = lakescan.table("local.db.t").inspect("files")["file_path"].to_pylist()
    assert pq.ParquetFile(location.removeprefix("file://")).schema.names == ["id", "p"]
