"""Load deletion vectors, and check them against the recorded cardinality and the data file's row count."""

from __future__ import annotations

from pyroaring import BitMap64

from lakescan import limits
from lakescan.errors import CorruptData, CorruptMetadata, LimitExceeded
from lakescan.planning.delete_file import DeleteFile
from lakescan.reading.decoding import decoding
from lakescan.reading.deletes.roaring import decode_bitmaps, decode_framed
from lakescan.storage import Storage
from lakescan.storage.encrypted_stream import key_of, read_part
from lakescan.storage.faults import redact


def load_vector(storage: Storage, delete: DeleteFile) -> BitMap64:
    """Load the positions in a deletion vector.

    Raises `CorruptMetadata` if it cannot be decoded or its cardinality differs from the recorded one; `StorageError`;
    `UnsupportedFeature` if it is encrypted and there is no key manager; `LimitExceeded` if it is larger than
    `limits.VECTOR`.
    """
    if delete.inline is not None:
        where = "an inline deletion vector"
        vector = decode_bitmaps(delete.inline, where)
    else:
        where = f"{redact(delete.location)} (offset {delete.offset})"
        with decoding(delete.location, "its deletion vector"):
            vector = _read_vector(storage, delete, where)
    if delete.record_count is not None and len(vector) != delete.record_count:
        raise CorruptMetadata(
            f"{where} deletes {len(vector)} rows, but the metadata says {delete.record_count}: "
            "it is the wrong vector, or damaged"
        )
    return vector


def _read_vector(storage: Storage, delete: DeleteFile, where: str) -> BitMap64:
    path = delete.location
    if delete.length is None or delete.offset is None:
        raise CorruptMetadata(f"the deletion vector at {where} has no recorded offset and length")
    if delete.length > limits.VECTOR:
        raise LimitExceeded(
            f"the deletion vector at {where} has {delete.length:,} bytes by its metadata, and the limit is "
            f"{limits.VECTOR:,}. If the size is legitimate, raise lakescan.limits.VECTOR."
        )
    key = key_of(storage, path, delete.key_metadata, "deletion vectors")
    return decode_framed(read_part(storage, path, key, delete.offset, delete.length), where)


def check_vector_rows(vector: BitMap64, path: str, rows: int | None) -> BitMap64:
    """Check that a vector fits a file with so many rows; raises `CorruptData` if it deletes rows past the end.

    If the row count was not recorded (None, or -1), the limit is `limits.ROWS`.
    """
    known = limits.ROWS if rows is None or rows < 0 else rows
    if vector and vector.max() >= known:
        most = "at most " if known != rows else ""
        raise CorruptData(
            f"{redact(path)} has {most}{known:,} rows, but its deletion vector deletes row {vector.max():,}: it "
            "belongs "
            "to another file, or is damaged. Restore the vector's file, or the metadata that references it."
        )
    return vector
