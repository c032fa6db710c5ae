"""Convert Arrow arrays to JSON text by column: a few Arrow calls per field, no Python call per row.

Null fields are left out, as Delta's own writers do. Only strings with control characters are escaped one by one.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_CONTROLS = "[\x00-\x1f]"
_AS_CAST = (pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating, pa.types.is_decimal)


def json_texts(values: pa.Array) -> pa.Array:
    """Return each value as JSON text; nulls stay null.

    Accepts structs, maps with string keys, strings, finite numbers and booleans. Null struct fields are left out; null
    map values are written as `null`.

    Example:
        >>> json_texts(pa.array([{"path": "a", "size": 1}])).to_pylist()
        ['{"path":"a","size":1}']
    """
    kind = values.type
    if pa.types.is_struct(kind):
        return _objects(values)
    if pa.types.is_map(kind):
        return _maps(values)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _quote(values.cast(pa.large_string()))
    if any(is_kind(kind) for is_kind in _AS_CAST):
        return values.cast(pa.large_string())
    raise TypeError(f"no JSON text of {kind}")


def _objects(values: pa.StructArray) -> pa.Array:
    members: list[pa.Array] = []
    follows = pa.repeat(pa.scalar(False), len(values))  # whether a previous member of the row is not null
    for field, column in zip(values.type, values.flatten(), strict=True):
        name = f"{json.dumps(field.name, ensure_ascii=False)}:"
        named = pc.if_else(follows, _text(f",{name}"), _text(name))
        members.append(pc.fill_null(_join(named, json_texts(column)), _text("")))
        follows = pc.or_(follows, column.is_valid())
    body = _join(*members) if members else pa.array([""] * len(values), pa.large_string())
    return _if_valid(values, _join("{", body, "}"))


def _maps(values: pa.MapArray) -> pa.Array:
    offsets = values.offsets.to_numpy().astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    keys, items = (child.slice(first, last - first) for child in (values.keys, values.items))
    texts = _join(json_texts(keys), ":", pc.fill_null(json_texts(items), _text("null")))
    lists = pa.LargeListArray.from_arrays(pa.array(offsets - first), texts)
    return _if_valid(values, _join("{", pc.binary_join(lists, _text(",")), "}"))


def _quote(texts: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    quoted = _join('"', escaped, '"')
    rare = pc.fill_null(pc.match_substring_regex(texts, _CONTROLS), False)
    if not pc.any(rare).as_py():
        return quoted
    one_by_one = [json.dumps(text, ensure_ascii=False) for text in texts.filter(rare).to_pylist()]
    return pc.replace_with_mask(quoted, rare, pa.array(one_by_one, pa.large_string()))


def _join(*parts: pa.Array | str) -> pa.Array:
    """Concatenate the parts of each row; null where one of them is null."""
    texts = [_text(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*texts, _text(""))


def _text(value: str | None) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _if_valid(values: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), texts, _text(None)) if values.null_count else texts


def stats_texts(stats: pa.StructArray) -> pa.Array:
    """Return statistics (`stats_parsed`) as JSON texts, without null fields; null statistics stay null."""
    members = [_as_json(member, field.name) for member, field in zip(stats.flatten(), stats.type, strict=True)]
    names = [field.name for field in stats.type]
    written = pa.StructArray.from_arrays(members, names=names, mask=stats.is_null())
    return json_texts(written).cast(pa.string())


def _as_json(values: pa.Array, role: str) -> pa.Array:
    """Return statistics values in types that JSON has, null for NaN and infinity.

    Dates and timestamps become text. `role` is the statistics field, such as `maxValues`.
    """
    kind = values.type
    if pa.types.is_struct(kind):
        members = [_as_json(member, role) for member in values.flatten()]
        return pa.StructArray.from_arrays(members, names=[field.name for field in kind], mask=values.is_null())
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind))
    if pa.types.is_timestamp(kind):
        return _times(values, role)
    return values.cast(pa.string()) if pa.types.is_date(kind) else values


def _times(values: pa.Array, role: str) -> pa.Array:
    """Return timestamps as ISO texts in milliseconds, like Delta; upper bounds are rounded up, others down."""
    rounded = pc.ceil_temporal(values, unit="millisecond") if role == "maxValues" else values
    millis = pc.floor_temporal(rounded, unit="millisecond").cast(pa.timestamp("ms", values.type.tz))
    return pc.strftime(millis, "%Y-%m-%dT%H:%M:%SZ" if values.type.tz else "%Y-%m-%dT%H:%M:%S")
