"""A log segment in pieces that are read apart: each checkpoint part and sidecar, and commits some megabytes at a time.

What is parsed of a piece is kept in the cache of metadata: none of them is ever written again.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakescan.common.cache import METADATA
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_actions import check_checkpoint
from lakescan.delta.log.segment import LOG_FOLDER, LogFile, LogSegment
from lakescan.delta.log.text import ADVICE, LogText, shown
from lakescan.errors import CorruptMetadata
from lakescan.storage.locations import split_location
from lakescan.storage.storage import FileEntry, Storage, join

_BATCH_BYTES, _COMMIT_COST = 1 << 24, 1 << 14


@dataclass(frozen=True)
class LogPiece:
    """A file of a checkpoint, or some commits."""

    checkpoint: FileEntry | None = None
    commits: tuple[LogFile, ...] = ()


def pieces_of(segment: LogSegment, reader: ActionReader) -> list[LogPiece]:
    """All pieces of a segment; of checkpoints, their lists of sidecars are read."""
    parts = segment.checkpoint.parts if segment.checkpoint is not None else ()
    for part in parts:
        check_checkpoint(part, segment.checkpoint.version if segment.checkpoint is not None else -1, reader.storage)
    sidecars = [_sidecar(segment.location, name, part) for part in parts for name in reader.sidecars(part.location)]
    return [LogPiece(file) for file in (*parts, *sidecars)] + [LogPiece(commits=c) for c in batches(segment.commits)]


def read_piece(reader: ActionReader, piece: LogPiece) -> pa.Table:
    """The file actions of a piece."""
    files = tuple(c.entry for c in piece.commits) if piece.checkpoint is None else (piece.checkpoint,)
    key = (tuple((f.location, f.size, f.modified) for f in files), reader.partition_columns, reader.storage.identity)
    return METADATA.get(key, lambda: _read(reader, piece), reader.storage.cache_folder)


def _read(reader: ActionReader, piece: LogPiece) -> pa.Table:
    if piece.checkpoint is not None:
        return reader.checkpoint_part(piece.checkpoint.location)
    return reader.commits(read_commits(piece.commits, reader.storage))


def read_commits(commits: Sequence[LogFile], storage: Storage) -> list[LogText]:
    """The texts of commits."""
    contents = storage.read_all([c.entry.location for c in commits], [c.entry.size or None for c in commits])
    return [LogText(c.entry.location, content, c.version) for c, content in zip(commits, contents, strict=True)]


def batches(commits: tuple[LogFile, ...]) -> list[tuple[LogFile, ...]]:
    """Commits that are read and parsed together: many small ones, or some megabytes."""
    ends = np.cumsum([c.entry.size + _COMMIT_COST for c in commits]) // _BATCH_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(commits)]
    return [commits[a:b] for a, b in itertools.pairwise(cuts) if b > a]


def _sidecar(location: str, name: str, part: FileEntry) -> FileEntry:
    if not name.endswith(".parquet"):
        raise CorruptMetadata(f"{part.location} names a sidecar {shown(name)}: sidecars are Parquet files. {ADVICE}")
    is_relative = split_location(name)[0] == "file" and not name.startswith("/")
    found = join(location, LOG_FOLDER, "_sidecars", name) if is_relative else name
    return FileEntry(name, found, 0, None)
