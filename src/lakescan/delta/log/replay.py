"""Reconciliation of file actions into the live files of a version (protocol, "Action Reconciliation").

A file's identity is its path and the id of its deletion vector. A commit that deletes rows by deletion vector removes
the file with its old vector and adds the same path with the new one. The newest action on an identity wins, and a
winning remove is a tombstone.
"""

from __future__ import annotations

from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.log.log_text import ADVICE
from lakescan.errors import CorruptMetadata
from lakescan.storage.locations import adopt_root, normalize_roots

_MOST_CHUNKS = 64  # chunks of live files, before they are combined
_ABSOLUTE = r"^([a-zA-Z][a-zA-Z0-9+.-]+:|/)"


def live_files(parts: list[pa.Table], location: str) -> pa.Table:
    """Reconcile file actions into the live files of a version.

    `parts` are tables of `ActionReader`, and `location` is the table's folder. Raises `CorruptMetadata` if a data file
    is live twice, with different deletion vectors: its rows would be read twice.
    """
    files = reconcile(parts, location)
    check_partitions(files)
    _check_once(files, location)
    return files


def update_live_files(known: pa.Table, parts: list[pa.Table], location: str) -> pa.Table:
    """Return the live files of a version from those of an earlier one, `known`, and the later file actions, `parts`.

    Only files that these actions name are compared. Raises `CorruptMetadata` as `live_files` does.
    """
    actions = resolve_paths(pa.concat_tables(parts, promote_options="permissive"), location)
    if not actions.num_rows:
        return known
    named = pc.is_in(
        canonical_paths(known["path"]), value_set=canonical_paths(actions["path"]).combine_chunks()
    ).to_numpy()
    both = pa.concat_tables([keep_rows(known, named), actions], promote_options="permissive")
    wins = newest_mask(both) & both["is_add"].to_numpy()
    changed = keep_rows(both, wins)
    check_partitions(changed)
    _check_once(changed, location)
    count = named.sum()
    stays = ~named
    stays[named] = wins[:count]
    files = pa.concat_tables([keep_rows(known, stays), keep_rows(actions, wins[count:])], promote_options="permissive")
    return files.combine_chunks() if files["path"].num_chunks > _MOST_CHUNKS else files


def _check_once(files: pa.Table, location: str) -> None:
    if not files.num_rows or not pc.any(has_vectors(files)).as_py():
        return
    paths = canonical_paths(files["path"].combine_chunks())
    if len(pc.unique(paths)) < len(paths):
        counts = pc.value_counts(paths)
        twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
        places = [log_position(files, row) for row in pc.indices_nonzero(pc.equal(paths, twice)).to_pylist()[:2]]
        raise CorruptMetadata(
            f"{location}: the data file {twice} is live twice, with different deletion vectors, by "
            f"{' and '.join(places)}: a remove action is missing or damaged. {ADVICE}"
        )


def check_partitions(files: pa.Table) -> None:
    """Raise `CorruptMetadata` for an action that does not name every partition column (`has_partition` is False)."""
    row = pc.index(files["has_partition"], False).as_py()
    if row >= 0:
        raise CorruptMetadata(
            f"{log_position(files, row)}: the action needs a value for each "
            f"partition column ({', '.join(f.name for f in files['partition'].type)}). {ADVICE}"
        )


def has_vectors(files: pa.Table) -> pa.Array:
    """Return a mask of the file actions (rows of `ActionReader`) that have a deletion vector."""
    return pc.is_valid(files["vector"].combine_chunks().field("storageType"))


def log_position(files: pa.Table, row: int) -> str:
    """Return the commit or checkpoint, the line and the path of the action in a row, for messages."""
    version, line = files["version"][row].as_py(), files["line"][row].as_py()
    where = f"row {line} of a checkpoint" if version < 0 else f"{version:020d}.json, line {line}"
    return f"{where} (file {files['path'][row].as_py()})"


def reconcile(parts: list[pa.Table], location: str) -> pa.Table:
    """Return the live adds among file actions of a checkpoint (version -1) and of commits.

    Paths become locations: relative ones are resolved against `location`, the table's folder.
    """
    actions = pa.concat_tables(parts, promote_options="permissive")
    if not actions.num_rows:
        return actions
    actions = resolve_paths(actions, location)
    return keep_rows(actions, newest_mask(actions) & actions["is_add"].to_numpy())


