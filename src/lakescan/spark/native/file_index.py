"""Native files as one Spark relation that gets its files from lakescan without listing them; see `Lakescan.java`.

The facts of each file (deleted rows, constants) are values of hidden partition columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import functions as F
from pyspark.sql import types as s

from lakescan import limits
from lakescan.common import types as t
from lakescan.common.metadata_columns import FILE, POS, RESERVED_IDS, ROW_ID, SPEC_ID
from lakescan.expressions.predicate import TRUE
from lakescan.planning.plan import ScanPlan
from lakescan.planning.split import TARGET_SIZE
from lakescan.reading.deletes.deletion_vectors import words_of
from lakescan.spark.native.file_facts import INDEX
from lakescan.spark.native.lanes import MOST_DIGITS
from lakescan.spark.native.native_frame import READ_OPTIONS, NativeFrame
from lakescan.spark.native.packed_files import java_class, pack_files, value_type
from lakescan.spark.session_lane import FIELD_IDS, NULL_STRUCTS
from lakescan.spark.types import spark_type
from lakescan.storage.errors import redact

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakescan.tables.scan_spec import ScanSpec

_HIDDEN = "__lakescan_fact_"
_DELETED = "deleted"
_FEW = 64  # least maximum number of splits of a file
# Spark's row-based reader uses the session's setting of field ids, the vectorized reader that of the relation.
_OPTIONS = {**READ_OPTIONS, FIELD_IDS: "true", NULL_STRUCTS: "false", "orc.force.positional.evolution": "false"}
# `DataType.defaultSize` of types with another size than eight bytes.
_SIZES = {
    "boolean": 1,
    "byte": 1,
    "short": 2,
    "int": 4,
    "float": 4,
    "date": 4,
    "string": 20,
    "uuid": 20,
    "binary": 100,
    "variant": 2048,
    "unknown": 1,
}


class RelationFiles(NativeFrame):
    """The frame of native files whose names, sizes and facts lakescan passes to Spark, which does not look them up.

    `title` is the text that `explain` shows for them. `compares_micros`: see `FileColumns`.
    """

    def __init__(self, *arguments: Any, title: str, compares_micros: bool) -> None:
        super().__init__(*arguments)
        self.title = title
        self._columns = replace(self._columns, compares_micros=compares_micros)

    def rows(self) -> DataFrame:
        """Return a frame of the scan's output."""
        facts = None if self._keys is None else self._facts()
        assert facts is None or isinstance(facts, HiddenFacts)
        if (outputs := self._outputs(facts)) is not None:
            return self._frame(facts, outputs)
        return super().rows()

    def _outputs(self, facts: HiddenFacts | None) -> list[tuple[str, str, bool]] | None:
        """Return the output columns for `Lakescan.frame`: for each its name, its source column, and if it is protected.

        None if the output needs a conversion, a struct member, a residual filter or equality deletes, which need a
        projection or a join in Spark.
        """
        if (self._keys is not None and self._keys.keys) or any(each != TRUE for each in self._plan.residuals):
            return None
        found, read = [], {field.id: field for field in self._fields}
        for each in self._scan.selection.columns:
            field = read.get(each.path[0].id, each.path[0])
            if field.id == POS.id:
                source, is_protected = INDEX, False
            elif facts is not None and field.id == FILE.id and self._numbered is not None:
                source, is_protected = facts.number_of_file, False
            elif facts is not None and (name := facts.name_of(field)) is not None:
                source, is_protected = name, False
            elif field.id in RESERVED_IDS or not self._columns.is_as_read(field.type):
                return None
            else:
                source, is_protected = self._columns.name(field), self._columns.is_protected(field.type)
            if len(each.path) > 1:
                return None
            found.append((each.name, source, is_protected))
        return found

    def _position(self) -> Column:
        return F.col(INDEX)

    def _read(self, facts: HiddenFacts | None) -> DataFrame:  # type: ignore[override]
        return self._frame(facts, None)

    def _frame(self, facts: HiddenFacts | None, outputs: list[tuple[str, str, bool]] | None) -> DataFrame:
        from pyspark.sql.classic.dataframe import DataFrame

        needs_index = not self._reads.keys().isdisjoint({POS.id, ROW_ID.id}) or (
            facts is not None and facts.has_deletes
        )
        facts = facts or HiddenFacts([BitMap64()] * len(self._locations), {})
        session: Any = self._spark
        frame = java_class(session).frame(
            session._jsparkSession,
            self.title + (" with deletes" if facts.has_deletes else ""),
            self._columns.file_format,
            "lakescan:/" + self._scan.table.name,
            bytearray(pack_files(self._locations, self._sizes(), facts.columns)),
            facts.schema.json(),
            self._columns.schema(self._fields).json(),
            json.dumps(_OPTIONS),
            INDEX if needs_index else None,
            f"{_HIDDEN}{_DELETED}" if facts.has_deletes else None,
            None if outputs is None else json.dumps(outputs),
            sum(_default_size(each.type) for each in self._scan.snapshot.schema.fields),
        )
        return DataFrame(frame, self._spark)

    def _sizes(self) -> np.ndarray:
        """Return a size in bytes for each file, for Spark to split files: see `Scans` in `Lakescan.java`.

        It is the recorded size, limited so that a file has at most as many splits as rows, as in `split_files`.
        """
        sizes = pc.fill_null(self._plan.files["size"], 0).to_numpy()
        rows = pc.fill_null(self._plan.files["record_count"], -1).to_numpy()
        most = limits.FILE_SIZE // TARGET_SIZE
        splits = np.where(rows < 0, most, np.clip(rows, _FEW, most))
        found: np.ndarray = np.clip(sizes, 1, splits * TARGET_SIZE)
        return found

    def _make_facts(self, deleted: list[BitMap64], values: Mapping[str, pa.Array]) -> HiddenFacts:  # type: ignore[override]
        return HiddenFacts(deleted, values)


