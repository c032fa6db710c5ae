"""Deletes of a data file as a bitmap of positions, and as the mask of a batch.

A delete file is decoded once a process, whatever number of data files it names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakescan.common import types as t
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptData, CorruptMetadata
from lakescan.executors import PlanningExecutor
from lakescan.planning.file_table import EQUALITY, VECTOR
from lakescan.planning.split import NO_END
from lakescan.reading.data_file import open_data_file
from lakescan.reading.decoding import decoding
from lakescan.reading.deletes.cache import DELETES, DeleteCache, Deletes
from lakescan.reading.deletes.named_positions import NamedPositions
from lakescan.reading.deletes.roaring import bitmap_of, within
from lakescan.reading.deletes.vectors import load_vector, of_file
from lakescan.reading.file_schema import read_fields
from lakescan.reading.projection import Projection, resolve
from lakescan.storage.faults import shown
from lakescan.storage.locations import Places, without_root
from lakescan.storage.storage import Storage

# The reserved fields of a position delete file (Iceberg specification, "Reserved Field IDs").
DELETED_PATH = t.Field(2147483546, "file_path", t.STRING, required=True)
DELETED_POSITION = t.Field(2147483545, "pos", t.LONG, required=True)
_POSITION_DELETES = Schema((DELETED_PATH, DELETED_POSITION))
_LOG = logging.getLogger("lakescan")
_NO_POSITIONS = np.empty(0, np.int64)
_BATCH = 1 << 17
_PIECE = 16 * 2**20
_PIECES = 4096  # of a delete file, whatever size was recorded
POSITIONS: DeleteCache[NamedPositions] = DeleteCache(lambda found: found.nbytes)


@dataclass(frozen=True)
class RowSelection:
    """Positions of a file's rows: those deleted, and those kept, where not all others are."""

    deleted: BitMap64
    kept: BitMap64 | None = None

    def live_rows(self, first: int, rows: int, also: np.ndarray | None = None) -> pa.Array | None:
        """The mask of a batch whose first row is at `first`: true where the row is live; None if all are.

        `also` are rows that are wanted beside those kept, where not all are.
        """
        deleted = within(self.deleted, first, rows) if self.deleted else _NO_POSITIONS
        if self.kept is None and also is None and not len(deleted):
            return None
        mask = np.full(rows, self.kept is None) if also is None else also.copy()
        if self.kept is not None:
            mask[within(self.kept, first, rows)] = True
        mask[deleted] = False
        return pa.array(mask)


class DeleteLoader:
    """Loads the deleted positions of the data files of one task group, as bitmaps.

    Delete files are decoded whole and kept for other groups: bitmaps are small, two bytes a position at most. They have
    to have as many rows as their manifests say; with `verify`, the checksums of their pages have to hold, too. With an
    executor, its workers decode them, in pieces.
    """

    def __init__(
        self,
        storage: Storage,
        data_paths: list[str],
        *,
        places: Places | None = None,
        verify: bool = False,
        executor: PlanningExecutor | None = None,
    ) -> None:
        self._storage, self._verify, self._executor = storage, verify, executor
        self._places = storage.places() if places is None else places
        self._data_paths = pa.array(sorted(set(data_paths)), pa.string())
        self._position_files: dict[str, NamedPositions] = {}

    def selection(
        self,
        path: str,
        deletes: Sequence[Mapping[str, Any]],
        same_place: Sequence[str] | None = None,
        rows: int | None = None,
    ) -> RowSelection:
        """Which positions of a data file are deleted, and which are the only ones wanted, if not all are.

        `same_place` are the names of other live files at its place, if there are any; `rows` is how many rows the file
        has, where that is known. Raises `UnsupportedFeature` where a delete names the place in a way that may mean any
        of them, and `CorruptData` for a vector of rows that the file does not have. Position deletes of such rows
        delete nothing, as in the reference.
        """
        others = same_place or ()
        deleted, kept = (
            [
                self._load(path, each, others, rows)
                for each in deletes
                if each["kind"] != EQUALITY and bool(each["kept"]) is is_kept
            ]
            for is_kept in (False, True)
        )
        return RowSelection(_among(_union(deleted), rows), _among(_union(kept), rows) if kept else None)

    def _load(self, path: str, delete: Mapping[str, Any], others: Sequence[str], rows: int | None) -> BitMap64:
        if delete["kind"] == VECTOR:
            with decoding(path, "its deletion vector"):
                return of_file(self._vector(delete), path, rows)
        found = self.positions(delete)
        if self._family is not None and self._family == found.family:
            return found.of([path])
        return found.of([path, *found.alike(path, self._place_of[path], others)])

    def positions(self, delete: Mapping[str, Any]) -> NamedPositions:
        """What a position delete file holds; read once."""
        location = delete["path"]
        if location not in self._position_files:
            self._position_files[location] = self._position_file(delete)
        return self._position_files[location]

    @cached_property
    def _family(self) -> tuple[str, str] | None:
        return self._places.family(self._data_paths)

    @cached_property
    def _place_of(self) -> dict[str, str]:
        return dict(zip(self._data_paths.to_pylist(), self._places.of(self._data_paths).to_pylist(), strict=True))

    def _vector(self, delete: Mapping[str, Any]) -> BitMap64:
        if delete["inline"] is not None:
            return load_vector(self._storage, delete)
        key = (delete["path"], delete["offset"], delete["length"], self._storage.identity)
        return DELETES.get(key, lambda: {"": load_vector(self._storage, delete)})[""]

    def _position_file(self, delete: Mapping[str, Any]) -> NamedPositions:
        key = (delete["path"], delete["size"], self._verify, self._storage.identity, self._places.home)
        found = POSITIONS.get(key, lambda: NamedPositions(self._read_position_file(delete), self._places))
        if self._family is None or self._family != found.family:
            self._report_spellings(delete["path"], found)
        return found

    def _read_position_file(self, delete: Mapping[str, Any]) -> Deletes:
        """The positions by data file: memory is bounded by the bitmaps."""
        size = int(delete["size"] or 0)
        whole = _PositionDeletes(
            self._storage, delete["path"], delete["file_format"], delete["key_metadata"], self._verify
        )
        if self._executor is None:
            found, rows = whole.read()
        else:
            starts = range(0, min(max(1, size), _PIECES * _PIECE), _PIECE)  # the last one has no end
            pieces = [replace(whole, start=n, stop=n + _PIECE if n != starts[-1] else NO_END) for n in starts]
            found, rows = {}, 0
            for some, count in self._executor.map(_PositionDeletes.read, pieces):
                rows += count
                for path, bitmap in some.items():
                    found.setdefault(path, BitMap64()).update(bitmap)
        check_count(delete["path"], rows, delete["record_count"])
        return found

    def _report_spellings(self, location: str, found: NamedPositions) -> None:
        """Say so where deletes name a file of the group in another spelling; or almost, under another scheme or host.

        Those of the same place apply. Of `hdfs://host/x` and `/x` nobody knows that they are one place, unless the
        table's own location or `relocate` says so: such deletes do not apply, but somebody may have meant it.
        """
        others = found.names.filter(pc.invert(pc.is_in(found.names, value_set=self._data_paths)))
        places = self._places.of(self._data_paths)
        here = pc.is_in(self._places.of(others), value_set=places)
        if pc.any(here).as_py():
            _LOG.info(
                "%s names %s, a data file of the table in another spelling of its path: these deletes are applied",
                location,
                others.filter(here)[0],
            )
        lost = others.filter(pc.invert(here))
        alike = pc.is_in(without_root(lost), value_set=without_root(self._data_paths))
        if pc.any(alike).as_py():
            _LOG.warning(
                "%s deletes rows of %s, which the table knows under another scheme or host: nothing says that they are "
                "one place, so these deletes are not applied. If they are, pass relocate= with both prefixes",
                location,
                lost.filter(alike)[0],
            )


