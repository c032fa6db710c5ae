"""The position deletes and deletion vectors of a data file: from delete files to bitmaps, and to masks of batches.

Iceberg specification, "Position Delete Files". A delete file is decoded once per process, however many data files it
references.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakescan.common import types as t
from lakescan.common.cache import CacheKind
from lakescan.common.executors import PlanningExecutor
from lakescan.common.schema import FieldMatching, Schema
from lakescan.errors import CorruptData, CorruptMetadata
from lakescan.planning.delete_files import DeleteFile, DeleteKind
from lakescan.planning.split import NO_END
from lakescan.reading.data_file import open_data_file
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.deletes.deletion_vectors import (
    bitmap_of,
    check_vector_rows,
    load_vector,
    positions_in_range,
    size_of,
    union_bitmaps,
)
from lakescan.reading.deletes.positions_by_file import Deletes, PositionsByFile
from lakescan.reading.field_ids import read_fields
from lakescan.reading.projection import Projection, resolve
from lakescan.storage import Storage
from lakescan.storage.errors import redact
from lakescan.storage.locations import LocationMatcher, strip_roots

# The reserved fields of a position delete file (Iceberg specification, "Reserved Field IDs").
DELETED_PATH = t.Field(2147483546, "file_path", t.STRING, required=True)
DELETED_POSITION = t.Field(2147483545, "pos", t.LONG, required=True)
_POSITION_DELETES = Schema((DELETED_PATH, DELETED_POSITION))
_LOG = logging.getLogger("lakescan")
_NO_POSITIONS = np.empty(0, np.int64)
_BATCH = 1 << 17
_PIECE = 16 * 2**20  # bytes of a delete file that one worker decodes
_PIECES = 4096  # maximum per delete file, since the recorded size may be wrong
# Caches of decoded delete files, which are immutable.
_VECTORS: CacheKind[BitMap64] = CacheKind("deletion vectors", size_of)
_POSITIONS: CacheKind[PositionsByFile] = CacheKind("position deletes", lambda positions: positions.nbytes)


@dataclass(frozen=True)
class RowSelection:
    """The rows of a data file to read, by position: `deleted` rows, and the only wanted rows (`kept`).

    `kept` is None if all rows are wanted.
    """

    deleted: BitMap64
    kept: BitMap64 | None = None

    def live_rows(self, first: int, rows: int, also: np.ndarray | None = None) -> pa.Array | None:
        """Return a mask of the live rows in a batch whose first row is at position `first`; None if all are live.

        Live rows are wanted and not deleted. `also` is a mask of rows that are wanted in addition to `kept`; if it is
        set, no other rows are wanted.
        """
        deleted = positions_in_range(self.deleted, first, rows) if self.deleted else _NO_POSITIONS
        if self.kept is None and also is None and not len(deleted):
            return None
        mask = np.full(rows, self.kept is None) if also is None else also.copy()
        if self.kept is not None:
            mask[positions_in_range(self.kept, first, rows)] = True
        mask[deleted] = False
        return pa.array(mask)


class DeleteLoader:
    """Loads the deleted positions of one task group's data files, as bitmaps.

    `data_paths` are the locations of the data files, which `places` matches with those in delete files. Delete files
    are decoded as a whole, and cached for other groups: bitmaps take at most two bytes per position. `verify`: check
    the checksums of pages. `executor`: decode files in splits on its workers.
    """

    def __init__(
        self,
        storage: Storage,
        data_paths: list[str],
        *,
        places: LocationMatcher | None = None,
        verify: bool = False,
        executor: PlanningExecutor | None = None,
    ) -> None:
        self._storage, self._verify, self._executor = storage, verify, executor
        self._places = storage.places() if places is None else places
        self._data_paths = pa.array(sorted(set(data_paths)), pa.string())
        self._position_files: dict[str, PositionsByFile] = {}

    def selection(
        self,
        path: str,
        deletes: Sequence[DeleteFile],
        same_place: Sequence[str] | None = None,
        rows: int | None = None,
    ) -> RowSelection:
        """Return the selection of a data file's rows, from its position deletes and deletion vectors.

        `deletes` may include equality deletes, which are ignored. `same_place` are other live files whose locations
        have the same canonical form, if any; `rows` is the file's row count, if known. Raises `UnsupportedFeature` if a
        delete may mean any of these files, and `CorruptData` for a deletion vector with rows past the end of the file.
        Position deletes past the end are ignored, as in Iceberg's Java library.
        """
        others = same_place or ()
        deleted, kept = (
            [
                self._load(path, each, others, rows)
                for each in deletes
                if each.kind != DeleteKind.EQUALITY and each.kept is is_kept
            ]
            for is_kept in (False, True)
        )
        return RowSelection(
            _drop_past_end(union_bitmaps(deleted), rows), _drop_past_end(union_bitmaps(kept), rows) if kept else None
        )

    def _load(self, path: str, delete: DeleteFile, others: Sequence[str], rows: int | None) -> BitMap64:
        if delete.kind == DeleteKind.VECTOR:
            with decoding(path, "its deletion vector"):
                return check_vector_rows(self._vector(delete), path, rows)
        positions = self.positions(delete)
        if self._family is not None and self._family == positions.family:
            return positions.positions_of([path])
        return positions.positions_of([path, *positions.other_spellings(path, self._place_of[path], others)])

    def positions(self, delete: DeleteFile) -> PositionsByFile:
        """Return the positions in a position delete file, which is read only once.

        Raises `MissingFile`, `CorruptData` for a damaged file, and `UnsupportedFeature`.
        """
        location = delete.location
        if location not in self._position_files:
            self._position_files[location] = self._position_file(delete)
        return self._position_files[location]

    @cached_property
    def _family(self) -> tuple[str, str] | None:
        return self._places.family(self._data_paths)

    @cached_property
    def _place_of(self) -> dict[str, str]:
        return dict(
            zip(self._data_paths.to_pylist(), self._places.canonicalize(self._data_paths).to_pylist(), strict=True)
        )

    def _vector(self, delete: DeleteFile) -> BitMap64:
        if delete.inline is not None:
            return load_vector(self._storage, delete)
        key = (delete.path, delete.offset, delete.length, self._storage.identity)
        return _VECTORS.get(key, lambda: load_vector(self._storage, delete))

    def _position_file(self, delete: DeleteFile) -> PositionsByFile:
        key = (delete.path, delete.size, self._verify, self._storage.identity, self._places.home)
        positions = _POSITIONS.get(key, lambda: PositionsByFile(self._read_position_file(delete), self._places))
        if self._family is None or self._family != positions.family:
            self._report_spellings(delete.location, positions)
        return positions

    def _read_position_file(self, delete: DeleteFile) -> Deletes:
        """Read a delete file; return its positions by data file. Memory is bounded by the bitmaps."""
        size = delete.size or 0
        whole = _PositionDeletes(self._storage, delete.location, delete.row_format, delete.key_metadata, self._verify)
        if self._executor is None:
            positions, rows = whole.read()
        else:
            starts = range(0, min(max(1, size), _PIECES * _PIECE), _PIECE)  # the last split has no end
            pieces = [replace(whole, start=n, stop=n + _PIECE if n != starts[-1] else NO_END) for n in starts]
            positions, rows = {}, 0
            for some, count in self._executor.map(_PositionDeletes.read, pieces):
                rows += count
                for path, bitmap in some.items():
                    positions.setdefault(path, BitMap64()).update(bitmap)
        check_count(delete.location, rows, delete.record_count)
        return positions

    def _report_spellings(self, location: str, positions: PositionsByFile) -> None:
        """Log data files that a delete file references in another notation, or under another scheme or host.

        `location` is that of the delete file. Deletes of the same canonical location are applied. `hdfs://host/x` and
        `/x` are not treated as the same file unless the table's own location or `relocate` implies it. Such deletes are
        not applied, but may have been intended.
        """
        others = positions.names.filter(pc.invert(pc.is_in(positions.names, value_set=self._data_paths)))
        places = self._places.canonicalize(self._data_paths)
        here = pc.is_in(self._places.canonicalize(others), value_set=places)
        if pc.any(here).as_py():
            _LOG.info(
                "%s references a data file of the table by another form of its path, %s: these deletes are applied",
                location,
                others.filter(here)[0],
            )
        lost = others.filter(pc.invert(here))
        alike = pc.is_in(strip_roots(lost), value_set=strip_roots(self._data_paths))
        if pc.any(alike).as_py():
            _LOG.warning(
                "%s deletes rows of %s, which the table references under another scheme or host: they are not known to "
                "be the same place, so these deletes are not applied. If they are, pass relocate= with both prefixes",
                location,
                lost.filter(alike)[0],
            )


@dataclass(frozen=True)
class _PositionDeletes:
    """The row groups of a position delete file whose first byte is in [start, stop). Can be sent to a worker.

    `path` is the file's location.
    """

    storage: Storage
    path: str
    file_format: str
    key_metadata: bytes | None
    verify: bool
    start: int = 0
    stop: int = NO_END

    def read(self) -> tuple[Deletes, int]:
        """Read the positions by data file location; also return the number of rows read. Raises `CorruptData`."""
        matching = FieldMatching(by_id=True)
        deletes: Deletes = {}
        rows = 0
        opened = open_data_file(self.storage, self.path, self.file_format, self.key_metadata, verify=self.verify)
        with opened as data, decoding(self.path, "its position deletes"):
            projection = resolve(read_fields(data.schema, matching), _POSITION_DELETES, matching, {})
            check_columns(self.path, projection)
            chunks = data.chunks(self.start, self.stop)
            for _, batch in data.batches(chunks, projection, _BATCH) if chunks else ():
                rows += batch.num_rows
                table = pa.table(projection.apply(batch), schema=_POSITION_DELETES.arrow())
                for path, positions in _group_by_file(table):
                    deletes.setdefault(path, BitMap64()).update(bitmap_of(positions))
        return deletes, rows


def _drop_past_end(positions: BitMap64, rows: int | None) -> BitMap64:
    """Return the positions below the row count `rows`; all if it is unknown (None or negative)."""
    if not positions or rows is None or rows < 0 or positions.max() < rows:
        return positions
    return positions & BitMap64(range(rows))


def check_count(location: str, rows: int, recorded: int | None) -> None:
    """Compare the row count `rows` of a delete file with `recorded`, that of its manifest.

    Unknown counts (None or -1) pass. Raises `CorruptData` if the file has fewer rows, since deletes are lost. If it has
    more, all of them apply, as in Impala, and a warning is logged: manifests that were edited by hand have such counts.
    """
    if recorded is None or recorded < 0 or rows == recorded:
        return
    if rows < recorded:
        raise CorruptData(
            f"{redact(location)} has {rows:,} deletes, but the metadata records {recorded:,}: it is damaged, or was "
            "replaced by another file. Restore it."
        )
    _LOG.warning(
        "%s has %s deletes, but the metadata records %s: all are applied",
        redact(location),
        f"{rows:,}",
        f"{recorded:,}",
    )


def check_columns(location: str, projection: Projection) -> None:
    """Raise `CorruptData` if a delete file lacks a column of the projection, which identifies the deleted rows."""
    absent = [source.target.name for source in projection.sources if source.child is None]
    if absent:
        raise CorruptData(
            f"{redact(location)} lacks the column {absent[0]!r}, which identifies the rows that it deletes: it was "
            "replaced by another file. Restore it."
        )


def _group_by_file(table: pa.Table) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each data file's location and its deleted positions, one step per data file.

    Rows with a null file path delete nothing. Raises `CorruptMetadata` for a null or negative position.
    """
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
