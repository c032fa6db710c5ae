"""Open data and delete files in any file format: Parquet, ORC, Avro."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from lakescan.errors import UnsupportedFeature
from lakescan.reading.avro.file import open_avro
from lakescan.reading.orc import open_orc
from lakescan.reading.parquet.file import open_parquet
from lakescan.reading.projection import Projection
from lakescan.storage import Storage
from lakescan.storage.encrypted_stream import key_of

_NAMES = {"orc": "ORC files", "avro": "Avro files"}


class DataFile(Protocol):
    """An open file of rows. Its chunks (row groups, stripes, bytes) are numbered in file order."""

    @property
    def schema(self) -> pa.Schema:
        """The file's Arrow schema, with field ids in the fields' metadata."""

    @property
    def rows(self) -> int | None:
        """The row count in the file's footer; of a format without one, None until the last row was read."""

    def chunks(self, start: int, stop: int) -> Sequence[int]:
        """The chunks whose first byte is in [start, stop)."""

    def batches(
        self, chunks: Sequence[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read the projection's columns of those chunks; yield each batch with the file position of its first row."""


def open_data_file(
    storage: Storage, path: str, file_format: str, key_metadata: bytes | None = None, *, verify: bool = False
) -> AbstractContextManager[DataFile]:
    """Open a file; if it is encrypted, with its key from the storage's key manager.

    With `verify`, the checksums of Parquet pages are checked, if present.
    Raises `MissingFile`, `CorruptData`, and `UnsupportedFeature` for a format or encryption that cannot be read.
    """
    if file_format == "parquet":
        return open_parquet(storage, path, key_metadata, verify=verify)
    if file_format not in _NAMES:
        raise UnsupportedFeature(f"{file_format} data files", f"{path} is one.")
    # ORC has an encryption of its own, which nobody uses with Iceberg: Java refuses it, and the specification has none.
    key = key_of(storage, path, key_metadata, _NAMES[file_format])
    return (open_orc if file_format == "orc" else open_avro)(storage, path, key)
