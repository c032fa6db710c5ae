"""Read the native files of a plan with Spark's own Parquet reader, and apply deletes and constants."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from lakescan.common import types as t
from lakescan.common.executors import LOCAL
from lakescan.common.metadata_columns import FILE, LAST_UPDATED, PARTITION_ID, POS, ROW_ID, SPEC_ID
from lakescan.errors import MissingFile, StorageError
from lakescan.expressions.predicate import TRUE
from lakescan.planning.delete_files import DeleteFile, DeleteKind, delete_files
from lakescan.planning.file_table import key_texts
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import ReadContext
from lakescan.reading.deletes.position_deletes import DeleteLoader
from lakescan.spark.executor import MIN_BYTES, SparkExecutor
from lakescan.spark.native.columns import FileColumns, members_of, select_member
from lakescan.spark.native.conditions import condition
from lakescan.spark.native.equality_deletes import EqualityDeleteKeys
from lakescan.spark.native.file_facts import INDEX, FileFacts
from lakescan.spark.native.lanes import LINEAGE, Lanes, columns_needed
from lakescan.spark.session import look_up_on_driver
from lakescan.spark.types import spark_type
from lakescan.storage.locations import split_location

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from lakescan.tables.scan_spec import ScanSpec

_SEQUENCE, _FILE, _FIRST, _WRITTEN, _SPEC = "sequence", "file", "first_row_id", "written", "spec"
_OF_FILES = {FILE.id, SPEC_ID.id, PARTITION_ID, *LINEAGE}  # metadata columns whose values come from the facts of files
# These override session settings: no file may be skipped, and no date or timestamp rebased to another calendar.
READ_OPTIONS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
_UNIQUE = "lakescanListing"  # an option without a meaning in Spark, which makes its relations differ
_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
# The characters that Java's URIs encode: ASCII that URIs exclude, and all control characters and kinds of spaces.
_NOT_IN_URIS = re.compile(
    r"[\x00-\x20\x7f\"#%<>?\[\\\]^`{|}\x80-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)


def native_frame(
    spark: SparkSession,
    scan: ScanSpec,
    plan: ScanPlan,
    lanes: Lanes,
    numbered: pa.Array | None = None,
    reader: Callable[..., NativeFrame] | None = None,
) -> DataFrame:
    """Return the rows of those files of a plan that use the native lane.

    With paths in `numbered` (an Arrow array), the column `_file` is an index in them. `reader` makes the frame of a
    group of files; by default `NativeFrame`, with which Spark gets their paths.
    """
    files = reader or NativeFrame
    plan, layout = scan.plan_of(plan, pa.array(lanes.native)), lanes.layout[lanes.native]
    context = scan.read_context(plan)
    keys = EqualityDeleteKeys(spark, plan, context)
    fields = columns_needed(scan, keys.compared_ids)
    own = FileColumns.match_columns(context.matching, scan.table.location)
    parts = []
    for mask, number, with_facts in _masks(plan, layout, fields, every=not _OF_FILES.isdisjoint(_read_columns(scan))):
        subset = scan.plan_of(plan, pa.array(mask))
        used = keys if with_facts else None
        columns, wanted = own, fields
        if number >= 0:
            found = lanes.layouts[number]
            columns = FileColumns(by_id=False, file_format=found.file_format)
            wanted = tuple(found.columns[f.id] for f in fields)
        parts.append(files(spark, scan, subset, context, used, wanted, columns, lanes.roots, numbered).rows())
    return reduce(lambda a, b: a.unionAll(b), parts)


def _masks(
    plan: ScanPlan, layout: np.ndarray, fields: tuple[t.Field, ...], *, every: bool
) -> Iterator[tuple[np.ndarray, int, bool]]:
    """Yield masks of files that are read in the same way, with their layout number, and whether they need facts.

    Files need facts if they have deletes, or constants (such as partition values) for columns that are read. Other
    files are read without the cost of facts, unless `every` file needs them. Files are read in the same way if the same
    columns are constants, and their columns are found in the same way (`layout`, see `Lanes`). Files with the most
    constants come first, as Spark looks for partition columns in the first part of a union.
    """
    read, specs = {f.id for f in fields}, plan.files["spec_id"].to_numpy()
    kinds: dict[frozenset[int], list[int]] = {}
    for spec in np.unique(specs).tolist():
        constants = frozenset(read & set(plan.table.constant_fields.get(spec, ())))
        kinds.setdefault(constants, []).append(spec)
    has_deletes = plan.table.references.counts > 0
    for constants in sorted(kinds, key=len, reverse=True):
        mask = np.isin(specs, kinds[constants])
        needs_facts = has_deletes | bool(constants) | every
        for number in np.unique(layout[mask]).tolist():
            alike = mask & (layout == number)
            for some, with_facts in ((alike & needs_facts, True), (alike & ~needs_facts, False)):
                if some.any():
                    yield some, number, with_facts


def _read_columns(scan: ScanSpec) -> dict[int, t.Field]:
    """Return the columns of a scan's output and filter, including metadata columns, by field id."""
    return {f.id: f for f in scan.read_context().columns_for(scan.filter).fields}


