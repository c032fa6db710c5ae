"""The deletes by position that a data file has already, read from their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyroaring import BitMap64

from lakescan.iceberg.data_files.table_writes import IcebergWrites
from lakescan.planning.delete_file import DeleteFile, DeleteKind, delete_files
from lakescan.planning.file_table import FileTable
from lakescan.reading.deletes.positions import DeleteLoader
from lakescan.storage.locations import Places

Replaced = tuple[str, int | None]  # a delete file, and the offset of a vector in it


@dataclass(frozen=True)
class ExistingDeletes:
    """The rows of a data file that are deleted by position; those of the deletes that a new one replaces; and these.

    Replaced are deletes that are about this data file alone.
    """

    deleted: BitMap64
    replaced_rows: BitMap64 = field(default_factory=BitMap64)
    replaced: tuple[Replaced, ...] = ()

    @staticmethod
    def of(files: FileTable, place: int, writes: IcebergWrites, places: Places) -> ExistingDeletes:
        """The deletes of the file in a row of the table; they are read."""
        row = files.files.slice(place, 1)
        numbers = row["deletes"].combine_chunks().flatten()
        deletes = delete_files(files.deletes.take(numbers))
        if not deletes:
            return ExistingDeletes(BitMap64())
        path, same_place, rows = (row[name][0].as_py() for name in ("path", "same_place", "record_count"))
        loader = DeleteLoader(writes.storage, [path], places=places)
        at = places.of(pa.array([path]))[0].as_py()
        own = [each for each in deletes if _is_about(each, path, at, same_place, loader)]
        return ExistingDeletes(
            loader.selection(path, deletes, same_place, rows).deleted,
            loader.selection(path, own, same_place, rows).deleted,
            tuple((each.location, each.offset) for each in own),
        )


def _is_about(
    delete: DeleteFile, path: str, place: str, same_place: Sequence[str] | None, loader: DeleteLoader
) -> bool:
    """Whether a delete is about this data file alone. What it says is known: it is read anyway."""
    if delete.kind == DeleteKind.VECTOR:
        return True
    positions = loader.positions(delete)
    return list(positions.by_name) == [path] or (not same_place and list(positions.by_place) == [place])
