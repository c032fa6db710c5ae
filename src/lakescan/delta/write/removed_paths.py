"""The paths of files that go: a remove has to have the text that the add has (protocol, "Action Reconciliation").

Delta on Spark and deltalake compare these texts, not the places that they mean. deltalake encodes the path of a remove
by rules of its own, so that of an add which another writer encoded otherwise (Spark leaves `ü` as it is) is not met.
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
from lakescan.storage.storage import Storage

_AS_IS = "/!$&'()+,:;=@"  # beside letters, digits and _.-~, which `quote` leaves as they are, too


def by_deltalake(path: str) -> str:
    """The text of a path, which is not encoded, in an action that deltalake writes."""
    return quote(path, safe=_AS_IS)


def check_paths(
    segment: LogSegment, partition_columns: tuple[str, ...], storage: Storage, paths: Sequence[str]
) -> None:
    """Raise `UnsupportedFeature` for paths (not encoded) whose removes would not have the text of their adds."""
    if not paths:
        return
    texts = pa.array([by_deltalake(path) for path in paths], pa.string())
    met = pa.repeat(pa.scalar(False), len(texts))
    reader = ActionReader(storage, partition_columns)
    for piece in pieces_of(segment, reader):
        actions = read_piece(reader, piece)
        met = pc.or_(met, pc.is_in(texts, value_set=actions["path"].filter(actions["is_add"])))
    others = pc.invert(met)
    if pc.any(others).as_py():
        one = paths[pc.index(others, True).as_py()]
        raise UnsupportedFeature(
            f"removing {pc.sum(others).as_py():,} files of {segment.location}, {one!r} among them",
            "The log spells their paths as deltalake, which commits, does not: other readers would keep the files, and "
            "have rows twice. Delta on Spark can rewrite the table.",
        )