class HiddenFacts:
    """The facts of files as hidden columns of their relation, which removes deleted rows itself.

    It has the methods of `FileFacts`: `deleted` has the deleted row positions of each file, `values` the facts by name.
    """

    def __init__(self, deleted: list[BitMap64], values: Mapping[str, pa.Array]) -> None:
        self.columns = {f"{_HIDDEN}{name}": array for name, array in values.items()}
        self.has_deletes = any(bool(each) for each in deleted)
        if self.has_deletes:
            self.columns[f"{_HIDDEN}{_DELETED}"] = pa.array([_bits(each) for each in deleted], pa.binary())

    @property
    def schema(self) -> s.StructType:
        """The Spark schema of the hidden columns."""
        return s.StructType([s.StructField(name, value_type(each.type)) for name, each in self.columns.items()])

    def __contains__(self, name: str) -> bool:
        return f"{_HIDDEN}{name}" in self.columns

    @property
    def number_of_file(self) -> str:
        """The name of the hidden column with the number of each file, which exists if files are numbered."""
        return f"{_HIDDEN}file"

    def name_of(self, field: t.Field) -> str | None:
        """Return the name of the hidden column with a field's value for each file.

        None if the files contain the field, or if the value has another Spark type than the field.
        """
        name = {FILE.id: "file", SPEC_ID.id: "spec"}.get(field.id, f"constant_{field.id}")
        if name not in self:
            return None
        column = f"{_HIDDEN}{name}"
        return column if value_type(self.columns[column].type) == spark_type(field.type) else None

    def value(self, name: str) -> Column:
        """Return the hidden column with a fact of the row's file."""
        return F.col(f"{_HIDDEN}{name}")

    def locate_rows(self, frame: DataFrame, columns: list[Column]) -> DataFrame:
        """Return the frame unchanged: its relation already has the columns, the facts, and needed row positions."""
        del columns
        return frame


def title_of(scan: ScanSpec, plan: ScanPlan) -> str:
    """Return text for `explain` and Spark's UI: format, table, snapshot, and how many of its files are read."""
    metrics = plan.report.metrics
    count = f"{len(plan.table):,}"
    if metrics.skipped_data_manifests:
        count += f" files, {metrics.skipped_data_manifests:,} {scan.table.words.metadata_files} skipped"
    else:
        count += f" of {metrics.result_data_files + metrics.skipped_data_files:,} files"
    return f"{title_of_table(scan)}: {count}"


def title_of_table(scan: ScanSpec) -> str:
    """Return text for `explain` and Spark's UI: format, table, and snapshot or version."""
    name = scan.name or redact(scan.table.location)
    return f"lakescan {scan.table.name} {name} {scan.table.words.state} {scan.snapshot.id}"


def _default_size(kind: t.Type) -> int:
    """Return the bytes that Spark counts for a value of a type when it estimates sizes (`DataType.defaultSize`)."""
    if isinstance(kind, t.Struct | t.ListOf | t.MapOf):
        return sum(_default_size(each.type) for each in t.children(kind))
    if isinstance(kind, t.Decimal):
        return 8 if kind.precision <= MOST_DIGITS else 16
    if isinstance(kind, t.Fixed | t.Geospatial):
        return _SIZES["binary"]
    return _SIZES.get(kind.name, 8) if isinstance(kind, t.Atomic) else 8


def _bits(deleted: BitMap64) -> bytes | None:
    """Return deleted positions as the bytes of a bitmap in 32-bit big-endian words, lowest bit first; None if empty."""
    if not deleted:
        return None
    return np.concatenate(list(words_of(deleted))).view("<u4").astype(">u4").tobytes()
