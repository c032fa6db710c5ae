"""Files as file actions: the live files of a version, with their paths as the log writes them, and new files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.commit.file_actions import FileActions
from lakescan.delta.commit.file_changes import ADD, as_map, null_empty_vectors, table_of
from lakescan.delta.commit.json_stats import stats_texts
from lakescan.delta.data_files.data_files import DeltaWrites
from lakescan.delta.log.actions import VECTOR, ActionReader
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.replay import canonical_paths, live_files
from lakescan.delta.log.segment_parts import pieces_of, read_commits, read_piece
from lakescan.errors import CommitConflict
from lakescan.storage import Storage
from lakescan.writing.table_writes import WrittenFile

# Members of adds that scans read, and members that are made of others.
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
    """Return the live files of a version: columns as of `ActionReader`, and `written_path`."""
    names = tuple(field.physical_name for field in version.partition_fields(version.schema()))
    reader = ActionReader(storage, names)
    parts = [read_piece(reader, piece) for piece in pieces_of(version.segment, reader)]
    actions = pa.concat_tables([reader.commits(()), *parts], promote_options="permissive")
    return live_files([actions.append_column("written_path", actions["path"])], version.segment.location)


def written_actions(files: Sequence[WrittenFile], writes: DeltaWrites) -> pa.Table:
    """Return written files as file actions that a scan can plan before they are committed."""
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
    """Return those of the live files that are at these locations; raises `CommitConflict` if one is not live."""
    live = live_adds(version, storage)
    wanted = canonical_paths(pa.array(locations, pa.string()))
    found = canonical_paths(live["path"].combine_chunks())
    missing = wanted.filter(pc.invert(pc.is_in(wanted, value_set=found)))
    if len(missing):
        raise CommitConflict(
            f"{version.segment.location}: {len(missing):,} of the files to remove are not in version "
            f"{version.segment.version}, among them {missing[0].as_py()}: another commit removed them"
        )
    return live.filter(pc.is_in(found, value_set=wanted))


def whole_adds(version: DeltaVersion, storage: Storage, live: pa.Table) -> pa.Table:
    """Return the add actions (`ADD`) of some live files, in their order, to commit them again.

    Reads tags and clustering providers from the log, which scans do not need. Raises `UnsupportedFeature` for an action
    with members that are not known: they would be lost.
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
    """The adds of the live files, by `FileActions`; those of checkpoints without the members that scans read."""
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
    """The statistics of live files as texts, also of those that a checkpoint holds as columns alone."""
    texts = live["stats"].combine_chunks()
    parsed = live["stats_parsed"].combine_chunks() if "stats_parsed" in live.column_names else None
    if parsed is None or not pa.types.is_struct(parsed.type):
        return texts
    missing = pc.and_(texts.is_null(), parsed.is_valid())
    return pc.replace_with_mask(texts, missing, stats_texts(parsed.filter(missing)))
