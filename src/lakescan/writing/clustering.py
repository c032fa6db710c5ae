"""Shuffling rows by partition before they are written: a hash for each row, equal within a partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.writing.arrow_layout import canonical_layout
from lakescan.writing.conform import fit_array
from lakescan.writing.partition_key import physical_values
from lakescan.writing.table_writes import TableWrites


def partition_codes(writes: TableWrites, columns: Mapping[str, pa.Array]) -> pa.Array:
    """Hash each row's partition values to 64 bits. `columns` are the partition source columns; absent ones are null.

    A collision of two partitions is harmless: it only makes a larger task. Nulls in required columns are the writer's
    to refuse: rows that a statement only deletes have no values.
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
