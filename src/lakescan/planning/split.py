"""Splits: a file as pieces that can be read apart, at row-group offsets where they are recorded, else by size.

A split covers the bytes from `start` up to `stop`; a row group belongs to the split in which its first byte lies. The
first split of a file starts at 0 and the last one has no end, so that each row group is in exactly one of them,
whatever size the metadata records.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import limits
from lakescan.planning.file_table import FileTable

TARGET_SIZE = 128 * 2**20
MIN_ADAPTIVE_SIZE = 16 * 2**20
NO_END = 2**63 - 1
_FEW = 64  # splits that a file may have though it has fewer rows

SPLITS = pa.schema(
    [
        pa.field("file", pa.int32(), nullable=False),  # row number in the file table
        pa.field("start", pa.int64(), nullable=False),
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),  # bytes it weighs, by the recorded size
    ]
)


def adapted_size(total_size: int, parallelism: int, split_size: int) -> int:
    """Iceberg's adaptive split size: smaller where there would be fewer splits than cores, 16 MB at least."""
    if math.ceil(total_size / split_size) >= parallelism:
        return split_size
    return max(math.ceil(total_size / parallelism), min(MIN_ADAPTIVE_SIZE, split_size))


def split_files(table: FileTable, split_size: int) -> pa.Table:
    """The splits of all files, in file order. Files that cannot be split (not Parquet) stay whole.

    A file has no more splits than rows, and no more than `limits.SPLITS`, whatever size was recorded for it: the last
    one has no end.
    """
    split_size = min(split_size, limits.FILE_SIZE)
    size = np.clip(pc.fill_null(table.files["size"], 0).to_numpy(), 0, limits.FILE_SIZE)
    splittable = pc.equal(table.files["file_format"], "parquet").to_numpy()
    offsets, first, count = _valid_offsets(table, size)
    by_offset = splittable & (count > 0)
    rows = pc.fill_null(table.files["record_count"], limits.SPLITS).to_numpy()
    most = np.where(rows < 0, limits.SPLITS, np.clip(rows, _FEW, limits.SPLITS))
    pieces = np.where(splittable, np.clip(-(-size // split_size), 1, most), 1)
    pieces = np.where(by_offset, count, pieces)

    file = np.repeat(np.arange(len(size)), pieces)
    ordinal = np.arange(len(file)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = ordinal * split_size
    if len(offsets):
        at = np.minimum(first[file] + ordinal, len(offsets) - 1)
        start = np.where(by_offset[file], offsets[at], start)
    start = np.where(ordinal == 0, 0, start)
    is_last = ordinal == pieces[file] - 1
    following = np.append(start[1:], 0)
    end = np.where(is_last, size[file], following)
    return pa.table(
        {
            "file": pa.array(file, pa.int32()),
            "start": pa.array(start, pa.int64()),
            "stop": pa.array(np.where(is_last, NO_END, end), pa.int64()),
            "length": pa.array(np.maximum(end - start, 0), pa.int64()),
        },
        schema=SPLITS,
    )


def _valid_offsets(table: FileTable, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All split offsets in a row, where each file's start, and how many it has: none unless they ascend in the file."""
    lists = table.files["split_offsets"].combine_chunks()
    counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    first = np.cumsum(counts) - counts
    if len(values):
        owner = np.repeat(np.arange(len(counts)), counts)
        descends = np.zeros(len(values), dtype=bool)
        descends[1:] = (values[1:] <= values[:-1]) & (owner[1:] == owner[:-1])
        wrong = descends | (values >= size[owner]) | (values < 0)
        counts[np.unique(owner[wrong])] = 0
    return values, first, counts
