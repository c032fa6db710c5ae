"""Read file actions with all their fields, so that they can be written again; refuse unknown fields.

`delta.log.actions` reads only the fields that scans need. Here, an unknown action or field raises `UnsupportedFeature`,
because it would be lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from lakescan.common.arrays import struct_member
from lakescan.delta.commit.actions import ADD, REMOVE, TEXTS, as_map, null_empty_vectors, table_of
from lakescan.delta.commit.json_texts import stats_texts
from lakescan.delta.data_files.delta_writes import DeltaWrites
from lakescan.delta.log.actions import (
    VECTOR,
    ActionReader,
    Where,
    check_descriptors,
    check_one_action,
    check_paths,
    has_vector,
    member_of,
    names_in_lines,
    names_in_maps,
    vector_of,
)
from lakescan.delta.log.checkpoint_files import CheckpointFile
from lakescan.delta.log.json_lines import LogLines, parse_lines, parse_log_texts
from lakescan.delta.log.log_pieces import pieces_of, read_commits, read_piece
from lakescan.delta.log.log_text import ADVICE, LogText, parse_object
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.replay import canonical_paths, live_files
from lakescan.errors import CommitConflict, ConflictCause, CorruptMetadata, UnsupportedFeature
from lakescan.storage import Storage
from lakescan.writing.table_writes import WrittenFile

_KINDS = {"add": pa.struct(list(ADD)), "remove": pa.struct(list(REMOVE))}
FILE_ACTIONS = tuple(_KINDS)
# Fields that checkpoints leave out (protocol, "Checkpoints") or that are recomputed for them.
_LEFT_OUT = {"add": {"stats_parsed", "partitionValues_parsed"}, "remove": {"stats", "tags"}}
_KNOWN = {name: {f.name for f in kind} | _LEFT_OUT[name] for name, kind in _KINDS.items()}
_OF_VECTOR = {
    *(f.name for f in VECTOR),
    "maxRowIndex",
}  # Delta on Spark has `maxRowIndex` in its schemas but never writes it to a log
_OTHERS = {"metaData", "protocol", "txn", "domainMetadata", "commitInfo", "cdc", "checkpointMetadata", "sidecar"}
_MAPS = {"add": ("partitionValues", "tags"), "remove": ("partitionValues",)}
_LOOSE = frozenset({"stats", "partitionValues", "tags"})
_NO_ROWS = np.array([], dtype=np.int64)


@dataclass(frozen=True)
class FileActions:
    """Reads the file actions of a table with these partition columns (physical names).

    Each result table has one row per action: the columns of `delta.log.actions` that reconciliation needs (version,
    line, is_add, path, vector), has_partition, and the action itself in `add` (of type `ADD`) or `remove` (`REMOVE`),
    while the other column is null. `stats_parsed` is there if the checkpoint has it. Methods raise `CorruptMetadata`
    and `UnsupportedFeature`; `purpose` names the operation in the latter's message.
    """

    storage: Storage
    partition_columns: tuple[str, ...]
    purpose: str = "writing a checkpoint"

    def empty(self) -> pa.Table:
        """Return a table without actions."""
        nothing = pa.array([], pa.struct([pa.field("path", pa.string())]))
        return _table("add", nothing, pa.array([], pa.bool_()), _NO_ROWS, _NO_ROWS)

    def commits(self, texts: Sequence[LogText]) -> pa.Table:
        """Return the adds and removes of commits or JSON checkpoints."""
        tables = [self.empty()]
        for lines in parse_log_texts(texts, _flat_schema(), _LOOSE):
            check_one_action(lines.rows, FILE_ACTIONS, lines.where)
            names = names_in(lines)
            self._check_known(names, lines.texts[0].location)
            maps = parse_lines(lines, self._maps_schema(names), _LOOSE).rows
            tables += [self._lines_table(lines, maps, name) for name in FILE_ACTIONS]
        return pa.concat_tables(tables)

    def checkpoint_file(self, location: str) -> Iterator[pa.Table]:
        """Yield the adds and removes of one checkpoint file or sidecar, in batches."""
        if location.endswith(".json"):
            yield self.commits([LogText(location, self.storage.read(location))])
            return
        file = CheckpointFile(location, self.storage)
        members = file.members()
        for other in sorted(set(members) - {*FILE_ACTIONS, *_OTHERS}):
            if file.count(other):
                raise self._loss_error(f"the action {other!r}", location)
        for name in FILE_ACTIONS:
            for rows, start in file.batches(name, members.get(name, ())):
                yield self._checkpoint_table(file, rows.combine_chunks(), start, name)

    def checkpoint_adds(self, location: str, without: Collection[str]) -> Iterator[pa.Table]:
        """Yield the adds of one checkpoint file or sidecar, in batches, with nulls for the fields in `without`.

        Path and size are always read. A JSON checkpoint is read completely.
        """
        if location.endswith(".json"):
            actions = self.commits([LogText(location, self.storage.read(location))])
            yield actions.filter(actions["is_add"])
            return
        file = CheckpointFile(location, self.storage)
        members = [each for each in file.members().get("add", ()) if each not in without]
        for rows, start in file.batches("add", members):
            yield self._checkpoint_table(file, rows.combine_chunks(), start, "add")

    def _checkpoint_table(self, file: CheckpointFile, rows: pa.StructArray, start: int, name: str) -> pa.Table:
        own, at = _non_null_actions(rows)
        self._check_members(own, name, _KNOWN[name], file.location)
        if pc.any(has_vector(own)).as_py():
            self._check_members(pc.struct_field(own, "deletionVector"), "deletionVector", _OF_VECTOR, file.location)

        def where(row: int) -> str:
            return file.where(int(at[row]) + start)

        complete = names_in_maps(own, self.partition_columns if name == "add" else ())
        table = _table(name, own, complete, np.full(len(at), -1, np.int64), at + start + 1)
        _check(table, own, name, where)
        index = own.type.get_field_index("stats_parsed")
        return table if index < 0 else table.append_column("stats_parsed", pc.struct_field(own, [index]))

    def _lines_table(self, lines: LogLines, maps: pa.Table, name: str) -> pa.Table:
        own, at = _non_null_actions(lines.rows[name].combine_chunks())
        texts = maps[name].combine_chunks().take(pa.array(at))

        def where(row: int) -> str:
            return lines.where(int(at[row]))

        columns = self.partition_columns if name == "add" else ()
        complete = names_in_lines(texts, columns, lambda rows: lines.raw.take(pa.array(at[rows])))
        built = [as_map(pc.struct_field(texts, member), self._always(member)) for member in _MAPS[name]]
        whole = pa.StructArray.from_arrays([*own.flatten(), *built], names=[*(f.name for f in own.type), *_MAPS[name]])
        table = _table(name, whole, complete, lines.version[at], lines.line[at])
        _check(table, own, name, where)
        return table

    def _maps_schema(self, names: Names) -> pa.Schema:
        """Return a schema that reads the actions' maps as structs with all keys that occur in them (`names`)."""
        fields = []
        for action, members in _MAPS.items():
            parts = []
            for member in members:
                keys = dict.fromkeys([*self._always(member), *sorted(names.get(action, {}).get(member, {}))])
                parts.append(pa.field(member, pa.struct([pa.field(key, pa.string()) for key in keys])))
            fields.append(pa.field(action, pa.struct(parts)))
        return pa.schema(fields)

    def _always(self, member: str) -> tuple[str, ...]:
        """Return the keys that the map field `member` keeps even for null: the partition columns, or none."""
        return self.partition_columns if member == "partitionValues" else ()

    def _check_known(self, names: Names, location: str) -> None:
        """Raise `UnsupportedFeature` for unknown actions and fields in JSON lines; `names` are those of `names_in`."""
        for action in sorted(set(names) - {*FILE_ACTIONS, *_OTHERS}):
            raise self._loss_error(f"the action {action!r}", location)
        for action in FILE_ACTIONS:
            members = names.get(action, {})
            for member in sorted(set(members) - _KNOWN[action]):
                raise self._loss_error(f"the member {action}.{member}", location)
            for member in sorted(set(members.get("deletionVector", {})) - _OF_VECTOR):
                raise self._loss_error(f"the member {action}.deletionVector.{member}", location)

    def _check_members(self, rows: pa.StructArray, name: str, known: set[str], location: str) -> None:
        """Raise `UnsupportedFeature` for fields of `rows` outside `known`, unless they are null in every row.

        `name` is the action or field that the rows are, for the message.
        """
        for field in rows.type:
            if field.name not in known and struct_member(rows, field.name).null_count < len(rows):
                raise self._loss_error(f"the member {name}.{field.name}", location)

    def _loss_error(self, what: str, location: str) -> UnsupportedFeature:
        return UnsupportedFeature(
            f"{self.purpose} with {what}", f"{location}, or a later file of the log, has it, and it would be lost."
        )


