"""Decode Avro records directly to Arrow columns with polars-avro, if it is installed.

The decoder never ends on a block that has bytes left after its records, unless they fill a batch, and does not say how
many bytes it read. So records are added that hold a value of this call alone, until all batches are full, and decoding
stops with the last one: if it is another record, the declared number of records is wrong.
"""

from __future__ import annotations

import functools
import io
import json
import secrets
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

_MAGIC = b"Obj\x01"
_MARKER = bytes(16)
_ZERO = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1, "enum": 1}
_MOST = 1 << 20  # bytes of the record behind the others
_LEAST = 8  # bytes of a fixed type that can tell it


class NotColumnar(ValueError):
    """The decoder is not installed, cannot decode these records, or they do not match their schema or number."""


@functools.cache
def columnar_decoder() -> Any:
    """The function that opens Avro files as Arrow batches; None if the extra `fast` is not installed.

    It is not public API: the public function builds a Polars frame, which takes half as long again, and reads on at
    the end of a block. Versions without it decode record by record.
    """
    try:
        from polars_avro._avro_rs import AvroSource
        from polars_avro._source import seekable_factory
    except ImportError:
        return None
    return lambda data: AvroSource([seekable_factory(io.BytesIO(data))], strict=False, utf8_view=False)


def decode_columns(
    schema: Mapping[str, Any], rows: int, records: Sequence[bytes], columns: Sequence[str], batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Decode top-level columns of `rows` records, whose bytes are the concatenation of `records`.

    Batches have at most `batch_rows`. Records that may take no bytes are not decoded. Raises `NotColumnar`, perhaps
    after some batches: what they hold is to be used only if the last one came.
    """
    decoder = columnar_decoder()
    if decoder is None or not rows:
        raise NotColumnar("polars-avro is not installed")
    last, place, value = _last_record(schema, columns)
    header = [
        _MAGIC,
        b"\x02",
        _encode_bytes(b"avro.schema"),
        _encode_bytes(json.dumps(schema).encode()),
        b"\x00",
        _MARKER,
    ]
    count = -(-(rows + 1) // batch_rows)
    each = -(-(rows + 1) // count)  # rows of every batch: the decoder stops at a full one
    more = count * each - rows
    size = sum(map(len, records)) + more * len(last)
    data = b"".join([*header, encode_varint(count * each), encode_varint(size), *records, *[last] * more, _MARKER])
    wanted = list(columns) if place in columns else [*columns, place]
    try:
        batches = decoder(data).batch_iter(each, wanted)
        for start in range(0, count * each, each):
            batch = pa.record_batch(next(batches))
            is_last = start + each == count * each
            if batch.num_rows != each or (is_last and batch.column(place)[-1].as_py() != value):
                raise NotColumnar(f"there are not {rows:,} records")
            if start < rows:
                yield batch.select(columns).slice(0, rows - start)
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, NotColumnar):
        raise
    except BaseException as error:  # includes Rust panics, which are no `Exception`
        raise NotColumnar(f"the records cannot be decoded: {error}") from error


def encode_varint(value: int) -> bytes:
    """A whole number of 64 bits as a zigzag varint."""
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _last_record(schema: Mapping[str, Any], columns: Sequence[str]) -> tuple[bytes, str, Any]:
    """A record that no other is likely to equal: its bytes, the field that tells it, preferably asked for, its value.

    All its other bytes are 0, which is a value of every type. Raises `NotColumnar` if no field can tell it.
    """
    if _zeros(schema) > _MOST:
        raise NotColumnar("its smallest record is too large")
    telling = [field for field in schema["fields"] if _marker_type(field["type"]) is not None]
    if not telling:
        raise NotColumnar("it has no field of numbers or texts")
    chosen = next((field for field in telling if field["name"] in columns), telling[0])
    value, own = _random(_marker_type(chosen["type"]))
    if isinstance(chosen["type"], list):
        own = encode_varint(next(n for n, each in enumerate(chosen["type"]) if each != "null")) + own
    data = b"".join(own if each is chosen else bytes(_zeros(each["type"])) for each in schema["fields"])
    return data, chosen["name"], value


def _marker_type(node: Any) -> Any:
    """The type of values of which there are many: of the field, or in its union with null; None for other types."""
    if isinstance(node, list):
        others = [each for each in node if each != "null"]
        return _marker_type(others[0]) if len(others) == 1 and len(node) == 2 else None
    if isinstance(node, dict):
        if "logicalType" in node:
            return None
        if node["type"] == "fixed":
            return node if node["size"] >= _LEAST else None
        node = node["type"]
    return node if node in ("int", "long", "double", "string", "bytes") else None


def _random(kind: Any) -> tuple[Any, bytes]:
    """A random value of a telling type, and its encoding."""
    if isinstance(kind, dict):
        data = secrets.token_bytes(kind["size"])
        return data, data
    if kind in ("int", "long"):
        number = secrets.randbits(30 if kind == "int" else 62)
        return number, encode_varint(number)
    if kind == "double":
        number = secrets.randbits(52)
        return float(number), struct.pack("<d", number)
    text = secrets.token_hex(16)
    return (text if kind == "string" else text.encode()), _encode_bytes(text.encode())


def _zeros(node: Any) -> int:
    """The number of bytes of the value of a type whose bytes are all 0."""
    if isinstance(node, list):
        return 1 + _zeros(node[0])
    if isinstance(node, str):
        return _ZERO[node]
    match node["type"]:
        case "record":
            return sum(_zeros(each["type"]) for each in node["fields"])
        case "array" | "map":
            return 1
        case "fixed":
            return int(node["size"])
    return _ZERO[node["type"]] if isinstance(node["type"], str) else _zeros(node["type"])


def _encode_bytes(data: bytes) -> bytes:
    return encode_varint(len(data)) + data