def newest_mask(actions: pa.Table) -> np.ndarray:
    """Return a mask of the actions that are the newest on their identity; there must be at least one action.

    Their paths must be locations.
    """
    codes = identity(actions).dictionary_encode().indices.to_numpy()
    version = actions["version"].to_numpy()
    # An add and a remove of one identity in the same commit contradict each other: the add wins.
    order = np.lexsort((actions["is_add"].to_numpy(), version))
    last = np.empty(codes.max() + 1, dtype=np.int64)
    last[codes[order]] = order  # of repeated indexes, the last assignment wins
    wins = np.zeros(actions.num_rows, dtype=bool)
    wins[last] = True
    return wins


def identity(actions: pa.Table) -> pa.Array:
    """Return a key of file and deletion vector, equal for all actions on the same file with the same vector."""
    vector = actions["vector"].combine_chunks()
    kind, where, offset = (vector.field(n) for n in ("storageType", "pathOrInlineDv", "offset"))
    at = pc.binary_join_element_wise(pa.scalar("@"), offset.cast(pa.string()), "")
    at = pc.fill_null(at, "")
    vector_id = pc.fill_null(pc.binary_join_element_wise(kind, where, at, ""), "")
    return pc.binary_join_element_wise(canonical_paths(actions["path"].combine_chunks()), vector_id, "\x00")


def resolve_paths(actions: pa.Table, location: str) -> pa.Table:
    """Return the file actions with their paths replaced by locations."""
    paths = file_locations(actions["path"].combine_chunks(), location)
    return actions.set_column(actions.schema.get_field_index("path"), "path", paths)


def file_locations(paths: pa.Array, location: str) -> pa.Array:
    """Return the locations of files from their paths in the log: URIs, absolute or relative to the table's folder.

    Whether a path is absolute is decided before decoding, since a relative path may contain an encoded colon.
    """
    absolute = pc.match_substring_regex(paths, _ABSOLUTE)
    decoded = decoded_paths(paths)
    places = pc.if_else(absolute, decoded, pc.binary_join_element_wise(location.rstrip("/"), decoded, "/"))
    return adopt_root(places, location) if pc.any(absolute).as_py() else places


def decoded_paths(paths: pa.Array) -> pa.Array:
    """Return percent-decoded paths (protocol, "Add File": the path is a URI).

    Costs one Python call per path that contains a %.
    """
    encoded = pc.match_substring(paths, "%")
    if not pc.any(encoded).as_py():
        return paths
    decoded = pa.array([unquote(p) for p in paths.filter(encoded).to_pylist()], pa.string())
    return pc.replace_with_mask(paths, encoded, decoded)


def canonical_paths(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return locations with normalized roots: `file:///x` becomes `/x`, and `s3a` becomes `s3`."""
    if isinstance(paths, pa.ChunkedArray):
        return pa.chunked_array([normalize_roots(each) for each in paths.chunks], paths.type)
    return normalize_roots(paths)


_SHORT = 32  # average rows per run below which Arrow's own filter is faster


def keep_values(array: pa.Array, mask: np.ndarray) -> pa.Array:
    """Return the values that the mask selects."""
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    if len(edges) == 2 and edges[1] - edges[0] == len(array):
        return array
    if len(edges) * _SHORT > len(array):
        return array.filter(pa.array(mask))
    runs = [array.slice(start, stop - start) for start, stop in edges.reshape(-1, 2).tolist()]
    return pa.concat_arrays(runs) if runs else array.slice(0, 0)


def keep_rows(table: pa.Table, mask: np.ndarray) -> pa.Table:
    """Return the rows that the mask selects, chunk by chunk, so that large texts are never concatenated."""
    if mask.all():
        return table
    if not mask.any():
        return table.slice(0, 0)
    return pa.table([_keep_chunks(column, mask) for column in table.columns], schema=table.schema)


def _keep_chunks(column: pa.ChunkedArray, mask: np.ndarray) -> pa.ChunkedArray:
    starts = np.cumsum([0, *(len(c) for c in column.chunks)]).tolist()
    chunks = [keep_values(c, mask[s : s + len(c)]) for c, s in zip(column.chunks, starts[:-1], strict=True)]
    return pa.chunked_array(chunks, column.type)
