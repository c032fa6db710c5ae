"""Files as file actions: the live files of a version, with their paths as the log writes them, and new files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.log.actions import VECTOR, ActionReader
from lakescan.delta.log.pieces import pieces_of, read_piece
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.replay import canonical_paths, live_files
from lakescan.delta.write.data_files import DeltaWrites
from lakescan.errors import CommitConflict
from lakescan.storage import Storage
from lakescan.write.table_writes import WrittenFile


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
