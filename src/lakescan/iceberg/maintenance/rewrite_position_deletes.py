"""Select the position delete files to rewrite, by the rules of Iceberg's `rewrite_position_delete_files`.

In format version 2, files of a partition that are too small or too large are rewritten together. From version 3 on, all
position delete files are converted to deletion vectors. Files that apply to no data file are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.planning.delete_files import DeleteKind, DeleteReferences
from lakescan.planning.file_table import FileTable
from lakescan.writing.table_writes import DeleteLimits

_SMALL, _LARGE = 0.75, 1.8  # fractions of the target size of a delete file


@dataclass(frozen=True)
class DeletesToRewrite:
    """Delete files to remove, and the data files whose deletes are rewritten.

    - `files`: the data files, which reference only the deletes that are rewritten.
    - `removed`, `size`: the locations of the delete files to remove, and their total size in bytes.
    - `sequence_number`: that of the newest of the rewritten deletes, or None without any.
    """

    files: FileTable
    removed: tuple[str, ...]
    size: int
    sequence_number: int | None


def plan_vectors(table: FileTable, within: pa.Array) -> DeletesToRewrite:
    """Select all position deletes of the data files `within` (locations), to convert them to deletion vectors."""
    uses = _DeleteUses.read(table)
    inside = pc.is_in(table.files["path"], value_set=within).to_numpy()
    elsewhere = np.bincount(uses.delete[~inside[uses.file]], minlength=len(uses.is_position)) > 0
    written = uses.is_position & (np.bincount(uses.delete[inside[uses.file]], minlength=len(elsewhere)) > 0)
    return uses.choose_deletes(written, (written & ~elsewhere) | uses.is_dangling, inside)


def plan_compaction(
    table: FileTable, within: pa.Array, limits: DeleteLimits, target: int, *, by_file: bool
) -> DeletesToRewrite:
    """Select position deletes of partitions with too many small files, if they apply to data files `within`.

    Files that are too large are selected too. `within` has locations. `target` is the target size of delete files in
    bytes. With `by_file`, new files cover one data file each, so partitions where each data file already has only one
    are left out.
    """
    smallest = int(_SMALL * target) if limits.smallest is None else limits.smallest
    largest = int(_LARGE * target) if limits.largest is None else limits.largest
    uses = _DeleteUses.read(table)
    inside = pc.is_in(table.files["path"], value_set=within).to_numpy()
    known = uses.is_position & (np.bincount(uses.delete[inside[uses.file]], minlength=len(uses.is_position)) > 0)
    sizes = pc.fill_null(table.deletes["size"], 0).to_numpy()
    is_large = sizes > largest
    chosen = known & (limits.everything | is_large | (sizes < smallest))
    if not limits.everything and chosen.any():
        scope = pc.fill_null(table.deletes["scope"], "").combine_chunks().dictionary_encode().indices.to_numpy()
        count = int(scope.max()) + 1
        numbers = np.bincount(scope[chosen], minlength=count)
        enough = (numbers >= max(limits.files, 2)) | (np.bincount(scope[chosen & is_large], minlength=count) > 0)
        if by_file:
            pairs = chosen[uses.delete]
            of_scope = np.unique(np.stack([scope[uses.delete[pairs]], uses.file[pairs]]), axis=1)[0]
            enough &= np.bincount(of_scope, minlength=count) < numbers
        chosen &= enough[scope]
    return uses.choose_deletes(chosen, chosen | uses.is_dangling, np.ones(len(table), dtype=bool))


@dataclass(frozen=True)
class _DeleteUses:
    """The pairs of a data file and a position delete that applies to it, as row numbers.

    `is_position` marks position delete files.
    """

    table: FileTable
    file: np.ndarray
    delete: np.ndarray
    is_position: np.ndarray

    @staticmethod
    def read(table: FileTable) -> _DeleteUses:
        kinds = pc.equal(table.deletes["kind"], DeleteKind.POSITION)
        uses = table.references
        return _DeleteUses(table, uses.file, uses.number, kinds.to_numpy(zero_copy_only=False))

    @property
    def is_dangling(self) -> np.ndarray:
        result: np.ndarray = self.is_position & (np.bincount(self.delete, minlength=len(self.is_position)) == 0)
        return result

    def choose_deletes(self, written: np.ndarray, removed: np.ndarray, inside: np.ndarray) -> DeletesToRewrite:
        """Return the data files with the deletes to rewrite, and the delete files to remove.

        `written` and `removed` are masks of the deletes, and `inside` is a mask of the data files.
        """
        wanted = written[self.delete] & inside[self.file]
        counts = np.bincount(self.file[wanted], minlength=len(self.table))
        again_used = DeleteReferences(len(self.table), self.file[wanted], self.delete[wanted])
        files = self.table.with_deletes(again_used, self.table.deletes).filter(pa.array(counts > 0))
        gone = self.table.deletes.filter(pa.array(removed))
        again = self.table.deletes.filter(pa.array(written))
        return DeletesToRewrite(
            files.drop_unused_deletes(),
            tuple(dict.fromkeys(gone["path"].to_pylist())),
            pc.sum(gone["size"]).as_py() or 0,
            pc.max(again["sequence_number"]).as_py(),
        )
