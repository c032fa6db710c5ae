"""Equality deletes: finds the rows of a batch whose key was deleted after their file was written.

All delete files with the same columns and scope (a partition, or the whole table) become one map: key -> newest
sequence number that deletes it. A row is deleted if that number is greater than its file's (Iceberg specification,
"Equality Delete Files" and "Scan Planning"). So the map applies to every data file of a task group. Null in a delete
matches null, NaN matches NaN, and 0.0 does not match -0.0, as in Iceberg's Java library.

If there are more than `KEYS_AT_ONCE` keys, or they take more than `BYTES_AT_ONCE` bytes, they are processed in parts.
For each part, the key columns of the data files are read once, and only the positions of deleted rows are kept. So
memory depends neither on the number of keys nor on their width.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from lakescan.common.arrays import as_array, combine_codes
from lakescan.common.cache import CacheKind
from lakescan.common.schema import Schema
from lakescan.errors import UnsupportedFeature
from lakescan.expressions.evaluate import Columns, column_getter, storage
from lakescan.planning.delete_files import DeleteFile, delete_files
from lakescan.planning.file_table import key_texts
from lakescan.planning.split import NO_END
from lakescan.planning.task_groups import EqualityScope, FileScanTask
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file, row_batches
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.deletes.deletion_vectors import bitmap_of, positions_in_range
from lakescan.reading.deletes.key_codes import KeyCodes
from lakescan.reading.deletes.position_deletes import check_columns, check_count
from lakescan.reading.field_ids import read_fields
from lakescan.reading.projection import resolve

_BATCH = 1 << 17
_NO_NUMBERS = np.empty(0, dtype=np.int64)
KEYS_AT_ONCE = 1 << 21
BYTES_AT_ONCE = 1 << 26  # building a map takes several times the bytes of its keys
# None if the keys do not fit into memory at once.
_KEYS: CacheKind[DeletedKeyMap | None] = CacheKind("equality deletes", lambda keys: 0 if keys is None else keys.nbytes)


class _Matcher(Protocol):
    """Finds the rows that the equality deletes of one scope match: a partition or the whole table."""

    def hits(self, task: FileScanTask, first: int, columns: Columns, rows: int) -> np.ndarray:
        """Return a mask of the rows of a batch that a delete matches. `first` is the position of its first row.

        `columns` returns the batch's columns by field id.
        """


@dataclass(frozen=True)
class _KeyMatcher:
    keys: DeletedKeyMap

    def hits(self, task: FileScanTask, first: int, columns: Columns, rows: int) -> np.ndarray:
        result: np.ndarray = self.keys.newest_delete(columns, rows) > task.sequence_number
        return result


@dataclass(frozen=True)
class _PositionMatcher:
    positions: Mapping[str, BitMap64]

    def hits(self, task: FileScanTask, first: int, columns: Columns, rows: int) -> np.ndarray:
        mask = np.zeros(rows, dtype=bool)
        if (positions := self.positions.get(task.path)) is not None:
            mask[positions_in_range(positions, first, rows)] = True
        return mask


class _KeyBuffer:
    """Deleted keys in memory, with their sequence numbers.

    `ids` are the compared fields, and `schema` has the columns of the batches of keys.
    """

    def __init__(self, ids: tuple[int, ...], schema: Schema) -> None:
        self._ids, self._schema = ids, schema
        self._batches: list[pa.RecordBatch] = []
        self._sequence: list[np.ndarray] = [_NO_NUMBERS]
        self.rows = self.size = 0

    def add(self, batch: pa.RecordBatch, sequence: int) -> None:
        self._batches.append(batch)
        self._sequence.append(np.full(batch.num_rows, sequence, dtype=np.int64))
        self.rows += batch.num_rows
        self.size += batch.nbytes

    def has_room(self, batch: pa.RecordBatch) -> bool:
        """Return whether a batch of keys fits (`KEYS_AT_ONCE`, `BYTES_AT_ONCE`), or the buffer is empty."""
        fits = self.rows + batch.num_rows <= KEYS_AT_ONCE and self.size + batch.nbytes <= BYTES_AT_ONCE
        return not self.rows or fits

    def deduplicate(self) -> DeletedKeyMap | None:
        """Remove duplicate keys. Return None if this frees half of the buffer, else the map of the distinct keys.

        After None, the buffer has the distinct keys. Upserts delete the same keys repeatedly, so duplicates are common.
        """
        table, sequence = self._table()
        keys, number = DeletedKeyMap.build_index(self._ids, self._columns(table), sequence)
        if 2 * len(keys.newest) > self.rows:
            return keys
        first = np.zeros(len(keys.newest), dtype=np.int64)
        first[number[::-1]] = np.arange(len(number))[::-1]
        distinct = table.take(pa.array(first)).combine_chunks()
        self._batches, self.size = distinct.to_batches(), distinct.nbytes
        self._sequence, self.rows = [keys.newest], len(first)
        return None

    def keys(self) -> DeletedKeyMap:
        """Return the map of all keys in the buffer to their newest sequence numbers."""
        table, sequence = self._table()
        return DeletedKeyMap.build(self._ids, self._columns(table), sequence)

    def _columns(self, table: pa.Table) -> list[pa.Array]:
        columns = column_getter(table, self._schema)
        return [comparable(columns(i)) for i in self._ids]

    def _table(self) -> tuple[pa.Table, np.ndarray]:
        return pa.Table.from_batches(self._batches, schema=self._schema.arrow()), np.concatenate(self._sequence)


class EqualityDeletes:
    """The equality deletes of a task group or a whole plan. Each delete file is decoded once, on first use.

    `deletes` lists the delete files (schema `planning.file_table.DELETES`). `tasks` returns the tasks that they apply
    to; it may be called repeatedly. Thread-safe. Delete files that do not apply to a data file are harmless, since
    sequence numbers decide.
    """

    def __init__(self, context: ReadContext, deletes: pa.Table, tasks: Callable[[], Iterable[FileScanTask]]) -> None:
        self._context, self._deletes, self._tasks = context, deletes, tasks
        self._matchers: dict[EqualityScope, _Matcher] = {}
        self._lock = threading.Lock()

    @staticmethod
    def columns_of(task: FileScanTask) -> set[int]:
        """Return the field ids that the task's equality deletes compare."""
        return {field_id for place in task.equality_places for field_id in place.ids}

    def hits(
        self, task: FileScanTask, first: int, columns: Columns, rows: int, *, kept: bool = False
    ) -> np.ndarray | None:
        """Return a mask of the rows of a batch that equality deletes match. `first` is its first row's position.

        `columns` returns the batch's columns by field id. `kept` selects the deletes that mark the only wanted rows,
        instead of those that delete rows. Returns None if the task has no deletes of that kind. Raises the errors of
        `read_deleted_keys`.
        """
        places = [place for place in task.equality_places if place.kept is kept]
        masks = [self._matcher(place).hits(task, first, columns, rows) for place in places]
        return np.logical_or.reduce(masks) if masks else None

    def _matcher(self, place: EqualityScope) -> _Matcher:
        with self._lock:
            if place not in self._matchers:
                self._matchers[place] = self._load(place)
            return self._matchers[place]

    def _load(self, place: EqualityScope) -> _Matcher:
        ids = place.ids
        same_ids = pc.equal(key_texts(self._deletes), ",".join(map(str, ids)))
        same_scope = pc.equal(self._deletes["scope"].combine_chunks(), place.scope)
        same_kind = pc.equal(pc.fill_null(self._deletes["kept"], False).combine_chunks(), place.kept)
        mask = pc.and_(same_ids, pc.and_(same_scope, same_kind))
        files = delete_files(self._deletes.filter(mask))
        context = self._context
        columns = compared_columns(context, ids).arrow().to_string()
        read_as = (
            ids,
            columns,
            repr(context.matching),
            context.verify,
            context.storage.identity,
            KEYS_AT_ONCE,
            BYTES_AT_ONCE,
        )
        key = (tuple(sorted((file.location, file.age) for file in files)), *read_as)
        started: list[Iterator[DeletedKeyMap]] = []  # set by `load`, to avoid reading the files twice

        def load() -> DeletedKeyMap | None:
            pieces = self._pieces(ids, files)
            first, second = next(pieces), next(pieces, None)
            if second is None:
                return first
            started.append(chain([first, second], pieces))
            return None

        if (keys := _KEYS.get(key, load)) is not None:
            return _KeyMatcher(keys)
        return _PositionMatcher(self._positions(place, started[0] if started else self._pieces(ids, files)))

    def _pieces(self, ids: tuple[int, ...], files: Sequence[DeleteFile]) -> Iterator[DeletedKeyMap]:
        """Yield the distinct keys of all files as maps of limited size (`KEYS_AT_ONCE`, `BYTES_AT_ONCE`).

        Keys that are in several maps are not merged. Yields at least one map, which may be empty.
        """
        schema = compared_columns(self._context, ids)
        buffer = _KeyBuffer(ids, schema)
        for file in files:
            for batch in read_deleted_keys(self._context, file, schema):
                if not buffer.has_room(batch) and (full := buffer.deduplicate()) is not None:
                    yield full
                    buffer = _KeyBuffer(ids, schema)
                buffer.add(batch, file.age)
        yield buffer.keys()

    def _positions(self, place: EqualityScope, pieces: Iterator[DeletedKeyMap]) -> dict[str, BitMap64]:
        """Return the positions of deleted rows by data file, for keys that do not fit into memory.

        `pieces` are maps of the keys of the scope `place`. Reads the key columns of the data files once per map.
        """
        schema = compared_columns(self._context, place.ids)
        deleted: dict[str, BitMap64] = {}
        for keys in pieces:
            for task in self._tasks():
                if place not in task.equality_places:
                    continue
                for first, batch in row_batches(task, self._context, schema):
                    newest = keys.newest_delete(column_getter(batch, schema), batch.num_rows)
                    rows = np.flatnonzero(newest > task.sequence_number) + first
                    deleted.setdefault(task.path, BitMap64()).update(bitmap_of(rows))
        return deleted


