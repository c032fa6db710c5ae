"""Bucket transforms: hash literals to buckets, to prune partitions by equality predicates.

Specification, "Bucket Transform Details" and appendix B, "32-bit Hash Requirements": Murmur3, 32 bits, x86, seed 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Context

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.murmur3 import murmur3
from lakescan.expressions.predicate import Comparison, In, Predicate
from lakescan.iceberg.metadata.partition_spec import PartitionSpec

_WIDE = Context(prec=76)  # decimals have up to 38 digits; the default rounds to 28


def hash_value(value: pa.Scalar, kind: t.Type) -> int | None:
    """The hash of a literal as a value of type `kind`; None for types that cannot be bucketed."""
    if kind in (t.INT, t.LONG, t.DATE, t.TIME):
        return murmur3(_long(int(value.value if hasattr(value, "value") else value.as_py())))
    match kind:
        case t.Timestamp():
            return murmur3(_long(value.value // 1000 if kind.unit == "ns" else value.value))
        case t.STRING:
            return murmur3(value.as_py().encode())
        case t.Decimal():
            unscaled = int(value.as_py().scaleb(kind.scale, _WIDE))
            width = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
            return murmur3(unscaled.to_bytes(width, "big", signed=True))
        case t.UUID | t.BINARY | t.Fixed():
            return murmur3(value.as_py())
    return None


def _long(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


@dataclass(frozen=True)
class WantedBuckets:
    """The buckets that matching rows can be in, ascending, for the partition field at position `place` of a spec."""

    place: int
    buckets: np.ndarray

    def among(self, values: pa.Array) -> pa.Array:
        """Whether each partition value is one of the buckets."""
        return pc.is_in(values.cast(pa.int32()), value_set=pa.array(self.buckets, pa.int32()))

    def between(self, lower: pa.Array, upper: pa.Array) -> pa.Array:
        """Whether each range of partition values includes one of the buckets; a missing bound is unlimited."""
        low = pc.fill_null(lower, -1).to_numpy(zero_copy_only=False)
        high = pc.fill_null(upper, np.iinfo(np.int32).max).to_numpy(zero_copy_only=False)
        first = np.searchsorted(self.buckets, low, side="left")
        return pa.array(np.searchsorted(self.buckets, high, side="right") > first)


def wanted_buckets(
    conjuncts: Iterable[Predicate], spec: PartitionSpec, columns: Mapping[int, t.Field]
) -> list[WantedBuckets]:
    """The buckets that equality and IN conjuncts allow, for each bucketed field they apply to."""
    wanted = []
    for part in conjuncts:
        match part:
            case Comparison(op="=", value=value):
                literals = (value,)
            case In(values=literals, negate=False):
                pass
            case _:
                continue
        for place, field in enumerate(spec.fields):
            source = columns.get(field.source_id)
            if field.transform.name != "bucket" or source is None or source.id != part.bound_id:
                continue
            hashes = [hash_value(v, source.type) for v in literals]
            count = field.transform.parameter
            if count is not None and None not in hashes:
                buckets = np.unique([(h & 0x7FFFFFFF) % count for h in hashes if h is not None])
                wanted.append(WantedBuckets(place, buckets.astype(np.int64)))
    return wanted
