"""Native files as one relation of Spark, which gets them from lakescan, and looks none up: see `Lakescan.java`.

Each file brings its facts (deleted rows, constants) as values of hidden partition columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import functions as F
from pyspark.sql import types as s
from pyspark.sql.pandas.types import from_arrow_type

from lakescan.common.metadata_columns import POS, ROW_ID
from lakescan.planning.plan import ScanPlan
from lakescan.reading.deletes.roaring import words_of
from lakescan.spark.native.file_facts import INDEX
from lakescan.spark.native.lower import READ_OPTIONS, NativeFiles
from lakescan.spark.optimizer_rules import class_loader
from lakescan.spark.session_lane import FIELD_IDS, NULL_STRUCTS
from lakescan.storage.faults import shown

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakescan.scan_spec import ScanSpec

JAVA = Path(__file__).with_name("Lakescan.java")
_HIDDEN = "__lakescan_fact_"
_DELETED = "deleted"
# Spark's reader by rows takes the session's setting of field ids, and the vectorized one that of the relation.
_OPTIONS = {**READ_OPTIONS, FIELD_IDS: "true", NULL_STRUCTS: "false"}
_VARIABLE = (s.StringType, s.BinaryType, s.DecimalType)
_CLASSES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by gateway, which is one JVM


def java_class(spark: SparkSession) -> Any:
    """The class `lakescan.Lakescan` in the session's JVM, as a view of its static methods."""
    context: Any = spark.sparkContext
    gateway = context._gateway
    if gateway not in _CLASSES:
        found = class_loader(spark, JAVA).loadClass("lakescan.Lakescan").getDeclaredMethods()
        _CLASSES[gateway] = _Static(gateway, {each.getName(): each for each in found})
    return _CLASSES[gateway]


class _Static:
    """Calls static methods of a class that py4j's own class loader does not have."""

    def __init__(self, gateway: Any, methods: Mapping[str, Any]) -> None:
        self._gateway, self._methods = gateway, methods

    def __getattr__(self, name: str) -> Any:
        method = self._methods[name]

        def call(*arguments: Any) -> Any:
            array = self._gateway.new_array(self._gateway.jvm.java.lang.Object, len(arguments))
            for n, each in enumerate(arguments):
                array[n] = self._as_java(each)
            return method.invoke(None, array)

        return call

    def _as_java(self, argument: Any) -> Any:
        if not isinstance(argument, Mapping):
            return argument
        found = self._gateway.jvm.java.util.HashMap()
        for name, value in argument.items():
            found.put(name, value)
        return found


class RelationFiles(NativeFiles):
    """Native files whose names, sizes and facts Spark gets from here; `title` is what `explain` shows of them."""

    def __init__(self, *arguments: Any, title: str) -> None:
        super().__init__(*arguments)
        self.title = title

    def _read(self, facts: HiddenFacts | None) -> DataFrame:  # type: ignore[override]
        from pyspark.sql.classic.dataframe import DataFrame

        facts = facts or HiddenFacts(self._spark, [BitMap64()] * len(self._locations), {})
        session: Any = self._spark
        jsession = session._jsparkSession
        hidden, columns = (
            jsession.parseDataType(json.dumps(each.jsonValue()))
            for each in (facts.schema, self._columns.schema(self._fields))
        )
        packed = _packed(self._locations, self._sizes(), facts)
        title = self.title + (" with deletes" if facts.has_deletes else "")
        root = "lakescan:/" + self._scan.table.name
        java = java_class(self._spark)
        frame = java.relation(jsession, title, root, bytearray(packed), hidden, columns, _OPTIONS)
        return DataFrame(frame, self._spark)

    def _made_facts(self, deleted: list[BitMap64], values: Mapping[str, pa.Array]) -> HiddenFacts:  # type: ignore[override]
        return HiddenFacts(self._spark, deleted, values, needs_index=bool(self._reads & {POS.id, ROW_ID.id}))


