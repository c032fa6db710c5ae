"""Delta's metadata tables: `history` and `detail`, as `DESCRIBE` of those names has them, and `files`."""

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
from lakescan.common.schema import Schema
from lakescan.delta.log.replay import place
from lakescan.delta.log.text import ADVICE, Action, as_long, parse_object, shown
from lakescan.delta.log.time_travel import moment_or_none
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.delta.scan.partition_values import typed_values
from lakescan.errors import CorruptMetadata
from lakescan.planning.file_table import struct_of

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
        **{name: _as_text(info.get(name)) for name in _AS_THEY_ARE},
        "operationParameters": _as_texts(info.get("operationParameters")),
        "readVersion": as_long(info.get("readVersion")),
        "isBlindAppend": is_blind if isinstance(is_blind := info.get("isBlindAppend"), bool) else None,
        "operationMetrics": _as_texts(info.get("operationMetrics")),
    }


def _as_texts(node: Any) -> list[tuple[str, str | None]] | None:
    """A JSON object as text by name; None for what is no object: nothing depends on what commits say of themselves."""
    return [(_as_text(key) or "", _as_text(value)) for key, value in node.items()] if isinstance(node, dict) else None


def _as_text(value: Any) -> str | None:
    """Text as it is, null as null, what is neither as JSON; lone surrogates, which no text can hold, replaced."""
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
    """The row of `detail` for a version whose live files are `files`."""
    shown = {k: v for k, v in metadata.configuration.items() if not k.startswith("delta.columnMapping.max")}
    return {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "location": location,
        "createdAt": moment_or_none(metadata.created_time),
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


def clustering_columns(domain: Action | None, schema: Schema) -> list[str]:
    """The clustering columns by name (protocol, "Clustered Table"): their domain metadata has physical names."""
    if domain is None:
        return []
    where = f"{domain.where}: the configuration of the clustering"
    found = parse_object(domain.text("configuration") or "", where).get("clusteringColumns")
    if not isinstance(found, list) or not all(_are_names(path) for path in found):
        raise CorruptMetadata(f"{where} has the columns {shown(found)}, where lists of names belong. {ADVICE}")
    return [".".join(_logical(path, schema.fields)) for path in found]


def _are_names(node: Any) -> bool:
    return isinstance(node, list) and all(isinstance(name, str) for name in node)


def _logical(path: Sequence[str], fields: Sequence[t.Field]) -> list[str]:
    """Names for physical names, each among the children of the one before; a name that is not there stays as it is."""
    if not path:
        return []
    found = next((f for f in fields if f.physical_name == path[0]), None)
    if found is None:
        return list(path)
    return [found.name, *_logical(path[1:], t.children(found.type))]


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
            where = partial(place, batch)
            values = {f.name: typed_values(texts.field(i), f, where) for i, f in enumerate(self.partition_fields)}
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
