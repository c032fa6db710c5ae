"""Statistics of files as JSON texts, made of typed columns: for checkpoints that follow one without the texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.commit.json_texts import json_texts


def stats_texts(stats: pa.StructArray) -> pa.Array:
    """The statistics as JSON; null members are left out, and null statistics are null."""
    members = [_as_json(member, field.name) for member, field in zip(stats.flatten(), stats.type, strict=True)]
    names = [field.name for field in stats.type]
    written = pa.StructArray.from_arrays(members, names=names, mask=stats.is_null())
    return json_texts(written).cast(pa.string())


def _as_json(values: pa.Array, role: str) -> pa.Array:
    """The values as texts, numbers and booleans, null where JSON has none; `role` is the member of the statistics."""
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
    """Timestamps in milliseconds, as Delta writes them, rounded outwards."""
    rounded = pc.ceil_temporal(values, unit="millisecond") if role == "maxValues" else values
    millis = pc.floor_temporal(rounded, unit="millisecond").cast(pa.timestamp("ms", values.type.tz))
    return pc.strftime(millis, "%Y-%m-%dT%H:%M:%SZ" if values.type.tz else "%Y-%m-%dT%H:%M:%S")
