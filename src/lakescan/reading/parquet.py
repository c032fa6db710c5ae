"""Parquet files: the row groups of a split that can match, and their batches with the position of each first row."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakescan import types as t
from lakescan.errors import CorruptMetadata, UnsupportedFeature, missing_dependency
from lakescan.expressions.predicate import Predicate, leaves
from lakescan.metadata_columns import RESERVED_IDS
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.prune import might_match
from lakescan.reading.batches import batch_of
from lakescan.reading.casting import cast_leaf
from lakescan.reading.file_schema import FileField
from lakescan.reading.projection import Projection
from lakescan.schema import Schema
from lakescan.storage import Storage


@dataclass(frozen=True)
class ParquetData:
    """An open Parquet file."""

    file: pq.ParquetFile
    path: str

    @property
    def schema(self) -> pa.Schema:
        """Its Arrow schema; field ids are in the metadata of the fields."""
        return self.file.schema_arrow

    def chunks(self, start: int, stop: int) -> list[int]:
        """The row groups whose first byte lies in [start, stop). One step a row group of the file."""
        metadata = self.file.metadata
        return [i for i in range(metadata.num_row_groups) if start <= _first_byte(metadata.row_group(i)) < stop]

    def first_rows(self) -> np.ndarray:
        """The position in the file of each row group's first row."""
        metadata = self.file.metadata
        counts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        result: np.ndarray = np.concatenate([[0], np.cumsum(np.array(counts, dtype=np.int64))])
        return result

    def batches(
        self, chunks: list[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the projection's columns, each with the position in the file of its first row."""
        first = self.first_rows()
        for run in _runs(chunks):
            position = int(first[run[0]])
            if not projection.leaves:
                yield from _empty_batches(position, int(first[run[-1] + 1]) - position, batch_size)
                continue
            batches = self.file.reader.iter_batches(
                batch_size, row_groups=run, column_indices=list(projection.leaves), use_threads=True
            )
            for batch in _named_if_encrypted(batches, self.path):
                yield position, batch
                position += batch.num_rows


_ENCRYPTED = b"PARE"


@contextmanager
def open_parquet(storage: Storage, path: str, key_metadata: bytes | None = None) -> Iterator[ParquetData]:
    """Open a data or delete file; raises `MissingFile`, and `CorruptMetadata` for what is not Parquet."""
    decryption = None if key_metadata is None else _decryption(storage, path, key_metadata)
    with storage.open(path) as handle:
        if decryption is None:
            _check_plain(handle, path)
        try:
            file = pq.ParquetFile(
                handle,
                pre_buffer=False,
                coerce_int96_timestamp_unit="us",
                arrow_extensions_enabled=False,
                decryption_properties=decryption,
            )
        except (pa.ArrowException, OSError) as error:
            raise CorruptMetadata(f"{path} is not a Parquet file that can be read: {error}") from error
        yield ParquetData(file, path)


def _check_plain(handle: pa.NativeFile, path: str) -> None:
    """Raise `UnsupportedFeature` for a file with an encrypted footer, which ends with a magic of its own."""
    if (size := handle.size()) >= len(_ENCRYPTED):
        handle.seek(size - len(_ENCRYPTED))
        if handle.read(len(_ENCRYPTED)) == _ENCRYPTED:
            raise encrypted(path)
        handle.seek(0)


def _named_if_encrypted(batches: Iterator[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
    """The batches; raises `UnsupportedFeature` where a column is encrypted under a plain footer."""
    try:
        yield from batches
    except OSError as error:
        if "noted as encrypted" not in str(error):
            raise
        raise encrypted(path) from error


def encrypted(path: str) -> UnsupportedFeature:
    """The error for a file that is encrypted where no key manager was given."""
    return UnsupportedFeature("encrypted files without a key manager", f"{path} is one: pass key_manager=.")


def _decryption(storage: Storage, path: str, key_metadata: bytes) -> Any:
    """How to decrypt a file (Parquet modular encryption); a file that turns out to be plain is refused.

    Without a key manager, key metadata is ignored, as the reference does: some writers give it to plain files.
    """
    if storage.key_manager is None:
        return None
    try:
        from pyarrow.parquet.encryption import create_decryption_properties
    except ImportError as error:
        raise missing_dependency("pyarrow >= 24 with encryption", "all", "reading encrypted Parquet files") from error
    found = storage.key_manager.file_key(path, key_metadata)
    return create_decryption_properties(found.key, aad_prefix=found.aad_prefix)


def matching_row_groups(
    data: ParquetData,
    row_groups: list[int],
    predicate: Predicate,
    fields: tuple[FileField, ...],
    projection: Projection,
    schema: Schema,
) -> list[int]:
    """The row groups that the predicate cannot rule out by the statistics in the file's footer."""
    stats = {}
    for field_id in {leaf.bound_id for leaf in leaves(predicate)} - RESERVED_IDS:  # those may be inherited
        if (found := projection.leaf_of(field_id, fields)) is not None:
            stats[field_id] = _leaf_stats(data.file.metadata, row_groups, *found, schema.by_id[field_id])
    mask = might_match(predicate, stats, len(row_groups)).to_pylist()
    return [group for group, kept in zip(row_groups, mask, strict=True) if kept]


def _leaf_stats(
    metadata: pq.FileMetaData, row_groups: list[int], leaf: int, source: FileField, target: t.Field
) -> ColumnStats:
    found: list[Any] = [metadata.row_group(g).column(leaf) for g in row_groups]
    statistics = [c.statistics if c.is_stats_set else None for c in found]
    rows = pa.array([metadata.row_group(g).num_rows for g in row_groups], pa.int64())
    nulls = pa.array([s.null_count if s is not None and s.has_null_count else None for s in statistics], pa.int64())
    lower, upper = (_bound(statistics, side, source, target) for side in ("min", "max"))
    return ColumnStats(lower, upper, nulls, None, rows)


def _bound(statistics: list[Any], side: str, source: FileField, target: t.Field) -> pa.Array | None:
    """One side's bounds in the column's type; None where the file's type does not say them plainly."""
    if not isinstance(target.type, t.Atomic | t.Decimal | t.Timestamp) or target.type in (t.UUID, t.BINARY):
        return None
    values = [getattr(s, side) if s is not None and s.has_min_max else None for s in statistics]
    try:
        return cast_leaf(pa.array(values, source.type), target.type, target.name)
    except (pa.ArrowException, CorruptMetadata, TypeError, ValueError, OverflowError):
        return None


def _first_byte(row_group: pq.RowGroupMetaData) -> int:
    """Where a row group starts: its first column's dictionary page, or its first data page."""
    if not row_group.num_columns:
        return 0
    column = row_group.column(0)
    dictionary = column.dictionary_page_offset
    data: int = column.data_page_offset
    return data if not dictionary or dictionary > data else int(dictionary)


def _runs(row_groups: list[int]) -> Iterator[list[int]]:
    """Row groups that follow one another, together."""
    run: list[int] = []
    for group in row_groups:
        if run and group != run[-1] + 1:
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def _empty_batches(position: int, rows: int, batch_size: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Batches with rows and no columns, for scans that only need to count."""
    for start in range(0, rows, batch_size):
        size = min(batch_size, rows - start)
        yield position + start, batch_of([], pa.schema([]), size)
