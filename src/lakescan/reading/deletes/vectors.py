"""Deletion vectors of data files: loaded, and held against what is recorded of the vector and of the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyroaring import BitMap64

from lakescan import limits
from lakescan.errors import CorruptData, CorruptMetadata, LimitExceeded, UnsupportedFeature
from lakescan.reading.decoding import decoding
from lakescan.reading.deletes.roaring import decode_bitmaps, decode_framed
from lakescan.storage.encrypted_stream import is_encrypted_stream
from lakescan.storage.faults import shown
from lakescan.storage.storage import Storage


def load_vector(storage: Storage, delete: Mapping[str, Any]) -> BitMap64:
    """The rows of a deletion vector (a row of a delete table).

    Raises `CorruptMetadata` where it cannot be decoded, or has another cardinality than was recorded; `StorageError`;
    `UnsupportedFeature` for an encrypted one; `LimitExceeded` past `limits.VECTOR`.
    """
    if delete["inline"] is not None:
        where = "an inline deletion vector"
        found = decode_bitmaps(delete["inline"], where)
    else:
        where = f"{shown(delete['path'])} (offset {delete['offset']})"
        with decoding(delete["path"], "its deletion vector"):
            found = _stored(storage, delete, where)
    if delete["record_count"] is not None and len(found) != delete["record_count"]:
        raise CorruptMetadata(
            f"{where} deletes {len(found)} rows where the metadata says {delete['record_count']}: "
            "the wrong vector, or a damaged one"
        )
    return found


def _stored(storage: Storage, delete: Mapping[str, Any], where: str) -> BitMap64:
    path = delete["path"]
    if delete.get("key_metadata") is not None and (
        storage.key_manager is not None or is_encrypted_stream(storage, path)
    ):
        raise UnsupportedFeature("encrypted deletion vectors", f"{path} is one.")
    if delete["length"] > limits.VECTOR:
        raise LimitExceeded(
            f"the deletion vector at {where} is said to have {delete['length']:,} bytes, and {limits.VECTOR:,} is "
            "the limit. If it is what it should be, raise lakescan.limits.VECTOR."
        )
    return decode_framed(storage.read(path, delete["offset"], delete["length"]), where)


def of_file(vector: BitMap64, path: str, rows: int | None) -> BitMap64:
    """The vector, if it is of a file of so many rows; raises `CorruptData` where it deletes others.

    Where the rows were not recorded (None, or -1), none is past `limits.ROWS`.
    """
    known = limits.ROWS if rows is None or rows < 0 else rows
    if vector and vector.max() >= known:
        most = "at most " if known != rows else ""
        raise CorruptData(
            f"{shown(path)} has {most}{known:,} rows, and its deletion vector deletes row {vector.max():,}: it is "
            "another file's, or damaged. Restore the file of the vector, or the metadata that names it."
        )
    return vector