def _flat_schema() -> pa.Schema:
    """Return the schema of the file actions without their maps."""
    flat = {n: [f for f in kind if f.type != TEXTS] for n, kind in _KINDS.items()}
    return pa.schema([pa.field(name, pa.struct(fields)) for name, fields in flat.items()])


def _non_null_actions(actions: pa.StructArray) -> tuple[pa.StructArray, np.ndarray]:
    """Return the actions that are not null, and their row numbers."""
    at = np.flatnonzero(actions.is_valid().to_numpy(zero_copy_only=False))
    return (actions if len(at) == len(actions) else actions.take(pa.array(at))), at


def _table(name: str, actions: pa.StructArray, complete: pa.Array, version: np.ndarray, line: np.ndarray) -> pa.Table:
    rows = len(actions)
    columns = {
        "version": pa.array(version, pa.int64()),
        "line": pa.array(line, pa.int64()),
        "is_add": pa.repeat(pa.scalar(name == "add"), rows),
        "path": member_of(actions, "path", pa.string()),
        "has_partition": complete,
        "vector": vector_of(actions),
    }
    kinds = {n: _select_members(actions, k) if n == name else pa.nulls(rows, k) for n, k in _KINDS.items()}
    return pa.table({**columns, **kinds})


def _select_members(actions: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    """Return the actions with exactly the fields of `kind`."""
    members = [member_of(actions, f.name, f.type) if f.type != VECTOR else _vectors(actions) for f in kind]
    return pa.StructArray.from_arrays(members, fields=list(kind))


def _vectors(actions: pa.StructArray) -> pa.StructArray:
    """Return deletion vector descriptors, null for files without a deletion vector."""
    return pa.StructArray.from_arrays(
        vector_of(actions).flatten(), fields=list(VECTOR), mask=pc.invert(has_vector(actions))
    )


def _check(table: pa.Table, own: pa.StructArray, name: str, where: Where) -> None:
    check_paths(table["path"].combine_chunks(), name, where)
    check_descriptors(table["vector"].combine_chunks(), has_vector(own), where)
    if name == "add" and (row := pc.index(table["add"].combine_chunks().field("size").is_valid(), False).as_py()) >= 0:
        raise CorruptMetadata(f"{where(row)}: add.size is missing; expected a whole number. {ADVICE}")


Names = dict[str, Any]  # names of fields that are not always null, mapped to the names within them
_FILE_LINE = r'^\s*\{\s*"(?:add|remove|cdc)"\s*:'
_BLOCK = 1 << 24
_MOST_BLOCK = (1 << 31) - 1


def names_in(lines: LogLines) -> Names:
    """Return the names of the actions in the lines and, for file actions, the names of their fields at all depths.

    Fields that are null in every line are left out.
    """
    is_file = pc.match_substring_regex(lines.raw, _FILE_LINE)
    names: Names = {}
    for line in lines.raw.filter(pc.invert(is_file)).to_pylist():  # few: a commit has one of each kind
        _merge(names, _node_names(parse_object(line, "")))
    files = lines.raw.filter(is_file)
    inferred = _infer_schema(files)
    if inferred is not None:
        _merge(names, _type_names(inferred))
        return names
    for line in files.to_pylist():  # Arrow's reader accepts nearly all logs
        _merge(names, _node_names(parse_object(line, "")))
    return names


def _infer_schema(lines: pa.Array) -> pa.Schema | None:
    """Return the schema that Arrow's JSON reader infers for the lines, or None if it rejects them."""
    if not len(lines):
        return pa.schema([])
    nothing, newline = (pa.scalar(text, lines.type) for text in ("", "\n"))
    content = pc.binary_join_element_wise(lines, nothing, newline).buffers()[2]
    options = pj.ReadOptions(block_size=min(max(_BLOCK, content.size), _MOST_BLOCK))
    try:
        return pj.read_json(pa.BufferReader(content), read_options=options).schema
    except pa.ArrowInvalid:
        return None


def _type_names(fields: Any) -> Names:
    return {
        field.name: _type_names(field.type) if pa.types.is_struct(field.type) else {}
        for field in fields
        if not pa.types.is_null(field.type)
    }


def _node_names(node: dict[str, Any]) -> Names:
    return {
        name: _node_names(value) if isinstance(value, dict) else {} for name, value in node.items() if value is not None
    }


def _merge(names: Names, more: Names) -> None:
    for name, inner in more.items():
        _merge(names.setdefault(name, {}), inner)


# Fields of adds that scans read, and fields that are derived from others.
_OF_SCANS = frozenset(
    [
        "partitionValues",
        "partitionValues_parsed",
        "modificationTime",
        "dataChange",
        "stats",
        "stats_parsed",
        "deletionVector",
        "baseRowId",
        "defaultRowCommitVersion",
    ]
)


def live_adds(version: DeltaVersion, storage: Storage) -> pa.Table:
    """Return the live files of a version, with the columns of `ActionReader` and `written_path`.

    `written_path` is the path as the log spells it. Raises `CorruptMetadata`.
    """
    names = tuple(field.physical_name for field in version.partition_fields(version.schema()))
    reader = ActionReader(storage, names)
    parts = [read_piece(reader, piece) for piece in pieces_of(version.segment, reader)]
    actions = pa.concat_tables([reader.commits(()), *parts], promote_options="permissive")
    return live_files([actions.append_column("written_path", actions["path"])], version.segment.location)


def written_actions(files: Sequence[WrittenFile], writes: DeltaWrites) -> pa.Table:
    """Return written files as add actions that a scan can plan before they are committed.

    They have only the columns of `ActionReader` that planning needs, and locations as paths.
    """
    values = [writes.partition_values(each.key) for each in files]
    partition = pa.struct([pa.field(each.physical_name, pa.string()) for each in writes.partition_fields])
    rows = len(files)
    return pa.table(
        {
            "path": pa.array([each.location for each in files], pa.string()),
            "partition": pa.array(values, partition),
            "size": pa.array([each.size for each in files], pa.int64()),
            "stats": pa.array([each.details["stats"] for each in files], pa.string()),
            "vector": pa.nulls(rows, VECTOR),
            "base_row_id": pa.nulls(rows, pa.int64()),
            "row_commit_version": pa.nulls(rows, pa.int64()),
        }
    )


def live_adds_at(version: DeltaVersion, storage: Storage, locations: Sequence[str]) -> pa.Table:
    """Return the live files at these locations; raises `CommitConflict` if one is not live."""
    live = live_adds(version, storage)
    wanted = canonical_paths(pa.array(locations, pa.string()))
    found = canonical_paths(live["path"].combine_chunks())
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=found)))
    if len(missing):
        raise CommitConflict(
            f"{version.segment.location}: {len(missing):,} of the files to remove are not in version "
            f"{version.segment.version}, among them {missing[0].as_py()}: another commit removed them"
        ).because(ConflictCause.DELETE_DELETE)
    return live.filter(pc.is_in(found, value_set=wanted))


