"""Shuffling rows by partition before tasks write them: otherwise each task writes a file for each partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from lakescan.common.references import backquote
from lakescan.spark.writing.row_widths import row_width
from lakescan.statements.rows.select import ACTION_AT, FILE_AT, ChangeQuery
from lakescan.statements.rows.statements import MergeAction
from lakescan.writing.clustering import partition_codes
from lakescan.writing.table_writes import TableWrites

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CODE = "__lakescan_partition"
_SHORT = 256  # bytes


def cluster_rows(frame: DataFrame, writes: TableWrites) -> DataFrame:
    """New rows, shuffled by their partition if the table asks for it."""
    if not writes.is_clustered:
        return frame
    by_name = {name.lower(): column for name, column in zip(frame.columns, _short_values(frame), strict=True)}
    sources = {name: by_name[name.lower()] for name in writes.partition_sources if name.lower() in by_name}
    if not sources:
        return frame
    return _rebalance(frame, _partition_code(writes, sources))


def cluster_changes(frame: DataFrame, query: ChangeQuery, writes: TableWrites) -> DataFrame:
    """The rows of a statement's query, new and changed ones shuffled by their partition if the table asks for it."""
    if not writes.is_clustered:
        return frame
    writing = {n: each for n, each in query.actions.items() if each.action != MergeAction.DELETE}
    columns, short = [F.col(backquote(name)) for name in frame.columns], _short_values(frame)
    sources = {}
    for name in writes.partition_sources:
        values = [(n, short[each.values[name]]) for n, each in writing.items() if name in each.values]
        if values:
            sources[name] = F.coalesce(*(F.when(columns[ACTION_AT] == n, value) for n, value in values))
    if not sources:
        return frame
    # Rows that are only deleted are written nowhere: they are spread by their files.
    is_written = columns[ACTION_AT].isin(*writing)
    return _rebalance(
        frame, F.when(is_written, _partition_code(writes, sources)).otherwise(F.xxhash64(columns[FILE_AT]))
    )


def _short_values(frame: DataFrame) -> list[Column]:
    """The columns; long values are null. All batches of keys are small so, and rows of these values share one task."""
    found = []
    for field in frame.schema.fields:
        name = backquote(field.name)
        width = row_width([field.dataType], [name])
        is_short = F.expr(f"{' + '.join(width.variable)} <= {_SHORT}") if width is not None and width.variable else None
        found.append(F.col(name) if is_short is None else F.when(is_short, F.col(name)))
    return found


def _partition_code(writes: TableWrites, sources: Mapping[str, Column]) -> Column:
    """A number for each row, equal within a partition."""
    names = list(sources)

    def lakescan_code(*columns: pa.Array) -> pa.Array:
        return partition_codes(writes, dict(zip(names, columns, strict=True)))

    return F.arrow_udf(lakescan_code, "long")(*sources.values())


def _rebalance(frame: DataFrame, code: Column) -> DataFrame:
    """The rows, shuffled by a number: Spark merges small shuffle partitions and splits large ones."""
    return frame.withColumn(_CODE, code).hint("rebalance", _CODE).drop(_CODE)
