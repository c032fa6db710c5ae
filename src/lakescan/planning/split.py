"""Splits: byte ranges of a file that are read independently, at recorded offsets of row groups, else by size.

A split covers the bytes from `start` (inclusive) to `stop` (exclusive). A Parquet row group or an ORC stripe belongs to
the split with its first byte, an Avro block to the split with the first byte of the sync marker before it. The first
split of a file starts at 0 and the last one has no end, so that each row group, stripe or block is in exactly one
split, even if the recorded file size is wrong.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import limits
from lakescan.common.option_values import boolean, planning_mode, positive, whole
from lakescan.common.properties import Properties, Property, is_true
from lakescan.planning.bin_packing import LOOKBACK, OPEN_COST
from lakescan.planning.file_table import FileTable

TARGET_SIZE = 128 * 2**20
MIN_ADAPTIVE_SIZE = 16 * 2**20
NO_END = 2**63 - 1
_SPLITTABLE = ("parquet", "orc", "avro")
_FEW = 64  # splits that a file may have even if it has fewer rows

SPLITS = pa.schema(
    [
        pa.field("file", pa.int32(), nullable=False),  # row number in the file table
        pa.field("start", pa.int64(), nullable=False),
        pa.field("stop", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),  # bytes, by the recorded file size
    ]
)


def adaptive_size(total_size: int, parallelism: int, split_size: int) -> int:
    """Return Iceberg's adaptive split size in bytes, for a scan of `total_size` bytes.

    It is smaller than `split_size` if there would be fewer splits than readers (`parallelism`), but at least 16 MB.
    """
    if math.ceil(total_size / split_size) >= parallelism:
        return split_size
    return max(math.ceil(total_size / parallelism), min(MIN_ADAPTIVE_SIZE, split_size))


def split_files(table: FileTable, split_size: int) -> pa.Table:
    """Return the splits of all files, in file order, as a table of file number, start, stop and length in bytes.

    Only Parquet, ORC and Avro files are split: at their recorded offsets, else every `split_size` bytes. A file that is
    split by size has at most as many splits as rows (or `_FEW`), and at most `limits.SPLITS`, whatever its recorded
    size.
    """
    split_size = min(split_size, limits.FILE_SIZE)
    size = np.clip(pc.fill_null(table.files["size"], 0).to_numpy(), 0, limits.FILE_SIZE)
    splittable = pc.is_in(table.files["file_format"], value_set=pa.array(_SPLITTABLE)).to_numpy()
    offsets, first, count = _valid_offsets(table, size)
    by_offset = splittable & (count > 0)
    rows = pc.fill_null(table.files["record_count"], limits.SPLITS).to_numpy()
    most = np.where(rows < 0, limits.SPLITS, np.clip(rows, _FEW, limits.SPLITS))
    pieces = np.where(splittable, np.clip(-(-size // split_size), 1, most), 1)
    pieces = np.where(by_offset, count, pieces)
    if (pieces == 1).all():
        return _whole_files(size)

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


def _whole_files(size: np.ndarray) -> pa.Table:
    """Return a table with one split for each file, given the sizes of the files in bytes."""
    columns = [np.arange(len(size), dtype=np.int32), np.zeros(len(size), np.int64), np.full(len(size), NO_END), size]
    return pa.table([*map(pa.array, columns)], schema=SPLITS)


def _valid_offsets(table: FileTable, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return all recorded split offsets, the index of each file's first offset, and the number of offsets per file.

    The number is 0 for a file without offsets, or whose offsets are not ascending or are outside the file (`size`
    bytes).
    """
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


class ReadProperties(Properties):
    """The table properties that control how a scan is planned and read. Options of a scan take precedence."""

    split_size: Property[int] = Property(
        "read.split.target-size", TARGET_SIZE, positive, "target size of a task in bytes"
    )
    lookback: Property[int] = Property(
        "read.split.planning-lookback", LOOKBACK, positive, "how many tasks are filled at once"
    )
    open_cost: Property[int] = Property(
        "read.split.open-file-cost", OPEN_COST, whole, "bytes that opening a file counts as"
    )
    is_adaptive: Property[bool] = Property(
        "read.split.adaptive-size.enabled", True, is_true, "whether splits adapt to the parallelism", check=str
    )
    batch_size: Property[int | None] = Property(
        "read.parquet.vectorization.batch-size", None, positive, "the most rows of a record batch; else 65536"
    )
    is_vectorized: Property[bool] = Property(
        "read.parquet.vectorization.enabled",
        True,
        is_true,
        "whether Spark's vectorized Parquet reader may read files; else Arrow does",
        check=boolean,
    )
    data_planning_mode: Property[str] = Property(
        "read.data-planning-mode", "auto", planning_mode, "where data manifests are read", check=str
    )
    delete_planning_mode: Property[str] = Property(
        "read.delete-planning-mode", "auto", planning_mode, "where delete manifests are read", check=str
    )
