"""Which files a compaction rewrites, and which of them together: the rules of Iceberg's `rewrite_data_files`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import InvalidOption
from lakescan.options.compact import CompactOptions
from lakescan.options.write import WriteOptions
from lakescan.planning.file_table import FileTable
from lakescan.planning.pack import pack_in_order
from lakescan.planning.partition_groups import partition_numbers

_SMALL = 0.75  # of the target file size: smaller files are merged
_RATIO = 0.3
_FILES = 2


@dataclass(frozen=True)
class Thresholds:
    """Limits beyond which files are rewritten; sizes in bytes.

    - `deletes`: delete files of one data file, None for no limit; `ratio`: deleted rows of its rows.
    - `files`: how many files of a partition are rewritten for their sizes, at least.
    - `by_size`: whether sizes count; `everything`: whether all files are rewritten.
    """

    smallest: int
    largest: int | None
    deletes: int | None
    ratio: float
    files: int
    group_size: int
    by_size: bool = True
    everything: bool = False

    @staticmethod
    def resolve(options: WriteOptions, target_size: int) -> Thresholds:
        """The limits that options set; raises `InvalidOption` if the target size is not between those of files."""
        given = options if isinstance(options, CompactOptions) else CompactOptions()
        smallest, largest = given.min_file_size_bytes, given.max_file_size_bytes
        if smallest is not None and smallest > target_size:
            raise InvalidOption(f"min-file-size-bytes={smallest} is above the target file size of {target_size} bytes")
        if largest is not None and largest <= target_size:
            raise InvalidOption(f"max-file-size-bytes={largest} is not above the target file size, {target_size} bytes")
        deletes = given.delete_file_threshold
        if given.purge or (deletes is None and given.delete_ratio_threshold is None):
            deletes = 1
        is_sorted = given.strategy != "binpack" and not given.purge
        return Thresholds(
            int(_SMALL * target_size) if smallest is None else smallest,
            largest,
            deletes,
            given.delete_ratio_threshold or _RATIO,
            given.min_input_files or _FILES,
            given.max_file_group_size_bytes,
            by_size=not given.purge,
            everything=is_sorted if given.rewrite_all is None else given.rewrite_all,
        )

    def groups(self, table: FileTable) -> np.ndarray:
        """Return the group number of each file, -1 for a file that stays. The files of a group have one partition."""
        sizes = pc.fill_null(table.files["size"], 0).to_numpy()
        deleted, large = self.have_deletes(table), self._is_large(sizes)
        chosen = deleted | large | (self.by_size & (sizes < self.smallest))
        if self.everything:
            chosen = np.ones(len(table), dtype=bool)
        group = np.full(len(table), -1, dtype=np.int64)
        group[chosen] = _pack_groups(
            partition_numbers(table.files.filter(pa.array(chosen))), sizes[chosen], self.group_size
        )
        if self.everything or not chosen.any():
            return group
        of_chosen = group[chosen]
        counts = np.bincount(of_chosen)
        enough = (counts >= self.files) & (counts > 1)
        enough |= np.bincount(of_chosen, weights=(deleted | large)[chosen]) > 0
        group[chosen] = np.where(enough[of_chosen], of_chosen, -1)
        return group

    def _is_large(self, sizes: np.ndarray) -> np.ndarray:
        if self.largest is None or not self.by_size:
            return np.zeros(len(sizes), dtype=bool)
        result: np.ndarray = sizes > self.largest
        return result

    def have_deletes(self, table: FileTable) -> np.ndarray:
        """Whether files have too many deletes, or too many deleted rows."""
        counts = table.references.counts
        many: np.ndarray = np.zeros(len(table), dtype=bool) if self.deletes is None else counts >= self.deletes
        rows = pc.fill_null(table.files["record_count"], 0).to_numpy()
        return many | ((counts > 0) & (deleted_rows(table) >= self.ratio * np.maximum(rows, 1)))


def deleted_rows(table: FileTable) -> np.ndarray:
    """The rows of each file that are deleted by position, by deletes that apply to no other of the files."""
    uses = table.references
    rows = pc.fill_null(table.deletes["record_count"], 0).to_numpy()
    is_own = np.bincount(uses.number, minlength=len(rows)) == 1
    return uses.sums(np.where(is_own, rows, 0))


def _pack_groups(partition: np.ndarray, sizes: np.ndarray, most: int) -> np.ndarray:
    """The group number of each file: one group for each partition, several for a partition that is larger than `most`.

    Groups are numbered by partition, in the order in which partitions first occur.
    """
    _, first, code = np.unique(partition, return_index=True, return_inverse=True)
    part = np.zeros(len(code), dtype=np.int64)
    for large in np.flatnonzero(np.bincount(code, weights=sizes) > most).tolist():
        inside = code == large
        part[inside] = pack_in_order(sizes[inside], most)
    order = np.argsort(np.argsort(first))
    pairs = np.stack([order[code], part], axis=1)
    result: np.ndarray = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
    return result
