"""Decodes Avro records directly to Arrow columns with polars-avro, if it is installed.

The decoder does not detect bytes that are left in a block after its last record, unless the last batch is full, and
does not return how many bytes it read. So the last batch is filled with marker records, which contain a random value.
If the last decoded record is not a marker, the declared number of records is wrong.
"""

from __future__ import annotations

import functools
import io
import json
import secrets
import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.reading.avro.schema import only_type

_MAGIC = b"Obj\x01"
_MARKER = bytes(16)
_ZERO = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1, "enum": 1}
_MOST = 1 << 20  # the limit of a marker record, in bytes
_LEAST = 8  # the minimum size of a fixed type for a marker's value, in bytes


class NotColumnar(ValueError):
    """The decoder is not installed or cannot decode these records, or they do not match their schema or number."""


@functools.cache
def columnar_decoder() -> Any:
    """Return the function that opens the bytes of an Avro file for reading as Arrow batches.

    None if the extra `fast` is not installed, or its version lacks the function; then records are decoded one by one.
    It is not a public API of polars-avro. The public function builds a Polars frame, which takes half as long again,
    and reads beyond the end of a block.
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
    """Decode the top-level columns `columns` of `rows` records from the concatenated bytes of `records`.

    `schema` is a physical schema (`physical_schema`) that `is_columnar` accepts. Batches have at most `batch_rows`
    rows. Records that may have zero bytes are not supported. Raises `NotColumnar`, perhaps after some batches: do not
    use any batch unless the last one was returned.
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
    each = -(-(rows + 1) // count)  # rows of every batch: the decoder stops at a full batch
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
    except BaseException as error:  # includes Rust panics, which are not an `Exception`
        raise NotColumnar(f"the records cannot be decoded: {error}") from error


def encode_varint(value: int) -> bytes:
    """Encode a signed 64-bit integer as an Avro `long` (zigzag varint)."""
    value, out = (value << 1) ^ (value >> 63), bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _last_record(schema: Mapping[str, Any], columns: Sequence[str]) -> tuple[bytes, str, Any]:
    """Return a marker record: its bytes, and the name and random value of the field that identifies it.

    A field in `columns` is preferred. All other bytes are 0, which is a valid value of every type. Raises `NotColumnar`
    if no field has a suitable type, or the record is too large.
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
    """Return the Avro type of a field, without a union with null, if it has enough values for a marker; else None."""
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
    """Return a random value of a type from `_marker_type`, and its Avro encoding."""
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
    """Return how many zero bytes encode a value of an Avro type: 0, an empty text, an empty array, ..."""
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


# A physical schema describes the same bytes without logical types. Its fields are renamed to `c0`, `c1`, ...
# `apply_logical_types` converts the columns to the types of `schema.arrow_field`: numbers to dates and times, bytes to
# decimals, arrays of pairs to maps.

_DAY = 86_400_000_000  # microseconds
_WIDTH = 16  # bytes of a decimal


def physical_schema(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record schema without logical types, with fields renamed to `c0`, `c1`, ...; enums become integers.

    `record` must not contain references to named types.
    """
    stored: dict[str, Any] = _strip_logical_types(record, count())
    return stored


def is_columnar(node: Any) -> bool:
    """Return whether the columnar decoder supports a physical type: no empty records or fixed types, no `null`.

    The only unions are those of one type with null.
    """
    if isinstance(node, list):
        return len(node) == 2 and sum(each == "null" for each in node) == 1 and all(map(_is_something, node))
    return _is_something(node) and node != "null"


def _is_something(node: Any) -> bool:
    if isinstance(node, str):
        return True
    match node["type"]:
        case "record":
            return bool(node["fields"]) and all(is_columnar(each["type"]) for each in node["fields"])
        case "array":
            return is_columnar(node["items"])
        case "map":
            return is_columnar(node["values"])
    return bool(node["type"] != "fixed" or node["size"] > 0)


def _strip_logical_types(node: Any, names: Iterator[int]) -> Any:
    if isinstance(node, list):
        return [_strip_logical_types(each, names) for each in node]
    if isinstance(node, str):
        return node
    match node["type"]:
        case "record":
            fields = [
                {"name": f"c{n}", "type": _strip_logical_types(f["type"], names)} for n, f in enumerate(node["fields"])
            ]
            return {"type": "record", "name": f"r{next(names)}", "fields": fields}
        case "array":
            return {"type": "array", "items": _strip_logical_types(node["items"], names)}
        case "map":
            return {"type": "map", "values": _strip_logical_types(node["values"], names)}
        case "fixed":
            return {"type": "fixed", "name": f"r{next(names)}", "size": node["size"]}
        case "enum":
            return "int"
    return _strip_logical_types(node["type"], names)


def apply_logical_types(array: pa.Array, node: Any, kind: pa.DataType) -> pa.Array:
    """Convert an array of the physical type of the Avro type `node` to the Arrow type `kind`.

    Structs in `kind` have only the members to read. Raises `ValueError` for invalid values.
    """
    node = only_type(node)
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        return _struct(array, node, kind, mask)
    if pa.types.is_map(kind):
        return _map(array, node, kind, mask)
    if pa.types.is_list(kind):
        values = apply_logical_types(array.values, node["items"], kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=mask)
    if isinstance(node, dict) and node["type"] == "enum":
        symbols = pa.array(node["symbols"], pa.string())
        known = pc.and_(pc.greater_equal(array, 0), pc.less(array, len(symbols)))
        if not pc.all(known, min_count=0).as_py():
            raise ValueError("an enum has a value without a symbol")
        return symbols.take(array)
    return _leaf(array, kind)


def _struct(array: pa.StructArray, node: Mapping[str, Any], kind: pa.DataType, mask: pa.Array | None) -> pa.Array:
    place = {field["name"]: n for n, field in enumerate(node["fields"])}
    members = []
    for field in kind:
        n = place[field.metadata[b"avro.name"].decode()]
        members.append(apply_logical_types(array.field(n), node["fields"][n]["type"], field.type))
    if not members:
        return pa.array([{} if each else None for each in array.is_valid().to_pylist()], kind)
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=mask)


