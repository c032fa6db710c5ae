"""The files that a Delta log says were removed: its tombstones (protocol, "Remove File")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_files import CheckpointFile
from lakescan.delta.log.json_lines import parse_log_texts
from lakescan.delta.log.replay import file_locations
from lakescan.delta.log.segment import LogSegment
from lakescan.delta.log.segment_parts import pieces_of, read_commits
from lakescan.delta.log.text import LogText
from lakescan.storage import Storage

_MEMBERS = [pa.field("path", pa.string()), pa.field("size", pa.int64()), pa.field("deletionTimestamp", pa.int64())]
_REMOVE = pa.schema([pa.field("remove", pa.struct(_MEMBERS))])
TOMBSTONES = pa.schema(
    [
        pa.field("path", pa.string()),  # the location
        pa.field("size", pa.int64()),  # bytes; null where the log does not say
        pa.field("removed_at", pa.int64()),  # milliseconds since 1970; null where the log does not say
    ]
)


def tombstones(segment: LogSegment, storage: Storage) -> pa.Table:
    """The tombstones of a segment (`TOMBSTONES`), a path once: files that may be live again are among them."""
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
