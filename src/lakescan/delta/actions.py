"""Actions of the log as Arrow tables: commits (JSON lines) and checkpoints (Parquet or JSON) in one shape.

The file actions of all commits are parsed at once, by Arrow's JSON reader; where that refuses the text (an action
spelt in a way that Arrow's reader does not take), Python's own parser reads it instead, with the same result.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq

from lakescan.errors import CorruptMetadata
from lakescan.storage import Storage

_VERSION = "lakescan.version"
VECTOR = pa.struct(
    [
        pa.field("storageType", pa.string()),
        pa.field("pathOrInlineDv", pa.string()),
        pa.field("offset", pa.int32()),
        pa.field("sizeInBytes", pa.int32()),
        pa.field("cardinality", pa.int64()),
    ]
)
SIDECAR = pa.struct([pa.field("path", pa.string()), pa.field("sizeInBytes", pa.int64())])


@dataclass(frozen=True)
class FileActions:
    """Adds and removes, a row each, in log order; `version` is the commit's (-1 in a checkpoint).

    Columns: version, is_add, path (as written), partition (struct of text by physical name), size, stats (JSON text),
    stats_parsed (struct, or null), vector (the deletion vector's descriptor).
    """

    table: pa.Table
    sidecars: tuple[str, ...] = ()


@dataclass(frozen=True)
class ActionReader:
    """Reads file actions of a table whose partition columns (physical names) are known."""

    storage: Storage
    partition_columns: tuple[str, ...]

    def commits(self, commits: Iterable[tuple[int, bytes]]) -> FileActions:
        """The file actions of commits, given as (version, content)."""
        text = io.BytesIO()
        for version, content in commits:
            text.write(b'{"%s":%d}\n' % (_VERSION.encode(), version))
            text.write(content if content.endswith(b"\n") else content + b"\n")
        return self._json(text.getvalue(), versioned=True)

    def checkpoint_part(self, location: str) -> FileActions:
        """The file actions of one checkpoint file or sidecar, Parquet or JSON."""
        if location.endswith(".json"):
            return self._json(self.storage.read(location), versioned=False)
        with self.storage.open(location) as handle:
            try:
                file = pq.ParquetFile(handle)
                rows = file.read(columns=list(_wanted_columns(file.schema_arrow)))
            except (pa.ArrowInvalid, OSError) as error:
                raise CorruptMetadata(f"{location} is not a checkpoint that can be read: {error}") from error
        sidecars: tuple[str, ...] = ()
        if "sidecar" in rows.column_names:
            paths = pc.struct_field(rows["sidecar"], "path").drop_null()
            sidecars = tuple(paths.to_pylist())
        if "add" not in rows.column_names:
            return FileActions(self._empty(), sidecars)
        adds = rows.filter(pc.is_valid(pc.struct_field(rows["add"], "path")))["add"].combine_chunks()
        return FileActions(
            self._normalised(adds, pa.repeat(pa.scalar(-1, pa.int64()), len(adds)), is_add=True), sidecars
        )

    def _json(self, text: bytes, *, versioned: bool) -> FileActions:
        schema = self._json_schema()
        rows = parse_json_lines(text, schema)
        if versioned:
            version = pc.fill_null_forward(rows[_VERSION].combine_chunks())
        else:
            version = pa.repeat(pa.scalar(-1, pa.int64()), rows.num_rows)
        tables = []
        for name, is_add in (("remove", False), ("add", True)):
            actions = rows[name].combine_chunks()
            present = pc.is_valid(pc.struct_field(actions, "path"))
            tables.append(self._normalised(actions.filter(present), version.filter(present), is_add=is_add))
        sidecars = pc.struct_field(rows["sidecar"], "path").drop_null().to_pylist()
        both = pa.concat_tables(tables)
        return FileActions(both.take(pc.sort_indices(both["version"])), tuple(sidecars))

    def _json_schema(self) -> pa.Schema:
        add = [
            pa.field("path", pa.string()),
            pa.field("size", pa.int64()),
            pa.field("stats", pa.string()),
            pa.field("deletionVector", VECTOR),
        ]
        if self.partition_columns:
            values = pa.struct([pa.field(n, pa.string()) for n in self.partition_columns])
            add.append(pa.field("partitionValues", values))
        remove = [pa.field("path", pa.string()), pa.field("deletionVector", VECTOR)]
        return pa.schema(
            [
                pa.field(_VERSION, pa.int64()),
                pa.field("add", pa.struct(add)),
                pa.field("remove", pa.struct(remove)),
                pa.field("sidecar", SIDECAR),
            ]
        )

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


def parse_json_lines(text: bytes, schema: pa.Schema) -> pa.Table:
    """JSON lines as a table of that schema: members that it does not name are left out, absent ones null."""
    if not text.strip():
        return schema.empty_table()
    longest = max(map(len, text.split(b"\n")))
    try:
        return pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(block_size=max(1 << 22, longest * 2)),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return parse_json_lines_in_python(text, schema)


def parse_json_lines_in_python(text: bytes, schema: pa.Schema) -> pa.Table:
    """The same by Python's parser, a line at a time: slow, and takes whatever JSON allows."""
    rows = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            try:
                node = json.loads(line)
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise CorruptMetadata(f"line {number} of the log is not JSON: {error}") from error
            if not isinstance(node, dict):
                raise CorruptMetadata(f"line {number} of the log is not a JSON object: {line[:40]!r}")
            rows.append(_textual(node, schema))
    return pa.Table.from_pylist(rows, schema=schema)


def _textual(value: Any, kind: Any) -> Any:
    """A parsed value as the Arrow type wants it: scalars as text where the type is text."""
    if isinstance(kind, pa.Schema):
        return {f.name: _textual(value.get(f.name), f.type) for f in kind}
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: _textual(value.get(f.name), f.type) for f in kind} if isinstance(value, dict) else None
    if pa.types.is_string(kind) and not isinstance(value, str):
        return json.dumps(value)
    return value


def single_actions(text: bytes, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """The few actions of a commit that are not about files (protocol, metaData, commitInfo), last first.

    Only lines that mention a name are parsed.
    """
    for line in reversed(text.split(b"\n")):
        if any(b'"' + n.encode() + b'"' in line[:4096] for n in names):
            try:
                node = json.loads(line)
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise CorruptMetadata(f"a line of a commit is not JSON: {error}") from error
            yield from ((n, node[n]) for n in names if node.get(n) is not None)


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


def _wanted_columns(schema: pa.Schema) -> Iterator[str]:
    if "add" in schema.names:
        for member in ("path", "partitionValues", "size", "stats", "stats_parsed", "deletionVector"):
            if schema.field("add").type.get_field_index(member) >= 0:
                yield f"add.{member}"
    if "sidecar" in schema.names:
        yield "sidecar.path"


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
