"""Files of position deletes and deletion vectors with other paths of the data files that they name."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakescan.errors import CorruptData, UnsupportedFeature
from lakescan.iceberg.maintenance.rewrite_table_path.prefixes import Prefixes
from lakescan.reading.decoding import decoding
from lakescan.reading.deletes.positions import DELETED_PATH
from lakescan.reading.parquet.file import open_parquet
from lakescan.storage import Storage
from lakescan.storage.faults import redact, storage_boundary
from lakescan.writing.puffin import MAGIC

_WHAT = "a deleted row's data file"
_TAIL = 12  # bytes of a Puffin footer after its payload: the payload's size, flags, the magic
_REFERENCED = "referenced-data-file"


@dataclass(frozen=True)
class DeleteFileMove:
    """Writes delete files again, below the staging prefix; pickled for workers."""

    prefixes: Prefixes
    staging: Prefixes
    storage: Storage

    def __call__(self, file: tuple[str, str]) -> tuple[str, int]:
        """Rewrite a file, given by its path and format; return its path and new size in bytes."""
        path, file_format = file
        location = self.staging.move(path, "the delete file")
        if file_format == "puffin":
            data = move_vectors(self.storage.read(path), path, self.prefixes)
            with self.storage.create(location) as sink:
                sink.write(data)
            return path, len(data)
        if file_format == "parquet":
            return path, self._parquet(path, location)
        raise UnsupportedFeature(
            f"rewriting the paths of position deletes in {file_format} files",
            f"{path} is one. Table.rewrite_position_deletes(rewrite_all=True) makes Parquet files of them; expire the "
            "snapshots that have it.",
        )

    def _parquet(self, path: str, location: str) -> int:
        """Rewrite the paths in a Parquet file, a row group at a time; all other columns stay."""
        with open_parquet(self.storage, path) as data, decoding(path, "its position deletes"):
            file = data.file
            schema = file.schema_arrow
            place = _path_column(schema, path)
            field = schema.field(place).with_type(pa.dictionary(pa.int32(), pa.string()))
            schema = schema.set(place, field).remove_metadata()
            written = {name: value for name, value in (file.metadata.metadata or {}).items() if name != b"ARROW:schema"}
            with (
                self.storage.create(location) as sink,
                storage_boundary("written", location, passing=pa.ArrowException),
            ):
                with pq.ParquetWriter(sink, schema, compression="zstd", store_schema=False) as writer:
                    for number in range(file.num_row_groups):
                        writer.write_table(self._move_paths(file.read_row_group(number), place, schema))
                    writer.add_key_value_metadata(written)
                return int(sink.tell())

    def _move_paths(self, rows: pa.Table, place: int, schema: pa.Schema) -> pa.Table:
        paths = rows.column(place).cast(pa.string()).combine_chunks().dictionary_encode()
        names = self.prefixes.move_all(paths.dictionary, _WHAT)
        moved = pa.DictionaryArray.from_arrays(paths.indices, names)
        columns = [moved if number == place else column for number, column in enumerate(rows.columns)]
        return pa.table(columns, schema=schema)


def _path_column(schema: pa.Schema, path: str) -> int:
    ids = [(field.metadata or {}).get(b"PARQUET:field_id") for field in schema]
    wanted = str(DELETED_PATH.id).encode()
    place = ids.index(wanted) if wanted in ids else schema.get_field_index(DELETED_PATH.name)
    if place < 0:
        raise CorruptData(f"{redact(path)} lacks the column 'file_path': it was replaced by another file. Restore it.")
    return place


def move_vectors(data: bytes, path: str, prefixes: Prefixes) -> bytes:
    """A Puffin file whose blobs name other data files; they stay where they are in it.

    Raises `CorruptData` for what is no Puffin file, `UnsupportedFeature` for a compressed footer.
    """
    size = int.from_bytes(data[-_TAIL : 4 - _TAIL], "little") if len(data) >= _TAIL + 8 else -1
    start = len(data) - _TAIL - size - len(MAGIC)
    if size < 0 or start < len(MAGIC) or {data[:4], data[-4:], data[start : start + 4]} != {MAGIC}:
        raise CorruptData(f"{redact(path)} is not a Puffin file: restore it")
    flags = data[4 - _TAIL : -4]
    if flags[0] & 1:
        raise UnsupportedFeature("Puffin files with a compressed footer", f"{path} is one.")
    try:
        footer = json.loads(data[start + 4 : start + 4 + size])
        blobs = [_move_blob(each, prefixes) for each in footer.get("blobs", [])]
    except (ValueError, AttributeError, TypeError) as error:
        raise CorruptData(f"{redact(path)} has a footer that is no JSON object of blobs: restore it") from error
    payload = json.dumps({**footer, "blobs": blobs}, ensure_ascii=False).encode()
    return data[:start] + MAGIC + payload + len(payload).to_bytes(4, "little") + flags + MAGIC


def _move_blob(blob: dict[str, Any], prefixes: Prefixes) -> dict[str, Any]:
    properties = blob.get("properties") or {}
    if _REFERENCED not in properties:
        return blob
    return {**blob, "properties": {**properties, _REFERENCED: prefixes.move(properties[_REFERENCED], _WHAT)}}