def whole_adds(version: DeltaVersion, storage: Storage, live: pa.Table) -> pa.Table:
    """Return the complete add actions (`ADD`) of some live files, in their order, to commit them again.

    Reads tags and clustering providers from the log, which scans do not need. Raises `UnsupportedFeature` for an action
    with unknown fields, which would be lost.
    """
    more = _beyond_scans(version, storage, live)
    at = pc.index_in(_keys(live["version"], live["written_path"]), value_set=_keys(more["version"], more["path"]))
    own = more["add"].combine_chunks().take(at)
    columns = {
        "path": live["written_path"],
        "partitionValues": as_map(live["partition"].combine_chunks()),
        "size": live["size"],
        "modificationTime": live["modification_time"],
        "dataChange": pa.repeat(pa.scalar(True), live.num_rows),
        "stats": _stats(live),
        "tags": pc.struct_field(own, "tags"),
        "deletionVector": null_empty_vectors(live["vector"].combine_chunks()),
        "baseRowId": live["base_row_id"],
        "defaultRowCommitVersion": live["row_commit_version"],
        "clusteringProvider": pc.struct_field(own, "clusteringProvider"),
    }
    return table_of(columns, ADD, live.num_rows)


def _beyond_scans(version: DeltaVersion, storage: Storage, live: pa.Table) -> pa.Table:
    """Return the add actions of live files with the fields that scans do not read, such as tags.

    Each is read by `FileActions` from the commit or checkpoint that has it. The rows are in any order, and may include
    other files.
    """
    reader = FileActions(storage, (), "marking rows of files as deleted")
    versions = set(pc.unique(live["version"]).to_pylist())
    paths = live["written_path"].combine_chunks()
    texts = read_commits([each for each in version.segment.commits if each.version in versions], storage)
    tables = [reader.empty(), reader.commits(texts)]
    if -1 in versions:
        pieces = pieces_of(version.segment, ActionReader(storage, ()))
        files = [piece.checkpoint.location for piece in pieces if piece.checkpoint is not None]
        parts = (part for file in files for part in reader.checkpoint_adds(file, _OF_SCANS))
        tables += [part.filter(pc.is_in(part["path"], value_set=paths)) for part in parts]
    actions = pa.concat_tables([each.select(["version", "is_add", "path", "add"]) for each in tables])
    return actions.filter(actions["is_add"])


def _keys(versions: pa.ChunkedArray, paths: pa.ChunkedArray) -> pa.Array:
    keys = pc.binary_join_element_wise(versions.cast(pa.string()), paths, " ")
    return keys.combine_chunks()


def _stats(live: pa.Table) -> pa.Array:
    """Return the JSON statistics of live files, generated from `stats_parsed` if a checkpoint has only that."""
    texts = live["stats"].combine_chunks()
    parsed = live["stats_parsed"].combine_chunks() if "stats_parsed" in live.column_names else None
    if parsed is None or not pa.types.is_struct(parsed.type):
        return texts
    missing = pc.and_(texts.is_null(), parsed.is_valid())
    return pc.replace_with_mask(texts, missing, stats_texts(parsed.filter(missing)))
