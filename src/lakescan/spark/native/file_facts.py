"""Per-file facts for the native lane: deleted rows, sequence number, constants.

Every row needs the facts of its file. A join by path would hash a long string per row. Instead, the facts are a few
arrays in one row of a small data frame, indexed by some bits of the file size that differ for all files of the plan.
Sizes are the filesystem's current ones, since those of the metadata may be stale. The arrays also hold the full size: a
row of a file with another size fails the query, so that a delete is never skipped.

If files have equal sizes, or there are too many, they are joined by path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import functions as F

from lakescan.reading.deletes.deletion_vectors import words_of
from lakescan.spark.session import create_frame

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

INDEX, SIZE, PATH = "__lakescan_index", "__lakescan_size", "__lakescan_path"
_PLACE, _EXPECTED = "__lakescan_place", "__lakescan_expected"
_MOST_BITS = 20
_MOST_LITERALS = 128  # size of an array as an expression, which is faster than a subquery
_SQL_TYPES = {pa.int32(): "INT", pa.int64(): "BIGINT"}
_NO_WORDS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class SizeIndex:
    """Maps a file size in bytes to an array index, `(size >> shift) & mask`, which differs for all files of a plan."""

    shift: int
    mask: int

    def indices(self, sizes: np.ndarray) -> np.ndarray:
        """Return the array index for each of the file sizes in bytes."""
        result: np.ndarray = (sizes >> self.shift) & self.mask
        return result

    @staticmethod
    def find(sizes: np.ndarray) -> SizeIndex | None:
        """Find bits that differ for all file sizes, in bytes.

        None if two files have the same size, or if too many bits would be needed.
        """
        least = int(np.ceil(np.log2(max(2, len(sizes)))))
        for bits in range(least, _MOST_BITS + 1):
            for shift in range(16):
                places = SizeIndex(shift, (1 << bits) - 1)
                if len(np.unique(places.indices(sizes))) == len(sizes):
                    return places
        return None


class FileFacts:
    """The facts of files: arrays with one element per file, and the deleted rows of all files as one bitmap.

    - `paths`: the files, as in Spark's `_metadata.file_path`. `sizes`: their current sizes in bytes.
    - `deleted`: the deleted row positions of each file.
    - `values`: further facts by name, as Arrow arrays with one element per file.
    """

    def __init__(
        self,
        spark: SparkSession,
        paths: list[str],
        sizes: np.ndarray,
        deleted: list[BitMap64],
        values: Mapping[str, pa.Array],
    ) -> None:
        self._spark, self._paths, self._sizes = spark, paths, sizes
        self._places = SizeIndex.find(sizes)
        words = [np.concatenate([_NO_WORDS, *words_of(bitmap)]) for bitmap in deleted]
        counts = np.array([len(each) for each in words], dtype=np.int64)
        self._has_deletes = bool(counts.any())
        self._by_file: dict[str, pa.Array] = {
            "sizes": pa.array(sizes),
            "starts": pa.array(np.cumsum(counts) - counts),
            "counts": pa.array(counts),
            **values,
        }
        self._words = np.concatenate([_NO_WORDS, *words])

    @cached_property
    def _frame(self) -> DataFrame:
        """A frame of one row with an array per fact, in the order of the size index, and the array `words` (bitmap)."""
        columns = {name: _one_list(values) for name, values in self._indexed_facts.items()}
        return self._spark.createDataFrame(pa.table({**columns, "words": _one_list(pa.array(self._words))}))

    @cached_property
    def _indexed_facts(self) -> dict[str, pa.Array]:
        """The facts by name as Arrow arrays, in the order of the size index, or of the files without one."""
        if self._places is None:
            return self._by_file
        place = np.full(self._places.mask + 1, -1)
        place[self._places.indices(self._sizes)] = np.arange(len(self._sizes))
        rows = pa.array(place, mask=place < 0)
        return {name: values.take(rows) for name, values in self._by_file.items()}

    def _array(self, name: str) -> Column:
        values = self._indexed_facts.get(name)
        if values is not None and values.type in _SQL_TYPES and len(values) <= _MOST_LITERALS:
            numbers = ", ".join("NULL" if each is None else str(each) for each in values.to_pylist())
            return F.expr(f"CAST(array({numbers}) AS ARRAY<{_SQL_TYPES[values.type]}>)")
        return self._frame.select(name).scalar()

    def __contains__(self, name: str) -> bool:
        return name in self._by_file

    def value(self, name: str) -> Column:
        """Return a Spark column with a fact of the row's file, for a frame that `locate_rows` returned."""
        return F.get(self._array(name), F.col(_PLACE))

    def locate_rows(self, frame: DataFrame, columns: list[Column]) -> DataFrame:
        """Select columns of a frame, add the array index of each row's file, and remove deleted rows.

        `frame` must read exactly these files, and have Spark's `_metadata`. The query fails for a file of another size
        or path.
        """
        index, size = F.col("_metadata.row_index").alias(INDEX), F.col("_metadata.file_size").alias(SIZE)
        if self._places is not None:
            rows = frame.select(*columns, index, size)
            place = F.shiftright(F.col(SIZE), self._places.shift).bitwiseAND(F.lit(self._places.mask)).cast("int")
            rows = rows.withColumn(_PLACE, place)
            is_unknown = ~self.value("sizes").eqNullSafe(F.col(SIZE))
        else:
            known = pa.table({_EXPECTED: self._paths, _PLACE: pa.array(range(len(self._paths)), pa.int32())})
            rows = frame.select(*columns, index, F.col("_metadata.file_path").alias(PATH))
            expected = F.broadcast(create_frame(self._spark, known))
            rows = rows.join(expected, F.col(PATH) == F.col(_EXPECTED), "left_outer")
            is_unknown = F.col(_PLACE).isNull()
        error = F.raise_error(F.lit(_UNKNOWN_FILE)).cast("boolean")
        return rows.where(F.when(is_unknown, error).otherwise(self._is_live()))

    def _is_live(self) -> Column:
        if not self._has_deletes:
            return F.lit(True)
        word = F.shiftright(F.col(INDEX), 6)
        bits = F.get(self._array("words"), (self.value("starts") + word).cast("int"))
        deleted = F.call_function("bit_get", bits, F.col(INDEX).bitwiseAND(F.lit(63)).cast("int")) == 1
        return ~((word < self.value("counts")) & deleted)


_UNKNOWN_FILE = (
    "lakescan: Spark reads a file whose size or path is not in the plan, so its deletes and constants are unknown. "
    "Was a data file replaced? Plan again, or read with option('lane', 'arrow')."
)


def _one_list(values: pa.Array) -> pa.Array:
    """Return an Arrow list array of one element, the list of all values."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
