"""Encode Arrow columns as Avro records by column: one pass of Arrow and NumPy per field instead of per record.

See the Iceberg specification, appendix A ("Avro"), for types and field ids, and the Avro specification, "Binary
Encoding". Each field becomes an array with the encoded bytes of each row. A record is the concatenation of its fields'
bytes.

For few records, as in most commits, setting this up costs more than it saves, so `few_records` encodes them value by
value.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.errors import UnsupportedFeature
from lakescan.iceberg.manifests.avro_decode import MAGIC, encode_bytes, encode_number

_BLOCK_ROWS = 4096  # records in a block: bounds the memory of encoding, and of readers
_FEW_ROWS, _FEW_BYTES = 16, 32_768  # records that are encoded value by value: above, columns are faster
_LEVEL = 6  # compression level of zlib
_DIGITS = "0123456789"
_INVALID = re.compile(r"[^A-Za-z0-9_]|^[0-9]")

_NAMED = {
    t.BOOLEAN: "boolean",
    t.INT: "int",
    t.LONG: "long",
    t.FLOAT: "float",
    t.DOUBLE: "double",
    t.STRING: "string",
    t.BINARY: "bytes",
    t.DATE: {"type": "int", "logicalType": "date"},
    t.TIME: {"type": "long", "logicalType": "time-micros"},
}


def avro_file(rows: pa.Table, fields: t.Struct, name: str, metadata: Mapping[str, str]) -> bytes:
    """Return an Avro container file (codec deflate) of records `name` with these fields and header entries.

    `rows` has the fields in order, in their Arrow types. Raises `UnsupportedFeature` for types that Avro lacks.
    """
    sync = os.urandom(16)
    header = {**metadata, "avro.schema": json.dumps(record_schema(fields, name)), "avro.codec": "deflate"}
    pairs = [encode_bytes(key.encode()) + encode_bytes(value.encode()) for key, value in header.items()]
    parts = [MAGIC, encode_number(len(pairs)), *pairs, b"\x00", sync]
    for start in range(0, rows.num_rows, _BLOCK_ROWS):
        block = rows.slice(start, _BLOCK_ROWS).combine_chunks()
        columns = [column.chunk(0) for column in block.columns]
        is_few = block.num_rows <= _FEW_ROWS and block.nbytes <= _FEW_BYTES
        encode = few_records if is_few else lambda *of: _bytes(_record(*of))
        deflater = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
        data = deflater.compress(encode(columns, fields, block.num_rows)) + deflater.flush()
        parts += [encode_number(block.num_rows), encode_number(len(data)), data, sync]
    return b"".join(parts)


def record_schema(fields: t.Struct, name: str) -> dict[str, Any]:
    """Return the Avro schema of a record, with the field ids that the specification requires."""
    named = zip(fields.fields, _avro_names(fields.fields), strict=True)
    return {"type": "record", "name": name, "fields": [_field_schema(field, avro_name) for field, avro_name in named]}


def _avro_names(fields: tuple[t.Field, ...]) -> list[str]:
    """Return distinct valid Avro names of fields, escaped as in Java's `AvroSchemaUtil.makeCompatibleName`.

    Partition fields can have any name, but Avro parsers accept only letters, digits and `_`.
    """
    names: list[str] = []
    for field in fields:
        name = _INVALID.sub(lambda found: _escape_character(found[0]), field.name)
        names.append(f"{name}_r{field.id}" if name in names else name)
    return names


def _escape_character(character: str) -> str:
    return f"_{character}" if character in _DIGITS else f"_x{ord(character):X}"


def _field_schema(field: t.Field, name: str) -> dict[str, Any]:
    kind = _type_schema(field.type, field.id)
    optional = {} if field.required else {"default": None}
    return {
        "name": name,
        "type": kind if field.required else ["null", kind],
        **({"doc": field.doc} if field.doc else {}),
        **optional,
        "field-id": field.id,
        **({} if name == field.name else {"iceberg-field-name": field.name}),
    }


def _type_schema(kind: t.Type, field_id: int) -> Any:
    match kind:
        case t.Struct():
            return record_schema(kind, f"r{field_id}")
        case t.ListOf(element):
            items = _type_schema(element.type, element.id)
            return {
                "type": "array",
                "items": items if element.required else ["null", items],
                "element-id": element.id,
            }
        case t.MapOf(key, value):
            pair = record_schema(t.Struct((key, value)), f"k{key.id}_v{value.id}")
            return {"type": "array", "items": pair, "logicalType": "map"}
        case t.Decimal(precision, scale):
            size = decimal_size(precision)
            return {
                "type": "fixed",
                "name": f"decimal_{precision}_{scale}_{field_id}",
                "size": size,
                "logicalType": "decimal",
                "precision": precision,
                "scale": scale,
            }
        case t.Fixed(length):
            return {"type": "fixed", "name": f"fixed_{length}_{field_id}", "size": length}
        case t.UUID:
            return {"type": "fixed", "name": f"uuid_fixed_{field_id}", "size": 16, "logicalType": "uuid"}
        case t.Timestamp(unit, zoned):
            logical = "timestamp-nanos" if unit == "ns" else "timestamp-micros"
            return {"type": "long", "logicalType": logical, "adjust-to-utc": zoned}
    if kind not in _NAMED:
        raise UnsupportedFeature(f"writing {kind} values into Avro files")
    return _NAMED[kind]


def decimal_size(precision: int) -> int:
    """Return the fewest bytes that hold every decimal of this precision."""
    return ((10**precision - 1).bit_length() + 8) // 8


def _record(columns: list[pa.Array], fields: t.Struct, rows: int) -> pa.Array:
    """Return a binary array of the encoded records: for each row, the bytes of its fields in order."""
    encoded = [_field(column, field) for column, field in zip(columns, fields.fields, strict=True)]
    if not encoded:
        return pa.array([b""] * rows, pa.binary())
    return encoded[0] if len(encoded) == 1 else pc.binary_join_element_wise(*encoded, b"")


def _field(values: pa.Array, field: t.Field) -> pa.Array:
    if not field.required:
        return _optional(values, field.type)
    if values.null_count:
        raise ValueError(f"the required field {field.name!r} has {values.null_count} nulls")
    return _encode_values(values, field.type)


def _optional(values: pa.Array, kind: t.Type) -> pa.Array:
    """Return the encoded bytes of each value as an Avro union with null: the number of the branch, then the value."""
    if values.null_count == len(values):
        return pa.array([b"\x00"] * len(values), pa.binary())
    some = pc.binary_join_element_wise(pa.scalar(b"\x02", pa.binary()), _encode_values(values, kind), b"")
    return some if not values.null_count else pc.if_else(values.is_valid(), some, pa.scalar(b"\x00", pa.binary()))


def _encode_values(values: pa.Array, kind: t.Type) -> pa.Array:
    """Return the encoded bytes of each value; those of nulls are arbitrary."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    match kind:
        case t.Struct():
            return (
                _record(values.flatten(), kind, len(values))
                if not values.null_count
                else _encode_valid_structs(values, kind)
            )
        case t.ListOf(element):
            return _lists(values, t.Struct((element,)))
        case t.MapOf(key, value):
            pairs = pa.struct([key.arrow(), value.arrow()])
            return _lists(values.cast(pa.list_(pairs)), t.Struct((key, value)))
        case t.Decimal(precision, _):
            return _decimals(values, decimal_size(precision))
        case t.Fixed() | t.UUID:
            return pc.fill_null(values, bytes(values.type.byte_width)).cast(pa.binary())
        case t.STRING | t.BINARY:
            texts = pc.fill_null(values.cast(pa.binary()), b"")
            lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
            return pc.binary_join_element_wise(_numbers(lengths), texts, b"")
        case t.BOOLEAN:
            return _bits(pc.fill_null(values, False).cast(pa.uint8()).to_numpy(zero_copy_only=False))
        case t.FLOAT | t.DOUBLE:
            return _bits(pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False))
    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    return _numbers(pc.fill_null(whole.cast(pa.int64()), 0).to_numpy(zero_copy_only=False))


