"""Reassembles shredded variants (Parquet's Variant Shredding specification).

A shredded variant stores some of its values in typed Parquet columns (`typed_value`), and the rest in `value`. Engines
expect metadata and one binary value, so the typed parts are re-encoded by the Variant Binary Encoding specification.
This takes one Python step per shredded value, so it is general, but slow.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakescan.common.arrays import struct_member
from lakescan.errors import CorruptMetadata, UnsupportedFeature

_NULL = b"\x00"
_OBJECT, _ARRAY = 2, 3
_Names = Mapping[str, int]

# Arrow type -> (type id of the encoding, struct format of the stored integer or float).
_NUMBERS: dict[pa.DataType, tuple[int, str]] = {
    pa.int8(): (3, "<b"),
    pa.int16(): (4, "<h"),
    pa.int32(): (5, "<i"),
    pa.int64(): (6, "<q"),
    pa.float64(): (7, "<d"),
    pa.float32(): (14, "<f"),
    pa.date32(): (11, "<i"),
    pa.time64("us"): (17, "<q"),
    pa.timestamp("us", "UTC"): (12, "<q"),
    pa.timestamp("us"): (13, "<q"),
    pa.timestamp("ns", "UTC"): (18, "<q"),
    pa.timestamp("ns"): (19, "<q"),
}


def reassemble_variant(array: pa.StructArray) -> tuple[pa.Array, pa.Array]:
    """Reassemble a shredded variant column; return its metadata and its values, each as a binary array.

    Values are null where the variant is null. Raises `CorruptMetadata` for an invalid variant, and `UnsupportedFeature`
    for a typed column of an unsupported type.
    """
    metadata = array.field("metadata").cast(pa.binary())
    present = array.is_valid().to_pylist()
    names: list[_Names] = [_dictionary(m) if ok else {} for m, ok in zip(metadata.to_pylist(), present, strict=True)]
    values = _values(array, names)
    encoded = [(_NULL if v is None else v) if ok else None for v, ok in zip(values, present, strict=True)]
    return metadata, pa.array(encoded, pa.binary())


def _values(group: pa.StructArray, names: list[_Names]) -> list[bytes | None]:
    """Encode each row of a struct with `value` and `typed_value` as a variant value; None where it is missing.

    `names` has the dictionary (name to id) of each row's variant.
    """
    members = [f.name for f in group.type]
    rows = len(group)
    rest = struct_member(group, "value").cast(pa.binary()).to_pylist() if "value" in members else [None] * rows
    if "typed_value" not in members:
        return rest
    typed = struct_member(group, "typed_value")
    if pa.types.is_struct(typed.type):
        return _objects(typed, rest, names)
    if pa.types.is_list(typed.type) or pa.types.is_large_list(typed.type):
        encoded = _arrays(typed, names)
    else:
        encoded = _primitives(typed)
    return [r if e is None else e for e, r in zip(encoded, rest, strict=True)]


def _objects(typed: pa.StructArray, rest: list[bytes | None], names: list[_Names]) -> list[bytes | None]:
    fields = {f.name: _values(struct_member(typed, f.name), names) for f in typed.type}
    present = typed.is_valid().to_pylist()
    encoded: list[bytes | None] = []
    for row, ok in enumerate(present):
        if not ok:
            encoded.append(rest[row])
            continue
        members = {name: values[row] for name, values in fields.items() if values[row] is not None}
        others = {} if rest[row] is None else _object_members(rest[row] or b"", names[row])
        # A shredded field must not also be in `value`. If it is, it is ignored there.
        others = {name: value for name, value in others.items() if name not in fields}
        encoded.append(_object({**others, **members}, names[row]))
    return encoded


def _arrays(typed: pa.ListArray, names: list[_Names]) -> list[bytes | None]:
    offsets = typed.offsets.to_pylist()
    repeated = [names[row] for row in range(len(typed)) for _ in range(offsets[row + 1] - offsets[row])]
    elements = _values(typed.values.slice(offsets[0], offsets[-1] - offsets[0]), repeated)
    encoded: list[bytes | None] = []
    for row, ok in enumerate(typed.is_valid().to_pylist()):
        low, high = offsets[row] - offsets[0], offsets[row + 1] - offsets[0]
        encoded.append(_array([_NULL if e is None else e for e in elements[low:high]]) if ok else None)
    return encoded


def _primitives(typed: pa.Array) -> list[bytes | None]:
    kind = typed.type
    if kind in _NUMBERS:
        type_id, layout = _NUMBERS[kind]
        head = bytes([type_id << 2])
        numbers = typed if pa.types.is_floating(kind) else _as_integers(typed)
        return [None if v is None else head + struct.pack(layout, v) for v in numbers.to_pylist()]
    return [None if v is None else _primitive(v, kind) for v in typed.to_pylist()]


def _as_integers(typed: pa.Array) -> pa.Array:
    narrow = pa.types.is_date(typed.type)
    return typed.cast(pa.int32() if narrow else pa.int64())


def _primitive(value: Any, kind: pa.DataType) -> bytes:
    if pa.types.is_boolean(kind):
        return bytes([(1 if value else 2) << 2])
    if pa.types.is_decimal(kind):
        return _decimal(value, kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = value.encode()
        return bytes([1 | len(text) << 2]) + text if len(text) < 64 else _encode_bytes(16, text)
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:
        return bytes([20 << 2]) + value
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _encode_bytes(15, value)
    raise UnsupportedFeature(f"variants shredded into {kind}")


def _encode_bytes(type_id: int, data: bytes) -> bytes:
    return bytes([type_id << 2]) + len(data).to_bytes(4, "little") + data


def _decimal(value: Decimal, kind: pa.DataType) -> bytes:
    type_id, width = next((i, w) for i, w, most in ((8, 4, 9), (9, 8, 18), (10, 16, 38)) if kind.precision <= most)
    unscaled = int(value.scaleb(kind.scale))
    return bytes([type_id << 2, kind.scale]) + unscaled.to_bytes(width, "little", signed=True)


def _object(members: Mapping[str, bytes | None], names: _Names) -> bytes:
    """Encode an object: field ids sorted by name, offsets, values. `names` maps names to field ids.

    Raises `CorruptMetadata` for a name that is not in `names`.
    """
    ordered = sorted((name, value or b"") for name, value in members.items())
    missing = [name for name, _ in ordered if name not in names]
    if missing:
        raise CorruptMetadata(f"a shredded variant has a field {missing[0]!r} that is missing from its dictionary")
    ids, values = [names[name] for name, _ in ordered], [value for _, value in ordered]
    offsets = _running_offsets(values)
    id_size, offset_size = _width(max(ids, default=0)), _width(offsets[-1])
    large = len(values) > 255
    head = _OBJECT | (offset_size - 1) << 2 | (id_size - 1) << 4 | large << 6
    body = b"".join(i.to_bytes(id_size, "little") for i in ids)
    return bytes([head]) + _count(len(values), large) + body + _pack_numbers(offsets, offset_size) + b"".join(values)


def _array(elements: list[bytes]) -> bytes:
    offsets = _running_offsets(elements)
    size, large = _width(offsets[-1]), len(elements) > 255
    head = _ARRAY | (size - 1) << 2 | large << 4
    return bytes([head]) + _count(len(elements), large) + _pack_numbers(offsets, size) + b"".join(elements)


def _object_members(value: bytes, names: _Names) -> dict[str, bytes]:
    """Return the fields of an encoded object by name, each with its encoded value.

    Raises `CorruptMetadata` if the value is not an object.
    """
    if value[0] & 3 != _OBJECT:
        raise CorruptMetadata("a partially shredded variant object has a residual value that is not an object")
    by_id = {i: name for name, i in names.items()}
    head = value[0] >> 2
    offset_size, id_size, large = (head & 3) + 1, (head >> 2 & 3) + 1, head >> 4 & 1
    at = 5 if large else 2
    count = int.from_bytes(value[1:at], "little")
    ids = [_integer(value, at + i * id_size, id_size) for i in range(count)]
    at += count * id_size
    offsets = [_integer(value, at + i * offset_size, offset_size) for i in range(count + 1)]
    data = value[at + (count + 1) * offset_size :]
    ends = sorted(offsets)  # the values may be stored in a different order than the fields
    return {
        by_id[i]: data[start : ends[ends.index(start) + 1] if start != ends[-1] else len(data)]
        for i, start in zip(ids, offsets[:-1], strict=True)
    }


def _dictionary(metadata: bytes) -> dict[str, int]:
    """Return the field names in a variant's metadata, with their ids; raises `CorruptMetadata` for another version."""
    if not metadata or metadata[0] & 15 != 1:
        raise CorruptMetadata("a variant's metadata does not have version 1")
    size = (metadata[0] >> 6) + 1
    count = _integer(metadata, 1, size)
    offsets = [_integer(metadata, 1 + size * (i + 1), size) for i in range(count + 1)]
    start = 1 + size * (count + 2)
    return {metadata[start + offsets[i] : start + offsets[i + 1]].decode(): i for i in range(count)}


def _integer(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _running_offsets(values: list[bytes]) -> list[int]:
    offsets = [0]
    for value in values:
        offsets.append(offsets[-1] + len(value))
    return offsets


def _pack_numbers(numbers: list[int], size: int) -> bytes:
    return b"".join(n.to_bytes(size, "little") for n in numbers)


def _count(count: int, large: bool) -> bytes:
    return count.to_bytes(4 if large else 1, "little")


def _width(largest: int) -> int:
    return max(1, (largest.bit_length() + 7) // 8)
