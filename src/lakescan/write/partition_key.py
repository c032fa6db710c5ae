"""The values of partitions: numbers for times, so that each value of a type has one, and told apart exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from lakescan.write.table_writes import Key


def physical(values: pa.Array) -> pa.Array:
    """Dates as days, other times as their units since 1970 or midnight, extension types as what they store.

    Python has no dates beyond the years 1 to 9999, and no nanoseconds.
    """
    if isinstance(values, pa.ExtensionArray):
        return values.storage
    if kinds.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if kinds.is_temporal(values.type) else values


def identity(key: Key) -> Key:
    """What two keys have in common just where they are one partition: -0.0 is not 0.0, and NaN is itself.

    Both formats keep them apart so (Iceberg's Java library compares by `Double.compare`, Delta by the text).
    """
    return tuple(value.hex() if isinstance(value, float) else value for value in key)


def by_partition(keys: Iterable[pa.Array], rows: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """Rows by partition, each with its key; a loop over the partitions that the batch has."""
    values = [physical(key) for key in keys]
    if not values or not rows.num_rows:
        if rows.num_rows:
            yield (), rows
        return
    codes = partition_codes_of(values)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        key = tuple(_value(each[int(order[start])]) for each in values)
        yield key, rows if len(starts) == 1 else rows.take(pa.array(order[start:stop]))


def partition_codes_of(values: Sequence[pa.Array]) -> np.ndarray:
    """A number a row, the same where all values are."""
    codes = np.zeros(len(values[0]), dtype=np.int64)
    for each in values:
        encoded = pc.dictionary_encode(_bits(each), null_encoding="encode")
        wide = codes * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy(zero_copy_only=False)
        codes = np.unique(wide, return_inverse=True)[1].astype(np.int64)  # no more of them than rows
    return codes


def _bits(values: pa.Array) -> pa.Array:
    """Floating-point numbers by their bits, which tell -0.0 from 0.0."""
    if not kinds.is_floating(values.type):
        return values
    return values.view(pa.int64() if values.type.bit_width == 64 else pa.int32())


def _value(scalar: pa.Scalar) -> Any:
    """A partition's value; not-a-number is one object, so that it is one key."""
    value = scalar.as_py()
    return math.nan if isinstance(value, float) and math.isnan(value) else value