def _encode_valid_structs(values: pa.StructArray, kind: t.Struct) -> pa.Array:
    """Return the encoded bytes of each struct; null for null structs, whose required members are null too."""
    encoded = _record(values.drop_null().flatten(), kind, len(values) - values.null_count)
    places = pc.cumulative_sum(pc.cast(values.is_valid(), pa.int64()))
    return encoded.take(pc.if_else(values.is_valid(), pc.subtract(places, 1), pa.scalar(None, pa.int64())))


def _lists(values: pa.ListArray, item: t.Struct) -> pa.Array:
    """Return each list encoded as an Avro array: a block with a count and the items, if any, then an empty block."""
    items = values.flatten()
    columns = [items] if len(item.fields) == 1 else items.flatten()
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, _record(columns, item, len(items))), b"")
    blocks = pc.binary_join_element_wise(_numbers(lengths), joined, pa.scalar(b"\x00", pa.binary()), b"")
    return pc.if_else(pa.array(lengths > 0), blocks, pa.scalar(b"\x00", pa.binary()))


def _decimals(values: pa.Array, size: int) -> pa.Array:
    """Return unscaled decimals encoded as big-endian two's complement of `size` bytes."""
    filled = pa.concat_arrays([pc.fill_null(values, 0)])
    raw = np.frombuffer(filled.buffers()[1], np.uint8)[filled.offset * 16 : (filled.offset + len(filled)) * 16]
    return _bits(np.ascontiguousarray(raw.reshape(-1, 16)[:, :size][:, ::-1]))


