"""Manifests with false sizes and counts are refused by name before they cost memory or time."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakescan import limits
from lakescan.errors import CorruptMetadata, LimitExceeded, UnsupportedFeature
from lakescan.iceberg.manifests.avro_decode import open_container, read_avro
from tests.support.manifests import avro_file, avro_number

NAMES = {1: "x", 2: "y"}


def record(*fields: dict[str, Any], name: str = "r") -> str:
    return json.dumps({"type": "record", "name": name, "fields": fields})


def field(name: str, kind: Any, field_id: int) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": field_id}


LONGS = record(field("x", "long", 1))
HALF = {"type": "fixed", "name": "half", "size": 8}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (record(field("x", "int", 1), field("y", ["null", "r"], 2)), "contains itself"),
        (record(field("x", {"type": "array", "items": "null"}, 1)), "items take no bytes"),
        (record(field("x", {"type": "array", "items": {"type": "record", "name": "e", "fields": []}}, 1)), "no bytes"),
        ('{"type":"array","items":' * 50 + '"int"' + "}" * 50, "nests deeper"),
        ('{"type":"array","items":' * 20_000 + '"int"' + "}" * 20_000, "nests deeper"),
        (record(field("x", "nosuch", 1)), "references a type 'nosuch'"),
        (record(field("x", "int", 1), field("y", "int", 1)), "share ids"),
        (record(field("x", "int", 1), field("x", "int", 2)), "share names"),
        (
            record(field("x", {"type": "bytes", "logicalType": "decimal", "precision": 99, "scale": 3}, 1)),
            "precision 99",
        ),
        (record({"name": "x", "type": "int", "field-id": "1"}), "as a field id"),
        (record({"name": "x"}), "None"),
        ('"int"', "not a record"),
        ("{", "not JSON"),
    ],
)
def test_a_schema_that_leads_a_decoder_astray_is_refused_before_decoding(schema: str, problem: str) -> None:
    with pytest.raises(CorruptMetadata, match=rf"^m\.avro .*{problem}"):
        open_container(avro_file(schema, 1, b"\x00" * 64), "m.avro")


def test_types_referenced_by_name_are_read() -> None:
    schema = record(field("x", ["null", HALF], 1), field("y", ["null", "half"], 2))
    file = open_container(avro_file(schema, 1, b"\x02" + b"a" * 8 + b"\x02" + b"b" * 8), "m")
    for fast in (True, False):
        assert read_avro([file], NAMES, fast=fast).select(["x", "y"]).to_pylist() == [{"x": b"a" * 8, "y": b"b" * 8}]


@pytest.mark.parametrize("count", [9, 2**40, 2**62])
def test_more_records_than_the_bytes_can_hold_are_refused(count: int) -> None:
    with pytest.raises(CorruptMetadata, match=r"m\.avro .*64 bytes for"):
        open_container(avro_file(record(field("x", "double", 1)), count, bytes(64)), "m.avro")


def test_records_without_bytes_are_refused() -> None:
    with pytest.raises(CorruptMetadata, match="0 bytes for 1,000,000,000 records"):
        open_container(avro_file(record(field("x", "null", 1)), 10**9, b""), "m.avro")


def test_bytes_that_are_left_after_the_records_are_noticed() -> None:
    file = open_container(avro_file(LONGS, 2, b"\x02\x04\x06"), "m.avro")
    with pytest.raises(CorruptMetadata, match=r"m\.avro has 1 bytes after its 2 records"):
        read_avro([file], NAMES)


def test_a_number_has_at_most_ten_bytes() -> None:
    with pytest.raises(CorruptMetadata, match="longer than 10 bytes"):
        open_container(b"Obj\x01" + b"\xff" * 1_000_000, "m.avro")


def test_a_header_with_too_many_entries_is_refused() -> None:
    with pytest.raises(CorruptMetadata, match="header claims"):
        open_container(b"Obj\x01" + avro_number(2**40) + bytes(1000), "m.avro")


def snappy(data: bytes) -> bytes:
    return pa.compress(data, codec="snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big")


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


PACKED = {
    "null": lambda data: data,
    "deflate": deflate,
    "snappy": snappy,
    "zstandard": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize("codec", PACKED)
def test_every_codec_of_the_specification_is_read_by_both_decoders(codec: str) -> None:
    file = open_container(avro_file(LONGS, 3, PACKED[codec](b"\x02\x04\x06"), codec), "m")
    for fast in (True, False):
        assert read_avro([file], NAMES, fast=fast)["x"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_blocks_that_unpack_to_more_than_the_limit_are_refused(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "AVRO_BLOCK", 1000)
    data = avro_file(LONGS, 1000, PACKED[codec](b"\x02" * 1000), codec)
    assert open_container(data, "m.avro").rows == 1000
    with pytest.raises(LimitExceeded, match=r"m\.avro .*lakescan\.limits\.AVRO_BLOCK"):
        open_container(avro_file(LONGS, 1001, PACKED[codec](b"\x02" * 1001), codec), "m.avro")


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_a_damaged_block_is_refused(codec: str) -> None:
    packed = PACKED[codec](bytes(range(256)))
    with pytest.raises(CorruptMetadata, match=r"m\.avro .*cannot be decompressed"):
        open_container(avro_file(LONGS, 1, packed[: len(packed) // 2], codec), "m.avro")


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(UnsupportedFeature, match=r"'lz77'.*m\.avro"):
        open_container(avro_file(LONGS, 1, b"\x02", "lz77"), "m.avro")


WRITTEN = {
    "type": "record",
    "name": "r",
    "fields": [
        field("x", ["null", "long"], 1),
        field("y", {"type": "array", "items": {"type": "record", "name": "p", "fields": [field("k", "int", 3)]}}, 2),
    ],
}


@settings(max_examples=150)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), many=st.booleans())
def test_a_flipped_bit_gives_rows_or_a_lakescan_error(place: float, bit: int, many: bool) -> None:
    out = io.BytesIO()
    fastavro.writer(out, WRITTEN, [{"x": n, "y": [{"k": n}] * (n % 3)} for n in range(40)], codec="deflate")
    data = bytearray(out.getvalue())
    data[int(place * len(data))] ^= 1 << bit
    rows, told = 0, ""
    try:
        rows = read_avro([open_container(bytes(data), "m.avro")], NAMES, fast=many).num_rows
    except (CorruptMetadata, LimitExceeded, UnsupportedFeature) as error:
        told = str(error)
    assert 0 <= rows <= len(data)
    assert "m.avro" in told or not told
    assert len(told) < 1000