def _map(array: pa.Array, node: Mapping[str, Any], kind: pa.DataType, mask: pa.Array | None) -> pa.Array:
    if pa.types.is_map(array.type):
        keys, items = array.keys, array.items
        types = ("string", node["values"])
        if _has_equal_keys(array.offsets, keys):
            raise ValueError("a map has a key twice")
    else:
        pairs = array.values
        if pairs.null_count:
            raise ValueError("a map has a null entry")
        fields = only_type(node["items"])["fields"]
        names = [each["name"] for each in fields]
        key, item = (names.index(f.metadata[b"avro.name"].decode()) for f in (kind.key_field, kind.item_field))
        keys, items = pairs.field(key), pairs.field(item)
        types = (fields[key]["type"], fields[item]["type"])
    keys, items = (
        apply_logical_types(keys, types[0], kind.key_type),
        apply_logical_types(items, types[1], kind.item_type),
    )
    return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=mask)


def _has_equal_keys(offsets: pa.Array, keys: pa.Array) -> bool:
    """Return whether any map has a duplicate key. For such maps, fastavro keeps the last entry.

    `offsets` and `keys` are those of the Arrow map array.
    """
    at = offsets.to_numpy()
    if len(at) < 2:
        return False
    codes = keys.slice(at[0], at[-1] - at[0]).dictionary_encode()
    row = np.repeat(np.arange(len(at) - 1, dtype=np.int64), np.diff(at))
    both = row * max(1, len(codes.dictionary)) + codes.indices.to_numpy()
    return len(np.unique(both)) < len(both)


def _leaf(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert an array of a primitive or fixed physical type to the Arrow type `kind`; raises `ValueError`."""
    stored = array.type
    if stored == kind:
        return array
    if pa.types.is_decimal(kind):
        return _decimals(array, kind)
    if kind == pa.binary(16) and pa.types.is_string(stored):
        return pa.array([None if text is None else uuid.UUID(text).bytes for text in array.to_pylist()], kind)
    if pa.types.is_time(kind):
        within = pc.and_(pc.greater_equal(array, 0), pc.less(array, _DAY))
        if not pc.all(within, min_count=0).as_py():
            raise ValueError("a time is not within a day")
    if pa.types.is_date(kind):
        return array.cast(pa.int32()).cast(kind)
    return array.cast(pa.int64()).cast(kind) if pa.types.is_integer(stored) else array.cast(kind)


def _decimals(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert big-endian two's complement bytes to Arrow decimals; raises `ValueError` for more than 38 digits."""
    rows = len(array)
    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width :][: rows * width]
        lengths = np.full(rows, width)
        ends = np.arange(1, rows + 1) * width
    elif not pa.types.is_binary(array.type):
        raise ValueError(f"a decimal is stored as {array.type}")
    else:
        offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset :][: rows + 1]
        data = np.frombuffer(array.buffers()[2] or b"", np.uint8)
        lengths, ends = np.diff(offsets), offsets[1:].astype(np.int64)
    live = np.ones(rows, bool) if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(live, lengths, 0)
    filled = np.zeros((rows, _WIDTH), np.uint8)
    negative = np.zeros(rows, bool)
    has = lengths > 0
    negative[has] = data[ends[has] - lengths[has]] > 127
    filled[negative] = 255
    for place in range(int(lengths.max(initial=0))):  # from the last byte, which is the lowest
        some = np.flatnonzero(lengths > place)
        values = data[ends[some] - 1 - place]
        if place < _WIDTH:
            filled[some, place] = values
        elif (values != np.where(negative[some], 255, 0)).any():
            raise ValueError("a decimal has more than 38 digits")
    if (negative != (filled[:, -1] > 127)).any():
        raise ValueError("a decimal has more than 38 digits")
    validity = pa.array(live).buffers()[1] if array.null_count else None
    decimals = pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(filled)])
    decimals.validate(full=True)
    return decimals
