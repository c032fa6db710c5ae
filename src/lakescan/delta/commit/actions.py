"""The text of a commit: one JSON action a line, the commitInfo first (protocol, "Actions")."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.commit.file_changes import DeltaFileChanges
from lakescan.delta.commit.json_texts import json_texts
from lakescan.delta.metadata.features import LISTED, READERS_LISTED
from lakescan.delta.metadata.protocol import Metadata, Protocol


@dataclass(frozen=True)
class SetTransaction:
    """An application's id and its own version number of a commit (protocol, "Transaction Identifiers")."""

    app_id: str
    version: int


@dataclass(frozen=True)
class CommitText:
    """The actions of a commit, in the order in which they are written; a domain without text is removed."""

    info: Mapping[str, Any]
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transaction: SetTransaction | None = None
    domains: Mapping[str, str | None] = field(default_factory=dict)
    files: DeltaFileChanges = field(default_factory=DeltaFileChanges)

    def actions(self) -> list[Mapping[str, Any]]:
        """Return all actions but those of files."""
        actions: list[Mapping[str, Any]] = [{"commitInfo": self.info}]
        if self.protocol is not None:
            actions.append({"protocol": protocol_action(self.protocol)})
        if self.metadata is not None:
            actions.append({"metaData": metadata_action(self.metadata)})
        if self.transaction is not None:
            members = {"appId": self.transaction.app_id, "version": self.transaction.version}
            actions.append({"txn": {**members, "lastUpdated": self.info["timestamp"]}})
        actions += [
            {"domainMetadata": {"domain": name, "configuration": text or "", "removed": text is None}}
            for name, text in self.domains.items()
        ]
        return actions

    def encode(self) -> bytes:
        """Return the bytes of the commit's file."""
        lines = "".join(f"{_json(action)}\n" for action in self.actions())
        parts = [lines.encode(), *(_lines(name, rows) for name, rows in self._file_actions())]
        return b"".join(parts)

    def _file_actions(self) -> Sequence[tuple[str, pa.Table]]:
        return ("remove", self.files.removed), ("add", self.files.added), ("cdc", self.files.changes)


def _lines(name: str, rows: pa.Table) -> bytes:
    if not rows.num_rows:
        return b""
    columns = [column.combine_chunks() for column in rows.columns]
    texts = json_texts(pa.StructArray.from_arrays(columns, fields=list(rows.schema)))
    lines = pc.binary_join_element_wise(_text(f'{{"{name}":'), texts, _text("}\n"), _text(""))
    whole = pc.binary_join(pa.LargeListArray.from_arrays([0, len(lines)], lines), _text(""))
    return whole[0].as_buffer().to_pybytes()


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def protocol_action(protocol: Protocol) -> dict[str, Any]:
    """Return the members of a protocol action; features are listed from the versions on that list them."""
    members: dict[str, Any] = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    }
    if protocol.min_reader_version >= READERS_LISTED:
        members["readerFeatures"] = sorted(protocol.reader_features)
    if protocol.min_writer_version >= LISTED:
        members["writerFeatures"] = sorted(protocol.writer_features | protocol.reader_features)
    return members


def metadata_action(metadata: Metadata) -> dict[str, Any]:
    """Return the members of a metaData action."""
    members = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": "parquet", "options": dict(metadata.format_options)},
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(metadata.configuration),
        "createdTime": metadata.created_time,
    }
    return {name: value for name, value in members.items() if value is not None}
