"""Avro decoded by column and by record gives the same; splits of ORC and Avro files divide their rows."""

from __future__ import annotations

import io
import itertools
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from lakescan.common import types as t
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptData
from lakescan.iceberg.manifests.avro_decode import open_container, read_avro
from lakescan.planning.split import NO_END
from lakescan.reading.avro.columnar import NotColumnar, encode_varint, is_columnar, physical_schema
from lakescan.reading.avro.file import BlockDecoder, open_blocks
from lakescan.reading.avro.schema import arrow_field
from lakescan.reading.data_file import open_data_file
from lakescan.reading.field_ids import read_fields
from lakescan.reading.projection import resolve
from lakescan.storage import Storage

pytest.importorskip("polars_avro")

LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(max_size=4)
_names = itertools.count()


def fixed(size: int, **logical: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": f"fixed{next(_names)}", "size": size, **logical}


def decimal_bytes(width: int | None) -> st.SearchStrategy[bytes]:
    """Draw two's complement bytes of a decimal of up to nine digits, as short as possible or of a fixed width."""
    return st.integers(-(10**9) + 1, 10**9 - 1).map(
        lambda n: n.to_bytes(width or (n.bit_length() // 8 + 1), "big", signed=True)
    )


DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}
# Physical types without their logical types, with values as they are stored.
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", INTS),
    ("long", LONGS),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("bytes", st.binary(max_size=4)),
    ("string", TEXTS),
    ({"type": "string", "avro.java.string": "String"}, TEXTS),
    ({"type": "int", "logicalType": "date"}, INTS),
    ({"type": "long", "logicalType": "time-micros"}, st.integers(0, 86_400_000_000 - 1)),
    ({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}, LONGS),
    ({"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}, LONGS),
    ({"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True}, LONGS),
    ({"type": "long", "logicalType": "local-timestamp-nanos"}, LONGS),
    ({"type": "long", "logicalType": "timestamp-millis"}, LONGS),
    ({"type": "bytes", **DECIMAL}, decimal_bytes(None)),
    ({"type": "bytes", **DECIMAL}, decimal_bytes(20)),
    (lambda: fixed(5, **DECIMAL), decimal_bytes(5)),
    (lambda: fixed(17, **DECIMAL), decimal_bytes(17)),
    (lambda: fixed(16, logicalType="uuid"), st.binary(min_size=16, max_size=16)),
    ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
    (lambda: fixed(3), st.binary(min_size=3, max_size=3)),
    (lambda: {"type": "enum", "name": f"enum{next(_names)}", "symbols": ["A", "B"]}, st.sampled_from(["A", "B"])),
]


@st.composite
def typed(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """Draw a type, and a strategy for its values."""
    kind = draw(st.sampled_from(["leaf", "leaf", "optional", "list", "map", "pairs", "record"] if depth else ["leaf"]))
    if kind == "leaf":
        node, values = draw(st.sampled_from(LEAVES))
        return (node() if callable(node) else node), values
    if kind == "record":
        members = [draw(typed(depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        names = [f"{name}{n}" for n, name in zip(range(3), ("a.b", "_x2", "déjà"), strict=True)]
        fields = [{"name": name, "type": node} for name, (node, _) in zip(names, members, strict=False)]
        rows = st.fixed_dictionaries({f["name"]: values for f, (_, values) in zip(fields, members, strict=True)})
        return {"type": "record", "name": f"record{next(_names)}", "fields": fields}, rows
    node, values = draw(typed(depth - 1))
    if kind == "optional":
        if isinstance(node, list):
            return node, values
        return (["null", node] if draw(st.booleans()) else [node, "null"]), st.none() | values
    if kind == "list":
        return {"type": "array", "items": node}, st.lists(values, max_size=3)
    if kind == "map":
        return {"type": "map", "values": node}, st.dictionaries(TEXTS, values, max_size=3)
    fields = [{"name": "key", "type": "int"}, {"name": "value", "type": node}]
    items = {"type": "record", "name": f"record{next(_names)}", "fields": fields}
    pairs = st.dictionaries(INTS, values, max_size=3).map(lambda d: [{"key": k, "value": v} for k, v in d.items()])
    return {"type": "array", "logicalType": "map", "items": items}, pairs


def stored(schema: Any) -> Any:
    """Return the schema without logical types, which fastavro writes without converting values. Nested names stay."""
    if isinstance(schema, list):
        return [stored(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if k in ("type", "name", "size", "symbols")}
    if schema["type"] == "record":
        kept["fields"] = [{"name": f"m{n}", "type": stored(f["type"])} for n, f in enumerate(schema["fields"])]
    for inner in {"items", "values"} & schema.keys():
        kept[inner] = stored(schema[inner])
    return kept


def renamed(value: Any, schema: Any) -> Any:
    """Convert a value of a schema to one of `stored(schema)`."""
    kind = next(e for e in schema if e != "null") if isinstance(schema, list) else schema
    if value is None or not isinstance(kind, dict):
        return value
    if kind["type"] == "record":
        return {f"m{n}": renamed(value[f["name"]], f["type"]) for n, f in enumerate(kind["fields"])}
    if kind["type"] == "array":
        return [renamed(each, kind["items"]) for each in value]
    if kind["type"] == "map":
        return {key: renamed(each, kind["values"]) for key, each in value.items()}
    return value


def decoded(schema: dict[str, Any], data: bytes, *, columnar: bool) -> list[pa.Array]:
    """Decode a file of `stored(schema)` with the schema itself; return its columns."""
    blocks = open_blocks(io.BytesIO(data), "f", len(data))
    fields = [arrow_field(each) for each in schema["fields"]]
    columns = BlockDecoder(schema, blocks.schema.least, fields, columnar)
    found = [arrays for _, _, arrays in columns.batches(blocks.read_blocks(0, NO_END))]
    return [pa.chunked_array([each[n] for each in found], field.type) for n, field in enumerate(fields)]


@settings(max_examples=150)
@given(data=st.data(), members=st.lists(typed(), min_size=1, max_size=4))
def test_both_decoders_give_the_same_columns(data: st.DataObject, members: list[Any]) -> None:
    fields = [{"name": f"c.{n}", "type": node} for n, (node, _) in enumerate(members)]
    schema = {"type": "record", "name": "row", "fields": [{"name": "n", "type": "long"}, *fields]}
    rows = st.fixed_dictionaries({f["name"]: values for f, (_, values) in zip(fields, members, strict=True)})
    records = [{"n": n, **row} for n, row in enumerate(data.draw(st.lists(rows, min_size=1, max_size=9)))]
    out = io.BytesIO()
    plain = fastavro.parse_schema(stored(schema))
    fastavro.writer(out, plain, [renamed(row, schema) for row in records], sync_interval=40)
    by_records = decoded(schema, out.getvalue(), columnar=False)
    assert is_columnar(physical_schema(schema))
    by_columns = decoded(schema, out.getvalue(), columnar=True)
    for left, right in zip(by_records, by_columns, strict=True):
        right.validate(full=True)
        assert left.equals(right)
        assert left.type == right.type
    assert by_columns[0].to_pylist() == list(range(len(records)))


def test_stored_values_are_converted_to_their_logical_types() -> None:
    schema = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "d", "type": ["null", {"type": "bytes", **DECIMAL}]},
            {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
        ],
    }
    rows = [
        {"d": None, "u": str(uuid.UUID(int=7)), "e": "B"},
        {"d": (-150).to_bytes(2, "big", signed=True), "u": str(uuid.UUID(int=8)), "e": "A"},
    ]
    out = io.BytesIO()
    plain = stored(schema)
    fastavro.writer(out, fastavro.parse_schema(plain), [renamed(row, schema) for row in rows])
    for columnar in (False, True):
        numbers, ids, words = (each.to_pylist() for each in decoded(schema, out.getvalue(), columnar=columnar))
        assert numbers == [None, Decimal("-1.50")]
        assert ids == [uuid.UUID(int=7).bytes, uuid.UUID(int=8).bytes]
        assert words == ["B", "A"]


ONE_TEXT = {"type": "record", "name": "row", "fields": [{"name": "s", "type": "string"}]}


def file_of(schema: dict[str, Any], count: int, records: bytes) -> bytes:
    """Return an Avro file of one block that declares `count` records."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), [], sync_marker=bytes(16))
    return out.getvalue() + encode_varint(count) + encode_varint(len(records)) + records + bytes(16)


@pytest.mark.parametrize(
    ("count", "records"),
    [(1, b"\x02a\x02b"), (1, b"\x02a\x00"), (3, b"\x02a\x02b\x06"), (1, b"\x04\xff\xfe"), (1, b"\x02a" + bytes(40))],
)
def test_a_block_whose_records_do_not_fill_it_is_refused_by_both_decoders(count: int, records: bytes) -> None:
    with pytest.raises(NotColumnar):
        decoded(ONE_TEXT, file_of(ONE_TEXT, count, records), columnar=True)
    with pytest.raises((ValueError, EOFError)):
        decoded(ONE_TEXT, file_of(ONE_TEXT, count, records), columnar=False)


def test_a_manifest_whose_block_has_more_than_its_records_ends_in_an_error() -> None:
    schema = {"type": "record", "name": "row", "fields": [{"name": "s", "type": "string", "field-id": 1}]}
    data = file_of(schema, 600, b"\x02a" * 601)
    with pytest.raises(Exception, match="after its 600 records"):
        read_avro([open_container(data, "m.avro")], {1: "s"}, fast=True)


def test_a_map_with_a_repeated_key_has_its_last_value() -> None:
    members = [{"name": "m", "type": {"type": "map", "values": "int"}}, {"name": "n", "type": "long"}]
    schema = {"type": "record", "name": "r", "fields": members}
    data = file_of(schema, 1, b"\x04\x02a\x02\x02a\x04\x00\x02")
    with pytest.raises(ValueError, match="a key twice"):
        decoded(schema, data, columnar=True)
    assert decoded(schema, data, columnar=False)[0].to_pylist() == [[("a", 2)]]


SPLIT = Schema((t.Field(1, "n", t.LONG), t.Field(2, "text", t.STRING)))
BY_NAME = FieldMatching(by_id=False)


def split_rows(path: Path, file_format: str, bounds: list[int]) -> Iterator[tuple[int, int, str]]:
    """Yield the position and the values of each row, split by split; each split opens the file again."""
    for start, stop in itertools.pairwise(bounds):
        with open_data_file(Storage(), str(path), file_format) as data:
            projection = resolve(read_fields(data.schema, BY_NAME), SPLIT, BY_NAME, {})
            for first, batch in data.batches(data.chunks(start, stop), projection, 13):
                values = (each.to_pylist() for each in projection.apply(batch))
                yield from zip(itertools.count(first), *values)


def in_zstandard(data: bytes, schema: Any) -> bytes:
    """Return the file with its blocks compressed."""
    out = io.BytesIO()
    fastavro.writer(out, schema, [], sync_marker=bytes(16))
    parts = [out.getvalue().replace(b"\x14avro.codec\x08null", b"\x14avro.codec\x12zstandard")]
    assert b"zstandard" in parts[0]
    for block in open_blocks(io.BytesIO(data), "f", len(data)).read_blocks(0, NO_END):
        packed = pa.Codec("zstd").compress(block.data, asbytes=True)
        parts.append(encode_varint(block.rows) + encode_varint(len(packed)) + packed + bytes(16))
    return b"".join(parts)


def write_file(path: Path, file_format: str, rows: int, codec: str) -> None:
    """Write rows in many small stripes or blocks."""
    texts = [str(uuid.UUID(int=n * 2**90 + n)) for n in range(rows)]
    if file_format == "avro":
        fields = [{"name": "n", "type": "long"}, {"name": "text", "type": ["string", "null"]}]
        records = ({"n": n, "text": text} for n, text in enumerate(texts))
        schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
        with path.open("wb") as out:
            plain = "null" if codec == "zstandard" else codec  # which fastavro writes only with an additional package
            fastavro.writer(out, schema, records, plain, sync_interval=200)
        if codec == "zstandard":
            path.write_bytes(in_zstandard(path.read_bytes(), schema))
        return
    table = pa.table({"n": np.arange(rows), "text": pa.array(texts, pa.string())})
    orc.write_table(table, path, compression=codec, stripe_size=64, batch_size=7)


FILES = [("orc", c) for c in ("uncompressed", "zlib", "snappy", "lz4", "zstd")] + [
    ("avro", c) for c in ("null", "deflate", "snappy", "zstandard")
]


@pytest.mark.parametrize(("file_format", "codec"), FILES)
@settings(max_examples=15)
@given(rows=st.integers(0, 300), cuts=st.sets(st.integers(1, 30_000), max_size=6))
def test_splits_partition_the_rows_with_their_positions(
    tmp_path_factory: pytest.TempPathFactory, file_format: str, codec: str, rows: int, cuts: set[int]
) -> None:
    path = tmp_path_factory.mktemp("f") / "file"
    write_file(path, file_format, rows, codec)
    found = list(split_rows(path, file_format, [0, *sorted(cuts), NO_END]))
    assert [(at, n) for at, n, _ in found] == [(n, n) for n in range(rows)]
    assert [text for _, _, text in found] == [str(uuid.UUID(int=n * 2**90 + n)) for n in range(rows)]


@pytest.mark.parametrize(("file_format", "codec"), FILES)
def test_a_split_does_not_read_the_whole_file(tmp_path: Path, file_format: str, codec: str) -> None:
    rows = 40_000 if file_format == "orc" else 1000
    write_file(tmp_path / "f", file_format, rows, codec)
    size = (tmp_path / "f").stat().st_size
    counts = [
        len(list(split_rows(tmp_path / "f", file_format, bounds))) for bounds in ([0, size // 2], [size // 2, NO_END])
    ]
    assert sum(counts) == rows
    assert all(counts)


def test_a_block_is_in_the_split_where_the_marker_before_it_begins(tmp_path: Path) -> None:
    write_file(tmp_path / "f", "avro", 100, "null")
    data = (tmp_path / "f").read_bytes()
    blocks = open_blocks(io.BytesIO(data), "f", len(data))
    second = data.index(blocks.marker, blocks.body)
    first_rows = [block.first_row for block in blocks.read_blocks(0, NO_END)]
    for start, expected in ((second, first_rows[1]), (second + 1, first_rows[2])):
        assert next(blocks.read_blocks(start, NO_END)).first_row == expected
    assert [block.first_row for block in blocks.read_blocks(0, second)] == [0]
    assert [block.first_row for block in blocks.read_blocks(0, second + 1)] == first_rows[:2]


def test_an_orc_footer_that_contradicts_arrows_reading_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_file(path, "orc", 300, "uncompressed")
    data = bytearray(path.read_bytes())
    footer = data.rindex(b"\x08\x03\x10")  # the first stripe: its offset is 3
    data[footer + 1] = 127
    path.write_bytes(data)
    with open_data_file(Storage(), str(path), "orc") as file:
        assert 0 not in file.chunks(0, 100)
    del data[-1]
    path.write_bytes(data)
    with pytest.raises(CorruptData), open_data_file(Storage(), str(path), "orc"):
        pass