class HiddenFacts:
    """The facts of files as hidden columns of their relation; as `FileFacts`."""

    def __init__(
        self, spark: SparkSession, deleted: list[BitMap64], values: Mapping[str, pa.Array], *, needs_index: bool = False
    ) -> None:
        self._spark, self._needs_index = spark, needs_index
        self.columns = {f"{_HIDDEN}{name}": array for name, array in values.items()}
        self.has_deletes = any(bool(each) for each in deleted)
        if self.has_deletes:
            self.columns[f"{_HIDDEN}{_DELETED}"] = pa.array([_bits(each) for each in deleted], pa.binary())

    @property
    def schema(self) -> s.StructType:
        """The hidden columns."""
        return s.StructType([s.StructField(name, _type(each.type)) for name, each in self.columns.items()])

    def __contains__(self, name: str) -> bool:
        return f"{_HIDDEN}{name}" in self.columns

    def value(self, name: str) -> Column:
        """A fact of the row's file."""
        return F.col(f"{_HIDDEN}{name}")

    def placed(self, frame: DataFrame, columns: list[Column]) -> DataFrame:
        """Select the columns and the facts, and the position of each row where it is needed; remove deleted rows."""
        hidden = [F.col(name) for name in self.columns]
        # Where only the relation has it, Spark makes all metadata columns for every row.
        index = [F.col("_metadata.row_index").alias(INDEX)] if self.has_deletes or self._needs_index else []
        rows = frame.select(*columns, *index, *hidden)
        return rows.where(self._is_live()) if self.has_deletes else rows

    def _is_live(self) -> Column:
        """Whether the bit at the row's position is not set; positions after the last bit are not deleted."""
        from pyspark.sql.classic.column import Column as ClassicColumn

        name = f"{_HIDDEN}{_DELETED}"
        context: Any = self._spark.sparkContext
        utils = context._jvm.org.apache.spark.sql.classic.ExpressionUtils
        place = F.expr(f"cast(shiftright({INDEX}, 5) as int) * 4")
        arguments = (utils.expression(each._jc) for each in (F.col(name), place))
        word: Any = ClassicColumn(utils.column(java_class(self._spark).integerAt(*arguments)))
        bit = F.call_function("shiftright", word, F.expr(f"cast({INDEX} & 31 as int)")).bitwiseAND(F.lit(1))
        return F.expr(f"{name} is null or shiftright({INDEX}, 3) >= octet_length({name})") | (bit == 0)


def title_of(scan: ScanSpec, plan: ScanPlan) -> str:
    """The table, the snapshot, and how many of its files are read, as `explain` and the UI show them."""
    metrics, words = plan.report.metrics, scan.table.words
    count = f"{len(plan.table):,}"
    if metrics.skipped_data_manifests:
        count += f" files, {metrics.skipped_data_manifests:,} {words.metadata_files} skipped"
    else:
        count += f" of {metrics.result_data_files + metrics.skipped_data_files:,} files"
    name = scan.name or shown(scan.table.location)
    return f"lakescan {scan.table.name} {name} {words.state} {scan.snapshot.id}: {count}"


def _bits(deleted: BitMap64) -> bytes | None:
    """Deleted positions as bits of 32-bit words, lowest bit first, whose bytes are in Java's order."""
    if not deleted:
        return None
    return np.concatenate(list(words_of(deleted))).view("<u4").astype(">u4").tobytes()


def _type(kind: pa.DataType) -> s.DataType:
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def _packed(paths: list[str], sizes: np.ndarray, facts: HiddenFacts) -> bytes:
    """The files and their facts as the class `Files` of `Lakescan.java` reads them."""
    parts = [
        np.array([len(paths)], "<i4").tobytes(),
        sizes.astype("<i8").tobytes(),
        _texts(pa.array(paths, pa.string())),
    ]
    for column in facts.columns.values():
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        parts.append(np.asarray(array.is_valid()).astype(np.uint8).tobytes())
        parts.append(_texts(array) if isinstance(_type(array.type), _VARIABLE) else _numbers(array))
    return b"".join(parts)


def _texts(array: pa.Array) -> bytes:
    """Binaries: where each ends, and all of them in one."""
    kind = pa.large_binary()
    plain = array.cast(pa.string()) if pa.types.is_decimal(array.type) else array
    whole = pc.fill_null(plain.cast(pa.large_string() if pa.types.is_string(plain.type) else kind).cast(kind), b"")
    ends = np.concatenate([[0], np.cumsum(pc.binary_length(whole).to_numpy())]).astype("<i8")
    return ends.tobytes() + b"".join(whole.to_pylist())


def _numbers(array: pa.Array) -> bytes:
    """Numbers, dates and times, as eight bytes each."""
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
