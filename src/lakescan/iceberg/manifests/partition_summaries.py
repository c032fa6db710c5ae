"""Summarise the partition values of a manifest for the manifest list (specification, "Manifest Lists").

Bounds are serialized by appendix D. Readers take missing bounds to mean that all values are null or NaN, so a field
with other values always has them.
"""

from __future__ import annotations

from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t

_PACKED: dict[t.Type, str] = {
    t.BOOLEAN: "?",
    t.INT: "<i4",
    t.LONG: "<i8",
    t.FLOAT: "<f4",
    t.DOUBLE: "<f8",
}

_ENOUGH = Context(prec=80)  # digits: the default context rounds long decimals


def summaries(partitions: pa.StructArray, kind: t.Struct) -> list[dict[str, object]]:
    """Return one summary per partition field: whether nulls and NaNs occur, and the bounds of all other values."""
    return [_summary(column, field.type) for column, field in zip(partitions.flatten(), kind.fields, strict=True)]


def _summary(values: pa.Array, kind: t.Type) -> dict[str, object]:
    contains_null = values.null_count > 0
    values = values.drop_null()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    contains_nan = False
    if kind in t.FLOATING:
        nan = pc.is_nan(values)
        contains_nan = bool(pc.any(nan).as_py())
        values = values.filter(pc.invert(nan))
    lower, upper = _bounds(values, kind) if len(values) else (None, None)
    return {"contains_null": contains_null, "contains_nan": contains_nan, "lower_bound": lower, "upper_bound": upper}


def _bounds(values: pa.Array, kind: t.Type) -> tuple[bytes, bytes]:
    if kind in t.FLOATING:  # -0.0 precedes 0.0
        numbers = values.to_numpy(zero_copy_only=False)
        order = np.lexsort((~np.signbit(numbers), numbers))
        return serialized(values[int(order[0])], kind), serialized(values[int(order[-1])], kind)
    if kind == t.UUID:  # as Java compares them: both halves as signed numbers
        halves = np.frombuffer(b"".join(values.to_pylist()), ">i8").reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0]))
        return serialized(values[int(order[0])], kind), serialized(values[int(order[-1])], kind)
    extremes = pc.min_max(values)
    return serialized(extremes["min"], kind), serialized(extremes["max"], kind)


def serialized(value: pa.Scalar, kind: t.Type) -> bytes:
    """Serialize one value (specification, "Binary single-value serialization")."""
    match kind:
        case t.Decimal(_, scale):
            unscaled = int(value.as_py().scaleb(scale, _ENOUGH))
            size = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
            return unscaled.to_bytes(size, "big", signed=True)
        case t.STRING:
            return str(value.as_py()).encode()
        case t.BINARY | t.Fixed() | t.UUID:
            return bytes(value.as_py())
        case t.Timestamp():
            return _packed(value.cast(pa.int64()).as_py(), "<i8")
        case t.DATE:
            return _packed(value.cast(pa.int32()).as_py(), "<i4")
        case t.TIME:
            return _packed(value.cast(pa.int64()).as_py(), "<i8")
    return _packed(value.as_py(), _PACKED[kind])


def _packed(value: Any, code: str) -> bytes:
    return np.array(value, code).tobytes()
