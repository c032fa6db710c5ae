"""The `position_deletes` table: all deleted positions of a snapshot, from delete files and deletion vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.metadata_columns import PARTITION_ID, SPEC_ID
from lakescan.common.schema import FieldMatching, Schema
from lakescan.iceberg.manifests.manifest_file import DELETED, DELETES, POSITION_DELETES, manifest_files
from lakescan.iceberg.manifests.manifest_list import snapshot_manifests
from lakescan.iceberg.metadata.format_versions import VERSIONS
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.metadata_tables.entries import table_entries
from lakescan.planning.delete_files import DeleteFile, DeleteKind
from lakescan.planning.split import NO_END
from lakescan.reading.data_file import open_data_file
from lakescan.reading.deletes.deletion_vectors import load_vector
from lakescan.reading.deletes.position_deletes import DELETED_PATH, DELETED_POSITION
from lakescan.reading.field_ids import read_fields
from lakescan.reading.projection import resolve
from lakescan.storage import Storage

_BY_ID = FieldMatching(by_id=True)
_BATCH = 1 << 16
_ROW_ID = 2147483544


_NAMES = [
    "file_path",
    "file_format",
    "spec_id",
    "record_count",
    "key_metadata",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
]


@dataclass(frozen=True)
class _Part:
    """One delete file or deletion vector, with its spec id and its partition.

    `partition` is None in an unpartitioned table. `data_file` is the referenced data file, if recorded.
    """

    delete: DeleteFile
    spec_id: int
    partition: pa.Scalar | None
    data_file: str | None


@dataclass(frozen=True)
class PositionDeletesTable:
    """One row per deleted position. `row` has the deleted row if its writer stored it."""

    metadata: TableMetadata
    storage: Storage
    snapshot: IcebergSnapshot | None

    @cached_property
    def schema(self) -> Schema:
        """The delete, its partition and spec id, the delete file and, from version 3 on, a vector's offset and size."""
        partition = self.metadata.partition_type
        shown = (t.Field(PARTITION_ID, "partition", partition),) if partition.fields else ()
        vectors = (
            t.Field(2147483547, "content_offset", t.LONG),
            t.Field(2147483548, "content_size_in_bytes", t.LONG),
        )
        return Schema(
            (
                *self._stored_schema.fields,
                *shown,
                t.Field(SPEC_ID.id, "spec_id", t.INT, required=True),
                t.Field(2147483646, "delete_file_path", t.STRING, required=True),
                *(vectors if VERSIONS[self.metadata.format_version].deletion_vectors else ()),
            )
        )

    @cached_property
    def _stored_schema(self) -> Schema:
        """The columns stored in position delete files."""
        return Schema((DELETED_PATH, DELETED_POSITION, t.Field(_ROW_ID, "row", self.metadata.schema.struct())))

    def parts(self) -> Sequence[_Part]:
        """Return the live position delete files and deletion vectors; nothing for a table without snapshots."""
        if self.snapshot is None:
            return ()
        parts: list[_Part] = []
        for manifest in manifest_files(snapshot_manifests(self.snapshot, self.metadata, self.storage)):
            if manifest.content != DELETES:
                continue
            entries = table_entries(manifest, self.metadata, self.storage)
            files = entries.filter(pc.not_equal(entries["status"], DELETED))["data_file"].combine_chunks()
            parts += _parts_of(files.filter(pc.equal(files.field("content"), POSITION_DELETES)))
        return parts

    def read(self, part: _Part) -> Iterator[pa.RecordBatch]:
        """Yield the positions that one delete file or deletion vector deletes."""
        delete = part.delete
        is_vector = delete.kind == DeleteKind.VECTOR
        constants: dict[str, Any] = {
            "partition": part.partition,
            "spec_id": part.spec_id,
            "delete_file_path": delete.path,
            "content_offset": delete.offset,
            "content_size_in_bytes": delete.length,
        }
        arrow = self.schema.arrow()
        for stored in self._vector(part) if is_vector else self._file(delete):
            rest = [_repeat_value(constants[f.name], f.type, len(stored[0])) for f in list(arrow)[len(stored) :]]
            yield pa.RecordBatch.from_arrays([*stored, *rest], schema=arrow)

    def _vector(self, part: _Part) -> Iterator[list[pa.Array]]:
        positions = load_vector(self.storage, part.delete)
        for start in range(0, len(positions), _BATCH):
            chunk = pa.array(np.array(positions[start : start + _BATCH].to_array(), dtype=np.int64))
            row = pa.nulls(len(chunk), self._stored_schema.fields[2].type.arrow())
            yield [_repeat_value(part.data_file, pa.string(), len(chunk)), chunk, row]

    def _file(self, delete: DeleteFile) -> Iterator[list[pa.Array]]:
        with open_data_file(self.storage, delete.location, delete.row_format, delete.key_metadata) as data:
            projection = resolve(read_fields(data.schema, _BY_ID), self._stored_schema, _BY_ID, {})
            for _, batch in data.batches(data.chunks(0, NO_END), projection, _BATCH):
                yield projection.apply(batch)


def _parts_of(files: pa.StructArray) -> Iterator[_Part]:
    """Yield the delete files and deletion vectors of one manifest."""
    columns = pa.Table.from_struct_array(files)
    partitions = columns["partition"] if "partition" in columns.column_names else [None] * len(files)
    for row, partition in zip(columns.select(_NAMES).to_pylist(), partitions, strict=True):
        file_format = row["file_format"].lower()
        delete = DeleteFile(
            DeleteKind.VECTOR if file_format == "puffin" else DeleteKind.POSITION,
            path=row["file_path"],
            file_format=file_format,
            offset=row["content_offset"],
            length=row["content_size_in_bytes"],
            record_count=row["record_count"],
            key_metadata=row["key_metadata"],
        )
        yield _Part(delete, row["spec_id"], partition, row["referenced_data_file"])


def _repeat_value(value: Any, kind: pa.DataType, rows: int) -> pa.Array:
    scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, kind)
    return pa.repeat(scalar, rows).cast(kind)
