"""Parquet files: the row groups of a split that can match, and their batches with the position of each first row."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakescan import limits
from lakescan.common import types as t
from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.common.schema import Schema
from lakescan.errors import CorruptData, CorruptMetadata, LakescanError, UnsupportedFeature, missing_dependency
from lakescan.expressions.predicate import Predicate, leaves
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.prune import might_match
from lakescan.reading.batches import batch_of
from lakescan.reading.casting import cast_leaf
from lakescan.reading.decoding import DAMAGE, decoding
from lakescan.reading.file_schema import FileField
from lakescan.reading.parquet.bounds import bounds
from lakescan.reading.parquet.footer import ChunkStatistics, Footer, parsed_footer, read_footer_bytes
from lakescan.reading.parquet.legacy_calendar import LegacyCalendar
from lakescan.reading.projection import Projection
from lakescan.storage.faults import is_storage_fault, shown, storage_boundary
from lakescan.storage.storage import Storage

_PROBE = 1 << 13  # rows that are decoded at once to find what is damaged


@dataclass(frozen=True)
class ParquetData:
    """An open Parquet file of `size` bytes. `calendar` is what its writer counted days by, if not today's."""

    file: pq.ParquetFile
    path: str
    footer: Footer
    size: int
    calendar: LegacyCalendar | None = None

    def as_spark_reads(self) -> ParquetData:
        """The file, its days and times as Spark reads them: by the calendar that its footer says."""
        return replace(self, calendar=LegacyCalendar.of(self.file.metadata.metadata))

    @property
    def schema(self) -> pa.Schema:
        """Its Arrow schema; field ids are in the metadata of the fields."""
        with decoding(self.path, "its schema"):
            return self.file.schema_arrow

    @property
    def rows(self) -> int:
        """The rows that it has, as its footer says."""
        return int(self.footer.first_rows[-1])

    def chunks(self, start: int, stop: int) -> list[int]:
        """The row groups whose first byte lies in [start, stop). One step a row group of the file."""
        if start <= 0 and stop >= self.size:
            return list(range(self.file.metadata.num_row_groups))
        return [i for i, first in enumerate(self.footer.starts(self.size)) if start <= first < stop]

    def batches(
        self, chunks: list[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of the projection's columns, each with the position in the file of its first row.

        Raises `CorruptData` where pages cannot be decoded, or row groups have other rows than the footer says.
        """
        first = self.footer.first_rows
        for run in runs(chunks):
            position, end = int(first[run[0]]), int(first[run[-1] + 1])
            leaves = list(projection.leaves)
            if not leaves and self._is_believable(end - position):
                yield from _empty_batches(position, end - position, batch_size)
                continue
            for batch in self._decoded(run, leaves or [0], batch_size):
                yield position, self._as_meant(batch, leaves) if leaves else batch_of([], pa.schema([]), batch.num_rows)
                position += batch.num_rows
            if position != end:
                raise self._miscounted(run, position - end)

    def _as_meant(self, batch: pa.RecordBatch, leaves: list[int]) -> pa.RecordBatch:
        """A batch of these leaf columns with the days and times that its writer meant."""
        if self.calendar is None:
            return batch
        is_int96 = (self.file.schema.column(leaf).physical_type == "INT96" for leaf in leaves)
        columns = [self.calendar.as_meant(column, is_int96) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _is_believable(self, rows: int) -> bool:
        """Whether so many rows can be in a file of this size, without a look at any of its columns."""
        return rows <= self.size * limits.ROWS_PER_BYTE or not self.file.metadata.num_columns

    def _decoded(self, run: list[int], leaves: list[int], batch_size: int) -> Iterator[pa.RecordBatch]:
        """The batches of row groups that follow one another."""
        rows = 0
        try:
            for batch in self.file.reader.iter_batches(
                batch_size, row_groups=run, column_indices=leaves, use_threads=True
            ):
                yield batch
                rows += batch.num_rows
        except (MemoryError, *DAMAGE) as error:
            if "noted as encrypted" in str(error):  # a column, under a plain footer
                raise encrypted(self.path) from error
            told = isinstance(error, LakescanError | MemoryError) or is_storage_fault(error)
            with decoding(self.path, "a row group" if told else self._culprit(run, leaves, rows, batch_size)):
                raise

    def _culprit(self, run: list[int], leaves: list[int], rows: int, batch_size: int) -> str:
        """The first column of the first row group that cannot be decoded behind so many rows of a run, in words."""
        first = self.footer.first_rows
        position = int(first[run[0]]) + rows
        groups = [g for g in run if first[g + 1] > position and first[g] <= position + batch_size]
        for group, leaf in itertools.product(groups, leaves):
            try:
                for _ in self.file.reader.iter_batches(_PROBE, row_groups=[group], column_indices=[leaf]):
                    pass
            except (MemoryError, *DAMAGE):
                return f"column {self.file.schema.column(leaf).path!r} of row group {group}"
        return f"row group {groups[0] if groups else run[-1]}"

    def _miscounted(self, run: list[int], more: int) -> CorruptData:
        which = f"row group {run[0]} has" if len(run) == 1 else f"row groups {run[0]} to {run[-1]} have"
        what = f"{abs(more):,} rows {'more' if more > 0 else 'fewer'}"
        return CorruptData(
            f"{shown(self.path)}: {which} {what} than the footer says, so that the rows behind would be taken for "
            "others. The file is damaged: restore it, or write its rows again."
        )


@contextmanager
def open_parquet(
    storage: Storage, path: str, key_metadata: bytes | None = None, *, verify: bool = False
) -> Iterator[ParquetData]:
    """Open a data or delete file; raises `MissingFile`, and `CorruptData` for what is not Parquet."""
    decryption = None if key_metadata is None else _decryption(storage, path, key_metadata)
    with storage.open(path) as handle:
        with storage_boundary("read", path):
            size, data = int(handle.size()), read_footer_bytes(handle, path)
        if data is None and decryption is None:
            raise encrypted(path)
        footer = None if decryption is not None or data is None else parsed_footer(data, path)
        with decoding(path, "its footer"):
            file = pq.ParquetFile(
                handle,
                metadata=None if footer is None else footer.metadata,
                pre_buffer=False,
                coerce_int96_timestamp_unit="us",
                arrow_extensions_enabled=False,
                decryption_properties=decryption,
                page_checksum_verification=verify,
            )
        yield ParquetData(file, path, footer or Footer(path, file.metadata, data), size)


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
    known = {leaf.bound_id for leaf in leaves(predicate)} - RESERVED_IDS  # those may be inherited
    found = {i: at for i in known if (at := projection.leaf_of(i, fields)) is not None}
    statistics = data.footer.statistics(leaf for leaf, _ in found.values())
    rows = pa.array(np.diff(data.footer.first_rows)[row_groups], pa.int64())
    stats = {}
    for field_id, (leaf, source) in found.items():
        chosen = [statistics[leaf][group] for group in row_groups]
        nulls = pa.array([s.null_count for s in chosen], pa.int64())
        physical = data.file.schema.column(leaf).physical_type
        lower, upper = (_bound(chosen, side, physical, source, schema.by_id[field_id]) for side in ("lower", "upper"))
        if data.calendar is not None:
            lower, upper = (data.calendar.sure_bounds(each) for each in (lower, upper))
        stats[field_id] = ColumnStats(lower, upper, nulls, None, rows)
    mask = might_match(predicate, stats, len(row_groups)).to_pylist()
    return [group for group, kept in zip(row_groups, mask, strict=True) if kept]


def _bound(
    statistics: list[ChunkStatistics], side: str, physical_type: str, source: FileField, target: t.Field
) -> pa.Array | None:
    """One side's bounds in the column's type; None where the file's type does not say them plainly."""
    if (
        not isinstance(target.type, t.Atomic | t.Decimal | t.Timestamp)
        or target.type in (t.UUID, t.BINARY)
        or target.pad
    ):
        return None
    try:
        found = bounds(statistics, side, physical_type, source.type)
        return None if found is None else cast_leaf(found, target.type, target.name)
    except (pa.ArrowException, CorruptMetadata, TypeError, ValueError, ArithmeticError):
        return None


def runs(row_groups: list[int]) -> Iterator[list[int]]:
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
