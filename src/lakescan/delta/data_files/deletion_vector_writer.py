"""Write deletion vectors of data files (protocol, "Deletion Vectors" and "Deletion Vector File Storage Format").

A vector replaces the file's existing one, so it includes the rows that were deleted before. All vectors of one call are
written into one file, as in Delta on Spark; none is inline.
"""

from __future__ import annotations

import secrets
import string
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import numpy as np
from pyroaring import BitMap64

from lakescan.common.executors import LOCAL
from lakescan.delta.scan.deletion_vectors import encode_z85
from lakescan.planning.delete_files import DeleteFile, DeleteFiles, DeleteKind
from lakescan.planning.file_table import FileTable
from lakescan.reading.data_file import check_rows, open_data_file
from lakescan.reading.deletes.deletion_vectors import check_vector_rows, encode_framed, load_vector
from lakescan.storage import Storage, join
from lakescan.storage.errors import storage_boundary
from lakescan.writing.table_writes import WrittenDeletes

_VERSION = b"\x01"
_FRAME = 8  # bytes of length and CRC around a vector
_MOST = 1 << 30  # bytes of a file: offsets have 31 bits
_ALPHANUMERIC = string.ascii_letters + string.digits

# Keys of `WrittenDeletes.details`: the descriptor of the vector, the number of rows of the data file, including deleted
# ones, and the vector that the file had before (`vector_key`).
VECTOR_MEMBER, RECORDS, BEFORE = "vector", "records", "before"
VectorKey = tuple[str | None, int | None, bytes | None]


def vector_key(delete: DeleteFile) -> VectorKey:
    """Return a key that is unique among a table's deletion vectors: file and offset, or the inline bytes.

    >>> vector_key(DeleteFile(DeleteKind.VECTOR, "a.bin", offset=1))
    ('a.bin', 1, None)
    """
    return delete.path, delete.offset, delete.inline


@dataclass(frozen=True)
class _Vector:
    """A vector to write for a data file.

    - `records`: the number of rows of the data file, including deleted ones.
    - `bitmap`: all rows that are deleted after the write.
    - `rows`: how many of them were not deleted before.
    - `before`: the key of the existing vector that it replaces, or None.
    """

    path: str
    records: int
    bitmap: BitMap64
    rows: int
    before: VectorKey | None


