"""Check paths of removed files: a remove must have the same path text as its add (protocol, "Action Reconciliation").

Delta on Spark and deltalake compare the texts, not the locations they denote. deltalake percent-encodes the path of a
remove by its own rules, so it would not match an add that another writer encoded differently (Spark keeps `ü`).
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.delta.log.actions import ActionReader
from lakescan.delta.log.pieces import pieces_of, read_piece
from lakescan.delta.log.segment import LogSegment
from lakescan.errors import UnsupportedFeature
from lakescan.storage import Storage

_UNENCODED = "/!$&'()+,:;=@"  # in addition to letters, digits and _.-~, which `quote` never encodes


def by_deltalake(path: str) -> str:
    """The text that deltalake writes for a path that is not percent-encoded."""
    return quote(path, safe=_UNENCODED)


def check_paths(
    segment: LogSegment, partition_columns: tuple[str, ...], storage: Storage, paths: Sequence[str]
) -> None:
    """Raise `UnsupportedFeature` for paths (not percent-encoded) whose removes would not match their adds."""
    if not paths:
        return
    texts = pa.array([by_deltalake(path) for path in paths], pa.string())
    matched = pa.repeat(pa.scalar(False), len(texts))
    reader = ActionReader(storage, partition_columns)
    for piece in pieces_of(segment, reader):
        actions = read_piece(reader, piece)
        matched = pc.or_(matched, pc.is_in(texts, value_set=actions["path"].filter(actions["is_add"])))
    unmatched = pc.invert(matched)
    if pc.any(unmatched).as_py():
        one = paths[pc.index(unmatched, True).as_py()]
        raise UnsupportedFeature(
            f"removing {pc.sum(unmatched).as_py():,} files of {segment.location}, including {one!r}",
            "The log encodes their paths differently from deltalake, which commits: other readers would keep the files "
            "and read rows twice. Delta on Spark can rewrite the table.",
        )
