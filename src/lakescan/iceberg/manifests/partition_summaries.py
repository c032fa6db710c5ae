"""Summarise the partition values of a manifest for the manifest list (specification, "Manifest Lists").

Bounds are serialized by appendix D. Readers take missing bounds to mean that all values are null or NaN, so a field
with other values always has them.
"""

from __future__ import annotations

from decimal import Context

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.iceberg.manifests.bounds import encode_value

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
        return _serialized(values[int(order[0])], kind), _serialized(values[int(order[-1])], kind)
    if kind == t.UUID:  # as Java compares them: both halves as signed numbers
        halves = np.frombuffer(b"".join(values.to_pylist()), ">i8").reshape(-1, 2)
        order = np.lexsort((halves[:, 1], halves[:, 0]))
        return _serialized(values[int(order[0])], kind), _serialized(values[int(order[-1])], kind)
    extremes = pc.min_max(values)
    return _serialized(extremes["min"], kind), _serialized(extremes["max"], kind)


def _serialized(value: pa.Scalar, kind: t.Type) -> bytes:
    match kind:
        case t.Decimal(_, scale):
            return encode_value(value.as_py().scaleb(scale, _ENOUGH), kind)
        case t.STRING:
            return encode_value(str(value.as_py()).encode(), kind)
        case t.Timestamp() | t.TIME:
            return encode_value(value.cast(pa.int64()).as_py(), kind)
        case t.DATE:
            return encode_value(value.cast(pa.int32()).as_py(), kind)
    return encode_value(value.as_py(), kind)
