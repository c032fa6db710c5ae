"""Split a log segment into pieces that are read independently: checkpoint parts, sidecars, batches of commits.

Parsed pieces are kept in the metadata cache, since log files never change once written.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from lakescan.common.cache import METADATA
from lakescan.common.folder_cache import cache_in_folder
from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.checkpoint_files import check_checkpoint
from lakescan.delta.log.log_text import ADVICE, LogText, short_json
from lakescan.delta.log.segment import LOG_FOLDER, LogFile, LogSegment
from lakescan.errors import CorruptMetadata
from lakescan.storage import FileEntry, Storage, join
from lakescan.storage.locations import split_location

_BATCH_BYTES, _COMMIT_COST = (
    1 << 24,
    1 << 14,
)  # bytes of a batch of commits, and bytes counted per commit in addition to its size


@dataclass(frozen=True)
class LogPiece:
    """Either a `checkpoint` file or sidecar, or a batch of `commits`; the other field is empty."""

    checkpoint: FileEntry | None = None
    commits: tuple[LogFile, ...] = ()


def pieces_of(segment: LogSegment, reader: ActionReader) -> list[LogPiece]:
    """Return all pieces of a segment, including the sidecars that its checkpoint lists.

    Raises `CorruptMetadata` if the checkpoint is truncated or lists a sidecar that is not a Parquet file.
    """
    parts = segment.checkpoint.parts if segment.checkpoint is not None else ()
    for part in parts:
        check_checkpoint(part, segment.checkpoint.version if segment.checkpoint is not None else -1, reader.storage)
    sidecars = [_sidecar(segment.location, name, part) for part in parts for name in reader.sidecars(part.location)]
    return [LogPiece(file) for file in (*parts, *sidecars)] + [LogPiece(commits=c) for c in batches(segment.commits)]


def read_piece(reader: ActionReader, piece: LogPiece) -> pa.Table:
    """Return the file actions of a piece, from the metadata cache if possible; columns as in `ActionReader`."""
    files = tuple(c.entry for c in piece.commits) if piece.checkpoint is None else (piece.checkpoint,)
    key = (tuple((f.location, f.size, f.modified) for f in files), reader.partition_columns, reader.storage.identity)
    return METADATA.get(key, cache_in_folder(reader.storage.cache_folder, key, partial(_read, reader, piece)))


def _read(reader: ActionReader, piece: LogPiece) -> pa.Table:
    if piece.checkpoint is not None:
        return reader.checkpoint_part(piece.checkpoint.location)
    return reader.commits(read_commits(piece.commits, reader.storage))


def read_commits(commits: Sequence[LogFile], storage: Storage) -> list[LogText]:
    """Read the texts of commits."""
    contents = storage.read_all([c.entry.location for c in commits], [c.entry.size or None for c in commits])
    return [LogText(c.entry.location, content, c.version) for c, content in zip(commits, contents, strict=True)]


def batches(commits: tuple[LogFile, ...]) -> list[tuple[LogFile, ...]]:
    """Split commits into batches of about 16 MiB that are read and parsed together."""
    ends = np.cumsum([c.entry.size + _COMMIT_COST for c in commits]) // _BATCH_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(commits)]
    return [commits[a:b] for a, b in itertools.pairwise(cuts) if b > a]


def _sidecar(location: str, name: str, part: FileEntry) -> FileEntry:
    if not name.endswith(".parquet"):
        raise CorruptMetadata(
            f"{part.location} names the sidecar {short_json(name)}, which is not a Parquet file. {ADVICE}"
        )
    is_relative = split_location(name)[0] == "file" and not name.startswith("/")
    path = join(location, LOG_FOLDER, "_sidecars", name) if is_relative else name
    return FileEntry(name, path, 0, None)
