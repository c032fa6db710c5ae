"""Delta's metadata table `partitions`: the files, rows and bytes of each partition, by the names of Iceberg's table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.schema import Schema
from lakescan.delta.log.replay import log_position
from lakescan.delta.scan.partition_values import typed_values
from lakescan.delta.scan.statistics import FileStats
from lakescan.planning.file_table import struct_of

_COUNTS = (
    t.Field(2, "record_count", t.LONG, doc="Records in data files; null if a file has no statistics"),
    t.Field(3, "file_count", t.LONG, required=True, doc="Data files"),
    t.Field(4, "total_data_file_size_in_bytes", t.LONG, required=True, doc="Bytes of data files"),
    t.Field(5, "position_delete_record_count", t.LONG, required=True, doc="Rows that deletion vectors delete"),
    t.Field(6, "position_delete_file_count", t.LONG, required=True, doc="Data files with a deletion vector"),
)
_ANY_NULL = pc.ScalarAggregateOptions(skip_nulls=False)


@dataclass(frozen=True)
class DeltaPartitionsTable:
    """One row per partition of a version; a single row for an unpartitioned table with files."""

    actions: pa.Table
    partition_fields: tuple[t.Field, ...]

    @property
    def schema(self) -> Schema:
        """The partition (for partitioned tables), then its counts."""
        values = t.Struct(tuple(t.Field(i, f.name, f.type) for i, f in enumerate(self.partition_fields, 101)))
        partition = (t.Field(1, "partition", values, required=True),) if self.partition_fields else ()
        return Schema((*partition, *_COUNTS))

    def parts(self) -> Sequence[Any]:
        """A single part: the log has already been read."""
        return (None,)

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """The partitions, in order of the first appearance of their files."""
        if not self.actions.num_rows:
            return
        keys = [f"key {i}" for i in range(len(self.partition_fields))]
        grouped = self._files(keys).group_by(keys, use_threads=False)
        found = grouped.aggregate(
            [
                ("records", "sum", _ANY_NULL),
                ("size", "count", pc.CountOptions("all")),
                ("size", "sum"),
                ("deleted", "sum"),
                ("has_vector", "sum"),
            ]
        ).combine_chunks()
        arrow, rows = self.schema.arrow(), found.num_rows
        values = {f.name: _one(found[key]) for key, f in zip(keys, self.partition_fields, strict=True)}
        counts = [_one(found[name]) for name in _AGGREGATED]
        columns = [*([struct_of(values, rows)] if keys else []), *counts]
        cast = [column.cast(field.type) for column, field in zip(columns, arrow, strict=True)]
        yield pa.RecordBatch.from_arrays(cast, schema=arrow)

    def _files(self, keys: list[str]) -> pa.Table:
        """The partition values, records, bytes and deletes of each file."""
        actions = self.actions
        texts, where = actions["partition"].combine_chunks(), partial(log_position, actions)
        values = [typed_values(texts.field(i), f, where) for i, f in enumerate(self.partition_fields)]
        vectors = actions["vector"].combine_chunks()
        parsed = actions["stats_parsed"].combine_chunks() if "stats_parsed" in actions.column_names else None
        parsed = parsed if parsed is not None and pa.types.is_struct(parsed.type) else None
        return pa.table(
            {
                **dict(zip(keys, values, strict=True)),
                "records": FileStats(actions["stats"], parsed, Schema(()), ()).record_counts(),
                "size": actions["size"],
                "deleted": pc.fill_null(vectors.field("cardinality"), 0),
                "has_vector": pc.is_valid(vectors.field("storageType")).cast(pa.int64()),
            }
        )


_AGGREGATED = ("records_sum", "size_count", "size_sum", "deleted_sum", "has_vector_sum")


def _one(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
