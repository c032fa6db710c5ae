"""Present a scan as a Polars lazy frame: columns and filters of the query are pushed into the scan.

Polars passes its filter as an expression. Tests for null, and comparisons of a column with a literal of exactly the
column's type, are pushed down. With other types Polars may round one side, and rows could be lost. Polars itself also
applies the whole filter to every batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import empty_table
from lakescan.common.selection import Selection
from lakescan.errors import LakescanError
from lakescan.expressions.predicate import TRUE, Comparison, IsNull, Predicate
from lakescan.local.reader import default_readers, read_batches, scan_batches
from lakescan.planning.file_table import FileTable
from lakescan.planning.plan import ScanPlan
from lakescan.reading.context import WHOLE_TABLE_BATCH_SIZE, ReadContext
from lakescan.reading.parquet.polars_frames import FrameFile, collect_frame, frame_file, has_simple_columns
from lakescan.reading.record_batches import batch_of
from lakescan.tables.scan_spec import ScanSpec

if TYPE_CHECKING:
    import polars

_OPS = {"Eq": "=", "Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<="}
_EPOCH = datetime(1970, 1, 1)
_BYTES, _FILES = 1 << 28, 256  # maximum bytes and number of files that are read together


def lazy_frame(spec: ScanSpec) -> polars.LazyFrame:
    """Return the rows of a scan as a Polars lazy frame, which reads when it is collected."""
    from polars.io.plugins import register_io_source

    empty = _empty(spec)

    def frames(
        columns: list[str] | None, predicate: polars.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[polars.DataFrame]:
        chosen = spec if columns is None else spec.narrow_columns(columns)
        if rows is not None:
            chosen = chosen.limit(rows)
        refined = chosen
        if predicate is not None and chosen.max_rows is None:  # the filter applies after any limit
            refined = _push_filter(refined, predicate, empty.schema, spec.selection)
        yield from frames_of(chosen, predicate, refined)

    return register_io_source(frames, schema=empty.schema)


def whole_frame(spec: ScanSpec) -> polars.DataFrame:
    """Read the rows of a scan into a Polars data frame."""
    import polars as pl

    if not spec.output.fields:  # `concat` would drop the rows of frames without columns
        batch = batch_of([], pa.schema([]), sum(batch.num_rows for batch in scan_batches(spec, WHOLE_TABLE_BATCH_SIZE)))
        return _frame(batch)
    return pl.concat([_empty(spec), *frames_of(spec)])


def _empty(spec: ScanSpec) -> polars.DataFrame:
    import polars as pl

    empty = pl.from_arrow(empty_table(spec.output.arrow()))
    assert isinstance(empty, pl.DataFrame)
    return empty


def frames_of(
    spec: ScanSpec, predicate: polars.Expr | None = None, pruned: ScanSpec | None = None
) -> Iterator[polars.DataFrame]:
    """Yield the rows of a scan for which `predicate` is true as Polars data frames, while the rest is planned.

    `pruned` is the scan with the conjuncts of the predicate that planning supports; None for the scan itself.
    """
    if not _may_read_files(spec):
        for batch in scan_batches(pruned or spec, WHOLE_TABLE_BATCH_SIZE, keeps_dictionaries=True):
            yield _filter_frame(_frame(batch), predicate)
        return
    for plan in (pruned or spec).prune_deletes().plan_parts(default_readers()):
        yield from _frames_of_plan(spec, pruned or spec, plan, predicate)


def _may_read_files(spec: ScanSpec) -> bool:
    """Return whether Polars may read the files of a scan itself.

    The scan must return all rows of plain columns, without filter, limit or encryption.
    """
    is_whole = spec.condition == TRUE and spec.max_rows is None and not spec.reads_deleted_rows
    is_plain = spec.selection.is_plain and spec.options.lane != "arrow" and spec.storage.key_manager is None
    return is_whole and is_plain and has_simple_columns(spec.output)


def _frames_of_plan(
    spec: ScanSpec, pruned: ScanSpec, plan: ScanPlan, predicate: polars.Expr | None
) -> Iterator[polars.DataFrame]:
    """Yield the rows of a plan as Polars data frames, in plan order.

    Polars reads runs of files that it may read itself, and lakescan the others by the scan `pruned`.
    """
    files, context = plan.files, spec.read_context()
    simple = pc.and_(pc.equal(files["file_format"], "parquet"), pc.is_null(files["key_metadata"]))
    simple = pc.and_(simple, pa.array(plan.table.references.counts == 0)).to_numpy(zero_copy_only=False)
    bounds = _bounds(simple, pc.fill_null(files["size"], 0).to_numpy())
    for start, stop in pairwise(bounds):
        some = plan.table.take(pa.array(range(start, stop)))
        frames: Iterable[polars.DataFrame] | None = None
        if simple[start]:
            frames = _read_with_polars(context, some, predicate)
        if frames is None:
            part = pruned.plan_table(some, parallelism=default_readers())
            read = pruned.read_context(part, batch_size=WHOLE_TABLE_BATCH_SIZE, keeps_dictionaries=True)
            frames = (_filter_frame(_frame(batch), predicate) for batch in read_batches([(part, read)]))
        yield from frames


def _bounds(simple: np.ndarray, sizes: np.ndarray) -> list[int]:
    """Return the number of the first file of each run of files that are read together, and the end of the last run.

    `simple` is a mask of the files that Polars may read itself; `sizes` has the bytes of all files.
    """
    if not len(simple):
        return [0]
    part = np.cumsum(sizes) // _BYTES + np.arange(len(simple)) // _FILES
    starts = np.flatnonzero((np.diff(simple) != 0) | ((np.diff(part) != 0) & simple[1:])) + 1
    return [0, *starts.tolist(), len(simple)]


def _read_with_polars(
    context: ReadContext, table: FileTable, predicate: polars.Expr | None
) -> list[polars.DataFrame] | None:
    """Read files with Polars, filtered by `predicate`; return None if Polars might not read one of them exactly."""
    constants, known = table.files["constants"].combine_chunks(), table.constant_fields
    found: list[FrameFile] = []
    for row, (path, spec_id, count) in enumerate(
        zip(*(table.files[name].to_pylist() for name in ("path", "spec_id", "record_count")), strict=True)
    ):
        file = frame_file(context, path, {i: constants.field(str(i))[row] for i in known[spec_id]}, count)
        if file is None:
            return None
        found.append(file)
    frames = []
    starts = [0, *(n for n, (one, other) in enumerate(pairwise(found), 1) if not other.is_like(one)), len(found)]
    for start, stop in pairwise(starts):
        frame = collect_frame(found[start:stop], context.output, predicate)
        if frame is None:
            return None
        frames.append(frame)
    return frames


def _filter_frame(frame: polars.DataFrame, predicate: polars.Expr | None) -> polars.DataFrame:
    return frame if predicate is None else frame.filter(predicate)


def _frame(batch: pa.RecordBatch) -> polars.DataFrame:
    """Convert an Arrow batch to a Polars data frame."""
    import polars as pl

    columns = {
        name: _texts(column) if isinstance(column, pa.DictionaryArray) else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    frame = pl.DataFrame(columns) if columns else pl.from_arrow(pa.Table.from_batches([batch]))
    assert isinstance(frame, pl.DataFrame)
    return frame


def _texts(column: pa.DictionaryArray) -> polars.Series:
    """Convert a dictionary array to a Polars series of its values; rows share the memory of long strings."""
    import polars as pl

    return pl.Series(column.dictionary).gather(pl.Series(column.indices))


def _push_filter(spec: ScanSpec, predicate: polars.Expr, schema: polars.Schema, output: Selection) -> ScanSpec:
    """Return the scan with those conjuncts of a Polars filter on its `output` that have the same meaning in lakescan.

    `schema` is the Polars schema of the output. A filter that cannot be serialized is not pushed.
    """
    from polars.exceptions import PolarsError

    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (PolarsError, ValueError):  # for example with Python functions, which cannot be serialized
        return spec
    for conjunct in _conjuncts(tree, schema, output):
        refined = spec.where(conjunct)
        try:
            refined.filter  # noqa: B018  binds the filter; Polars compares the types that lakescan refuses
        except LakescanError:
            continue
        spec = refined
    return spec


def _conjuncts(node: Any, schema: polars.Schema, output: Selection) -> Iterator[Predicate]:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
            yield from _conjuncts(left, schema, output)
            yield from _conjuncts(right, schema, output)
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": {"Literal": literal}}}:
            value = _value(literal, schema[name])
            if op in _OPS and value is not None:
                yield Comparison(output.columns_by_name[name].reference, op=_OPS[op], value=value)
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNull"}}}:
            yield IsNull(output.columns_by_name[name].reference)
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNotNull"}}}:
            yield ~IsNull(output.columns_by_name[name].reference)


def _value(literal: Any, kind: polars.DataType) -> Any:
    """Convert a literal of a serialized Polars expression to a Python value; None unless it has the type `kind`."""
    import polars as pl

    match literal:
        case {"Dyn": {"Int": int(value)}} | {"Scalar": {"Int64": int(value)}} | {"Scalar": {"Int32": int(value)}}:
            return value if kind.is_integer() else None
        case {"Dyn": {"Float": float(value)}} | {"Scalar": {"Float64": float(value)}}:
            return value if kind == pl.Float64() else None
        case {"Scalar": {"String": str(value)}}:
            return value if kind == pl.String() else None
        case {"Scalar": {"Date": int(days)}} if abs(days) < 700_000:
            return date(1970, 1, 1) + timedelta(days=days) if kind == pl.Date() else None
        case {"Scalar": {"Datetime": [int(count), "Microseconds", None | "UTC" as zone]}} if abs(count) < 6 * 10**16:
            time = _EPOCH + timedelta(microseconds=count)
            return (time if zone is None else time.replace(tzinfo=UTC)) if kind == pl.Datetime("us", zone) else None
    return None