def _bits(values: np.ndarray[Any, Any]) -> pa.Array:
    """Return rows of equal width as binary values with their bytes in memory (little-endian)."""
    data = np.ascontiguousarray(values)
    width = data.nbytes // len(data) if len(data) else 1
    offsets = np.arange(len(data) + 1, dtype=np.int32) * width
    return pa.Array.from_buffers(pa.binary(), len(data), [None, pa.py_buffer(offsets), pa.py_buffer(data.tobytes())])


def _numbers(values: np.ndarray[Any, Any]) -> pa.Array:
    """Return whole numbers encoded as zigzag varints."""
    wide = values.astype(np.int64)
    zigzag = ((wide << 1) ^ (wide >> 63)).view(np.uint64)
    lengths = np.ones(len(zigzag), np.int32)
    for group in range(1, 10):
        more = zigzag >= np.uint64(1 << (7 * group))
        if not more.any():
            break
        lengths += more
    offsets = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
    data = np.zeros(int(offsets[-1]), np.uint8)
    for group in range(int(lengths.max(initial=0))):
        has = lengths > group
        septet = ((zigzag[has] >> np.uint64(7 * group)) & np.uint64(0x7F)).astype(np.uint8)
        data[offsets[:-1][has] + group] = septet | np.where(lengths[has] > group + 1, np.uint8(0x80), np.uint8(0))
    return pa.Array.from_buffers(pa.binary(), len(wide), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def few_records(columns: list[pa.Array], fields: t.Struct, rows: int) -> bytes:
    """Encode records value by value, which is faster for few rows, and return their bytes concatenated."""
    return b"".join(_few(columns, fields, rows))


def _few(columns: list[pa.Array], fields: t.Struct, rows: int) -> list[bytes]:
    encoded = [_few_of_field(column, field) for column, field in zip(columns, fields.fields, strict=True)]
    return [b"".join(parts) for parts in zip(*encoded, strict=True)] if encoded else [b""] * rows


def _few_of_field(values: pa.Array, field: t.Field) -> list[bytes]:
    if field.required:
        if values.null_count:
            raise ValueError(f"the required field {field.name!r} has {values.null_count} nulls")
        return _few_values(values, field.type)
    if values.null_count == len(values):
        return [b"\x00"] * len(values)
    if not values.null_count:
        return [b"\x02" + value for value in _few_values(values, field.type)]
    some = iter(_few_values(values.drop_null(), field.type))
    return [b"\x02" + next(some) if is_valid else b"\x00" for is_valid in values.is_valid().to_pylist()]


def _few_values(values: pa.Array, kind: t.Type) -> list[bytes]:
    """Return the encoded bytes of each value; none may be null."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    match kind:
        case t.Struct():
            return _few(values.flatten(), kind, len(values))
        case t.ListOf(element):
            return _few_lists(values, t.Struct((element,)))
        case t.MapOf(key, value):
            return _few_lists(values.cast(pa.list_(pa.struct([key.arrow(), value.arrow()]))), t.Struct((key, value)))
        case t.STRING | t.BINARY:
            return [encode_bytes(value) for value in values.cast(pa.binary()).to_pylist()]
        case t.Decimal() | t.Fixed() | t.UUID | t.BOOLEAN | t.FLOAT | t.DOUBLE:
            return list(_encode_values(values, kind).to_pylist())
    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    return [encode_number(value) for value in whole.cast(pa.int64()).to_pylist()]


def _few_lists(values: pa.ListArray, item: t.Struct) -> list[bytes]:
    items = values.flatten()
    encoded, start, lists = _few([items] if len(item.fields) == 1 else items.flatten(), item, len(items)), 0, []
    for length in pc.list_value_length(values).to_pylist():
        some = encoded[start : start + length]
        lists.append(encode_number(length) + b"".join(some) + b"\x00" if length else b"\x00")
        start += length
    return lists


def _bytes(encoded: pa.Array) -> bytes:
    """Return the bytes of all rows of a binary array, concatenated."""
    return b"".join(_pieces(encoded))


def _pieces(encoded: pa.Array) -> Iterator[bytes]:
    for array in encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]:
        _, offsets, data = array.buffers()
        ends = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        if data is not None and len(array):
            yield data.slice(int(ends[0]), int(ends[-1] - ends[0])).to_pybytes()
