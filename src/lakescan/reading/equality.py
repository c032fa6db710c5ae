"""Equality deletes: which rows of a batch have a key that was deleted after their file was written.

All delete files with the same columns that apply in the same place (a partition, or the whole table) become one map:
key -> newest sequence number that deletes it. A row is deleted if that number is greater than its file's (Iceberg
specification, "Equality Delete Files" and "Scan Planning"), so the map serves every data file of a task group, whatever
their ages. A null in a delete matches null; NaN matches NaN.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.errors import CorruptMetadata, UnsupportedFeature
from lakescan.expressions.evaluate import Columns, columns_of, storage
from lakescan.planning.file_table import EQUALITY
from lakescan.planning.plan import FileScanTask
from lakescan.planning.split import NO_END
from lakescan.reading.context import ReadContext
from lakescan.reading.data_file import open_data_file
from lakescan.reading.deletes import check_count
from lakescan.reading.file_schema import read_fields
from lakescan.reading.key_codes import KeyCodes
from lakescan.reading.projection import resolve
from lakescan.schema import Schema

_BATCH = 1 << 17


@dataclass(frozen=True)
class DeletedKeys:
    """Keys as numbers, column by column: `codes` of its values, and `levels`, the known numbers of the columns so far.

    `newest` has, for each number of all columns, the newest sequence number that deletes the key.
    """

    columns: tuple[int, ...]
    codes: tuple[KeyCodes, ...]
    levels: tuple[np.ndarray | None, ...]
    newest: np.ndarray

    @staticmethod
    def of(columns: tuple[int, ...], keys: list[pa.Array], sequence: np.ndarray) -> DeletedKeys:
        """The map of keys (an array a column) that were deleted at these sequence numbers."""
        codes: list[KeyCodes] = []
        levels: list[np.ndarray | None] = []
        numbers = np.zeros(len(sequence), dtype=np.int64)
        for key in map(_comparable, keys):
            known, found = KeyCodes.of(key)
            if codes:
                level, numbers = np.unique(numbers * len(known) + found, return_inverse=True)
                levels.append(level)
            else:  # every number of the first column is known
                numbers = found
                levels.append(None)
            codes.append(known)
        newest = np.full(int(numbers.max(initial=-1)) + 1, -1, dtype=np.int64)
        np.maximum.at(newest, numbers, sequence)
        return DeletedKeys(columns, tuple(codes), tuple(levels), newest)

    def newest_delete(self, columns: Columns, rows: int) -> np.ndarray:
        """For each row, the newest sequence number that deletes its key; -1 where none does."""
        if not len(self.newest):
            return np.full(rows, -1, dtype=np.int64)
        numbers, known = np.zeros(rows, dtype=np.int64), np.ones(rows, dtype=bool)
        for field_id, codes, level in zip(self.columns, self.codes, self.levels, strict=True):
            found = codes.find(_comparable(columns(field_id)))
            known &= found >= 0
            wanted = numbers * len(codes) + found
            if level is None:
                numbers = np.maximum(wanted, 0)
            else:
                numbers = np.minimum(np.searchsorted(level, wanted), len(level) - 1)
                known &= level[numbers] == wanted
        result: np.ndarray = np.where(known, self.newest[numbers], -1)
        return result


class EqualityDeletes:
    """The equality deletes of a task group, or of a whole plan: each file is decoded once, when it is first needed.

    Safe to share between threads. More deletes than a file's own do no harm: what counts is their sequence numbers.
    """

    def __init__(self, context: ReadContext, deletes: pa.Table) -> None:
        self._context = context
        self._deletes = deletes
        self._maps: dict[tuple[str, tuple[int, ...]], DeletedKeys] = {}
        self._lock = threading.Lock()

    @cached_property
    def _files(self) -> list[dict[str, Any]]:
        """The equality delete files, as rows: made where one of them is needed."""
        return self._deletes.filter(pc.equal(self._deletes["kind"], EQUALITY)).to_pylist()

    @staticmethod
    def columns_of(task: FileScanTask) -> set[int]:
        """The field ids that the task's equality deletes compare."""
        return {field_id for _, ids in task.equality_places for field_id in ids}

    def live_rows(self, task: FileScanTask, columns: Columns, rows: int) -> pa.Array | None:
        """The mask of a batch of the task: true where no equality delete applies; None where the task has none."""
        if not task.equality_places:
            return None
        newest = [self._map(place).newest_delete(columns, rows) for place in task.equality_places]
        return pa.array(np.maximum.reduce(newest) <= task.sequence_number)

    def _map(self, place: tuple[str, tuple[int, ...]]) -> DeletedKeys:
        with self._lock:
            if place not in self._maps:
                self._maps[place] = self._load(place[1], [d for d in self._files if _place(d) == place])
            return self._maps[place]

    def _load(self, ids: tuple[int, ...], files: list[dict[str, Any]]) -> DeletedKeys:
        schema = compared_columns(self._context, ids)
        keys: list[list[pa.Array]] = [[] for _ in ids]
        sequence = []
        for file in files:
            batches = read_deleted_keys(self._context, file, schema)
            table = pa.Table.from_batches(batches, schema=schema.arrow())
            found = columns_of(table, schema)
            for key, field_id in zip(keys, ids, strict=True):
                key.append(_comparable(found(field_id)))
            sequence.append(np.full(table.num_rows, file["sequence_number"], dtype=np.int64))
        return DeletedKeys.of(ids, [pa.concat_arrays(key) for key in keys], np.concatenate(sequence))


def compared_columns(context: ReadContext, ids: tuple[int, ...]) -> Schema:
    """The table's columns that hold the compared fields, dropped ones included."""
    known = context.table_schema
    missing = [i for i in ids if i not in known.by_id]
    if missing:
        raise UnsupportedFeature(f"equality deletes by dropped nested fields (id {missing[0]})")
    tops = {known.top_level_of[i].id: known.top_level_of[i] for i in ids}
    return Schema(tuple(tops.values()))


def read_deleted_keys(context: ReadContext, file: Mapping[str, Any], schema: Schema) -> Iterator[pa.RecordBatch]:
    """The keys of an equality delete file (a row of a delete table), as columns of the schema, some at a time."""
    path, matching = file["path"], context.matching
    with open_data_file(context.storage, path, file["file_format"], file["key_metadata"]) as data:
        projection = resolve(read_fields(data.schema, matching), schema, matching, {})
        absent = [s.target.name for s in projection.sources if s.child is None]
        if absent:
            raise CorruptMetadata(f"equality delete file {path} lacks the column {absent[0]!r} that it deletes by")
        rows = 0
        for _, batch in data.batches(data.chunks(0, NO_END), projection, _BATCH):
            rows += batch.num_rows
            yield pa.RecordBatch.from_arrays(projection.apply(batch), schema=schema.arrow())
        if context.verify:
            check_count(path, rows, file["record_count"])


def _place(delete: dict[str, Any]) -> tuple[str, tuple[int, ...]]:
    """Where a delete applies and by which columns: deletes of one place share a map."""
    return delete["scope"], tuple(delete["equality_ids"])


def _comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values as one array of plain storage."""
    return storage(values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values)
