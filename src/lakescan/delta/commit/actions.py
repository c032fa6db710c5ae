"""The file actions of one commit, as Arrow tables with the fields of Delta's actions; any process can build them.

Protocol, "Add File and Remove File" and "Add CDC File".
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.commit.json_texts import json_texts
from lakescan.delta.data_files.delta_writes import DeltaWrites
from lakescan.delta.log.actions import VECTOR
from lakescan.delta.metadata.features import LISTED, READERS_LISTED
from lakescan.delta.metadata.new_schema import set_identity_marks
from lakescan.delta.metadata.protocol import Metadata, Protocol
from lakescan.writing.column_rules import MARKS
from lakescan.writing.table_writes import WrittenFile

TEXTS = pa.map_(pa.string(), pa.string())
_LINEAGE = [pa.field("baseRowId", pa.int64()), pa.field("defaultRowCommitVersion", pa.int64())]
ADD = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("partitionValues", TEXTS),
        pa.field("size", pa.int64()),
        pa.field("modificationTime", pa.int64()),
        pa.field("dataChange", pa.bool_()),
        pa.field("stats", pa.string()),
        pa.field("tags", TEXTS),
        pa.field("deletionVector", VECTOR),
        *_LINEAGE,
        pa.field("clusteringProvider", pa.string()),
    ]
)
REMOVE = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("deletionTimestamp", pa.int64()),
        pa.field("dataChange", pa.bool_()),
        pa.field("extendedFileMetadata", pa.bool_()),
        pa.field("partitionValues", TEXTS),
        pa.field("size", pa.int64()),
        pa.field("deletionVector", VECTOR),
        *_LINEAGE,
    ]
)
CDC = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("partitionValues", TEXTS),
        pa.field("size", pa.int64()),
        pa.field("dataChange", pa.bool_()),
    ]
)
_SAFE = "/!$&'()+,:;=@"  # not encoded in paths, like letters, digits and _.-~, which `quote` never encodes
_UNSAFE = r"[^A-Za-z0-9_.\-~/!$&'()+,:;=@]"


@dataclass(frozen=True)
class DeltaFileChanges:
    """The files that a commit adds (`ADD`) and removes (`REMOVE`), and its change data files (`CDC`).

    Paths are as in the log. `replaced` are the previous add actions (`ADD`) of added files that are already live.
    """

    added: pa.Table = field(default_factory=ADD.empty_table)
    removed: pa.Table = field(default_factory=REMOVE.empty_table)
    changes: pa.Table = field(default_factory=CDC.empty_table)
    replaced: pa.Table = field(default_factory=ADD.empty_table)

    @property
    def changes_data(self) -> bool:
        """True if the commit changes rows: it has change data files, or an action with `dataChange`."""
        actions = (self.added, self.removed)
        return bool(self.changes.num_rows) or any(pc.any(each["dataChange"]).as_py() for each in actions)


def add_actions(files: Sequence[WrittenFile], writes: DeltaWrites, *, changes_data: bool = True) -> pa.Table:
    """Return the add actions (`ADD`) of written files; `changes_data` is their `dataChange` flag."""
    columns = {
        **_files(files, writes),
        "modificationTime": [_current_millis()] * len(files),
        "dataChange": [changes_data] * len(files),
        "stats": [each.details["stats"] for each in files],
    }
    return table_of(columns, ADD, len(files))


def change_actions(files: Sequence[WrittenFile], writes: DeltaWrites) -> pa.Table:
    """Return the cdc actions (`CDC`) of files written by `DeltaWrites.change_file_writes`.

    Readers take all changes of the commit from these files and none from its adds and removes. So the files must hold
    every changed row, including inserted rows, and no row that only moved from one file to another.
    """
    columns = {**_files(files, writes), "dataChange": [False] * len(files)}
    return table_of(columns, CDC, len(files))


def _files(files: Sequence[WrittenFile], writes: DeltaWrites) -> dict[str, Any]:
    """Return the fields shared by add and cdc actions of written files."""
    return {
        "path": log_paths(pa.array([writes.relative_path(each.location) for each in files], pa.string())),
        "partitionValues": [list(writes.partition_values(each.key).items()) for each in files],
        "size": [each.size for each in files],
    }


def remove_actions(live: pa.Table, *, changes_data: bool = True) -> pa.Table:
    """Return the remove actions (`REMOVE`) of live files that `live_adds` returned.

    `changes_data` is their `dataChange` flag. Paths and deletion vectors are copied as the log spells them, since
    readers match them as text.
    """
    rows = live.num_rows
    columns = {
        "path": live["written_path"],
        "deletionTimestamp": [_current_millis()] * rows,
        "dataChange": [changes_data] * rows,
        "extendedFileMetadata": [True] * rows,
        "partitionValues": as_map(live["partition"].combine_chunks()),
        "size": live["size"],
        "deletionVector": null_empty_vectors(live["vector"].combine_chunks()),
        "baseRowId": live["base_row_id"],
        "defaultRowCommitVersion": live["row_commit_version"],
    }
    return table_of(columns, REMOVE, rows)


def table_of(columns: Mapping[str, Any], schema: pa.Schema, rows: int) -> pa.Table:
    """Return a table with this schema and number of `rows`; fields without a column are null.

    `columns` are Arrow columns or Python lists by name.
    """
    arrays = []
    for member in schema:
        values = columns.get(member.name)
        if values is None:
            arrays.append(pa.nulls(rows, member.type))
        else:
            is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
            arrays.append(values.cast(member.type) if is_arrow else pa.array(values, member.type))
    return pa.table(arrays, schema=schema)


def as_map(values: pa.StructArray, always: Collection[str] | None = None) -> pa.MapArray:
    """Return structs of strings as maps; null structs stay null.

    Null struct fields become null values for the names in `always`, by default all names, and are left out for others.
    """
    names, rows = [each.name for each in values.type], len(values)
    items = pa.concat_arrays([pa.array([], pa.string()), *(each.cast(pa.string()) for each in values.flatten())])
    kept = items.is_valid().to_numpy(zero_copy_only=False).reshape(len(names), rows).T.copy()
    kept[:, [always is None or name in always for name in names]] = True
    kept[values.is_null().to_numpy(zero_copy_only=False)] = False
    row, name = np.nonzero(kept)
    offsets = np.append(0, np.cumsum(kept.sum(axis=1))).astype(np.int32)
    keys = pa.array(names, pa.string()).take(pa.array(name))
    return pa.MapArray.from_arrays(
        pa.array(offsets), keys, items.take(pa.array(name * rows + row)), mask=values.is_null()
    )


def null_empty_vectors(vectors: pa.StructArray) -> pa.StructArray:
    """Return deletion vector descriptors with null structs for files without a vector, whose members are all null."""
    missing = pc.is_null(vectors.field("storageType"))
    return pa.StructArray.from_arrays(vectors.flatten(), fields=list(vectors.type), mask=missing)


def log_paths(paths: pa.Array) -> pa.Array:
    """Return paths as the log stores them: percent-encoded URIs. Only paths that need encoding cost a Python call."""
    unsafe = pc.match_substring_regex(paths, _UNSAFE)
    if not pc.any(unsafe).as_py():
        return paths
    encoded = [quote(path, safe=_SAFE) for path in paths.filter(unsafe).to_pylist()]
    return pc.replace_with_mask(paths, unsafe, pa.array(encoded, pa.string()))


def _current_millis() -> int:
    return int(time.time() * 1000)


def identity_metadata(metadata: Metadata, files: Sequence[WrittenFile]) -> Metadata | None:
    """Return the metadata updated with the identity values that these files' writers assigned, or None without any."""
    schema = set_identity_marks(metadata.schema_string, [each.details.get(MARKS, {}) for each in files])
    return None if schema is None else replace(metadata, schema_string=schema)


@dataclass(frozen=True)
class SetTransaction:
    """An application's id and its own version number for a commit (protocol, "Transaction Identifiers")."""

    app_id: str
    version: int


@dataclass(frozen=True)
class CommitText:
    """The actions of a commit, in the order of its file.

    - `info`: the fields of commitInfo.
    - `protocol`, `metadata`: the new ones, or None if unchanged.
    - `domains`: the configurations of changed metadata domains as JSON text; None for a removed domain.
    """

    info: Mapping[str, Any]
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transaction: SetTransaction | None = None
    domains: Mapping[str, str | None] = field(default_factory=dict)
    files: DeltaFileChanges = field(default_factory=DeltaFileChanges)

    def actions(self) -> list[Mapping[str, Any]]:
        """Return all actions except file actions, each as `{name: fields}`."""
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
        """Return the content of the commit file: one JSON object per line."""
        lines = "".join(f"{json_text(action)}\n" for action in self.actions())
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


def json_text(value: Any) -> str:
    """Return a value as JSON without spaces, as Delta on Spark writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def protocol_action(protocol: Protocol) -> dict[str, Any]:
    """Return the fields of a protocol action; feature lists appear only for protocol versions that have them."""
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
    """Return the fields of a metaData action."""
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
