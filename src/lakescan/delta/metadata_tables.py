"""Delta's metadata tables: `history` and `detail`, as `DESCRIBE` of those names has them, and `files`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan import types as t
from lakescan.delta.partition_values import typed_values
from lakescan.delta.protocol import Metadata, Protocol
from lakescan.moments import from_millis
from lakescan.planning.file_table import struct_of
from lakescan.schema import Schema

_TEXTS = t.MapOf(t.Field(101, "key", t.STRING, required=True), t.Field(102, "value", t.STRING))


def _columns(*columns: tuple[str, t.Type]) -> Schema:
    return Schema(tuple(t.Field(i, name, kind) for i, (name, kind) in enumerate(columns, 1)))


def _list(field_id: int) -> t.ListOf:
    return t.ListOf(t.Field(field_id, "element", t.STRING))


HISTORY = _columns(
    ("version", t.LONG),
    ("timestamp", t.Timestamp()),
    ("userId", t.STRING),
    ("userName", t.STRING),
    ("operation", t.STRING),
    ("operationParameters", _TEXTS),
    ("clusterId", t.STRING),
    ("readVersion", t.LONG),
    ("isolationLevel", t.STRING),
    ("isBlindAppend", t.BOOLEAN),
    ("operationMetrics", _TEXTS),
    ("userMetadata", t.STRING),
    ("engineInfo", t.STRING),
)
_AS_THEY_ARE = ("userId", "userName", "operation", "clusterId", "isolationLevel", "userMetadata", "engineInfo")
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
    """A commit's row of `history`, from its commitInfo action."""
    return {
        "version": version,
        "timestamp": at,
        **{name: None if info.get(name) is None else str(info[name]) for name in _AS_THEY_ARE},
        "operationParameters": _as_texts(info.get("operationParameters")),
        "readVersion": info.get("readVersion"),
        "isBlindAppend": info.get("isBlindAppend"),
        "operationMetrics": _as_texts(info.get("operationMetrics")),
    }


def _as_texts(node: Mapping[str, Any] | None) -> list[tuple[str, str | None]] | None:
    """A JSON object as text by name; what is neither text nor null is shown as JSON."""
    if node is None:
        return None
    return [
        (key, value if value is None or isinstance(value, str) else json.dumps(value)) for key, value in node.items()
    ]


def detail_row(
    location: str,
    modified: datetime | None,
    metadata: Metadata,
    protocol: Protocol,
    clustering: list[str],
    files: pa.Table,
) -> dict[str, Any]:
    """The row of `detail` for a version whose live files are `files`."""
    shown = {k: v for k, v in metadata.configuration.items() if not k.startswith("delta.columnMapping.max")}
    return {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "location": location,
        "createdAt": None if metadata.created_time is None else from_millis(metadata.created_time),
        "lastModified": modified,
        "partitionColumns": list(metadata.partition_columns),
        "clusteringColumns": clustering,
        "numFiles": files.num_rows,
        "sizeInBytes": pc.sum(files["size"]).as_py() or 0,
        "properties": list(shown.items()),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(protocol.features),
    }


def clustering_columns(domain: Mapping[str, Any] | None, schema: Schema) -> list[str]:
    """The clustering columns by name (protocol, "Clustered Table"): their domain metadata has physical names."""
    paths = [tuple(path) for path in json.loads(domain["configuration"])["clusteringColumns"]] if domain else []
    names = {schema.physical_path(f): schema.path_of[f.id] for f in schema.by_id.values()}
    return [names.get(path, ".".join(path)) for path in paths]


@dataclass(frozen=True)
class FilesTable:
    """`files`: one row a live file of a version, with its statistics as its writer wrote them."""

    actions: pa.Table
    partition_fields: tuple[t.Field, ...]

    @property
    def schema(self) -> Schema:
        """A file's columns; its partition where the table has one."""
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
        """One part: the log was read to find them."""
        return (None,)

    def read(self, part: Any) -> Iterator[pa.RecordBatch]:
        """All live files."""
        for batch in self.actions.combine_chunks().to_batches():
            rows = batch.num_rows
            moment = batch["modification_time"].cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
            texts = batch["partition"]
            values = {f.name: typed_values(texts.field(i), f) for i, f in enumerate(self.partition_fields)}
            columns = [
                batch["path"],
                *([struct_of(values, rows)] if values else []),
                batch["size"],
                moment,
                pc.fill_null(batch["vector"].field("cardinality"), 0),
                batch["base_row_id"],
                batch["row_commit_version"],
                batch["stats"],
            ]
            arrow = self.schema.arrow()
            kinds = [f.type for f in arrow]
            cast = [c.cast(kind) if c.type != kind else c for c, kind in zip(columns, kinds, strict=True)]
            yield pa.RecordBatch.from_arrays(cast, schema=arrow)
