"""Delta's metadata tables: `history` and `detail` (as DESCRIBE HISTORY and DETAIL), `files` and `partitions`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.references import backquote
from lakescan.common.schema import Schema
from lakescan.delta.log.log_text import Action, as_long
from lakescan.delta.log.replay import log_position
from lakescan.delta.log.time_travel import timestamp_or_none
from lakescan.delta.metadata.protocol import Metadata, Protocol, clustering_paths
from lakescan.delta.scan.partition_values import typed_values
from lakescan.delta.scan.statistics import FileStats
from lakescan.planning.file_table import struct_of

_TEXTS = t.MapOf(t.Field(101, "key", t.STRING, required=True), t.Field(102, "value", t.STRING))


def _columns(*columns: tuple[str, t.Type]) -> Schema:
    return Schema(tuple(t.Field(i, name, kind) for i, (name, kind) in enumerate(columns, 1)))


def _list(field_id: int) -> t.ListOf:
    return t.ListOf(t.Field(field_id, "element", t.STRING))


def _members(first_id: int, *names: str) -> t.Struct:
    return t.Struct(tuple(t.Field(i, name, t.STRING) for i, name in enumerate(names, first_id)))


_JOB = _members(106, "jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")
_NOTEBOOK = _members(112, "notebookId")
HISTORY = _columns(
    ("version", t.LONG),
    ("timestamp", t.Timestamp()),
    ("userId", t.STRING),
    ("userName", t.STRING),
    ("operation", t.STRING),
    ("operationParameters", _TEXTS),
    ("job", _JOB),
    ("notebook", _NOTEBOOK),
    ("clusterId", t.STRING),
    ("readVersion", t.LONG),
    ("isolationLevel", t.STRING),
    ("isBlindAppend", t.BOOLEAN),
    ("operationMetrics", _TEXTS),
    ("userMetadata", t.STRING),
    ("engineInfo", t.STRING),
)
_TEXT_COLUMNS = ("userId", "userName", "operation", "clusterId", "isolationLevel", "userMetadata", "engineInfo")
DETAIL = _columns(
    ("format", t.STRING),
    ("id", t.STRING),
    ("name", t.STRING),
    ("description", t.STRING),
    ("location", t.STRING),
    ("createdAt", t.Timestamp()),
    ("lastModified", t.Timestamp()),
    ("partitionColumns", _list(103)),
    ("clusteringColumns", _list(104)),
    ("numFiles", t.LONG),
    ("sizeInBytes", t.LONG),
    ("properties", _TEXTS),
    ("minReaderVersion", t.INT),
    ("minWriterVersion", t.INT),
    ("tableFeatures", _list(105)),
)


def history_row(version: int, at: datetime, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return a commit's row of `history` from its commitInfo; malformed fields become null."""
    return {
        "version": version,
        "timestamp": at,
        **{name: _as_text(info.get(name)) for name in _TEXT_COLUMNS},
        "operationParameters": _as_texts(info.get("operationParameters")),
        "job": _as_members(info.get("job"), _JOB),
        "notebook": _as_members(info.get("notebook"), _NOTEBOOK),
        "readVersion": as_long(info.get("readVersion")),
        "isBlindAppend": is_blind if isinstance(is_blind := info.get("isBlindAppend"), bool) else None,
        "operationMetrics": _as_texts(info.get("operationMetrics")),
    }


def _as_texts(node: Any) -> list[tuple[str, str | None]] | None:
    """Return a JSON object as map entries of text, or None for any other value."""
    return [(_as_text(key) or "", _as_text(value)) for key, value in node.items()] if isinstance(node, dict) else None


def _as_members(node: Any, struct: t.Struct) -> dict[str, str | None] | None:
    """Return a JSON object's values for the fields of a struct of texts, or None if it is not an object."""
    return {each.name: _as_text(node.get(each.name)) for each in struct.fields} if isinstance(node, dict) else None


def _as_text(value: Any) -> str | None:
    """Return text unchanged, other values as JSON, null as None.

    Lone surrogates, which UTF-8 cannot encode, are replaced.
    """
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode(errors="replace").decode()


