"""Reconciliation: the live files of a version (protocol, "Action Reconciliation").

A file's identity is its path and the id of its deletion vector: an update that only deletes rows removes the file with
its old vector and adds the same path with a new one, in one commit. The newest action on an identity wins; a remove
that wins is a tombstone.
"""

from __future__ import annotations

from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.log.kept_rows import kept_rows
from lakescan.delta.log.text import ADVICE
from lakescan.errors import CorruptMetadata

_ABSOLUTE = r"^([a-zA-Z][a-zA-Z0-9+.-]+:|/)"


def live_files(parts: list[pa.Table], location: str) -> pa.Table:
    """What `reconcile` gives, checked; raises `CorruptMetadata`.

    A file is there once: with two deletion vectors, or with and without one, its rows would be there twice.
    """
    files = reconcile(parts, location)
    check_partitions(files)
    if not files.num_rows or not pc.any(_has_vector(files)).as_py():
        return files
    paths = canonical_paths(files["path"].combine_chunks())
    if len(pc.unique(paths)) < len(paths):
        counts = pc.value_counts(paths)
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
        places = [place(files, row) for row in pc.indices_nonzero(pc.equal(paths, twice)).to_pylist()[:2]]
        raise CorruptMetadata(
            f"{location}: the log has the data file {twice} twice, with different deletion vectors, in "
            f"{' and '.join(places)}: a remove action is missing or damaged. {ADVICE}"
        )
    return files


def check_partitions(files: pa.Table) -> None:
    """Refuse actions that do not say which partition their file is of: its rows would have none."""
    row = pc.index(files["has_partition"], False).as_py()
    if row >= 0:
        raise CorruptMetadata(
            f"{place(files, row)}: the action does not have a value for each "
            f"partition column ({', '.join(f.name for f in files['partition'].type)}). {ADVICE}"
        )


def _has_vector(files: pa.Table) -> pa.Array:
    return pc.is_valid(files["vector"].combine_chunks().field("storageType"))


def place(files: pa.Table, row: int) -> str:
    """The place of a file's action in the log, as messages have it."""
    version, line = files["version"][row].as_py(), files["line"][row].as_py()
    where = f"row {line} of a checkpoint" if version < 0 else f"{version:020d}.json, line {line}"
    return f"{where} (file {files['path'][row].as_py()})"


def reconcile(parts: list[pa.Table], location: str) -> pa.Table:
    """The live adds out of file actions, given oldest first: a checkpoint's (version -1), then the commits'.

    Paths become locations: those that are relative are under `location`, the table's folder.
    """
    actions = pa.concat_tables(parts, promote_options="permissive")
    if not actions.num_rows:
        return actions
    locations = file_locations(actions["path"].combine_chunks(), location)
    actions = actions.set_column(actions.schema.get_field_index("path"), "path", locations)
    codes = identity(actions).dictionary_encode().indices.to_numpy()
    version = actions["version"].to_numpy()
    # Within a commit an add and a remove of one identity contradict each other: the add stands.
    order = np.lexsort((actions["is_add"].to_numpy(), version))
    newest = np.empty(codes.max() + 1, dtype=np.int64)
    newest[codes[order]] = order  # the last assignment stays
    wins = np.zeros(actions.num_rows, dtype=bool)
    wins[newest] = True
    return kept_rows(actions, wins & actions["is_add"].to_numpy())


def identity(actions: pa.Table) -> pa.Array:
    """The text that two actions on the same file and deletion vector share."""
    vector = actions["vector"].combine_chunks()
    kind, where, offset = (vector.field(n) for n in ("storageType", "pathOrInlineDv", "offset"))
    at = pc.binary_join_element_wise(pa.scalar("@"), offset.cast(pa.string()), "")
    at = pc.fill_null(at, "")
    vector_id = pc.fill_null(pc.binary_join_element_wise(kind, where, at, ""), "")
    return pc.binary_join_element_wise(canonical_paths(actions["path"].combine_chunks()), vector_id, "\x00")


def located(actions: pa.Table, location: str) -> pa.Table:
    """File actions with locations for paths."""
    paths = file_locations(actions["path"].combine_chunks(), location)
    return actions.set_column(actions.schema.get_field_index("path"), "path", paths)


def file_locations(paths: pa.Array, location: str) -> pa.Array:
    """Locations of files from their paths in the log: URIs, relative to the table's folder or absolute.

    Whether a path is absolute shows before it is decoded: a relative one may hold an encoded colon.
    """
    absolute = pc.match_substring_regex(paths, _ABSOLUTE)
    decoded = decoded_paths(paths)
    return pc.if_else(absolute, decoded, pc.binary_join_element_wise(location.rstrip("/"), decoded, "/"))


def decoded_paths(paths: pa.Array) -> pa.Array:
    """Paths with their percent-encoding undone (protocol, "Add File": the path is a URI).

    One Python step a path that has a % in it.
    """
    encoded = pc.match_substring(paths, "%")
    if not pc.any(encoded).as_py():
        return paths
    decoded = pa.array([unquote(p) for p in paths.filter(encoded).to_pylist()], pa.string())
    return pc.replace_with_mask(paths, encoded, decoded)


def canonical_paths(paths: pa.Array) -> pa.Array:
    """Absolute local paths without their scheme: `file:///x`, `file:/x` and `/x` are one file."""
    return pc.replace_substring_regex(paths, "^file:/+", "/")
