"""Write a file of position deletes: rows of `file_path` and `pos`, sorted (specification, "Position Delete Files")."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from lakescan.iceberg.data_files.table_writes import IcebergWrites
from lakescan.iceberg.manifests.bounds import encode_value
from lakescan.iceberg.manifests.codes import POSITION_DELETES
from lakescan.reading.deletes.positions import DELETED_PATH, DELETED_POSITION
from lakescan.reading.deletes.roaring import positions_in_range
from lakescan.storage.faults import storage_boundary
from lakescan.writing.table_writes import Key, WrittenFile

_RANGE = 1 << 20  # rows of a data file whose deletes are written at once
_NAMES = pa.dictionary(pa.int32(), pa.string())
_SCHEMA = pa.schema(
    [
        pa.field(each.name, kind, nullable=False, metadata={"PARQUET:field_id": str(each.id)})
        for each, kind in ((DELETED_PATH, _NAMES), (DELETED_POSITION, pa.int64()))
    ]
)


class PositionDeleteFile:
    """An open file of position deletes. Data files are added in the order of their paths."""

    def __init__(self, writes: IcebergWrites, location: str) -> None:
        self.location = location
        self.size: int = 0  # of what is written, in bytes
        self._sink = writes.storage.create(location)
        with storage_boundary("written", location, passing=pa.ArrowException):
            self._writer = pq.ParquetWriter(self._sink, _SCHEMA, store_schema=False, **writes.delete_parquet_options)
        self._rows = 0
        self._paths: list[str] = []
        self._bounds = (0, 0)  # positions of the only data file

    def add(self, path: str, positions: BitMap64) -> None:
        """Write the deletes of a data file; memory is bounded by ranges of its rows."""
        name = pa.array([path])
        least, most = positions.min(), positions.max()
        for first in range(least, most + 1, _RANGE):
            found = positions_in_range(positions, first, _RANGE) + first
            if not len(found):
                continue
            names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(found), np.int32)), name)
            with storage_boundary("written", self.location, passing=pa.ArrowException):
                self._writer.write_table(pa.table([names, pa.array(found)], schema=_SCHEMA))
                self.size = self._sink.tell()
            self._rows += len(found)
        self._paths.append(path)
        self._bounds = least, most

    def finish(self, spec_id: int, key: Key) -> WrittenFile:
        """Close the file; return what a commit says of it, as Java's `PositionDeleteWriter` does.

        Bounds say something only of a file that is about one data file.
        """
        with storage_boundary("written", self.location, passing=pa.ArrowException):
            self._writer.close()
            size = self._sink.tell()
            self._sink.close()
        details: dict[str, Any] = {"content": POSITION_DELETES, "spec_id": spec_id}
        if len(self._paths) == 1:
            path = self._paths[0].encode()
            lower, upper = ({DELETED_PATH.id: path, DELETED_POSITION.id: _number(each)} for each in self._bounds)
            details |= {"referenced_data_file": self._paths[0], "lower_bounds": lower, "upper_bounds": upper}
        return WrittenFile(self.location, key, self._rows, size, details)

    def abandon(self) -> None:
        """Close the file unfinished, ignoring errors; the caller removes it."""
        with suppress(OSError):
            self._sink.close()


def _number(position: int) -> bytes:
    return encode_value(position, DELETED_POSITION.type)
