"""Read file actions into Arrow tables: commits (JSON lines) and checkpoints (Parquet or JSON) with one schema.

File actions of a batch of commits are parsed together. Incomplete actions raise an error: an add without a path would
lose a file, and a damaged remove or deletion vector would bring deleted rows back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.arrays import empty_structs, struct_member
from lakescan.delta.log.checkpoint_files import CheckpointFile
from lakescan.delta.log.json_lines import LogLines, parse_log_texts
from lakescan.delta.log.log_text import ADVICE, LogText, parse_json, short_json
from lakescan.delta.log.replay import keep_values
from lakescan.errors import CorruptMetadata
from lakescan.reading.decoding_errors import decoding
from lakescan.storage import Storage

# Numeric fields of an add action, and the result columns for them.
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
_SIDECAR = pa.schema([pa.field("sidecar", pa.struct([pa.field("path", pa.string())]))])
_LOOSE = frozenset({"stats", "partitionValues"})  # fields where some writers leave strings unquoted
_MEMBERS = ("path", "partitionValues", "size", "stats", "stats_parsed", "deletionVector", *_NUMBERS)


@dataclass(frozen=True)
class ActionReader:
    """Reads file actions of a table with these partition columns (physical names).

    Results have one row per add or remove, with these columns. All methods raise `CorruptMetadata` for an incomplete
    action.

    - `version`: the commit's version, -1 for a checkpoint; `line`: the line in the commit or row in the checkpoint.
    - `is_add`, `path` (as written), `size`, `modification_time` (milliseconds).
    - `partition`: struct of text by physical name; `has_partition`: whether every partition column has a value.
    - `stats` (JSON text), `stats_parsed` (struct, if recorded), `vector` (deletion vector descriptor).
    - `base_row_id`, `row_commit_version`: row tracking.
    """

    storage: Storage
    partition_columns: tuple[str, ...]

    def commits(self, commits: Iterable[LogText]) -> pa.Table:
        """Return the add and remove actions of commits; raises `CorruptMetadata` also for a line with both."""
        tables = [self._empty()]
        for lines in parse_log_texts(commits, self._json_schema(), _LOOSE):
            check_one_action(lines.rows, ("add", "remove"), lines.where)
            for name in ("remove", "add"):
                tables += [self._lines_table(own, lines, at, name) for own, at in _non_null_chunks(lines.rows[name])]
        return pa.concat_tables(tables)

    def changes(self, commits: Iterable[LogText]) -> pa.Table:
        """Return the data changes of commits, one row per add, remove or cdc action.

        `action` is the action's name and `data_change` its `dataChange` flag; other columns are as in `commits`.
        """
        file = [pa.field("path", pa.string()), pa.field("size", pa.int64()), *self._partition_field()]
        changed = [*file, pa.field("dataChange", pa.bool_()), pa.field("deletionVector", VECTOR)]
        kinds = {"add": [*changed, pa.field("stats", pa.string())], "remove": changed, "cdc": file}
        schema = pa.schema([pa.field(name, pa.struct(members)) for name, members in kinds.items()])
        tables = [_as_change(self._empty(), "add", pa.array([], pa.bool_()))]
        for lines in parse_log_texts(commits, schema, _LOOSE):
            check_one_action(lines.rows, tuple(kinds), lines.where)
            for name in kinds:
                for own, at in _non_null_chunks(lines.rows[name]):
                    table = self._lines_table(own, lines, at, name)
                    data_change = pc.fill_null(member_of(own, "dataChange", pa.bool_()), True)
                    tables.append(_as_change(table, name, data_change))
        return pa.concat_tables(tables).combine_chunks()

    def checkpoint_part(self, location: str) -> pa.Table:
        """Return the adds of one checkpoint file or sidecar, and for a JSON checkpoint also the removes."""
        if location.endswith(".json"):
            return self.commits([LogText(location, self.storage.read(location))])
        tables = [self._empty()]
        file = CheckpointFile(location, self.storage)
        with decoding(location, "the checkpoint"):
            for rows, start in file.batches("add", _MEMBERS):
                tables += [self._checkpoint_table(own, at + start, file.where) for own, at in _non_null_chunks(rows)]
            return pa.concat_tables(tables, promote_options="permissive")

    def sidecars(self, location: str) -> list[str]:
        """Return the paths of the sidecars that a checkpoint file lists, as written (protocol, "V2 Spec")."""
        if location.endswith(".json"):
            parts = parse_log_texts([LogText(location, self.storage.read(location))], _SIDECAR)
            actions = [(own, at, lines.where) for lines in parts for own, at in _non_null_chunks(lines.rows["sidecar"])]
        else:
            file = CheckpointFile(location, self.storage)
            batches = file.batches("sidecar", ("path",))
            actions = [(own, at + start, file.where) for rows, start in batches for own, at in _non_null_chunks(rows)]
        for own, at, where in actions:
            check_paths(member_of(own, "path", pa.string()), "sidecar", _select_where(where, at))
        return [path for own, _, _ in actions for path in member_of(own, "path", pa.string()).to_pylist()]

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
        return pa.schema([pa.field("add", pa.struct(add)), pa.field("remove", pa.struct(remove))])

    def _partition_field(self) -> list[pa.Field]:
        if not self.partition_columns:
            return []
        return [pa.field("partitionValues", pa.struct([pa.field(n, pa.string()) for n in self.partition_columns]))]

    def _lines_table(self, actions: pa.StructArray, lines: LogLines, at: np.ndarray, name: str) -> pa.Table:
        """Return actions of one name (add, remove or cdc) as a table; `at` are their row numbers in the lines."""
        check_paths(member_of(actions, "path", pa.string()), name, _select_where(lines.where, at))
        columns = self.partition_columns if actions.type.get_field_index("partitionValues") >= 0 else ()
        if name == "remove" and columns:  # Delta's own writer leaves out null values, but only in removes
            has_partition = pc.struct_field(actions, "partitionValues").is_valid()
        else:
            has_partition = names_in_lines(actions, columns, lambda rows: lines.raw.take(pa.array(at[rows])))
        table = self._build_table(actions, has_partition, is_add=name == "add")
        check_descriptors(table["vector"].combine_chunks(), has_vector(actions), _select_where(lines.where, at))
        return _add_position(table, lines.version[at], lines.line[at])

    def _checkpoint_table(self, actions: pa.StructArray, at: np.ndarray, where: Where) -> pa.Table:
        """Return adds of a checkpoint as a table.

        `at` are their row numbers in the checkpoint, and `where` returns the file and row for such a number.
        """
        check_paths(member_of(actions, "path", pa.string()), "add", _select_where(where, at))
        table = self._build_table(actions, names_in_maps(actions, self.partition_columns), is_add=True)
        check_descriptors(table["vector"].combine_chunks(), has_vector(actions), _select_where(where, at))
        return _add_position(table, np.full(len(at), -1, dtype=np.int64), at + 1)

    def _build_table(self, actions: pa.StructArray, has_partition: pa.Array, *, is_add: bool) -> pa.Table:
        rows = len(actions)
        columns = {
            "is_add": pa.repeat(pa.scalar(is_add), rows),
            "path": member_of(actions, "path", pa.string()),
            "partition": self._partition(actions),
            "has_partition": has_partition,
            "size": member_of(actions, "size", pa.int64()),
            "stats": _stats(actions),
            "vector": vector_of(actions),
            **{column: member_of(actions, name, pa.int64()) for name, column in _NUMBERS.items()},
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
                members.append(struct_member(values, name).cast(pa.string()))
        if not members:
            return empty_structs(len(actions))
        return pa.StructArray.from_arrays(members, names=list(self.partition_columns))

    def _empty(self) -> pa.Table:
        nothing = pa.array([], pa.struct([pa.field("path", pa.string())]))
        table = self._build_table(nothing, pa.array([], pa.bool_()), is_add=True)
        return _add_position(table, np.array([], dtype=np.int64), np.array([], dtype=np.int64))


def _as_change(table: pa.Table, name: str, data_change: pa.Array) -> pa.Table:
    table = table.append_column("action", pa.repeat(pa.scalar(name), table.num_rows))
    return table.append_column("data_change", data_change)


def _add_position(table: pa.Table, version: np.ndarray, line: np.ndarray) -> pa.Table:
    """Prepend the columns `version` and `line`."""
    table = table.add_column(0, "line", pa.array(line, pa.int64()))
    return table.add_column(0, "version", pa.array(version, pa.int64()))


def _non_null_chunks(actions: pa.ChunkedArray) -> Iterator[tuple[pa.StructArray, np.ndarray]]:
    """Yield the non-null rows, chunk by chunk, with their row numbers."""
    start = 0
    for chunk in actions.chunks:
        present = chunk.is_valid().to_numpy(zero_copy_only=False)
        yield keep_values(chunk, present), np.flatnonzero(present) + start
        start += len(chunk)


def _select_where(where: Where, at: np.ndarray) -> Where:
    """Return a function from a row's number in a selection to its file and line.

    `at` are the original numbers of the selected rows, and `where` returns file and line for an original number.
    """
    return lambda row: where(int(at[row]))


def member_of(actions: pa.StructArray, name: str, kind: pa.DataType) -> pa.Array:
    """Return the field `name` of the action structs, cast to `kind`; all null if the structs do not have it."""
    index = actions.type.get_field_index(name)
    return pa.nulls(len(actions), kind) if index < 0 else pc.struct_field(actions, [index]).cast(kind)


def _stats(actions: pa.StructArray) -> pa.Array:
    """Return the statistics (JSON) of each action; all null if the field is not text or any value is not UTF-8.

    Unusable statistics must not fail a read.
    """
    try:
        stats = member_of(actions, "stats", pa.string())
        stats.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(actions), pa.string())
    return stats


def _descriptor(actions: pa.StructArray) -> pa.Array | None:
    index = actions.type.get_field_index("deletionVector")
    return None if index < 0 else pc.struct_field(actions, [index])


def vector_of(actions: pa.StructArray) -> pa.StructArray:
    """Return the deletion vector descriptors; all their fields are null for a file without one."""
    descriptor = _descriptor(actions)
    members = []
    for field in VECTOR:
        at = -1 if descriptor is None else descriptor.type.get_field_index(field.name)
        missing = pa.nulls(len(actions), field.type)
        members.append(missing if at < 0 else pc.struct_field(descriptor, [at]).cast(field.type))
    return pa.StructArray.from_arrays(members, fields=list(VECTOR))


def has_vector(actions: pa.StructArray) -> pa.Array:
    """Return a mask of the actions that have a deletion vector descriptor."""
    descriptor = _descriptor(actions)
    return pa.repeat(pa.scalar(False), len(actions)) if descriptor is None else descriptor.is_valid()


# Checks work on whole columns. `where` returns the file and line of a row of the checked actions, for messages.

Where = Callable[[int], str]
_STORAGE_TYPES = ("u", "i", "p")
_UUID_LENGTH = 20  # Base85 characters
_FILE_ACTIONS = ("add", "remove", "cdc")
# The partition values of a line without braces and escapes, in which every quoted text before a colon is a name.
_PLAIN_VALUES = r'"partitionValues"\s*:\s*(?P<values>\{[^{}\\]*\})'


def check_one_action(rows: pa.Table, names: Sequence[str], where: Where) -> None:
    """Raise `CorruptMetadata` for a line with two file actions, which could contradict each other.

    `names` are the columns of file actions in `rows`, and `where` returns the file and line of a row.
    """
    present = sum(rows[name].is_valid().to_numpy().astype(np.int8) for name in names)
    if (several := np.flatnonzero(present > 1)).size:
        raise CorruptMetadata(f"{where(int(several[0]))} has more than one file action. {ADVICE}")


def check_paths(paths: pa.Array, name: str, where: Where) -> None:
    """Raise `CorruptMetadata` for an action whose path is missing or empty.

    `name` is the kind of action, and `where` returns the file and line of a row.
    """
    wrong = pc.fill_null(pc.equal(paths, ""), True)
    if (row := _first(wrong)) is not None:
        fault = "is empty" if paths[row].is_valid else "is missing"
        raise CorruptMetadata(f"{where(row)}: {name}.path {fault}: the action names no file. {ADVICE}")


def check_descriptors(vectors: pa.StructArray, present: pa.Array, where: Where) -> None:
    """Raise `CorruptMetadata` for a deletion vector descriptor with missing or invalid fields.

    `present` is a mask of the rows that have a descriptor, and `where` returns the file and line of a row.
    """
    if not pc.any(present).as_py():
        return
    kind, path, offset, size, count = (vectors.field(f.name) for f in vectors.type)
    short = pc.and_(pc.equal(kind, "u"), pc.less(pc.utf8_length(path), _UUID_LENGTH))
    wrong = [
        pc.invert(pc.is_in(kind, value_set=pa.array(_STORAGE_TYPES, kind.type))),
        short,
        pc.is_null(path),
        pc.less(size, 0),
        pc.less(count, 0),
        pc.fill_null(pc.less(offset, 0), False),
    ]
    for mask in wrong:
        if (row := _first(pc.and_(present, pc.fill_null(mask, True)))) is not None:
            raise CorruptMetadata(
                f"{where(row)}: the deletion vector's descriptor is {short_json(vectors[row].as_py())}. It needs "
                "storageType u, i or p, a matching pathOrInlineDv, sizeInBytes and cardinality. "
                f"{ADVICE}"
            )


def names_in_lines(actions: pa.StructArray, columns: Sequence[str], raw: Callable[[np.ndarray], pa.Array]) -> pa.Array:
    """Return a mask of the actions in JSON lines whose `partitionValues` name every partition column, if only as null.

    `columns` are the partition columns. `raw` returns the text of the lines of given rows, since only the text
    distinguishes a null value from a missing one.
    """
    if not columns:
        return pa.repeat(pa.scalar(True), len(actions))
    values = pc.struct_field(actions, "partitionValues")
    complete = values.is_valid().to_numpy(zero_copy_only=False).copy()
    rows = _with_null([struct_member(values, name) for name in columns], complete)
    if rows.size:
        complete[rows] = _all_named(raw(rows), columns)
    return pa.array(complete)


def _all_named(lines: pa.Array, columns: Sequence[str]) -> np.ndarray:
    values = pc.struct_field(pc.extract_regex(lines, _PLAIN_VALUES), "values")
    named = np.ones(len(lines), dtype=bool)
    for name in columns:
        pattern = f'"{re.escape(name)}"\\s*:'
        named &= pc.fill_null(pc.match_substring_regex(values, pattern), False).to_numpy(zero_copy_only=False)
    is_plain = not any(set('"\\') & set(name) or not name.isprintable() for name in columns)
    unsure = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)) if is_plain else np.arange(len(lines))
    for row in unsure.tolist():  # names or values with braces or escapes, which are rare: parse the line
        named[row] = set(columns) <= set(_partition_values(lines[row].as_py()))
    return named


def _partition_values(line: str) -> dict[str, object]:
    node = parse_json(line, "")
    actions = (node.get(name) for name in _FILE_ACTIONS)
    return next((action.get("partitionValues") or {} for action in actions if action is not None), {})


def names_in_maps(actions: pa.StructArray, columns: Sequence[str]) -> pa.Array:
    """Return a mask of a checkpoint's actions whose `partitionValues` name every partition column, if only as null.

    `columns` are the partition columns.
    """
    index = actions.type.get_field_index("partitionValues")
    if not columns or index < 0:
        return pa.repeat(pa.scalar(not columns), len(actions))
    values = pc.struct_field(actions, [index])
    complete = values.is_valid().to_numpy(zero_copy_only=False).copy()
    if not pa.types.is_map(values.type):
        return pa.array(complete)
    rows = _with_null([pc.map_lookup(values, pa.scalar(name), "first") for name in columns], complete)
    if rows.size:
        maps = values.take(pa.array(rows))
        owner = np.repeat(np.arange(len(rows)), np.diff(maps.offsets.to_numpy()))
        keys = maps.keys.slice(int(maps.offsets[0].as_py()), len(owner))
        for name in columns:
            has_name = owner[pc.equal(keys, name).to_numpy(zero_copy_only=False)]
            complete[rows] &= np.bincount(has_name, minlength=len(rows)) > 0
    return pa.array(complete)


def _with_null(members: Sequence[pa.Array], among: np.ndarray) -> np.ndarray:
    """Return the numbers of the rows that the mask `among` selects and that are null in any of the `members`."""
    null = np.zeros(len(among), dtype=bool)
    for member in members:
        if member.null_count:
            null |= member.is_null().to_numpy(zero_copy_only=False)
    return np.flatnonzero(null & among)


def _first(mask: pa.Array) -> int | None:
    row = pc.index(mask, True).as_py()
    return None if row < 0 else row