@dataclass(frozen=True)
class _PositionDeletes:
    """The row groups of a position delete file that begin in a range of its bytes; can be sent to a worker."""

    storage: Storage
    path: str
    file_format: str
    key_metadata: bytes | None
    verify: bool
    start: int = 0
    stop: int = NO_END

    def read(self) -> tuple[Deletes, int]:
        """The positions by data file, and the number of rows that say so."""
        matching = FieldMatching(by_id=True)
        found: Deletes = {}
        rows = 0
        opened = open_data_file(self.storage, self.path, self.file_format, self.key_metadata, verify=self.verify)
        with opened as data, decoding(self.path, "its position deletes"):
            projection = resolve(read_fields(data.schema, matching), _POSITION_DELETES, matching, {})
            check_columns(self.path, projection)
            chunks = data.chunks(self.start, self.stop)
            for _, batch in data.batches(chunks, projection, _BATCH) if chunks else ():
                rows += batch.num_rows
                table = pa.table(projection.apply(batch), schema=_POSITION_DELETES.arrow())
                for path, positions in _by_path(table):
                    found.setdefault(path, BitMap64()).update(bitmap_of(positions))
        return found, rows


def _union(bitmaps: list[BitMap64]) -> BitMap64:
    if len(bitmaps) == 1:
        return bitmaps[0]
    return BitMap64.union(*bitmaps) if bitmaps else BitMap64()


def _among(positions: BitMap64, rows: int | None) -> BitMap64:
    """The positions that a file of so many rows has."""
    if not positions or rows is None or rows < 0 or positions.max() < rows:
        return positions
    return positions & BitMap64(range(rows))


def check_count(location: str, rows: int, recorded: int | None) -> None:
    """Raise `CorruptData` where a delete file has more or fewer rows than its manifest says; some recorded -1."""
    if recorded is not None and recorded >= 0 and rows != recorded:
        raise CorruptData(
            f"{shown(location)} has {rows:,} deletes where the metadata says {recorded:,}: it is damaged, or another "
            "file. Restore it."
        )


def check_columns(location: str, projection: Projection) -> None:
    """Raise `CorruptData` where a delete file lacks a column that says what it deletes."""
    absent = [source.target.name for source in projection.sources if source.child is None]
    if absent:
        raise CorruptData(
            f"{shown(location)} lacks the column {absent[0]!r} that it deletes by: it is another file. Restore it."
        )


def _by_path(table: pa.Table) -> Iterator[tuple[str, np.ndarray]]:
    """Positions by data file: one step a data file that the rows name. A row without a file deletes nothing."""
    table = table.filter(pc.is_valid(table["file_path"]))
    if table.column("pos").null_count:
        raise CorruptMetadata("a position delete file has a null position")
    paths = table.column("file_path").combine_chunks().dictionary_encode()
    codes, positions = paths.indices.to_numpy(), table.column("pos").to_numpy()
    if len(codes) and positions.min() < 0:
        raise CorruptMetadata("a position delete file has a negative position")
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(paths.dictionary) + 1))
    for i, path in enumerate(paths.dictionary.to_pylist()):
        yield path, positions[order[bounds[i] : bounds[i + 1]]]
