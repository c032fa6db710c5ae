"""Statistics of files as JSON texts, made of typed columns: for checkpoints that follow one without the texts."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

_CONTROL = r"[\x00-\x1f]"


def stats_texts(stats: pa.StructArray) -> pa.Array:
    """The statistics as JSON; null members are left out, and null statistics are null."""
    texts = _object(stats, "")
    return pc.if_else(stats.is_valid(), texts, pa.scalar(None, pa.string()))


def _object(rows: pa.StructArray, role: str) -> pa.Array:
    members = []
    for index, field in enumerate(rows.type):
        text = _value(pc.struct_field(rows, [index]), role or field.name)
        name = json.dumps(field.name, ensure_ascii=False)
        members.append(pc.fill_null(pc.binary_join_element_wise(f",{name}:", text, ""), ""))
    inner = pc.binary_join_element_wise(*members, "")  # with a comma before the first member, too
    texts = pc.binary_join_element_wise("{", pc.binary_slice(inner.cast(pa.binary()), 1).cast(pa.string()), "}", "")
    return pc.if_else(rows.is_valid(), texts, pa.scalar(None, pa.string()))


def _value(values: pa.Array, role: str) -> pa.Array:
    """The JSON of values, null for those that JSON has no text for; `role` is the member of the statistics."""
    kind = values.type
    if pa.types.is_struct(kind):
        return _object(values, role)
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(values), values, pa.scalar(None, kind)).cast(pa.string())
    if pa.types.is_timestamp(kind):
        return _quoted(_times(values, role))
    if pa.types.is_string(kind) or pa.types.is_date(kind):
        return _quoted(values.cast(pa.string()))
    return values.cast(pa.string())


def _times(values: pa.Array, role: str) -> pa.Array:
    """Timestamps in milliseconds, as Delta writes them, rounded outwards."""
    rounded = pc.ceil_temporal(values, unit="millisecond") if role == "maxValues" else values
    millis = pc.floor_temporal(rounded, unit="millisecond").cast(pa.timestamp("ms", values.type.tz))
    return pc.strftime(millis, "%Y-%m-%dT%H:%M:%SZ" if values.type.tz else "%Y-%m-%dT%H:%M:%S")


def _quoted(texts: pa.Array) -> pa.Array:
    escaped = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    special = pc.fill_null(pc.match_substring_regex(texts, _CONTROL), False)
    if pc.any(special).as_py():
        written = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts.filter(special).to_pylist()]
        escaped = pc.replace_with_mask(escaped, special, pa.array(written, pa.string()))
    return pc.binary_join_element_wise('"', escaped, '"', "")
