"""Opens data and delete files in any file format: Parquet, ORC, Avro."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import metadata_columns as m
from lakescan.common import types as t
from lakescan.common.metadata_columns import RESERVED_IDS
from lakescan.common.schema import Schema
from lakescan.errors import CorruptData, UnsupportedFeature
from lakescan.expressions.predicate import TRUE, Predicate
from lakescan.planning.task_groups import FileScanTask
from lakescan.reading.avro.file import open_avro
from lakescan.reading.context import ReadContext
from lakescan.reading.decoding_errors import decoding
from lakescan.reading.field_ids import FileField, read_fields
from lakescan.reading.orc import OrcData, matching_stripes, open_orc
from lakescan.reading.parquet.file import ParquetData, matching_row_groups, open_parquet
from lakescan.reading.projection import Projection, resolve
from lakescan.reading.record_batches import as_encoded, batch_of
from lakescan.storage import Storage
from lakescan.storage.encrypted_files import key_of
from lakescan.storage.errors import redact

_NAMES = {"orc": "ORC files", "avro": "Avro files"}


class DataFile(Protocol):
    """The interface of an open data or delete file.

    Its chunks (row groups, stripes or byte offsets) are numbered in file order.
    """

    @property
    def schema(self) -> pa.Schema:
        """The file's Arrow schema, with field ids in the fields' metadata."""

    @property
    def rows(self) -> int | None:
        """The row count in the file's footer. For Avro, which has no footer, None until the last row was read."""

    def chunks(self, start: int, stop: int) -> Sequence[int]:
        """Return the numbers of the chunks whose first byte is in [start, stop); raises `CorruptData`."""

    def batches(
        self, chunks: Sequence[int], projection: Projection, batch_size: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read the projection's columns of these chunks; yield the file position of the first row, and the batch.

        Batches have exactly the columns and members `Projection.read`. Raises `CorruptData`.
        """


def open_data_file(
    storage: Storage, path: str, file_format: str, key_metadata: bytes | None = None, *, verify: bool = False
) -> AbstractContextManager[DataFile]:
    """Context manager: open a file, and if it is encrypted, decrypt it with the storage's key manager.

    `file_format` is parquet, orc or avro. `verify`: check the checksums of Parquet pages, if present. Raises
    `MissingFile`, `CorruptData`, and `UnsupportedFeature` for a format or encryption that cannot be read.
    """
    if file_format == "parquet":
        return open_parquet(storage, path, key_metadata, verify=verify)
    if file_format not in _NAMES:
        raise UnsupportedFeature(
            f"{file_format} data files", f"Supported are parquet, orc and avro. The file is {redact(path)}."
        )
    # ORC's own encryption is not part of Iceberg's specification, and refused by Java.
    key = key_of(storage, path, key_metadata, _NAMES[file_format])
    return (open_orc if file_format == "orc" else open_avro)(storage, path, key)


@dataclass(frozen=True)
class TaskRows:
    """The rows of an open task, before deletes and residual are applied.

    `data` is the open file, and `fields` are its columns. `chunks` are the row groups, stripes or byte offsets to read,
    in file order.
    """

    data: DataFile
    task: FileScanTask
    context: ReadContext
    fields: tuple[FileField, ...]
    chunks: Sequence[int]

    def batches(
        self,
        columns: Schema,
        chunks: Sequence[int] | None = None,
        *,
        encoded: bool = False,
        most_rows: int | None = None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the file position of the first row, and a batch of the table's columns `columns`.

        `chunks` are some of the task's chunks, by default all. `encoded`: columns may be dictionary arrays of their
        type, which `decode_dictionaries` decodes. Batches have at most `most_rows` rows if that is fewer than in the
        context. Raises `CorruptData`.
        """
        size = self.context.batch_size if most_rows is None else min(self.context.batch_size, most_rows)
        chunks = self.chunks if chunks is None else chunks
        if not chunks:
            return
        projection = resolve(self.fields, columns, self.context.matching, self.task.constants)
        schema = columns.arrow()
        for first, batch in self.data.batches(chunks, projection, size):
            filled = [
                metadata_values(field, array, self.task, first) if field.id in RESERVED_IDS else array
                for field, array in zip(columns.fields, projection.apply(batch, encoded=encoded), strict=True)
            ]
            yield first, batch_of(filled, as_encoded(schema, filled) if encoded else schema, batch.num_rows)
        check_rows(self.task.path, self.data.rows, self.task.record_count)  # for Avro, known if the end was read


@contextmanager
def open_rows(
    task: FileScanTask,
    context: ReadContext,
    columns: Schema,
    residual: Predicate = TRUE,
    storage: Storage | None = None,
) -> Iterator[TaskRows]:
    """Context manager: open a task's file, without row groups or stripes that statistics exclude by `residual`.

    `columns` must include the columns of `residual`. `storage` replaces the context's. Raises `MissingFile`, and
    `CorruptData`, also while rows are read, if the file cannot be decoded, or its row count differs from its footer or
    the table metadata.
    """
    where = context.storage if storage is None else storage
    opened = open_data_file(where, task.path, task.file_format, task.key_metadata, verify=context.verify)
    with opened as data, decoding(task.path, "its rows"):
        check_rows(task.path, data.rows, task.record_count)
        if context.matching.legacy_calendar and isinstance(data, ParquetData):
            data = data.as_spark_reads()
        fields = read_fields(data.schema, context.matching)
        chunks = data.chunks(task.start, task.stop)
        if residual != TRUE and isinstance(data, ParquetData | OrcData):
            projection = resolve(fields, columns, context.matching, task.constants)
            if isinstance(data, OrcData):
                chunks = matching_stripes(data, chunks, residual, fields, projection, columns)
            else:
                chunks = matching_row_groups(data, chunks, residual, fields, projection, columns)
        yield TaskRows(data, task, context, fields, chunks)


def row_batches(
    task: FileScanTask, context: ReadContext, columns: Schema, residual: Predicate = TRUE
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the file position of the first row, and a batch of these columns of a task, before deletes.

    See `open_rows` for the parameters and errors.
    """
    with open_rows(task, context, columns, residual) as rows:
        yield from rows.batches(columns)


def check_rows(path: str, rows: int | None, recorded: int | None) -> None:
    """Raise `CorruptData` if a file's row count differs from `recorded`, that of the table metadata.

    Unknown counts (None; -1 in the metadata) pass.
    """
    if rows is not None and recorded is not None and recorded >= 0 and rows != recorded:
        raise CorruptData(
            f"{redact(path)} has {rows:,} rows, but the table's metadata records {recorded:,}: the file is damaged, or "
            "was "
            "replaced by another one. Restore it, or the metadata that references it."
        )


def metadata_values(field: t.Field, stored: pa.Array, task: FileScanTask, first: int) -> pa.Array:
    """Return the values of a metadata column for a batch whose first row is at position `first`.

    `stored` is the column in the file, or nulls. Only row lineage is ever stored; it is null if a row inherits it from
    the file (Iceberg specification, "Row Lineage").
    """
    rows = len(stored)
    match field.id:
        case m.FILE.id:
            return pa.repeat(pa.scalar(task.path), rows)
        case m.POS.id:
            return pa.array(np.arange(first, first + rows, dtype=np.int64))
        case m.SPEC_ID.id:
            return pa.repeat(pa.scalar(task.spec_id, pa.int32()), rows)
        case m.DELETED.id:
            return pa.repeat(False, rows)
        case m.ROW_ID.id if task.first_row_id is not None:
            start = task.first_row_id + first
            return pc.coalesce(stored, pa.array(np.arange(start, start + rows, dtype=np.int64)))
        case m.LAST_UPDATED.id if task.first_row_id is not None:
            return pc.fill_null(stored, pa.scalar(task.sequence_number, pa.int64()))
        case m.PARTITION_ID:
            return _partition(field.type, task.partition, rows)
    return stored


def _partition(kind: t.Type, values: pa.Scalar, rows: int) -> pa.Array:
    """Return the struct column `_partition` of `rows` equal rows, with the fields of all partition specs.

    Fields that the file's own spec, whose values are `values`, lacks are null.
    """
    assert isinstance(kind, t.Struct)
    present = {f.name for f in values.type}
    members = [
        pa.repeat(values[f.name].cast(f.type.arrow()), rows) if f.name in present else pa.nulls(rows, f.type.arrow())
        for f in kind.fields
    ]
    if not members:
        return pa.array([{}] * rows, pa.struct([]))
    return pa.StructArray.from_arrays(members, fields=[f.arrow() for f in kind.fields])
