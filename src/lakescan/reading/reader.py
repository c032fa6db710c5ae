"""Reads a task group as Arrow batches: prunes row groups, projects columns, applies deletes, evaluates the residual."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common.metadata_columns import DELETED
from lakescan.common.schema import Schema
from lakescan.expressions.evaluate import Columns, column_getter, matching_rows
from lakescan.expressions.predicate import FALSE, TRUE, Predicate
from lakescan.planning.split import NO_END
from lakescan.planning.task_groups import FileScanTask, TaskGroup
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import TaskRows, open_rows
from lakescan.reading.deletes.equality_deletes import EqualityDeletes
from lakescan.reading.deletes.position_deletes import DeleteLoader, RowSelection
from lakescan.reading.late_materialization import LateMaterialization
from lakescan.reading.parquet.file import ParquetData
from lakescan.reading.record_batches import decode_dictionaries, filter_rows
from lakescan.storage import Storage
from lakescan.storage.errors import read_whole, storage_boundary


def read_group(
    group: TaskGroup,
    context: ReadContext,
    equality: EqualityDeletes | None = None,
    storage: Storage | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read the rows of a task group as batches of the context's output schema. Memory is bounded by one batch.

    `storage` may have prefetched files; without it, the small files of this group are prefetched, up to 64 MB.
    `equality` may be the equality deletes of the whole plan, shared by the groups that one process reads. Raises
    `MissingFile`, `StorageError`, `CorruptMetadata` (`CorruptData`) or `UnsupportedFeature` if a data or delete file
    cannot be read: rows are never skipped.
    """
    paths = group.splits["path"].to_pylist()
    positions = DeleteLoader(context.storage, paths, places=context.places, verify=context.verify)
    equality = equality or EqualityDeletes(context, group.deletes, group.tasks)
    with ExitStack() as stack:
        if storage is None:
            storage = ahead = stack.enter_context(closing(PrefetchStorage.copy_from(context.storage)))
            ahead.add(group, context)
        for task in group.tasks():
            if context.residuals[task.residual] != FALSE:
                yield from _read_task(task, context, storage, positions, equality)


def _read_task(
    task: FileScanTask, context: ReadContext, storage: Storage, positions: DeleteLoader, equality: EqualityDeletes
) -> Iterator[pa.RecordBatch]:
    residual, compared = context.residuals[task.residual], equality.columns_of(task)
    columns = context.columns_for(residual, compared)
    keep_rows = _RowFilter(task, positions, equality, residual)
    with open_rows(task, context, columns, residual, storage) as rows:
        if DELETED in columns.fields:
            batches = _mark_and_filter(rows, columns, keep_rows)
        elif residual != TRUE and isinstance(rows.data, ParquetData):
            batches = LateMaterialization(
                rows, rows.data, columns, context.tested_columns(residual, compared), keep_rows
            ).batches()
        else:
            batches = _filter_batches(rows, columns, keep_rows)
        schema = context.output.arrow()
        for batch in batches:
            if batch.num_rows:
                yield decode_dictionaries(
                    context.select_output(batch, columns), schema, keeps_dictionaries=context.keeps_dictionaries
                )


@dataclass
class _RowFilter:
    """Selects the rows of a task's batches that remain after its deletes and its residual.

    `positions` and `equality` load the deletes.
    """

    task: FileScanTask
    positions: DeleteLoader
    equality: EqualityDeletes
    residual: Predicate

    @cached_property
    def selection(self) -> RowSelection:
        task = self.task
        return self.positions.selection(task.path, task.positional_deletes, task.same_place, task.record_count)

    def live(self, first: int, values: Columns, rows: int) -> pa.Array | None:
        """Return a mask of rows that are not deleted, None if all are live. `first` is the first row's position.

        `values` returns the batch's columns by field id.
        """
        deleted, kept = (self.equality.hits(self.task, first, values, rows, kept=each) for each in (False, True))
        return _and_masks(
            [self.selection.live_rows(first, rows, kept), None if deleted is None else pa.array(~deleted)]
        )

    def matching(self, values: Columns, rows: int, live: pa.Array | None) -> pa.Array | None:
        """Return a mask of rows that match the residual, None if it is always true.

        `values` returns the batch's columns by field id. Only rows in the mask `live` are evaluated, all if it is None.
        """
        return None if self.residual == TRUE else matching_rows(self.residual, values, rows, among=live)

    def __call__(self, first: int, batch: pa.RecordBatch, columns: Schema) -> pa.Array | None:
        """Return a mask of the rows of a batch to keep, None for all of them.

        `first` is the position of the batch's first row, and `columns` its schema.
        """
        values = _values(batch, columns)
        live = self.live(first, values, batch.num_rows)
        return _and_masks([live, self.matching(values, batch.num_rows, live)])


