"""Actions of the log as Arrow tables: commits (JSON lines) and checkpoints (Parquet or JSON) in one shape.

The file actions of all commits are parsed at once: a marker line before each commit carries its version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.delta.json_lines import parse_json_lines
from lakescan.delta.kept_rows import kept
from lakescan.errors import CorruptMetadata
from lakescan.storage import Storage

_VERSION = "lakescan.version"
# Numbers of an add action, and the columns that hold them here.
_NUMBERS = {
    "modificationTime": "modification_time",
    "baseRowId": "base_row_id",
    "defaultRowCommitVersion": "row_commit_version",
}
VECTOR = pa.struct(
    [
        pa.field("storageType", pa.string()),
        pa.field("pathOrInlineDv", pa.string()),
        pa.field("offset", pa.int32()),
        pa.field("sizeInBytes", pa.int32()),
        pa.field("cardinality", pa.int64()),
    ]
)
SIDECAR = pa.struct([pa.field("path", pa.string())])


@dataclass(frozen=True)
class ActionReader:
    """Reads file actions of a table whose partition columns (physical names) are known.

    They are adds and removes, a row each. Columns: version (the commit's, -1 in a checkpoint), is_add, path (as
    written), partition (struct of text by physical name), size, stats (JSON text), stats_parsed (struct, where there
    is one), vector (the deletion vector's descriptor), modification_time (milliseconds), base_row_id and
    row_commit_version (row tracking).
    """

    storage: Storage
    partition_columns: tuple[str, ...]

    def commits(self, commits: Iterable[tuple[int, bytes]]) -> pa.Table:
        """The file actions of commits, given as (version, content)."""
        return self._json(_marked(commits), versioned=True)

    def changes(self, commits: Iterable[tuple[int, bytes]]) -> pa.Table:
        """What commits say of changed data: a row an add, remove or cdc action.

        `action` is its name, `data_change` what it says of itself, `has_partition` whether it has its partition values.
        The other columns are those of file actions.
        """
        file = [pa.field("path", pa.string()), pa.field("size", pa.int64()), *self._partition_field()]
        changed = [*file, pa.field("dataChange", pa.bool_()), pa.field("deletionVector", VECTOR)]
        kinds = {"add": [*changed, pa.field("stats", pa.string())], "remove": changed, "cdc": file}
        fields = [pa.field(name, pa.struct(members)) for name, members in kinds.items()]
        rows = parse_json_lines(_marked(commits), pa.schema([pa.field(_VERSION, pa.int64()), *fields]))
        version = pc.fill_null_forward(rows[_VERSION].combine_chunks())
        tables = []
        for name in kinds:
            actions = rows[name].combine_chunks()
            present = pc.is_valid(pc.struct_field(actions, "path"))
            own = actions.filter(present)
            table = self._normalised(own, version.filter(present), is_add=name == "add")
            table = table.append_column("action", pa.repeat(pa.scalar(name), len(own)))
            table = table.append_column("data_change", pc.fill_null(_member(own, "dataChange", pa.bool_()), True))
            tables.append(table.append_column("has_partition", self._has_partition(own)))
        return pa.concat_tables(tables).combine_chunks()

    def checkpoint_part(self, location: str) -> pa.Table:
        """The file actions of one checkpoint file or sidecar, Parquet or JSON."""
        if location.endswith(".json"):
            return self._json(self.storage.read(location), versioned=False)
        rows = _checkpoint_rows(location, self.storage, _wanted_columns)
        if "add" not in rows.column_names:
            return self._empty()
        nowhere = pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows)
        return self._present(rows["add"], nowhere, is_add=True)

    def sidecars(self, location: str) -> list[str]:
        """The sidecars that a checkpoint file names, as it names them (protocol, "V2 Spec")."""
        if location.endswith(".json"):
            rows = parse_json_lines(self.storage.read(location), pa.schema([pa.field("sidecar", SIDECAR)]))
        else:
            rows = _checkpoint_rows(location, self.storage, lambda schema: {"sidecar"} & set(schema.names))
        if "sidecar" not in rows.column_names:
            return []
        found: list[str] = pc.struct_field(rows["sidecar"], "path").drop_null().to_pylist()
        return found

    def _json(self, text: bytes, *, versioned: bool) -> pa.Table:
        schema = self._json_schema()
        rows = parse_json_lines(text, schema)
        if versioned:
            version = pc.fill_null_forward(rows[_VERSION].combine_chunks())
        else:
            version = pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows)
        tables = [self._present(rows[n], version, is_add=n == "add") for n in ("remove", "add")]
        return pa.concat_tables(tables)

    def _json_schema(self) -> pa.Schema:
        add = [
            pa.field("path", pa.string()),
            pa.field("size", pa.int64()),
            pa.field("stats", pa.string()),
            pa.field("deletionVector", VECTOR),
            *(pa.field(n, pa.int64()) for n in _NUMBERS),
            *self._partition_field(),
        ]
        remove = [pa.field("path", pa.string()), pa.field("deletionVector", VECTOR)]
        return pa.schema(
            [
                pa.field(_VERSION, pa.int64()),
                pa.field("add", pa.struct(add)),
                pa.field("remove", pa.struct(remove)),
            ]
        )

    def _has_partition(self, actions: pa.StructArray) -> pa.Array:
        if not self.partition_columns:
            return pa.repeat(pa.scalar(True), len(actions))
        return pc.is_valid(pc.struct_field(actions, "partitionValues"))

    def _partition_field(self) -> list[pa.Field]:
        if not self.partition_columns:
            return []
        return [pa.field("partitionValues", pa.struct([pa.field(n, pa.string()) for n in self.partition_columns]))]

    def _present(self, actions: pa.ChunkedArray, version: pa.Array, *, is_add: bool) -> pa.Table:
        """The rows that are such an action, chunk by chunk."""
        tables = [self._empty()]
        start = 0
        for chunk in actions.chunks:
            present = pc.is_valid(pc.struct_field(chunk, "path")).to_numpy(zero_copy_only=False)
            own = version.slice(start, len(chunk))
            tables.append(self._normalised(kept(chunk, present), own.filter(pa.array(present)), is_add=is_add))
            start += len(chunk)
        return pa.concat_tables(tables, promote_options="permissive")

    def _normalised(self, actions: pa.StructArray, version: pa.Array, *, is_add: bool) -> pa.Table:
        rows = len(actions)
        columns = {
            "version": version,
            "is_add": pa.repeat(pa.scalar(is_add), rows),
            "path": _member(actions, "path", pa.string()),
            "partition": self._partition(actions),
            "size": _member(actions, "size", pa.int64()),
            "stats": _member(actions, "stats", pa.string()),
            "vector": _vector(actions),
            **{column: _member(actions, name, pa.int64()) for name, column in _NUMBERS.items()},
        }
        table = pa.table(columns)
        index = actions.type.get_field_index("stats_parsed")
        return table if index < 0 else table.append_column("stats_parsed", pc.struct_field(actions, [index]))

    def _partition(self, actions: pa.StructArray) -> pa.StructArray:
        index = actions.type.get_field_index("partitionValues")
        values = None if index < 0 else pc.struct_field(actions, [index])
        members = []
        for name in self.partition_columns:
            if values is None:
                members.append(pa.nulls(len(actions), pa.string()))
            elif pa.types.is_map(values.type):
                members.append(pc.map_lookup(values, pa.scalar(name), "first").cast(pa.string()))
            else:
                members.append(pc.struct_field(values, name))
        if not members:
            return pa.array([{}] * len(actions), pa.struct([]))
        return pa.StructArray.from_arrays(members, names=list(self.partition_columns))

    def _empty(self) -> pa.Table:
        nothing = pa.array([], pa.struct([pa.field("path", pa.string())]))
        return self._normalised(nothing, pa.array([], pa.int64()), is_add=True)


def _marked(commits: Iterable[tuple[int, bytes]]) -> bytes:
    """Commits as one text, before each a line that carries its version."""
    marked = ((b'{"%s":%d}' % (_VERSION.encode(), version), content) for version, content in commits)
    return b"\n".join(chain.from_iterable(marked))


def single_actions(text: bytes, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The few actions of a commit that are not about files (protocol, metaData, commitInfo), last first.

    Only lines that mention a name are parsed.
    """
    for line in sorted(_lines_that_mention(text, names), reverse=True):
        try:
            node = json.loads(text[slice(*line)])
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise CorruptMetadata(f"a line of a commit is not JSON: {error}") from error
        yield from ((n, node[n]) for n in names if node.get(n) is not None)


def _lines_that_mention(text: bytes, names: tuple[str, ...]) -> set[tuple[int, int]]:
    """Where lines with one of these names in quotes begin and end."""
    found = set()
    for name in names:
        quoted = b'"%s"' % name.encode()
        at = text.find(quoted)
        while at >= 0:
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            found.add((text.rfind(b"\n", 0, at) + 1, end))
            at = text.find(quoted, end)
    return found


def checkpoint_actions(location: str, storage: Storage, names: tuple[str, ...]) -> dict[str, Any]:
    """The protocol and metaData actions of a checkpoint file, by name."""
    if location.endswith(".json"):
        return dict(single_actions(storage.read(location), names))
    with storage.open(location) as handle:
        try:
            file = pq.ParquetFile(handle)
            present = [n for n in names if n in file.schema_arrow.names]
            rows = file.read(columns=present)
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptMetadata(f"{location} is not a checkpoint that can be read: {error}") from error
    found = {}
    for name in present:
        probe = {"protocol": "minReaderVersion", "metaData": "schemaString"}[name]
        values = rows.filter(pc.is_valid(pc.struct_field(rows[name], probe)))[name]
        if len(values):
            found[name] = values[0].as_py(maps_as_pydicts="lossy")
    return found


def checkpoint_domains(location: str, storage: Storage) -> list[dict[str, Any]]:
    """The domainMetadata actions of a checkpoint file."""
    if location.endswith(".json"):
        return [node for _, node in single_actions(storage.read(location), ("domainMetadata",))]
    with storage.open(location) as handle:
        file = pq.ParquetFile(handle)
        if "domainMetadata" not in file.schema_arrow.names:
            return []
        found = file.read(columns=["domainMetadata"])["domainMetadata"]
    return [node for node in found.drop_null().to_pylist() if node.get("domain") is not None]


def _wanted_columns(schema: pa.Schema) -> Iterator[str]:
    if "add" in schema.names:
        for member in ("path", "partitionValues", "size", "stats", "stats_parsed", "deletionVector", *_NUMBERS):
            if schema.field("add").type.get_field_index(member) >= 0:
                yield f"add.{member}"


def _checkpoint_rows(location: str, storage: Storage, wanted: Callable[[pa.Schema], Iterable[str]]) -> pa.Table:
    """Some columns of a Parquet checkpoint; no rows where it has none of them."""
    with storage.open(location) as handle:
        try:
            file = pq.ParquetFile(handle)
            columns = list(wanted(file.schema_arrow))
            return file.read(columns=columns) if columns else pa.table({})
        except (pa.ArrowInvalid, OSError) as error:
            raise CorruptMetadata(f"{location} is not a checkpoint that can be read: {error}") from error


def _member(actions: pa.StructArray, name: str, kind: pa.DataType) -> pa.Array:
    index = actions.type.get_field_index(name)
    return pa.nulls(len(actions), kind) if index < 0 else pc.struct_field(actions, [index]).cast(kind)


def _vector(actions: pa.StructArray) -> pa.StructArray:
    """The descriptor's members, null throughout where the file has no vector."""
    index = actions.type.get_field_index("deletionVector")
    found = None if index < 0 else pc.struct_field(actions, [index])
    members = []
    for field in VECTOR:
        at = -1 if found is None else found.type.get_field_index(field.name)
        members.append(pa.nulls(len(actions), field.type) if at < 0 else pc.struct_field(found, [at]).cast(field.type))
    return pa.StructArray.from_arrays(members, fields=list(VECTOR))
