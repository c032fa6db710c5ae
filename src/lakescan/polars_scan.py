"""A scan as a Polars lazy frame: the columns and filters of the query are pushed into the scan.

Polars passes its filter as an expression. Tests for null, and comparisons of a column with a literal of exactly the
column's type, are pushed down: with other types, Polars may round one side, and rows could be lost. The rest of the
filter is Polars' own, which runs on every batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakescan.common.selection import Selection
from lakescan.errors import LakescanError
from lakescan.expressions.predicate import Comparison, IsNull, Predicate
from lakescan.in_process import batches
from lakescan.reading.context import WHOLE_TABLE_BATCH_SIZE
from lakescan.scan_spec import ScanSpec

if TYPE_CHECKING:
    import polars

_OPS = {"Eq": "=", "Gt": ">", "GtEq": ">=", "Lt": "<", "LtEq": "<="}
_EPOCH = datetime(1970, 1, 1)


def lazy_frame(spec: ScanSpec) -> polars.LazyFrame:
    """The rows of a scan as a lazy frame; nothing is read before it is collected."""
    from polars.io.plugins import register_io_source

    empty = _empty(spec)

    def frames(
        columns: list[str] | None, predicate: polars.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[polars.DataFrame]:
        refined = spec if columns is None else spec.narrowed(columns)
        if predicate is not None and spec.max_rows is None:  # the filter of the query comes after the scan's limit
            refined = _filtered(refined, predicate, empty.schema, spec.selection)
        if predicate is None and rows is not None:
            refined = refined.limit(rows)
        left = rows
        for frame in frames_of(refined):
            frame = frame if predicate is None else frame.filter(predicate)
            if left is not None:
                frame, left = frame.head(left), max(left - frame.height, 0)
            yield frame
            if left == 0:
                return

    return register_io_source(frames, schema=empty.schema)


def whole_frame(spec: ScanSpec) -> polars.DataFrame:
    """The rows of a scan as a data frame."""
    import polars as pl

    return pl.concat([_empty(spec), *frames_of(spec)])


def _empty(spec: ScanSpec) -> polars.DataFrame:
    import polars as pl

    empty = pl.from_arrow(spec.output.arrow().empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty


def frames_of(spec: ScanSpec) -> Iterator[polars.DataFrame]:
    """The rows of a scan as data frames, read while the rest is planned."""
    import polars as pl

    for batch in batches(spec, WHOLE_TABLE_BATCH_SIZE, keeps_dictionaries=True):
        columns = {
            name: _texts(column) if isinstance(column, pa.DictionaryArray) else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        frame = pl.from_arrow(batch) if not columns else pl.DataFrame(columns)
        assert isinstance(frame, pl.DataFrame)
        yield frame


def _texts(column: pa.DictionaryArray) -> polars.Series:
    """The values of a dictionary array: Polars shares the long ones among rows."""
    import polars as pl

    return pl.Series(column.dictionary).gather(pl.Series(column.indices))


def _filtered(spec: ScanSpec, predicate: polars.Expr, schema: polars.Schema, output: Selection) -> ScanSpec:
    """The scan with those conjuncts of a filter of its output that mean the same in it."""
    from polars.exceptions import PolarsError

    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (PolarsError, ValueError):  # Python functions, for one, are not text
        return spec
    for conjunct in _conjuncts(tree, schema, output):
        refined = spec.where(conjunct)
        try:
            refined.filter  # noqa: B018  bound here: types that do not compare are left to Polars
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
                yield Comparison(output.by_name[name].reference, op=_OPS[op], value=value)
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNull"}}}:
            yield IsNull(output.by_name[name].reference)
        case {"Function": {"input": [{"Column": str(name)}], "function": {"Boolean": "IsNotNull"}}}:
            yield ~IsNull(output.by_name[name].reference)


def _value(literal: Any, kind: polars.DataType) -> Any:
    """A literal as Python has it; None unless it is of the column's type."""
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
