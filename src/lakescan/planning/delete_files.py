"""The deletes that apply to each data file: row numbers, and ranges of rows, of the delete table.

A position delete applies to few data files, so a file has a list of row numbers. An equality delete applies to every
older file of its scope: N commits of upserts make N(N-1)/2 pairs. So equality deletes of one scope and the same columns
are adjacent in the delete table, oldest first, and a file has a range of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NUMBERS = pa.list_(pa.int32())
RANGES = pa.list_(pa.struct([pa.field("first", pa.int32()), pa.field("stop", pa.int32())]))


def _none() -> np.ndarray:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class DeleteReferences:
    """The rows of a delete table that apply to each of `rows` data files: single rows, and ranges of rows.

    - `file`, `number`: pairs of a file and a delete, for position deletes and vectors.
    - `range_file`, `first`, `stop`: a file, and the range of its equality deletes, up to `stop` (exclusive); never
      empty.

    Files are row numbers of the file table, ascending; deletes are row numbers of the delete table.
    """

    rows: int
    file: np.ndarray = field(default_factory=_none)
    number: np.ndarray = field(default_factory=_none)
    range_file: np.ndarray = field(default_factory=_none)
    first: np.ndarray = field(default_factory=_none)
    stop: np.ndarray = field(default_factory=_none)

    @staticmethod
    def read_columns(files: pa.Table) -> DeleteReferences:
        """Return the references in the columns `deletes` and `equality_deletes` of a file table."""
        numbers, ranges = (files[name].combine_chunks() for name in ("deletes", "equality_deletes"))
        bounds = ranges.flatten()
        return DeleteReferences(
            files.num_rows,
            pc.list_parent_indices(numbers).to_numpy().astype(np.int64),
            _plain(numbers.flatten()),
            pc.list_parent_indices(ranges).to_numpy().astype(np.int64),
            _plain(bounds.field(0)),
            _plain(bounds.field(1)),
        )

    @staticmethod
    def build(
        rows: int, pairs: tuple[np.ndarray, np.ndarray], ranges: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> DeleteReferences:
        """Build the references of `rows` files from pairs (file, delete) and ranges (file, first, stop) in any order.

        The deletes of each file are sorted by row number.
        """
        by_pair, by_range = np.lexsort(pairs[::-1]), np.lexsort((ranges[1], ranges[0]))
        return DeleteReferences(rows, *(each[by_pair] for each in pairs), *(each[by_range] for each in ranges))

    def columns(self) -> dict[str, pa.Array]:
        """Return the references as the columns `deletes` and `equality_deletes` of a file table."""
        numbers = pa.ListArray.from_arrays(self._offsets(self.file), pa.array(self.number, pa.int32()))
        bounds = [pa.array(each, pa.int32()) for each in (self.first, self.stop)]
        struct = pa.StructArray.from_arrays(bounds, fields=list(RANGES.value_type))
        ranges = pa.ListArray.from_arrays(self._offsets(self.range_file), struct)
        return {"deletes": numbers, "equality_deletes": ranges}

    @property
    def counts(self) -> np.ndarray:
        """The number of deletes of each file, including all of its ranges."""
        return self.sums(None)

    def sums(self, values: np.ndarray | None) -> np.ndarray:
        """Return, for each file, the sum of `values` over its deletes.

        `values` has one value per row of the delete table; None counts the deletes.
        """
        if not len(self.file) and not len(self.range_file):
            return np.zeros(self.rows, dtype=np.int64)
        if values is None:
            by_number, by_range = None, self.stop - self.first
        else:
            totals = np.concatenate([[0], np.cumsum(values, dtype=np.float64)])  # sizes can be wrong: no overflow
            by_number, by_range = values[self.number], totals[self.stop] - totals[self.first]
        found = np.bincount(self.file, by_number, self.rows) + np.bincount(self.range_file, by_range, self.rows)
        return found.astype(np.int64)

    @property
    def has_equality(self) -> np.ndarray:
        """A mask of the files that have equality deletes."""
        return self._mask(self.range_file)

    def has(self, some: np.ndarray) -> np.ndarray:
        """Return a mask of the files that have any position delete that `some`, a mask of the delete table, selects."""
        return self._mask(self.file[some[self.number]])

    def reference_mask(self, deletes: int) -> np.ndarray:
        """Return a mask of the rows of a delete table with `deletes` rows that any file references."""
        steps = np.bincount(self.first, minlength=deletes + 1) - np.bincount(self.stop, minlength=deletes + 1)
        used: np.ndarray = np.cumsum(steps)[:deletes] > 0
        used[self.number] = True
        return used

    def where(self, files: np.ndarray) -> DeleteReferences:
        """Return the references with the deletes of only those files that the mask `files` selects.

        `rows` is unchanged.
        """
        pairs, ranges = files[self.file], files[self.range_file]
        return DeleteReferences(
            self.rows,
            self.file[pairs],
            self.number[pairs],
            self.range_file[ranges],
            self.first[ranges],
            self.stop[ranges],
        )

    def slice(self, start: int, rows: int) -> DeleteReferences:
        """Return the references of `rows` files, beginning with file number `start`; its number becomes 0."""
        low, high = np.searchsorted(self.file, [start, start + rows])
        first, last = np.searchsorted(self.range_file, [start, start + rows])
        return DeleteReferences(
            rows,
            self.file[low:high] - start,
            self.number[low:high],
            self.range_file[first:last] - start,
            self.first[first:last],
            self.stop[first:last],
        )

    def shift(self, by: int) -> DeleteReferences:
        """Return the references after `by` rows were prepended to the delete table."""
        return replace(self, number=self.number + by, first=self.first + by, stop=self.stop + by)

    def drop_rows(self, unused: np.ndarray) -> DeleteReferences:
        """Return the references after `unused` rows, a mask, were removed from the delete table."""
        new = np.concatenate([[0], np.cumsum(~unused)])
        return replace(self, number=new[self.number], first=new[self.first], stop=new[self.stop])

    def merge(self, other: DeleteReferences) -> DeleteReferences:
        """Return references with the deletes of both, file by file; both are for the same files and delete table."""
        pairs = [np.concatenate(each) for each in ((self.file, other.file), (self.number, other.number))]
        names = ("range_file", "first", "stop")
        file, first, stop = (np.concatenate([getattr(self, n), getattr(other, n)]) for n in names)
        return DeleteReferences.build(self.rows, (pairs[0], pairs[1]), (file, first, stop))

    def expand(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs of a file and a delete, as two arrays of row numbers. There may be very many."""
        lengths = self.stop - self.first
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        file = np.concatenate([self.file, np.repeat(self.range_file, lengths)])
        number = np.concatenate([self.number, np.repeat(self.first, lengths) + within])
        order = np.lexsort((number, file))
        return file[order], number[order]

    def _offsets(self, owner: np.ndarray) -> pa.Array:
        return pa.array(np.searchsorted(owner, np.arange(self.rows + 1)), pa.int32())

    def _mask(self, owner: np.ndarray) -> np.ndarray:
        mask = np.zeros(self.rows, dtype=bool)
        mask[owner] = True
        return mask


