"""The `position_deletes` table: all deleted positions of a snapshot, from delete files and deletion vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakescan.common import types as t
from lakescan.common.metadata_columns import PARTITION_ID, SPEC_ID
from lakescan.common.schema import FieldMatching, Schema
from lakescan.iceberg.manifests.manifest_checks import DELETED
from lakescan.iceberg.manifests.manifest_list import DELETES
from lakescan.iceberg.manifests.snapshot_manifests import snapshot_manifests
from lakescan.iceberg.metadata.table_metadata import IcebergSnapshot, TableMetadata
from lakescan.iceberg.metadata_tables.entries import read_entries
from lakescan.planning.delete_file import DeleteFile, DeleteKind
from lakescan.planning.split import NO_END
from lakescan.reading.data_file import open_data_file
from lakescan.reading.deletes.positions import DELETED_PATH, DELETED_POSITION
from lakescan.reading.deletes.vectors import load_vector
from lakescan.reading.file_schema import read_fields
from lakescan.reading.projection import resolve
from lakescan.storage import Storage

_BY_ID = FieldMatching(by_id=True)
_BATCH = 1 << 16
_ROW_ID = 2147483544
_POSITION_CONTENT = 1


@dataclass(frozen=True)
class PositionDeletesTable:
    """One row per deleted position. `row` has the deleted row if its writer stored it."""

    metadata: TableMetadata
    storage: Storage
    snapshot: IcebergSnapshot | None

    @cached_property
    def schema(self) -> Schema:
        """The delete, its partition and spec, the delete file and, from version 3 on, a vector's offset and size."""
        partition = self.metadata.partition_type
        shown = (t.Field(PARTITION_ID, "partition", partition),) if partition.fields else ()
        vectors = (
            t.Field(2147483547, "content_offset", t.LONG),
            t.Field(2147483548, "content_size_in_bytes", t.LONG),
        )
        return Schema(
            (
                *self._stored.fields,
                *shown,
                t.Field(SPEC_ID.id, "spec_id", t.INT, required=True),
                t.Field(2147483646, "delete_file_path", t.STRING, required=True),
                *(vectors if self.metadata.format_version >= 3 else ()),
            )
        )

    @cached_property
    def _stored(self) -> Schema:
        """The columns stored in position delete files."""
        return Schema((DELETED_PATH, DELETED_POSITION, t.Field(_ROW_ID, "row", self.metadata.schema.struct())))

    def parts(self) -> Sequence[Mapping[str, Any]]:
        """The live position delete files and deletion vectors, each a dictionary of scalars."""
        if self.snapshot is None:
            return ()
        parts: list[Mapping[str, Any]] = []
        for manifest in snapshot_manifests(self.snapshot, self.metadata, self.storage).to_pylist():
            if manifest["content"] != DELETES:
                continue
            entries = read_entries(manifest, self.metadata, self.storage)
            files = entries.filter(pc.not_equal(entries["status"], DELETED))["data_file"].combine_chunks()
            wanted = files.filter(pc.equal(files.field("content"), _POSITION_CONTENT))
            parts += [{name: wanted.field(name)[i] for name in self._used(wanted)} for i in range(len(wanted))]
        return parts

    @staticmethod
    def _used(files: pa.StructArray) -> list[str]:
        names = ("file_path", "file_format", "spec_id", "partition", "record_count", "key_metadata")
        vector = ("referenced_data_file", "content_offset", "content_size_in_bytes")
        return [n for n in (*names, *vector) if files.type.get_field_index(n) >= 0]

    def read(self, part: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The positions deleted by one delete file or deletion vector."""
        columns = self._vector(part) if part["file_format"].as_py() == "PUFFIN" else self._file(part)
        constants = {
            "spec_id": part["spec_id"],
            "delete_file_path": part["file_path"],
            "content_offset": part["content_offset"],
            "content_size_in_bytes": part["content_size_in_bytes"],
        }
        if "partition" in part:
            constants["partition"] = part["partition"]
        arrow = self.schema.arrow()
        for stored in columns:
            rest = [pa.repeat(constants[f.name], len(stored[0])).cast(f.type) for f in list(arrow)[len(stored) :]]
            yield pa.RecordBatch.from_arrays([*stored, *rest], schema=arrow)

    def _vector(self, part: Mapping[str, Any]) -> Iterator[list[pa.Array]]:
        positions = load_vector(
            self.storage,
            DeleteFile(
                DeleteKind.VECTOR,
                path=part["file_path"].as_py(),
                offset=part["content_offset"].as_py(),
                length=part["content_size_in_bytes"].as_py(),
                record_count=part["record_count"].as_py(),
                key_metadata=part["key_metadata"].as_py(),
            ),
        )
        for start in range(0, len(positions), _BATCH):
            chunk = pa.array(np.array(positions[start : start + _BATCH].to_array(), dtype=np.int64))
            row = pa.nulls(len(chunk), self._stored.fields[2].type.arrow())
            yield [pa.repeat(part["referenced_data_file"], len(chunk)), chunk, row]

    def _file(self, part: Mapping[str, Any]) -> Iterator[list[pa.Array]]:
        with open_data_file(
            self.storage, part["file_path"].as_py(), part["file_format"].as_py().lower(), part["key_metadata"].as_py()
        ) as data:
            projection = resolve(read_fields(data.schema, _BY_ID), self._stored, _BY_ID, {})
            for _, batch in data.batches(data.chunks(0, NO_END), projection, _BATCH):
                yield projection.apply(batch)
