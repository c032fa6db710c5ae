"""Writing of Parquet files by partition and row group, with a new file when one reaches its target size."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakescan.errors import UnsupportedFeature, missing_dependency
from lakescan.storage.encryption.table_keys import NewKey
from lakescan.storage.errors import storage_boundary
from lakescan.writing.conform import Fit, retype
from lakescan.writing.file_statistics import (
    FileStatistics,
    LeafColumn,
    NanStatistics,
    leaves_of,
    nan_columns,
    nan_statistics,
)
from lakescan.writing.partition_key import exact_key, split_by_partition
from lakescan.writing.table_writes import Key, TableWrites, WrittenFile

GROUP_ROWS = 1 << 20  # the most rows that a writer buffers for a row group, whatever the table's limits are
_NO_LIMIT = 1 << 62


def encryption_arguments(key: NewKey | None) -> dict[str, Any]:
    """Return arguments for `pyarrow.parquet.ParquetWriter` that encrypt the whole file, as Iceberg's Java library does.

    Empty without a key. Raises `MissingDependency` if pyarrow was built without encryption.
    """
    if key is None:
        return {}
    try:
        from pyarrow.parquet.encryption import create_encryption_properties
    except ImportError as error:
        raise missing_dependency("pyarrow >= 24 with encryption", "all", "writing encrypted Parquet files") from error
    properties = create_encryption_properties(key.key, aad_prefix=key.aad_prefix, store_aad_prefix=False)
    return {"encryption_properties": properties}


class ParquetPartitionWriter:
    """Writes the files of one partition, buffering rows until they fill a row group.

    `key` has the partition values. `schema` is the Arrow schema of the files, and `leaves` are their leaf columns.
    `new_name` returns the name of the next file. `group_rows` is the maximum number of rows of a row group.
    """

    def __init__(
        self,
        writes: TableWrites,
        key: Key,
        schema: pa.Schema,
        leaves: Sequence[LeafColumn],
        new_name: Callable[[], str],
        group_rows: int = GROUP_ROWS,
    ) -> None:
        most, self._group_bytes = writes.row_group_limits
        self._group_rows = min(group_rows, most)
        self._writes, self._key, self._schema, self._leaves, self._new_name = writes, key, schema, leaves, new_name
        self._counted: dict[int, NanStatistics] = {}  # for leaf columns without footer statistics in the open file
        self._kept: list[pa.RecordBatch] = []
        self._rows = 0
        self._written = 0  # rows written to the open file
        self.kept_bytes: int = 0
        self._location = ""
        self._sink: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._encryption: NewKey | None = None  # key of the open file
        self.locations: list[str] = []
        self.done: list[WrittenFile] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Buffer rows of the partition, and write row groups and start new files as limits are reached."""
        while (room := self._room()) < rows.num_rows:
            self._take(rows.slice(0, room))
            self.flush()
            self._end()
            rows = rows.slice(room)
        self._take(rows)
        if self._rows >= self._group_rows or self.kept_bytes >= (self._group_bytes or self._writes.target_size):
            self.flush()

    def _room(self) -> int:
        """Return how many more rows fit into the open file besides the buffered rows, by `max_rows` of the write."""
        most = self._writes.max_rows
        return _NO_LIMIT if most is None else most - self._written - self._rows

    def _take(self, rows: pa.RecordBatch) -> None:
        self._kept.append(rows)
        self._rows += rows.num_rows
        self.kept_bytes += rows.nbytes

    def flush(self) -> None:
        """Write the buffered rows, sorted by the table's order, as row groups; finish the file at its target size.

        If NaN now occurs in a column, and the open file's footer already has statistics for it, finish that file first.
        """
        if not self._rows:
            return
        table = pa.Table.from_batches(self._kept, self._schema)
        nans = nan_columns(table, self._leaves)
        if not nans <= self._counted.keys():
            self._end()  # the open file already has footer statistics for such a column
        writer, sink = self._open_file(table, nans)
        self._counted = {n: each + nan_statistics(table, self._leaves[n]) for n, each in self._counted.items()}
        ordered = self._writes.sort_rows(table)
        with storage_boundary("written", self._location, passing=pa.ArrowException):
            writer.write_table(ordered, row_group_size=self._rows_of_groups())
            size = sink.tell()
        self._written += self._rows
        self._kept, self._rows, self.kept_bytes = [], 0, 0
        if size >= self._writes.target_size:
            self._end()

    def _rows_of_groups(self) -> int:
        """Return how many rows a row group has, so that it is at most about the target size in bytes.

        The buffered rows, which may have several times that size, are then written as several row groups.
        """
        if self._group_bytes is None or self.kept_bytes <= self._group_bytes:
            return self._group_rows
        return min(self._group_rows, max(1, self._rows * self._group_bytes // self.kept_bytes))

    def close(self) -> list[WrittenFile]:
        """Finish the last file and return all files of the partition."""
        self.flush()
        self._end()
        return self.done

    def abandon(self) -> None:
        """Close the open file, which is then invalid, ignoring errors. The caller deletes it, by `locations`."""
        if self._sink is not None:
            with suppress(OSError):
                self._sink.close()

    def _open_file(self, first: pa.Table, nans: Collection[int]) -> tuple[pq.ParquetWriter, pa.NativeFile]:
        """Return the writer and the stream of the open file; create a file if none is open.

        `first` are the rows to be written, and `nans` the indexes of the leaf columns with NaN in them. A new file has
        no footer statistics for these columns.
        """
        if self._writer is None or self._sink is None:
            self._location = self._writes.new_location(self._key, self._new_name())
            self.locations.append(self._location)
            self._sink = self._writes.storage.create(self._location)
            self._encryption = self._writes.new_key()
            self._counted = dict.fromkeys(nans, NanStatistics())
            options = {**self._writes.parquet_options, **encryption_arguments(self._encryption)}
            with storage_boundary("written", self._location, passing=pa.ArrowException):
                self._writer = pq.ParquetWriter(
                    self._sink,
                    self._schema,
                    store_decimal_as_integer=True,
                    use_dictionary=dictionary_columns(first),
                    write_statistics=self._columns_without(nans) if nans else True,
                    **options,
                )
        return self._writer, self._sink

    def _columns_without(self, leaves: Collection[int]) -> list[str]:
        """Return the paths, in the file, of all leaf columns except those at the indexes `leaves`."""
        left_out = {leaf_path(self._schema, self._leaves[n].places) for n in leaves}
        paths = (path for field in self._schema for path in leaf_paths(field.name, field.type))
        return [path for path in paths if path not in left_out]

    def _end(self) -> None:
        if self._writer is None or self._sink is None:
            return
        writer, sink = self._writer, self._sink
        with storage_boundary("written", self._location, passing=pa.ArrowException):
            writer.close()
            size = sink.tell()
            sink.close()
        metadata = writer.writer.metadata
        details = dict(self._writes.describe(FileStatistics.read_footer(metadata, self._leaves, self._counted)))
        if self._encryption is not None:
            details["key_metadata"] = self._encryption.metadata(size)
        self.done.append(WrittenFile(self._location, self._key, metadata.num_rows, size, details))
        self._writer = self._sink = None
        self._written, self._counted = 0, {}


# Arrow builds a dictionary for each column and drops it when it exceeds 1 MiB. For keys, times and measures, this takes
# most of the writing time, and the dictionary written until then makes the file larger.

_SAMPLE = 1 << 14  # sampled rows
_DISTINCT = 0.97  # distinct fraction of the sample; implies about 260,000 values, too many for any dictionary


def dictionary_columns(rows: pa.Table) -> bool | list[str]:
    """Return the paths of the leaf columns to dictionary-encode, or True for all.

    Columns whose values hardly ever repeat, by a sample of the rows, are left out. With few rows, all are encoded.

    Args:
        rows: The first rows of the file. The same rows always give the same result.

    Example:
        >>> dictionary_columns(pa.table({"id": range(100_000), "kind": [7] * 100_000}))
        ['kind']
    """
    if rows.num_rows < _SAMPLE:
        return True
    sample = pa.array(np.sort(np.random.default_rng(0).choice(rows.num_rows, _SAMPLE, replace=False)))
    plain = {n for n, column in enumerate(rows.columns) if _hardly_repeats(column, sample)}
    if not plain:
        return True
    others = (field for n, field in enumerate(rows.schema) if n not in plain)
    return [path for field in others for path in leaf_paths(field.name, field.type)]


def _hardly_repeats(column: pa.ChunkedArray, sample: pa.Array) -> bool:
    if column.type.num_fields or isinstance(column.type, pa.BaseExtensionType) or not _is_wide(column.type):
        return False
    values = column.take(sample)
    present = len(values) - values.null_count
    return present > _SAMPLE // 2 and pc.count_distinct(values).as_py() > _DISTINCT * present


def _is_wide(kind: pa.DataType) -> bool:
    """Return whether a type's values can have more than two bytes. Narrower values repeat, so a dictionary pays off."""
    return kind not in (pa.null(), pa.bool_(), pa.int8(), pa.int16())


def leaf_paths(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the paths of a field's leaf columns, as Arrow names them in Parquet files."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_struct(kind):
        for field in kind:
            yield from leaf_paths(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from leaf_paths(f"{path}.key_value.{kind.key_field.name}", kind.key_type)
        yield from leaf_paths(f"{path}.key_value.{kind.item_field.name}", kind.item_type)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from leaf_paths(f"{path}.list.element", kind.value_type)
    else:
        yield path


def leaf_path(schema: pa.Schema, places: Sequence[int]) -> str:
    """Return the dotted path of a leaf column inside structs.

    `places` are the positions of the fields from the top-level column down to the leaf, each in its parent.
    """
    field = schema.field(places[0])
    names = [field.name]
    for place in places[1:]:
        field = field.type.field(place)
        names.append(field.name)
    return ".".join(names)


_KEPT = 128 * 2**20  # most bytes of buffered rows in all partitions
_OPEN = 128  # maximum number of partitions with an open file
_TOGETHER = 1 << 16  # rows that are split by partition at once, since each partition in a batch has a fixed cost
_TOGETHER_BYTES = 32 * 2**20


def new_write_id() -> str:
    """Return 16 random hexadecimal digits, the prefix of the file names of one write."""
    return uuid.uuid4().hex[:16]


def remove_written(writes: TableWrites, write_id: str) -> Sequence[str]:
    """Delete all files of a write, whichever task wrote them, and return the locations that could not be deleted.

    The files are found by listing the data folder for names with `write_id`.
    """
    return writes.storage.remove(writes.storage.find(writes.data_folder, write_id))


def write_rows(
    writes: TableWrites, batches: Iterable[pa.RecordBatch], write_id: str, group_rows: int = GROUP_ROWS
) -> list[WrittenFile]:
    """Write rows of any partitions in any order to new data files; the name of each file contains `write_id`.

    `group_rows` is the maximum number of rows of a row group, which are buffered until it is written. Raises
    `SchemaMismatch` if the rows do not fit the table. All written files are deleted if the write fails.
    """
    writer = PartitionedWriter(writes, write_id, group_rows)
    try:
        for batch in batches:
            writer.write(batch)
        return writer.close()
    except BaseException:
        writer.undo()
        raise


class PartitionedWriter:
    """Writes batches of rows of any partitions to data files; `close` or `undo` ends it.

    `write_id` is part of the file names. `group_rows` is the maximum number of rows of a row group. Raises
    `UnsupportedFeature` for a table without columns in data files, such as one with only partition columns (Delta).
    """

    def __init__(self, writes: TableWrites, write_id: str, group_rows: int = GROUP_ROWS) -> None:
        self._writes, self._group_rows = writes, group_rows
        self._fit: tuple[pa.Schema, Fit] | None = None
        columns = writes.file_columns()
        if not columns:  # a Parquet file without columns has no rows
            raise UnsupportedFeature(f"writing to {writes.data_folder}, which has no columns for data files")
        self._places, self._schema = [place for place, _ in columns], pa.schema([field for _, field in columns])
        self._leaves = leaves_of([writes.schema.fields[place] for place in self._places])
        self._is_split = bool(writes.partition_names) and writes.is_fanned_out
        self._unsplit: list[pa.RecordBatch] = []
        self._unsplit_rows = self._unsplit_bytes = 0
        self._open: dict[Key, ParquetPartitionWriter] = {}  # in order of use, most recent last
        self._done: list[WrittenFile] = []
        self._locations: list[str] = []
        stem, number = f"{write_id}-{uuid.uuid4().hex[:12]}", count()
        self._new_name = lambda: f"{stem}-{next(number):05d}.parquet"

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows; raises `SchemaMismatch` if they do not fit the table."""
        if self._fit is None or self._fit[0] != batch.schema:
            self._fit = batch.schema, Fit.match_columns(self._writes.schema, batch.schema)
        for rows in self._fit[1].pieces(batch):
            if self._is_split:
                self._collect(rows)
            else:
                self._write_fitted(rows)

    def write_stored(self, key: Key, rows: pa.RecordBatch) -> None:
        """Write rows of the partition `key` as other data files have them, with physical names.

        Columns that the rows lack are null.
        """
        names = rows.schema.names
        columns = [
            retype(rows.column(field.name), field.type) if field.name in names else pa.nulls(rows.num_rows, field.type)
            for field in self._schema
        ]
        self._writer(key).write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def _collect(self, rows: pa.RecordBatch) -> None:
        """Buffer rows, and split them by partition when there are enough: Spark's batches have at most 10,000 rows."""
        self._unsplit.append(rows)
        self._unsplit_rows += rows.num_rows
        self._unsplit_bytes += rows.nbytes
        if self._unsplit_rows >= _TOGETHER or self._unsplit_bytes >= _TOGETHER_BYTES:
            self._split()

    def _split(self) -> None:
        batches, self._unsplit, self._unsplit_rows, self._unsplit_bytes = self._unsplit, [], 0, 0
        if len(batches) == 1:
            self._write_fitted(batches[0])
        elif batches:
            for rows in pa.Table.from_batches(batches).combine_chunks().to_batches():
                self._write_fitted(rows)

    def _write_fitted(self, rows: pa.RecordBatch) -> None:
        in_file = pa.RecordBatch.from_arrays([rows.column(place) for place in self._places], names=self._schema.names)
        for key, mine in split_by_partition(self._writes.partition_keys(rows), self._rename_columns(in_file)):
            self._writer(key).write(mine)
        while sum(each.kept_bytes for each in self._open.values()) > _KEPT:
            max(self._open.values(), key=lambda each: each.kept_bytes).flush()

    def close(self) -> list[WrittenFile]:
        """Finish all files and return them."""
        self._split()
        for writer in self._open.values():
            self._done += writer.close()
        return self._done

    def undo(self) -> None:
        """Delete all files of this writer, including unfinished ones. Files that cannot be deleted are ignored."""
        for writer in self._open.values():
            with contextlib.suppress(OSError, pa.ArrowException):
                writer.abandon()
            self._locations += writer.locations
        self._writes.storage.remove([*self._locations, *(file.location for file in self._done)])

    def _rename_columns(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the column names and field ids of data files, which are the table's physical names."""
        arrays = [retype(column, field.type) for column, field in zip(rows.columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _writer(self, key: Key) -> ParquetPartitionWriter:
        exact = exact_key(key)
        writer = self._open.pop(exact, None)
        if writer is None:
            if len(self._open) >= (_OPEN if self._writes.is_fanned_out else 1):
                oldest = next(iter(self._open))
                self._done += self._open.pop(oldest).close()
            writer = ParquetPartitionWriter(
                self._writes, key, self._schema, self._leaves, self._new_name, self._group_rows
            )
        self._open[exact] = writer
        return writer