def no_references(rows: int) -> dict[str, pa.Array]:
    """Return the columns `deletes` and `equality_deletes` of `rows` files without deletes."""
    return DeleteReferences(rows).columns()


def _plain(values: pa.Array) -> np.ndarray:
    result: np.ndarray = values.to_numpy(zero_copy_only=False).astype(np.int64)
    return result


class DeleteKind(StrEnum):
    """The kinds of deletes, with their names in the column `kind` of delete tables."""

    POSITION = "position-deletes"
    VECTOR = "deletion-vector"
    EQUALITY = "equality-deletes"


@dataclass(frozen=True)
class DeleteFile:
    """A delete file or deletion vector: one row of a delete table (`planning.file_table.DELETES`).

    Attributes:
        kind: Position deletes, a deletion vector, or equality deletes.
        path: The location of the file; None for an inline vector.
        file_format: parquet, orc, avro or puffin; None for a Delta vector.
        offset: The offset of a vector in its file, in bytes.
        length: The size of a vector in its file, in bytes.
        inline: The bytes of an inline vector.
        record_count: The number of deleted rows, or of equality keys; None if not recorded.
        size: The recorded size in bytes.
        sequence_number: The data sequence number (Iceberg).
        equality_ids: The ids of the fields that an equality delete compares.
        key_metadata: The key of an encrypted file.
        scope: The partition that an equality delete applies to; empty for the whole table.
        kept: Whether it is inverted: only the rows that it selects are read.

    Example:
        >>> [delete.path for task in plan.groups[0].tasks() for delete in task.deletes]
    """

    kind: DeleteKind
    path: str | None = None
    file_format: str | None = None
    offset: int | None = None
    length: int | None = None
    inline: bytes | None = field(default=None, repr=False)
    record_count: int | None = None
    size: int | None = None
    sequence_number: int | None = None
    equality_ids: tuple[int, ...] = ()
    key_metadata: bytes | None = field(default=None, repr=False)
    scope: str | None = None
    kept: bool = False

    @property
    def location(self) -> str:
        """The path of a delete in a file; inline vectors have none, and must not be asked for it."""
        assert self.path is not None
        return self.path

    @property
    def row_format(self) -> str:
        """The file format of a position or equality delete file; not for deletion vectors."""
        assert self.file_format is not None
        return self.file_format

    @property
    def age(self) -> int:
        """The data sequence number of an equality delete, which always has one."""
        assert self.sequence_number is not None
        return self.sequence_number


_NAMES = tuple(each.name for each in fields(DeleteFile))


def delete_files(deletes: pa.Table) -> tuple[DeleteFile, ...]:
    """Return the rows of a delete table as `DeleteFile`s."""
    rows = zip(*(deletes[name].to_pylist() for name in _NAMES), strict=True)
    return tuple(map(_record, rows))


def _record(row: tuple[Any, ...]) -> DeleteFile:
    values = dict(zip(_NAMES, row, strict=True))
    values["kind"] = DeleteKind(values["kind"])
    values["equality_ids"] = tuple(values["equality_ids"] or ())
    values["kept"] = bool(values["kept"])
    return DeleteFile(**values)


class DeleteFiles:
    """The deletes of a task group, shared by its tasks. Each `DeleteFile` is created when it is first used.

    `table` is the group's delete table.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._known: dict[int, DeleteFile] = {}

    def at(self, rows: Sequence[int]) -> tuple[DeleteFile, ...]:
        """Return the deletes in the given rows of the table, in the order of `rows`."""
        new = [number for number in dict.fromkeys(rows) if number not in self._known]
        if new:
            made = delete_files(self.table.take(pa.array(new, pa.int32())))
            self._known.update(zip(new, made, strict=True))
        return tuple(self._known[number] for number in rows)
