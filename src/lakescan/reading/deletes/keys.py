"""A map of deleted keys: for each key, the newest sequence number that deletes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakescan.common.arrays import as_array
from lakescan.common.row_numbers import combine_codes
from lakescan.expressions.evaluate import Columns, storage
from lakescan.reading.deletes.key_codes import KeyCodes


@dataclass(frozen=True)
class DeletedKeyMap:
    """Keys as numbers, built column by column: `codes` number each column's values; `levels` are the known
    combinations of the columns so far, sorted, and a combination's number is its index.

    `newest` has, for each combination of all columns, the newest sequence number that deletes the key.
    """

    columns: tuple[int, ...]
    codes: tuple[KeyCodes, ...]
    levels: tuple[np.ndarray | None, ...]
    newest: np.ndarray

    @staticmethod
    def build(columns: tuple[int, ...], keys: list[pa.Array], sequence: np.ndarray) -> DeletedKeyMap:
        """The map of keys (one array per column), deleted at these sequence numbers."""
        return DeletedKeyMap.build_index(columns, keys, sequence)[0]

    @staticmethod
    def build_index(
        columns: tuple[int, ...], keys: list[pa.Array], sequence: np.ndarray
    ) -> tuple[DeletedKeyMap, np.ndarray]:
        """The map, and the number of each key in it."""
        codes: list[KeyCodes] = []
        levels: list[np.ndarray | None] = []
        numbers = np.zeros(len(sequence), dtype=np.int64)
        for key in map(comparable, keys):
            known, code = KeyCodes.build(key)
            if codes:
                level, numbers = combine_codes(numbers, code, len(known))
                levels.append(level)
            else:  # the codes of the first column are already dense
                numbers = code
                levels.append(None)
            codes.append(known)
        newest = np.full(int(numbers.max(initial=-1)) + 1, -1, dtype=np.int64)
        np.maximum.at(newest, numbers, sequence)
        return DeletedKeyMap(columns, tuple(codes), tuple(levels), newest), numbers

    @property
    def nbytes(self) -> int:
        """The approximate bytes that the map takes."""
        levels = sum(level.nbytes for level in self.levels if level is not None)
        return self.newest.nbytes + levels + sum(codes.nbytes for codes in self.codes)

    def newest_delete(self, columns: Columns, rows: int) -> np.ndarray:
        """For each row, the newest sequence number that deletes its key; -1 if none does."""
        if not len(self.newest):
            return np.full(rows, -1, dtype=np.int64)
        numbers, known = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool)
        for field_id, codes, level in zip(self.columns, self.codes, self.levels, strict=True):
            code = codes.find(comparable(columns(field_id)))
            known &= code >= 0
            wanted = numbers * len(codes) + code
            if level is None:
                numbers = np.maximum(wanted, 0)
            else:
                numbers = np.minimum(np.searchsorted(level, wanted), len(level) - 1)
                known &= level[numbers] == wanted
        result: np.ndarray = np.where(known, self.newest[numbers], -1)
        return result


def comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values as one array of their storage type; columns of type unknown, all null, as booleans, which compare."""
    array = storage(as_array(values))
    return pa.nulls(len(array), pa.bool_()) if pa.types.is_null(array.type) else array
