"""What is written is what was given: rows of every type, in every layout, read back from the table and from its file.

Values are made in Python, put into Arrow's layouts of a type, saved, and compared with what they were.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakescan.definition.from_arrow import columns_of
from lakescan.definition.table_definition import numbered
from lakescan.schema import Schema
from lakescan.writing.fitting import Fit, renamed


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
    """An array of values; nulls hide values, as Arrow allows and other libraries make."""
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
    """The values with nulls between them; each null has the value before it beneath."""
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
def columns(draw: Any, leaves: list[Kind]) -> tuple[Kind, list[Any], pa.Array]:
    """A kind, values of it, and an array of them: whole, cut out of another, encoded."""
    of = draw(kinds(leaves))
    values = draw(st.lists(optional(of), max_size=6))
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
    return Schema(numbered(columns_of(schema)))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(columns([*LEAVES, *ICEBERG_ALONE, *KEPT_BY_ICEBERG]))
def test_fitted_rows_are_those_given_in_any_layout(column: tuple[Kind, list[Any], pa.Array]) -> None:
    of, values, array = column
    expected = [read(value, of) for value in values]
    given_schema = pa.schema([("c", array.type)])
    schema = schema_of(given_schema)
    found = Fit.of(schema, given_schema).apply(pa.record_batch([array], schema=given_schema)).column(0)
    found.validate(full=True)
    assert found.type == schema.fields[0].type.arrow()
    assert micros(found.to_pylist()) == expected
    assert micros(renamed(found, schema.fields[0].type.arrow()).to_pylist()) == expected
    assert not hides_anything(found)


def micros(value: Any) -> Any:
    """Times of nanoseconds as Python's."""
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
    """Whether a null list or map has elements."""
    if pa.types.is_struct(array.type):
        return any(hides_anything(array.field(place)) for place in range(array.type.num_fields))
    if not (pa.types.is_list(array.type) or pa.types.is_map(array.type)):
        return False
    lengths = np.diff(array.offsets.to_numpy())
    children = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    return any(map(hides_anything, children)) or bool(lengths[array.is_null().to_numpy(zero_copy_only=False)].any())