@dataclass(frozen=True)
class VectorWriter:
    """Writes deletion vectors of a table, as one write (`lakescan.writing.table_writes.DeleteWriter`).

    - `location`: the table's folder.
    - `write_id`: identifies the write. The names of its files, which are UUIDs, start with the same bytes.
    - `prefix_length`: length of a random folder name for each file; 0 for no folder.

    >>> writer = VectorWriter("/lake/orders", Storage(), "1f2e")
    >>> writer.write(files, [BitMap64([3, 7])])[0].rows  # doctest: +SKIP
    2
    """

    location: str
    storage: Storage
    write_id: str
    prefix_length: int = 0

    def write(self, files: FileTable, positions: Sequence[BitMap64]) -> list[WrittenDeletes]:
        """Write deletion vectors of data files, merged with the vectors that the files have.

        Args:
            files: The data files, each once, with their existing vectors.
            positions: The row positions to delete in each file, from 0; they may include rows that are already deleted.

        Returns:
            The vectors of the files that lose rows. A file that loses all rows has a vector of all its rows.

        Raises:
            CorruptData: A row does not exist, an existing vector does not fit its file, or a file that loses all rows
                has another number of rows than the log records; nothing is written.
            CorruptMetadata: An existing vector is damaged; nothing is written.
            LimitExceeded: A vector would be too large.
            StorageError: Storage failed; written files are deleted if possible.
        """
        vectors = [each for each in self._merge_vectors(files, positions) if each.rows]
        written: list[str] = []
        try:
            return [each for group in _groups(vectors) for each in self._write(group, written)]
        except BaseException:
            with suppress(Exception):
                self.storage.remove(written)  # no commit references them
            raise

    def remove_written(self) -> Sequence[str]:
        """Delete all files of the write; return the locations that could not be deleted."""
        return self.storage.remove(self.storage.find(self.location, str(uuid.UUID(bytes=self._half + bytes(8)))[:18]))

    @property
    def _half(self) -> bytes:
        """The first 8 bytes of the UUID in each file name of the write: a hash of `write_id`."""
        return sha256(self.write_id.encode()).digest()[:8]

    def _merge_vectors(self, files: FileTable, positions: Sequence[BitMap64]) -> list[_Vector]:
        before = self._existing(files)
        paths, records = files.files["path"].to_pylist(), self._records(files)
        vectors = []
        for at, (path, rows, own) in enumerate(zip(paths, records, positions, strict=True)):
            key, old = before.get(at, (None, BitMap64()))
            bitmap = check_vector_rows(own, path, rows) | check_vector_rows(old, path, rows)
            if len(bitmap) == rows:  # the file will be removed: a wrong row count in the log would lose rows
                check_rows(path, self._count_rows(path), rows)
            vectors.append(_Vector(path, rows, bitmap, len(bitmap) - len(old), key))
        return vectors

    def _existing(self, files: FileTable) -> dict[int, tuple[VectorKey, BitMap64]]:
        """Return the existing vectors with their keys, by the index of their data file.

        Raises `ValueError` for a file with other deletes than one deletion vector.
        """
        lengths = files.references.counts
        deletes = DeleteFiles(files.deletes).at(files.references.number.tolist())
        other = [each for each in deletes if each.kind != DeleteKind.VECTOR or each.kept]
        if other or (lengths > 1).any():
            raise ValueError(f"files of {self.location} have deletes that are not one deletion vector each")
        loaded = LOCAL.map(partial(load_vector, self.storage), deletes)
        owners = np.flatnonzero(lengths).tolist()
        return {at: (vector_key(d), old) for at, d, old in zip(owners, deletes, loaded, strict=True)}

    def _records(self, files: FileTable) -> list[int]:
        """Return the number of rows of each file, including deleted ones; read from the footer if not recorded."""
        recorded = zip(files.files["path"].to_pylist(), files.files["record_count"].to_pylist(), strict=True)
        return [self._count_rows(path) if rows is None or rows < 0 else rows for path, rows in recorded]

    def _count_rows(self, path: str) -> int:
        with open_data_file(self.storage, path, "parquet") as file:
            assert file.rows is not None
            return file.rows

    def _write(self, group: Sequence[tuple[_Vector, bytes]], written: list[str]) -> Iterator[WrittenDeletes]:
        """Write one file of vectors, append its location to `written`, and yield a `WrittenDeletes` for each vector."""
        own = self._half + secrets.token_bytes(8)
        prefix = "".join(secrets.choice(_ALPHANUMERIC) for _ in range(self.prefix_length))
        folders = [prefix] if prefix else []
        location = join(self.location, *folders, f"deletion_vector_{uuid.UUID(bytes=own)}.bin")
        written.append(location)
        with storage_boundary("written", location), self.storage.create(location) as stream:
            stream.write(_VERSION + b"".join(frame for _, frame in group))
        offset = len(_VERSION)
        for vector, frame in group:
            descriptor = {
                "storageType": "u",
                "pathOrInlineDv": prefix + encode_z85(own),
                "offset": offset,
                "sizeInBytes": len(frame) - _FRAME,
                "cardinality": len(vector.bitmap),
            }
            details = {VECTOR_MEMBER: descriptor, RECORDS: vector.records, BEFORE: vector.before}
            yield WrittenDeletes(vector.path, vector.rows, location, details)
            offset += len(frame)


def _groups(vectors: Sequence[_Vector]) -> Iterator[list[tuple[_Vector, bytes]]]:
    """Yield groups of encoded vectors, each at most 1 GiB, to be written to one file."""
    group: list[tuple[_Vector, bytes]] = []
    size = 0
    for vector in vectors:
        frame = encode_framed(vector.bitmap)
        if group and size + len(frame) > _MOST:
            yield group
            group, size = [], 0
        group.append((vector, frame))
        size += len(frame)
    if group:
        yield group
