"""Write deletion vectors of data files (protocol, "Deletion Vectors" and "Deletion Vector File Storage Format").

A vector replaces the one that its file had, so it also has the rows that were deleted before. All vectors of a commit
are written into one file, as by Delta on Spark; none is inline.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakescan.delta.log.actions import VECTOR
from lakescan.delta.scan.deletion_vectors import delete_table, encode_z85
from lakescan.planning.delete_file import delete_files
from lakescan.reading.deletes.roaring import bitmap_of
from lakescan.reading.deletes.vectors import load_vector, of_file
from lakescan.storage import Storage, join
from lakescan.storage.faults import storage_boundary
from lakescan.write.roaring import encode_framed

_VERSION = b"\x01"
_FRAME = 8  # bytes of length and CRC around a vector
_MOST = 1 << 30  # bytes of a file: offsets have 31 bits


@dataclass(frozen=True)
class WrittenVectors:
    """Vectors that were written, one for each data file, in their order.

    - `descriptors`: the members `deletionVector` of their add actions, null for a file that has all its rows.
    - `deleted`: how many rows each file has lost that it still had before.
    - `locations`: the files with the vectors, which no commit names yet.
    """

    descriptors: pa.StructArray
    deleted: np.ndarray
    locations: Sequence[str]


def write_vectors(
    location: str, files: pa.Table, positions: Sequence[np.ndarray], storage: Storage, *, prefix: str = ""
) -> WrittenVectors:
    """Write vectors that delete rows of data files.

    Args:
        location: The table's location.
        files: The data files, each once: `path` for messages, `rows` (how many rows it has, deleted ones included),
            and `vector`, the descriptor of the vector that it has, null or with null members without one.
        positions: The rows to delete of each file, in any order, counted from 0; rows that are deleted already, too.
        storage: The table's storage.
        prefix: A folder below the table's location, without slashes, as random prefixes have it; by default none.

    Raises:
        CorruptData: A row does not exist, or an existing vector does not fit its file; nothing is written.
        CorruptMetadata: An existing vector is damaged; nothing is written.
        LimitExceeded: A vector would be too large.
        StorageError: Storage failed; what was written is removed if that is possible.

    >>> files = pa.table({"path": ["a"], "rows": [10], "vector": pa.nulls(1, VECTOR)})
    >>> write_vectors("/lake/orders", files, [np.array([3, 7])], Storage()).deleted  # doctest: +SKIP
    array([2])
    """
    bitmaps, deleted = _merged(location, files, positions, storage)
    written: list[str] = []
    try:
        groups = _groups([bitmap for bitmap in bitmaps if bitmap])
        made = iter([each for group in groups for each in _write(location, group, storage, prefix, written)])
    except BaseException:
        with suppress(Exception):
            storage.remove(written)  # nothing names them
        raise
    descriptors = [next(made) if bitmap else None for bitmap in bitmaps]
    return WrittenVectors(pa.array(descriptors, VECTOR), deleted, written)


def _merged(
    location: str, files: pa.Table, positions: Sequence[np.ndarray], storage: Storage
) -> tuple[list[BitMap64], np.ndarray]:
    """The rows of each file that are deleted then, and how many of them are not yet."""
    before = _existing(location, files["vector"].combine_chunks(), storage)
    bitmaps, deleted = [], np.zeros(files.num_rows, dtype=np.int64)
    paths, counts = files["path"].to_pylist(), files["rows"].to_pylist()
    for at, (path, rows, own) in enumerate(zip(paths, counts, positions, strict=True)):
        bitmap = of_file(bitmap_of(own), path, rows)
        if (old := before.get(at)) is not None:
            bitmap |= of_file(old, path, rows)
        deleted[at] = len(bitmap) - (0 if old is None else len(old))
        bitmaps.append(bitmap)
    return bitmaps, deleted


def _existing(location: str, vectors: pa.StructArray, storage: Storage) -> dict[int, BitMap64]:
    """The vectors that files have, by their row."""
    has_vector = pc.is_valid(pc.struct_field(vectors, "storageType"))
    at = pc.indices_nonzero(has_vector).to_pylist()
    deletes = delete_files(delete_table(vectors.filter(has_vector).cast(VECTOR), location))
    return {row: load_vector(storage, delete) for row, delete in zip(at, deletes, strict=True)}


def _groups(bitmaps: Sequence[BitMap64]) -> Iterator[list[tuple[bytes, int]]]:
    """Encoded vectors and their numbers of rows, grouped by file."""
    group: list[tuple[bytes, int]] = []
    size = 0
    for bitmap in bitmaps:
        frame = encode_framed(bitmap)
        if group and size + len(frame) > _MOST:
            yield group
            group, size = [], 0
        group.append((frame, len(bitmap)))
        size += len(frame)
    if group:
        yield group


def _write(
    location: str, group: Sequence[tuple[bytes, int]], storage: Storage, prefix: str, written: list[str]
) -> Iterator[dict[str, Any]]:
    """Write one file of vectors; yield their descriptors."""
    own = uuid.uuid4()
    folders = [prefix] if prefix else []
    path = join(location, *folders, f"deletion_vector_{own}.bin")
    written.append(path)
    with storage_boundary("written", path), storage.create(path) as stream:
        stream.write(_VERSION + b"".join(frame for frame, _ in group))
    offset = len(_VERSION)
    name = prefix + encode_z85(own.bytes)
    for frame, rows in group:
        size = len(frame) - _FRAME
        yield {
            "storageType": "u",
            "pathOrInlineDv": name,
            "offset": offset,
            "sizeInBytes": size,
            "cardinality": rows,
        }
        offset += len(frame)
