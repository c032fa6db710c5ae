"""The class `lakescan.Lakescan` of the session's JVM, and files with their values, packed as that class reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as s
from pyspark.sql.pandas.types import from_arrow_type

from lakescan.spark.optimizer_rules import class_loader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


JAVA = Path(__file__).with_name("Lakescan.java")


_VARIABLE = (s.StringType, s.BinaryType, s.DecimalType)


_CLASSES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by gateway, which is one JVM


def java_class(spark: SparkSession) -> Any:
    """Return an instance of `lakescan.Lakescan` in the session's JVM, through which py4j calls static methods."""
    context: Any = spark.sparkContext
    gateway = context._gateway
    if gateway not in _CLASSES:
        (constructor,) = class_loader(spark, JAVA).loadClass("lakescan.Lakescan").getConstructors()
        _CLASSES[gateway] = constructor.newInstance(gateway.jvm.java.util.ArrayList().toArray())
    return _CLASSES[gateway]


def statuses(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return a frame with the `path` and `length` in bytes of files, which the workers of a classic session look up."""
    from pyspark.sql.classic.dataframe import DataFrame

    session: Any = spark
    packed = pack_files(list(paths), np.ones(len(paths)), {})
    found = java_class(spark).statuses(session._jsparkSession, bytearray(packed))
    return DataFrame(found, spark).select("path", "length")


def value_type(kind: pa.DataType) -> s.DataType:
    """Return Spark's type for the values of an Arrow type; timestamps without a zone are TIMESTAMP_NTZ."""
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def pack_files(paths: list[str], sizes: np.ndarray, values: Mapping[str, pa.Array]) -> bytes:
    """Serialize files, and Arrow columns with a value per file, to bytes for the class `Files` of `Lakescan.java`."""
    parts = [
        np.array([len(paths)], "<i4").tobytes(),
        sizes.astype("<i8").tobytes(),
        _texts(pa.array(paths, pa.string())),
    ]
    for column in values.values():
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        parts.append(np.asarray(array.is_valid()).astype(np.uint8).tobytes())
        parts.append(_texts(array) if isinstance(value_type(array.type), _VARIABLE) else _numbers(array))
    return b"".join(parts)


def _texts(array: pa.Array) -> bytes:
    """Serialize strings, binaries or decimals: the end offset of each, and then all of them concatenated.

    Nulls are empty.
    """
    kind = pa.large_binary()
    plain = array.cast(pa.string()) if pa.types.is_decimal(array.type) else array
    whole = pc.fill_null(plain.cast(pa.large_string() if pa.types.is_string(plain.type) else kind).cast(kind), b"")
    ends = np.concatenate([[0], np.cumsum(pc.binary_length(whole).to_numpy())]).astype("<i8")
    return ends.tobytes() + b"".join(whole.to_pylist())


def _numbers(array: pa.Array) -> bytes:
    """Serialize numbers, booleans, dates and times, as eight bytes each; nulls are 0."""
    if pa.types.is_floating(array.type):
        bits = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
        view = "<i4" if array.type == pa.float32() else "<i8"
        return bits.view(view).astype("<i8").tobytes()
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    return pc.fill_null(array, 0).to_numpy(zero_copy_only=False).astype("<i8").tobytes()