class NativeFrame:
    """Makes a data frame of a scan's output from native files.

    - `keys`: the plan's equality deletes; None if the files have neither deletes nor constants, and need no facts.
    - `fields`: the columns to read, found in files by `columns`.
    - `roots`: see `Lanes`. `numbered`: see `native_frame`.
    """

    def __init__(
        self,
        spark: SparkSession,
        scan: ScanSpec,
        plan: ScanPlan,
        context: ReadContext,
        keys: EqualityDeleteKeys | None,
        fields: tuple[t.Field, ...],
        columns: FileColumns,
        roots: Mapping[str, str],
        numbered: pa.Array | None,
    ) -> None:
        self._spark, self._scan, self._plan, self._context, self._keys = spark, scan, plan, context, keys
        self._numbered = numbered
        self._fields, self._columns = fields, columns
        self._reads = _read_columns(scan)
        self._locations = [
            _spark_path(context.storage.current_location(p), roots) for p in plan.files["path"].to_pylist()
        ]

    def rows(self) -> DataFrame:
        """Return a frame of the scan's output, without deleted rows and filtered by the residuals."""
        facts = None if self._keys is None else self._facts()
        frame = self._read(facts)
        if self._keys is None or facts is None:
            columns = {f.id: self._columns.value(f, self._columns.column(f)) for f in self._fields}
            return self._filtered_output(frame, {**columns, POS.id: self._position()})
        frame = facts.locate_rows(frame, [self._columns.column(f) for f in self._fields])
        columns = {f.id: self._column_value(f, facts) for f in self._fields} | {POS.id: F.col(INDEX)}
        if _FILE in facts:
            columns[FILE.id] = facts.value(_FILE)
        if _FIRST in facts:
            columns[ROW_ID.id] = F.coalesce(columns[ROW_ID.id], facts.value(_FIRST) + F.col(INDEX))
        if _WRITTEN in facts:
            columns[LAST_UPDATED.id] = F.coalesce(columns[LAST_UPDATED.id], facts.value(_WRITTEN))
        if _SPEC in facts:
            columns[SPEC_ID.id] = facts.value(_SPEC)
        if PARTITION_ID in self._reads:
            columns[PARTITION_ID] = self._partition(facts)
        for number, ids in enumerate(self._keys.keys):
            scope, sequence = facts.value(f"scope_{number}"), facts.value(_SEQUENCE)
            frame = self._keys.drop_deleted_rows(frame, ids, columns, scope, sequence)
        return self._filtered_output(frame, columns)

    def _filtered_output(self, frame: DataFrame, columns: dict[int, Column]) -> DataFrame:
        if any(residual != TRUE for residual in self._plan.residuals):
            fields = (*self._fields, *(f for i, f in self._reads.items() if i == PARTITION_ID))
            nested = {i: each for f in fields for i, each in members_of(f, columns[f.id])}
            frame = frame.where(condition(self._plan.filter, columns | nested))
        return frame.select(*(select_member(columns[each.path[0].id], each) for each in self._scan.selection.columns))

    def _partition(self, facts: FileFacts) -> Column:
        """Return a Spark column with the partition values of the row's file as a struct."""
        return F.struct(
            *(
                facts.value(f"partition_{each.id}").cast(spark_type(each.type)).alias(each.name)
                for each in self._partition_fields
            )
        )

    @property
    def _partition_fields(self) -> tuple[t.Field, ...]:
        kind = self._reads[PARTITION_ID].type if PARTITION_ID in self._reads else t.Struct()
        assert isinstance(kind, t.Struct)
        return kind.fields

    def _position(self) -> Column:
        """Return a Spark column with the position of each row in its file, for a frame without facts."""
        return F.col("_metadata.row_index")

    def _read(self, facts: FileFacts | None) -> DataFrame:
        """Return a frame of the columns of all files; raises `StorageError` if Spark would skip files."""
        del facts  # `locate_rows` joins them
        frame, listed = self._list_files()
        if listed == len(self._locations):
            return frame
        # Spark lists no files if it has cached rows of these files. A new option makes it another relation.
        frame, listed = self._list_files({_UNIQUE: uuid.uuid4().hex})
        if listed != len(self._locations):
            raise StorageError(
                f"Spark lists {listed:,} of the {len(self._locations):,} data files of {self._scan}, and would skip "
                "the others. Read with option('lane', 'arrow')."
            )
        return frame

    def _list_files(self, more: Mapping[str, str] = _NO_OPTIONS) -> tuple[DataFrame, int]:
        """Return the frame of the files, and the number of files that Spark lists.

        Columns are found by field id, else by name. `more` are further options of the reader. A Connect session lists
        nothing before `inputFiles` is called. Raises `MissingFile`.
        """
        reader = self._spark.read.schema(self._columns.schema(self._fields))
        for name, value in {**READ_OPTIONS, **more}.items():
            reader = reader.option(name, value)
        try:
            with look_up_on_driver(self._spark, self._locations):
                frame = reader.parquet(*self._locations)
                return frame, len(frame.inputFiles())
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                raise MissingFile(f"Spark cannot find a data file of the table: {error}") from error
            raise

    def _facts(self) -> FileFacts:
        assert self._keys is not None
        plan, files = self._plan, self._plan.files
        values: dict[str, pa.Array] = {}
        if self._keys.keys:
            values[_SEQUENCE] = files["sequence_number"].combine_chunks()
        for number, ids in enumerate(self._keys.keys):
            values[f"scope_{number}"] = self._keys.scopes(plan, ids)
        if FILE.id in self._reads:
            paths = files["path"].combine_chunks()
            values[_FILE] = paths if self._numbered is None else pc.index_in(paths, value_set=self._numbered)
        if ROW_ID.id in self._reads:
            values[_FIRST] = files["first_row_id"].combine_chunks()
        if LAST_UPDATED.id in self._reads:  # inherited only in files that have row ids
            sequence, has_ids = files["sequence_number"].combine_chunks(), pc.is_valid(files["first_row_id"])
            values[_WRITTEN] = pc.if_else(has_ids.combine_chunks(), sequence, pa.scalar(None, pa.int64()))
        if SPEC_ID.id in self._reads:
            values[_SPEC] = files["spec_id"].combine_chunks()
        if self._partition_fields:
            partition = files["partition"].combine_chunks()
            present = dict(zip((f.name for f in partition.type), partition.flatten(), strict=True))
            for each in self._partition_fields:
                value = present.get(each.name, pa.nulls(len(partition)))
                values[f"partition_{each.id}"] = _as_binary(value.cast(each.type.arrow()))
        constants = files["constants"].combine_chunks()
        for field in self._fields:
            specs = [spec for spec, ids in plan.table.constant_fields.items() if field.id in ids]
            if np.isin(
                files["spec_id"].to_numpy(), specs
            ).all():  # otherwise it is constant in none of the files; see `_masks`
                values[f"constant_{field.id}"] = _as_binary(pc.struct_field(constants, str(field.id)))
        return self._make_facts(self._load_deleted_rows(), values)

    def _make_facts(self, deleted: list[BitMap64], values: Mapping[str, pa.Array]) -> FileFacts:
        return FileFacts(self._spark, [_as_uri(path) for path in self._locations], self._sizes(), deleted, values)

    def _sizes(self) -> np.ndarray:
        """Return the current sizes of the files in bytes, since those in the metadata may be stale."""
        return self._context.storage.sizes(self._plan.files["path"].to_pylist())

    def _load_deleted_rows(self) -> list[BitMap64]:
        """Load position deletes and deletion vectors; return the deleted row positions of each file of the plan."""
        plan, paths = self._plan, self._plan.files["path"].to_pylist()
        executor = SparkExecutor(self._spark) if position_bytes(plan.deletes) >= MIN_BYTES else None
        loader = DeleteLoader(
            self._context.storage, paths, places=self._context.places, verify=self._context.verify, executor=executor
        )
        references = plan.table.references
        wanted, place = np.unique(references.number, return_inverse=True)
        rows = delete_files(plan.deletes.take(pa.array(wanted)))
        deletes: dict[int, list[DeleteFile]] = {}
        for file, delete in zip(references.file.tolist(), place.tolist(), strict=True):
            deletes.setdefault(file, []).append(rows[delete])
        others, counts = (plan.files[name].to_pylist() for name in ("same_place", "record_count"))

        def load_bitmap(n: int) -> BitMap64:
            return loader.selection(paths[n], deletes.get(n, ()), others[n], counts[n]).deleted

        return list(LOCAL.map(load_bitmap, range(len(paths))))

    def _column_value(self, field: t.Field, facts: FileFacts) -> Column:
        """Return a Spark column with a field's value: the file's constant if it has one, else the file's column."""
        column = self._columns.value(field, self._columns.column(field))
        if f"constant_{field.id}" not in facts:
            return column
        return facts.value(f"constant_{field.id}").cast(spark_type(field.type))


