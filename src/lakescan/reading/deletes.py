"""Deletes of a data file as positions, and as the mask of a batch.

A delete file is decoded once a task group, whatever number of its data files it names.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan import types as t
from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.planning.file_table import EQUALITY, KEPT, VECTOR
from lakescan.planning.split import NO_END
from lakescan.reading.data_file import open_data_file
from lakescan.reading.file_schema import read_fields
from lakescan.reading.projection import resolve
from lakescan.reading.roaring import decode_bitmaps, decode_framed
from lakescan.schema import FieldMatching, Schema
from lakescan.storage import Storage

# The reserved fields of a position delete file (Iceberg specification, "Reserved Field IDs").
DELETED_PATH = t.Field(2147483546, "file_path", t.STRING, required=True)
DELETED_POSITION = t.Field(2147483545, "pos", t.LONG, required=True)
_POSITION_DELETES = Schema((DELETED_PATH, DELETED_POSITION))
_LOG = logging.getLogger("lakescan")
_NO_POSITIONS = np.empty(0, np.int64)


@dataclass(frozen=True)
class RowSelection:
    """Positions of a file's rows, ascending: those deleted, and those kept, where not all others are."""

    deleted: np.ndarray
    kept: np.ndarray | None = None

    def live_rows(self, first: int, rows: int) -> pa.Array | None:
        """The mask of a batch whose first row is at `first`: true where the row is live; None if all are."""
        deleted = _within(self.deleted, first, rows)
        if self.kept is None and not len(deleted):
            return None
        mask = np.full(rows, self.kept is None)
        if self.kept is not None:
            mask[_within(self.kept, first, rows)] = True
        mask[deleted] = False
        return pa.array(mask)


class DeleteLoader:
    """Loads the deleted positions of the data files of one task group."""

    def __init__(self, storage: Storage, data_paths: list[str]) -> None:
        self._storage = storage
        self._data_paths = pa.array(sorted(set(data_paths)), pa.string())
        self._position_files: dict[str, dict[str, np.ndarray]] = {}

    def selection(self, path: str, deletes: tuple[dict[str, Any], ...]) -> RowSelection:
        """Which positions of a data file are deleted, and which are the only ones wanted, if not all are."""
        parts = [self._load(path, delete) for delete in deletes if delete["kind"] not in (EQUALITY, KEPT)]
        kept = [load_vector(self._storage, delete) for delete in deletes if delete["kind"] == KEPT]
        deleted = parts[0] if len(parts) == 1 else np.unique(np.concatenate([_NO_POSITIONS, *parts]))
        return RowSelection(deleted, kept[0] if kept else None)

    def _load(self, path: str, delete: dict[str, Any]) -> np.ndarray:
        if delete["kind"] == VECTOR:
            return load_vector(self._storage, delete)
        location = delete["path"]
        if location not in self._position_files:
            self._position_files[location] = self._read_position_file(delete)
        return self._position_files[location].get(path, _NO_POSITIONS)

    def _read_position_file(self, delete: dict[str, Any]) -> dict[str, np.ndarray]:
        location, file_format = delete["path"], delete["file_format"]
        matching = FieldMatching(by_id=True)
        tables = []
        with open_data_file(self._storage, location, file_format, delete["key_metadata"]) as data:
            fields = read_fields(data.schema, matching)
            projection = resolve(fields, _POSITION_DELETES, matching, {})
            for _, batch in data.batches(data.chunks(0, NO_END), projection, 1 << 17):
                table = pa.table(projection.apply(batch), schema=_POSITION_DELETES.arrow())
                self._warn_of_near_misses(location, table["file_path"])
                tables.append(table.filter(pc.is_in(table["file_path"], value_set=self._data_paths)))
        return _by_path(pa.concat_tables(tables)) if tables else {}

    def _warn_of_near_misses(self, location: str, named: pa.ChunkedArray) -> None:
        """Say so where deletes name a file of the group under another scheme or authority: they do not apply.

        The path in a delete must be the path in the manifest, character by character (specification, "Position
        Delete Files"), so `hdfs://host/x` is not `/x`; but somebody may have meant it.
        """
        others = pc.unique(named).filter(pc.invert(pc.is_in(pc.unique(named), value_set=self._data_paths)))
        alike = pc.is_in(_without_root(others), value_set=_without_root(self._data_paths))
        if pc.any(alike).as_py():
            _LOG.warning(
                "%s deletes rows of %s, which the table knows under another scheme or host: as the specification "
                "asks, these deletes are not applied",
                location,
                others.filter(alike)[0],
            )


def load_vector(storage: Storage, delete: dict[str, Any]) -> np.ndarray:
    """The positions of a deletion vector; raises `CorruptMetadata` where its cardinality is not the recorded one."""
    if delete.get("key_metadata") is not None:
        raise UnsupportedFeature("encrypted deletion vectors", f"{delete['path']} is one.")
    if delete["inline"] is not None:
        where = "an inline deletion vector"
        found = decode_bitmaps(delete["inline"], where)
    else:
        where = f"{delete['path']} (offset {delete['offset']})"
        found = decode_framed(storage.read(delete["path"], delete["offset"], delete["length"]), where)
    if delete["record_count"] is not None and len(found) != delete["record_count"]:
        raise CorruptMetadata(
            f"{where} deletes {len(found)} rows where the metadata says {delete['record_count']}: "
            "the wrong vector, or a damaged one"
        )
    return found


def _within(positions: np.ndarray, first: int, rows: int) -> np.ndarray:
    """The positions that lie in a batch, counted from its first row."""
    low, high = np.searchsorted(positions, (first, first + rows))
    result: np.ndarray = positions[low:high] - first
    return result


def _without_root(locations: pa.Array) -> pa.Array:
    """Locations without their scheme and authority."""
    return pc.replace_substring_regex(locations, r"^[a-zA-Z][a-zA-Z0-9+.-]*:(//[^/]*)?", "")


def _by_path(table: pa.Table) -> dict[str, np.ndarray]:
    """Positions by data file: one step a data file of the group that the delete file names."""
    if table.column("pos").null_count:
        raise CorruptMetadata("a position delete file has a null position")
    paths = table.column("file_path").combine_chunks().dictionary_encode()
    codes, positions = paths.indices.to_numpy(), table.column("pos").to_numpy()
    order = np.lexsort((positions, codes))
    codes, positions = codes[order], positions[order]
    bounds = np.searchsorted(codes, np.arange(len(paths.dictionary) + 1))
    return {
        path: np.unique(positions[bounds[i] : bounds[i + 1]]) for i, path in enumerate(paths.dictionary.to_pylist())
    }