def detail_row(
    location: str,
    modified: datetime | None,
    metadata: Metadata,
    protocol: Protocol,
    clustering: list[str],
    files: pa.Table,
) -> dict[str, Any]:
    """Return the row of `detail` for a version.

    `modified` is its commit time, `clustering` are references to its clustering columns, and `files` its live files.
    """
    return {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "location": location,
        "createdAt": timestamp_or_none(metadata.created_time),
        "lastModified": modified,
        "partitionColumns": list(metadata.partition_columns),
        "clusteringColumns": clustering,
        "numFiles": files.num_rows,
        "sizeInBytes": pc.sum(files["size"]).as_py() or 0,
        "properties": list(metadata.configuration.items()),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(protocol.features),
    }


def clustering_columns(domain: Action | None, schema: Schema) -> list[str]:
    """Return references to the clustering columns, whose domain metadata has physical names; raises `CorruptMetadata`.

    As in Delta on Spark, a name that is not a plain word is quoted with backticks.
    """
    paths = [_logical(path, schema.fields) for path in clustering_paths(domain)]
    return [
        ".".join(name if name.isascii() and name.isidentifier() else backquote(name) for name in path) for path in paths
    ]


def _logical(path: Sequence[str], fields: Sequence[t.Field]) -> list[str]:
    """Translate a path of physical names into logical ones; from the first unknown name, it stays physical."""
    if not path:
        return []
    field = next((f for f in fields if f.physical_name == path[0]), None)
    if field is None:
        return list(path)
    return [field.name, *_logical(path[1:], t.children(field.type))]


@dataclass(frozen=True)
class FilesTable:
    """The metadata table `files`: one row per live file of a version, with the statistics as written (JSON text).

    `actions` are the live files as add actions.
    """

    actions: pa.Table
    partition_fields: tuple[t.Field, ...]

    @property
    def schema(self) -> Schema:
        """The columns; `partition` only for partitioned tables."""
        partition = t.Struct(tuple(t.Field(i, f.name, f.type) for i, f in enumerate(self.partition_fields, 201)))
        return _columns(
            ("file_path", t.STRING),
            *([("partition", partition)] if self.partition_fields else []),
            ("size_in_bytes", t.LONG),
            ("modification_time", t.Timestamp()),
            ("deleted_record_count", t.LONG),
            ("base_row_id", t.LONG),
            ("default_row_commit_version", t.LONG),
            ("stats", t.STRING),
        )

    def parts(self) -> Sequence[Any]:
        """Return a single part, since the log has already been read."""
        return (None,)

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Yield one row per live file; raises `CorruptMetadata` for an invalid partition value."""
        for batch in self.actions.combine_chunks().to_batches():
            rows = batch.num_rows
            modified = batch["modification_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
            texts = batch["partition"]
            where = partial(log_position, batch)
            values = {f.name: typed_values(texts.field(i), f, where) for i, f in enumerate(self.partition_fields)}
            columns = [
                batch["path"],
                *([struct_of(values, rows)] if values else []),
                batch["size"],
                modified,
                pc.fill_null(batch["vector"].field("cardinality"), 0),
                batch["base_row_id"],
                batch["row_commit_version"],
                batch["stats"],
            ]
            arrow = self.schema.arrow()
            kinds = [f.type for f in arrow]
            cast = [c.cast(kind) if c.type != kind else c for c, kind in zip(columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(cast, schema=arrow)


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
    """The metadata table `partitions`: one row per partition with files; one row for an unpartitioned table with files.

    `actions` are the live files of a version as add actions.
    """

    actions: pa.Table
    partition_fields: tuple[t.Field, ...]

    @property
    def schema(self) -> Schema:
        """The partition (for partitioned tables), then its counts."""
        values = t.Struct(tuple(t.Field(i, f.name, f.type) for i, f in enumerate(self.partition_fields, 101)))
        partition = (t.Field(1, "partition", values, required=True),) if self.partition_fields else ()
        return Schema((*partition, *_COUNTS))

    def parts(self) -> Sequence[Any]:
        """Return a single part, since the log has already been read."""
        return (None,)

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """Yield the partitions, in order of the first appearance of their files."""
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
        """Return the partition values (columns `keys`), record count, bytes and deleted rows of each file."""
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
