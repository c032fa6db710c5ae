"""Reads Parquet files: the row groups of a split that can match, as batches with the position of the first row."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan import limits
from lakescan.common import types as t
from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.common.schema import Schema
from lakescan.errors import CorruptData, CorruptMetadata, LakescanError, UnsupportedFeature, missing_dependency
from lakescan.expressions.predicate import Predicate, leaves
from lakescan.planning.column_stats import ColumnStats
from lakescan.planning.prune import might_match
from lakescan.reading.decoding_errors import DAMAGE, decoding
from lakescan.reading.field_ids import FileField
from lakescan.reading.parquet.footer import (
    PHYSICAL,
    ChunkStatistics,
    Footer,
    decode_bounds,
    parse_footer,
    read_footer_bytes,
)
from lakescan.reading.parquet.indexes import (
    BloomFilter,
    bloom_filters_may_match,
    equality_fields,
    index_bytes,
    page_statistics,
    pages_may_match,
)
from lakescan.reading.parquet.legacy_calendar import LegacyCalendar
from lakescan.reading.parquet.polars_decoder import LEAST_ROWS, PIECE_BYTES, fixed_width_columns
from lakescan.reading.parquet.polars_decoder import decode_with_polars as decoded_by_polars
from lakescan.reading.projection import Projection
from lakescan.reading.record_batches import batch_of
from lakescan.reading.type_promotion import cast_leaf, pad_bounds
from lakescan.storage import Storage
from lakescan.storage.errors import is_storage_fault, redact, storage_boundary

_PROBE = 1 << 13  # rows of a batch when locating damage
_WORTH_DICTIONARIES = 10_000  # minimum rows for which opening another reader for dictionaries is worthwhile


@dataclass(frozen=True)
class ParquetData:
    """An open Parquet file of `size` bytes (`DataFile`). Its chunks are row groups.

    `calendar` is its writer's legacy calendar, None if no values need rebasing. `reopened` opens the file again, with
    dictionary arrays for the given leaf columns. `local` is the path of a local file if Polars may read some of its
    columns. `handle` is the open file, None if it is encrypted.
    """

    file: pq.ParquetFile
    path: str
    footer: Footer
    size: int
    calendar: LegacyCalendar | None = None
    reopened: Callable[[list[int]], pq.ParquetFile] | None = None
    local: str | None = None
    handle: pa.NativeFile | None = None

    def as_spark_reads(self) -> ParquetData:
        """Return the file with the legacy calendar that its footer declares, so that values are rebased as in Spark."""
        return replace(self, calendar=LegacyCalendar.read_metadata(self.file.metadata.metadata))

    @property
    def schema(self) -> pa.Schema:
        """The file's Arrow schema, with field ids in the fields' metadata."""
        with decoding(self.path, "its schema"):
            return self.file.schema_arrow

    @property
    def rows(self) -> int:
        """The row count in the footer."""
        return int(self.footer.first_rows[-1])

    def chunks(self, start: int, stop: int) -> list[int]:
        """Return the row groups whose first byte is in [start, stop). Takes one Python step per row group."""
        if start <= 0 and stop >= self.size:
            return list(range(self.file.metadata.num_row_groups))
        return [i for i, first in enumerate(self.footer.starts(self.size)) if start <= first < stop]

    def batches(
        self, chunks: Sequence[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the file position of the first row, and a batch of the projection's columns.

        `chunks` are row groups. String and binary columns that have dictionaries in the file are dictionary arrays,
        which takes a quarter of the time. Raises `CorruptData` if a page cannot be decoded, or a row group's row count
        differs from the footer's.
        """
        first = self.footer.first_rows
        file = self._with_dictionaries(projection, sum(int(first[each + 1] - first[each]) for each in chunks))
        for run in runs(chunks):
            position, end = int(first[run[0]]), int(first[run[-1] + 1])
            leaves = list(projection.leaves)
            if not leaves and self._is_plausible(end - position):
                yield from _empty_batches(position, end - position, batch_size)
                continue
            for batch in self._batches_of(file, run, projection, batch_size):
                yield position, self._rebase(batch, leaves) if leaves else batch_of([], pa.schema([]), batch.num_rows)
                position += batch.num_rows
            if position != end:
                raise self._count_error(run, position - end)

    def _with_dictionaries(self, projection: Projection, rows: int) -> pq.ParquetFile:
        """Return the pyarrow file for reading `rows` rows: opened with dictionary arrays if that is worthwhile."""
        if self.reopened is None or rows < _WORTH_DICTIONARIES:
            return self.file
        names = {self.file.schema.column(leaf).path: leaf for leaf in projection.leaves}
        texts = [names[f.name] for f in projection.read if f.type in (pa.string(), pa.binary()) and f.name in names]
        found = self.footer.dictionary_leaves(texts)
        with decoding(self.path, "its footer"):
            return self.reopened(sorted(found)) if found else self.file

    def _rebase(self, batch: pa.RecordBatch, leaves: list[int]) -> pa.RecordBatch:
        """Rebase the dates and timestamps in a batch of these leaf columns, if the file has a legacy calendar.

        `leaves` are the numbers of the leaf columns, in order.
        """
        if self.calendar is None:
            return batch
        is_int96 = (self.file.schema.column(leaf).physical_type == "INT96" for leaf in leaves)
        columns = [self.calendar.rebase(column, is_int96) for column in batch.columns]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _is_plausible(self, rows: int) -> bool:
        """Return whether a file of this size can have so many rows. If not, a column is decoded to count them."""
        return rows <= self.size * limits.ROWS_PER_BYTE or not self.file.metadata.num_columns

    def _batches_of(
        self, file: pq.ParquetFile, run: list[int], projection: Projection, batch_size: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of consecutive row groups (`run`). Polars decodes fixed-width columns where possible.

        Raises `CorruptData`.
        """
        first, leaves = self.footer.first_rows, list(projection.leaves) or [0]
        quick: dict[int, str] = {}
        rows = min(batch_size, int(first[run[-1] + 1] - first[run[0]]))
        if self.local is not None and projection.leaves and rows >= LEAST_ROWS:
            quick = fixed_width_columns(self.file, self.footer, leaves)
        others = [leaf for leaf in leaves if leaf not in quick]
        for piece in self._pieces(run, len(quick)) if quick else ():
            start, stop = int(first[piece[0]]), int(first[piece[-1] + 1])
            decoded = decoded_by_polars(self.local or "", list(quick.values()), start, stop - start, self.schema)
            if decoded is None:
                run = run[run.index(piece[0]) :]
                break
            if others:
                yield from self._join_columns(decoded, self._decode(file, piece, others, batch_size), projection, piece)
            else:
                yield from decoded.to_batches(max_chunksize=batch_size)
        else:
            if quick:
                return
        yield from self._decode(file, run, leaves, batch_size)

    def _pieces(self, run: list[int], columns: int) -> Iterator[list[int]]:
        """Yield splits of consecutive row groups, with at least `PIECE_BYTES` of the `columns` that Polars decodes.

        The last split may be smaller.
        """
        first, piece = self.footer.first_rows, []
        for group in run:
            piece.append(group)
            if 8 * columns * (first[group + 1] - first[piece[0]]) >= PIECE_BYTES:
                yield piece
                piece = []
        if piece:
            yield piece

    def _join_columns(
        self, decoded: pa.Table, batches: Iterator[pa.RecordBatch], projection: Projection, piece: list[int]
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches with all columns in file order: those that Polars `decoded`, and the others in `batches`.

        `piece` are their row groups. Raises `CorruptData` if the two have different numbers of rows.
        """
        rows = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            rows += batch.num_rows
            if rows > decoded.num_rows:
                raise self._count_error(piece, rows + sum(each.num_rows for each in batches) - decoded.num_rows)
            same = decoded.slice(rows - batch.num_rows, batch.num_rows).combine_chunks()
            rest = iter(zip(batch.columns, batch.schema, strict=True))
            pairs = [
                (same[field.name].chunk(0), self.schema.field(field.name))
                if field.name in same.column_names
                else next(rest)
                for field in projection.read
            ]
            yield pa.RecordBatch.from_arrays([array for array, _ in pairs], schema=pa.schema([f for _, f in pairs]))
        if rows != decoded.num_rows:
            raise self._count_error(piece, rows - decoded.num_rows)

    def _decode(
        self, file: pq.ParquetFile, run: list[int], leaves: list[int], batch_size: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of these leaf columns of consecutive row groups, decoded by pyarrow.

        Raises `CorruptData` that names the damaged column, `StorageError`, and `UnsupportedFeature` for an encrypted
        column.
        """
        rows = 0
        try:
            for batch in file.reader.iter_batches(batch_size, row_groups=run, column_indices=leaves, use_threads=True):
                yield batch
                rows += batch.num_rows
        except (MemoryError, *DAMAGE) as error:
            if "noted as encrypted" in str(error):  # an encrypted column in a file with a plain footer
                raise encryption_error(self.path) from error
            not_damage = isinstance(error, LakescanError | MemoryError) or is_storage_fault(error)
            part = "a row group" if not_damage else self._damaged_part(run, leaves, rows, batch_size)
            with decoding(self.path, part):
                raise

    def _damaged_part(self, run: list[int], leaves: list[int], rows: int, batch_size: int) -> str:
        """Name the first row group and column that cannot be decoded, for a message.

        `run` are the row groups and `leaves` the columns that were read, and `rows` rows were decoded before the error.
        """
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

    def _count_error(self, run: list[int], more: int) -> CorruptData:
        which = f"row group {run[0]} has" if len(run) == 1 else f"row groups {run[0]} to {run[-1]} have"
        what = f"{abs(more):,} rows {'more' if more > 0 else 'fewer'}"
        return CorruptData(
            f"{redact(self.path)}: {which} {what} than the footer records, so later rows would get wrong positions. "
            "The file is damaged: restore it, or rewrite its rows."
        )


@contextmanager
def open_parquet(
    storage: Storage, path: str, key_metadata: bytes | None = None, *, verify: bool = False
) -> Iterator[ParquetData]:
    """Context manager: open a data or delete file; raises `MissingFile`, and `CorruptData` if it is not Parquet.

    `key_metadata` decrypts it by the storage's key manager. `verify`: check the checksums of pages. Raises
    `UnsupportedFeature` for an encrypted file without a key manager.
    """
    decryption = None if key_metadata is None else _decryption(storage, path, key_metadata)
    with storage.open(path) as handle:
        with storage_boundary("read", path):
            size, data = int(handle.size()), read_footer_bytes(handle, path)
        if data is None and decryption is None:
            raise encryption_error(path)
        footer = None if decryption is not None or data is None else parse_footer(data, path)

        def open_file(dictionaries: list[int] | None = None) -> pq.ParquetFile:
            return pq.ParquetFile(
                handle,
                metadata=None if footer is None else footer.metadata,
                read_dictionary=dictionaries,
                pre_buffer=False,
                coerce_int96_timestamp_unit="us",
                arrow_extensions_enabled=False,
                decryption_properties=decryption,
                page_checksum_verification=verify,
            )

        with decoding(path, "its footer"):
            file = open_file()
        whole = footer or Footer(path, file.metadata, data)
        local = None if footer is None or verify else storage.local_path(path)
        more = {} if footer is None else {"reopened": open_file, "handle": handle}
        yield ParquetData(file, path, whole, size, local=local, **more)


def encryption_error(path: str) -> UnsupportedFeature:
    """Return the error for an encrypted file without a key manager."""
    return UnsupportedFeature(
        "encrypted files without a key manager", f"{redact(path)} is encrypted: pass key_manager=."
    )


def _decryption(storage: Storage, path: str, key_metadata: bytes) -> Any:
    """Return pyarrow's decryption properties of a file (Parquet modular encryption).

    Reading a plain file with them fails. Returns None without a key manager: then, key metadata is ignored, as in
    Iceberg's Java library, since some writers set it for plain files. Raises the errors of `UnwrappedKeys.file_key`.
    """
    if storage.unwrapped_keys is None:
        return None
    try:
        from pyarrow.parquet.encryption import create_decryption_properties
    except ImportError as error:
        raise missing_dependency("pyarrow >= 24 with encryption", "all", "reading encrypted Parquet files") from error
    key = storage.unwrapped_keys.file_key(path, key_metadata)
    return create_decryption_properties(key.key, aad_prefix=key.aad_prefix)


def matching_row_groups(
    data: ParquetData,
    row_groups: Sequence[int],
    predicate: Predicate,
    fields: tuple[FileField, ...],
    projection: Projection,
    schema: Schema,
) -> list[int]:
    """Return the row groups that may have rows matching `predicate`, by statistics in the file.

    These are the footer's statistics, Bloom filters and column indexes. `fields` are the file's columns. The projection
    finds those of the table's `schema` among them. Raises `CorruptData`.
    """
    ids = {leaf.bound_id for leaf in leaves(predicate)} - RESERVED_IDS  # row lineage may be inherited, not stored
    columns = {i: at for i in ids if (at := projection.leaf_of(i, fields)) is not None}
    statistics = data.footer.statistics(leaf for leaf, _ in columns.values())
    rows = pa.array(np.diff(data.footer.first_rows)[row_groups], pa.int64())
    stats = {}
    for field_id, (leaf, source) in columns.items():
        chosen = [statistics[leaf][group] for group in row_groups]
        nulls = pa.array([s.null_count for s in chosen], pa.int64())
        physical = data.file.schema.column(leaf).physical_type
        target, writer = schema.by_id[field_id], data.file.metadata.created_by
        lower, upper = (_bound(chosen, side, physical, source, target, writer) for side in ("lower", "upper"))
        if data.calendar is not None:
            lower, upper = (data.calendar.reliable_bounds(each) for each in (lower, upper))
        stats[field_id] = ColumnStats(lower, upper, nulls, None, rows)
    mask = might_match(predicate, stats, len(row_groups)).to_pylist()
    kept = [group for group, may in zip(row_groups, mask, strict=True) if may]
    return _prune_by_indexes(data, kept, predicate, columns, schema) if kept and data.handle is not None else kept


def _prune_by_indexes(
    data: ParquetData,
    row_groups: list[int],
    predicate: Predicate,
    columns: Mapping[int, tuple[int, FileField]],
    schema: Schema,
) -> list[int]:
    """Return the row groups that Bloom filters and column indexes do not exclude; see `parquet.indexes`.

    `columns` maps the ids of the predicate's fields to their leaf columns and file fields.
    """
    handle = data.handle
    assert handle is not None
    file = data.file

    def read(start: int, length: int) -> bytes:
        with storage_boundary("read", data.path):
            return bytes(handle.read_at(length, start))

    with decoding(data.path, "its footer"):
        places = [leaf for leaf, _ in columns.values()]
        physical = {i: file.schema.column(leaf).physical_type for i, (leaf, _) in columns.items()}
        equal = equality_fields(predicate) & columns.keys()
        hashed = {i: physical[i] for i in equal if _is_hashed(data, columns[i][1], schema.by_id[i])}
        blooms = data.footer.bloom_filters(columns[i][0] for i in hashed)
        indexes = data.footer.column_indexes(places)
    if not any(any(found) for found in (*blooms.values(), *indexes.values())):
        return row_groups

    def may_match(group: int) -> bool:
        def bloom(field_id: int) -> BloomFilter | None:
            extent = blooms.get(columns[field_id][0], {group: None})[group]
            return None if extent is None else BloomFilter.parse(read, extent, data.size)

        def pages(field_id: int) -> ColumnStats | None:
            if field_id not in columns:
                return None
            leaf, source = columns[field_id]
            found = index_bytes(read, indexes.get(leaf, {group: None})[group], data.size)
            number = PHYSICAL.get(physical[field_id])
            parsed = None if found is None else page_statistics(found, number)
            if parsed is None:
                return None
            return _page_stats(data, *parsed, physical[field_id], source, schema.by_id[field_id])

        return bloom_filters_may_match(predicate, hashed, bloom) and pages_may_match(predicate, pages)

    return [group for group in row_groups if may_match(group)]


def _is_hashed(data: ParquetData, source: FileField, target: t.Field) -> bool:
    """Return whether literals can be looked up in a column's Bloom filters: signed integers, dates and strings.

    `source` is the column in the file, and `target` in the table. False for CHAR(n), which may be stored without the
    padding that literals and read values have, and for dates in a legacy calendar.
    """
    kind = source.type
    if target.width:
        return False
    if pa.types.is_date32(kind):
        return data.calendar is None
    return bool(pa.types.is_signed_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _page_stats(
    data: ParquetData,
    pages: list[ChunkStatistics],
    only_null: pa.Array,
    physical: str,
    source: FileField,
    target: t.Field,
) -> ColumnStats:
    """Return the statistics of pages (`pages`, from a column index), each as if the page had one value.

    The value is null for pages with only nulls (`only_null`), not null for pages without nulls, and unknown for others.
    """
    writer = data.file.metadata.created_by
    lower, upper = (_bound(pages, side, physical, source, target, writer) for side in ("lower", "upper"))
    if data.calendar is not None:
        lower, upper = (data.calendar.reliable_bounds(each) for each in (lower, upper))
    has_none = pa.array([None if each.null_count is None else each.null_count == 0 for each in pages], pa.bool_())
    unknown = pa.scalar(None, pa.int64())
    nulls = pc.if_else(only_null, 1, pc.if_else(pc.fill_null(has_none, False), 0, unknown))
    return ColumnStats(lower, upper, nulls.cast(pa.int64()), None, pa.repeat(pa.scalar(1, pa.int64()), len(pages)))


def _bound(
    statistics: list[ChunkStatistics],
    side: str,
    physical_type: str,
    source: FileField,
    target: t.Field,
    created_by: str | None,
) -> pa.Array | None:
    """Return the lower or upper bounds (`side`) as an Arrow array of the table column's type.

    None if the type in the file (`source`) does not convert exactly to that of the table (`target`), or the writer
    `created_by` records wrong bounds.
    """
    if not isinstance(target.type, t.Atomic | t.Decimal | t.Timestamp) or target.type in (t.UUID, t.BINARY):
        return None
    try:
        values = decode_bounds(statistics, side, physical_type, source.type, created_by)
        found = None if values is None else cast_leaf(values, target.type, target.name)
        return pad_bounds(found, target.width, upper=side == "upper") if target.width and found is not None else found
    except (pa.ArrowException, CorruptMetadata, TypeError, ValueError, ArithmeticError):
        return None


def runs(row_groups: Sequence[int]) -> Iterator[list[int]]:
    """Split ascending row groups into runs of consecutive ones."""
    run: list[int] = []
    for group in row_groups:
        if run and group != run[-1] + 1:
            yield run
            run = []
        run.append(group)
    if run:
        yield run


def _empty_batches(position: int, rows: int, batch_size: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the position of the first row, and batches of `rows` rows without columns, for scans that only count."""
    for start in range(0, rows, batch_size):
        size = min(batch_size, rows - start)
        yield position + start, batch_of([], pa.schema([]), size)
