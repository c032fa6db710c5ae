"""Collect facts about a Delta log for reports on table health (`formats.table_format`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.timestamps import to_millis
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_files import CheckpointFile
from lakescan.delta.log.json_lines import parse_log_texts
from lakescan.delta.log.log_pieces import pieces_of, read_commits
from lakescan.delta.log.log_text import LogText
from lakescan.delta.log.reader import DeltaVersion
from lakescan.delta.log.replay import file_locations
from lakescan.delta.log.segment import LogListing, LogSegment
from lakescan.formats.table_format import KeptStates, LogFacts, MetadataFacts
from lakescan.planning.file_table import FileTable
from lakescan.storage import Storage


def metadata_facts(
    version: DeltaVersion, listing: LogListing, files: FileTable, storage: Storage, now: datetime
) -> MetadataFacts:
    """Return the facts of a version with the live files `files`, for a health report at the time `now`.

    `listing` is the whole log. Reads the tombstones of the version's log segment.
    """
    properties = version.metadata.properties
    segment = version.segment
    base = segment.checkpoint
    log = LogFacts(
        commits=len(segment.commits),
        commit_bytes=sum(each.entry.size for each in segment.commits),
        checkpoint=None if base is None else base.version,
        checkpoint_at=None if base is None else base.parts[0].modified,
        checkpoint_bytes=0 if base is None else sum(each.size for each in base.parts),
        interval=properties.checkpoint_interval,
    )
    removed = tombstones(segment, storage)
    gone = removed.filter(pc.invert(pc.is_in(removed["path"], value_set=files.files["path"])))
    before = to_millis(now - properties.removed_file_retention)
    old = gone.filter(pc.fill_null(pc.less(gone["removed_at"], before), True))
    times = [each.entry.modified for each in listing.commits[:1]]
    kept = KeptStates(
        count=max(len(listing.commits), 1),
        oldest=times[0] if times else None,
        files=gone.num_rows,
        bytes=_size(gone),
        removable_files=old.num_rows,
        removable_bytes=_size(old),
    )
    return MetadataFacts(properties.target_file_size, log.commit_bytes + log.checkpoint_bytes, kept, log=log)


def _size(files: pa.Table) -> int:
    return int(pc.sum(files["size"]).as_py() or 0)


_MEMBERS = [pa.field("path", pa.string()), pa.field("size", pa.int64()), pa.field("deletionTimestamp", pa.int64())]
_REMOVE = pa.schema([pa.field("remove", pa.struct(_MEMBERS))])
TOMBSTONES = pa.schema(
    [
        pa.field("path", pa.string()),  # the location
        pa.field("size", pa.int64()),  # bytes; null if not recorded
        pa.field("removed_at", pa.int64()),  # milliseconds since 1970; null if not recorded
    ]
)


def tombstones(segment: LogSegment, storage: Storage) -> pa.Table:
    """Return the tombstones of a segment (`TOMBSTONES`), one per path; some of the files may be live again."""
    parts = [TOMBSTONES.empty_table()]
    for piece in pieces_of(segment, ActionReader(storage, ())):
        if piece.checkpoint is None:
            parts += _parse_tombstones(read_commits(piece.commits, storage), segment.location)
        elif piece.checkpoint.location.endswith(".json"):
            location = piece.checkpoint.location
            parts += _parse_tombstones([LogText(location, storage.read(location))], segment.location)
        else:
            file = CheckpointFile(piece.checkpoint.location, storage)
            for rows, _ in file.batches("remove", [field.name for field in _MEMBERS]):
                parts += [_tombstone_table(rows.combine_chunks(), segment.location)]
    found = pa.concat_tables(parts).group_by("path").aggregate([("size", "max"), ("removed_at", "max")])
    return found.rename_columns(["path", "size", "removed_at"]).cast(TOMBSTONES)


def _parse_tombstones(texts: Sequence[LogText], location: str) -> Iterator[pa.Table]:
    for lines in parse_log_texts(texts, _REMOVE):
        yield _tombstone_table(lines.rows["remove"].combine_chunks(), location)


def _tombstone_table(removes: pa.Array, location: str) -> pa.Table:
    some = removes.filter(pc.is_valid(pc.struct_field(removes, "path")))
    known = {field.name for field in some.type}
    columns = [
        pc.struct_field(some, f.name).cast(f.type) if f.name in known else pa.nulls(len(some), f.type) for f in _MEMBERS
    ]
    return pa.table([file_locations(columns[0], location), *columns[1:]], schema=TOMBSTONES)