def _as_binary(values: pa.Array) -> pa.Array:
    """Convert an Arrow array of fixed-size binaries to binaries, as Spark has no fixed-size type; others unchanged."""
    return values.cast(pa.binary()) if pa.types.is_fixed_size_binary(values.type) else values


def _spark_path(location: str, roots: Mapping[str, str]) -> str:
    """Convert a location to Spark's form of a path: one slash after `file:`, or a root that `roots` replaces.

    Hadoop paths are not encoded, nor are keys of object stores: `%20` and `+` are literal characters.
    """
    scheme, _, path = split_location(location)
    if scheme == "file":
        return f"file:{path}"
    root = location[: len(location) - len(path)]
    return roots.get(root, root) + path


def _as_uri(path: str) -> str:
    """Convert a Spark path to the form of `_metadata.file_path`: percent-encoded as a URI."""
    return _NOT_IN_URIS.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), path)


def describe_deletes(plan: ScanPlan) -> list[str]:
    """Return the lines of `explain` for a plan's deletes on Spark.

    There is one line for position deletes and deletion vectors, and one for each set of equality delete columns; none
    without deletes.
    """
    equality = pc.equal(plan.deletes["kind"], DeleteKind.EQUALITY)
    by_key, by_position = plan.deletes.filter(equality), plan.deletes.filter(pc.invert(equality))
    lines = []
    if by_position.num_rows:
        count, size = pc.sum(by_position["record_count"]).as_py() or 0, position_bytes(plan.deletes)
        decoder = "Spark's workers" if size >= MIN_BYTES else "the driver"
        lines.append(f"  on Spark: {count:,} rows deleted by position, as bitmaps; {size:,} bytes decoded by {decoder}")
    paths = plan.table_schema.path_of
    keys = pa.table({"ids": key_texts(by_key), "count": by_key["record_count"]})
    for each in keys.group_by("ids").aggregate([("count", "sum")]).to_pylist():
        names = ", ".join(paths.get(int(i), i) for i in each["ids"].split(","))
        lines.append(f"  on Spark: {each['count_sum']:,} equality deletes on ({names}), applied as a join")
    return lines


def position_bytes(deletes: pa.Table) -> int:
    """Return the total bytes of position delete files.

    From `MIN_BYTES` on, Spark's workers decode them, else the driver.
    """
    sizes = pc.if_else(pc.equal(deletes["kind"], DeleteKind.POSITION), deletes["size"], 0)
    return int(pc.sum(sizes).as_py() or 0)