def _values(batch: pa.RecordBatch, columns: Schema) -> Columns:
    """Return a function from field id to values of a batch with the schema `columns`; it decodes dictionary arrays."""
    stored = column_getter(batch, columns)

    def column(field_id: int) -> pa.Array:
        values = stored(field_id)
        return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values

    return column


def _filter_batches(rows: TaskRows, columns: Schema, keep_rows: _RowFilter) -> Iterator[pa.RecordBatch]:
    """Read all columns together; yield the kept rows. Rows are removed before strings are decoded."""
    for first, batch in rows.batches(columns, encoded=True):
        mask = keep_rows(first, batch, columns)
        yield batch if mask is None else filter_rows(batch, mask)


def _mark_and_filter(rows: TaskRows, columns: Schema, keep_rows: _RowFilter) -> Iterator[pa.RecordBatch]:
    """Read all columns; yield the rows that match the residual, also deleted ones, which `_deleted` marks."""
    place = columns.fields.index(DELETED)
    for first, batch in rows.batches(columns):
        live = keep_rows.live(first, _values(batch, columns), batch.num_rows)
        marked = _mark_deleted(batch, place, live)
        mask = keep_rows.matching(_values(marked, columns), batch.num_rows, None)
        yield marked if mask is None else marked.filter(mask)


def _mark_deleted(batch: pa.RecordBatch, place: int, live: pa.Array | None) -> pa.RecordBatch:
    """Return the batch with the column `_deleted`, at index `place`, set from the mask of live rows.

    Unchanged if `live` is None, that is, all rows are live.
    """
    return batch if live is None else batch.set_column(place, DELETED.arrow(), pc.invert(live))


def _and_masks(masks: list[pa.Array | None]) -> pa.Array | None:
    present = [m for m in masks if m is not None]
    return reduce(pc.and_, present) if present else None


_SMALL = 1 << 20  # maximum recorded bytes of a file to prefetch
_FIRST = 16  # files prefetched before the first one is read; the number doubles with each file that is read
_MOST_BYTES = 64 * 2**20  # the limit for prefetched files that are not read yet


class PrefetchStorage(Storage):
    """A storage that prefetches the small remote files of the task groups passed to `add`.

    Other files are opened normally. One instance serves all threads of a process. `close` must be called.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._files: dict[str, int] = {}  # files to prefetch, in order, with their sizes
        self._coming: dict[str, tuple[Future[bytes | None], int]] = {}
        self._window, self._bytes = _FIRST, 0

    def add(self, group: TaskGroup, context: ReadContext) -> None:
        """Prefetch the small remote files of a group, after those of earlier groups.

        These are files of at most 1 MiB that are read whole. Files whose residual (in `context`) excludes all rows are
        left out.
        """
        if not len(group) or not self.is_remote(group.splits["path"][0].as_py()):
            return
        columns = [group.splits[name].to_pylist() for name in ("path", "start", "stop", "length", "residual")]
        with self._lock:
            for path, start, stop, length, residual in zip(*columns, strict=True):
                is_whole = start == 0 and stop == NO_END
                is_wanted = is_whole and length <= _SMALL and context.residuals[residual] != FALSE
                if is_wanted and path not in self._coming and self.is_remote(path):
                    self._files[path] = length
            self._fetch()

    def close(self) -> None:
        """Stop prefetching, without waiting for pending requests."""
        with self._lock:
            self._files.clear()
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)

    def _fetch(self) -> None:
        while self._files and len(self._coming) < self._window and self._bytes <= _MOST_BYTES:
            path = next(iter(self._files))
            size = self._files.pop(path)
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.requests_at_once(path), "lakescan-ahead")
            self._coming[path] = self._pool.submit(self._read_small, path), size
            self._bytes += size

    def _read_small(self, path: str) -> bytes | None:
        """Read a whole file; None if it has more than 2 MiB despite its recorded size."""
        if (data := self.read_in_one_request(path, most=2 * _SMALL)) is not None:
            return data
        with super().open(path) as file, storage_boundary("read", path):
            size = int(file.size())
            return read_whole(file, path, size) if size <= 2 * _SMALL else None

    @contextmanager
    def open(self, location: str) -> Iterator[pa.NativeFile]:
        """Context manager: open a file for random access, in memory if it was prefetched; see `Storage.open`.

        A file is prefetched for one `open` only.
        """
        with self._lock:
            future, size = self._coming.pop(location, (None, 0))
            is_small = self._files.pop(location, None) is not None  # not prefetched yet
            if future is not None:
                self._bytes -= size
                self._window = min(self._window * 2, self.requests_at_once(location))
                self._fetch()
        data = None
        if future is not None and not future.cancelled():
            data = future.result()
        elif is_small:
            data = self._read_small(location)
        if data is None:
            with super().open(location) as file:
                yield file
        else:
            yield pa.BufferReader(data)
