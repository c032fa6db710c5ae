"""What Spark's reader has to know of each file: which rows are deleted, its sequence number, its constants.

Every row needs the facts of its file. A join by path would hash a long text for each row; instead, facts are a few
arrays in one row of a small data frame, and a row finds its file's place in them by the file's size: a few bits of the
size that differ for all files at hand. Sizes are those that the filesystem has now, not those of the metadata, which
may be stale. The place holds the size again, and a row whose file's size is not there stops the query: a delete is
never skipped.

Files of equal sizes, or too many, are told apart by their path.
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

from lakescan.reading.deletes.roaring import words_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

INDEX, SIZE, PATH = "__lakescan_index", "__lakescan_size", "__lakescan_path"
_PLACE, _EXPECTED = "__lakescan_place", "__lakescan_expected"
_MOST_BITS = 20
_NO_WORDS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Places:
    """Where the facts of a file of some size are: `(size >> shift) & mask`."""

    shift: int
    mask: int

    def of(self, sizes: np.ndarray) -> np.ndarray:
        """The places of files of these sizes."""
        result: np.ndarray = (sizes >> self.shift) & self.mask
        return result

    @staticmethod
    def find(sizes: np.ndarray) -> Places | None:
        """Bits that differ for all sizes; None where sizes are equal, or no few bits tell them apart."""
        least = int(np.ceil(np.log2(max(2, len(sizes)))))
        for bits in range(least, _MOST_BITS + 1):
            for shift in range(16):
                found = Places(shift, (1 << bits) - 1)
                if len(np.unique(found.of(sizes))) == len(sizes):
                    return found
        return None


class FileFacts:
    """The facts of some files: arrays with an element a file, and the deleted rows of all of them as one bitmap."""

    def __init__(
        self,
        spark: SparkSession,
        paths: list[str],
        sizes: np.ndarray,
        deleted: list[BitMap64],
        values: Mapping[str, pa.Array],
    ) -> None:
        self._spark, self._paths, self._sizes = spark, paths, sizes
        self._places = Places.find(sizes)
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
        """One row: an array a fact, by place, and the bitmap."""
        if self._places is None:
            by_place = self._by_file
        else:
            place = np.full(self._places.mask + 1, -1)
            place[self._places.of(self._sizes)] = np.arange(len(self._sizes))
            rows = pa.array(place, mask=place < 0)
            by_place = {name: values.take(rows) for name, values in self._by_file.items()}
        columns = {name: _one_list(values) for name, values in by_place.items()}
        return self._spark.createDataFrame(pa.table({**columns, "words": _one_list(pa.array(self._words))}))

    def _array(self, name: str) -> Column:
        return self._frame.select(name).scalar()

    def __contains__(self, name: str) -> bool:
        return name in self._by_file

    def value(self, name: str) -> Column:
        """A fact of the row's file; for a frame that `placed` made."""
        return F.get(self._array(name), F.col(_PLACE))

    def placed(self, frame: DataFrame, columns: list[Column]) -> DataFrame:
        """The columns, with the place of each row's file; rows that are deleted are left out.

        `frame` reads just these files and has Spark's `_metadata`.
        """
        index, size = F.col("_metadata.row_index").alias(INDEX), F.col("_metadata.file_size").alias(SIZE)
        if self._places is not None:
            found = frame.select(*columns, index, size)
            place = F.shiftright(F.col(SIZE), self._places.shift).bitwiseAND(F.lit(self._places.mask)).cast("int")
            found = found.withColumn(_PLACE, place)
            wrong = ~self.value("sizes").eqNullSafe(F.col(SIZE))
        else:
            known = pa.table({_EXPECTED: self._paths, _PLACE: pa.array(range(len(self._paths)), pa.int32())})
            found = frame.select(*columns, index, F.col("_metadata.file_path").alias(PATH))
            expected = F.broadcast(self._spark.createDataFrame(known))
            found = found.join(expected, F.col(PATH) == F.col(_EXPECTED), "left_outer")
            wrong = F.col(_PLACE).isNull()
        error = F.raise_error(F.lit(_UNKNOWN_FILE)).cast("boolean")
        return found.where(F.when(wrong, error).otherwise(self._is_live()))

    def _is_live(self) -> Column:
        if not self._has_deletes:
            return F.lit(True)
        word = F.shiftright(F.col(INDEX), 6)
        bits = F.get(self._array("words"), (self.value("starts") + word).cast("int"))
        deleted = F.call_function("bit_get", bits, F.col(INDEX).bitwiseAND(F.lit(63)).cast("int")) == 1
        return ~((word < self.value("counts")) & deleted)


_UNKNOWN_FILE = (
    "lakescan: Spark reads a file whose size or path is not one of those that the plan's deletes and constants were "
    "looked up for. Was a data file replaced? Plan again, or read with option('lane', 'arrow')."
)


def _one_list(values: pa.Array) -> pa.Array:
    """A column of one row that holds all values."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