def compared_columns(context: ReadContext, ids: tuple[int, ...]) -> Schema:
    """Return the top-level columns of the table that contain the fields `ids`, including dropped columns.

    Raises `UnsupportedFeature` for a dropped member of a struct.
    """
    known = context.table_schema
    missing = [i for i in ids if i not in known.by_id]
    if missing:
        raise UnsupportedFeature(f"equality deletes by dropped nested fields (id {missing[0]})")
    tops = {known.top_level_of[i].id: known.top_level_of[i] for i in ids}
    return Schema(tuple(tops.values()))


def read_deleted_keys(context: ReadContext, file: DeleteFile, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Read the keys of an equality delete file, in batches with the columns of the schema.

    Raises `MissingFile`, `CorruptData` if it cannot be decoded or has fewer rows than recorded, and
    `UnsupportedFeature` for a format or encryption that cannot be read.
    """
    path, matching = file.location, context.matching
    opened = open_data_file(context.storage, path, file.row_format, file.key_metadata, verify=context.verify)
    with opened as data, decoding(path, "its deleted keys"):
        projection = resolve(read_fields(data.schema, matching), schema, matching, {})
        check_columns(path, projection)
        rows = 0
        for _, batch in data.batches(data.chunks(0, NO_END), projection, _BATCH):
            rows += batch.num_rows
            yield pa.RecordBatch.from_arrays(projection.apply(batch), schema=schema.arrow())
        check_count(path, rows, file.record_count)


@dataclass(frozen=True)
class DeletedKeyMap:
    """A map from deleted keys to their newest sequence number, built column by column.

    `columns` are the field ids of the key, and `codes` number each column's values. `levels` are the sorted
    combinations of the columns so far (None for the first column), as one number each; the number of a combination is
    its index. `newest` has the newest sequence number for each combination of all columns.
    """

    columns: tuple[int, ...]
    codes: tuple[KeyCodes, ...]
    levels: tuple[np.ndarray | None, ...]
    newest: np.ndarray

    @staticmethod
    def build(columns: tuple[int, ...], keys: list[pa.Array], sequence: np.ndarray) -> DeletedKeyMap:
        """Build the map of keys (one array per column, one row per key).

        `sequence` has the sequence number that deletes each key.
        """
        return DeletedKeyMap.build_index(columns, keys, sequence)[0]

    @staticmethod
    def build_index(
        columns: tuple[int, ...], keys: list[pa.Array], sequence: np.ndarray
    ) -> tuple[DeletedKeyMap, np.ndarray]:
        """Build the map (see `build`), and return it with the index of each row's key in `newest`."""
        codes: list[KeyCodes] = []
        levels: list[np.ndarray | None] = []
        numbers = np.zeros(len(sequence), dtype=np.int64)
        for key in map(comparable, keys):
            known, code = KeyCodes.build(key)
            if codes:
                level, numbers = combine_codes(numbers, code, len(known))
                levels.append(level)
            else:  # the codes of the first column are already dense
                numbers = code
                levels.append(None)
            codes.append(known)
        newest = np.full(int(numbers.max(initial=-1)) + 1, -1, dtype=np.int64)
        np.maximum.at(newest, numbers, sequence)
        return DeletedKeyMap(columns, tuple(codes), tuple(levels), newest), numbers

    @property
    def nbytes(self) -> int:
        """The approximate size of the map in bytes."""
        levels = sum(level.nbytes for level in self.levels if level is not None)
        return self.newest.nbytes + levels + sum(codes.nbytes for codes in self.codes)

    def newest_delete(self, columns: Columns, rows: int) -> np.ndarray:
        """Return for each row the newest sequence number that deletes its key; -1 if it is not deleted.

        `columns` returns the column of a field id, with `rows` values.
        """
        if not len(self.newest):
            return np.full(rows, -1, dtype=np.int64)
        numbers, known = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool)
        for field_id, codes, level in zip(self.columns, self.codes, self.levels, strict=True):
            code = codes.find(comparable(columns(field_id)))
            known &= code >= 0
            wanted = numbers * len(codes) + code
            if level is None:
                numbers = np.maximum(wanted, 0)
            else:
                numbers = np.minimum(np.searchsorted(level, wanted), len(level) - 1)
                known &= level[numbers] == wanted
        result: np.ndarray = np.where(known, self.newest[numbers], -1)
        return result


def comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return values as one array, extension types as their storage. Columns of type unknown become null booleans."""
    array = storage(as_array(values))
    return pa.nulls(len(array), pa.bool_()) if pa.types.is_null(array.type) else array
