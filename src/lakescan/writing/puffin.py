"""Writing of Puffin files (Puffin specification): deletion vectors or other blobs, then a footer that lists them.

Only one blob is in memory at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from lakescan.reading.deletes.deletion_vectors import encode_framed

MAGIC = b"PFA1"
_POSITION_ID = 2147483645  # the reserved field `_pos`
_NO_FLAGS = bytes(4)


class PuffinWriter:
    """Writes deletion vectors or other blobs to an open file. `size` is the number of bytes written so far.

    Example:
        >>> with storage.create(location) as file:
        ...     writer = PuffinWriter(file)
        ...     offset, length = writer.add("s3://lake/t/data/1.parquet", BitMap64([3, 5]))
        ...     size = writer.finish()
    """

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._blobs: list[dict[str, Any]] = []
        self.size: int = 0
        self._write(MAGIC)

    def add(self, path: str, positions: BitMap64) -> tuple[int, int]:
        """Write the deletion vector of the data file `path`, and return its offset and length in bytes.

        `positions` are the deleted rows, counted from 0. Raises `LimitExceeded` for a vector that readers would reject.
        """
        blob, offset = encode_framed(positions), self.size
        self._write(blob)
        self._blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_POSITION_ID],
                "snapshot-id": -1,  # -1: inherited
                "sequence-number": -1,
                "offset": offset,
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(positions))},
            }
        )
        return offset, len(blob)

    def add_blob(self, data: bytes, described: Mapping[str, Any]) -> None:
        """Write a blob, compressed with zstd.

        `described` are the fields of its metadata in the footer except offset, length and codec: `type`, `fields`,
        `snapshot-id`, `sequence-number`, `properties`.
        """
        packed, offset = pa.compress(data, codec="zstd", asbytes=True), self.size
        self._write(packed)
        place = {"offset": offset, "length": len(packed), "compression-codec": "zstd"}
        self._blobs.append({**described, **place})

    def finish(self) -> int:
        """Write the footer and return the size of the file in bytes."""
        footer = {"blobs": self._blobs, "properties": {"created-by": "lakescan"}}
        payload = json.dumps(footer, ensure_ascii=False).encode()
        self._write(MAGIC + payload + len(payload).to_bytes(4, "little") + _NO_FLAGS + MAGIC)
        return self.size

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)
