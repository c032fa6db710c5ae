"""Codes for the distinct values of a column, for repeated lookups: sorted once, then searched.

Arrow's hash lookup would rebuild its hash table for every batch. Fixed-width values are sorted as numbers, strings and
bytes by a hash. A match by hash is verified against the value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.hashing import hashes


@dataclass(frozen=True)
class KeyCodes:
    """The distinct values of a column of type `kind`, each with a code: its index in the sorted `numbers`.

    With `has_null`, null has the next code. `texts` are the values if `numbers` are hashes, else None. `is_exact` is
    False if two values share a hash: then `texts` are searched instead.
    """

    kind: pa.DataType
    numbers: np.ndarray
    has_null: bool
    texts: pa.Array | None = None
    is_exact: bool = True

    @staticmethod
    def build(values: pa.Array) -> tuple[KeyCodes, np.ndarray]:
        """Build codes for the distinct values of a column; also return the code of each value."""
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        known = values.drop_null()
        distinct, inverse = np.unique(_numbers(known), return_inverse=True)
        codes = KeyCodes(values.type, distinct, not valid.all())
        if not _has_width(values.type):
            first = np.zeros(len(distinct), dtype=np.int64)
            first[inverse[::-1]] = np.arange(len(known))[::-1]
            texts = known.take(pa.array(first))
            if not pc.all(pc.equal(texts.take(pa.array(inverse)), known)).as_py() and len(known):
                texts = pc.unique(known)
                codes = KeyCodes(values.type, np.arange(len(texts)), not valid.all(), texts, is_exact=False)
                return codes, codes.find(values)
            codes = KeyCodes(values.type, distinct, not valid.all(), texts)
        result = np.full(len(values), len(distinct), dtype=np.int64)
        result[valid] = inverse
        return codes, result

    def __len__(self) -> int:
        return len(self.numbers) + self.has_null

    @property
    def nbytes(self) -> int:
        """The size of the codes in bytes."""
        return self.numbers.nbytes + (0 if self.texts is None else self.texts.nbytes)

    def find(self, values: pa.Array) -> np.ndarray:
        """Return the code of each value, which is cast to `kind`; -1 for values that have no code."""
        values = values.cast(self.kind)
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        result = np.full(len(values), len(self.numbers) if self.has_null else -1, dtype=np.int64)
        result[valid] = self._find(values.drop_null()) if len(self.numbers) else -1
        return result

    def _find(self, known: pa.Array) -> np.ndarray:
        if not self.is_exact:
            indices = pc.fill_null(pc.index_in(known, value_set=self.texts), -1)
            return indices.to_numpy(zero_copy_only=False).astype(np.int64)
        wanted = _numbers(known)
        order = np.argsort(wanted)  # sorted lookups are several times as fast
        place = np.empty(len(wanted), dtype=np.int64)
        place[order] = np.minimum(np.searchsorted(self.numbers, wanted[order]), len(self.numbers) - 1)
        same = self.numbers[place] == wanted
        if self.texts is not None:
            same &= pc.equal(self.texts.take(pa.array(place)), known).to_numpy(zero_copy_only=False)
        result: np.ndarray = np.where(same, place, -1)
        return result


def _has_width(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type are numbers, booleans, dates or times, which fit in 64 bits."""
    return bool(pa.types.is_primitive(kind)) and not pa.types.is_decimal(kind)


def _numbers(values: pa.Array) -> np.ndarray:
    """Return values without nulls as 64-bit numbers, equal for equal values: strings, bytes and decimals as hashes.

    NaN equals NaN, and 0.0 does not equal -0.0. Iceberg's Java library compares the keys of equality deletes this way
    (`Double.compare`), unlike SQL.
    """
    if not _has_width(values.type):
        plain = values if not pa.types.is_decimal(values.type) else values.cast(pa.string())
        return hashes(plain)
    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        numbers[np.isnan(numbers)] = np.nan
        return numbers.view(np.int64)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    result: np.ndarray = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return result
