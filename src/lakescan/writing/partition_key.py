"""Partition values as keys: dates and times as numbers, floating-point values compared exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from lakescan.common.arrays import float_bits, row_numbers
from lakescan.writing.arrow_layout import canonical_layout
from lakescan.writing.conform import fit_array
from lakescan.writing.table_writes import Key, TableWrites


def physical_values(values: pa.Array) -> pa.Array:
    """Convert dates to days and timestamps to units since 1970, times to integers, extension types to their storage.

    Other values do not change. Python's own date and time types are not used: their years are limited to 1 to 9999, and
    they have no nanoseconds.
    """
    if isinstance(values, pa.ExtensionArray):
        return values.storage
    if kinds.is_date32(values.type):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if kinds.is_temporal(values.type) else values


def exact_key(key: Key) -> Key:
    """Convert partition values so that they can be compared as dictionary keys: -0.0 differs from 0.0, NaN equals NaN.

    Both formats distinguish partitions in this way (Iceberg's Java library by `Double.compare`, Delta by the string).
    """
    return tuple(value.hex() if isinstance(value, float) else value for value in key)


def split_by_partition(keys: Iterable[pa.Array], rows: pa.RecordBatch) -> Iterator[tuple[Key, pa.RecordBatch]]:
    """Split rows by partition, and yield each partition's key (a tuple of its values) and rows, in their order.

    `keys` are the partition values of the rows, one array per partition field; without any, all rows have the key `()`.
    """
    values = [physical_values(key) for key in keys]
    if not values or not rows.num_rows:
        if rows.num_rows:
            yield (), rows
        return
    codes = row_numbers(map(float_bits, values))
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=True):
        key = tuple(_value(each[int(order[start])]) for each in values)
        yield key, rows if len(starts) == 1 else rows.take(pa.array(order[start:stop]))


def _value(scalar: pa.Scalar) -> Any:
    """Return a partition value as a Python object. Every NaN is the same object, because NaN does not equal itself."""
    value = scalar.as_py()
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def partition_codes(writes: TableWrites, columns: Mapping[str, pa.Array]) -> pa.Array:
    """Return 64-bit hashes of the rows' partition values. Spark distributes rows to write tasks by them.

    `columns` are the source columns of the partition fields by name; missing ones are null. A collision of two
    partitions only makes a larger task. Nulls in required columns are accepted, because rows that a statement only
    deletes have no values. The writer rejects them in other rows.
    """
    rows = len(next(iter(columns.values())))
    arrays = [
        fit_array(canonical_layout(columns[field.name]), replace(field, required=False))
        if field.name in columns
        else pa.nulls(rows, field.type.arrow())
        for field in writes.schema.fields
    ]
    batch = pa.RecordBatch.from_arrays(arrays, names=writes.schema.names)
    codes = np.zeros(rows, dtype=np.int64)
    for key in writes.partition_keys(batch):
        encoded = pc.dictionary_encode(physical_values(key), null_encoding="encode")
        hashes = [crc32(repr(value).encode()) for value in encoded.dictionary.to_pylist()]  # distinct values only
        codes = codes * 31 + np.array(hashes, dtype=np.int64)[encoded.indices.to_numpy()]
    return pa.array(codes)
